"""The write-ahead log beside an SQLite file, read without SQLite (https://www.sqlite.org/fileformat2.html#the_write_ahead_log)."""

from __future__ import annotations

import struct
from array import array
from pathlib import Path
from sys import byteorder
from typing import IO, Final, NamedTuple

__all__ = ["Wal", "read_wal"]

_HEADER: Final = 32
_FRAME: Final = 24
_MAGIC: Final = {0x377F0682: "little", 0x377F0683: "big"}
"""With the order of the bytes in which checksums are made."""


class Wal(NamedTuple):
    """What of a log is valid: the pages of every transaction that was committed whole."""

    page_size: int
    pages: dict[int, int]
    """Where in the file the newest image of a page begins, by page number (from 1)."""
    page_count: int
    """Of the database after the last of these transactions; 0 when there is none."""
    unfinished: int
    """Bytes at the end that belong to no whole transaction, and are ignored."""


def read_wal(path: Path) -> Wal | None:
    """The valid part of a log, None when there is none (no file, an empty one, no log).

    Like SQLite, it stops at the first frame whose salt or checksum is wrong, and keeps what came before up to the last commit.
    """
    try:
        with path.open("rb") as file:
            return _read(file)
    except FileNotFoundError:
        return None


def _read(file: IO[bytes]) -> Wal | None:
    header = file.read(_HEADER)
    if len(header) < _HEADER:
        return None
    magic, _version, page_size, _sequence, salt1, salt2, *check = struct.unpack(">8I", header)
    if magic not in _MAGIC or not 512 <= page_size <= 65536 or page_size & (page_size - 1):
        return None
    swapped = _MAGIC[magic] != byteorder
    sums = _checksum(header[:24], (0, 0), swapped)
    if sums != tuple(check):
        return None
    pages: dict[int, int] = {}
    open_pages: dict[int, int] = {}
    count, place, committed = 0, _HEADER, _HEADER
    while len(frame := file.read(_FRAME + page_size)) == _FRAME + page_size:
        number, size, one, two, *check = struct.unpack_from(">6I", frame)
        if (one, two) != (salt1, salt2):
            break  # left over from before the log was begun anew
        sums = _checksum(frame[_FRAME:], _checksum(frame[:8], sums, swapped), swapped)
        if sums != tuple(check) or not number:
            break
        open_pages[number] = place + _FRAME
        place += _FRAME + page_size
        if size:
            pages |= open_pages
            open_pages.clear()
            count, committed = size, place
    unfinished = len(frame) if frame[8:16] == struct.pack(">2I", salt1, salt2) or 0 < len(frame) < _FRAME + page_size else 0
    return Wal(page_size, pages, count, place - committed + unfinished)


def _checksum(data: bytes, start: tuple[int, int], swapped: bool) -> tuple[int, int]:
    words = array("I", data)
    if swapped:
        words.byteswap()
    one, two = start
    numbers = iter(words)
    for first, second in zip(numbers, numbers, strict=True):
        one = one + first + two & 0xFFFFFFFF
        two = two + second + one & 0xFFFFFFFF
    return one, two
