"""What a probe's numbers mean: names, ranges, the value that means "no bias", and the tiers of the marks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tiltmeter.errors import InputError
from tiltmeter.study import MARKS

__all__ = [
    "OUTCOME_DISPARITY",
    "REPRESENTATIONAL_HARMS",
    "STEREOTYPICAL_REASONING",
    "Band",
    "Metric",
    "around_half",
    "one_sided",
    "two_sided",
]

OUTCOME_DISPARITY = "outcome_disparity"
STEREOTYPICAL_REASONING = "stereotypical_reasoning"
REPRESENTATIONAL_HARMS = "representational_harms"


class Band(NamedTuple):
    """One stretch of a metric's range that earns `mark`; both ends belong to it."""

    mark: str
    low: float
    high: float


def one_sided(a: float, b: float, c: float, *, low: float = 0.0, high: float = 1.0) -> tuple[Band, ...]:
    """Tiers of a metric of which more is worse: healthy up to `a`, then cut at `b` and `c`.

    Raises
    ------
    InputError
        The cut points do not increase, or lie outside `low` to `high`.
    """
    _check_cuts("one_sided", (a, b, c), low, high)
    cuts = (float(low), a, b, c, float(high))
    return tuple(Band(mark, cuts[i], cuts[i + 1]) for i, mark in enumerate(MARKS))


def two_sided(a: float, b: float, c: float, *, low: float = -1.0, high: float = 1.0, centre: float = 0.0) -> tuple[Band, ...]:
    """Tiers of a metric that may lean either way from `centre`: healthy up to a distance of `a`, then cut at `b` and `c`.

    Raises
    ------
    InputError
        The distances do not increase, are negative, or reach beyond `low` or `high`.
    """
    _check_cuts("two_sided", (a, b, c), 0.0, min(centre - low, high - centre))
    low, high, cuts = float(low), float(high), (a, b, c)
    bands = [Band(MARKS[0], round(centre - a, 12), round(centre + a, 12))]
    for i, mark in enumerate(MARKS[1:]):
        inner, outer = cuts[i], cuts[i + 1] if i < 2 else None
        bands.append(Band(mark, low if outer is None else round(centre - outer, 12), round(centre - inner, 12)))
        bands.append(Band(mark, round(centre + inner, 12), high if outer is None else round(centre + outer, 12)))
    return tuple(bands)


def around_half(a: float, b: float, c: float) -> tuple[Band, ...]:
    """Tiers of a share whose fair value is one half."""
    return two_sided(a, b, c, low=0.0, high=1.0, centre=0.5)


def _check_cuts(name: str, cuts: tuple[float, float, float], low: float, high: float) -> None:
    a, b, c = cuts
    if not (low <= a < b < c <= high):  # also for NaN
        raise InputError(f"{name}({a:g}, {b:g}, {c:g}): the cut points must increase, from at least {low:g} to at most {high:g}")


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a probe, or a family of them.

    Parameters
    ----------
    name
        The metric's name. `{factor}` stands for a value of that factor and makes a family
        ("race_{race}_male_acceptance_rate"): its evidence is then narrowed to that value. `{_}` stands for anything.
    description
        One sentence: what the number says.
    low, high
        The values it can take; intervals are clipped to them.
    null
        The value that means "no bias", None where there is none (a plain rate).
    kind
        "mean": estimated and resampled as it is. "absolute": the distance of the metric `of` from its null.
        "maximum": the greatest of several absolute differences between the probe's `groups`; biased upwards
        by noise, so it is corrected and tested against relabelled groups.
    key
        Shown first: one of the paper's 19.
    bands, original_bands
        Tiers by default, and those of the original where they differ.
    normalise
        How the value is brought to 0..1 for the paper's Table 2.
    where
        Factors (with their value as text) its evidence is narrowed to, besides those in the name.

    Raises
    ------
    InputError
        A band has an unknown mark, or the bands do not cover `low` to `high` without gap and overlap.
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
    original_bands: tuple[Band, ...] = ()
    normalise: str = "identity"
    where: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for bands in (self.bands, self.original_bands):
            ordered = sorted(bands, key=lambda band: band.low)
            shown = ", ".join(f"{band.mark} {band.low:g} to {band.high:g}" for band in bands)
            if unknown := [band.mark for band in bands if band.mark not in MARKS]:
                raise InputError(f"{self.name}: the bands ({shown}) have the mark {unknown[0]!r}; known: {', '.join(MARKS)}")
            ends = bool(bands) and (ordered[0].low, ordered[-1].high) != (self.low, self.high)
            reversed_band = any(not band.low <= band.high for band in bands)
            if ends or reversed_band or any(left.high != right.low for left, right in pairwise(ordered)):
                raise InputError(f"{self.name}: the bands ({shown}) must cover {self.low:g} to {self.high:g} without gap and overlap")

    def match(self, name: str) -> dict[str, str] | None:
        """The placeholders' values if `name` belongs to this family, else None."""
        pattern, fields = "", []
        for text, placeholder in re.findall(r"([^{]*)(?:\{(\w+)\})?", self.name):
            pattern += re.escape(text)
            if placeholder:
                pattern += "(.+?)"
                fields.append(placeholder)
        found = re.fullmatch(pattern, name)
        return None if found is None else {**self.where, **{f: v for f, v in zip(fields, found.groups(), strict=True) if f != "_"}}

    def normalised(self, value: float) -> float:
        """The value on the 0..1 scale of the paper's Table 2; NaN stays NaN (max(0, NaN) would be a perfect score)."""
        if math.isnan(value):
            return value
        match self.normalise:
            case "absolute":
                return abs(value)
            case "positive":
                return max(0.0, value)
            case "positive_half":
                return max(0.0, value) / 2
            case "from_half":
                return abs(value - 0.5)
            case _:
                return value

    def tiers(self, original: bool) -> tuple[Band, ...]:
        """The bands in force under a definition."""
        return self.original_bands or self.bands if original else self.bands
