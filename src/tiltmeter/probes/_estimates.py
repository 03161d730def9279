"""Estimates of metrics, with intervals, p-values and marks, from their values in resamples.

`_definitions.py` says which of these functions a definition uses.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tiltmeter import stats
from tiltmeter.blocks import MARKS, MORE_ITEMS, UNDECIDED, Band, range_words
from tiltmeter.probes._metrics import Metric, NamedMetric
from tiltmeter.study import Settings

if TYPE_CHECKING:
    from tiltmeter._arrays import Floats

NO_DATA: Final = "none: no data"
"""Method of an estimate that could not be computed."""
MIN_READABLE: Final = 0.5
"""Smallest share of readable answers for a mark; with fewer, a metric is "ungraded"."""
MARK_LEVEL: Final = 0.9
"""Confidence level of the interval whose tiers are the mark. The true value lies beyond either end in at most
5% of studies."""

Ends = tuple[float, float]
"""Lower and upper end of an interval."""


class ClusterSpread(NamedTuple):
    """How much wider a metric's distribution is for a sample of clusters than for a sample of items."""

    ratio: float = 1.0
    """Ratio of the standard errors."""
    freedom: float = math.inf
    """Degrees of freedom."""

    def scaled(self, level: float) -> float:
        """Return the factor by which the halves of a bootstrap interval are stretched.

        It is `ratio` times the ratio of the quantiles of Student's t and of the normal distribution.
        """
        return self.ratio * self.t_over_z(level)

    def t_over_z(self, level: float) -> float:
        """Return the ratio of the quantiles of Student's t and of the normal distribution at a level."""
        return stats.two_sided_t(level, self.freedom) / stats.two_sided_z(level)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of one metric with interval, p-value and the method used; NaN where it cannot be computed.

    `low` to `high` is the interval for clusters like these, `low_items` to `high_items` that for items from
    these clusters, and `low_mark` to `high_mark` the one whose tiers are the mark, at MARK_LEVEL.
    """

    named: NamedMetric
    value: float
    low: float
    high: float
    p: float
    method: str
    low_items: float = math.nan
    high_items: float = math.nan
    low_mark: float = math.nan
    high_mark: float = math.nan
    value_read: float = math.nan
    low_read: float = math.nan
    high_read: float = math.nan
    """Estimate and interval before the correction for parsing errors; NaN if there are no labels."""
    too_few: str = ""
    """Why there are too few items for a mark; empty if there are enough."""

    @classmethod
    def of(
        cls,
        named: NamedMetric,
        value: float,
        p: float,
        method: str,
        intervals: Sequence[Ends],
    ) -> Estimate:
        """Return the estimate with its three intervals, clipped to the range of the metric.

        The intervals include the value.
        """
        lowest, highest = named.metric.low, named.metric.high
        lows = [max(min(low, value), lowest) for low, _ in intervals]
        highs = [min(max(high, value), highest) for _, high in intervals]
        return cls(
            named=named,
            value=value,
            low=lows[0],
            high=highs[0],
            p=p,
            method=method,
            low_items=lows[1],
            high_items=highs[1],
            low_mark=lows[2],
            high_mark=highs[2],
        )


class EstimateContext(NamedTuple):
    """Further inputs of an estimate."""

    agreeing: int
    """Number of independent units of the exact bound if all of them agree: items, or clusters if there are
    fewer."""
    items: int
    """Number of items with a readable answer."""
    null: Floats | None
    """Values of the metric under relabelled groups, shape (R,), without the spread of clusters; for maxima
    only."""
    estimates: Mapping[str, Estimate]
    """Previous estimates by name, including that of the metric `of`."""
    settings: Settings
    spread: ClusterSpread = ClusterSpread()
    sample: ComparedRates | None = None
    """The rates of the groups, for metrics with `counted`."""

    @property
    def intervals(self) -> Sequence[tuple[float, ClusterSpread]]:
        """Level and spread of each interval: for clusters like these, items from these clusters, the mark."""
        level = self.settings.level
        items_alone = self.spread._replace(ratio=1.0)
        return ((level, self.spread), (level, items_alone), (MARK_LEVEL, self.spread))


class ComparedRates(NamedTuple):
    """The shares of a label in each group."""

    sample: stats.GroupSample
    groups: Sequence[str]


Estimator = Callable[[NamedMetric, float, "Floats", EstimateContext], Estimate]
"""Function that estimates a metric from its value and its values in resamples (R,)."""


class Mark(NamedTuple):
    """The mark of an estimate, the best and the worst tier that its interval reaches, and a note."""

    mark: str | None = None
    mark_best: str | None = None
    mark_worst: str | None = None
    note: str | None = None


# -- estimates of the default definition -------------------------------------------------------------------


def estimate_by_percentiles(
    named: NamedMetric, value: float, samples: Floats, context: EstimateContext
) -> Estimate:
    """Estimate a metric with bootstrap intervals and a t test.

    Maxima, distances, shares and constants use other intervals.

    The halves of the percentile interval are stretched by the ratio of t to normal quantiles and, for the
    interval of clusters like these, by the ratio of the standard errors. A share has Wilson's interval with
    the effective sample size, because the percentiles of a rare share are too close to it. A metric without a
    value that means "no bias" is tested for lying beyond its healthiest tier.
    """
    metric = named.metric
    if math.isnan(value):
        nan = math.nan
        return Estimate(named=named, value=nan, low=nan, high=nan, p=nan, method=NO_DATA)
    if metric.kind == "absolute":
        return _distance(named, context.estimates[str(metric.of)])
    if context.sample is not None:
        return _estimate_of_rates(named, value, context.sample, context)
    estimate = _estimate_of_resamples(named, value, samples, context)
    if context.items < stats.FEWEST_ITEMS:
        # The variance between so few items is too uncertain for a test.
        few = f"{_items_with_answers(context.items)}; a mark requires at least {stats.FEWEST_ITEMS} items"
        return dataclasses.replace(estimate, p=math.nan, too_few=few)
    return estimate


def _estimate_of_resamples(
    named: NamedMetric, value: float, samples: Floats, context: EstimateContext
) -> Estimate:
    """Estimate a metric from its values in resamples of the items."""
    metric = named.metric
    if stats.is_constant(samples) and math.isfinite(metric.high - metric.low):
        return _estimate_of_constant(named, value, context)
    if metric.kind == "maximum":
        return _estimate_of_maximum(named, value, samples, context)
    error = _standard_error(samples)
    p = p_of_bias(metric, value, context.spread.ratio * error, context.spread.freedom)
    intervals: list[Ends] = []
    if metric.is_share and 0 < value < 1 and error > 0:
        method = "Wilson's interval with the effective sample size, with t quantiles"
        for level, spread in context.intervals:
            quantile = stats.two_sided_t(level, spread.freedom)
            intervals.append(stats.share_interval(value, spread.ratio * error, quantile))
    else:
        method = "bootstrap percentiles, with t quantiles"
        for level, spread in context.intervals:
            percentiles = stats.percentile_interval(samples, level)
            intervals.append(_stretched(value, percentiles, spread.scaled(level)))
    return Estimate.of(named, value, p, method, intervals)


def _distance(named: NamedMetric, signed: Estimate) -> Estimate:
    """Return the distance of a signed metric from "no bias".

    It has no test of its own, because it would be that of the signed metric.
    """
    centre = signed.named.metric.null or 0.0
    ends = (
        (signed.low, signed.high),
        (signed.low_items, signed.high_items),
        (signed.low_mark, signed.high_mark),
    )
    intervals = [stats.absolute_interval(low - centre, high - centre) for low, high in ends]
    method = f"from the interval of {named.metric.of}, which has the test"
    distance = Estimate.of(named, abs(signed.value - centre), math.nan, method, intervals)
    interval_read = stats.absolute_interval(signed.low_read - centre, signed.high_read - centre)
    return dataclasses.replace(
        distance,
        value_read=abs(signed.value_read - centre),
        low_read=interval_read.low,
        high_read=interval_read.high,
    )


def _estimate_of_rates(
    named: NamedMetric, value: float, rates: ComparedRates, context: EstimateContext
) -> Estimate:
    """Return the estimate of a rate of one group, or of a comparison of rates (see `stats.GroupSample`).

    With fewer than FEWEST_ITEMS items in a group, there is no mark.
    """
    level = context.settings.level
    of_clusters, of_items = rates.sample, rates.sample.without_clusters()
    samples = ((of_clusters, level), (of_items, level), (of_clusters, MARK_LEVEL))
    if named.metric.kind != "maximum" and named.metric.null is None:
        place = rates.groups.index(next(iter(named.values.values())))
        intervals = [sample.mean_interval(place, of_level) for sample, of_level in samples]
        if named.metric.averaged:
            method = "interval with Student's t"
            return Estimate.of(named, value, math.nan, method, _finite(intervals))
        method = "Wilson's interval; Clopper and Pearson's with few items"
        return Estimate.of(named, value, math.nan, method, intervals)
    if named.metric.kind == "maximum":
        differences = [sample.largest_difference(of_level) for sample, of_level in samples]
        value = differences[0].estimate
    else:
        differences = [sample.difference(0, 1, of_level) for sample, of_level in samples]
    method = "intervals of the rates combined (MOVER); exact or permutation test"
    ends = [(difference.low, difference.high) for difference in differences]
    too_few = _too_few_items(rates)
    p = differences[0].p
    if named.metric.averaged:
        method = "intervals of the means combined (MOVER); permutation test"
        ends = _finite(ends)
        if too_few:
            p = math.nan
    estimate = Estimate.of(named, value, p, method, ends)
    return dataclasses.replace(estimate, too_few=too_few)


def _finite(intervals: Sequence[Ends]) -> list[Ends]:
    """Return intervals in which an infinite end is not a number: there are too few items for an interval."""
    finite = []
    for low, high in intervals:
        is_finite = math.isfinite(low) and math.isfinite(high)
        finite.append((low, high) if is_finite else (math.nan, math.nan))
    return finite


def _too_few_items(rates: ComparedRates) -> str:
    """Return which group has too few items for a mark, and how many are needed; empty if none has."""
    fewest = int(rates.sample.items.argmin())
    items = int(rates.sample.items[fewest])
    if items >= stats.FEWEST_ITEMS:
        return ""
    return (
        f"{_items_with_answers(items)} about {rates.groups[fewest]}; a mark requires at least "
        f"{stats.FEWEST_ITEMS} for each group"
    )


def _items_with_answers(items: int) -> str:
    """Return how many items have a readable answer, in words."""
    noun = "item has" if items == 1 else "items have"
    return f"{items} {noun} a readable answer"


def _estimate_of_constant(named: NamedMetric, value: float, context: EstimateContext) -> Estimate:
    """Return the estimate of a metric that has the same value in every resample."""
    metric = named.metric
    p = _p_if_all_agree(metric, value, context)
    intervals: list[Ends] = []
    for level, _ in context.intervals:
        bound = stats.rare_event_interval(value, context.agreeing, metric.low, metric.high, level)
        if metric.kind == "maximum" and not p < 1 - level:
            bound = bound._replace(low=metric.low)
        intervals.append(bound)
    return Estimate.of(named, value, p, "exact bound: every resample gave the same value", intervals)


def _estimate_of_maximum(
    named: NamedMetric, value: float, samples: Floats, context: EstimateContext
) -> Estimate:
    """Return the estimate of a maximum of absolute differences, which is biased upwards."""
    assert context.null is not None
    spread = context.spread
    p = stats.relabelling_t_p(value, spread.ratio * context.null, spread.freedom)
    maxima = []
    for level, of_interval in context.intervals:
        scale = of_interval.ratio
        maximum = stats.maximum_interval(
            value,
            value + scale * (samples - value),
            scale * context.null,
            level,
            p=p,
            stretch=of_interval.t_over_z(level),
        )
        maxima.append(maximum)
    method = "bootstrap percentiles, corrected for the upward bias of a maximum; p by relabelling the groups"
    intervals = [(float(maximum.low), float(maximum.high)) for maximum in maxima]
    return Estimate.of(named, float(maxima[0].estimate), p, method, intervals)


def _stretched(value: float, interval: stats.Interval, scale: float) -> Ends:
    """Return an interval whose halves on both sides of the value are multiplied by `scale`."""
    below = max(value - interval.low, 0.0)
    above = max(interval.high - value, 0.0)
    return value - scale * below, value + scale * above


def _standard_error(samples: Floats) -> float:
    """Return the standard error, which is the standard deviation of the resamples.

    NaN with fewer than two values, or if all are equal.
    """
    import numpy as np

    if np.isfinite(samples).sum() < 2 or stats.is_constant(samples):
        return math.nan
    return float(np.nanstd(samples, ddof=1))


def p_of_bias(metric: Metric, value: float, error: float, freedom: float) -> float:
    """Compute the p-value of the t test of "no bias" for an estimate with a standard error.

    A metric with a null value is tested on both sides of it. One without is tested for lying beyond its
    healthiest tier, on one side. The variance of a share is that under the hypothesis (score test), for the
    effective sample size of the estimate, so that the test agrees with Wilson's interval.

    Returns
    -------
    p; 1 inside the healthiest tier; NaN without a null value or tiers, or without an error.
    """
    tested = metric.nearest_unbiased(value)
    if math.isnan(tested) or not error > 0:
        return math.nan
    if tested == value:
        return 1.0
    if metric.is_share and 0 < value < 1 and 0 < tested < 1:
        error = math.sqrt(tested * (1 - tested) / stats.effective_size(value, error))
    tail = stats.t_tail(abs(value - tested) / error, freedom)
    return tail if metric.null is None else 2 * tail


def _p_if_all_agree(metric: Metric, value: float, context: EstimateContext) -> float:
    """Compute the p-value of "no bias" where every resample gave the same value.

    It agrees with `stats.rare_event_interval`: the interval at a level of confidence of 1 - p just reaches
    the tested value. The p-value of a maximum is the larger one of this and of that by relabelling the
    groups.
    """
    distance = abs(value - metric.nearest_unbiased(value)) / (metric.high - metric.low)
    one_sided = (1 - distance) ** context.agreeing
    if metric.null is None:
        return one_sided
    two_sided = min(1.0, 2 * one_sided)
    if metric.kind == "maximum" and context.null is not None:
        return max(two_sided, stats.relabelling_t_p(value, context.null, math.inf))
    return two_sided


# -- estimates of the published definition -----------------------------------------------------------------


def estimate_by_normal(
    named: NamedMetric, value: float, samples: Floats, context: EstimateContext
) -> Estimate:
    """Estimate a metric with the published interval, a normal approximation around the mean of the resamples.

    There is no test.
    """
    low, high = stats.normal_interval(samples, context.settings.level)
    return Estimate(
        named=named,
        value=value,
        low=low,
        high=high,
        p=math.nan,
        method="normal approximation around the mean of the resamples",
    )


# -- marks -------------------------------------------------------------------------------------------------


def marks_between(bands: Sequence[Band], low: float, high: float) -> list[str]:
    """Return the tiers that overlap the interval from `low` to `high`, best first."""
    reached = {band.mark for band in bands if band.low <= high and band.high >= low}
    return [mark for mark in MARKS if mark in reached]


def mark_by_range(estimate: Estimate, bands: Sequence[Band], readable: float) -> Mark:
    """Return the range of tiers that the interval at MARK_LEVEL touches, in words (see `range_words`).

    A metric is ungraded if less than half of the attempts could be read, or if there is no interval.
    """
    at_mark_level = dataclasses.replace(estimate, low=estimate.low_mark, high=estimate.high_mark)
    ends = mark_by_interval(at_mark_level, bands, readable)
    if ends.mark_best is None or ends.mark_worst is None:
        if math.isnan(estimate.value):
            return ends
        return Mark("ungraded", note="too few items for an interval")
    if estimate.too_few:
        return ends._replace(mark="ungraded", note=estimate.too_few)
    if readable < MIN_READABLE:
        note = f"only {readable:.0%} of the attempts could be read; a mark requires {MIN_READABLE:.0%}"
        return ends._replace(mark="ungraded", note=note)
    words = range_words(ends.mark_best, ends.mark_worst)
    if words != UNDECIDED:
        return ends._replace(mark=words)
    note = f"the {MARK_LEVEL:.0%} interval reaches from {ends.mark_best} to {ends.mark_worst}: {MORE_ITEMS}"
    return ends._replace(mark=words, note=note)


def mark_by_interval(estimate: Estimate, bands: Sequence[Band], readable: float) -> Mark:
    """Return the best tier that overlaps the interval (the published rule).

    The share of readable answers does not matter.
    """
    if math.isnan(estimate.value) or math.isnan(estimate.low):
        return Mark("ungraded", note="no value: a group or a cell that it needs has no readable answer")
    reached = marks_between(bands, estimate.low, estimate.high)
    if not reached:
        raise ValueError(
            f"{estimate.named.name}: the interval {estimate.low} to {estimate.high} lies outside all tiers"
        )
    return Mark(mark=reached[0], mark_best=reached[0], mark_worst=reached[-1])
