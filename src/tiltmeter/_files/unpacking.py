"""Limits for files that unpack to much more than their size: gzip files, Excel workbooks, archives of logs.

The limits are checked before a file is unpacked into memory. A larger table can be given unpacked, or as CSV.
"""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tiltmeter.errors import InputError

LARGEST_UNPACKED: Final = 2**28
"""Maximum unpacked size of a file in bytes."""
MOST_CELLS: Final = 2**24
"""Maximum number of cells of a sheet, from A1 to its last row and column: the reader of Excel files allocates
all of them."""

_BLOCK: Final = 2**20
_DAMAGED: Final = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    LookupError,
    ValueError,
)
_NO_WORKBOOK: Final = "it is not an Excel workbook, or it is damaged"
_TARGET: Final = rb"""\bTarget\s*=\s*["']([^"']*)"""
_RELATION: Final = rb"""\bid\s*=\s*["']([^"']*)"""
_RELATION_ID: Final = rb"""\bId\s*=\s*["']([^"']*)"""
_COLUMN: Final = re.compile(rb"""\br\s*=\s*["']\s*([A-Za-z]{1,3})[0-9]""")
"""The column in the reference of a cell."""
_ROW: Final = re.compile(rb"""\br\s*=\s*["']\s*[A-Za-z]{0,3}([0-9]{1,10})""")
"""The row in the reference of a cell or of a row."""
_CELLS_IN_MESSAGE: Final = 5
"""Maximum number of cells named in a message."""
_HIDDEN: Final = re.compile(rb"""\bstate\s*=\s*["'](?:hidden|veryHidden)["']""")
_ERROR: Final = re.compile(rb"""<(?:\w+:)?c(\s[^<>]*\bt\s*=\s*["']e["'][^<>]*)>""")
_FORMULA: Final = re.compile(
    rb"<(?:\w+:)?c(\s[^<>]*)?>\s*<(?:\w+:)?f(?:\s[^<>]*)?(?:/>|>[^<]*</(?:\w+:)?f>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
"""A cell with a formula and without a value."""
_IS_TEXT: Final = re.compile(rb"""\bt\s*=\s*["']str["']""")
"""The type of a cell with a formula whose value is a text, which may be empty."""
_PLACE: Final = re.compile(rb"""\br\s*=\s*["']\s*([A-Za-z]{1,3}[0-9]{1,10})""")
_START: Final = re.compile(rb"<(?:\w+:)?(row|c)[\s/>]")
"""The beginning of a row or of a cell."""


def unpack_gzip(packed: Path, plain: Path) -> None:
    """Unpack a gzip file to the path `plain`.

    Raises
    ------
    InputError
        It unpacks to more than `LARGEST_UNPACKED` bytes.
    OSError, EOFError
        It cannot be read, or is not a gzip file.
    """
    if _claimed_size(packed) > LARGEST_UNPACKED:
        for _ in _unpacked(packed):  # nothing is written if the claim is true
            pass
    with plain.open("wb") as target:
        for block in _unpacked(packed):
            target.write(block)


def _claimed_size(packed: Path) -> int:
    """Return the unpacked size according to the last four bytes of a gzip file.

    Any number if the file is damaged.
    """
    with packed.open("rb") as file:
        file.seek(max(file.seek(0, 2) - 4, 0))
        return int.from_bytes(file.read(4), "little")


def _unpacked(packed: Path) -> Iterator[bytes]:
    """Yield the content of a gzip file; raise InputError if it is longer than `LARGEST_UNPACKED`."""
    size = 0
    with gzip.open(packed) as source:
        while block := source.read(_BLOCK):
            size += len(block)
            if size > LARGEST_UNPACKED:
                raise InputError(_too_large(packed))
            yield block


def _too_large(path: Path) -> str:
    return (
        f"{path} unpacks to more than {LARGEST_UNPACKED >> 20} MiB;"
        " unpack it yourself and give the unpacked file"
    )


def check_workbook(path: Path) -> int:
    """Return the index of the first visible sheet of an Excel workbook.

    Check first that the sheet can be read with little memory and without loss.

    Raises
    ------
    InputError
        The file is not a workbook, unpacks to more than `LARGEST_UNPACKED` bytes, or its first visible sheet
        has more than `MOST_CELLS` cells, or cells without a value to read: an error, or a formula whose value
        is not stored.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > LARGEST_UNPACKED:
                raise InputError(
                    f"{path} unpacks to more than {LARGEST_UNPACKED >> 20} MiB; save the"
                    " sheet as CSV and give that file"
                )
            index, sheet = _first_sheet(archive)
            # Each member is unpacked once: `zipfile` stops at the declared size, and a wrong size is an
            # error.
            for member in archive.infolist():
                if member.filename != sheet:
                    for _ in _blocks(archive, member.filename):
                        pass
            rows, columns = _extent(_blocks(archive, sheet))
            is_too_large = rows * columns > MOST_CELLS
            cells = [] if is_too_large else _cells_without_value(archive.read(sheet))
    except _DAMAGED as error:
        raise InputError(f"{path} cannot be read: {_NO_WORKBOOK}") from error
    if is_too_large:
        raise InputError(
            f"{path}: the first sheet has {rows:,} rows and {columns:,} columns up to its last cell; delete"
            " the rows and columns beyond the table, or save it as CSV"
        )
    if cells:
        names = ", ".join(cells[:_CELLS_IN_MESSAGE])
        if len(cells) > _CELLS_IN_MESSAGE:
            names += ", ..."
        counted = "1 cell has" if len(cells) == 1 else f"{len(cells):,} cells have"
        raise InputError(
            f"{path}: {counted} an error or a formula without a stored value ({names}); a text that begins"
            " with = may have become one: enter it as text or empty the cell, or give the table as CSV"
        )
    return index


def _blocks(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """Yield the content of a file of the archive in blocks."""
    with archive.open(name) as file:
        while block := file.read(_BLOCK):
            yield block


def _first_sheet(archive: zipfile.ZipFile) -> tuple[int, str]:
    """Return the index of the first visible sheet in a workbook, and the name of its file."""
    sheets = re.findall(rb"<(?:\w+:)?sheet\s[^<>]*>", archive.read("xl/workbook.xml"))
    visible = [index for index, sheet in enumerate(sheets) if not _HIDDEN.search(sheet)]
    index = visible[0] if visible else 0
    relation = _first_group(_RELATION, sheets[index])
    relations = re.findall(rb"<(?:\w+:)?Relationship\s[^<>]*>", archive.read("xl/_rels/workbook.xml.rels"))
    targets = [
        _first_group(_TARGET, element)
        for element in relations
        if _first_group(_RELATION_ID, element) == relation
    ]
    target = targets[0].decode()
    return index, target.removeprefix("/") if target.startswith("/") else f"xl/{target}"


def _cells_without_value(sheet: bytes) -> list[str]:
    """Return the names of the cells with an error, or with a formula whose value is not stored.

    Parameters
    ----------
    sheet
        The XML of the sheet.
    """
    cells = _ERROR.findall(sheet)
    cells += [cell for cell in _FORMULA.findall(sheet) if not _IS_TEXT.search(cell)]
    places = [_PLACE.search(cell) for cell in cells]
    return [place[1].decode() if place else "without a name" for place in places]


def _first_group(pattern: bytes, text: bytes) -> bytes:
    """Return the group of the first match of a pattern; raise LookupError if there is none."""
    match = re.search(pattern, text)
    if match is None:
        raise LookupError(pattern)
    return match[1]


def _extent(blocks: Iterator[bytes]) -> tuple[int, int]:
    """Return the numbers of rows and columns of a sheet up to its last cell, from the XML of the sheet.

    Rows and cells without a reference follow the one before.
    """
    last_row = 0  # the largest row in a reference
    row_count = 0
    longest_row = 0  # the number of cells in the longest row
    cells_in_row = 0
    column_names = {b"A"}
    incomplete = b""  # the tag in which a block ends
    for block in blocks:
        complete, bracket, tag = (incomplete + block).rpartition(b"<")
        incomplete = bracket + tag
        references = _COLUMN.findall(complete)
        column_names.update(references)
        last_row = max([last_row, *map(int, set(_ROW.findall(complete)))])
        starts = _START.findall(complete)
        row_count += starts.count(b"row")
        if starts.count(b"c") <= len(references):
            continue
        for start in starts:
            cells_in_row = 0 if start == b"row" else cells_in_row + 1
            longest_row = max(longest_row, cells_in_row)
    return max(last_row, row_count), max([longest_row, *map(_column_number, column_names)])


def _column_number(letters: bytes) -> int:
    """Return the number of a column: 1 for "A", 27 for "AA"."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number
