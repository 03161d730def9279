"""Tables a user gives, read as text with the row each value stands in, so that every complaint can name it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from tiltmeter._damage import UNREADABLE, csv_of, unreadable
from tiltmeter._paths import is_file
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["ROW", "demand", "no_repeats", "numbers", "place", "read_rows"]

ROW = "row"
"""Column of a record's number as a spreadsheet shows it: the header of a CSV file is row 1, the first record row 2."""


def read_rows(path: Path) -> pl.DataFrame:
    """The records of a CSV, JSON Lines or Parquet file with their numbers in ROW; every value as text ("" where there is none) or a list.

    Raises
    ------
    InputError
        There is no such file, it cannot be read, or it holds no record.
    """
    if not is_file(path):
        raise InputError(f"there is no file {path}{': it is a folder' if path.is_dir() else ''}")
    try:
        match path.suffix.lower():
            case ".csv":
                table = csv_of(path)
            case ".parquet":
                table = pl.read_parquet(path, glob=False)
            case ".jsonl" | ".ndjson":
                table = pl.read_ndjson(path, infer_schema_length=None)
            case other:
                raise InputError(f"{path}: unknown kind of file {other!r}; give .csv, .jsonl or .parquet")
        table = table.drop(ROW, strict=False)
        texts = [table[name].cast(pl.String).fill_null("") for name, kind in table.schema.items() if not kind.is_nested()]
        table = table.with_columns(texts)
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read: {unreadable(path, error)}") from error
    if table.is_empty():
        raise InputError(f"{path} holds no rows")
    return table.with_row_index(ROW, 2 if path.suffix.lower() == ".csv" else 1)


def demand(path: Path, table: pl.DataFrame, columns: Iterable[str], *, lists: bool = False) -> None:
    """Raise InputError for the first of `columns` that `table` lacks, with the nearest name it has, or that holds no text.

    With `lists` a column may hold lists as well.
    """
    for name in columns:
        if name not in table.columns:
            there = [column for column in table.columns if column != ROW]
            raise InputError(f"{path} has no column {name!r}: {did_you_mean(name, there)}")
        kind = table.schema[name]
        if kind.is_nested() and not (lists and isinstance(kind, pl.List)):
            raise InputError(f"{path}, column {name!r} holds {kind}, not text; give the text itself")


def place(path: Path, row: int, column: str | None = None) -> str:
    """How a complaint begins: file, row and column."""
    return f"{path}, row {row}" + ("" if column is None else f", column {column!r}")


def numbers(path: Path, table: pl.DataFrame, column: str, *, low: float, high: float, whole: bool = False) -> pl.Series:
    """Column `column` as finite numbers in [low, high].

    Raises
    ------
    InputError
        A value is no number, not a whole one where `whole`, or lies outside; file, row and column are named.
    """
    demand(path, table, (column,))
    text = table[column].str.strip_chars()
    values = text.cast(pl.Float64, strict=False)
    right = (values >= low) & (values <= high) & values.is_finite()
    if whole:
        right &= values == values.floor()
    wrong = table.select(ROW, text).filter(~right.fill_null(False))
    if not wrong.is_empty():
        kind = "a whole number" if whole else "a number"
        span = f"from {low:g} to {high:g}" if high < float("inf") else f"of at least {low:g}"
        raise InputError(f"{place(path, wrong[ROW][0], column)}: {wrong[column][0]!r} is not {kind} {span}")
    return values.cast(pl.Int64) if whole else values


def no_repeats(path: Path, table: pl.DataFrame, columns: list[str]) -> None:
    """Raise InputError where two rows of `table` (with ROW) have the same values in `columns`."""
    repeated = table.filter(pl.struct(columns).is_duplicated())
    if not repeated.is_empty():
        second = repeated.filter(pl.struct(columns).is_first_distinct().not_()).row(0, named=True)
        same = pl.all_horizontal(pl.col(name) == second[name] for name in columns)
        first = repeated.filter(same)[ROW][0]
        named = ", ".join(f"{second[name]!r}" for name in columns)
        raise InputError(f"{place(path, second[ROW])} says again what row {first} says: {named} may stand once")
