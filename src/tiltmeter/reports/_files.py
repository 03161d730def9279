"""Export of tables to files.

In CSV, texts that a spreadsheet could interpret as formulas are neutralised.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
from polars import DataFrame, Expr, LazyFrame, Series, String, col, lit, when

from tiltmeter._files.writing import writing as writing
from tiltmeter.errors import InputError


def write_table(table: DataFrame, path: Path, *, exact: bool = False) -> int:
    """Write a table atomically as .csv, .jsonl or .parquet.

    Raises InputError for another extension or an unwritable path.

    Parameters
    ----------
    exact
        Whether a CSV file is read by programs, such as prompts that are sent to a model: then formulas are
        not neutralised.

    Returns
    -------
    int
        The number of cells in an exact CSV file that a spreadsheet would interpret as formulas.
    """
    suffix = path.suffix.lower()
    writer: Callable[[Path], object]
    match suffix:
        case ".csv":
            cells = table if exact else csv_table(table.lazy()).collect()
            writer = cells.write_csv
        case ".jsonl":
            writer = table.write_ndjson
        case ".parquet":
            writer = table.write_parquet
        case _:
            raise InputError(f"{path}: unknown file extension {path.suffix!r}; use .csv, .jsonl or .parquet")
    with writing(path) as temporary:
        writer(temporary)
    return _formulas_in(table) if exact and suffix == ".csv" else 0


def _formulas_in(table: DataFrame) -> int:
    """Return the number of cells that a spreadsheet would interpret as formulas."""
    texts = [column for column in table if column.dtype == String]
    return sum(int(column.str.contains(_FORMULA).sum()) for column in texts)


_FORMULA = r"^(?:['\t\r\n]|[\s\p{C}]*[=+\-@＝＋－＠﹢﹣−])"

_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def neutral(name: str) -> Expr:
    """Return an expression that neutralises formulas in the texts of a column.

    A text that a spreadsheet could interpret as a formula is prefixed with an apostrophe. A number with a
    sign is a number in a spreadsheet, too.
    """
    column = col(name)
    is_formula = column.str.contains(_FORMULA) & ~column.str.contains(_NUMBER)
    return when(is_formula).then(lit("'") + column).otherwise(column).alias(name)


def as_written(name: str) -> Expr:
    """Return an expression that removes the apostrophe with which `neutral` prefixed texts of a column."""
    column = col(name)
    original = column.str.slice(1)
    is_neutralised = column.str.starts_with("'") & original.str.contains(_FORMULA)
    return when(is_neutralised).then(original).otherwise(column).alias(name)


def as_json(name: str) -> Expr:
    """Return an expression that converts a column of lists or structs to JSON texts.

    Nulls stay null, and NaN becomes null.
    """
    in_object = pl.struct(col(name).alias("v")).struct.json_encode()  # {"v":...}
    text = in_object.str.slice(len('{"v":')).str.head(-1)
    return when(col(name).is_not_null()).then(text).alias(name)


def csv_table(lazy: LazyFrame) -> LazyFrame:
    """Prepare a table for CSV.

    Lists and structs become JSON. Texts and column names that look like formulas are neutralised.
    """
    schema = lazy.collect_schema()
    nested = [as_json(name) for name, kind in schema.items() if kind.is_nested()]
    texts = [neutral(name) for name, kind in schema.items() if kind == String]
    names = Series("name", schema.names(), String)
    neutral_names = names.to_frame().select(neutral("name")).to_series()
    return lazy.with_columns(*nested, *texts).rename(dict(zip(names, neutral_names, strict=True)))
