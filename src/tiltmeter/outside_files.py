"""Reading of external tables, with the errors of Polars reported as one-line messages."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl
from polars import DataFrame

from tiltmeter.errors import InputError
from tiltmeter.sanitising import not_utf8, storable

UNREADABLE: Final = (OSError, UnicodeError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""Exceptions raised when a table cannot be read. Polars panics are listed because they do not derive from `Exception`."""

_LONGEST = 300
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def why(error: BaseException) -> str:
    """Return the first line of an error message."""
    if isinstance(error, pl.exceptions.PanicException):
        return "its contents contradict each other"
    return next(iter(str(error).splitlines()), type(error).__name__)[:_LONGEST]


def json_of(given: str | bytes) -> Any:
    """Parse JSON text. Lone surrogates (as left by a truncated emoji) become U+FFFD, because files cannot store them.

    Raises
    ------
    ValueError, RecursionError
        The text is not valid JSON or not UTF-8.
    """
    text = given.decode("utf-8-sig") if isinstance(given, bytes) else given
    value = json.loads(text)
    return json.loads(storable(json.dumps(value, ensure_ascii=False))) if _SURROGATE.search(text) else value


def unreadable(path: Path, error: BaseException) -> str:
    """Return the reason why a file cannot be read, as the end of a sentence."""
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
    """Read a CSV or Excel file (with all values as text), or a JSON Lines or Parquet file; any of them may be compressed (`.csv.gz`).

    Parameters
    ----------
    own
        Additional or replacement readers by file extension.

    Raises
    ------
    InputError
        The extension is unknown, or the file cannot be read.
    """
    if path.suffix.lower() == ".gz":
        return _table_of_gzip(path, own)
    lines = partial(pl.read_ndjson, infer_schema_length=None)
    ours: dict[str, Reader] = {".csv": csv_of, ".jsonl": lines, ".ndjson": lines, ".parquet": partial(pl.read_parquet, glob=False)}
    ours |= {".xlsx": _excel_of}
    readers = ours | dict(own or {})
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: unknown file extension {path.suffix.lower()!r}; use one of {', '.join(readers)}")
    try:
        return reader(path)
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read: {unreadable(path, error)}") from error


def _table_of_gzip(path: Path, own: Mapping[str, Reader] | None) -> DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.stem
        try:
            with gzip.open(path) as packed, plain.open("wb") as file:
                shutil.copyfileobj(packed, file)
        except (OSError, EOFError) as error:
            raise InputError(f"{path} cannot be read: {unreadable(path, error) if isinstance(error, OSError) else error}") from error
        try:
            return table_of(plain, own)
        except InputError as error:
            raise InputError(str(error).replace(str(plain), str(path))) from None


def _excel_of(path: Path) -> DataFrame:
    """Read the first sheet of an Excel file, with all values as text."""
    try:
        from fastexcel import FastExcelError, read_excel
    except ImportError as error:
        raise InputError(f'{path}: Excel files need another package: pip install "tiltmeter[excel]"; or save the sheet as CSV') from error
    try:
        table: DataFrame = read_excel(path).load_sheet(0, dtypes="string").to_polars()
    except FastExcelError as error:
        raise InputError(f"{path} cannot be read: it is not an Excel workbook, or it is damaged") from error
    return table


def csv_of(path: Path) -> DataFrame:
    """Read a CSV file with all values as text; raises InputError if it is not valid CSV, and the exceptions of `UNREADABLE` otherwise."""
    start = path.read_bytes()[:_LONGEST].lstrip()
    if not start:
        raise InputError(f"{path} cannot be read: it is empty; its first line must contain the column names")
    if start.removeprefix(b"\xef\xbb\xbf")[:1] in (b"{", b"["):
        raise InputError(f"{path} contains JSON, not comma-separated values; write one object per line to a file that ends in .jsonl")
    if encoding := not_utf8(path.read_bytes()):
        raise InputError(f"{path} cannot be read: {encoding}")
    with path.open(encoding="utf-8-sig") as file:
        header = file.readline()
    for mark, word in ((";", "semicolons"), ("\t", "tabs")):
        if mark in header and "," not in header:
            raise InputError(f"{path}: the columns are separated by {word}; save the file with commas")
    try:
        table = pl.read_csv(path, infer_schema=False, glob=False)
    except pl.exceptions.ComputeError as error:
        raise InputError(f"{path} cannot be read: {_why_not_csv(path, error)}") from error
    if duplicate := next(
        (name for name in table.columns if _DUPLICATE_SUFFIX.search(name) and _DUPLICATE_SUFFIX.sub("", name) in table.columns), None
    ):
        raise InputError(f"{path} has the column {_DUPLICATE_SUFFIX.sub('', duplicate)!r} twice; rename or remove one of them")
    return table


def _why_not_csv(path: Path, error: BaseException) -> str:
    with path.open(encoding="utf-8-sig", newline="") as file:
        width = 0
        try:
            for row in (reader := csv.reader(file, strict=True)):
                width = width or len(row)
                if len(row) > width:
                    return f"line {reader.line_num} has {len(row)} values for {width} columns; put quotes around values with commas"
        except csv.Error as fault:
            return f"line {reader.line_num}: {fault}; close the quotation mark, or double it within a value"
    return why(error)


_DUPLICATE_SUFFIX = re.compile(r"_duplicated_\d+$")
"""Suffix that Polars appends to duplicate column names."""
