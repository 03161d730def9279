"""Rates by group: intervals, differences, log-odds of words, and regression slopes of a rate on a score.

Counts are `a` of `n` in one group and `c` of `m` in the other. All functions of counts are vectorised and
take whole counts. Regression lines y ~ a*s + b, with a in [-1, 1] and b in [0, 1], and correlations are
computed from the (weighted) count n and the sums of s, y, s*s, s*y (and y*y), given as scalars or arrays of
one shape, so that the slopes of all resamples are computed at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy  # loads its submodules on first use
from numpy.typing import ArrayLike

from tiltmeter._arrays import Booleans, Floats
from tiltmeter.stats._arithmetic import CONSTANT, float_arrays, floats, ratio
from tiltmeter.stats._intervals import student_quantile, two_sided_z

SLOPE = (-1.0, 1.0)
INTERCEPT = (0.0, 1.0)
MOST_GAIN = 4.0
"""Largest accepted reduction of the variance by stratification; few trials do not support a larger estimate.
"""
TOUCH = 1e-11
"""Rounding tolerance: a line that leaves the box by less than this counts as touching its edge."""


class Difference(NamedTuple):
    """Rate of the group minus rate of the others, with its interval; NaN where a group is empty."""

    estimate: Floats
    low: Floats
    high: Floats


class LogOdds(NamedTuple):
    """Log-odds ratio (natural logarithm) of each group against all others pooled."""

    estimate: Floats
    z: Floats
    """Estimate / standard error."""


def counts_and_sizes(*counts: ArrayLike) -> tuple[Floats, ...]:
    """Convert alternating counts and sizes to float64 arrays of one shape and check them.

    Whole numbers are exact up to 2**53.

    Raises
    ------
    ValueError
        If a count is negative or above its size.
    """
    arrays = float_arrays(*counts)
    for count, size in zip(arrays[::2], arrays[1::2], strict=True):
        if (count < 0).any() or (count > size).any():  # NaN, an unknown count, is accepted
            raise ValueError("counts must lie between 0 and the size of their group")
    return arrays


def wilson_interval(successes: ArrayLike, n: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Compute Wilson's score interval of proportions, with broadcasting.

    Parameters
    ----------
    successes
        Number of successes, between 0 and n; any shape.
    n
        Number of independent trials.
    level
        Confidence level.

    Returns
    -------
    Lower and upper ends in the broadcast shape; NaN where n is 0.

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
    # Correct rounding errors: ends just outside [0, 1], and ends that are exactly 0 or 1.
    low = np.where((k == 0) & (of > 0), 0.0, np.clip(low, 0.0, 1.0))
    return low, np.where((k == of) & (of > 0), 1.0, np.clip(high, 0.0, 1.0))


def share_interval(share: float, error: float, critical: float) -> tuple[float, float]:
    """Compute Wilson's score interval of a share that was estimated with a standard error.

    The observations may be dependent or weighted. The number of trials is the effective sample size, share *
    (1 - share) / error**2.

    Parameters
    ----------
    share
        Estimate, above 0 and below 1.
    error
        Its standard error, above 0.
    critical
        Quantile that the interval uses in place of the normal one, such as that of Student's t.

    Returns
    -------
    Lower and upper end.

    References
    ----------
    Franco, Little, Louis and Slud (2019), "Comparative study of confidence intervals for proportions in
    complex sample surveys".
    """
    size = effective_size(share, error)
    low, high = _wilson_ends(floats(share), floats(size), critical)
    return float(low), float(high)


def effective_size(share: float, error: float) -> float:
    """Return the number of independent trials for which a share has this standard error.

    0 for a share of 0 or 1.
    """
    return share * (1 - share) / error**2


def size_from_width(share: float, half: float, critical: float) -> float:
    """Return the sample size at which Wilson's interval of a share has this half-width.

    The half-width lies between 0 and 1/2. `critical` is the quantile of the interval. With u = critical^2 /
    n, half * (1 + u) = sqrt(share * (1 - share) * u + u^2 / 4), which is quadratic in u.
    """
    a = half**2 - 0.25
    b = 2 * half**2 - share * (1 - share)
    c = half**2
    u = (-b - math.sqrt(b**2 - 4 * a * c)) / (2 * a)
    return critical**2 / u


def detectable_excess(
    size: float, boundary: float, level: float, power: float = 0.8, freedom: float = math.inf
) -> float:
    """Compute by how much a share must exceed a boundary so that its one-sided score test is significant.

    It is significant with probability `power`.

    Parameters
    ----------
    size
        Effective sample size.
    boundary
        The share under the null hypothesis.
    level
        Confidence level of the test: it is significant if p < 1 - level.
    power
        Probability of significance.
    freedom
        Degrees of freedom of the standard error.

    Returns
    -------
    The excess, in the unit of the share; infinite if no share up to 1 suffices.

    References
    ----------
    Fleiss, Levin and Paik (2003), "Statistical Methods for Rates and Proportions", section 2.5, without the
    correction for continuity.
    """
    error = math.sqrt(boundary * (1 - boundary) / size)
    critical = student_quantile(2 * level - 1, floats(freedom)) * error

    def surplus(share: float) -> float:
        """Return by how much the share is more than sufficient; negative if it is not."""
        margin = scipy.special.ndtri(power) * math.sqrt(share * (1 - share) / size)
        return float(share - boundary - critical - margin)

    if not surplus(1.0) > 0:
        return math.inf
    return float(scipy.optimize.brentq(surplus, boundary, 1.0)) - boundary


def rate_difference(
    a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike, level: float = 0.95
) -> Difference:
    """Compute a/n - c/m with Newcombe's hybrid score interval (method 10).

    It combines the two Wilson intervals.

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

    Returns
    -------
    Estimates and interval ends in the broadcast shape; NaN where a group is empty.

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


def stratified_rate_difference(
    a: ArrayLike,
    n: ArrayLike,
    c: ArrayLike,
    m: ArrayLike,
    level: float = 0.95,
    *,
    inflation: ArrayLike = 1.0,
    freedom: ArrayLike = np.inf,
) -> Difference:
    """Compute the Mantel-Haenszel difference of rates over strata, with a stratified Newcombe interval.

    Each stratum has weight n*m/(n+m). The interval combines the Wilson intervals of the two weighted rates.
    The size of each rate is the number of independent trials that would give it the same variance. With a
    single stratum, the result is Newcombe's interval.

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
    inflation
        (...) variance inflation factor: variance of the difference relative to that of independent trials;
        both sizes are divided by it.
    freedom
        (...) degrees of freedom of `inflation`, for the quantile of Student's distribution.

    Returns
    -------
    Estimates and interval ends of shape (...); NaN where no stratum has members of both groups.

    Raises
    ------
    ValueError
        If a count is negative or above its size.

    References
    ----------
    Mantel and Haenszel (1959); Newcombe (1998); Yan and Su (2010), "Stratified Wilson and Newcombe confidence
    intervals".
    """
    a, n, c, m = counts_and_sizes(a, n, c, m)
    weight = n * m / np.maximum(n + m, 1)
    weight = ratio(weight, weight.sum(axis=-1, keepdims=True))
    # Wilson's interval with z * sqrt(inflation) and n trials equals that with z and n / inflation trials.
    z = student_quantile(level, floats(freedom)) * np.sqrt(floats(inflation))
    rate, down, up = _weighted_wilson(a, n, weight, z)
    rate_others, down_others, up_others = _weighted_wilson(c, m, weight, z)
    estimate = rate - rate_others
    low = estimate - np.hypot(down, up_others)
    high = estimate + np.hypot(up, down_others)
    return Difference(estimate, low, high)


def _weighted_wilson(a: Floats, n: Floats, weight: Floats, z: Floats) -> tuple[Floats, Floats, Floats]:
    """Compute the weighted rate and the lower and upper half-widths of its Wilson interval."""
    size = np.maximum(n, 1)
    rates = a / size
    rate = (weight * rates).sum(axis=-1)
    share = weight**2 / size
    # The stratified rate has a smaller variance than a binomial with the mean rate; a stratum of one trial
    # gives no variance estimate.
    pooled = rate * (1 - rate)
    estimated = rates * (1 - rates) * size / np.maximum(size - 1, 1)
    within = np.where(size > 1, estimated, pooled[..., None])
    trials = 1.0 / share.sum(axis=-1)
    stratified = (share * within).sum(axis=-1) * trials
    gain = np.clip(np.nan_to_num(ratio(pooled, stratified), nan=1.0), 1.0, MOST_GAIN)
    # The rate of each stratum is estimated as well, which costs one degree of freedom each.
    weighted = weight > 0
    strata, members = weighted.sum(axis=-1), np.where(weighted, n, 0).sum(axis=-1)
    freedom = 1.0 - ratio(strata, members)  # a share
    effective = trials * (1.0 + (gain - 1.0) * np.nan_to_num(freedom))
    low, high = _wilson_ends(rate, effective, z)
    return rate, np.maximum(rate - low, 0), np.maximum(high - rate, 0)


def _wilson_ends(rate: Floats, n: Floats, z: Floats | float) -> tuple[Floats, Floats]:
    """Compute Wilson's interval of a rate in n trials; NaN where the rate is NaN.

    The number of trials need not be a whole number.
    """
    centre = (rate * n + z * z / 2) / (n + z * z)
    variance = np.maximum(rate * (1 - rate), 0) * n
    half = z / (n + z * z) * np.sqrt(variance + z * z / 4)
    return centre - half, centre + half


def log_odds(counts: ArrayLike, totals: ArrayLike, prior: ArrayLike) -> LogOdds:
    """Compute log-odds ratios of each group against all others, with an informative Dirichlet prior.

    The prior shrinks the estimates of rare words towards their frequency in the language at large.

    Parameters
    ----------
    counts
        (..., k) uses of a word by each of k groups.
    totals
        Uses of all words by each group, broadcastable to (..., k); at least `counts`.
    prior
        Pseudo-counts of the word and of all words, broadcastable to (..., 2): for example the counts in a
        background corpus, scaled to the intended weight of the prior. The first must be below the second.

    Returns
    -------
    Estimates (natural logarithm) and z-scores of shape (..., k). NaN where the odds of a side are 0 or
    infinite: neither a count nor a prior of the word, or no other word.

    Raises
    ------
    ValueError
        If a count is negative or above its total.

    References
    ----------
    Monroe, Colaresi and Quinn (2008), "Fightin' Words", equations 16 (prior), 20 and 22, each group against
    the rest.
    """
    counts, totals = counts_and_sizes(counts, totals)
    prior = floats(prior)
    of_word, of_all_words = prior[..., :1], prior[..., 1:]
    counts_others = counts.sum(axis=-1, keepdims=True) - counts
    totals_others = totals.sum(axis=-1, keepdims=True) - totals
    uses, uses_others = counts + of_word, counts_others + of_word
    without = totals + of_all_words - uses  # uses of other words
    without_others = totals_others + of_all_words - uses_others
    defined = (uses > 0) & (uses_others > 0) & (without > 0) & (without_others > 0)
    denominator = np.where(defined, without * uses_others, 0.0)
    estimate = np.log(ratio(uses * without_others, denominator))
    variance = ratio(uses + uses_others, uses * uses_others)
    return LogOdds(estimate, z=estimate / np.sqrt(variance))


def line_slope(n: ArrayLike, sx: ArrayLike, sy: ArrayLike, sxx: ArrayLike, sxy: ArrayLike) -> Floats:
    """Compute the slope of the ordinary least-squares line from count and sums.

    NaN where n is 0 or x does not vary.

    Parameters
    ----------
    n, sx, sy, sxx, sxy
        (Weighted) count and sums of x, y, x*x and x*y; any shape, broadcast together.
    """
    return _unbounded(*float_arrays(n, sx, sy, sxx, sxy))[0]


def box_line_slope(n: ArrayLike, sx: ArrayLike, sy: ArrayLike, sxx: ArrayLike, sxy: ArrayLike) -> Floats:
    """Compute the exact slope of the least-squares line y ~ a*s + b with a in [-1, 1] and b in [0, 1].

    The squared error is convex. If the unconstrained line lies inside the box, it is the solution; otherwise
    the solution is the best point on the four edges, and the best point on an edge is its unconstrained
    optimum clipped to its ends.

    Parameters
    ----------
    n, sx, sy, sxx, sxy
        (Weighted) count and sums of s, y, s*s and s*y; any shape, broadcast together.

    Returns
    -------
    Slopes in the broadcast shape; NaN where n is 0 or s does not vary.
    """
    n, sx, sy, sxx, sxy = float_arrays(n, sx, sy, sxx, sxy)
    slope, intercept = _unbounded(n, sx, sy, sxx, sxy)
    # The best point on each of the four edges: two with a fixed slope, two with a fixed intercept.
    fixed_slopes = [np.full(slope.shape, end) for end in SLOPE]
    best_intercepts = [np.clip(ratio(sy - end * sx, n), *INTERCEPT) for end in SLOPE]
    fixed_intercepts = [np.full(slope.shape, end) for end in INTERCEPT]
    best_slopes = [np.clip(ratio(sxy - end * sx, sxx), *SLOPE) for end in INTERCEPT]
    a = np.stack(fixed_slopes + best_slopes)
    b = np.stack(best_intercepts + fixed_intercepts)
    # Excess squared error over the unbounded line, as a sum of squares: no cancellation of large sums.
    da, db = a - slope, b - intercept
    mean = ratio(sx, n)
    variance = ratio(sxx, n) - mean * mean
    excess = (da * mean + db) ** 2 + da * da * variance
    best = np.argmin(np.where(np.isnan(excess), np.inf, excess), axis=0)
    on_edge = np.take_along_axis(a, best[None, ...], axis=0)[0]
    bounded = np.where(_inside(slope, intercept), np.clip(slope, *SLOPE), on_edge)
    return np.where(np.isnan(slope), np.nan, bounded)


def lsq_linear_slope(
    n: ArrayLike, sx: ArrayLike, sy: ArrayLike, sxx: ArrayLike, sxy: ArrayLike, syy: ArrayLike
) -> Floats:
    """Compute the slope that `scipy.optimize.lsq_linear` finds for the original rows, with the same bounds.

    `lsq_linear` returns the unconstrained line if it lies inside the bounds; otherwise its interior search
    stops about 1e-6 short of the edge. The search depends on the rows through inner products only, so three
    rows with the same inner products (a square root of the 3 x 3 matrix of all sums) give the same result.
    Where the unconstrained line touches an edge exactly (for example if every y is 1), SciPy's result depends
    on rounding; the unconstrained slope is returned then.

    Parameters
    ----------
    n, sx, sy, sxx, sxy, syy
        Count and sums of s, y, s*s, s*y and y*y; any shape, broadcast together.

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
    """Run `lsq_linear` for each (3, 3) matrix of inner products of the columns s, 1, y; return the slopes."""
    from scipy.optimize import lsq_linear

    # The inner products of the rows of sqrt(values) * vectors.T are the Gram matrix, even if it is singular.
    values, vectors = np.linalg.eigh(grams)
    rows = np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.transpose(0, 2, 1)
    bounds = ([SLOPE[0], INTERCEPT[0]], [SLOPE[1], INTERCEPT[1]])
    return np.array([lsq_linear(row[:, :2], row[:, 2], bounds=bounds).x[0] for row in rows])


def _unbounded(n: Floats, sx: Floats, sy: Floats, sxx: Floats, sxy: Floats) -> tuple[Floats, Floats]:
    """Compute slope and intercept of the ordinary least-squares line from centred moments."""
    mx, my = ratio(sx, n), ratio(sy, n)
    mean_square = ratio(sxx, n)
    variance = mean_square - mx * mx
    covariance = ratio(sxy, n) - mx * my
    varying = np.where(variance > CONSTANT * mean_square, variance, 0.0)
    slope = ratio(covariance, varying)
    return slope, my - slope * mx


def _inside(slope: Floats, intercept: Floats) -> Booleans:
    within_slope = (slope >= SLOPE[0] - TOUCH) & (slope <= SLOPE[1] + TOUCH)
    within_intercept = (intercept >= INTERCEPT[0] - TOUCH) & (intercept <= INTERCEPT[1] + TOUCH)
    return within_slope & within_intercept


def pearson_from_sums(
    n: ArrayLike, sx: ArrayLike, sy: ArrayLike, sxx: ArrayLike, sxy: ArrayLike, syy: ArrayLike
) -> Floats:
    """Compute Pearson's r from the (weighted) count and the sums of x, y, x*x, x*y and y*y.

    Arrays of any shape, broadcast together. NaN where either variable is constant or n is 0. Clipped to [-1,
    1] against rounding.
    """
    mx, my = ratio(sx, n), ratio(sy, n)
    mxx, myy = ratio(sxx, n), ratio(syy, n)
    mxy = ratio(sxy, n)
    vx, vy = mxx - mx * mx, myy - my * my
    varies = (vx > CONSTANT * mxx) & (vy > CONSTANT * myy)
    spread = np.sqrt(np.where(varies, vx, 0.0)) * np.sqrt(np.where(varies, vy, 0.0))
    return np.clip(ratio(mxy - mx * my, spread), -1.0, 1.0)
