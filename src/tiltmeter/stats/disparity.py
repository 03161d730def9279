"""How far the values of a statistic lie apart over groups, for many resamples at once.

Every comparison is one entry of `COMPARISONS`: a function of a `Spread`, which holds (..., G) values of G groups (NaN: the group has
none) and computes what several comparisons share once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiltmeter.stats.dixon import DixonTest, dixon_test
from tiltmeter.stats.summary import sorted_quantile

__all__ = ["COMPARISONS", "Comparison", "Spread", "column_quantiles", "excess_p", "lifted_interval"]

Floats = NDArray[np.float64]
ROUNDING = 1e-12  # values equal in exact arithmetic differ by this much, relatively, after sums in another order
# As for `maximum_interval`: resampling lifts a maximum by this share of what sampling does.
RESAMPLING_SHARE = math.sqrt(2.0) - 1.0


class Spread:
    """The values of one statistic over groups, and what several comparisons need of them."""

    def __init__(self, values: Floats, original: bool = False) -> None:
        """`values` (..., G), NaN where a group has no value; `original`: compare as the package `sagedbias` does."""
        self.values, self.original = values, original

    @cached_property
    def count(self) -> NDArray[np.int_]:
        """How many groups have a value."""
        found: NDArray[np.int_] = (~np.isnan(self.values)).sum(axis=-1)
        return found

    @cached_property
    def max(self) -> Floats:
        """The greatest value."""
        found: Floats = np.fmax.reduce(self.values, axis=-1)
        return found

    @cached_property
    def min(self) -> Floats:
        """The least value."""
        found: Floats = np.fmin.reduce(self.values, axis=-1)
        return found

    @cached_property
    def mean(self) -> Floats:
        """The mean over groups."""
        found: Floats = np.where(np.isnan(self.values), 0.0, self.values).sum(axis=-1) / self.count
        return found

    @cached_property
    def deviations(self) -> Floats:
        """Deviations from it, NaN where a group has no value."""
        return self.values - self.mean[..., None]

    @cached_property
    def squares(self) -> Floats:
        """Sum of the squared deviations."""
        found: Floats = np.where(np.isnan(self.values), 0.0, self.deviations**2).sum(axis=-1)
        return found

    @cached_property
    def z(self) -> Floats:
        """Deviation of each group (..., G) from their mean in standard deviations (divisor G); NaN where all are equal."""
        sd = np.sqrt(self.squares / self.count)
        sd = np.where(sd > ROUNDING * np.abs(self.mean), sd, np.nan)
        return self.deviations / sd[..., None]

    @cached_property
    def dixon(self) -> DixonTest:
        """Dixon's ratios of both ends, and the critical value at 95%."""
        # Equal but for rounding, values would seem to lie apart.
        equal = self.max - self.min <= ROUNDING * np.maximum(np.abs(self.max), np.abs(self.min))
        return dixon_test(np.where(equal[..., None], 0.0, self.values) + np.where(np.isnan(self.values), np.nan, 0.0))


def _several(spread: Spread, value: Floats) -> Floats:
    """A comparison needs two groups by our definition; the original compares one with itself."""
    return value if spread.original else np.where(spread.count > 1, value, np.nan)


def _range(spread: Spread) -> Floats:
    return _several(spread, spread.max - spread.min)


def _ratio(spread: Spread) -> Floats:
    # A ratio is one of amounts; of negative values, or of nothing, it says nothing. The original gives it for negative values too.
    defined = spread.max != 0 if spread.original else (spread.max > 0) & (spread.min >= 0)
    return _several(spread, np.where(defined, spread.min / spread.max, np.nan))


def _sd(spread: Spread) -> Floats:
    return np.where(spread.count > 1, np.sqrt(spread.squares / (spread.count - 1.0)), np.nan)


def _max_z(spread: Spread) -> Floats:
    return _several(spread, np.fmax.reduce(spread.z, axis=-1))


def _max_abs_z(spread: Spread) -> Floats:
    return _several(spread, np.fmax.reduce(np.abs(spread.z), axis=-1))


def _dixon_q(spread: Spread) -> Floats:
    return np.fmax(spread.dixon.low, spread.dixon.high)


def _dixon_margin(spread: Spread) -> Floats:
    return _dixon_q(spread) - spread.dixon.critical


class Comparison(NamedTuple):
    """One entry.

    Attributes:
        compute: The comparison of (..., G) values.
        none: Its value where groups do not differ at all, if it is a distance from there that noise lifts; the interval is then corrected.
        extreme: +1 if great values speak of a difference, -1 if small ones do, 0 if it is no test.
        group: Which group it is about: "max", "min", "z" (the greatest |z|), "low" or "high" (an end), "end" (the farther end), or none.
    """

    compute: Callable[[Spread], Floats]
    none: float | None = None
    extreme: int = 0
    group: str = ""


COMPARISONS: Mapping[str, Comparison] = {
    "max": Comparison(lambda spread: spread.max, group="max"),
    "min": Comparison(lambda spread: spread.min, group="min"),
    "range": Comparison(_range, none=0.0, extreme=1),
    "ratio": Comparison(_ratio, none=1.0, extreme=-1),
    "average": Comparison(lambda spread: spread.mean),
    "sd": Comparison(_sd, none=0.0, extreme=1),
    "max_z": Comparison(_max_z, extreme=1, group="max"),
    "max_abs_z": Comparison(_max_abs_z, extreme=1, group="z"),
    "dixon_low": Comparison(lambda spread: spread.dixon.low, extreme=1, group="min"),
    "dixon_high": Comparison(lambda spread: spread.dixon.high, extreme=1, group="max"),
    "dixon_q": Comparison(_dixon_q, extreme=1, group="end"),
    "dixon_margin": Comparison(_dixon_margin, extreme=1, group="end"),
}


def column_quantiles(samples: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Return both ends of the central `level` and the median of (..., R) resamples, NaN being skipped."""
    ordered = np.sort(samples, axis=-1)
    count = (~np.isnan(samples)).sum(axis=-1).astype(np.float64)
    tail = (1.0 - level) / 2.0
    low, median, high = (sorted_quantile(ordered, count, share) for share in (tail, 0.5, 1.0 - tail))
    return low, median, high


def excess_p(raw: Floats, null: Floats, extreme: int) -> Floats:
    """Return p = (1 + #{null at least as extreme}) / (1 + N) for raw (...) and null (..., N); NaN null values do not count in N."""
    signed, reached = raw * extreme, null * extreme
    reach = signed - ROUNDING * np.maximum(1.0, np.abs(signed))
    tested = (~np.isnan(null)).sum(axis=-1)
    p = (1.0 + (reached >= reach[..., None]).sum(axis=-1)) / (1.0 + tested)
    return np.where(np.isnan(raw) | (tested == 0), np.nan, p)


def lifted_interval(raw: Floats, samples: Floats, null: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the intervals of distances that noise lifts: `maximum_interval` for (...) distances at once.

    `raw` (...) at least 0, `samples` (..., R) bootstrap and `null` (..., N) permuted values, NaN skipped. The lower end is above 0 if and
    only if p < 1 - level; see `maxima.md` for how often it covers the truth. Without permuted values it is 0.
    """
    with np.errstate(all="ignore"):
        lower, median, upper = column_quantiles(samples, level)
        lift = np.maximum(0.0, _mean(samples) - raw) / RESAMPLING_SHARE
        tested = (~np.isnan(null)).sum(axis=-1)
        lift = np.where(tested > 0, np.minimum(lift, _mean(null)), lift)
        alpha = 1.0 - level
        spare = np.ceil(alpha * (1.0 + tested)) - 2.0
        place = np.clip(tested - 1 - spare, 0, max(null.shape[-1] - 1, 0)).astype(np.intp)
        critical = (
            np.take_along_axis(np.sort(null, axis=-1), place[..., None], axis=-1)[..., 0] if null.shape[-1] else np.full(raw.shape, np.nan)
        )
        floor = np.where(excess_p(raw, null, 1) < alpha, raw - critical, 0.0)
        near = np.maximum(0.0, raw - lift) - np.maximum(upper - median, median - lower)
        low = np.where(floor > 0.0, np.maximum(floor, near), 0.0)
    unknown = np.isnan(raw) | np.isnan(median)
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, raw + (upper - median))


def _mean(samples: Floats) -> Floats:
    present = ~np.isnan(samples)
    found: Floats = np.where(present, samples, 0.0).sum(axis=-1) / present.sum(axis=-1)
    return found
