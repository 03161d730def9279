"""Differences between the findings of two sides, with q-values and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from polars import Boolean, DataFrame, Expr, Float64, Int64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.comparing.bias_change import BiasScale
from tiltmeter.schema import (
    CONTRASTS,
    ITEMS_LIKE_THESE,
    NAMED,
    SHOWN_BELOW,
    THESE_ITEMS,
    UNITS,
    Schema,
    beside,
    conform,
    q_values,
)

VERDICTS = ("better", "worse", "unchanged", "inconclusive")

MARGIN = 0.02
"""Equivalence margin for the verdict "unchanged", as a share of the largest possible bias of a metric.

For a metric from 0 (no bias) to 1, the margin is 0.02, which is well within every healthy tier. A smaller
margin, such as a tenth of the healthy tier, would require more items than any probe has.
"""

VERDICT_LEVEL = 1 - SHOWN_BELOW
"""Confidence level of the intervals on which verdicts rest, whatever the level of the intervals shown."""

FEWEST_READ = 0.5
"""Minimum share of parsed answers on each side. Below it, the parsed answers may not be representative."""


OPPOSITE = "as large as before, but in the opposite direction"
NO_INTERVALS = "no interval"
NO_DIRECTION = "no direction is defined as better"
FEW_READ = "fewer than half of the answers could be parsed"
NO_INTERVAL_OF_SIDE = "a side can be biased in either direction, and its interval is missing"
UNJUDGED = (NO_INTERVALS, NO_DIRECTION, FEW_READ, NO_INTERVAL_OF_SIDE)
"""Notes of key metrics whose change could not be tested. Their verdict is "inconclusive"."""


def verdict_of(row: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the verdict on one key metric, and a note (or None).

    "unchanged": the whole interval of the change is within MARGIN. "better" or "worse": `change_q` <
    SHOWN_BELOW, and the interval of the change excludes 0. "inconclusive": all other cases. The ends `low`,
    `high`, `change_low` and `change_high` are those at VERDICT_LEVEL.
    """
    if any(row[name] is None for name in ("first", "second", "difference", "low", "high")):
        return "inconclusive", NO_INTERVALS
    scale = BiasScale.of(row)
    if scale is None:
        return "inconclusive", NO_DIRECTION
    if any(
        row[f"{side}_read"] is not None and row[f"{side}_read"] < FEWEST_READ for side in ("first", "second")
    ):
        return "inconclusive", FEW_READ
    low, high = row["change_low"], row["change_high"]
    if low is None or high is None:
        return "inconclusive", NO_INTERVAL_OF_SIDE
    differs = row["q"] is not None and row["q"] < SHOWN_BELOW
    if scale.most is not None and -MARGIN * scale.most <= low and high <= MARGIN * scale.most:
        margin = MARGIN * scale.most
        if scale.side == 0 and not (-margin <= row["low"] and row["high"] <= margin):
            return "unchanged", OPPOSITE
        return "unchanged", "the difference is significant but smaller than the margin" if differs else None
    if row["change_q"] is not None and row["change_q"] < SHOWN_BELOW and (low > 0 or high < 0):
        return ("worse" if low > 0 else "better"), None
    if differs:
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
    "change": Float64,  # of the distance from "no bias", second minus first; null if the metric is not a key metric
    "change_low": Float64,
    "change_high": Float64,
    "change_p": Float64,  # null hypothesis: both sides are equally far from "no bias"
    "change_q": Float64,  # over all key metrics
    "verdict": String,  # one of VERDICTS; null if the metric is not a key metric
    "note": String,
    "first_mark": String,
    "second_mark": String,
    "key": Boolean,
    "harm": String,
    "n": Int64,
    "paired": Boolean,
    "how": String,
    "estimand": String,  # questions that the interval and the verdict are about
}
"""Columns of differences, one row per finding of both sides."""

FROM_INTERVALS = "intervals of both sides, assumed independent"
NO_INTERVAL = "none: a side has no interval"
CHANGES: Schema = dict.fromkeys(("change", "change_low", "change_high", "change_p"), Float64)
"""Columns of the change of the distance from "no bias"."""
_OWN = ("estimate", "low", "high", "mark", "read")
_SHARED = (
    "level",
    "key",
    "harm",
    "null_value",
    "unit",
    "range_low",
    "range_high",
    "bands",
    "items",
    "estimand",
)
_OF_SIDES = ("first", "first_low", "first_high", "second", "second_low", "second_high", "sum_low", "sum_high")
"""Columns of CONTRASTS about each side and their sum. In the joined table their names begin with "shared_".
"""
_KEYS = ("part", *NAMED)


def judged_differences(
    first: DataFrame, second: DataFrame, contrasts: Mapping[str, DataFrame], grades: DataFrame
) -> DataFrame:
    """Compute the differences between two sides, with q-values and verdicts.

    The q-values (Benjamini-Hochberg) are computed separately for these families: the key metrics, which are
    specified in advance and receive verdicts; all other metrics; and the single concepts of each part and
    metric.

    Parameters
    ----------
    first, second
        Findings (columns FINDINGS) of one model each.
    contrasts
        Contrasts (columns CONTRASTS) by part. Findings without a contrast are compared through the intervals
        of both sides, which are assumed to be independent. Single concepts are compared through contrasts
        only, because a finding about a concept exists only if the concept was reported, which would bias the
        comparison.
    grades
        Grades (columns GRADES) of the first side, which define what is better and worse.

    Returns
    -------
    DataFrame
        The columns of DIFFERENCES.
    """
    matched = _matched(_graded(first, grades), second)
    tables = [conform(rows, CONTRASTS).with_columns(part=lit(part)) for part, rows in contrasts.items()]
    paired = pl.concat([DataFrame(schema={**CONTRASTS, "part": String}), *tables])
    paired = paired.rename({name: f"shared_{name}" for name in (*_OF_SIDES, "estimand")})
    contrasted = beside(matched, paired, *_KEYS)
    whole = pl.concat([_by_intervals(contrasted), _contrasts_only(paired, matched, first)], how="diagonal")
    return conform(_with_verdicts(_with_changes(_with_q(_with_sides(whole)))), DIFFERENCES)


def _graded(findings: DataFrame, grades: DataFrame) -> DataFrame:
    """Add `range_low`, `range_high` and `bands` to findings: from their grades if available, otherwise from the range of their unit."""
    own = ("range_low", "range_high", "bands")
    joined = beside(findings, grades.select("model", *_KEYS, *own), "model", *_KEYS)
    for name, end in zip(own[:2], (0, 1), strict=True):
        of_unit = col.unit.replace_strict(
            {unit: ends[end] for unit, ends in UNITS.items()}, default=None, return_dtype=Float64
        )
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
    filled = [
        when(col.how.is_null()).then(values).otherwise(name).alias(name) for name, values in own.items()
    ]
    return matched.with_columns(*filled, col.paired.fill_null(False))


def _contrasts_only(paired: DataFrame, matched: DataFrame, first: DataFrame) -> DataFrame:
    """Return the contrasts that have no finding on one of the sides, such as the rates of concepts."""
    level, harm = first["level"].first(), first.select("harm", "part").unique("part")
    own = paired.join(matched, on=_KEYS, how="anti", nulls_equal=True, maintain_order="left")
    return beside(own.with_columns(level=lit(level, Float64), key=lit(False)), harm, "part")


def _with_sides(whole: DataFrame) -> DataFrame:
    """Fill in the estimates and intervals of both sides and of their sum, where the contrast has none, from the findings of both sides.

    The second value is the first value plus the difference, because the difference may be based on fewer
    prompts than the findings. The interval of the sum adds the squares of the half-widths of both sides (Zou
    and Donner 2008), as if they were independent.
    """
    second = col.first + col.difference
    shift = second - col("second")
    own = {
        "first": col("first"),
        "first_low": col.first_low,
        "first_high": col.first_high,
        "second": second,
        "second_low": col.second_low + shift,
        "second_high": col.second_high + shift,
    }
    has_sides = col.shared_first.is_not_null()
    filled = whole.with_columns(
        **{
            f"shared_{name}": when(has_sides).then(f"shared_{name}").otherwise(values)
            for name, values in own.items()
        },
        estimand=pl.coalesce(
            "shared_estimand", when(_is_resampled()).then(lit(ITEMS_LIKE_THESE)), "estimand"
        ),
    )
    first, second = col.shared_first, col.shared_second
    total = first + second
    down = ((first - col.shared_first_low) ** 2 + (second - col.shared_second_low) ** 2).sqrt()
    up = ((col.shared_first_high - first) ** 2 + (col.shared_second_high - second) ** 2).sqrt()
    return filled.with_columns(
        shared_sum=total,
        shared_sum_low=pl.coalesce("shared_sum_low", total - down),
        shared_sum_high=pl.coalesce("shared_sum_high", total + up),
    )


def _is_resampled() -> Expr:
    """Return whether a row has an interval of a contrast although its finding has none, and is therefore only about these items."""
    of_contrast = ~col.how.is_in([FROM_INTERVALS, NO_INTERVAL])
    return of_contrast & col.low.is_not_null() & (col.estimand == THESE_ITEMS)


def _with_q(whole: DataFrame) -> DataFrame:
    single = col.concept.is_not_null()
    family = (
        when(single)
        .then(pl.concat_str(lit("concepts"), "part", "metric", separator="/"))
        .when("key")
        .then(lit("key"))
    )
    return whole.with_columns(q=col.p.map_batches(q_values, Float64).over(family.otherwise(lit("other"))))


def _with_changes(whole: DataFrame) -> DataFrame:
    """Add the change of the distance from "no bias" of the key metrics, which are sorted first, with its interval, p-value and q-value."""
    ordered = whole.sort(~col.key, maintain_order=True, nulls_last=True)
    rows = [_change_of(row) if row["key"] else None for row in ordered.iter_rows(named=True)]
    changes = DataFrame(
        [row or dict.fromkeys(CHANGES) for row in rows], schema=CHANGES, infer_schema_length=None
    )
    return ordered.hstack(changes).with_columns(change_q=col.change_p.map_batches(q_values, Float64))


def _change_of(row: Mapping[str, Any]) -> Mapping[str, float | None] | None:
    scale = BiasScale.of(row)
    if scale is None or any(row[name] is None for name in ("difference", "low", "high")):
        return None
    change = scale.change(row)
    return None if change is None else dict(zip(CHANGES, change, strict=True))


def _at_verdict_level(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with the ends of the intervals of the difference, of the sum and of the change at VERDICT_LEVEL.

    The half-widths of intervals are assumed to grow with the level as quantiles of Student's t.
    """
    level = row["level"]
    if level is None or level == VERDICT_LEVEL:
        return row
    freedom = float("inf") if row["freedom"] is None else row["freedom"]
    factor = stats.two_sided_t(VERDICT_LEVEL, freedom) / stats.two_sided_t(level, freedom)
    ends = {
        "low": "difference",
        "high": "difference",
        "shared_sum_low": "shared_sum",
        "shared_sum_high": "shared_sum",
    }
    known = {end: value for end, value in ends.items() if row[end] is not None and row[value] is not None}
    moved = {end: row[value] + factor * (row[end] - row[value]) for end, value in known.items()}
    at_level = {**row, **moved, "level": VERDICT_LEVEL}
    return {**at_level, **(_change_of(at_level) or {})}


def _with_verdicts(ordered: DataFrame) -> DataFrame:
    rows = [
        verdict_of(_at_verdict_level(row)) if row["key"] else (None, None)
        for row in ordered.iter_rows(named=True)
    ]
    verdicts = DataFrame(rows, schema={"verdict": String, "note": String}, orient="row")
    return ordered.hstack(verdicts)
