"""The same responses under two definitions, side by side."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from polars import DataFrame, Expr, String, col, lit, when

from tiltmeter._quantities import confidence, interval, quantity
from tiltmeter.blocks import Block, Callout, Column, Graded, Table
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
"""Columns of the table, with one row per finding that is a key finding under either definition.

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
    key_findings = [_overall(table).filter("key").select(_ON) for table in (findings, others)]
    either = pl.concat(key_findings).unique(maintain_order=True)
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
    """Return the findings over all wordings that `either` names (columns `_ON`).

    Their unit and label are those for readers.
    """
    rows = _overall(findings).join(either, on=_ON, how="semi", nulls_equal=True, maintain_order="left")
    if grades.is_empty():
        described = rows.with_columns(label=lit(None, String))
    else:
        labels = grades.select(*_ON, "label", "range_low")
        labelled = rows.join(labels, on=_ON, how="left", nulls_equal=True, maintain_order="left")
        described = labelled.with_columns(shown_unit())
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
    selected = table.filter(*chosen)
    if selected.is_empty():
        return []
    rows = selected.head(MOST)
    first = _names(rows["definition"])
    second = _names(rows["other_definition"])
    definitions = {"": first, "other_": second}
    columns = []
    if rows["model"].n_unique() > 1:
        columns.append(Column("model", rows["model"].to_list(), "name"))
    columns.append(Column("test", rows.select(_test(titles)).to_series().to_list(), "text"))
    lead = len(columns)
    for prefix, name in definitions.items():
        columns.append(Column(name, _values(rows, prefix), "quantity", whole=True))
    if rows.select(pl.any_horizontal(col("mark", "other_mark").is_not_null()).any()).item():
        for prefix, name in definitions.items():
            columns.append(Column(f"mark ({name})", _marks(rows, prefix), "mark"))
    for prefix, name in definitions.items():
        share = (col(f"{prefix}answered") / col.attempts).fill_nan(None)
        columns.append(
            Column(f"parsed ({name})", rows.select(share).to_series().to_list(), "percent", rank=2)
        )
    intervals = _intervals(rows, definitions)
    note = f"The same responses, read and scored under {first} and under {second}{intervals}."
    if selected.height > MOST:
        note += f" {selected.height - MOST:,} more rows are in the table {TABLE}."
    blocks: list[Block] = [Table("The same responses under two definitions", columns, lead=lead, note=note)]
    if sentence:
        blocks.append(Callout(f"{sentence}."))
    return blocks


def _intervals(rows: DataFrame, definitions: Mapping[str, str]) -> str:
    """Return which levels the intervals have, for each definition if the levels differ.

    `definitions` are the names by prefix.
    """
    levels_under = {}
    for prefix, name in definitions.items():
        bounded = rows.filter(col(f"{prefix}low").is_not_null())
        levels = bounded[f"{prefix}level"].unique().sort()
        if levels.len():
            levels_under[name] = " and ".join(confidence(level) for level in levels)
    if not levels_under:
        return ""
    if len(set(levels_under.values())) == 1:
        return f", with {next(iter(levels_under.values()))} intervals"
    clauses = [f"{words} intervals under {name}" for name, words in levels_under.items()]
    return f", with {' and '.join(clauses)}"


def _names(definitions: pl.Series) -> str:
    return ", ".join(definitions.drop_nulls().unique(maintain_order=True)) or "–"


def _test(titles: Mapping[str, str]) -> Expr:
    """Return what a row is about: the title of its part, its metric in words, its group and its context."""
    words = pl.coalesce("label", metric_name().str.replace_all("_", " ", literal=True))
    about = pl.concat_str(words, "group", "concept", "context", separator=", ", ignore_nulls=True)
    with_title = pl.format("{}: {}", col.part.replace(titles), about)
    return when(col.part.n_unique() > 1).then(with_title).otherwise(about)


def _values(rows: DataFrame, prefix: str) -> list[str]:
    """Return the estimates with their intervals in their units: "15% (9 to 22%)"."""
    numbers = rows.select(f"{prefix}estimate", f"{prefix}low", f"{prefix}high", col.unit.fill_null(""))
    texts = []
    for value, low, high, unit in numbers.iter_rows():
        text = quantity(value, low, high, unit)
        if low is not None:
            text += f" ({interval(low, high, unit)})"
        texts.append(text)
    return texts


def _marks(rows: DataFrame, prefix: str) -> list[Graded | None]:
    """Return the marks with the tiers that their intervals reach."""
    marks = rows.select(f"{prefix}mark", f"{prefix}mark_best", f"{prefix}mark_worst").iter_rows()
    return [None if mark is None else Graded(mark, best, worst) for mark, best, worst in marks]
