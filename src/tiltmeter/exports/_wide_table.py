"""The table for a paper: tests as rows, models as columns, each value with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from polars import DataFrame

from tiltmeter._quantities import confidence, interval, quantity
from tiltmeter.benchmarks._display import words_of
from tiltmeter.blocks import Column, Table
from tiltmeter.reports._words import MARK_LETTERS
from tiltmeter.runs import Run
from tiltmeter.runs._presenting import titles_of
from tiltmeter.schema import NAMED, beside, shown_unit

UNIT_WORDS: Final[Mapping[str, str]] = {"share": "%", "difference": "points", "count": "number"}
"""Units as they are written in the table; others have none."""
STATISTICS: Final[Mapping[str, str]] = {"range": "range of the group means", "ratio": "impact ratio"}
"""Comparisons of a benchmark in words."""
LETTERS: Final = (
    "Letters: tiers that the interval of the mark touches (A healthy, B cautionary, C critical, "
    "D catastrophic; ?: undecided; –: ungraded)."
)
MOST_KINDS: Final = 2
"""Largest number of populations that the caption names."""
_TEST: Final = ("part", *NAMED)
"""Columns that identify a test of all models."""


def wide_table(run: Run, findings: DataFrame) -> Table:
    """Return the findings with one row per test and one column per model; its note is a caption.

    Shares are in percent, their differences in percentage points.
    """
    grades = run.grades.select("model", *_TEST, "label", "range_low")
    rows = beside(findings, grades, "model", *_TEST).with_columns(shown_unit())
    models = rows["model"].unique(maintain_order=True).to_list()
    titles = titles_of(run)
    tests: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        tests.setdefault(tuple(row[name] for name in _TEST), {})[row["model"]] = row
    firsts = [next(iter(by_model.values())) for by_model in tests.values()]
    columns = [
        Column("test", [words_of_test(row, titles) for row in firsts], "text"),
        Column("unit", [UNIT_WORDS.get(row["unit"], "") for row in firsts], "name"),
    ]
    for model in models:
        cells = [_cell(by_model.get(model)) for by_model in tests.values()]
        columns.append(Column(model, cells, "quantity", whole=True))
    return Table("Findings", columns, note=_caption(run, findings))


def words_of_test(row: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Return what a finding is about: its metric in words, and what it is limited to.

    Parameters
    ----------
    titles
        Titles of the parts by name; the only part of a run is not named.
    """
    restrictions = [row[name] for name in ("concept", "context", "wording", "language")]
    if row["label"] is not None:
        words = row["label"]
    else:
        words = _metric_in_words(row)
        restrictions = [row["group"], row["group_2"], *restrictions]
    named = ", ".join(value for value in restrictions if value is not None)
    if len(titles) > 1:
        words = f"{titles.get(row['part'], row['part'])}: {words}"
    words = words[:1].upper() + words[1:]
    return f"{words} ({named})" if named else words


def _metric_in_words(row: Mapping[str, Any]) -> str:
    """Return the metric of a finding without a label: of a benchmark with its feature."""
    if row["feature"] is None:
        return str(row["metric"]).replace("_", " ")
    comparison = row["comparison"] or row["statistic"] or row["metric"]
    statistic = STATISTICS.get(comparison, comparison.replace("_", " "))
    calibrated = ", calibrated" if row["calibrated"] else ""
    return f"{statistic} of {words_of(row['feature'])}{calibrated}"


def _cell(row: Mapping[str, Any] | None) -> str:
    """Return a value with its interval and the letters of its mark; the unit has a column of its own."""
    if row is None:
        return "–"
    value = quantity(row["estimate"], row["low"], row["high"], row["unit"])
    for unit in ("%", " points", " point"):
        value = value.removesuffix(unit)
    ends = interval(row["low"], row["high"], row["unit"]).removesuffix("%")
    text = value if row["low"] is None else f"{value} ({ends})"
    letters = MARK_LETTERS.get(row["mark"], "")
    return f"{text} {letters}".rstrip()


def _caption(run: Run, findings: DataFrame) -> str:
    """Return the caption: what the cells are, of which population, from how many items, by which rules."""
    bounded = findings.drop_nulls("low")
    levels = bounded["level"].unique()
    of_level = f" ({confidence(levels[0])} interval)" if levels.len() == 1 else ""
    sentences = [f"{run.about['title']}: value{of_level} of each model."]
    kinds = bounded["estimand"].drop_nulls().str.extract("^([^,]*)").unique(maintain_order=True)
    if kinds.len() > MOST_KINDS and kinds.str.contains("like these").all():
        sentences.append("Intervals are about questions, names or texts like these.")
    elif kinds.len():
        sentences.append(f"Intervals are about {'; '.join(kinds)}.")
    items: list[int] = findings["items"].drop_nulls().to_list()
    if items:
        smallest, largest = min(items), max(items)
        span = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        sentences.append(f"{span} items per test and model.")
    if findings["mark"].count():
        sentences.append(LETTERS)
    definitions = findings["definition"].drop_nulls().unique().sort()
    versions = definitions.str.replace("@", ", version ", literal=True)
    sentences.append(f"Definition of the metrics: {'; '.join(versions)}.")
    return " ".join(sentences)
