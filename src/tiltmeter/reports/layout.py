"""Layout of tables for any width.

Names, values, intervals and marks are never truncated; columns are omitted or moved to other lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from os import environ
from typing import Any, Final, TextIO

from tiltmeter.sanitising import printable

_PIECES: Final = re.compile(r"[\d.]+% \S+|[^ _]+_?")
"""Pieces of a column name; the name may wrap between them."""
_GAP: Final = 2
_INDENT: Final = 2
_LABEL: Final = 24
"""Maximum length of column names that are taken into account when values are aligned below one another."""
PIPED: Final = 200
"""Width of output that does not go to a terminal, unless COLUMNS is set."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column of a table.

    Parameters
    ----------
    cells
        Texts, as `str` or results of `styled`.
    right
        Whether the cells are right-aligned.
    wraps
        Minimum width at which cells wrap between words; None never wraps cells.
    rank
        0: always shown. If the table is too wide, columns with the highest rank are omitted first.
    whole_name
        Whether the column name never wraps.
    """

    name: str
    cells: Sequence[Any]
    right: bool = False
    wraps: int | None = None
    rank: int = 0
    whole_name: bool = False

    def widths(self, *, hard: bool) -> tuple[int, int]:
        """Return the minimum width and the width at which no cell wraps.

        If `hard` is True, the minimum width `wraps` is ignored.
        """
        cells = [line for cell in self.cells for line in _printable(str(cell)).split("\n")]
        natural = max(map(_width, (self.name, *cells)))
        pieces = [] if self.whole_name else _PIECES.findall(self.name)
        head = max(map(_width, pieces or [self.name]))
        if self.wraps is None:
            return max(head, max(map(_width, cells), default=0)), natural
        words = [word for line in cells for word in line.split()]
        return max(head, max(map(_width, words), default=0), 0 if hard else min(natural, self.wraps)), natural


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _printable(text: str) -> str:
    return printable(text).expandtabs(4)


def styled(text: str, style: str = "") -> Any:
    """Return external text as a cell, with markup and control characters neutralised."""
    from rich.text import Text

    return Text(_printable(text), style=style)


def console(stream: TextIO | None = None) -> Any:
    """Return the console for tables, with the width of the terminal or COLUMNS, or PIPED if the output is not a terminal."""
    from rich.console import Console

    stream = stream or sys.stdout
    wide = None if stream.isatty() or environ.get("COLUMNS", "").isdigit() else PIPED
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=wide)


def print_text(text: str, *, file: TextIO | None = None, always: bool = False, style: str = "") -> None:
    """Print a line of text; on a terminal it wraps between words, with indented continuation lines.

    Parameters
    ----------
    always
        If True, also wrap output that does not go to a terminal, at the width of the tables.
    """
    stream = file or sys.stdout
    line = printable(text, one_line=True)
    if always or stream.isatty():
        width = console(stream).width
        first, *others = _wrapped(styled(line), width)
        rest = _wrapped(styled(" ".join(other.plain for other in others)), width - _INDENT) if others else []
        line = "\n".join([first.plain, *(" " * _INDENT + other.plain for other in rest)])
    if style:
        console(stream).print(styled(line, style), soft_wrap=True)
    else:
        print(line, file=stream)


def print_table(columns: Sequence[TextColumn], *, title: str | None = None, lead: int = 1) -> list[str]:
    """Print a table and return the names of the omitted columns.

    If the table does not fit, the first `lead` columns are printed on a separate line above the others, and
    if that does not suffice, each cell is printed on a separate line.
    """
    out = console()
    if title is not None:
        _line(out, styled(title, "italic"))
    for above in (0, lead):
        found = _fitting(columns[above:], out.width - (_INDENT if above else 0))
        if found is not None:
            _print_rows(out, columns[:above], *found)
            return [column.name for column in columns[above:] if column not in found[0]]
    _print_cells(out, columns, lead)
    return []


def _fitting(columns: Sequence[TextColumn], width: int) -> tuple[list[TextColumn], list[int]] | None:
    """Return the columns that fit into `width` and their widths, or None if the table cannot fit."""
    ranks = sorted({column.rank for column in columns} - {0}, reverse=True)
    for left_out, hard in [*((count, False) for count in range(len(ranks) + 1)), (len(ranks), True)]:
        kept = [column for column in columns if column.rank not in ranks[:left_out]]
        widths = [column.widths(hard=hard) for column in kept]
        spare = width - sum(least for least, _ in widths) - _GAP * (len(kept) - 1)
        if spare >= 0:
            return kept, _filled(widths, spare)
    return None


def _filled(widths: Sequence[tuple[int, int]], spare: int) -> list[int]:
    """Distribute spare width over the columns that are narrower than their natural width."""
    given = [least for least, _ in widths]
    while spare > 0 and (expandable := [i for i, (_, natural) in enumerate(widths) if given[i] < natural]):
        for i in expandable[:spare]:
            given[i] += 1
        spare -= len(expandable[:spare])
    return given


def _print_rows(
    out: Any, above: Sequence[TextColumn], columns: Sequence[TextColumn], widths: Sequence[int]
) -> None:
    indent = _INDENT if above else 0
    _print_above(out, [styled(column.name, "bold") for column in above])
    heads = [_head(column, width) for column, width in zip(columns, widths, strict=True)]
    for names in reversed([*zip_longest(*map(reversed, heads), fillvalue="")]):
        _line(out, _joined([styled(name, "bold") for name in names], columns, widths, indent))
    ruler = "-" if out.options.ascii_only else "─"
    _line(out, styled(ruler * min(out.width, indent + sum(widths) + _GAP * (len(columns) - 1))))
    for row in range(len((*above, *columns)[0].cells)):
        _print_above(out, [_bold(_cell(column, row)) for column in above])
        parts = [
            _broken(_cell(column, row), column, width) for column, width in zip(columns, widths, strict=True)
        ]
        for cells in zip_longest(*parts, fillvalue=styled("")):
            _line(out, _joined(cells, columns, widths, indent))
    _line(out, styled(""))


def _print_above(out: Any, cells: Sequence[Any]) -> None:
    """Print cells on one line, or on one line each if that is too long."""
    cells = [cell for cell in cells if cell.plain]
    together = styled(" " * _GAP).join(cells)
    for line in [together] if together.cell_len <= out.width else cells:
        if line.plain:
            _line(out, line)


def _print_cells(out: Any, columns: Sequence[TextColumn], lead: int) -> None:
    """Print each cell on a separate line, after the name of its column."""
    indent = (
        _INDENT
        + max((_width(column.name) for column in columns[lead:] if _width(column.name) <= _LABEL), default=0)
        + _GAP
    )
    for row in range(len(columns[0].cells)):
        _print_above(out, [_bold(_cell(column, row)) for column in columns[:lead]])
        for column in columns[lead:]:
            if str(column.cells[row]):
                first, *others = _broken(_cell(column, row), column, out.width - indent)
                _line(out, styled((" " * _INDENT + column.name + " " * _GAP).ljust(indent)) + first)
                for line in others:
                    _line(out, styled(" " * indent) + line)
    _line(out, styled(""))


def _cell(column: TextColumn, row: int) -> Any:
    cell = column.cells[row]
    return styled(cell) if isinstance(cell, str) else cell


def _bold(cell: Any) -> Any:
    return styled(cell.plain, "bold")


def _broken(cell: Any, column: TextColumn, width: int) -> list[Any]:
    return list(cell.split("\n")) if column.wraps is None else _wrapped(cell, width)


def _wrapped(text: Any, width: int) -> list[Any]:
    """Wrap a text to lines of at most `width`; longer words are not broken."""
    lines: list[str] = []
    for part in text.plain.split("\n"):
        line = ""
        for word in part.split():
            if line and _width(f"{line} {word}") > width:
                lines.append(line)
                line = ""
            line = f"{line} {word}" if line else word
        lines.append(line)
    return [styled(line, text.style) for line in lines]


def _joined(cells: Sequence[Any], columns: Sequence[TextColumn], widths: Sequence[int], indent: int) -> Any:
    spaces = [styled(" " * (width - cell.cell_len)) for cell, width in zip(cells, widths, strict=True)]
    padded = [
        space + cell if column.right else cell + space
        for space, cell, column in zip(spaces, cells, columns, strict=True)
    ]
    return styled(" " * indent) + styled(" " * _GAP).join(padded)


def _line(out: Any, text: Any) -> None:
    text.rstrip()
    out.print(text, soft_wrap=True)


def _head(column: TextColumn, width: int) -> list[str]:
    """Wrap the name of a column to as many lines as needed."""
    if _width(column.name) <= width:
        return [column.name]
    lines = [""]
    for piece in _PIECES.findall(column.name):
        if lines[-1] and _width(f"{lines[-1]} {piece}") > width:
            lines.append(piece)
        else:
            lines[-1] += piece if not lines[-1] or lines[-1].endswith("_") else f" {piece}"
    return lines
