"""What goes wrong when a file that came from outside is read, in whichever way Polars says it."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl
from polars import DataFrame

from tiltmeter.errors import InputError
from tiltmeter.sanitising import not_utf8, storable

UNREADABLE: Final = (OSError, UnicodeError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What reading a table may raise. A panic is no `Exception`: nothing else would catch it."""

_LONGEST = 300
_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def why(error: BaseException) -> str:
    """What a library says is wrong, in one line."""
    if isinstance(error, pl.exceptions.PanicException):
        return "its contents contradict each other"
    return next(iter(str(error).splitlines()), type(error).__name__)[:_LONGEST]


def json_of(given: str | bytes) -> Any:
    """The value of JSON text, as tables and files can keep it: half a surrogate pair, which a cut emoji leaves behind, becomes U+FFFD.

    Raises
    ------
    ValueError, RecursionError
        It is no JSON, or no UTF-8.
    """
    text = given.decode("utf-8-sig") if isinstance(given, bytes) else given
    value = json.loads(text)
    return json.loads(storable(json.dumps(value, ensure_ascii=False))) if _HALF.search(text) else value


def unreadable(path: Path, error: BaseException) -> str:
    """Why a file cannot be read, as the end of a sentence about it."""
    if path.is_dir():
        return "it is a folder; name the file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if path.suffix.lower() == ".parquet":
        return why(error) if path.read_bytes()[:4] == b"PAR1" else "it is not a Parquet file"
    if encoding := not_utf8(path.read_bytes()):
        return encoding
    return why(error)


Reader = Callable[[Path], DataFrame]


def table_of(path: Path, own: Mapping[str, Reader] | None = None) -> DataFrame:
    """The rows of a CSV (every value as text), JSON Lines or Parquet file.

    Parameters
    ----------
    own
        Readers by the end of a file's name, beside or in place of these.

    Raises
    ------
    InputError
        It is no such file, or cannot be read.
    """
    lines = partial(pl.read_ndjson, infer_schema_length=None)
    ours: dict[str, Reader] = {".csv": csv_of, ".jsonl": lines, ".ndjson": lines, ".parquet": partial(pl.read_parquet, glob=False)}
    readers = ours | dict(own or {})
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: unknown kind of file {path.suffix.lower()!r}; give {', '.join(readers)}")
    try:
        return reader(path)
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read: {unreadable(path, error)}") from error


def csv_of(path: Path) -> DataFrame:
    """The rows of a CSV file, every value as text; raises InputError for what is no such table, and what reading may raise otherwise."""
    start = path.read_bytes()[:_LONGEST].lstrip()
    if not start:
        raise InputError(f"{path} cannot be read: it is empty; its first line must hold the names of the columns")
    if start.removeprefix(b"\xef\xbb\xbf")[:1] in (b"{", b"["):
        raise InputError(f"{path} holds JSON, not comma-separated values; give the file a name that ends in .jsonl, one object a line")
    if encoding := not_utf8(path.read_bytes()):
        raise InputError(f"{path} cannot be read: {encoding}")
    try:
        table = pl.read_csv(path, infer_schema=False, glob=False)
    except pl.exceptions.ComputeError as error:
        raise InputError(f"{path} cannot be read: {_why_not_csv(path, error)}") from error
    for mark, word in ((";", "semicolons"), ("\t", "tabs")):
        if table.width == 1 and mark in table.columns[0]:
            raise InputError(f"{path}: its columns are separated by {word}; save it with commas")
    if twice := next((name for name in table.columns if _TWICE.search(name) and _TWICE.sub("", name) in table.columns), None):
        raise InputError(f"{path} has the column {_TWICE.sub('', twice)!r} twice; rename or remove one of them")
    return table


def _why_not_csv(path: Path, error: BaseException) -> str:
    with path.open(encoding="utf-8-sig", newline="") as file:
        width = 0
        try:
            for row in (reader := csv.reader(file, strict=True)):
                width = width or len(row)
                if len(row) > width:
                    return f"line {reader.line_num} has {len(row)} values, but there are {width} columns; put quotes around a comma"
        except csv.Error as fault:
            return f"line {reader.line_num}: {fault}; a quotation mark is not closed, or is to be doubled"
    return why(error)


_TWICE = re.compile(r"_duplicated_\d+$")
"""What Polars adds to the name of a column that is there already."""
