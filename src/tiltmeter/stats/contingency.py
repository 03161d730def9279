"""How often groups do something, compared: counts `a` of `n` in one group beside `c` of `m` in another, very many tests at once.

All functions are vectorised over tests, take whole counts, and give p = 1 where the margins leave nothing to test (an empty
group, nobody does it, everybody does). `greater` is the one-sided test of choice; the two it is made of are public as well.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtr

from tiltmeter.stats._hypergeometric import convolved_tail, upper_tail

__all__ = [
    "Difference",
    "exact_greater",
    "greater",
    "independence_p",
    "rate_difference",
    "stratified_greater",
    "stratified_rate_difference",
    "z_greater",
]

Floats = NDArray[np.float64]

SMALL = 5.0  # Cochran's rule: below this expected count the normal approximation of a 2 x 2 table is not trusted


class Difference(NamedTuple):
    """Rate of the group minus rate of the others, with the ends of its interval; NaN where a group is empty."""

    estimate: Floats
    low: Floats
    high: Floats


def independence_p(a: ArrayLike, n: ArrayLike) -> Floats:
    """Return the p-value of the chi-squared test of independence for tables of k groups x (does, does not).

    Args:
        a: (tests, k) how many of each group do; 0 <= a <= n.
        n: (tests, k), or what broadcasts to it: sizes of the groups. Empty groups are left out of their table.

    Returns:
        (tests,) p-values with as many degrees of freedom as there are groups less one; Yates' continuity correction is made
        for two groups only. 1 where fewer than two groups, nobody or everybody is left.

    Source: Pearson (1900); Yates (1934). Agrees with `scipy.stats.chi2_contingency`, which takes one table at a time.
    """
    does, size = _counts(a, n)
    total = size.sum(axis=-1, keepdims=True)
    does_all = does.sum(axis=-1, keepdims=True)
    free = (size > 0).sum(axis=-1) - 1
    expected = np.stack([size * does_all, size * (total - does_all)]) / np.maximum(total, 1)
    gap = np.abs(np.stack([does, size - does]) - expected)
    gap -= np.where((free == 1)[..., None], np.minimum(0.5, gap), 0.0)
    statistic = np.divide(gap**2, expected, out=np.zeros_like(gap), where=expected > 0).sum(axis=(0, -1))
    p: Floats = np.where(free > 0, chdtrc(np.maximum(free, 1), statistic), 1.0)
    return p


def greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Return the one-sided p-value that the rate a/n is greater than c/m.

    `exact_greater` where the smallest expected count of the 2 x 2 table is below 5, `z_greater` elsewhere.

    Args:
        a: Count in the group; any shape, the four broadcast together.
        n: Size of the group.
        c: Count in the others.
        m: Size of the others.

    Raises:
        ValueError: if a count is negative or above its size.
    """
    a, n, c, m = _counts(a, n, c, m)
    p = z_greater(a, n, c, m)
    does, total = a + c, np.maximum(n + m, 1)
    small = np.minimum(does, total - does) * np.minimum(n, m) < SMALL * total
    p[small] = exact_greater(a[small], n[small], c[small], m[small])
    return p


def z_greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Return the one-sided p-value that a/n is greater than c/m, by the normal approximation with continuity correction.

    Arguments as for `greater`. Half the p-value of `independence_p` wherever a exceeds its expectation by half a count or more.

    Source: Yates (1934).
    """
    a, n, c, m = _counts(a, n, c, m)
    does, total = a + c, n + m
    variance = n * m * does * (total - does)
    sd = np.sqrt(variance / np.maximum(total, 1) ** 3)
    excess = a - 0.5 - does * n / np.maximum(total, 1)
    p: Floats = np.where(variance > 0, ndtr(-np.divide(excess, sd, out=np.zeros_like(sd), where=sd > 0)), 1.0)
    return p


def exact_greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Return the one-sided p-value of Fisher's exact test that a/n is greater than c/m.

    It is the hypergeometric chance of `a` or more, given the margins. The tail is summed upwards from its first term, so that
    tiny p-values keep their relative precision. Arguments as for `greater`.

    Source: Fisher (1935).
    """
    shape = np.broadcast_shapes(*(np.shape(x) for x in (a, n, c, m)))
    a, n, c, m = (x.ravel() for x in _counts(a, n, c, m))
    p = np.ones(a.shape)
    above = a * (n + m) > (a + c) * n
    p[above] = upper_tail(a[above], n[above], c[above], m[above])
    # At or below the expectation the other tail is the short one: the others have one more or still more.
    below = ~above & (a > 0) & (c < m)
    p[below] = 1.0 - upper_tail(c[below] + 1, m[below], a[below] - 1, n[below])
    return p.reshape(shape)


def stratified_greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Return the one-sided p-value that a group's rate is greater than the others', compared within strata only.

    Strata in which one of the two is empty say nothing and are passed over. The normal approximation (Cochran, Mantel and
    Haenszel, with continuity correction) is used where the sum of the counts can deviate from its expectation by 5 or more
    both ways (Mantel and Fleiss); elsewhere the exact conditional distribution of the sum, a convolution of hypergeometrics.

    Args:
        a: (..., strata) counts in the group; the four broadcast together.
        n: Sizes of the group.
        c: Counts in the others.
        m: Sizes of the others.

    Returns:
        (...) p-values.

    Raises:
        ValueError: if a count is negative or above its size.

    Source: Mantel and Haenszel (1959); Mantel and Fleiss (1980); Mehta, Patel and Gray (1985).
    """
    cells = _counts(a, n, c, m)
    shape, strata = cells[0].shape[:-1], cells[0].shape[-1]
    a, n, c, m = (x.reshape(-1, strata) for x in cells)
    does, total = a + c, np.maximum(n + m, 1)
    expected = does * n / total
    variance = (n * m * does * (total - does) / (total**2 * np.maximum(total - 1, 1))).sum(axis=-1)
    lowest, highest = np.maximum(does - m, 0), np.minimum(n, does)
    room = np.minimum((expected - lowest).sum(axis=-1), (highest - expected).sum(axis=-1))
    excess = (a - expected).sum(axis=-1) - 0.5
    p = np.ones(variance.shape)
    normal = (room >= SMALL) & (variance > 0)
    p[normal] = ndtr(-excess[normal] / np.sqrt(variance[normal]))
    # Strata without any choice give their only count for certain, so that they pass through the convolution unharmed.
    exact = ~normal & (variance > 0)
    p[exact] = convolved_tail(a[exact], n[exact], c[exact], m[exact])
    return p.reshape(shape)


def rate_difference(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike, level: float = 0.95) -> Difference:
    """Return a/n - c/m with Newcombe's interval (his method 10: both Wilson intervals, joined by squares).

    Arguments as for `greater`; `level` is the confidence level.

    Source: Newcombe (1998), "Interval estimation for the difference between independent proportions".
    """
    a, n, c, m = _counts(a, n, c, m)
    return stratified_rate_difference(a[..., None], n[..., None], c[..., None], m[..., None], level)


def stratified_rate_difference(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike, level: float = 0.95) -> Difference:
    """Return the Mantel-Haenszel difference of rates over strata, with a stratified Newcombe interval.

    Each stratum weighs n*m/(n+m). The interval joins a Wilson interval of either group's weighted rate, whose effective size
    1 / sum(w**2 / n) has the same variance; it is Newcombe's for one stratum and a little wide where strata differ much.

    Args:
        a: (..., strata) counts in the group; the four broadcast together.
        n: Sizes of the group.
        c: Counts in the others.
        m: Sizes of the others.
        level: Confidence level.

    Returns:
        A difference of shape (...); NaN where no stratum has both.

    Raises:
        ValueError: if a count is negative or above its size.

    Source: Mantel and Haenszel (1959); Yan and Su (2010), "Stratified Wilson and Newcombe confidence intervals".
    """
    a, n, c, m = _counts(a, n, c, m)
    weight = n * m / np.maximum(n + m, 1)
    total = weight.sum(axis=-1, keepdims=True)
    weight = np.divide(weight, total, out=np.full_like(weight, np.nan), where=total > 0)
    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    rate, down, up = _weighted_wilson(a, n, weight, z)
    rate_others, down_others, up_others = _weighted_wilson(c, m, weight, z)
    estimate = rate - rate_others
    return Difference(estimate, estimate - np.hypot(down, up_others), estimate + np.hypot(up, down_others))


def _weighted_wilson(a: Floats, n: Floats, weight: Floats, z: float) -> tuple[Floats, Floats, Floats]:
    """The weighted rate, and how far its Wilson interval reaches down and up from it."""
    size = np.maximum(n, 1)
    rate = (weight * (a / size)).sum(axis=-1)
    effective = 1.0 / (weight**2 / size).sum(axis=-1)
    centre = (rate * effective + z * z / 2) / (effective + z * z)
    half = z / (effective + z * z) * np.sqrt(np.maximum(rate * (1 - rate), 0) * effective + z * z / 4)
    return rate, np.maximum(rate - (centre - half), 0), np.maximum(centre + half - rate, 0)


def _counts(*given: ArrayLike) -> tuple[Floats, ...]:
    """Counts and sizes by turns as float arrays of one shape (whole numbers are exact in them up to 2**53)."""
    arrays = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in given))
    for count, size in zip(arrays[::2], arrays[1::2], strict=True):
        if not ((count >= 0) & (count <= size)).all():
            raise ValueError("counts must lie between 0 and the size of their group")
    return tuple(arrays)
