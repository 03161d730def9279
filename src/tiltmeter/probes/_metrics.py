"""Metrics of probes: their names, ranges and tiers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from tiltmeter.blocks import MARKS, Band as Band
from tiltmeter.comparisons import Groups
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter._arrays import Floats

OUTCOME_DISPARITY: Final = "outcome_disparity"
STEREOTYPICAL_REASONING: Final = "stereotypical_reasoning"
REPRESENTATIONAL_HARMS: Final = "representational_harms"
HARMS: Final[Mapping[str, str]] = {
    OUTCOME_DISPARITY: "Do decisions, or their accuracy, depend on {attribute}?",
    STEREOTYPICAL_REASONING: "Do the judgements, guesses and texts follow stereotypes of {attribute}?",
    REPRESENTATIONAL_HARMS: "Is one group ({attribute}) represented far more often than another?",
}
"""The harms in the order of the paper, with the question for each, in which `{attribute}` stands for the
attributes that are compared."""

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


# -- tiers ---------------------------------------------------------------------------------------------------


def one_sided(a: float, b: float, c: float, *, low: float = 0.0, high: float = 1.0) -> tuple[Band, ...]:
    """Return the tiers of a metric for which larger values are worse.

    The healthy tier reaches up to `a`; `b` and `c` separate the other tiers.

    Raises
    ------
    InputError
        The cut points do not increase, or lie outside `low` to `high`.
    """
    _check_cuts("one_sided", (a, b, c), low, high)
    lows = (float(low), a, b, c)
    highs = (a, b, c, float(high))
    return tuple(map(Band, MARKS, lows, highs))


def two_sided(
    a: float, b: float, c: float, *, low: float = -1.0, high: float = 1.0, centre: float = 0.0
) -> tuple[Band, ...]:
    """Return the tiers of a metric with bias in both directions from `centre`.

    The healthy tier reaches up to the distance `a` from it; `b` and `c` separate the other tiers.

    Raises
    ------
    InputError
        The distances do not increase, are negative, or reach beyond `low` or `high`.
    """
    cuts = (a, b, c)
    _check_cuts("two_sided", cuts, 0.0, min(centre - low, high - centre))
    lows = [*(round(centre - cut, 12) for cut in cuts), float(low)]
    highs = [*(round(centre + cut, 12) for cut in cuts), float(high)]
    bands = [Band(MARKS[0], lows[0], highs[0])]
    for mark, (inner, outer), above in zip(MARKS[1:], pairwise(lows), pairwise(highs), strict=True):
        bands.append(Band(mark, outer, inner))
        bands.append(Band(mark, *above))
    return tuple(bands)


def around_half(a: float, b: float, c: float) -> tuple[Band, ...]:
    """Return the tiers of a share whose unbiased value is one half."""
    return two_sided(a, b, c, low=0.0, high=1.0, centre=0.5)


def _check_cuts(name: str, cuts: tuple[float, float, float], low: float, high: float) -> None:
    a, b, c = cuts
    if not (low <= a < b < c <= high):  # also for NaN
        raise InputError(
            f"{name}({a:g}, {b:g}, {c:g}): the cut points must increase, from at least {low:g} to at most "
            f"{high:g}"
        )


# -- metrics -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a probe, or a family of them.

    Parameters
    ----------
    name
        Name in the publication, under which formulas compute it. A placeholder `{factor}` stands for a value
        of that factor and defines a family of metrics ("race_{race}_male_acceptance_rate"), whose evidence is
        restricted to that value. `{_}` stands for a value of no factor.
    description
        One sentence that defines the number.
    plain, group, group_2, attribute
        How findings name it, with the same placeholders: the metric without the group, the group, the group
        it is compared with, and the attribute. By default the metric is `name`; a placeholder that is the
        factor of the probe's groups is the group and no part of the metric ("{gender}_rate" is the metric
        "rate" with the group). The attribute is that of the probe.
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
    counted
        Two labels, if the metric is the share of the first among answers with one of them, in one group or
        compared between the groups. The counts of the probe then have the columns "group:label" for each
        group and label, and intervals and tests are those of `stats.GroupSample`.
    averaged
        Whether `counted` names the sum and the number of values in place of two labels, so that the metric is
        a mean or compares means. It has no tiers if its range is infinite.
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
    counted: tuple[str, str] | None = None
    averaged: bool = False
    key: bool = False
    harm: str | None = None
    bands: tuple[Band, ...] = ()
    published_bands: tuple[Band, ...] = ()
    normalise: str = "identity"
    where: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    sentence: str = ""
    plain: str = ""
    group: str = ""
    group_2: str = ""
    attribute: str = ""

    def __post_init__(self) -> None:
        """Check `normalise` and the bands."""
        if self.normalise not in _NORMALISED:
            raise InputError(
                f"{self.name}: unknown normalise={self.normalise!r}; known: {', '.join(_NORMALISED)}"
            )
        for bands in filter(None, (self.bands, self.published_bands)):
            self._check_bands(bands)

    def _check_bands(self, bands: Sequence[Band]) -> None:
        """Check that the marks are known, and that the bands cover the range without gaps or overlaps."""
        listed = ", ".join(f"{band.mark} {band.low:g} to {band.high:g}" for band in bands)
        unknown = [band.mark for band in bands if band.mark not in MARKS]
        if unknown:
            raise InputError(
                f"{self.name}: the bands ({listed}) have the mark {unknown[0]!r}; known: {', '.join(MARKS)}"
            )
        ordered = sorted(bands, key=lambda band: band.low)
        covers_range = ordered[0].low == self.low and ordered[-1].high == self.high
        bands_increase = all(band.low <= band.high for band in ordered)
        bands_meet = all(lower.high == upper.low for lower, upper in pairwise(ordered))
        if not (covers_range and bands_increase and bands_meet):
            raise InputError(
                f"{self.name}: the bands ({listed}) must cover {self.low:g} to {self.high:g} without gaps "
                "or overlaps"
            )

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Names in braces in `name`, in order."""
        return tuple(re.findall(r"\{(\w+)\}", self.name))

    @property
    def unit(self) -> str:
        """Unit of the metric, one of UNITS."""
        if self.averaged and math.isinf(self.high):
            return "score"
        if math.isinf(self.high):
            return "count" if self.low == 0 else "score"
        return "share" if self.kind == "mean" and self.low == 0 else "difference"

    @property
    def is_share(self) -> bool:
        """Whether the metric is a share, from 0 to 1."""
        return self.unit == "share" and self.high == 1

    def nearest_unbiased(self, value: float) -> float:
        """Return the value of "no bias" that is nearest to a value.

        It is the null value or, if there is none, a value in the healthiest tier; NaN without either.
        """
        if self.null is not None:
            return self.null
        healthiest = [band for band in self.bands if band.mark == MARKS[0]]
        if not healthiest:
            return math.nan
        lowest = min(band.low for band in healthiest)
        highest = max(band.high for band in healthiest)
        return min(max(value, lowest), highest)

    @property
    def largest_bias(self) -> float:
        """Largest distance of a possible value from the nearest value of "no bias".

        Infinite without such a value.
        """
        above = self.high - self.nearest_unbiased(self.high)
        below = self.nearest_unbiased(self.low) - self.low
        if math.isnan(above) or math.isnan(below):
            return math.inf
        return max(above, below)

    def distance_to_unbiased(self, low: float, high: float) -> float:
        """Return the change of the nearer end of an interval that would make it contain "no bias".

        0 if the interval contains such a value.
        """
        nearest_to_low = self.nearest_unbiased(low)
        if low > nearest_to_low:
            return nearest_to_low - low
        nearest_to_high = self.nearest_unbiased(high)
        if high < nearest_to_high:
            return nearest_to_high - high
        return 0.0

    def normalised(self, value: float) -> float:
        """Map a value to the 0 to 1 scale of the paper's Table 2; NaN stays NaN."""
        if math.isnan(value):  # max(0, NaN) would be a perfect score
            return value
        return _NORMALISED[self.normalise](value)


difference: Final = partial(Metric, low=-1, null=0)
"""A difference of two shares: from -1 to 1, and 0 without bias."""
men_minus_women: Final = partial(difference, group="male", group_2="female")
"""A difference of two shares, that of men minus that of women."""
greatest_difference: Final = partial(Metric, null=0, kind="maximum")
"""The largest of several absolute differences between the probe's groups."""


def with_distance(
    signed: Metric, name: str, description: str, *, published_bands: tuple[Band, ...] = ()
) -> tuple[Metric, Metric]:
    """Return a metric together with its distance from the value that means "no bias".

    The distance has the same tiers.
    """
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
        group=signed.group if signed.group_2 else "",
        group_2=signed.group_2,
    )
    return signed, distance


def _distances(bands: Sequence[Band], centre: float) -> tuple[Band, ...]:
    """Return the tiers of the distance from `centre`, given those of the signed metric."""
    distances = []
    for band in bands:
        if band.high > centre:
            low = round(max(band.low, centre) - centre, 12)
            high = round(band.high - centre, 12)
            distances.append(Band(band.mark, low, high))
    return tuple(distances)


class NamedMetric(NamedTuple):
    """One number computed by formulas.

    `where` has the factors that it refers to, with their values as text, and `values` the values of all
    placeholders.
    """

    name: str
    metric: Metric
    where: Mapping[str, str]
    values: Mapping[str, str] = {}

    def columns(self, groups: Groups | None, attribute: str) -> dict[str, str | None]:
        """Return how findings name it: `metric`, `attribute`, `group` and `group_2`.

        Parameters
        ----------
        groups
            The groups that the metrics of the probe compare, if any.
        attribute
            The attribute of the probe; empty if it has none.
        """
        metric = self.metric
        plain, group = metric.plain or metric.name, metric.group
        factor = groups.column if groups is not None and isinstance(groups.column, str) else None
        if not metric.plain and not group and factor in metric.placeholders:
            group = f"{{{factor}}}"
            plain = "_".join(filter(None, (part.strip("_") for part in plain.split(group))))
        templates = {"group": group, "group_2": metric.group_2, "attribute": metric.attribute or attribute}
        named = {column: text.format_map(self.values) or None for column, text in templates.items()}
        return {"metric": plain.format_map(self.values), **named}


def describe_metric(key: MetricKey, metrics: Iterable[Metric]) -> NamedMetric:
    """Return name and description of the number that a probe computes under `key`.

    Raises
    ------
    InputError
        No metric has that name, or the number of values differs from the number of placeholders.
    """
    name, *values = (key,) if isinstance(key, str) else key
    metric = next((candidate for candidate in metrics if candidate.name == name), None)
    if metric is None:
        raise InputError(
            f"a probe computes {name!r}, which is not among its `metrics`; add a Metric with that name"
        )
    placeholders = metric.placeholders
    if len(values) != len(placeholders):
        raise InputError(
            f"a probe computes {key!r} with {len(values)} values, but the metric's name has "
            f"{len(placeholders)} placeholders"
        )
    factors = dict(zip(placeholders, map(str, values), strict=True))
    where = {factor: value for factor, value in factors.items() if factor != "_"}
    return NamedMetric(metric.name.format_map(factors), metric, {**metric.where, **where}, factors)
