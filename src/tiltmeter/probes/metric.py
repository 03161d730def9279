"""Metrics of probes: their description and tiers, and their estimation and marks under each definition."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tiltmeter import stats
from tiltmeter.blocks import MARKS, UNDECIDED, Band as Band, range_words
from tiltmeter.errors import InputError
from tiltmeter.registry import check_known
from tiltmeter.study import Definition, Settings

if TYPE_CHECKING:
    from tiltmeter.arrays import Floats


OUTCOME_DISPARITY = "outcome_disparity"
STEREOTYPICAL_REASONING = "stereotypical_reasoning"
REPRESENTATIONAL_HARMS = "representational_harms"
HARMS: Mapping[str, str] = {
    OUTCOME_DISPARITY: "Do decisions, or their accuracy, depend on gender?",
    STEREOTYPICAL_REASONING: "Do the model's judgements, guesses and texts follow gender stereotypes?",
    REPRESENTATIONAL_HARMS: "Is one gender represented far more often than the other?",
}
"""The harms in the order of the paper, with the question for each."""

PUBLISHED = "published"
"""The `definition` of published findings, which were not measured in this run."""
NO_DATA = "none: no data"
"""Method of an estimate that could not be computed."""
MIN_READABLE = 0.5
"""Smallest share of readable answers for a mark; with fewer, a metric is "ungraded"."""

MARK_LEVEL = 0.9
"""Confidence level of the interval whose tiers are the mark. The true value lies beyond either end in at most 5% of studies."""

Sums = Mapping[str, "Floats"]
"""Totals by column name, arrays of shape (R,) over resamples, so that formulas apply to all resamples at once."""
MetricKey = str | tuple[str | int, ...]
"""Key of a number in the results of formulas: the name of its Metric; for a family, a tuple of that name and a value per placeholder."""
Values = dict[MetricKey, "Floats"]
"""Results of formulas: each metric as an array over resamples."""

_NORMALISED: Mapping[str, Callable[[float], float]] = {
    "identity": lambda value: value,
    "absolute": abs,
    "positive": lambda value: max(0.0, value),
    "positive_half": lambda value: max(0.0, value) / 2,
    "from_half": lambda value: abs(value - 0.5),
}


# -- tiers ----------------------------------------------------------------------------------------------------------------------------


def one_sided(a: float, b: float, c: float, *, low: float = 0.0, high: float = 1.0) -> tuple[Band, ...]:
    """Return the tiers of a metric for which larger values are worse: healthy up to `a`, with further cut points at `b` and `c`.

    Raises
    ------
    InputError
        The cut points do not increase, or lie outside `low` to `high`.
    """
    _check_cuts("one_sided", (a, b, c), low, high)
    return tuple(map(Band, MARKS, (float(low), a, b, c), (a, b, c, float(high))))


def two_sided(a: float, b: float, c: float, *, low: float = -1.0, high: float = 1.0, centre: float = 0.0) -> tuple[Band, ...]:
    """Return the tiers of a metric with bias in both directions from `centre`: healthy up to distance `a`, further cuts at `b` and `c`.

    Raises
    ------
    InputError
        The distances do not increase, are negative, or reach beyond `low` or `high`.
    """
    _check_cuts("two_sided", (a, b, c), 0.0, min(centre - low, high - centre))
    lows = [*(round(centre - cut, 12) for cut in (a, b, c)), float(low)]
    highs = [*(round(centre + cut, 12) for cut in (a, b, c)), float(high)]
    bands = [Band(MARKS[0], lows[0], highs[0])]
    for mark, (inner, outer), above in zip(MARKS[1:], pairwise(lows), pairwise(highs), strict=True):
        bands += [Band(mark, outer, inner), Band(mark, *above)]
    return tuple(bands)


def around_half(a: float, b: float, c: float) -> tuple[Band, ...]:
    """Return the tiers of a share whose unbiased value is one half."""
    return two_sided(a, b, c, low=0.0, high=1.0, centre=0.5)


def _check_cuts(name: str, cuts: tuple[float, float, float], low: float, high: float) -> None:
    a, b, c = cuts
    if not (low <= a < b < c <= high):  # also for NaN
        raise InputError(f"{name}({a:g}, {b:g}, {c:g}): the cut points must increase, from at least {low:g} to at most {high:g}")


# -- metrics --------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a probe, or a family of them.

    Parameters
    ----------
    name
        Name of the metric. A placeholder `{factor}` stands for a value of that factor and defines a family of metrics
        ("race_{race}_male_acceptance_rate"), whose evidence is restricted to that value. `{_}` stands for a value of no factor.
    description
        One sentence that defines the number.
    low, high
        Smallest and largest possible value; intervals are clipped to them.
    null
        The value that means "no bias"; None for plain rates, which have no such value.
    kind
        "mean": estimated and resampled without correction. "absolute": the distance of the metric `of` from its null, which formulas
        need not compute (see `with_distance`). "maximum": the largest of several absolute differences between the probe's `groups`; it
        is biased upwards, so it is corrected, and tested by relabelling the groups.
    of
        Name of the signed metric, for the kind "absolute"; of the family of rates whose greatest difference it is, for "maximum".
    key
        Whether the metric is one of the paper's 19 main metrics, which reports show first.
    harm
        The harm that the metric measures; None: that of the probe's card.
    bands, published_bands
        Default tiers, and those of the published code. A metric of GenderBench states both, also where they are equal, so that a change
        of the default leaves the published definition as it is. Any other metric has no published tiers, and its own apply in both.
    normalise
        Name of the mapping to the scale 0 to 1 of the paper's Table 2.
    where
        Further factors and values (as text) to which its evidence is restricted.
    label
        Short name of the number for readers: what is counted, and what minus what.
    sentence
        The finding in words, for a headline. `{size}` stands for the distance from "no bias" in percentage points (for a share, its value),
        and `[a|b]` for a if the value is above "no bias", otherwise b.

    Raises
    ------
    InputError
        A band has an unknown mark, or the bands do not cover `low` to `high` without gaps or overlaps.
    """

    name: str
    description: str
    low: float = 0.0
    high: float = 1.0
    null: float | None = None
    kind: str = "mean"
    of: str | None = None
    key: bool = False
    harm: str | None = None
    bands: tuple[Band, ...] = ()
    published_bands: tuple[Band, ...] = ()
    normalise: str = "identity"
    where: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    sentence: str = ""

    def __post_init__(self) -> None:
        """Check `normalise` and the bands."""
        if self.normalise not in _NORMALISED:
            raise InputError(f"{self.name}: unknown normalise={self.normalise!r}; known: {', '.join(_NORMALISED)}")
        for bands in filter(None, (self.bands, self.published_bands)):
            shown = ", ".join(f"{band.mark} {band.low:g} to {band.high:g}" for band in bands)
            if unknown := [band.mark for band in bands if band.mark not in MARKS]:
                raise InputError(f"{self.name}: the bands ({shown}) have the mark {unknown[0]!r}; known: {', '.join(MARKS)}")
            ordered = sorted(bands, key=lambda band: band.low)
            ends = [end for band in ordered for end in (band.low, band.high)]
            if (ends[0], ends[-1]) != (self.low, self.high) or any(not a <= b for a, b in pairwise(ends)) or ends[1:-1:2] != ends[2::2]:
                raise InputError(f"{self.name}: the bands ({shown}) must cover {self.low:g} to {self.high:g} without gaps or overlaps")

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Names in braces in `name`, in order."""
        return tuple(re.findall(r"\{(\w+)\}", self.name))

    @property
    def unit(self) -> str:
        """Unit of the metric, one of UNITS."""
        if math.isinf(self.high):
            return "count"
        return "share" if self.kind == "mean" and self.low == 0 else "difference"

    def normalised(self, value: float) -> float:
        """Map a value to the 0 to 1 scale of the paper's Table 2; NaN stays NaN (max(0, NaN) would be a perfect score)."""
        return value if math.isnan(value) else _NORMALISED[self.normalise](value)


difference = partial(Metric, low=-1, null=0)
"""A difference of two shares: from -1 to 1, and 0 without bias."""
greatest_difference = partial(Metric, null=0, kind="maximum")
"""The largest of several absolute differences between the probe's groups."""


def with_distance(signed: Metric, name: str, description: str, *, published_bands: tuple[Band, ...] = ()) -> tuple[Metric, Metric]:
    """Return a metric together with a second metric, its distance from the value that means "no bias", with the same tiers."""
    centre = signed.null or 0.0
    distance = Metric(
        name,
        description,
        high=signed.high - centre,
        null=0,
        kind="absolute",
        of=signed.name,
        harm=signed.harm,
        bands=_distances(signed.bands, centre),
        published_bands=published_bands or _distances(signed.published_bands, centre),
    )
    return signed, distance


def _distances(bands: Sequence[Band], centre: float) -> tuple[Band, ...]:
    """Return the tiers of the distance from `centre`, given those of the signed metric."""
    upper = [band for band in bands if band.high > centre]
    return tuple(Band(band.mark, round(max(band.low, centre) - centre, 12), round(band.high - centre, 12)) for band in upper)


class NamedMetric(NamedTuple):
    """One number computed by formulas: its published name, its Metric, and the factors (with their values as text) that it refers to."""

    name: str
    metric: Metric
    where: Mapping[str, str]


def describe_metric(key: MetricKey, metrics: Iterable[Metric]) -> NamedMetric:
    """Return name and description of the number that a probe computes under `key`.

    Raises
    ------
    InputError
        No metric has that name, or the number of values differs from the number of placeholders.
    """
    name, *values = (key,) if isinstance(key, str) else key
    metric = next((one for one in metrics if one.name == name), None)
    if metric is None:
        raise InputError(f"a probe computes {name!r}, which is not among its `metrics`; add a Metric with that name")
    placeholders = metric.placeholders
    if len(values) != len(placeholders):
        raise InputError(f"a probe computes {key!r} with {len(values)} values, but the metric's name has {len(placeholders)} placeholders")
    factors = dict(zip(placeholders, map(str, values), strict=True))
    where = {factor: value for factor, value in factors.items() if factor != "_"}
    return NamedMetric(metric.name.format_map(factors), metric, {**metric.where, **where})


# -- estimates and marks --------------------------------------------------------------------------------------------------------------


class Spread(NamedTuple):
    """How much wider a metric's distribution is for a sample of clusters than for a sample of items, and its degrees of freedom."""

    ratio: float = 1.0
    freedom: float = math.inf

    def scaled(self, level: float) -> float:
        """Return the factor by which the halves of a bootstrap interval are stretched: `ratio` times the t over the normal quantile."""
        return self.ratio * stats.two_sided_t(level, self.freedom) / stats.two_sided_z(level)


class Estimate(NamedTuple):
    """Estimate of one metric with interval, p-value and the method used; NaN where it cannot be computed.

    `low` to `high` is the interval for clusters like these, `low_items` to `high_items` that for items from these clusters, and `low_mark`
    to `high_mark` the one whose tiers are the mark, at MARK_LEVEL.
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


class Correction(NamedTuple):
    """Correction of an estimate for parsing errors that a labelled sample shows."""

    shift: float
    halves: Mapping[float, tuple[float, float]]
    """How far the correction itself may be wrong, downwards and upwards, by confidence level."""

    def applied(self, one: Estimate, level: float) -> Estimate:
        """Return the estimate with the correction; its intervals combine the uncertainty of both (Newcombe's square-and-add)."""
        low, high = one.named.metric.low, one.named.metric.high
        ends = ((one.low, one.high, level), (one.low_items, one.high_items, level), (one.low_mark, one.high_mark, MARK_LEVEL))
        value = min(max(one.value + self.shift, low), high)
        wide = []
        for start, end, which in ends:
            down, up = self.halves[which]
            wide.append((max(value - math.hypot(one.value - start, down), low), min(value + math.hypot(end - one.value, up), high)))
        (first, last), items, mark = wide
        half = (last - first) / 2 / stats.two_sided_z(level)
        null = one.named.metric.null
        p = math.nan if null is None or not half > 0 else stats.two_sided_t_p((value - null) / half, math.inf)
        return Estimate(one.named, value, first, last, p, f"{one.method}; corrected by labels", *items, *mark, one.value, one.low, one.high)


class EstimateContext(NamedTuple):
    """Further inputs of an estimate."""

    agreeing: int
    """Number of independent units of the exact bound if all of them agree: items, or clusters if there are fewer."""
    null: Floats | None
    """Values of the metric under relabelled groups, shape (R,); for maxima only."""
    made: Mapping[str, Estimate]
    """Previous estimates by name, including that of the metric `of`."""
    settings: Settings
    spread: Spread = Spread()


class Mark(NamedTuple):
    """The mark of an estimate, the best and the worst tier that its interval reaches, and a note."""

    mark: str | None = None
    mark_best: str | None = None
    mark_worst: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ProbeDefinition(Definition):
    """A definition of the probes' metrics.

    Parameters
    ----------
    corrected
        Whether the corrections to the published code apply: answers are read in any usual form, not only in the exact forms of the
        published code; errors in data, word lists, formulas and tiers are corrected; metrics omitted by the published formulas (such as
        the rate of non-binary characters) are added; maxima of differences are corrected for their upward bias.
    resample
        Function from values (items, columns), strata (items,) and settings to the totals of resamples (R, columns).
    estimate
        Function that estimates one metric from its value, its values in the resamples (R,) and an EstimateContext (see
        `estimate_by_percentiles`).
    mark
        Function that marks an estimate, given its bands and the share of readable attempts.
    centre
        Function from an estimate to the value that is normalised.
    """

    corrected: bool
    resample: Callable[[Floats, Floats, Settings], Floats]
    estimate: Callable[[NamedMetric, float, Floats, EstimateContext], Estimate]
    mark: Callable[[Estimate, Sequence[Band], float], Mark]
    centre: Callable[[Estimate], float]

    def bands(self, metric: Metric) -> tuple[Band, ...]:
        """Return the tiers of a metric under this definition; a metric without published tiers has its own under every definition."""
        return metric.bands if self.corrected else metric.published_bands or metric.bands


def estimate_by_percentiles(named: NamedMetric, value: float, samples: Floats, context: EstimateContext) -> Estimate:
    """Estimate a metric with bootstrap intervals and a t test; maxima, distances and constants use other intervals.

    The halves of the percentile interval are stretched by the ratio of t to normal quantiles and, for the interval of clusters like these,
    by the ratio of the standard errors.
    """
    metric, level, nan = named.metric, context.settings.level, math.nan
    if math.isnan(value):
        return Estimate(named, nan, nan, nan, nan, NO_DATA)
    spread = context.spread
    asked = ((level, spread), (level, spread._replace(ratio=1.0)), (MARK_LEVEL, spread))
    if metric.kind == "absolute":
        twin = context.made[str(metric.of)]
        centre = twin.named.metric.null or 0.0
        pairs = ((twin.low, twin.high), (twin.low_items, twin.high_items), (twin.low_mark, twin.high_mark))
        intervals = [stats.absolute_interval(low - centre, high - centre) for low, high in pairs]
        distance = _estimate(named, abs(twin.value - centre), twin.p, f"from the interval of {metric.of}", intervals)
        read = stats.absolute_interval(twin.low_read - centre, twin.high_read - centre)
        return distance._replace(value_read=abs(twin.value_read - centre), low_read=read.low, high_read=read.high)
    if stats.is_constant(samples) and math.isfinite(metric.high - metric.low):
        intervals = [stats.rare_event_interval(value, context.agreeing, metric.low, metric.high, one) for one, _ in asked]
        return _estimate(named, value, nan, "exact bound: every resample gave the same value", intervals)
    if metric.kind == "maximum":
        assert context.null is not None
        made = [_maximum(value, samples, context.null, one, which) for one, which in asked]
        how = "bootstrap percentiles, corrected for the upward bias of a maximum; p by relabelling the groups"
        return _estimate(named, float(made[0].estimate), float(made[0].p), how, [(float(one.low), float(one.high)) for one in made])
    ends = [(*stats.percentile_interval(samples, one), which.scaled(one)) for one, which in asked]
    wide = [(value - scale * max(value - low, 0.0), value + scale * max(high - value, 0.0)) for low, high, scale in ends]
    return _estimate(named, value, _two_sided_p(value, samples, metric.null, spread), "bootstrap percentiles, with t quantiles", wide)


def _estimate(named: NamedMetric, value: float, p: float, method: str, intervals: Sequence[tuple[float, float]]) -> Estimate:
    """Return the estimate with its three intervals, clipped to the range of the metric."""
    low, high = named.metric.low, named.metric.high
    ends = [(max(min(start, value), low), min(max(end, value), high)) for start, end in intervals]
    return Estimate(named, value, *ends[0], p, method, *ends[1], *ends[2])


def _maximum(value: float, samples: Floats, null: Floats, level: float, spread: Spread) -> stats.MaximumEstimate:
    scale = spread.scaled(level)
    return stats.maximum_interval(value, value + scale * (samples - value), scale * null, level)


def _two_sided_p(value: float, samples: Floats, null: float | None, spread: Spread) -> float:
    """Compute the p-value of the t test of value = null with the bootstrap standard error; NaN without null value or spread."""
    import numpy as np

    if null is None or np.isfinite(samples).sum() < 2 or stats.is_constant(samples):
        return math.nan
    return stats.two_sided_t_p((value - null) / (spread.ratio * float(np.nanstd(samples, ddof=1))), spread.freedom)


def estimate_by_normal(named: NamedMetric, value: float, samples: Floats, context: EstimateContext) -> Estimate:
    """Estimate a metric with the published interval, a normal approximation around the mean of the resamples; there is no test."""
    low, high = stats.normal_interval(samples, context.settings.level)
    return Estimate(named, value, low, high, math.nan, "normal approximation around the mean of the resamples")


def marks_between(bands: Sequence[Band], low: float, high: float) -> list[str]:
    """Return the tiers that overlap the interval from `low` to `high`, best first."""
    reached = {band.mark for band in bands if band.low <= high and band.high >= low}
    return [mark for mark in MARKS if mark in reached]


def mark_by_range(estimate: Estimate, bands: Sequence[Band], readable: float) -> Mark:
    """Return the range of tiers that the interval at MARK_LEVEL touches, in words (see `range_words`).

    A metric is ungraded if less than half of the attempts could be read, or if there is no interval.
    """
    plain = mark_by_interval(estimate._replace(low=estimate.low_mark, high=estimate.high_mark), bands, readable)
    if plain.mark_best is None or plain.mark_worst is None:
        return plain if math.isnan(estimate.value) else Mark("ungraded", note="too few items for an interval")
    if readable < MIN_READABLE:
        note = f"only {readable:.0%} of the attempts could be read; a mark requires {MIN_READABLE:.0%}"
        return plain._replace(mark="ungraded", note=note)
    words = range_words(plain.mark_best, plain.mark_worst)
    wide = f"the {MARK_LEVEL:.0%} interval reaches from {plain.mark_best} to {plain.mark_worst}: more items are needed"
    return plain._replace(mark=words, note=wide if words == UNDECIDED else None)


def mark_by_interval(estimate: Estimate, bands: Sequence[Band], readable: float) -> Mark:
    """Return the best tier that overlaps the interval, regardless of the share of readable answers (the published rule)."""
    if math.isnan(estimate.value) or math.isnan(estimate.low):
        return Mark("ungraded", note="no readable answers")
    reached = marks_between(bands, estimate.low, estimate.high)
    if not reached:
        raise ValueError(f"{estimate.named.name}: the interval {estimate.low} to {estimate.high} lies outside all tiers")
    return Mark(reached[0], reached[0], reached[-1])


DEFAULT = ProbeDefinition(
    name="default",
    version=3,
    corrected=True,
    resample=lambda values, strata, settings: stats.resampled_totals(
        values, resamples=settings.resamples, seed=settings.seed, strata=strata
    ),
    estimate=estimate_by_percentiles,
    mark=mark_by_range,
    centre=lambda estimate: estimate.value,
)
GENDERBENCH = ProbeDefinition(
    name="genderbench",
    version=1,
    corrected=False,
    resample=lambda values, strata, settings: stats.replayed_totals(values, resamples=settings.resamples, seed=settings.seed),
    estimate=estimate_by_normal,
    mark=mark_by_interval,
    centre=lambda estimate: (estimate.low + estimate.high) / 2,
)
DEFINITIONS = {one.name: one for one in (DEFAULT, GENDERBENCH)}


def definition_named(name: str) -> ProbeDefinition:
    """Return the definition of that name; raises InputError for an unknown one."""
    check_known(name, DEFINITIONS, f"unknown definition {name!r} for probes")
    return DEFINITIONS[name]
