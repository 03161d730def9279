"""The pages of an SQLite file, read without SQLite, so that a damaged page costs its own rows only.

The format: https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from tiltmeter.engine.upkeep._wal import Wal

__all__ = ["INDEX_PAGES", "MAGIC", "TABLE_INNER", "TABLE_LEAF", "Cell", "Pages", "varint"]

TABLE_LEAF: Final = 0x0D
TABLE_INNER: Final = 0x05
INDEX_PAGES: Final = {0x02: 12, 0x0A: 8}
"""Inner and leaf pages of indexes, with the length of their header."""
USUAL_SIZE: Final = 4096
MAGIC: Final = b"SQLite format 3\0"


class Cell(NamedTuple):
    """One row in a table's leaf page."""

    local: bytes
    """What of the record lies in the page itself."""
    size: int
    """Of the whole record."""
    overflow: int
    """The page that holds what comes next; 0 when the page itself holds all."""


class Pages:
    """Pages by number, from 1, each in its newest image; what is missing at the end of a torn file is zeros."""

    def __init__(self, main: int, wal: Wal | None, wal_file: int | None) -> None:
        self._main, self._wal, self._wal_file = main, wal, wal_file
        self._overlay = wal.pages if wal is not None and wal_file is not None else {}
        self._bytes = os.fstat(main).st_size
        head = os.pread(main, 100, 0)
        self.whole_header = head[:16] == MAGIC
        stored = int.from_bytes(head[16:18], "big")
        stored = 65536 if stored == 1 else stored
        sane = 512 <= stored <= 65536 and not stored & (stored - 1)
        self.size: int = wal.page_size if self._overlay and wal is not None else stored if sane and self.whole_header else USUAL_SIZE
        held = -(-self._bytes // self.size)
        self.count: int = wal.page_count if self._overlay and wal is not None else held
        first = self[1]
        self.claimed: int = self.count if self._overlay else int.from_bytes(first[28:32], "big") if self.whole_header else held
        """Pages that the file says it has."""
        self.usable: int = self.size - (first[20] if self.whole_header and first[20] <= 32 else 0)

    def __getitem__(self, number: int) -> bytes:
        place = self._overlay.get(number)
        if place is not None and self._wal_file is not None:
            return os.pread(self._wal_file, self.size, place)
        return os.pread(self._main, self.size, (number - 1) * self.size).ljust(self.size, b"\0")

    def free(self) -> set[int]:
        """Pages that hold nothing any more; what stands in them was removed. None where the list of them is not credible."""
        found: set[int] = set()
        trunk = int.from_bytes(self[1][32:36], "big") if self.whole_header else 0
        while 1 < trunk <= self.count and trunk not in found:
            found.add(trunk)
            page = self[trunk]
            entries = int.from_bytes(page[4:8], "big")
            if entries > self.usable // 4 - 2:
                break
            found.update(int.from_bytes(page[8 + 4 * i : 12 + 4 * i], "big") for i in range(entries))
            trunk = int.from_bytes(page[:4], "big")
        return found if len(found) == int.from_bytes(self[1][36:40], "big") else set()

    def cells(self, page: bytes) -> Iterator[Cell]:
        """The rows of a table's leaf page that can be made out."""
        count, usable = int.from_bytes(page[3:5], "big"), self.usable
        end = 8 + 2 * count
        most = usable - 35
        least = (usable - 12) * 32 // 255 - 23
        for slot in range(8, min(end, usable - 1), 2):
            place = int.from_bytes(page[slot : slot + 2], "big")
            if not end <= place < usable - 4:
                continue
            size, place = varint(page, place)
            _rowid, place = varint(page, place)
            if size <= most:
                if place + size <= usable:
                    yield Cell(page[place : place + size], size, 0)
                continue
            local = least + (size - least) % (usable - 4)
            local = local if local <= most else least
            if place + local + 4 <= usable:
                yield Cell(page[place : place + local], size, int.from_bytes(page[place + local : place + local + 4], "big"))

    def row_numbers(self, page: bytes) -> list[int]:
        """The numbers of the rows that a page of a table names, in its order; none where the page is of an index or not whole."""
        header = {TABLE_LEAF: 8, TABLE_INNER: 12}.get(page[0])
        if header is None:
            return []
        end = header + 2 * int.from_bytes(page[3:5], "big")
        found = []
        for slot in range(header, min(end, self.usable - 1), 2):
            place = int.from_bytes(page[slot : slot + 2], "big")
            if not end <= place < self.usable - 4:
                return []
            place = varint(page, place)[1] if header == 8 else place + 4
            found.append(varint(page, place)[0])
        return found

    def chain(self, cell: Cell) -> list[int] | None:
        """The overflow pages of a row, None when they are not exactly as many as it needs."""
        number, found = cell.overflow, []
        for _ in range(-(-(cell.size - len(cell.local)) // (self.usable - 4))):
            if not 1 < number <= self.count:
                return None
            found.append(number)
            number = int.from_bytes(self[number][:4], "big")
        return found if number == 0 else None

    def record(self, cell: Cell, chain: list[int]) -> bytes:
        """The whole record of a row."""
        rest = b"".join(self[number][4 : self.usable] for number in chain)
        return (cell.local + rest)[: cell.size]


def varint(data: bytes, place: int) -> tuple[int, int]:
    """The number that begins at `place`, and where what follows begins; past the end there are zeros."""
    value = 0
    for index in range(9):
        byte = data[place + index] if place + index < len(data) else 0
        if index == 8:
            return value << 8 | byte, place + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + index + 1
    raise AssertionError("nine bytes are the longest")
