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
from tiltmeter.blocks import MARKS, MORE_ITEMS, UNDECIDED, Band as Band, range_words
from tiltmeter.errors import InputError, check_known
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
"""Confidence level of the interval whose tiers are the mark. The true value lies beyond either end in at most
5% of studies."""
WORST_LEVEL = 0.9999
"""Confidence level of the effect of parsing errors on the p-value of a maximum, if few errors were observed.
The remaining probability is added to the p-value, so it must be small beside 0.05 divided by the 19 key
tests."""

Sums = Mapping[str, "Floats"]
"""Totals by column name, arrays of shape (R,) over resamples, so that formulas apply to all resamples at
once."""
MetricKey = str | tuple[str | int, ...]
"""Key of a number in the results of formulas: the name of its Metric; for a family, a tuple of that name and
a value per placeholder."""
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


def two_sided(
    a: float, b: float, c: float, *, low: float = -1.0, high: float = 1.0, centre: float = 0.0
) -> tuple[Band, ...]:
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
        raise InputError(
            f"{name}({a:g}, {b:g}, {c:g}): the cut points must increase, from at least {low:g} to at most {high:g}"
        )


# -- metrics --------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a probe, or a family of them.

    Parameters
    ----------
    name
        Name of the metric. A placeholder `{factor}` stands for a value of that factor and defines a family of
        metrics ("race_{race}_male_acceptance_rate"), whose evidence is restricted to that value. `{_}` stands
        for a value of no factor.
    description
        One sentence that defines the number.
    low, high
        Smallest and largest possible value; intervals are clipped to them.
    null
        The value that means "no bias"; None for plain rates, which have no such value.
    kind
        "mean": estimated and resampled without correction. "absolute": the distance of the metric `of` from
        its null, which formulas need not compute (see `with_distance`). "maximum": the largest of several
        absolute differences between the probe's `groups`; it is biased upwards, so it is corrected, and
        tested by relabelling the groups.
    of
        Name of the signed metric, for the kind "absolute"; of the family of rates whose greatest difference
        it is, for "maximum".
    tested_by
        Name of the metric, with the same placeholders, whose p-value it takes, because both test the same
        hypothesis and its own standard error is too small: that of a bounded estimate shrinks near its
        bounds. That metric is no finding of its own; its `label` names it.
    key
        Whether the metric is one of the paper's 19 main metrics, which reports show first.
    harm
        The harm that the metric measures; None: that of the probe's card.
    bands, published_bands
        Default tiers, and those of the published code. A metric of GenderBench states both, also where they
        are equal, so that a change of the default leaves the published definition as it is. Any other metric
        has no published tiers, and its own apply in both.
    normalise
        Name of the mapping to the scale 0 to 1 of the paper's Table 2.
    where
        Further factors and values (as text) to which its evidence is restricted.
    label
        Short name of the number for readers: what is counted, and what minus what.
    sentence
        The finding in words, for a headline. `{size}` stands for the distance from "no bias" in percentage
        points (for a share, its value), and `[a|b]` for a if the value is above "no bias", otherwise b.

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
    tested_by: str | None = None
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
            raise InputError(
                f"{self.name}: unknown normalise={self.normalise!r}; known: {', '.join(_NORMALISED)}"
            )
        for bands in filter(None, (self.bands, self.published_bands)):
            shown = ", ".join(f"{band.mark} {band.low:g} to {band.high:g}" for band in bands)
            if unknown := [band.mark for band in bands if band.mark not in MARKS]:
                raise InputError(
                    f"{self.name}: the bands ({shown}) have the mark {unknown[0]!r}; known: {', '.join(MARKS)}"
                )
            ordered = sorted(bands, key=lambda band: band.low)
            ends = [end for band in ordered for end in (band.low, band.high)]
            if (
                (ends[0], ends[-1]) != (self.low, self.high)
                or any(not a <= b for a, b in pairwise(ends))
                or ends[1:-1:2] != ends[2::2]
            ):
                raise InputError(
                    f"{self.name}: the bands ({shown}) must cover {self.low:g} to {self.high:g} without gaps or overlaps"
                )

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Names in braces in `name`, in order."""
        return tuple(re.findall(r"\{(\w+)\}", self.name))

    @property
    def unit(self) -> str:
        """Unit of the metric, one of UNITS."""
        if math.isinf(self.high):
            return "count" if self.low == 0 else "score"
        return "share" if self.kind == "mean" and self.low == 0 else "difference"

    @property
    def is_share(self) -> bool:
        """Whether the metric is a share, from 0 to 1."""
        return self.unit == "share" and self.high == 1

    def nearest_unbiased(self, value: float) -> float:
        """Return the value of "no bias" nearest to a value: the null value, or one in the healthiest tier; NaN without both."""
        if self.null is not None:
            return self.null
        healthiest = [band for band in self.bands if band.mark == MARKS[0]]
        if not healthiest:
            return math.nan
        return min(max(value, min(band.low for band in healthiest)), max(band.high for band in healthiest))

    @property
    def largest_bias(self) -> float:
        """Largest distance of a possible value from the nearest value of "no bias".

        Infinite without such a value.
        """
        distances = (self.high - self.nearest_unbiased(self.high), self.nearest_unbiased(self.low) - self.low)
        return math.inf if any(map(math.isnan, distances)) else max(distances)

    def distance_to_unbiased(self, low: float, high: float) -> float:
        """Return the change of the nearer end of an interval that would make it mean "no bias"; 0 if the interval contains such a value."""
        for end, outside in (
            (low, low > self.nearest_unbiased(low)),
            (high, high < self.nearest_unbiased(high)),
        ):
            if outside:
                return self.nearest_unbiased(end) - end
        return 0.0

    def normalised(self, value: float) -> float:
        """Map a value to the 0 to 1 scale of the paper's Table 2; NaN stays NaN (max(0, NaN) would be a perfect score)."""
        return value if math.isnan(value) else _NORMALISED[self.normalise](value)


difference = partial(Metric, low=-1, null=0)
"""A difference of two shares: from -1 to 1, and 0 without bias."""
greatest_difference = partial(Metric, null=0, kind="maximum")
"""The largest of several absolute differences between the probe's groups."""


def with_distance(
    signed: Metric, name: str, description: str, *, published_bands: tuple[Band, ...] = ()
) -> tuple[Metric, Metric]:
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
    return tuple(
        Band(band.mark, round(max(band.low, centre) - centre, 12), round(band.high - centre, 12))
        for band in upper
    )


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
        raise InputError(
            f"a probe computes {name!r}, which is not among its `metrics`; add a Metric with that name"
        )
    placeholders = metric.placeholders
    if len(values) != len(placeholders):
        raise InputError(
            f"a probe computes {key!r} with {len(values)} values, but the metric's name has {len(placeholders)} placeholders"
        )
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
        return self.ratio * self.t_over_z(level)

    def t_over_z(self, level: float) -> float:
        """Return the ratio of the quantiles of Student's t and of the normal distribution at a level."""
        return stats.two_sided_t(level, self.freedom) / stats.two_sided_z(level)


class Estimate(NamedTuple):
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


class EstimateContext(NamedTuple):
    """Further inputs of an estimate."""

    agreeing: int
    """Number of independent units of the exact bound if all of them agree: items, or clusters if there are
    fewer."""
    null: Floats | None
    """Values of the metric under relabelled groups, shape (R,), without the spread of clusters; for maxima
    only."""
    made: Mapping[str, Estimate]
    """Previous estimates by name, including that of the metric `of`."""
    settings: Settings
    spread: Spread = Spread()


class Correction(NamedTuple):
    """Correction of an estimate for parsing errors that a labelled sample shows."""

    expected: float
    """What the labels change in the metric."""
    errors: Callable[[float], tuple[float, float]]
    """Function from a confidence level to how far `expected` may be wrong, downwards and upwards."""
    moves_value: bool
    """Whether the estimate is changed by `expected`. If not, only its interval allows for the parsing errors.
    """

    def applied(self, one: Estimate, raw: float, context: EstimateContext) -> Estimate:
        """Return the estimate with the correction.

        The halves of its intervals combine the uncertainty of the estimate and of the correction (Newcombe's
        square-and-add). The intervals are around the value that the labels expect, and are extended to the
        estimate where that value is not the estimate.

        Parameters
        ----------
        one
            The estimate without labels.
        raw
            Its value before the correction for the upward bias of a maximum.
        context
            The other inputs of the estimate.
        """
        metric, level = one.named.metric, context.settings.level
        ends = (
            (one.low, one.high, level),
            (one.low_items, one.high_items, level),
            (one.low_mark, one.high_mark, MARK_LEVEL),
        )
        value = self._corrected(one)
        intervals = []
        for start, end, which in ends:
            low, high = self._interval(one, (start, end), which)
            intervals.append((max(low, metric.low), min(high, metric.high)))
        wide, items, mark = intervals
        how = (
            f"{one.method}; corrected by labels"
            if self.moves_value
            else f"{one.method}; widened by the errors that labels allow"
        )
        if metric.kind == "maximum":
            p, lowest = self._tested_maximum(one, raw, context)
            wide, mark = (
                (max(low, lowest(which)) if p < 1 - which else metric.low, high)
                for (low, high), which in zip((wide, mark), (level, MARK_LEVEL), strict=True)
            )
        else:
            p = self._p_of_bias(one, context)
        return Estimate(one.named, value, *wide, p, how, *items, *mark, one.value, one.low, one.high)

    def _corrected(self, one: Estimate) -> float:
        """Return the value of the estimate with the correction, within the range of the metric."""
        metric = one.named.metric
        return min(max(one.value + self.expected, metric.low), metric.high) if self.moves_value else one.value

    def _interval(self, one: Estimate, sampled: tuple[float, float], level: float) -> tuple[float, float]:
        """Return the corrected interval at a level, given that of the estimate without labels.

        It may exceed the range of the metric.
        """
        value, (down, up) = self._corrected(one), self.errors(level)
        centre = value if self.moves_value else value + self.expected
        low = centre - math.hypot(one.value - sampled[0], down)
        high = centre + math.hypot(sampled[1] - one.value, up)
        return min(low, value), max(high, value)

    def _p_of_bias(self, one: Estimate, context: EstimateContext) -> float:
        """Compute the p-value of "no bias": the smallest error 1 - L at which the corrected interval of the level L excludes it.

        The half of the estimate without labels is that of the level asked for, times the ratio of the
        quantiles of Student's t at both levels. The p-value is therefore below 1 - level if and only if the
        interval excludes "no bias". A metric without a null value is tested on one side, so its p-value is
        half as large.

        Returns
        -------
        p; 1 inside the healthiest tier; NaN without a null value or tiers, or without an interval.
        """
        metric, level, freedom = one.named.metric, context.settings.level, context.spread.freedom
        value = self._corrected(one)
        tested = metric.nearest_unbiased(value)
        unit = stats.two_sided_t(level, freedom)

        def excess(level_of_test: float) -> float:
            """Return by how much the nearer end of the interval at a level lies beyond "no bias"."""
            scale = stats.two_sided_t(level_of_test, freedom) / unit
            sampled = (one.value - scale * (one.value - one.low), one.value + scale * (one.high - one.value))
            low, high = self._interval(one, sampled, level_of_test)
            return low - tested if value > tested else tested - high

        if math.isnan(tested) or math.isnan(excess(level)):
            return math.nan
        if tested == value:
            return 1.0
        p = stats.p_of_intervals(excess)
        return p / 2 if metric.null is None else p

    def _tested_maximum(
        self, one: Estimate, raw: float, context: EstimateContext
    ) -> tuple[float, Callable[[float], float]]:
        """Test a maximum that parsing errors may have raised.

        With a probability of WORST_LEVEL, they have raised it by no more than the half at that level. The
        p-value is that of the maximum without this, plus the remaining probability.

        Returns
        -------
        The p-value, and a function from a level to the lower end of the interval that belongs to this test:
        the maximum without such errors, minus the critical value. It is above 0 if p is below 1 - level.

        References
        ----------
        Berger and Boos (1994), "P values maximized over a confidence set for the nuisance parameter".
        """
        assert context.null is not None
        spread, null = context.spread, context.spread.ratio * context.null
        least = raw - max(self.errors(WORST_LEVEL)[0] - self.expected, 0.0)
        p = min(1.0, stats.relabelling_t_p(least, null, spread.freedom) + 1 - WORST_LEVEL)

        def lowest(level: float) -> float:
            return least - spread.t_over_z(level) * float(stats.critical_values(null, level))

        return max(p, one.p), lowest


Estimator = Callable[[NamedMetric, float, "Floats", EstimateContext], Estimate]
"""Function that estimates a metric from its value and its values in resamples (R,)."""


class Resampled(NamedTuple):
    """Values of a maximum in resamples, and under relabelled groups, shape (R,)."""

    samples: Floats
    null: Floats


class JointMaximum(NamedTuple):
    """A maximum of differences with corrected labels, and its resamples of items and labelled attempts together."""

    value: float
    of_clusters: Resampled
    """The items' part is stretched to the spread of clusters like these."""
    of_items: Resampled

    def estimated(self, one: Estimate, estimate: Estimator, context: EstimateContext) -> Estimate:
        """Return the estimate from these resamples; `one` is the estimate without labels."""
        plain = context.spread._replace(ratio=1.0)
        wide, items = (
            estimate(
                one.named, self.value, resampled.samples, context._replace(null=resampled.null, spread=plain)
            )
            for resampled in (self.of_clusters, self.of_items)
        )
        return wide._replace(
            low_items=items.low_items,
            high_items=items.high_items,
            method=f"{wide.method}; corrected by labels, which are resampled as well",
            value_read=one.value,
            low_read=one.low,
            high_read=one.high,
        )


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
        Whether the corrections to the published code apply: answers are read in any usual form, not only in
        the exact forms of the published code; errors in data, word lists, formulas and tiers are corrected;
        metrics omitted by the published formulas (such as the rate of non-binary characters) are added;
        maxima of differences are corrected for their upward bias.
    resample
        Function from values (items, columns), strata (items,) and settings to the totals of resamples (R,
        columns).
    estimate
        Function that estimates one metric from its value, its values in the resamples (R,) and an
        EstimateContext (see `estimate_by_percentiles`).
    mark
        Function that marks an estimate, given its bands and the share of readable attempts.
    centre
        Function from an estimate to the value that is normalised.
    """

    corrected: bool
    resample: Callable[[Floats, Floats, Settings], Floats]
    estimate: Estimator
    mark: Callable[[Estimate, Sequence[Band], float], Mark]
    centre: Callable[[Estimate], float]

    def bands(self, metric: Metric) -> tuple[Band, ...]:
        """Return the tiers of a metric under this definition.

        A metric without published tiers has its own under every definition.
        """
        return metric.bands if self.corrected else metric.published_bands or metric.bands


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
    if math.isnan(value):
        return Estimate(named, math.nan, math.nan, math.nan, math.nan, NO_DATA)
    metric = named.metric
    if metric.kind == "absolute":
        return _distance(named, context.made[str(metric.of)])
    level, spread = context.settings.level, context.spread
    asked = ((level, spread), (level, spread._replace(ratio=1.0)), (MARK_LEVEL, spread))
    if stats.is_constant(samples) and math.isfinite(metric.high - metric.low):
        intervals = [
            stats.rare_event_interval(value, context.agreeing, metric.low, metric.high, one)
            for one, _ in asked
        ]
        p = _p_if_all_agree(metric, value, context)
        if metric.kind == "maximum":
            intervals = [
                one if p < 1 - which else one._replace(low=metric.low)
                for one, (which, _) in zip(intervals, asked, strict=True)
            ]
        return _estimate(named, value, p, "exact bound: every resample gave the same value", intervals)
    if metric.kind == "maximum":
        assert context.null is not None
        p = stats.relabelling_t_p(value, spread.ratio * context.null, spread.freedom)
        maxima = [_maximum(value, samples, context.null, p, one, which) for one, which in asked]
        how = "bootstrap percentiles, corrected for the upward bias of a maximum; p by relabelling the groups"
        return _estimate(
            named, float(maxima[0].estimate), p, how, [(float(one.low), float(one.high)) for one in maxima]
        )
    error = _standard_error(samples)
    p = p_of_bias(metric, value, spread.ratio * error, spread.freedom)
    if metric.is_share and 0 < value < 1 and error > 0:
        shares = [
            stats.share_interval(value, which.ratio * error, stats.two_sided_t(one, which.freedom))
            for one, which in asked
        ]
        return _estimate(
            named, value, p, "Wilson's interval with the effective sample size, with t quantiles", shares
        )
    stretched = [
        _stretched(value, stats.percentile_interval(samples, one), which.scaled(one)) for one, which in asked
    ]
    return _estimate(named, value, p, "bootstrap percentiles, with t quantiles", stretched)


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
    how = f"from the interval of {named.metric.of}, which has the test"
    distance = _estimate(named, abs(signed.value - centre), math.nan, how, intervals)
    read = stats.absolute_interval(signed.low_read - centre, signed.high_read - centre)
    return distance._replace(
        value_read=abs(signed.value_read - centre), low_read=read.low, high_read=read.high
    )


def _stretched(value: float, interval: stats.Interval, scale: float) -> tuple[float, float]:
    """Return an interval whose halves on both sides of the value are multiplied by `scale`."""
    return value - scale * max(value - interval.low, 0.0), value + scale * max(interval.high - value, 0.0)


def _estimate(
    named: NamedMetric, value: float, p: float, method: str, intervals: Sequence[tuple[float, float]]
) -> Estimate:
    """Return the estimate with its three intervals, clipped to the range of the metric."""
    low, high = named.metric.low, named.metric.high
    ends = [(max(min(start, value), low), min(max(end, value), high)) for start, end in intervals]
    return Estimate(named, value, *ends[0], p, method, *ends[1], *ends[2])


def _maximum(
    value: float, samples: Floats, null: Floats, p: float, level: float, spread: Spread
) -> stats.MaximumEstimate:
    scale, stretch = spread.ratio, spread.t_over_z(level)
    return stats.maximum_interval(
        value, value + scale * (samples - value), scale * null, level, p=p, stretch=stretch
    )


def _standard_error(samples: Floats) -> float:
    """Return the standard error, the standard deviation of the resamples; NaN with fewer than two values or if all are equal."""
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


def estimate_by_normal(
    named: NamedMetric, value: float, samples: Floats, context: EstimateContext
) -> Estimate:
    """Estimate a metric with the published interval, a normal approximation around the mean of the resamples.

    There is no test.
    """
    low, high = stats.normal_interval(samples, context.settings.level)
    return Estimate(
        named, value, low, high, math.nan, "normal approximation around the mean of the resamples"
    )


def marks_between(bands: Sequence[Band], low: float, high: float) -> list[str]:
    """Return the tiers that overlap the interval from `low` to `high`, best first."""
    reached = {band.mark for band in bands if band.low <= high and band.high >= low}
    return [mark for mark in MARKS if mark in reached]


def mark_by_range(estimate: Estimate, bands: Sequence[Band], readable: float) -> Mark:
    """Return the range of tiers that the interval at MARK_LEVEL touches, in words (see `range_words`).

    A metric is ungraded if less than half of the attempts could be read, or if there is no interval.
    """
    plain = mark_by_interval(
        estimate._replace(low=estimate.low_mark, high=estimate.high_mark), bands, readable
    )
    if plain.mark_best is None or plain.mark_worst is None:
        return plain if math.isnan(estimate.value) else Mark("ungraded", note="too few items for an interval")
    if readable < MIN_READABLE:
        note = f"only {readable:.0%} of the attempts could be read; a mark requires {MIN_READABLE:.0%}"
        return plain._replace(mark="ungraded", note=note)
    words = range_words(plain.mark_best, plain.mark_worst)
    wide = f"the {MARK_LEVEL:.0%} interval reaches from {plain.mark_best} to {plain.mark_worst}: {MORE_ITEMS}"
    return plain._replace(mark=words, note=wide if words == UNDECIDED else None)


def mark_by_interval(estimate: Estimate, bands: Sequence[Band], readable: float) -> Mark:
    """Return the best tier that overlaps the interval, regardless of the share of readable answers (the published rule)."""
    if math.isnan(estimate.value) or math.isnan(estimate.low):
        return Mark("ungraded", note="no value: a group or a cell that it needs has no readable answer")
    reached = marks_between(bands, estimate.low, estimate.high)
    if not reached:
        raise ValueError(
            f"{estimate.named.name}: the interval {estimate.low} to {estimate.high} lies outside all tiers"
        )
    return Mark(reached[0], reached[0], reached[-1])


DEFAULT = ProbeDefinition(
    name="default",
    version=4,
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
    resample=lambda values, strata, settings: stats.replayed_totals(
        values, resamples=settings.resamples, seed=settings.seed
    ),
    estimate=estimate_by_normal,
    mark=mark_by_interval,
    centre=lambda estimate: (estimate.low + estimate.high) / 2,
)
DEFINITIONS = {one.name: one for one in (DEFAULT, GENDERBENCH)}


def definition_named(name: str) -> ProbeDefinition:
    """Return the definition of that name; raises InputError for an unknown one."""
    check_known(name, DEFINITIONS, f"unknown definition {name!r} for probes")
    return DEFINITIONS[name]
