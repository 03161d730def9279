"""Tables of responses somebody else generated, read into one shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter._damage import UNREADABLE, csv_of, json_of, unreadable
from tiltmeter._paths import is_file
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["ROWS", "first_line", "read_columns", "read_table"]

ROWS = {"prompt_id": pl.String, "prompt": pl.String, "model": pl.String, "repetition": pl.Int64, "answer": pl.String}
"""Columns of a read table; null where the file does not say."""

LAST_REPETITION = 2**15 - 1
_ALIASES = {
    "answer": ("answer", "response", "completion", "output", "text"),
    "prompt": ("prompt", "question", "input"),
    "repetition": ("repetition", "repetition_id", "sample", "epoch"),
}


def read_table(path: Path) -> pl.DataFrame:
    """The rows of a CSV, JSON Lines or Parquet file with the columns ROWS; raises InputError naming the file and what is wrong in it."""
    return _canonical(path, _read(path, _KNOWN))


def read_columns(path: Path) -> pl.DataFrame:
    """Such a file with the columns it has; texts, but for what a Parquet file holds otherwise."""
    return _read(path, None)


def _read(path: Path, known: frozenset[str] | None) -> pl.DataFrame:
    if not is_file(path):
        raise InputError(f"{path} is a folder; name the file" if path.is_dir() else f"there is no file {path}")
    try:
        match path.suffix.lower():
            case ".csv":
                table = csv_of(path)
            case ".parquet":
                table = pl.read_parquet(path, glob=False)
            case ".jsonl" | ".ndjson":
                table = _read_lines(path, known)
            case other:
                raise InputError(f"{path}: unknown kind of file {other!r}; give .csv, .jsonl or .parquet")
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read: {unreadable(path, error)}") from error
    if table.is_empty():
        raise InputError(f"{path} has no rows; it needs one for each response")
    return table


def first_line(error: Exception) -> str:
    """What a library says is wrong, in one line."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]


def _read_lines(path: Path, known: frozenset[str] | None) -> pl.DataFrame:
    """One object a line. Each value is looked at, because a text and an object in one column must not become two texts."""
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json_of(line)
            except (ValueError, RecursionError) as error:
                if line.strip() in ("[", "{"):
                    raise InputError(f"{path} is one JSON value over several lines; write one object a line (JSON Lines)") from None
                raise InputError(f"{path}, line {number} is not valid JSON ({error}); correct that line") from None
            if not isinstance(row, dict):
                told = "; write one object a line (JSON Lines)" if isinstance(row, list) else ""
                raise InputError(f"{path}, line {number} is not an object such as {{'prompt': ..., 'answer': ...}}{told}")
            place = f"{path}, line {number}"
            rows.append({name: _text(place, name, value, known) for name, value in row.items() if known is None or name in known})
    return pl.DataFrame(rows, schema=dict.fromkeys(dict.fromkeys(name for row in rows for name in row), pl.String))


def _text(place: str, name: str, value: object, known: frozenset[str] | None) -> str | None:
    if known is not None and isinstance(value, (dict, list)):
        raise InputError(f"{place}: {name!r} is {'an object' if isinstance(value, dict) else 'a list'}, not text; give the text itself")
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _canonical(path: Path, table: pl.DataFrame) -> pl.DataFrame:
    for name, aliases in _ALIASES.items():
        if name not in table.columns and (found := next((alias for alias in aliases if alias in table.columns), None)):
            table = table.rename({found: name})
    if "answer" not in table.columns:
        close = did_you_mean("answer", table.columns)
        raise InputError(f"{path} has no column 'answer' ({close}); name the column that holds the model's text 'answer'")
    if "prompt_id" not in table.columns and "prompt" not in table.columns:
        raise InputError(f"{path} has neither a column 'prompt_id' nor 'prompt'; `tiltmeter plan STUDY --prompts FILE` writes both")
    for name in ROWS:
        if name in table.columns and (table.schema[name].is_nested() or table.schema[name] == pl.Binary):
            raise InputError(f"{path}: the column {name!r} holds {table.schema[name]}, not text; give the text itself")
    if "repetition" in table.columns:
        table = table.with_columns(_repetitions(path, table["repetition"]))
    return table.select(pl.col(name).cast(kind) if name in table.columns else pl.lit(None, kind).alias(name) for name, kind in ROWS.items())


def _repetitions(path: Path, given: pl.Series) -> pl.Series:
    """Whole numbers from 0, in whatever type the file holds them."""
    numbers = given.cast(pl.String).cast(pl.Float64, strict=False)
    wrong = given.is_not_null() & ~(numbers.is_between(0, LAST_REPETITION) & (numbers == numbers.floor())).fill_null(False)
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise InputError(f"{path}: row {row + 1}: repetition {given[row]!r} is not a whole number from 0 to {LAST_REPETITION:,}")
    return numbers.cast(pl.Int64).alias("repetition")


_KNOWN = frozenset([*ROWS, *(alias for aliases in _ALIASES.values() for alias in aliases)])
