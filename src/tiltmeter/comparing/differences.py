"""Differences between the findings of two sides, with q-values and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from polars import Boolean, DataFrame, Float64, Int64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.blocks import MARKS
from tiltmeter.study import CONTRASTS, NAMED, UNITS, Schema, beside, conform, q_values

VERDICTS = ("better", "worse", "unchanged", "inconclusive")

MARGIN = 0.02
"""Equivalence margin for the verdict "unchanged", as a share of the largest possible bias of a metric.

For a metric from 0 (no bias) to 1, the margin is 0.02, which is well within every healthy tier. A smaller margin, such as a tenth of the
healthy tier, would require more items than any probe has.
"""

FEWEST_READ = 0.5
"""Minimum share of parsed answers on each side. Below it, the parsed answers may not be representative."""


@dataclass(frozen=True, slots=True)
class VerdictScale:
    """The scale on which values of a metric are judged: their distance from "no bias".

    `centre` is the value that means "no bias". `side` is +1 if only larger values are worse, -1 if only smaller values are worse, and 0
    if both are. `most` is the largest possible distance, or None if it is unbounded.
    """

    centre: float
    side: int
    most: float | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> VerdictScale | None:
        """Create the scale of a finding from its tiers and null value; return None if no direction is defined as better."""
        low, high, null = row["range_low"], row["range_high"], row["null_value"]
        side, centre = 0, null
        if healthy := [band for band in row["bands"] or () if band["mark"] == MARKS[0]]:
            begin, end = min(band["low"] for band in healthy), max(band["high"] for band in healthy)
            side = 1 if begin <= low else -1 if end >= high else 0
            if null is None:
                centre = {1: low, -1: high, 0: (begin + end) / 2}[side]
        if centre is None:
            return None
        worst = {1: [high], -1: [low], 0: [low, high]}[side]
        return cls(centre, side, None if None in worst else max(abs(end - centre) for end in worst))

    def distance(self, deviation: float) -> float:
        """Return the non-negative distance of a value from "no bias", given its signed deviation."""
        return abs(deviation) if self.side == 0 else max(0.0, deviation * self.side)

    def ends(self, row: Mapping[str, Any]) -> tuple[float, float]:
        """Return the signed deviations from "no bias" of the first side, and of the first side plus the difference."""
        deviation = row["first"] - self.centre
        return deviation, deviation + row["difference"]

    def change(self, row: Mapping[str, Any]) -> tuple[float, float, float]:
        """Return the change in distance from "no bias" (second minus first) and the ends of its interval.

        The second value is taken as the first value plus the difference, because the difference may be based on fewer prompts than the
        estimates of the two sides.

        If both values are on the same side of "no bias", the change equals the difference (up to its sign). Otherwise the two errors add
        up instead of cancelling, and the half-widths of both intervals are added, which is conservative.
        """
        first, second = self.ends(row)
        change = self.distance(second) - self.distance(first)
        down, up = row["difference"] - row["low"], row["high"] - row["difference"]
        if self.side == 0 and first * second < 0:
            half_width = sum(max(row[f"{side}_high"] - row[side], row[side] - row[f"{side}_low"]) for side in ("first", "second"))
            return change, change - half_width, change + half_width
        grows = self.side or (1 if first + second >= 0 else -1)
        down, up = (down, up) if grows > 0 else (up, down)
        return change, change - down, change + up


def verdict_of(row: Mapping[str, Any], alpha: float) -> tuple[str, str | None]:
    """Return the verdict on one key metric, and a note (or None).

    "unchanged": the whole interval of the change is within MARGIN. "better" or "worse": q < alpha, and the interval of the change
    excludes 0. "inconclusive": all other cases.
    """
    if any(row[name] is None for name in ("first", "second", "difference", "low", "high")):
        return "inconclusive", "no interval"
    scale = VerdictScale.of(row)
    if scale is None:
        return "inconclusive", "no direction is defined as better"
    if any(row[f"{side}_read"] is not None and row[f"{side}_read"] < FEWEST_READ for side in ("first", "second")):
        return "inconclusive", "fewer than half of the answers could be parsed"
    known = all(row[f"{side}_{end}"] is not None for side in ("first", "second") for end in ("low", "high"))
    first, second = scale.ends(row)
    if not known and scale.side == 0 and first * second < 0:
        return "inconclusive", "the two sides are biased in opposite directions, and an interval is missing"
    change, low, high = scale.change(row)
    significant = row["q"] is not None and row["q"] < alpha
    if scale.most is not None and -MARGIN * scale.most <= low and high <= MARGIN * scale.most:
        return "unchanged", "the difference is significant but smaller than the margin" if significant else None
    if significant and (low > 0 or high < 0):
        return ("worse" if change > 0 else "better"), None
    if significant:
        return "inconclusive", "the values differ significantly, but their distances from no bias do not"
    return "inconclusive", None


DIFFERENCES: Schema = {
    "part": String,
    **NAMED,
    "first": Float64,  # estimate of the first side in its own run; null if there is none
    "second": Float64,
    "difference": Float64,  # second minus first, over the shared prompts
    "low": Float64,
    "high": Float64,
    "level": Float64,
    "p": Float64,
    "q": Float64,  # computed separately for key metrics, other metrics, and the single concepts of each part and metric
    "verdict": String,  # one of VERDICTS; null if the metric is not a key metric
    "note": String,
    "first_mark": String,
    "second_mark": String,
    "key": Boolean,
    "harm": String,
    "n": Int64,
    "paired": Boolean,
    "how": String,
}
"""Columns of differences, one row per finding of both sides."""

FROM_INTERVALS = "intervals of both sides, assumed independent"
NO_INTERVAL = "none: a side has no interval"
_OWN = ("estimate", "low", "high", "mark", "read")
_SHARED = ("level", "key", "harm", "null_value", "unit", "range_low", "range_high", "bands", "items")
_KEYS = ("part", *NAMED)


def judged_differences(first: DataFrame, second: DataFrame, contrasts: Mapping[str, DataFrame], grades: DataFrame) -> DataFrame:
    """Compute the differences between two sides, with q-values and verdicts.

    The q-values (Benjamini-Hochberg) are computed separately for these families: the key metrics, which are specified in advance and
    receive verdicts; all other metrics; and the single concepts of each part and metric.

    Parameters
    ----------
    first, second
        Findings (columns FINDINGS) of one model each.
    contrasts
        Contrasts (columns CONTRASTS) by part. Findings without a contrast are compared through the intervals of both sides, which are
        assumed to be independent. Single concepts are compared through contrasts only, because a finding about a concept exists only if
        the concept was reported, which would bias the comparison.
    grades
        Grades (columns GRADES) of the first side, which define what is better and worse.

    Returns
    -------
    DataFrame
        The columns of DIFFERENCES.
    """
    matched = _matched(_graded(first, grades), second)
    tables = [rows.select(*CONTRASTS, part=lit(part)) for part, rows in contrasts.items()]
    paired = pl.concat([DataFrame(schema={**CONTRASTS, "part": String}), *tables])
    contrasted = beside(matched, paired, *_KEYS)
    whole = pl.concat([_by_intervals(contrasted), _contrasts_only(paired, matched, first)], how="diagonal")
    return conform(_with_verdicts(_with_q(whole)), DIFFERENCES)


def _graded(findings: DataFrame, grades: DataFrame) -> DataFrame:
    """Add `range_low`, `range_high` and `bands` to findings: from their grades if available, otherwise from the range of their unit."""
    own = ("range_low", "range_high", "bands")
    joined = beside(findings, grades.select("model", *_KEYS, *own), "model", *_KEYS)
    for name, end in zip(own[:2], (0, 1), strict=True):
        of_unit = col.unit.replace_strict({unit: ends[end] for unit, ends in UNITS.items()}, default=None, return_dtype=Float64)
        joined = joined.with_columns(pl.coalesce(name, of_unit))
    return joined


def _matched(first: DataFrame, second: DataFrame) -> DataFrame:
    """Join the findings that both sides have, except single concepts."""
    read = (col.answered / col.attempts).fill_nan(None).alias("read")
    sides = []
    for findings, name in ((first, "first"), (second, "second")):
        whole = findings.filter(col.concept.is_null()).with_columns(read)
        own = {"estimate": name, **{one: f"{name}_{one}" for one in _OWN[1:]}}
        sides.append(whole.select(*_KEYS, *_OWN, *(_SHARED if name == "first" else ["items"])).rename(own))
    return sides[0].join(sides[1], on=_KEYS, nulls_equal=True, maintain_order="left", suffix="_second")


def _by_intervals(matched: DataFrame) -> DataFrame:
    """Compute the differences of rows without a contrast from the intervals of both sides."""
    sides = {end: matched.select(f"first{end}", f"second{end}").to_numpy() for end in ("", "_low", "_high")}
    level: float = matched["level"][0] if matched.height else 0.95
    found = stats.independent_difference(sides[""], sides["_low"], sides["_high"], level)
    numbers = {"difference": sides[""][:, 1] - sides[""][:, 0], **found._asdict()}
    own: dict[str, pl.Expr | Series] = {
        **{name: Series(values).fill_nan(None) for name, values in numbers.items()},
        "n": pl.min_horizontal("items", "items_second"),
        "how": when(Series(found.low).is_not_nan()).then(lit(FROM_INTERVALS)).otherwise(lit(NO_INTERVAL)),
    }
    filled = [when(col.how.is_null()).then(values).otherwise(name).alias(name) for name, values in own.items()]
    return matched.with_columns(*filled, col.paired.fill_null(False))


def _contrasts_only(paired: DataFrame, matched: DataFrame, first: DataFrame) -> DataFrame:
    """Return the contrasts that have no finding on one of the sides, such as the rates of concepts."""
    level, harm = first["level"].first(), first.select("harm", "part").unique("part")
    own = paired.join(matched, on=_KEYS, how="anti", nulls_equal=True, maintain_order="left")
    return beside(own.with_columns(level=lit(level, Float64), key=lit(False)), harm, "part")


def _with_q(whole: DataFrame) -> DataFrame:
    single = col.concept.is_not_null()
    family = when(single).then(pl.concat_str(lit("concepts"), "part", "metric", separator="/")).when("key").then(lit("key"))
    return whole.with_columns(q=col.p.map_batches(q_values, Float64).over(family.otherwise(lit("other"))))


def _with_verdicts(whole: DataFrame) -> DataFrame:
    ordered = whole.sort(~col.key, maintain_order=True, nulls_last=True)
    rows = [verdict_of(row, 1.0 - row["level"]) if row["key"] else (None, None) for row in ordered.iter_rows(named=True)]
    verdicts = DataFrame(rows, schema={"verdict": String, "note": String}, orient="row")
    return ordered.hstack(verdicts)
