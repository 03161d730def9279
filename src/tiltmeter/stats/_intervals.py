"""Confidence intervals from resamples, and of differences between two sides.

Percentile intervals, GenderBench's normal interval, and intervals for cases in which neither has correct
coverage (constants and maxima). Differences of two sides measured on the same items, with a p-value that
agrees with the interval.

Functions named `..._interval` with `samples` (R,) take one metric. `column_quantiles`, `excess_p`,
`critical_values` and `lifted_interval` take many metrics, with the resamples along the last axis. NaN among
the samples (a resample without a value) is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import scipy  # loads its submodules on first use
from numpy.typing import ArrayLike

from tiltmeter._arrays import Booleans, Floats
from tiltmeter.stats._arithmetic import ROUNDING, count_present, floats, mean_present, ratio, sorted_quantile

FEWEST = 2
"""Smallest number of resamples with a value from which a standard error is computed."""

RESAMPLING_SHARE = math.sqrt(2.0) - 1.0
"""Bias of a resampled maximum relative to the sampling bias: sampling and resampling noise together have
sqrt(2) times the spread."""


class Interval(NamedTuple):
    """Lower and upper end of an interval; NaN where there is none."""

    low: float
    high: float


SMALLEST_P = 1e-12
"""Smallest p-value that is computed from intervals."""
MOST_FREEDOM = 1e9
"""Degrees of freedom from which Student's distribution is treated as normal."""
TEST_LEVEL = 0.95
"""Level of confidence of tests whose p-value must not depend on the level of the interval asked for."""
NO_INTERVAL = Interval(math.nan, math.nan)


class MaximumEstimate(NamedTuple):
    """Maxima of absolute differences, corrected for upward bias, with intervals and p-values.

    Arrays of shape (...).
    """

    estimate: Floats
    low: Floats
    high: Floats
    p: Floats


def percentile_interval(samples: ArrayLike, level: float) -> Interval:
    """Compute the bootstrap percentile interval, the central `level` of the values (R,); NaN if all are NaN.

    References
    ----------
    Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 13.
    """
    low, _, high = column_quantiles(floats(samples).ravel(), level)
    return Interval(float(low), float(high))


def normal_interval(samples: ArrayLike, level: float) -> Interval:
    """Compute GenderBench's interval: mean ± z * sd of the bootstrap values (R,), with divisor R.

    The interval is centred on the bootstrap mean rather than on the estimate and may exceed the range of the
    metric. It is only used to reproduce that method. Equal values v give (v, v); all NaN gives NaN.
    """
    values = _present_values(samples)
    if not values.size:
        return NO_INTERVAL
    if (values == values[0]).all():
        return Interval(float(values[0]), float(values[0]))
    half = half_width(float(values.std()), level)
    centre = float(values.mean())
    return Interval(centre - half, centre + half)


def is_constant(samples: ArrayLike) -> bool:
    """Check whether all resamples (R,) with a value have the same value, up to rounding.

    False if none has a value.
    """
    values = _present_values(samples)
    if not values.size:
        return False
    largest = max(1.0, float(np.abs(values).max()))
    return bool(np.ptp(values) <= ROUNDING * largest)


def rare_event_interval(estimate: float, n: float, low: float, high: float, level: float) -> Interval:
    """Compute an interval for a metric that has the same value in every resample.

    When n independent items all agree, the bootstrap has no spread. Yet a share of up to 1 - ((1 - level) /
    2)**(1 / n) of all items may differ (the upper Clopper-Pearson limit for 0 of n), and each of them can
    move the metric by at most its whole range.

    Parameters
    ----------
    estimate
        The constant value; NaN gives a NaN interval.
    n
        Number of independent items that agree; 0 gives the whole range.
    low
        Smallest possible value of the metric.
    high
        Largest possible value.
    level
        Confidence level.

    References
    ----------
    Clopper and Pearson (1934), "The use of confidence or fiducial limits illustrated in the case of the
    binomial".
    """
    if math.isnan(estimate):
        return NO_INTERVAL
    share = 1.0 - ((1.0 - level) / 2.0) ** (1.0 / n) if n > 0 else 1.0
    slack = (high - low) * share
    return Interval(max(low, estimate - slack), min(high, estimate + slack))


def absolute_interval(low: float, high: float) -> Interval:
    """Compute the interval of |d| from the interval of d; it starts at 0 if the interval of d contains 0."""
    if math.isnan(low + high):
        return NO_INTERVAL
    near, far = sorted((abs(low), abs(high)))
    return Interval(0.0 if low <= 0.0 <= high else near, far)


def maximum_interval(
    estimate_raw: ArrayLike,
    samples: ArrayLike,
    null_samples: ArrayLike,
    level: float,
    floor: ArrayLike | None = None,
    p: ArrayLike | None = None,
    stretch: float = 1.0,
) -> MaximumEstimate:
    """Estimate maxima of absolute differences between groups, with intervals and p-values.

    A maximum is biased upwards by sampling noise: without any effect it is well above 0, and its plain
    bootstrap never reaches 0. The bias depends on how many differences are close to the largest one, and the
    bootstrap estimates it: where sampling noise raises the maximum by B, resampling raises it by a further
    (sqrt(2) - 1) * B.

    - p = (1 + #{null >= raw}) / (1 + N): the share of random relabellings with a maximum at least as large.
    - estimate = max(0, raw - B), B = (mean(samples) - raw) / (sqrt(2) - 1), at most mean(null).
    - low = 0 unless p < 1 - level; then the larger of estimate - (the longer half of the bootstrap percentile
      interval around its median) and raw - (critical value of the relabellings), so that low > 0 if and only
      if p < 1 - level.
    - high = raw + (the upper half of the bootstrap interval), without correction: noise of that size could
      hide a true maximum.

    The method is specific to Tiltmeter. `docs/maxima.md` reports its coverage and the alternatives that were
    tested.

    Parameters
    ----------
    estimate_raw
        (...) maxima in the data, at least 0.
    samples
        (..., R) maxima in bootstrap resamples.
    null_samples
        (..., N) maxima under random relabelling of the groups.
    level
        Confidence level of the interval.
    floor
        (...) lower confidence bounds from another test of the groups, at most 0 where it is not significant;
        they replace raw - (critical value of the relabellings).
    p
        (...) p-values that replace those of the relabellings (see `relabelling_t_p`).
    stretch
        Factor of the halves of the interval and of the critical value: the ratio of the quantiles of
        Student's t and of the normal distribution if the standard error has few degrees of freedom. The
        estimate does not depend on it, nor on the level.

    Returns
    -------
    Arrays of shape (...) with low <= estimate <= high. All are NaN where there is no raw value or no
    resample; p is NaN and low is 0 where there is no relabelling.
    """
    raw = floats(estimate_raw)
    resampled, null = floats(samples), floats(null_samples)
    lower, median, upper = column_quantiles(resampled, level)
    tested = excess_p(raw, null, 1) if p is None else floats(p)
    # Without relabellings their mean is NaN, which fmin ignores.
    resampling_bias = np.maximum(0.0, mean_present(resampled) - raw)
    lift = np.fmin(resampling_bias / RESAMPLING_SHARE, mean_present(null))
    estimate = np.maximum(0.0, raw - lift)
    if floor is None:
        bound = raw - stretch * critical_values(null, level)
        least = np.where(tested < 1.0 - level, bound, 0.0)
    else:
        least = np.minimum(floor, raw)
    longer_half = np.maximum(upper - median, median - lower)
    low = np.where(least > 0.0, np.maximum(least, estimate - stretch * longer_half), 0.0)
    high = raw + stretch * (upper - median)
    unknown = np.isnan(raw) | np.isnan(median)

    def defined(values: Floats) -> Floats:
        masked: Floats = np.where(unknown, np.nan, values)[()]
        return masked

    return MaximumEstimate(
        estimate=defined(np.maximum(estimate, low)), low=defined(low), high=defined(high), p=defined(tested)
    )


def lifted_interval(
    raw: Floats, samples: Floats, null: Floats, level: float, floor: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the lower and upper ends of the intervals of `maximum_interval`, shape (...).

    The lower end is 0 without relabellings.
    """
    return maximum_interval(raw, samples, null, level, floor)[1:3]


def column_quantiles(samples: Floats, level: float) -> tuple[Floats, ...]:
    """Compute the lower end of the central `level`, the median and the upper end of (..., R) resamples.

    Each has the shape (...).
    """
    ordered, count = np.sort(samples, axis=-1), count_present(samples)
    tail = (1.0 - level) / 2.0
    return tuple(sorted_quantile(ordered, count, share) for share in (tail, 0.5, 1.0 - tail))


def excess_p(raw: Floats | np.float64, null: Floats, extreme: int) -> Floats:
    """Compute p = (1 + #{null at least as extreme}) / (1 + N) for raw (...) and null (..., N).

    NaN among the null values is ignored. `extreme` is +1 if large values indicate a difference, -1 if small
    values do. The p-value of a Monte Carlo permutation test: Davison and Hinkley (1997), "Bootstrap Methods
    and their Application", section 4.2.
    """
    signed, reached = raw * extreme, null * extreme
    # A relabelling that reproduces the data must count as equal, whatever the rounding of its sums.
    reach = np.asarray(signed - ROUNDING * np.maximum(1.0, np.abs(signed)))
    tested = count_present(null)
    p = (1.0 + (reached >= reach[..., None]).sum(axis=-1)) / (1.0 + tested)
    return np.where(np.isnan(raw) | (tested == 0), np.nan, p)


def relabelling_t_p(raw: float, null: Floats, freedom: float) -> float:
    """Compute the p-value of a relabelling test whose standard error has few degrees of freedom.

    At a level of confidence L, the relabelled values are multiplied by the ratio of the quantiles of
    Student's t and of the normal distribution at L, and the observed value is compared with their quantile. p
    is the smallest error 1 - L at which the observed value is larger, so it does not depend on a level that
    was asked for.

    Parameters
    ----------
    raw
        Observed value.
    null
        (N,) values under random relabelling; NaN is skipped.
    freedom
        Degrees of freedom of the standard error; infinite gives `excess_p`.

    Returns
    -------
    p; NaN without an observed value or a relabelling. Where no relabelling reaches the observed value, p is
    at most 1 / (1 + N); it is the two-sided tail probability of t for the observed value in units of the root
    mean square of the relabelled values, if smaller. That of a maximum is larger than the standard error of
    each of its differences, so this overstates p.
    """
    relabelled = np.sort(_present_values(null))
    if math.isnan(raw) or not relabelled.size:
        return math.nan
    smallest = 1.0 / (1.0 + relabelled.size)
    p = _counted_t_p(raw, relabelled, freedom)
    mean_square = float(np.mean(relabelled**2))
    if p > smallest or not mean_square > 0:
        return p
    return min(p, 2.0 * t_tail(abs(raw) / math.sqrt(mean_square), freedom))


def _counted_t_p(raw: float, relabelled: Floats, freedom: float) -> float:
    """Compute the p-value of `relabelling_t_p` from how many relabelled values reach the observed one.

    The relabelled values (N,) are in ascending order.
    """
    if math.isinf(freedom):
        return float(excess_p(np.float64(raw), relabelled, 1))
    errors = np.arange(1, relabelled.size + 1) / (relabelled.size + 1)
    of_t = scipy.special.stdtrit(min(freedom, MOST_FREEDOM), 1 - errors / 2)
    stretch = of_t / scipy.special.ndtri(1 - errors / 2)
    reach = raw - ROUNDING * max(1.0, abs(raw))
    as_large = relabelled.size - np.searchsorted(relabelled, reach / stretch)
    significant = as_large + 1 <= errors * (relabelled.size + 1) + ROUNDING
    return float(errors[significant].min(initial=1.0))


def critical_values(null: Floats, level: float) -> Floats:
    """Compute the critical values of (..., N) relabellings.

    A larger observed value has p < 1 - level (see `excess_p`).
    """
    tested = count_present(null)
    if not null.shape[-1]:
        return np.full(tested.shape, np.nan)
    spare = np.ceil((1.0 - level) * (1.0 + tested)) - 2.0
    place = np.clip(tested - 1 - spare, 0, null.shape[-1] - 1).astype(np.intp)
    critical: Floats = np.take_along_axis(np.sort(null, axis=-1), place[..., None], axis=-1)[..., 0]
    return critical


class ExpectedError(NamedTuple):
    """A standard error, in the units of the effect, and its degrees of freedom."""

    error: float
    freedom: float = math.inf

    def half_width(self, level: float = 0.95) -> float:
        """Return half the width of the two-sided interval at `level`."""
        return two_sided_t(level, self.freedom) * self.error


def detectable(errors: Sequence[ExpectedError], level: float = 0.95, power: float = 0.8) -> float:
    """Compute the smallest true effect that a two-sided test at `level` detects with probability `power`.

    Parameters
    ----------
    errors
        Standard errors that are equally probable, at least one.
    level
        Confidence level of the interval that must exclude 0.
    power
        Probability of detecting the effect, above one half.

    Returns
    -------
    The effect at which the probability of detection, averaged over the standard errors, is `power`; for one
    standard error, (t of the level + z of the power) * error. The probability of significance in the wrong
    direction is neglected.

    References
    ----------
    Cohen (1988), "Statistical Power Analysis for the Behavioral Sciences", normal approximation of the
    estimate.
    """
    deviations = np.array([expected.error for expected in errors])
    critical = np.array([expected.half_width(level) for expected in errors])
    sufficient = float((critical + NormalDist().inv_cdf(power) * deviations).max())
    if len(errors) == 1 or sufficient == 0:
        return sufficient

    def excess_power(effect: float) -> float:
        detected = scipy.special.ndtr(ratio(effect - critical, deviations))
        return float(np.where(deviations == 0, 1.0, detected).mean() - power)

    if excess_power(0.0) >= 0:
        return 0.0
    upper = 2 * sufficient  # twice, because of rounding
    return float(scipy.optimize.brentq(excess_power, 0.0, upper))


def half_width(se: float, level: float = 0.95) -> float:
    """Compute half the width of the two-sided normal interval at `level`; `se` is the standard error."""
    return two_sided_z(level) * se


def two_sided_z(level: float) -> float:
    """Compute the standard normal quantile of a two-sided interval at `level`."""
    return NormalDist().inv_cdf((1.0 + level) / 2.0)


def two_sided_t(level: float, freedom: float) -> float:
    """Compute the quantile of Student's t of a two-sided interval at `level`.

    Infinite degrees of freedom give the normal quantile.
    """
    return float(student_quantile(level, floats(freedom)))


def student_quantile(level: float, freedom: Floats) -> Floats:
    """Compute `two_sided_t` for an array of degrees of freedom."""
    if np.isinf(freedom).all():
        return np.full(freedom.shape, two_sided_z(level))
    quantile: Floats = scipy.special.stdtrit(np.minimum(freedom, MOST_FREEDOM), (1.0 + level) / 2.0)
    return quantile


def two_sided_t_p(t: float, freedom: float) -> float:
    """Compute the two-sided p-value of Student's t."""
    if math.isinf(freedom):
        return math.erfc(abs(t) / math.sqrt(2))
    return float(2 * scipy.special.stdtr(freedom, -abs(t)))


def t_tail(t: float, freedom: float) -> float:
    """Compute the probability that Student's t is larger than `t`."""
    return float(scipy.special.stdtr(min(freedom, MOST_FREEDOM), -t))


def p_of_intervals(excess: Callable[[float], float]) -> float:
    """Compute the p-value that belongs to the intervals of an estimate.

    p is the smallest error 1 - L at which the interval of the level L excludes 0.

    Parameters
    ----------
    excess
        Function from a level to by how much the end of the interval that is nearer to 0 lies beyond 0; it
        never increases with the level.

    Returns
    -------
    p, from SMALLEST_P to 1.

    References
    ----------
    Casella and Berger (2002), "Statistical Inference", section 9.2.1 (tests and intervals invert each other).
    """
    if excess(0.0) <= 0:
        return 1.0
    if excess(1.0 - SMALLEST_P) > 0:
        return SMALLEST_P

    def excess_at(log_error: float) -> float:
        return excess(1.0 - math.exp(log_error))

    return math.exp(scipy.optimize.brentq(excess_at, math.log(SMALLEST_P), 0.0))


def _present_values(samples: ArrayLike) -> Floats:
    values = floats(samples).ravel()
    return values[~np.isnan(values)]


class PairedDifference(NamedTuple):
    """Lower and upper end of the interval and p-value of the null hypothesis of no difference.

    Shape (...), NaN where undefined.
    """

    low: Floats
    high: Floats
    p: Floats


def paired_difference(
    observed: ArrayLike,
    resampled: ArrayLike,
    exchanged: ArrayLike | None,
    *,
    units: ArrayLike,
    reach: ArrayLike,
    level: float,
) -> PairedDifference:
    """Compute interval and p-value of differences from a bootstrap of units and an exchange of the sides.

    - The interval is observed ± t * (bootstrap standard error), with units - 1 degrees of freedom. Where all
      resamples agree, it is the exact bound of `rare_event_interval` for that number of units.
    - p is the larger of the interval's p-value and that of the permutation test that exchanges the sides,
      (1 + #{|exchanged| >= |observed|}) / (1 + N). If no exchange reaches the observed difference, the latter
      is the normal tail probability, if smaller than 1 / (1 + N).
    - Where the permutation test is not significant, the interval is extended to 0. It therefore excludes 0 if
      and only if p < 1 - level; without any difference between the sides, it excludes 0 in no more than
      1 - level of the cases.

    Parameters
    ----------
    observed
        (...) differences; NaN gives NaN.
    resampled
        (..., R) differences in resamples of the units, with the same units on both sides; NaN is skipped.
    exchanged
        (..., N) differences after exchanging sides, NaN skipped; None if the sides cannot be exchanged.
    units
        (...) number of resampled units.
    reach
        (...) largest possible |difference|, in the units of the difference; infinite if unbounded (identical
        resamples then give no interval).
    level
        Confidence level.

    References
    ----------
    Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 12; Good (2005), "Permutation,
    Parametric, and Bootstrap Tests of Hypotheses"; Clopper and Pearson (1934).
    """
    value = floats(observed)
    count = np.broadcast_to(floats(units), value.shape)
    bound = np.broadcast_to(floats(reach), value.shape)
    low, high, p = _by_resampling(value, floats(resampled), count, bound, level)
    if exchanged is not None:
        chance = _exchange_p(value, floats(exchanged))
        low, high = _extended_to_zero(low, high, chance >= 1.0 - level)
        p = np.fmax(p, np.where(np.isnan(p), np.nan, chance))
    return _masked(np.isnan(value), np.maximum(low, -bound), np.minimum(high, bound), p)


def exchange_difference(
    observed: ArrayLike, found: PairedDifference, tested: ArrayLike, exchanged: ArrayLike, level: float
) -> PairedDifference:
    """Test differences of upward-biased statistics by exchanging the sides, and adapt their intervals.

    Such statistics are for example ranges over groups. Under exchange both sides have the same bias, so p is
    valid under the null hypothesis. The given interval is extended to 0 unless p < 1 - level and the
    corrected difference has the same sign; in that case it excludes 0, and its end nearest to 0 is moved to
    the observed difference minus the critical value of the exchange, if that is farther from 0. If the signs
    differ, p is at least 1 - TEST_LEVEL; it does not depend on `level`.

    Parameters
    ----------
    observed
        (...) differences, corrected for bias.
    found
        (...) their intervals from another method; its p-values are not used.
    tested
        (...) uncorrected differences, which are compared with `exchanged`.
    exchanged
        (..., N) differences after exchanging sides, NaN skipped; see `exchanged_totals`.
    level
        Confidence level.
    """
    value, raw = floats(observed), floats(tested)
    moved = floats(exchanged)
    p = _exchange_p(raw, moved)
    beyond = np.abs(raw) - critical_values(np.abs(moved), level)
    same_sign = np.sign(value) == np.sign(raw)
    significant = (p < 1.0 - level) & (beyond > 0) & same_sign
    low, high = _extended_to_zero(found.low, found.high, ~significant)
    floor = np.minimum(beyond, np.abs(value))
    low = np.where(significant & (raw > 0), np.maximum(low, floor), low)
    high = np.where(significant & (raw < 0), np.minimum(high, -floor), high)
    unknown = np.isnan(value + found.low + found.high) | np.isnan(moved).all(axis=-1)
    exceeds = np.abs(raw) > critical_values(np.abs(moved), TEST_LEVEL)
    p = np.where(same_sign & exceeds, p, np.maximum(p, 1.0 - TEST_LEVEL))
    return _masked(unknown, low, high, p)


def _extended_to_zero(low: Floats, high: Floats, to_zero: Booleans) -> tuple[Floats, Floats]:
    """Extend the intervals to 0 where `to_zero` is true."""
    extended_low = np.where(to_zero, np.minimum(low, 0.0), low)
    extended_high = np.where(to_zero, np.maximum(high, 0.0), high)
    return extended_low, extended_high


def _masked(unknown: Booleans, low: Floats, high: Floats, p: Floats) -> PairedDifference:
    """Return the intervals and p-values, all NaN where `unknown` is true."""
    return PairedDifference(
        low=np.where(unknown, np.nan, low),
        high=np.where(unknown, np.nan, high),
        p=np.where(unknown, np.nan, p),
    )


def independent_difference(
    estimates: ArrayLike, lows: ArrayLike, highs: ArrayLike, level: float
) -> PairedDifference:
    """Compute interval and p-value of second - first from the intervals of two independent estimates.

    The method of variance estimates recovery (MOVER) adds the squared half-widths of the two intervals that
    face each other, and thus keeps asymmetric intervals asymmetric. p is 1 - the level at which the interval
    just reaches 0 if half-widths grow as normal quantiles.

    Parameters
    ----------
    estimates
        (..., 2) first and second estimate.
    lows
        (..., 2) lower ends of their intervals at `level`.
    highs
        (..., 2) upper ends of their intervals.
    level
        Confidence level.

    References
    ----------
    Zou and Donner (2008), "Construction of confidence limits about effect measures".
    """
    value = floats(estimates)
    d = value[..., 1] - value[..., 0]
    down, up = value - floats(lows), floats(highs) - value
    below = np.hypot(down[..., 1], up[..., 0])
    above = np.hypot(up[..., 1], down[..., 0])
    towards_zero = np.where(d > 0, below, above)
    z = two_sided_z(level) * ratio(np.abs(d), towards_zero)
    p = np.where(d == 0, 1.0, 2.0 * scipy.special.ndtr(-z))
    p = np.where(np.isnan(below + above), np.nan, p)
    return PairedDifference(low=d - below, high=d + above, p=p)


def _by_resampling(
    value: Floats, samples: Floats, units: Floats, reach: Floats, level: float
) -> PairedDifference:
    """Compute interval and p-value from the bootstrap standard error.

    Where all resamples agree, from the exact bound for rare events.
    """
    mean, count = mean_present(samples), count_present(samples)
    squares = np.nansum((samples - mean[..., None]) ** 2, axis=-1)
    divisor = np.where(count >= FEWEST, count - 1, 0)
    error = np.sqrt(ratio(squares, divisor))
    free = np.maximum(units - 1.0, 1.0)
    half = scipy.special.stdtrit(free, (1.0 + level) / 2.0) * error
    p = 2.0 * scipy.special.stdtr(free, -ratio(np.abs(value), error))
    constant = error <= ROUNDING * np.fmax(1.0, np.abs(mean))
    span = np.where(np.isfinite(reach), 2.0 * reach, np.nan)
    trials = np.maximum(units, 1.0)
    rare_half = span * (1.0 - ((1.0 - level) / 2.0) ** (1.0 / trials))
    changed = np.clip(ratio(np.abs(value), span), 0.0, 1.0)  # smallest share of units with a difference
    rare_p = np.minimum(1.0, 2.0 * (1.0 - changed) ** trials)
    half = np.where(constant, rare_half, half)
    p = np.where(constant, rare_p, p)
    return PairedDifference(low=value - half, high=value + half, p=p)


def _exchange_p(tested: Floats, exchanged: Floats) -> Floats:
    """Compute the p-value of the exchange.

    If no exchange reaches the observed difference, the normal tail probability if smaller.
    """
    chance = excess_p(np.abs(tested), np.abs(exchanged), 1)
    count = count_present(exchanged)
    floor = 1.0 / (1.0 + count)
    error = np.sqrt(mean_present(exchanged**2))
    tail = 2.0 * scipy.special.ndtr(-ratio(np.abs(tested), error))
    p = np.where(chance > floor, chance, np.fmin(floor, tail))
    return np.where(count == 0, 1.0, p)
