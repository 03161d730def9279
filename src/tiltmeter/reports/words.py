"""Formatting of numbers, intervals and marks, shared by all renderers, and conversion of charts to tables and text."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiltmeter.blocks import (
    MARKS,
    RANGES,
    UNDECIDED,
    UNGRADED,
    Bars,
    Chart,
    Column,
    Dots,
    Graded,
    Heatmap,
    IntervalRow,
    Intervals,
    Kind,
    Pairs,
    Table,
)
from tiltmeter.quantities import confidence, interval, number as number, quantity

if TYPE_CHECKING:
    from polars import DataFrame

AROUND, PASSAGES, MOST_WORDS = 6, 4, 1500
"""Number of words shown around a passage that differs, of passages shown, and of words of a text that are
compared."""
MARK_LETTERS = dict(
    zip(
        (*RANGES, UNDECIDED, UNGRADED),
        ("A", "A–B", "B", "B–C", "B–D", "C", "C–D", "D", "?", "–"),
        strict=True,
    )
)
NUMERIC = ("number", "quantity", "signed", "count", "percent", "probability")
"""Kinds of columns whose cells are right-aligned."""


def written(value: Any, kind: Kind) -> str:
    """Format a value according to the kind of its column."""
    if value is None:
        return "–" if kind in ("number", "signed") else ""
    match kind:
        case "number":
            return number(value)
        case "signed":
            return ("+" if value > 0 else "") + number(value)
        case "count":
            return f"{value:,.0f}"
        case "percent":
            return percent(value)
        case "probability":
            return f"{value:.2g}"
        case "interval":
            low, high = value
            return interval(low, high)
        case "mark":
            return mark_words(value)
        case _:
            return str(value)


def written_rows(table: Table) -> list[Sequence[str]]:
    """Return the column names, followed by the formatted cells of each row."""
    cells = ([written(value, column.kind) for value in column.values] for column in table.columns)
    return [[column.name for column in table.columns], *zip(*cells, strict=True)]


def mark_words(graded: Graded) -> str:
    """Return a mark as text.

    A single tier is followed by the others that its interval reaches: "healthy, could be critical".
    """
    others = (
        []
        if graded.mark not in MARKS
        else [tier for tier in (graded.best, graded.worst) if tier not in (None, graded.mark)]
    )
    words = (
        f"{graded.mark}, could be {' or '.join(dict.fromkeys(map(str, others)))}" if others else graded.mark
    )
    return f"{words} ({graded.note})" if graded.note else words


def counted_marks(marks: Mapping[str, int]) -> str:
    """Return the number of metrics per mark as text: "Marks: 3 healthy, 1 critical.".

    Nothing without marks.
    """
    counted = ", ".join(f"{count:,} {mark}" for mark, count in marks.items() if count)
    return counted and f"Marks: {counted}."


def constant(columns: Iterable[Column]) -> list[Column]:
    """Return the optional columns that say the same in each of several rows.

    They become one sentence below the table.
    """
    return [
        column
        for column in columns
        if column.rank > 0
        and len(column.values) > 2
        and len({written(value, column.kind) for value in column.values}) == 1
    ]


def in_every_row(columns: Iterable[Column]) -> str:
    """Return the sentence about columns that say the same in each row."""
    same = [f"{one.name} {written(one.values[0], one.kind) or '–'}" for one in columns]
    return f"In every row: {', '.join(same)}."


def level_words(levels: Iterable[float | None]) -> str:
    """Return "95% interval", or "interval" if the levels differ."""
    distinct = {level for level in levels if level is not None}
    return f"{confidence(distinct.pop())} interval" if len(distinct) == 1 else "interval"


def size(count: int) -> str:
    """Format a number of bytes: "4.3 MB"."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1_000, larger
    return f"{value:.3g} {unit}"


def percent(share: float) -> str:
    """Format a share as a percentage.

    A positive share below 1% becomes "<1%", one that is rounded to 100% ">99%".
    """
    value = 100 * share
    if 99.5 <= value < 100:
        return ">99%"
    return f"{value:.0f}%" if value == 0 or value >= 1 else "<1%"


def not_run(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the titles of the parts that were not run, grouped by reason.

    `parts` is the entry `parts` of run.json.
    """
    found: dict[str, list[str]] = {}
    for name, one in parts.items():
        if one["status"] != "run":
            found.setdefault(one.get("reason") or "reason unknown", []).append(one.get("title") or name)
    return found


def table_of(block: Table | Chart) -> Table:
    """Return the data of a chart as a table; a table is returned unchanged."""
    match block:
        case Table():
            return block
        case Pairs():
            return block.table
        case Intervals(rows=rows):
            panel_name, label_name = block.names
            named = [
                Column(panel_name, [row.name for row in rows], "name"),
                Column(label_name, [row.label for row in rows], "name"),
            ]
            named = [column for column in named if len(set(column.values)) > 1] or named[:1]
            columns = [
                *named,
                Column(
                    "value", [quantity(row.estimate, row.low, row.high, row.unit) for row in rows], "quantity"
                ),
                Column(
                    level_words([block.level]),
                    [interval(row.low, row.high, row.unit) for row in rows],
                    "quantity",
                ),
            ]
            if any(row.mark for row in rows):
                level = "" if block.mark_level is None else f" ({100 * block.mark_level:g}% interval)"
                columns.append(Column(f"mark{level}", [row.mark for row in rows], "mark"))
            return Table(block.title, [*columns, *block.further], lead=len(named), note=block.note)
        case _:
            labels, series = series_of(block)
            kind: Kind = "signed" if isinstance(block, Dots) else block.kind
            cells = [Column(name, values, kind, whole=True) for name, values in series.items()]
            ends = (
                f"{block.span[0]:g}: {block.ends[0]}; {block.span[1]:g}: {block.ends[1]}. "
                if isinstance(block, Dots)
                else ""
            )
            return Table(block.title, [Column("", labels, "name"), *cells], note=ends + block.note)


def numbers_of(block: Chart) -> DataFrame:
    """Return the numbers of a chart, unrounded where it has them, as a table."""
    from polars import DataFrame, Series  # the import takes a while, and lists of names need no table

    if isinstance(block, Intervals):
        rows = [(*row[:5], row.about, row.mark and row.mark.mark, row.unit) for row in block.rows]
        names = (*block.names, "estimate", "low", "high", "about", "mark", "unit")
        table = DataFrame(rows, schema=[name or "panel" for name in names], orient="row")
        return table.select(one for one in table if one.null_count() < table.height and set(one) != {""})
    columns = table_of(block).columns
    raw = ("number", "signed", "count", "percent", "probability")
    values = (
        [one if column.kind in raw else written(one, column.kind) for one in column.values]
        for column in columns
    )
    return DataFrame([Series(column.name or "row", one) for column, one in zip(columns, values, strict=True)])


def series_of(block: Bars | Heatmap | Dots) -> tuple[Sequence[str], Mapping[str, Sequence[float | None]]]:
    """Return the labels of a chart, and its values by series.

    For a heat map these are the rows and columns.
    """
    if isinstance(block, Heatmap):
        return block.rows, {name: [row[i] for row in block.values] for i, name in enumerate(block.columns)}
    return block.labels, block.values


def in_words(block: Chart) -> str:
    """Return a description of a chart for screen readers: the number of values, and the smallest and largest value with their labels."""
    if isinstance(block, Intervals):
        cells = [(row.estimate, row.named) for row in block.rows]
    elif isinstance(block, Pairs):
        cells = [(row.share, f"{row.label}, {row.group}") for row in block.rows]
    else:
        labels, series = series_of(block)
        cells = [
            (value, f"{label}, {name}")
            for name, values in series.items()
            for label, value in zip(labels, values, strict=True)
        ]
    found = [(value, words) for value, words in cells if value is not None]
    if not found:
        return f"{block.title}: no value."
    least, most = min(found), max(found)
    return f"{block.title}: {len(found)} values from {number(least[0])} ({least[1]}) to {number(most[0])} ({most[1]}). {block.note}".strip()


def contrast(one: str, other: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Return the differing passages of two texts with the words around them.

    Returns
    -------
    tuple
        For each text its pieces in order, each with whether it differs from the other text; "…" stands for
        words that are left out.
    """
    words = [re.findall(r"\S+\s*", text)[:MOST_WORDS] for text in (one, other)]
    same = difflib.SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes()
    shown = [place for place, (change, *_) in enumerate(same) if change != "equal"][:PASSAGES]
    pieces: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = ([], [])
    for place, (change, *spans) in enumerate(same[: shown[-1] + 2] if shown else same):
        for side, (start, end) in enumerate((spans[:2], spans[2:])):
            run = words[side][start:end]
            if change == "equal":
                before = run[:AROUND] if place > 0 else []
                after = run[-AROUND:] if place + 1 < len(same) else []
                cut = len(run) > len(before) + len(after)
                run = [*before, "… ", *after] if cut else run
            if run:
                passage = "".join(run)
                pieces[side].append(
                    (
                        passage.rstrip() if change != "equal" else " " * (place > 0) + passage,
                        change != "equal",
                    )
                )
    return pieces


def scale_of(rows: Iterable[IntervalRow]) -> tuple[list[float], list[str], list[str]]:
    """Return the scale of a panel: its edges, their labels, and the marks between them (empty if there are no tiers).

    All tiers have the same width, because readers compare metrics by tier, not by raw value.
    """
    rows = list(rows)
    bands = sorted(next((row.bands for row in rows if row.bands), ()), key=lambda band: band.low)
    if not bands:
        ends = [
            end
            for row in rows
            for end in (row.low, row.high, row.estimate, row.null_value)
            if end is not None and math.isfinite(end)
        ]
        low, high = min(ends, default=0.0), max(ends, default=1.0)
        edges = [low, high if high > low else low + 1.0]
        return edges, [_edge(edge, rows) for edge in edges], []
    edges = [float(bands[0].low), *(float(band.high) for band in bands)]
    cut_off = (
        len(bands) == 4 and edges[0] < -edges[2]
    )  # everything below is healthy, so only the range near the limits is shown
    if cut_off:
        edges[0] = -edges[2]
    labels = [("≤" if cut_off and i == 0 else "") + _edge(edge, rows) for i, edge in enumerate(edges)]
    return edges, labels, [band.mark for band in bands]


def _edge(value: float, rows: Sequence[IntervalRow]) -> str:
    """Format a value on the scale of a panel: in percent or points if its numbers are shares."""
    shown = 100 * value if rows and rows[0].unit in ("share", "difference") else value
    return f"{shown:{'g' if rows and rows[0].bands else '.3g'}}".replace("-", "−")


def place(value: float, edges: list[float]) -> float:
    """Return the position of a value on a scale: 0 at the first edge, 1 at the second, and so on.

    Values outside are clipped.
    """
    import numpy as np

    return float(np.interp(value, edges, range(len(edges))))
