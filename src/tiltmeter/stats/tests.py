"""Tests of counts, very many at once: is a rate greater, do groups differ, and which of many findings count.

Counts `a` of `n` in one group stand beside `c` of `m` in another. All functions are vectorised over tests, take whole counts, and
give p = 1 where the margins leave nothing to test (an empty group, a count of 0, a count of all). `greater` is the one-sided
test of choice; the two it is made of are public as well.
"""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import ArrayLike

from tiltmeter.arrays import Floats
from tiltmeter.stats.arithmetic import count_present, floats, ratio
from tiltmeter.stats.rates import counts_and_sizes

SMALL = 5.0
"""Cochran's rule: below this expected count the normal approximation of a 2 x 2 table is not trusted."""
TABLE_CELLS = 1 << 21
"""Array elements that exact tests over strata hold at once (16 MiB)."""


def independence_p(a: ArrayLike, n: ArrayLike) -> Floats:
    """Return the p-value of the chi-squared test of independence for tables of k groups x (does, does not).

    Parameters
    ----------
    a
        (tests, k) how many of each group do; 0 <= a <= n.
    n
        (tests, k), or what broadcasts to it: sizes of the groups. Empty groups are left out of their table.

    Returns
    -------
    (tests,) p-values with as many degrees of freedom as there are groups less one; Yates' continuity correction is made
    for two groups only. 1 where fewer than two groups, a count of 0 or a count of all is left.

    References
    ----------
    Pearson (1900); Yates (1934). Agrees with `scipy.stats.chi2_contingency`, which takes one table at a time.
    """
    does, size = counts_and_sizes(a, n)
    total = size.sum(axis=-1, keepdims=True)
    does_all = does.sum(axis=-1, keepdims=True)
    free = (size > 0).sum(axis=-1) - 1
    expected = np.stack([size * does_all, size * (total - does_all)]) / np.maximum(total, 1)
    gap = np.abs(np.stack([does, size - does]) - expected)
    gap -= np.where((free == 1)[..., None], np.minimum(0.5, gap), 0.0)
    statistic = np.nansum(ratio(gap**2, expected), axis=(0, -1))
    return np.where(free > 0, scipy.special.chdtrc(np.maximum(free, 1), statistic), 1.0)


def greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Return the one-sided p-value that the rate a/n is greater than c/m.

    `exact_greater` where the smallest expected count of the 2 x 2 table is below 5, `z_greater` elsewhere.

    Parameters
    ----------
    a
        Count in the group; any shape, the four broadcast together.
    n
        Size of the group.
    c
        Count in the others.
    m
        Size of the others.

    Raises
    ------
    ValueError
        If a count is negative or above its size.
    """
    a, n, c, m = counts_and_sizes(a, n, c, m)
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
    a, n, c, m = counts_and_sizes(a, n, c, m)
    does, total = a + c, np.maximum(n + m, 1)
    sd = np.sqrt(n * m * does * (n + m - does) / total**3)
    return np.where(sd > 0, scipy.special.ndtr(-ratio(a - 0.5 - does * n / total, sd)), 1.0)


def exact_greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Return the one-sided p-value of Fisher's exact test that a/n is greater than c/m.

    It is the hypergeometric chance of `a` or more, given the margins; tiny p-values keep their relative precision. Arguments as for
    `greater`.

    Source: Fisher (1935).
    """
    a, n, c, m = counts_and_sizes(a, n, c, m)
    return np.asarray(scipy.stats.hypergeom.sf(a - 1, *_margins(a, n, c, m)))


def stratified_greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Return the one-sided p-value that a group's rate is greater than the others', compared within strata only.

    Strata in which one of the two is empty say nothing and are passed over. The normal approximation (Cochran, Mantel and
    Haenszel, with continuity correction) is used where the sum of the counts can deviate from its expectation by 5 or more
    both ways (Mantel and Fleiss); elsewhere the exact conditional distribution of the sum, a convolution of hypergeometrics.

    Parameters
    ----------
    a
        (..., strata) counts in the group; the four broadcast together.
    n
        Sizes of the group.
    c
        Counts in the others.
    m
        Sizes of the others.

    Returns
    -------
    (...) p-values.

    Raises
    ------
    ValueError
        If a count is negative or above its size.

    References
    ----------
    Mantel and Haenszel (1959); Mantel and Fleiss (1980); Mehta, Patel and Gray (1985).
    """
    a, n, c, m = counts_and_sizes(a, n, c, m)
    does, total = a + c, np.maximum(n + m, 1)
    expected = does * n / total
    variance = (n * m * does * (total - does) / (total**2 * np.maximum(total - 1, 1))).sum(axis=-1)
    lowest, highest = np.maximum(does - m, 0), np.minimum(n, does)
    room = np.minimum((expected - lowest).sum(axis=-1), (highest - expected).sum(axis=-1))
    normal = scipy.special.ndtr(-ratio((a - expected).sum(axis=-1) - 0.5, np.sqrt(variance)))
    p = np.where((room >= SMALL) & (variance > 0), normal, 1.0)
    # Strata without any choice give their only count for certain, so that they pass through the convolution unharmed.
    exact = (room < SMALL) & (variance > 0)
    p[exact] = _convolved_tail(a[exact], n[exact], c[exact], m[exact])
    return p


def exact_independence_p(a: ArrayLike, n: ArrayLike) -> Floats:
    """Return exact p-values of the test of independence for tables of k equal groups x (does, does not).

    The chance, given the margins, of counts whose chi-squared statistic is at least the observed one, for few counts, where the
    chi-squared approximation is not to be trusted. Among groups of one size the statistic rises with the sum of squared counts, so
    its distribution follows from convolving (sum, sum of squares) over the groups: k * total steps on arrays of total**3 / 2 numbers
    at most for each distinct margin. Meant for small totals.

    Parameters
    ----------
    a
        (tests, k) whole counts, 0 <= a <= n.
    n
        (tests,) size of every group of a test.

    Returns
    -------
    (tests,) p-values. For two groups they are those of Fisher's exact test, two-sided.

    References
    ----------
    Agresti (1992), "A survey of exact inference for contingency tables".
    """
    counts, size = np.asarray(a, dtype=np.int64), np.asarray(n, dtype=np.int64)
    # What does and what does not are alike: the rarer of the two makes the shorter convolution.
    rarer = np.where((2 * counts.sum(axis=1) > counts.shape[1] * size)[:, None], size[:, None] - counts, counts)
    margins, test = np.unique(np.column_stack([rarer.sum(axis=1), size]), axis=0, return_inverse=True)
    squares = (rarer * rarer).sum(axis=1)
    p = np.empty(len(counts))
    for index, (total, of) in enumerate(margins.tolist()):
        mine = test.ravel() == index
        tail = np.cumsum(_square_sums(total, of, counts.shape[1])[::-1])[::-1]
        p[mine] = tail[squares[mine]] / tail[0]
    return np.minimum(p, 1.0)


def permuted_independence_p(a: ArrayLike, n: ArrayLike, *, draws: int = 9999, seed: int) -> float:
    """Return the p-value of the permutation test of independence for one table of k groups x (does, does not).

    The statistic is chi-squared; its distribution is that of counts dealt to the groups at random, with all margins as they are.

    Parameters
    ----------
    a
        (k,) how many of each group do; 0 <= a <= n.
    n
        (k,) sizes of the groups.
    draws
        The number of random deals; no p-value is below 1 / (draws + 1).
    seed
        The same seed gives the same deals.

    References
    ----------
    Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses".
    """
    does, size = np.asarray(a, dtype=np.int64), np.asarray(n, dtype=np.int64)
    does, size = does[size > 0], size[size > 0]
    generator = np.random.Generator(np.random.PCG64(seed))
    dealt = generator.multivariate_hypergeometric(size, int(does.sum()), size=draws, method="marginals")
    # With fixed margins chi-squared rises with this sum; counts that are equal in exact arithmetic differ by less than a part in 10**9.
    observed = float((does**2 / size).sum())
    return float((1 + ((dealt**2 / size).sum(axis=1) >= observed * (1 - 1e-9)).sum()) / (draws + 1))


def benjamini_hochberg(p: ArrayLike, axis: int | None = None) -> Floats:
    """Return the q-value of each p-value: the smallest false-discovery rate at which it would be reported.

    Parameters
    ----------
    p
        P-values, of any shape; NaN (no test was possible) stays NaN and does not count in its family.
    axis
        Along which a family lies; None: all are one family.

    Returns
    -------
    q-values in the shape of `p`.

    Raises
    ------
    ValueError
        If a p-value lies outside [0, 1].

    References
    ----------
    Benjamini and Hochberg (1995), step-up procedure.
    """
    given = floats(p)
    if ((given < 0) | (given > 1)).any():
        raise ValueError("p-values must lie within 0 and 1")
    families = given.reshape(1, -1) if axis is None else np.moveaxis(given, axis, -1)
    # Not SciPy's `false_discovery_control`, which takes no NaN, and whose import alone takes longer than most analyses.
    order = np.argsort(families, axis=-1)  # NaN comes last
    tested = count_present(families)[..., None]
    scaled = np.take_along_axis(families, order, axis=-1) * tested / np.arange(1, families.shape[-1] + 1)
    q = np.empty_like(families)
    np.put_along_axis(q, order, np.fmin.accumulate(scaled[..., ::-1], axis=-1)[..., ::-1], axis=-1)
    q = np.where(np.isnan(families), np.nan, np.minimum(q, 1.0))
    return q.reshape(given.shape) if axis is None else np.moveaxis(q, -1, axis)


def _margins(a: Floats, n: Floats, c: Floats, m: Floats) -> tuple[Floats, Floats, Floats]:
    """What SciPy calls M, n and N of a hypergeometric distribution: both groups together (at least one), the group, those who do."""
    return np.maximum(n + m, 1), n, a + c


def _convolved_tail(a: Floats, n: Floats, c: Floats, m: Floats) -> Floats:
    """(tests, strata) tables -> (tests,) chance that the sum of the counts is as great or greater, given all margins."""
    p = np.ones(len(a))
    lowest = np.maximum(a + c - m, 0)
    widths = (np.minimum(n, a + c) - lowest).max(axis=-1, initial=0).astype(np.intp) + 1
    # Tests of like width go together, so that one wide table does not widen all.
    blocks = 1 + a.size * int(widths.max(initial=1)) // TABLE_CELLS
    for some in np.array_split(np.argsort(widths, kind="stable"), blocks):
        p[some] = _block_tail(a[some], n[some], c[some], m[some], lowest[some], int(widths[some].max(initial=1)))
    return p


def _block_tail(a: Floats, n: Floats, c: Floats, m: Floats, lowest: Floats, width: int) -> Floats:
    """The same for tests of which no stratum allows more than `width` counts, from `lowest` on."""
    tests, strata = a.shape
    x = lowest[..., None] + np.arange(width)
    # Fifty times as fast as `pmf`, and right to nine digits for groups of up to 20,000 members.
    chance = np.exp(scipy.stats.hypergeom.logpmf(x, *(margin[..., None] for margin in _margins(a, n, c, m))))
    sums = np.zeros((tests, strata * (width - 1) + 1))
    sums[:, 0] = 1.0
    for stratum in range(strata):
        added = np.zeros_like(sums)
        reach = stratum * (width - 1) + 1
        for step in range(width):
            added[:, step : step + reach] += sums[:, :reach] * chance[:, stratum, step, None]
        sums = added
    start = (a - lowest).sum(axis=-1).astype(np.intp)
    # Summed from the far end, smallest first.
    tails = np.cumsum(sums[:, ::-1], axis=-1)[:, ::-1]
    return np.asarray(np.minimum(tails[np.arange(tests), start], 1.0))


def _square_sums(total: int, size: int, groups: int) -> Floats:
    """Relative chance of each sum of squares (total**2 + 1,) of `groups` counts that add up to `total`."""
    ways = np.arange(min(total, size) + 1)
    log = scipy.special.gammaln(size + 1.0) - scipy.special.gammaln(ways + 1.0) - scipy.special.gammaln(size - ways + 1.0)
    weight = np.exp(log - log.max())
    chance = np.zeros((total + 1, total * total + 1))
    chance[0, 0] = 1.0
    for _ in range(groups):
        grown = np.zeros_like(chance)
        for count, share in enumerate(weight):
            grown[count:, count * count :] += share * chance[: total + 1 - count, : total * total + 1 - count * count]
        chance = grown / grown.max()
    return np.asarray(chance[total])
