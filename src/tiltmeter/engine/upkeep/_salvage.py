"""The rows that a damaged SQLite journal still holds."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, Final

from tiltmeter.engine._row import Row
from tiltmeter.engine.upkeep._pages import INDEX_PAGES, TABLE_INNER, TABLE_LEAF, Cell, Pages, varint
from tiltmeter.engine.upkeep._rows import COLUMNS, LARGEST_NUMBER

__all__ = ["claimed_rows", "readable_rows"]

_KEY: Final = 76
"""Type of a value of 32 bytes in a record."""
_FIRST_COLUMNS: Final = 15
"""Of the first schema; a file has that many, or some more."""
_SMALLEST: Final = 40
"""Bytes that no row is shorter than."""
_WANTED: Final = [{"Binary": "bytes", "String": "text", "Float64": "real"}.get(str(dtype), "whole") for dtype in COLUMNS.values()]
_FITS: Final = {1: range(2), 2: range(-128, 128)} | {
    size: range(-(2 ** (8 * below - 1)), 2 ** (8 * below - 1)) for size, below in {3: 2, 4: 3, 6: 4, 8: 6}.items()
}
"""Integers that take fewer than so many bytes."""
_INTEGERS: Final = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}
"""Bytes of a value, by its type in a record."""


def readable_rows(pages: Pages) -> Iterator[Row]:
    """Every row of the table of answers that is whole, wherever its page stands; no other row of the file has its form.

    A row is whole when its record has the form, every value is one that a journal writes (text is UTF-8 without NUL, which is what
    a zeroed part of a page would be), and the pages of a long text are its own. Pages that the file calls free are left out.
    """
    free = pages.free()
    taken = bytearray(pages.count + 1)
    for _, chain in _chains(pages, free):
        for number in chain:
            taken[number] = min(2, taken[number] + 1)
    for cell, chain in _chains(pages, free):
        if any(taken[number] > 1 for number in chain):  # claimed by another row, too: either may be a stale one
            continue
        row = _row(pages.record(cell, chain))
        if row is not None:
            yield row


def claimed_rows(pages: Pages, saved: int) -> int:
    """How many rows the file should hold, as far as its inner pages tell: the keys its index lists, or the highest number of a row.

    Where the index lists just as many as were `saved`, these are all: table and index lie in pages of their own.
    Rows are numbered from 1 in the order in which they came, so that the number is too high where rows were pruned; it is too low
    where those pages are lost, too.
    """
    free, listed, highest = pages.free(), 0, 0
    most = max(pages.claimed, pages.count) * pages.size // _SMALLEST
    for number in range(2, pages.count + 1):
        page = pages[number]
        if page[0] not in (*INDEX_PAGES, TABLE_INNER, TABLE_LEAF) or number in free:
            continue
        numbers = pages.row_numbers(page)
        if numbers and numbers == sorted(set(numbers)) and numbers[-1] <= most:
            highest = max(highest, numbers[-1])
        elif page[0] in INDEX_PAGES:
            listed += _listed(page, pages.usable)
    return saved if listed == saved else max(saved, listed, highest)


def _listed(page: bytes, usable: int) -> int:
    """Entries of a page of the index of keys; 0 when it is of another index."""
    header = INDEX_PAGES[page[0]]
    place = int.from_bytes(page[header : header + 2], "big") + header - 8  # an inner entry begins with the number of a page
    if place > usable - 4:
        return 0
    _size, place = varint(page, place)
    return int.from_bytes(page[3:5], "big") if page[place : place + 2] == bytes((3, _KEY)) and page[place + 2] < 10 else 0


def _chains(pages: Pages, free: set[int]) -> Iterator[tuple[Cell, list[int]]]:
    """Every row that looks like one of ours, with the overflow pages it needs."""
    for number in range(2, pages.count + 1):
        if number in free:
            continue
        page = pages[number]
        if page[0] != TABLE_LEAF:
            continue
        for cell in pages.cells(page):
            if _looks_right(cell):
                chain = pages.chain(cell) if cell.overflow else []
                if chain is not None:
                    yield cell, chain


def _looks_right(cell: Cell) -> bool:
    local = cell.local
    return len(local) > _FIRST_COLUMNS + 32 and _FIRST_COLUMNS < local[0] < 0x80 and local[1] == _KEY


def _row(record: bytes) -> Row | None:
    """The row that a record holds, None when it is no whole row."""
    header, place = varint(record, 0)
    kinds = []
    while place < header:
        kind, place = varint(record, place)
        kinds.append(kind)
    if place != header or not _FIRST_COLUMNS <= len(kinds) <= len(COLUMNS):
        return None
    values: list[Any] = []
    for kind, wanted in zip(kinds, _WANTED, strict=False):
        size = _INTEGERS.get(kind, (kind - 12) // 2 if kind >= 12 else -1)
        if size < 0 or place + size > len(record):
            return None
        try:
            values.append(_value(kind, record[place : place + size], wanted))
        except ValueError:
            return None
        place += size
    if place != len(record):
        return None
    row = Row(*values, *[None] * (len(COLUMNS) - len(values)))
    return row if _is_whole(row) else None


def _value(kind: int, data: bytes, wanted: str) -> Any:
    """A value of a column of this kind; raises ValueError where there cannot be such a one."""
    if kind == 0:
        return None
    if kind >= 12:
        if wanted == ("text" if kind % 2 else "bytes"):
            return data.decode() if kind % 2 else data
    elif kind == 7:
        if wanted == "real" and math.isfinite(number := struct.unpack(">d", data)[0]) and number:
            return number
    else:
        whole = kind - 8 if kind in (8, 9) else int.from_bytes(data, "big", signed=True)
        if data and whole in _FITS[len(data)]:  # SQLite would have taken fewer bytes: part of the row is zeroed
            raise ValueError(kind)
        if wanted == "whole" and 0 <= whole <= LARGEST_NUMBER:
            return whole
        if wanted == "real":  # SQLite stores a real number without fraction as an integer
            return float(whole)
    raise ValueError(kind)


def _is_whole(row: Row) -> bool:
    needed = (row.key, row.model, row.sample, row.attempts, row.created_at)
    if any(value is None for value in needed) or len(row.key) != 32 or not row.model or row.created_at < 0:
        return False
    if any(isinstance(value, str) and "\0" in value for value in row):
        return False
    if row.status == "failed":
        return True
    return row.status == "ok" and any(value is not None for value in (row.text, row.thinking, row.refusal, row.finish_reason))
