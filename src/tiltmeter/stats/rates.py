"""How often groups do something: intervals of rates, differences of rates, log-odds of words, and lines of a rate against a score.

Counts `a` of `n` in one group and `c` of `m` in another. All functions of counts are vectorised and take whole counts.
Lines y ~ a*s + b, with a in [-1, 1] and b in [0, 1], and correlations take the (weighted) count n and the sums of s, y, s*s, s*y (and
y*y), as arrays of one shape or scalars, so that the slopes of a thousand resamples are found at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter.arrays import Booleans, Floats
from tiltmeter.stats.arithmetic import CONSTANT, float_arrays, floats, ratio
from tiltmeter.stats.intervals import two_sided_z

SLOPE = (-1.0, 1.0)
INTERCEPT = (0.0, 1.0)
TOUCH = 1e-11
"""Sums carry rounding that the data do not: a line that leaves the box by less than this touches its edge."""


class Difference(NamedTuple):
    """Rate of the group minus rate of the others, with the ends of its interval; NaN where a group is empty."""

    estimate: Floats
    low: Floats
    high: Floats


class LogOdds(NamedTuple):
    """Log-odds ratio of each group against the others pooled (natural logarithm), and how many standard errors it is from 0."""

    estimate: Floats
    z: Floats


def counts_and_sizes(*given: ArrayLike) -> tuple[Floats, ...]:
    """Return counts and sizes by turns as float arrays of one shape (whole numbers are exact in them up to 2**53).

    Raises
    ------
    ValueError
        If a count is negative or above its size.
    """
    arrays = float_arrays(*given)
    for count, size in zip(arrays[::2], arrays[1::2], strict=True):
        if (count < 0).any() or (count > size).any():  # NaN, a count that is not known, passes
            raise ValueError("counts must lie between 0 and the size of their group")
    return arrays


def wilson_interval(successes: ArrayLike, n: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Return both ends of Wilson's score interval of proportions (with broadcasting); NaN where n is 0.

    Parameters
    ----------
    successes
        Between 0 and n.
    n
        Numbers of independent trials.
    level
        Confidence level.

    Raises
    ------
    ValueError
        If a count is negative or above its size.

    References
    ----------
    Wilson (1927), "Probable inference, the law of succession, and statistical inference".
    """
    k, of = counts_and_sizes(successes, n)
    z = two_sided_z(level)
    low, high = _wilson_ends(ratio(k, of), of, z)
    # Rounding may leave an end an ulp outside [0, 1], or off 0 and 1 where it is just that.
    low = np.where((k == 0) & (of > 0), 0.0, np.clip(low, 0.0, 1.0))
    return low, np.where((k == of) & (of > 0), 1.0, np.clip(high, 0.0, 1.0))


def rate_difference(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike, level: float = 0.95) -> Difference:
    """Return a/n - c/m with Newcombe's interval (his method 10: both Wilson intervals, joined by squares).

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
    level
        Confidence level.

    Raises
    ------
    ValueError
        If a count is negative or above its size.

    References
    ----------
    Newcombe (1998), "Interval estimation for the difference between independent proportions".
    """
    a, n, c, m = counts_and_sizes(a, n, c, m)
    return stratified_rate_difference(a[..., None], n[..., None], c[..., None], m[..., None], level)


def stratified_rate_difference(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike, level: float = 0.95) -> Difference:
    """Return the Mantel-Haenszel difference of rates over strata, with a stratified Newcombe interval.

    Each stratum weighs n*m/(n+m). The interval joins a Wilson interval of either group's weighted rate, whose effective size
    1 / sum(w**2 / n) has the same variance; it is Newcombe's for one stratum and a little wide where strata differ much.

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
    level
        Confidence level.

    Returns
    -------
    A difference of shape (...); NaN where no stratum has both.

    Raises
    ------
    ValueError
        If a count is negative or above its size.

    References
    ----------
    Mantel and Haenszel (1959); Yan and Su (2010), "Stratified Wilson and Newcombe confidence intervals".
    """
    a, n, c, m = counts_and_sizes(a, n, c, m)
    weight = n * m / np.maximum(n + m, 1)
    weight = ratio(weight, weight.sum(axis=-1, keepdims=True))
    z = two_sided_z(level)
    rate, down, up = _weighted_wilson(a, n, weight, z)
    rate_others, down_others, up_others = _weighted_wilson(c, m, weight, z)
    estimate = rate - rate_others
    return Difference(estimate, estimate - np.hypot(down, up_others), estimate + np.hypot(up, down_others))


def _weighted_wilson(a: Floats, n: Floats, weight: Floats, z: float) -> tuple[Floats, Floats, Floats]:
    """The weighted rate, and how far its Wilson interval reaches down and up from it."""
    size = np.maximum(n, 1)
    rate = (weight * (a / size)).sum(axis=-1)
    low, high = _wilson_ends(rate, 1.0 / (weight**2 / size).sum(axis=-1), z)
    return rate, np.maximum(rate - low, 0), np.maximum(high - rate, 0)


def _wilson_ends(rate: Floats, n: Floats, z: float) -> tuple[Floats, Floats]:
    """Ends of Wilson's interval of a rate among n trials, which need not be whole; NaN where the rate is."""
    centre = (rate * n + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * np.sqrt(np.maximum(rate * (1 - rate), 0) * n + z * z / 4)
    return centre - half, centre + half


def log_odds(counts: ArrayLike, totals: ArrayLike, prior: ArrayLike) -> LogOdds:
    """Return log-odds ratios with an informative Dirichlet prior, of each group against all others together.

    Rare words are held back by what is known of the language at large.

    Parameters
    ----------
    counts
        (..., k) uses of a word by each of k groups.
    totals
        (..., k), or what broadcasts to it: uses of all words by each group; at least `counts`.
    prior
        (..., 2), or what broadcasts to it: the pseudo-counts of the word and of all words together, such as its uses in a
        background corpus, scaled to the weight the prior is to have; word below total.

    Returns
    -------
    Estimates and z of shape (..., k); NaN where a side has nothing to go by: no count of the word with no prior for it,
    or nothing but the word.

    Raises
    ------
    ValueError
        If a count is negative or above its total.

    References
    ----------
    Monroe, Colaresi and Quinn (2008), "Fightin' Words", equations 16 (prior), 20 and 22, each group against the rest.
    """
    counts, totals = counts_and_sizes(counts, totals)
    prior = floats(prior)
    word, everything = prior[..., :1], prior[..., 1:]
    others, others_totals = counts.sum(axis=-1, keepdims=True) - counts, totals.sum(axis=-1, keepdims=True) - totals
    uses, uses_others = counts + word, others + word
    rest, rest_others = totals + everything - uses, others_totals + everything - uses_others
    defined = (uses > 0) & (uses_others > 0) & (rest > 0) & (rest_others > 0)
    estimate = np.log(ratio(uses * rest_others, np.where(defined, rest * uses_others, 0.0)))
    variance = ratio(uses + uses_others, uses * uses_others)
    return LogOdds(estimate, estimate / np.sqrt(variance))


def box_line_slope(n: ArrayLike, sx: ArrayLike, sy: ArrayLike, sxx: ArrayLike, sxy: ArrayLike) -> Floats:
    """Return the slope of the exact least-squares line within the box a in [-1, 1], b in [0, 1].

    The squared error is convex: if the unbounded line lies inside the box it is the answer, otherwise the best point of
    the four edges is, and along an edge the best point is the edge's own optimum clipped to its ends.

    Returns
    -------
    Slopes in the broadcast shape; NaN where n is 0 or s does not vary (any slope would fit).
    """
    n, sx, sy, sxx, sxy = float_arrays(n, sx, sy, sxx, sxy)
    slope, intercept = _unbounded(n, sx, sy, sxx, sxy)
    a = np.stack([*(np.full(slope.shape, end) for end in SLOPE), *(np.clip(ratio(sxy - end * sx, sxx), *SLOPE) for end in INTERCEPT)])
    b = np.stack([*(np.clip(ratio(sy - end * sx, n), *INTERCEPT) for end in SLOPE), *(np.full(slope.shape, end) for end in INTERCEPT)])
    # Excess squared error over the unbounded line, as a sum of squares: no cancellation of large sums.
    da, db = a - slope, b - intercept
    mean = ratio(sx, n)
    excess = (da * mean + db) ** 2 + da * da * (ratio(sxx, n) - mean * mean)
    best = np.argmin(np.where(np.isnan(excess), np.inf, excess), axis=0)
    bounded = np.take_along_axis(a, best[None, ...], axis=0)[0]
    return np.where(np.isnan(slope), np.nan, np.where(_inside(slope, intercept), np.clip(slope, *SLOPE), bounded))


def lsq_linear_slope(n: ArrayLike, sx: ArrayLike, sy: ArrayLike, sxx: ArrayLike, sxy: ArrayLike, syy: ArrayLike) -> Floats:
    """Return the slope that `scipy.optimize.lsq_linear` finds on the rows behind the sums, with the same bounds.

    It returns the unbounded line if that lies inside the bounds, else the end of an interior search that stops about 1e-6
    short of the edge. The search sees the rows only through inner products, so three rows with the same inner products
    (a square root of the 3 x 3 matrix of all sums) send it along the same path. Where the unbounded line touches an edge
    exactly (every y is 1, say) SciPy's answer hangs on the last bit of its rounding; then the unbounded slope is returned.

    Returns
    -------
    Slopes in the broadcast shape; NaN where n is 0 or s does not vary.
    """
    n, sx, sy, sxx, sxy, syy = float_arrays(n, sx, sy, sxx, sxy, syy)
    slope, intercept = _unbounded(n, sx, sy, sxx, sxy)
    outside = ~np.isnan(slope) & ~_inside(slope, intercept)
    if outside.any():
        grams = np.stack([sxx, sx, sxy, sx, n, sy, sxy, sy, syy], axis=-1)[outside].reshape(-1, 3, 3)
        slope[outside] = _interior_search(grams)
    return slope


def _interior_search(grams: Floats) -> Floats:
    """Return lsq_linear's slope for each (3, 3) matrix of inner products of the columns s, 1, y."""
    from scipy.optimize import lsq_linear

    # Rows of sqrt(values) * vectors.T have the Gram matrix back as their inner products, singular or not.
    values, vectors = np.linalg.eigh(grams)
    rows = np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.transpose(0, 2, 1)
    bounds = ([SLOPE[0], INTERCEPT[0]], [SLOPE[1], INTERCEPT[1]])
    return np.array([lsq_linear(row[:, :2], row[:, 2], bounds=bounds).x[0] for row in rows])


def _unbounded(n: Floats, sx: Floats, sy: Floats, sxx: Floats, sxy: Floats) -> tuple[Floats, Floats]:
    """Return slope and intercept of the ordinary least-squares line, from centred moments."""
    mx, my = ratio(sx, n), ratio(sy, n)
    mean_square = ratio(sxx, n)
    variance = mean_square - mx * mx
    slope = ratio(ratio(sxy, n) - mx * my, np.where(variance > CONSTANT * mean_square, variance, 0.0))
    return slope, my - slope * mx


def _inside(slope: Floats, intercept: Floats) -> Booleans:
    within_slope = (slope >= SLOPE[0] - TOUCH) & (slope <= SLOPE[1] + TOUCH)
    return within_slope & (intercept >= INTERCEPT[0] - TOUCH) & (intercept <= INTERCEPT[1] + TOUCH)


def pearson_from_sums(n: ArrayLike, sx: ArrayLike, sy: ArrayLike, sxx: ArrayLike, sxy: ArrayLike, syy: ArrayLike) -> Floats:
    """Return Pearson's r from the (weighted) count and the sums of x, y, x*x, x*y and y*y, over any leading axes.

    NaN where either variable does not vary, or n is 0. Clipped to [-1, 1] against rounding.
    """
    mx, my, mxx, mxy, myy = (ratio(total, n) for total in (sx, sy, sxx, sxy, syy))
    vx, vy = mxx - mx * mx, myy - my * my
    varies = (vx > CONSTANT * mxx) & (vy > CONSTANT * myy)
    spread = np.sqrt(np.where(varies, vx, 0.0)) * np.sqrt(np.where(varies, vy, 0.0))
    return np.clip(ratio(mxy - mx * my, spread), -1.0, 1.0)
