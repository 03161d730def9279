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

from tiltmeter._sanitising import printable

_PIECES: Final = re.compile(r"[\d.]+% \S+|[^ _]+_?")
"""Pieces of a column name; the name may wrap between them."""
_GAP: Final = 2
"""Number of spaces between columns."""
_INDENT: Final = 2
"""Number of spaces before continuation lines."""
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
        lines = [line for cell in self.cells for line in _printable(str(cell)).split("\n")]
        natural = max(map(_width, (self.name, *lines)))
        pieces = [] if self.whole_name else _PIECES.findall(self.name)
        minimum = max(map(_width, pieces or [self.name]))
        if self.wraps is None:
            return max([minimum, *map(_width, lines)]), natural
        words = [word for line in lines for word in line.split()]
        minimum = max([minimum, *map(_width, words)])
        if not hard:
            minimum = max(minimum, min(natural, self.wraps))
        return minimum, natural


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
    """Return the console for tables.

    Its width is that of the terminal or COLUMNS, or PIPED if the output does not go to a terminal.
    """
    from rich.console import Console

    stream = stream or sys.stdout
    has_width = stream.isatty() or environ.get("COLUMNS", "").isdigit()
    width = None if has_width else PIPED
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width)


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
        line = "\n".join(_indented_lines(line, console(stream).width))
    if style:
        console(stream).print(styled(line, style), soft_wrap=True)
    else:
        print(line, file=stream)


def _indented_lines(line: str, width: int) -> list[str]:
    """Wrap a line to a width, with indented continuation lines."""
    first, *continuation = _wrapped(styled(line), width)
    lines = [first.plain]
    if continuation:
        text = styled(" ".join(part.plain for part in continuation))
        lines += [" " * _INDENT + part.plain for part in _wrapped(text, width - _INDENT)]
    return lines


def print_table(columns: Sequence[TextColumn], *, title: str | None = None, lead: int = 1) -> list[str]:
    """Print a table and return the names of the omitted columns.

    If the table does not fit, the first `lead` columns are printed on a separate line above the others, and
    if that does not suffice, each cell is printed on a separate line.
    """
    out = console()
    if title is not None:
        print_text(title, always=True, style="italic")
    for above in (0, lead):
        indent = _INDENT if above else 0
        fitting = _fitting(columns[above:], out.width - indent)
        if fitting is not None:
            fitting_columns, widths = fitting
            _print_rows(out, columns[:above], fitting_columns, widths)
            return [column.name for column in columns[above:] if column not in fitting_columns]
    _print_cells(out, columns, lead)
    return []


def _fitting(columns: Sequence[TextColumn], width: int) -> tuple[list[TextColumn], list[int]] | None:
    """Return the columns that fit into `width` and their widths, or None if the table cannot fit.

    Columns are omitted by rank. Cells wrap to less than their minimum width only if that does not suffice.
    """
    ranks = sorted({column.rank for column in columns} - {0}, reverse=True)
    attempts = [(count, False) for count in range(len(ranks) + 1)]
    attempts.append((len(ranks), True))
    for omitted_ranks, hard in attempts:
        fitting = [column for column in columns if column.rank not in ranks[:omitted_ranks]]
        widths = [column.widths(hard=hard) for column in fitting]
        needed = sum(minimum for minimum, _ in widths) + _GAP * (len(fitting) - 1)
        if needed <= width:
            return fitting, _filled(widths, width - needed)
    return None


def _filled(widths: Sequence[tuple[int, int]], spare: int) -> list[int]:
    """Distribute spare width over the columns that are narrower than their natural width."""
    filled = [minimum for minimum, _ in widths]
    while spare > 0:
        expandable = [i for i, (_, natural) in enumerate(widths) if filled[i] < natural]
        if not expandable:
            break
        for i in expandable[:spare]:
            filled[i] += 1
        spare -= len(expandable[:spare])
    return filled


def _print_rows(
    out: Any, above: Sequence[TextColumn], columns: Sequence[TextColumn], widths: Sequence[int]
) -> None:
    """Print a table whose first columns are on separate lines above the others."""
    indent = _INDENT if above else 0
    _print_above(out, [styled(column.name, "bold") for column in above])
    for names in _lines_of_names(columns, widths):
        _line(out, _joined([styled(name, "bold") for name in names], columns, widths, indent))
    rule = "-" if out.options.ascii_only else "─"
    width = indent + sum(widths) + _GAP * (len(columns) - 1)
    _line(out, styled(rule * min(out.width, width)))
    for row in range(len((*above, *columns)[0].cells)):
        _print_above(out, [_bold(_cell(column, row)) for column in above])
        lines_of_cells = [
            _lines_of_cell(column, row, width) for column, width in zip(columns, widths, strict=True)
        ]
        for cells in zip_longest(*lines_of_cells, fillvalue=styled("")):
            _line(out, _joined(cells, columns, widths, indent))
    _line(out, styled(""))


def _lines_of_names(columns: Sequence[TextColumn], widths: Sequence[int]) -> list[tuple[str, ...]]:
    """Return the lines of the column names, which are aligned at the bottom."""
    names = [_lines_of_name(column, width) for column, width in zip(columns, widths, strict=True)]
    from_the_bottom = zip_longest(*[reversed(lines) for lines in names], fillvalue="")
    return list(from_the_bottom)[::-1]


def _print_above(out: Any, cells: Sequence[Any]) -> None:
    """Print cells on one line, or on one line each if that is too long."""
    cells = [cell for cell in cells if cell.plain]
    together = styled(" " * _GAP).join(cells)
    for line in [together] if together.cell_len <= out.width else cells:
        if line.plain:
            _line(out, line)


def _print_cells(out: Any, columns: Sequence[TextColumn], lead: int) -> None:
    """Print each cell on a separate line, after the name of its column."""
    widths = [_width(column.name) for column in columns[lead:]]
    widest = max([width for width in widths if width <= _LABEL], default=0)
    indent = _INDENT + widest + _GAP
    for row in range(len(columns[0].cells)):
        _print_above(out, [_bold(_cell(column, row)) for column in columns[:lead]])
        for column in columns[lead:]:
            if not str(column.cells[row]):
                continue
            name = " " * _INDENT + column.name + " " * _GAP
            first, *continuation = _lines_of_cell(column, row, out.width - indent)
            _line(out, styled(name.ljust(indent)) + first)
            for line in continuation:
                _line(out, styled(" " * indent) + line)
    _line(out, styled(""))


def _cell(column: TextColumn, row: int) -> Any:
    cell = column.cells[row]
    return styled(cell) if isinstance(cell, str) else cell


def _bold(cell: Any) -> Any:
    return styled(cell.plain, "bold")


def _lines_of_cell(column: TextColumn, row: int, width: int) -> list[Any]:
    cell = _cell(column, row)
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
    """Return the cells of a row as one line, each padded to the width of its column."""
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        space = styled(" " * (width - cell.cell_len))
        padded.append(space + cell if column.right else cell + space)
    return styled(" " * indent) + styled(" " * _GAP).join(padded)


def _line(out: Any, text: Any) -> None:
    text.rstrip()
    out.print(text, soft_wrap=True)


def _lines_of_name(column: TextColumn, width: int) -> list[str]:
    """Wrap the name of a column to as many lines as needed."""
    if _width(column.name) <= width:
        return [column.name]
    lines = [""]
    for piece in _PIECES.findall(column.name):
        line = lines[-1]
        if not line:
            lines[-1] = piece
        elif _width(f"{line} {piece}") > width:
            lines.append(piece)
        else:
            lines[-1] += piece if line.endswith("_") else f" {piece}"
    return lines
