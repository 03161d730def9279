"""Findings of two sides beside each other, with differences, q-values, and verdicts on what is better and what is worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from polars import Boolean, DataFrame, Float64, Int64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.study import CONTRASTS, MARKS, NAMED, UNITS, Schema, beside, conform

VERDICTS = ("better", "worse", "unchanged", "undecidable")

MARGIN = 0.02
"""Share of the greatest bias a metric can show within which two models are called unchanged. Of a metric from 0 (no bias) to 1 it is
0.02, well inside every healthy tier; a tenth of the healthy tier would ask for more items than any probe has."""

FEWEST_READ = 0.5
"""Where fewer of the answers of a side could be read, what was read may not stand for the rest."""


@dataclass(frozen=True, slots=True)
class VerdictScale:
    """How far values of a metric are from "no bias".

    `centre` means "no bias"; `side` is +1 where only more is worse, -1 where only less is, 0 where either is. `most` is the greatest
    distance there can be, None where there is no bound.
    """

    centre: float
    side: int
    most: float | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> VerdictScale | None:
        """The scale of a finding, from its tiers and null; None where no direction is defined as better."""
        low, high, null = row["range_low"], row["range_high"], row["null_value"]
        healthy = [band for band in row["bands"] or () if band["mark"] == MARKS[0]]
        if healthy:
            begin, end = min(band["low"] for band in healthy), max(band["high"] for band in healthy)
            side = 1 if begin <= low else -1 if end >= high else 0
            centre = {1: low, -1: high, 0: (begin + end) / 2}[side] if null is None else null
            return cls(centre, side, {1: high - centre, -1: centre - low, 0: max(high - centre, centre - low)}[side])
        if null is None:
            return None
        arms = [abs(end - null) for end in (low, high) if end is not None]
        return cls(null, 0, max(arms) if len(arms) == 2 else None)

    def distance(self, value: float) -> float:
        """How far a value is from "no bias", at least 0."""
        away = value - self.centre
        return abs(away) if self.side == 0 else max(0.0, away * self.side)

    def ends(self, row: Mapping[str, Any]) -> tuple[float, float]:
        """The first side, and the first and the difference, as they lie from "no bias"."""
        away = row["first"] - self.centre
        return away, away + row["difference"]

    def change(self, row: Mapping[str, Any]) -> tuple[float, float, float]:
        """Second distance minus first, with the ends of its interval.

        The second is the first and the difference, which may be over fewer prompts than either side's own estimate.

        On one side of "no bias" it is the difference itself. Across it the two errors add up instead of cancelling, so that the arms of
        both intervals are added, which is never too short.
        """
        first, second = self.ends(row)
        change = self.distance(self.centre + second) - self.distance(self.centre + first)
        down, up = row["difference"] - row["low"], row["high"] - row["difference"]
        if self.side == 0 and first * second < 0:
            wide = sum(max(row[f"{side}_high"] - row[side], row[side] - row[f"{side}_low"]) for side in ("first", "second"))
            return change, change - wide, change + wide
        grows = self.side or (1 if first + second >= 0 else -1)
        down, up = (down, up) if grows > 0 else (up, down)
        return change, change - down, change + up


def verdict_of(row: Mapping[str, Any], alpha: float) -> tuple[str, str | None]:
    """The verdict about one key metric, and what is to be said about it.

    "unchanged": the whole interval of the change lies within MARGIN. "better", "worse": q < alpha and the change's interval excludes 0.
    "undecidable": neither.
    """
    if any(row[name] is None for name in ("first", "second", "difference", "low", "high")):
        return "undecidable", "no interval"
    scale = VerdictScale.of(row)
    if scale is None:
        return "undecidable", "no direction is defined as better"
    if any(row[f"{side}_read"] is not None and row[f"{side}_read"] < FEWEST_READ for side in ("first", "second")):
        return "undecidable", "fewer than half of the answers were readable"
    known = all(row[f"{side}_{end}"] is not None for side in ("first", "second") for end in ("low", "high"))
    first, second = scale.ends(row)
    if not known and scale.side == 0 and first * second < 0:
        return "undecidable", "no interval on either side of no bias"
    change, low, high = scale.change(row)
    surely = row["q"] is not None and row["q"] < alpha
    if scale.most is not None and -MARGIN * scale.most <= low and high <= MARGIN * scale.most:
        return "unchanged", "differs, but by less than the margin" if surely else None
    if surely and (low > 0 or high < 0):
        return ("worse" if change > 0 else "better"), None
    if surely:
        return "undecidable", "differs, but not significantly in its distance from no bias"
    return "undecidable", None


DIFFERENCES: Schema = {
    "part": String,
    **NAMED,
    "first": Float64,  # the first side's estimate, as its run gives it; null where it has none
    "second": Float64,
    "difference": Float64,  # second minus first, over the prompts both have
    "low": Float64,
    "high": Float64,
    "level": Float64,
    "p": Float64,
    "q": Float64,  # over all key metrics; over all other numbers; over all single concepts of a part and metric
    "verdict": String,  # of VERDICTS; null where a number is not a key metric
    "note": String,
    "first_mark": String,
    "second_mark": String,
    "key": Boolean,
    "harm": String,
    "n": Int64,
    "paired": Boolean,
    "how": String,
}
"""One row per number that both sides have."""

ALONE = "intervals of both sides, assumed independent"
NO_INTERVAL = "none: a side has no interval"
_OWN = ("estimate", "low", "high", "mark", "read")
_SHARED = ("level", "key", "harm", "null_value", "unit", "range_low", "range_high", "bands", "items")
_KEYS = ("part", *NAMED)


def judged_differences(first: DataFrame, second: DataFrame, contrasts: Mapping[str, DataFrame], grades: DataFrame) -> DataFrame:
    """DIFFERENCES of two sides.

    Parameters
    ----------
    first, second
        FINDINGS of one model each.
    contrasts
        CONTRASTS by part. A number of a part that its contrasts do not hold is compared by the intervals of both sides, taken as
        independent; so are all numbers of a part without contrasts. A finding about a single concept is in a run because it was found,
        which is no fair sample of what there is to compare: single concepts are compared by contrasts only.
    grades
        GRADES of the first side, which say what is better and what is worse.

    Returns
    -------
    Three kinds of families have q-values of their own (Benjamini-Hochberg): the key metrics, which were named beforehand and of which
    verdicts are given; all other numbers; the single concepts of each part and metric.
    """
    beside = _beside(_graded(first, grades), second)
    tables = [rows.select(*CONTRASTS, part=lit(part)) for part, rows in contrasts.items()]
    paired = pl.concat([DataFrame(schema={**CONTRASTS, "part": String}), *tables])
    met = beside.join(paired, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")
    whole = pl.concat([_by_intervals(met), _of_contrasts_alone(paired, beside, first)], how="diagonal")
    return conform(_with_verdicts(_with_q(whole)), DIFFERENCES)


def _graded(findings: DataFrame, grades: DataFrame) -> DataFrame:
    """Findings with `range_low`, `range_high` and `bands`: those of their grades, else the range of their unit."""
    own = ("range_low", "range_high", "bands")
    joined = beside(findings, grades.select("model", *_KEYS, *own), "model", *_KEYS)
    for name, end in zip(own[:2], (0, 1), strict=True):
        of_unit = col.unit.replace_strict({unit: ends[end] for unit, ends in UNITS.items()}, default=None, return_dtype=Float64)
        joined = joined.with_columns(pl.coalesce(name, of_unit))
    return joined


def _beside(first: DataFrame, second: DataFrame) -> DataFrame:
    """The numbers both sides have, single concepts excepted."""
    read = when(col.attempts > 0).then(col.answered / col.attempts).alias("read")
    sides = []
    for findings, name in ((first, "first"), (second, "second")):
        made = findings.filter(col.concept.is_null()).unique(_KEYS, keep="first", maintain_order=True).with_columns(read)
        own = {"estimate": name, **{one: f"{name}_{one}" for one in _OWN[1:]}}
        sides.append(made.select(*_KEYS, *_OWN, *(_SHARED if name == "first" else ["items"])).rename(own))
    return sides[0].join(sides[1], on=_KEYS, nulls_equal=True, maintain_order="left", suffix="_second")


def _by_intervals(met: DataFrame) -> DataFrame:
    """Rows no contrast was made of: both sides' intervals decide."""
    sides = {
        end: met.select(f"first{end}", f"second{end}").cast(Float64).fill_null(float("nan")).to_numpy() for end in ("", "_low", "_high")
    }
    level: float = met["level"][0] if met.height else 0.95
    found = stats.independent_difference(sides[""], sides["_low"], sides["_high"], level)
    lacking = col.how.is_null()
    own = {"difference": sides[""][:, 1] - sides[""][:, 0], **found._asdict()}
    filled = [when(lacking).then(Series(values).fill_nan(None)).otherwise(name).alias(name) for name, values in own.items()]
    n = when(lacking).then(pl.min_horizontal("items", "items_second")).otherwise("n").alias("n")
    known = Series(found.low).is_not_nan()
    how = when(lacking).then(when(known).then(lit(ALONE)).otherwise(lit(NO_INTERVAL))).otherwise("how").alias("how")
    return met.with_columns(*filled, n, how, col.paired.fill_null(False))


def _of_contrasts_alone(paired: DataFrame, beside: DataFrame, first: DataFrame) -> DataFrame:
    """Contrasts of what is no finding on both sides, such as a concept's rate."""
    level, harm = first["level"].first(), first.select("harm", "part").unique("part")
    own = paired.join(beside, on=_KEYS, how="anti", nulls_equal=True, maintain_order="left")
    return own.with_columns(level=lit(level, Float64), key=lit(False)).join(harm, on="part", how="left", maintain_order="left")


def _with_q(whole: DataFrame) -> DataFrame:
    single = col.concept.is_not_null()
    family = when(single).then(pl.concat_str(lit("concepts"), "part", "metric", separator="/")).when("key").then(lit("key"))
    p = col.p.cast(Float64).fill_null(float("nan"))
    q = p.map_batches(lambda mine: Series(stats.benjamini_hochberg(mine.to_numpy())), Float64)
    return whole.with_columns(q=q.over(family.otherwise(lit("other"))).fill_nan(None))


def _with_verdicts(whole: DataFrame) -> DataFrame:
    ordered = whole.sort(~col.key, maintain_order=True, nulls_last=True)
    said = [verdict_of(row, 1.0 - row["level"]) if row["key"] else (None, None) for row in ordered.iter_rows(named=True)]
    verdicts = DataFrame(said, schema={"verdict": String, "note": String}, orient="row")
    return pl.concat([ordered, verdicts], how="horizontal")
