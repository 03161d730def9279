"""What stands in a file, before anything is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tiltmeter._damage import UNREADABLE, csv_of, json_of, unreadable
from tiltmeter._paths import is_file
from tiltmeter._text import not_utf8
from tiltmeter.errors import InputError

__all__ = ["Raw", "first_line", "load_json", "read_raw"]

KINDS = ".parquet, .csv, .json or .jsonl"


class Raw(NamedTuple):
    """A table as it stands in a file."""

    table: pl.DataFrame
    first: int
    """Number of its first row, as a person counts: below the header of a CSV file it is 2."""


def read_raw(path: Path) -> Raw | list[Any] | dict[str, Any]:
    """The rows of a table, or what a JSON file holds if it is no list of rows.

    Raises
    ------
    InputError
        There is no such file, its kind is unknown, or it is damaged.
    """
    if not is_file(path):
        raise InputError(f"there is no file {path}")
    try:
        match path.suffix.lower():
            case ".parquet":
                return Raw(pl.read_parquet(path, glob=False), 1)
            case ".csv":
                return Raw(csv_of(path), 2)
            case ".jsonl" | ".ndjson":
                return _lines(path)
            case ".json":
                return load_json(path)
            case other:
                raise InputError(f"{path}: unknown kind of file {other!r}; give {KINDS}")
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read: {unreadable(path, error)}") from error


def load_json(path: Path) -> list[Any] | dict[str, Any]:
    """A JSON file whose outermost value is a list or an object; raises InputError naming the line that is wrong."""
    try:
        loaded = json_of(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno} is not valid JSON ({error.msg}); mend that line") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({not_utf8(path.read_bytes()) or first_line(error)})") from error
    if not isinstance(loaded, (list, dict)):
        raise InputError(f"{path}: expected a list or an object, found {json.dumps(loaded)[:60]}")
    return loaded


def _lines(path: Path) -> list[Any]:
    rows = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    rows.append(json_of(line))
                except (ValueError, RecursionError) as error:
                    if line.strip() in ("[", "{"):
                        raise InputError(
                            f"{path} is one JSON value over several lines; call it .json, or write one object a line"
                        ) from error
                    raise InputError(f"{path}, line {number} is not valid JSON ({first_line(error)}); mend that line") from error
    return rows


def first_line(error: Exception) -> str:
    """What a library says is wrong, in one line."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]
