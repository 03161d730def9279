"""The same responses under two definitions, side by side."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from polars import DataFrame, Expr, String, col, lit, when

from tiltmeter.blocks import Block, Callout, Column, Graded, Table
from tiltmeter.quantities import confidence, interval, quantity
from tiltmeter.schema import FINDINGS, NAMED, Schema, conform, metric_name, shown_unit

TABLE = "definitions"
"""Name of the table."""
_ON = ("model", "part", *NAMED)
"""Columns that identify a row."""
_NUMBERS = (
    "definition",
    "estimate",
    "low",
    "high",
    "level",
    "mark",
    "mark_best",
    "mark_worst",
    "q",
    "answered",
)
DEFINITIONS: Schema = {
    **{name: FINDINGS[name] for name in (*_ON, "unit", "attempts")},
    "label": String,  # short name for readers; null: the name of the metric
    **{name: FINDINGS[name] for name in _NUMBERS},  # in the run that holds the responses
    **{f"other_{name}": FINDINGS[name] for name in _NUMBERS},  # under the other definition
}
"""Columns of the table: one row per finding of a model that is a key finding under either definition, with
both numbers.

The numbers of a definition are null only if it has no such finding at all: the other definition may have it
as a further finding.
"""
MOST = 40
"""Maximum number of rows that a report shows."""


def side_by_side(
    findings: DataFrame, grades: DataFrame, others: DataFrame, other_grades: DataFrame
) -> DataFrame:
    """Return the key findings of one set of responses under two definitions (columns DEFINITIONS).

    Parameters
    ----------
    findings, grades
        The tables under the first definition, whose order is kept.
    others, other_grades
        The tables under the second definition.
    """
    either = pl.concat([_overall(table).filter("key").select(_ON) for table in (findings, others)]).unique(
        maintain_order=True
    )
    first = _described(findings, grades, either)
    second = _described(others, other_grades, either).select(*_ON, pl.exclude(_ON).name.prefix("other_"))
    both = first.join(
        second, on=_ON, how="full", coalesce=True, nulls_equal=True, maintain_order="left_right"
    )
    shared = {name: pl.coalesce(name, f"other_{name}") for name in ("unit", "attempts", "label")}
    return conform(both.with_columns(**shared), DEFINITIONS)


def _overall(findings: DataFrame) -> DataFrame:
    """Return the findings over all wordings."""
    return findings.filter(col.wording.is_null())


def _described(findings: DataFrame, grades: DataFrame, either: DataFrame) -> DataFrame:
    """Return the findings over all wordings that `either` names (columns `_ON`), with unit and label for readers."""
    shown = _overall(findings).join(either, on=_ON, how="semi", nulls_equal=True, maintain_order="left")
    if grades.is_empty():
        described = shown.with_columns(label=lit(None, String))
    else:
        named = grades.select(*_ON, "label", "range_low")
        described = shown.join(
            named, on=_ON, how="left", nulls_equal=True, maintain_order="left"
        ).with_columns(shown_unit())
    return described.select(*_ON, "unit", "attempts", "label", *_NUMBERS)


def definition_blocks(
    table: DataFrame, titles: Mapping[str, str], sentence: str | None, *chosen: Expr
) -> list[Block]:
    """Return the table for a report, and the sentence that says how the prompts differ.

    Parameters
    ----------
    table
        Columns DEFINITIONS.
    titles
        Titles of the parts by name.
    sentence
        How the prompts of the run differ from those of the definition; None: they are the same.
    *chosen
        Conditions on `model` and `part`.
    """
    rows = table.filter(*chosen)
    if rows.is_empty():
        return []
    shown = rows.head(MOST)
    first = _names(shown["definition"])
    second = _names(shown["other_definition"])
    of_two = {"": first, "other_": second}
    columns = [
        *([Column("model", shown["model"].to_list(), "name")] if shown["model"].n_unique() > 1 else []),
        Column("test", shown.select(_test(titles)).to_series().to_list(), "text"),
    ]
    lead = len(columns)
    for prefix, name in of_two.items():
        columns.append(Column(name, _values(shown, prefix), "quantity", whole=True))
    if shown.select(pl.any_horizontal(col("mark", "other_mark").is_not_null()).any()).item():
        for prefix, name in of_two.items():
            columns.append(Column(f"mark ({name})", _marks(shown, prefix), "mark"))
    for prefix, name in of_two.items():
        read = shown.select((col(f"{prefix}answered") / col.attempts).fill_nan(None)).to_series().to_list()
        columns.append(Column(f"parsed ({name})", read, "percent", rank=2))
    rest = f" {rows.height - MOST:,} more rows are in the table {TABLE}." if rows.height > MOST else ""
    note = f"The same responses, read and scored under {first} and under {second}{_intervals(shown, of_two)}.{rest}"
    warning: list[Block] = [Callout(f"{sentence}.")] if sentence else []
    return [Table("The same responses under two definitions", columns, lead=lead, note=note), *warning]


def _intervals(rows: DataFrame, of_two: Mapping[str, str]) -> str:
    """Return which levels the intervals have, for each definition if the levels differ.

    `of_two` are the definitions by prefix.
    """
    levels = {}
    for prefix, name in of_two.items():
        known = rows.filter(col(f"{prefix}low").is_not_null())[f"{prefix}level"].unique().sort()
        if known.len():
            levels[name] = " and ".join(confidence(level) for level in known)
    if not levels:
        return ""
    if len(set(levels.values())) == 1:
        return f", with {next(iter(levels.values()))} intervals"
    return ", with " + " and ".join(f"{level} intervals under {name}" for name, level in levels.items())


def _names(definitions: pl.Series) -> str:
    return ", ".join(definitions.drop_nulls().unique(maintain_order=True)) or "–"


def _test(titles: Mapping[str, str]) -> Expr:
    """Return what a row is about: the title of its part, its metric in words, its group and its context."""
    words = pl.coalesce("label", metric_name().str.replace_all("_", " ", literal=True))
    about = pl.concat_str(words, "group", "concept", "context", separator=", ", ignore_nulls=True)
    return (
        when(col.part.n_unique() > 1)
        .then(pl.format("{}: {}", col.part.replace(titles), about))
        .otherwise(about)
    )


def _values(rows: DataFrame, prefix: str) -> list[str]:
    """Return the estimates with their intervals in their units: "15% (9 to 22%)"."""
    numbers = rows.select(f"{prefix}estimate", f"{prefix}low", f"{prefix}high", "unit").iter_rows()
    return [
        quantity(value, low, high, unit or "")
        + ("" if low is None else f" ({interval(low, high, unit or '')})")
        for value, low, high, unit in numbers
    ]


def _marks(rows: DataFrame, prefix: str) -> list[Graded | None]:
    """Return the marks with the tiers that their intervals reach."""
    marks = rows.select(f"{prefix}mark", f"{prefix}mark_best", f"{prefix}mark_worst").iter_rows()
    return [None if mark is None else Graded(mark, best, worst) for mark, best, worst in marks]
