"""What `compare` prints: differences number by number, and what hangs on wording or chance within one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiltmeter._text import printable
from tiltmeter.reports._layout import Column, print_table, print_text, styled
from tiltmeter.reports._terminal import metric_name, print_json
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
        print_json({"first": first, "second": second, "notes": notes, "differences": chosen.to_dicts()})
        return
    print(f"first   {_side(first)}\nsecond  {_side(second)}")
    for note in notes:
        print_text(f"note: {note}")
    print()
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
    found = rows.to_dicts()
    verdicts = [(row["verdict"] or "") + (f": {row['note']}" if row["note"] else "") for row in found]
    columns = [
        Column("part", [row["part"] for row in found]),
        Column("metric", [metric_name(row) for row in found]),
        *_numbers(found, "first", "second", "difference"),
        Column(
            "verdict", [styled(said, _COLOURS.get(row["verdict"] or "", "")) for said, row in zip(verdicts, found, strict=True)], wraps=30
        ),
    ]
    print_table(None, columns, lead=2)


def _numbers(rows: Sequence[Mapping[str, Any]], *names: str) -> list[Column]:
    return [
        *(Column(name, [number(row[name]) for row in rows], right=True) for name in names),
        Column(level_words(row["level"] for row in rows), [interval(row) for row in rows]),
        Column("q", [_small(row["q"]) for row in rows], right=True),
    ]


def _print_concepts(rows: pl.DataFrame, *, every: bool) -> None:
    if rows.is_empty():
        return
    shown = (rows if every else rows.head(SHOWN)).to_dicts()
    title = f"Single concepts{'' if len(shown) == rows.height else f', {SHOWN} of {rows.height:,}'}"
    names = {"part": "part", "identity": "subject", "concept": "concept", "number": "metric"}
    columns = [Column(name, [row[field] or "" for row in shown]) for name, field in names.items()]
    print_table(title, [*columns, *_numbers(shown, "difference")], lead=3)


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
        print_json({"wordings": wordings.to_dicts(), "stability": stability.to_dicts()})
        return
    if wordings.is_empty():
        print_text("Wordings: every question was put in one wording only (-P wording=all asks in all of them).")
    else:
        found = wordings.to_dicts()
        columns = [
            *_of_model(found, metric_name),
            Column("spread", [number(row["spread"]) for row in found], right=True),
            Column("least … greatest", [f"{row['least']} … {row['greatest']}" for row in found]),
            Column("q", [_small(row["q"]) for row in found], right=True),
        ]
        print_table("Key metrics over wordings", columns, lead=3)
    if stability.is_empty():
        print("Repeats: every prompt was asked once (--repeats asks again).")
        return
    found = stability.to_dicts()
    columns = [
        *_of_model(found),
        Column("prompts", [f"{row['prompts']:,}" for row in found], right=True),
        Column("of", [row["of"] for row in found]),
        Column("identical", [number(row["identical"]) for row in found], right=True),
        Column("alpha", [number(row["alpha"]) for row in found], right=True),
        Column(level_words(stability["level"]), [interval(row) for row in found]),
    ]
    print_table("Answers to the same prompt", columns, lead=2)
    print("alpha: 1 where they always agree, 0 where they agree no more than answers to other prompts do")


def _of_model(rows: Sequence[Mapping[str, Any]], metric: Callable[[Mapping[str, Any]], str] | None = None) -> list[Column]:
    named = [Column(name, [row[name] for row in rows]) for name in ("model", "part")]
    return named if metric is None else [*named, Column("metric", [metric(row) for row in rows])]
