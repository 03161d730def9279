"""What `compare` prints: differences number by number, and what hangs on wording or chance within one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiltmeter._text import printable
from tiltmeter.reports._terminal import _console, _print_json, _table, _text
from tiltmeter.reports._words import interval, level_words, number

if TYPE_CHECKING:
    import polars as pl

__all__ = ["print_compared", "print_within"]

_COLOURS = {"better": "green", "worse": "red", "unchanged": "", "undecidable": "dim"}
SHOWN = 20
"""Single concepts printed; all of them are in the JSON and with --all."""


def print_compared(
    first: Mapping[str, str],
    second: Mapping[str, str],
    differences: pl.DataFrame,
    notes: Sequence[str],
    *,
    all_metrics: bool,
    as_json: bool,
) -> None:
    """Differences between two sides: the key metrics with their verdicts, and the concepts that surely differ.

    Parameters
    ----------
    first, second
        `run` and `model` of either side.
    differences
        The columns `part`, those that name a finding, `first`, `second`, `difference`, `low`, `high`, `level`, `p`, `q`, `verdict`, `note`,
        `key` and `how`.
    notes
        What else is to be said, a sentence each.
    all_metrics
        Every number instead.
    """
    import polars as pl

    surely = pl.col("concept").is_not_null() & (pl.col("q") < 1 - pl.col("level")).fill_null(False)
    chosen = differences if all_metrics else differences.filter(pl.col("key") | surely)
    if as_json:
        _print_json({"first": first, "second": second, "notes": notes, "differences": chosen.to_dicts()})
        return
    print(f"first   {_side(first)}\nsecond  {_side(second)}")
    for note in notes:
        print(f"note: {printable(note, one_line=True)}")
    _print_numbers(chosen.filter(pl.col("concept").is_null()))
    _print_concepts(chosen.filter(pl.col("concept").is_not_null()).sort("q", "p", maintain_order=True, nulls_last=True), every=all_metrics)
    verdicts = differences.drop_nulls("verdict").group_by("verdict").len()
    counts = dict(verdicts.iter_rows())
    if counts:
        said = ", ".join(f"{counts.get(name, 0)} {name}" for name in _COLOURS)
        print(f"Of {sum(counts.values())} key metrics: {said}.")


def _side(name: Mapping[str, str]) -> str:
    return printable(f"{name['model']} in {name['run']}", one_line=True)


def _print_numbers(rows: pl.DataFrame) -> None:
    if rows.is_empty():
        return
    table = _table()
    names = ("part", "metric", "first", "second", "difference", level_words(rows["level"]), "q", "verdict")
    for name in names:
        table.add_column(name, justify="right" if name in ("first", "second", "difference", "q") else "left", overflow="fold")
    for row in rows.iter_rows(named=True):
        narrowed = ", ".join(row[name] for name in ("subject", "context") if row[name])
        metric = row["metric"] + (f" ({narrowed})" if narrowed else "")
        verdict = (row["verdict"] or "") + (f": {row['note']}" if row["note"] else "")
        cells = [row["part"], metric, *(number(row[name]) for name in ("first", "second", "difference")), interval(row), _small(row["q"])]
        table.add_row(*(_text(cell) for cell in cells), _text(verdict, _COLOURS.get(row["verdict"] or "", "")))
    _console().print(table)


def _print_concepts(rows: pl.DataFrame, *, every: bool) -> None:
    if rows.is_empty():
        return
    shown = rows if every else rows.head(SHOWN)
    title = f"\nSingle concepts{'' if shown.height == rows.height else f', {SHOWN} of {rows.height:,}'}"
    table = _table(title)
    for name in ("part", "identity", "concept", "number", "difference", level_words(rows["level"]), "q"):
        table.add_column(name, justify="right" if name in ("difference", "q") else "left", overflow="fold")
    for row in shown.iter_rows(named=True):
        named = [row["part"], row["subject"] or "", row["concept"], row["metric"]]
        cells = [*named, number(row["difference"]), interval(row), _small(row["q"])]
        table.add_row(*(_text(cell) for cell in cells))
    _console().print(table)


def _small(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


def print_within(wordings: pl.DataFrame, stability: pl.DataFrame, *, as_json: bool) -> None:
    """How far a run's numbers hang on the wording, and whether answers repeat themselves.

    Parameters
    ----------
    wordings
        `model`, `part`, the columns that name a finding, `wordings`, `spread`, `least`, `greatest`, `p`, `q`.
    stability
        `model`, `part`, `prompts`, `answers`, `of`, `identical`, `alpha`, `low`, `high`, `level`.
    """
    if as_json:
        _print_json({"wordings": wordings.to_dicts(), "stability": stability.to_dicts()})
        return
    if wordings.is_empty():
        print("Wordings: every question was put in one wording only (-P wording=all asks in all of them).")
    else:
        rows = [
            [row["model"], row["part"], _metric(row), number(row["spread"]), f"{row['least']} … {row['greatest']}", _small(row["q"])]
            for row in wordings.iter_rows(named=True)
        ]
        _print_plain("Key metrics over wordings", ("model", "part", "metric", "spread", "least … greatest", "q"), rows)
    if stability.is_empty():
        print("Repeats: every prompt was asked once (--repeats asks again).")
        return
    rows = [
        [row["model"], row["part"], f"{row['prompts']:,}", row["of"], number(row["identical"]), number(row["alpha"]), interval(row)]
        for row in stability.iter_rows(named=True)
    ]
    names = ("model", "part", "prompts", "of", "identical", "alpha", level_words(stability["level"]))
    _print_plain("Answers to the same prompt", names, rows)
    print("alpha: 1 where they always agree, 0 where they agree no more than answers to other prompts do")


def _metric(row: Mapping[str, Any]) -> str:
    narrowed = ", ".join(row[name] for name in ("subject", "context") if row[name])
    return str(row["metric"]) + (f" ({narrowed})" if narrowed else "")


def _print_plain(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = _table(f"\n{title}")
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    _console().print(table)
