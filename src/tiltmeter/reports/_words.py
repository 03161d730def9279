"""Formatting of numbers, intervals and marks, and conversion of charts to tables and text.

All renderers use it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tiltmeter._quantities import interval, interval_name, number as number, quantity
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
    Intervals,
    Kind,
    Pairs,
    Table,
)

if TYPE_CHECKING:
    from polars import DataFrame, Series

AROUND = 6
"""Number of words shown before and after a passage that differs."""
PASSAGES = 4
"""Maximum number of passages shown."""
MOST_WORDS = 1500
"""Maximum number of words of a text that are compared."""
_LETTERS = ("A", "A–B", "B", "B–C", "B–D", "C", "C–D", "D", "?", "–")
MARK_LETTERS: Final = dict(zip((*RANGES, UNDECIDED, UNGRADED), _LETTERS, strict=True))
"""Letters of the marks, where there is no space for words."""
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
            return f"+{number(value)}" if value > 0 else number(value)
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
    names = [column.name for column in table.columns]
    cells = [[written(value, column.kind) for value in column.values] for column in table.columns]
    return [names, *zip(*cells, strict=True)]


def mark_words(graded: Graded) -> str:
    """Return a mark as text.

    A single tier is followed by the others that its interval reaches: "healthy, could be critical".
    """
    words = graded.mark
    if graded.mark in MARKS:
        reached = dict.fromkeys(tier for tier in (graded.best, graded.worst) if tier is not None)
        possible = [tier for tier in reached if tier != graded.mark]
        if possible:
            words += f", could be {' or '.join(possible)}"
    return f"{words} ({graded.note})" if graded.note else words


def counted_marks(marks: Mapping[str, int]) -> str:
    """Return the number of metrics per mark as text: "Marks: 3 healthy, 1 critical.".

    The text is empty if there are no marks.
    """
    counts = ", ".join(f"{count:,} {mark}" for mark, count in marks.items() if count)
    return f"Marks: {counts}." if counts else ""


def constant(columns: Iterable[Column]) -> list[Column]:
    """Return the optional columns that say the same in each of several rows.

    They become one sentence below the table.
    """
    return [column for column in columns if column.rank > 0 and _is_constant(column)]


def _is_constant(column: Column) -> bool:
    """Return whether a column of at least three rows says the same in each of them."""
    texts = {written(value, column.kind) for value in column.values}
    return len(column.values) > 2 and len(texts) == 1


def in_every_row(columns: Iterable[Column]) -> str:
    """Return the sentence about columns that say the same in each row."""
    phrases = [f"{column.name} {written(column.values[0], column.kind) or '–'}" for column in columns]
    return f"In every row: {', '.join(phrases)}."


def level_words(levels: Iterable[float | None]) -> str:
    """Return "95% interval", or "interval" if the levels differ."""
    distinct = {level for level in levels if level is not None}
    return interval_name(distinct.pop() if len(distinct) == 1 else None)


def size(count: int) -> str:
    """Format a number of bytes: "4.3 MB"."""
    value = float(count)
    unit = "B"
    for larger_unit in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value /= 1_000
        unit = larger_unit
    return f"{value:.3g} {unit}"


def percent(share: float) -> str:
    """Format a share as a percentage.

    A positive share below 1% becomes "<1%", one that is rounded to 100% ">99%".
    """
    value = 100 * share
    if 99.5 <= value < 100:
        return ">99%"
    if value < 1 and value != 0:
        return "<1%"
    return f"{value:.0f}%"


def not_run(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the titles of the parts that were not run, grouped by reason.

    `parts` is the entry `parts` of run.json.
    """
    titles: dict[str, list[str]] = {}
    for name, part in parts.items():
        if part["status"] != "run":
            reason = part.get("reason") or "reason unknown"
            titles.setdefault(reason, []).append(part.get("title") or name)
    return titles


def table_of(block: Table | Chart) -> Table:
    """Return the data of a chart as a table; a table is returned unchanged."""
    match block:
        case Table():
            return block
        case Pairs():
            return block.table
        case Intervals():
            return _table_of_intervals(block)
        case _:
            return _table_of_series(block)


def _table_of_intervals(block: Intervals) -> Table:
    panel_name, label_name = block.names
    panels = Column(panel_name, [row.name for row in block.rows], "name")
    labels = Column(label_name, [row.label for row in block.rows], "name")
    names = [column for column in (panels, labels) if len(set(column.values)) > 1] or [panels]
    values = [quantity(row.estimate, row.low, row.high, row.unit) for row in block.rows]
    intervals = [interval(row.low, row.high, row.unit) for row in block.rows]
    columns = [
        *names,
        Column("value", values, "quantity"),
        Column(level_words([block.level]), intervals, "quantity"),
    ]
    if any(row.mark for row in block.rows):
        level = "" if block.mark_level is None else f" ({100 * block.mark_level:g}% interval)"
        columns.append(Column(f"mark{level}", [row.mark for row in block.rows], "mark"))
    return Table(block.title, [*columns, *block.further], lead=len(names), note=block.note)


def _table_of_series(block: Bars | Heatmap | Dots) -> Table:
    labels, series = series_of(block)
    kind: Kind
    if isinstance(block, Dots):
        kind = "signed"
        low, high = block.span
        low_end, high_end = block.ends
        note = f"{low:g}: {low_end}; {high:g}: {high_end}. {block.note}"
    else:
        kind = block.kind
        note = block.note
    columns = [Column(name, values, kind, whole=True) for name, values in series.items()]
    return Table(block.title, [Column("", labels, "name"), *columns], note=note)


def numbers_of(block: Chart) -> DataFrame:
    """Return the numbers of a chart, unrounded where it has them, as a table."""
    from polars import DataFrame, Series  # the import takes a while, and lists of names need no table

    if isinstance(block, Intervals):
        names = [name or "panel" for name in block.names]
        rows = []
        for row in block.rows:
            numbers = (row.estimate, row.low, row.high)
            mark = row.mark.mark if row.mark else None
            rows.append((row.panel, row.label, *numbers, row.about, mark, row.unit))
        names += ["estimate", "low", "high", "about", "mark", "unit"]
        table = DataFrame(rows, schema=names, orient="row")
        return table.select(column for column in table if not _is_empty(column))
    columns = []
    for column in table_of(block).columns:
        values = column.values
        if column.kind not in UNROUNDED:
            values = [written(value, column.kind) for value in values]
        columns.append(Series(column.name or "row", values))
    return DataFrame(columns)


UNROUNDED = ("number", "signed", "count", "percent", "probability")
"""Kinds of columns whose values are numbers."""


def _is_empty(column: Series) -> bool:
    """Return whether a column has no value, or only empty texts."""
    return column.null_count() == column.len() or set(column) == {""}


def series_of(block: Bars | Heatmap | Dots) -> tuple[Sequence[str], Mapping[str, Sequence[float | None]]]:
    """Return the labels of a chart, and its values by series.

    For a heat map these are the rows and columns.
    """
    if isinstance(block, Heatmap):
        series = {name: [row[i] for row in block.values] for i, name in enumerate(block.columns)}
        return block.rows, series
    return block.labels, block.values


def in_words(block: Chart) -> str:
    """Return a description of a chart for screen readers.

    It has the number of values, and the smallest and largest value with their labels.
    """
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
    cells_with_value = [(value, label) for value, label in cells if value is not None]
    if not cells_with_value:
        return f"{block.title}: no value."
    least, label_of_least = min(cells_with_value)
    most, label_of_most = max(cells_with_value)
    smallest = f"{number(least)} ({label_of_least})"
    largest = f"{number(most)} ({label_of_most})"
    count = len(cells_with_value)
    return f"{block.title}: {count} values from {smallest} to {largest}. {block.note}".strip()


Passage = tuple[str, bool]
"""A passage of a text, and whether it differs from another text."""


def contrast(first: str, second: str) -> tuple[list[Passage], list[Passage]]:
    """Return the differing passages of two texts with the words around them.

    Returns
    -------
    tuple
        The passages of each text in order; "…" replaces words that are left out.
    """
    words_of_first = re.findall(r"\S+\s*", without_markup(first))[:MOST_WORDS]
    words_of_second = re.findall(r"\S+\s*", without_markup(second))[:MOST_WORDS]
    matcher = difflib.SequenceMatcher(None, words_of_first, words_of_second, autojunk=False)
    changes = matcher.get_opcodes()
    passages_of_first: list[Passage] = []
    passages_of_second: list[Passage] = []
    differing = [i for i, (change, *_) in enumerate(changes) if change != "equal"][:PASSAGES]
    end = differing[-1] + 2 if differing else len(changes)
    for i, (change, start_1, end_1, start_2, end_2) in enumerate(changes[:end]):
        for passages, words in (
            (passages_of_first, words_of_first[start_1:end_1]),
            (passages_of_second, words_of_second[start_2:end_2]),
        ):
            if not words:
                continue
            if change != "equal":
                passages.append(("".join(words).rstrip(), True))
                continue
            begins, ends = i == 0, i == len(changes) - 1
            passage = "".join(_abridged(words, begins=begins, ends=ends))
            passages.append((passage if begins else f" {passage}", False))
    return passages_of_first, passages_of_second


def without_markup(text: str) -> str:
    """Return a text without marks of Markdown and tags of HTML."""
    without_tags = re.sub(r"</?[a-zA-Z][a-zA-Z0-9]*\s*/?>", " ", text)
    return re.sub(r"\*\*|__|`+|^\s*#+ |^\s*[-*] |[-=_]{3,}", "", without_tags, flags=re.MULTILINE)


def _abridged(words: list[str], *, begins: bool, ends: bool) -> list[str]:
    """Return a passage without the words that are far from the passages next to it.

    Parameters
    ----------
    begins, ends
        Whether the passage is the first and whether it is the last of a text.
    """
    before = [] if begins else words[:AROUND]
    after = [] if ends else words[-AROUND:]
    if len(words) <= len(before) + len(after):
        return words
    return [*before, "… ", *after]
