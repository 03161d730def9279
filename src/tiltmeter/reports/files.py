"""Export of tables to files, with texts that a spreadsheet could interpret as formulas neutralised in CSV."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
from polars import DataFrame, Expr, LazyFrame, String, col, lit, when

from tiltmeter.errors import InputError
from tiltmeter.files.writing import writing as writing


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
    cells = table if exact or path.suffix.lower() != ".csv" else csv_table(table.lazy()).collect()
    writers: dict[str, Callable[[Path], object]] = {
        ".csv": cells.write_csv,
        ".jsonl": table.write_ndjson,
        ".parquet": table.write_parquet,
    }
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InputError(f"{path}: unknown file extension {path.suffix!r}; use .csv, .jsonl or .parquet")
    with writing(path) as temporary:
        writer(temporary)
    if not exact or path.suffix.lower() != ".csv":
        return 0
    return sum(
        int(table[name].str.contains(_FORMULA).sum()) for name, kind in table.schema.items() if kind == String
    )


_FORMULA = r"^(?:['\t\r\n]|[\s\p{C}]*[=+\-@＝＋－＠﹢﹣−])"

_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def neutral(name: str) -> Expr:
    """Return an expression that prefixes the texts of a column with an apostrophe where a spreadsheet could interpret them as formulas.

    A number with a sign is a number in a spreadsheet, too.
    """
    column = col(name)
    is_formula = column.str.contains(_FORMULA) & ~column.str.contains(_NUMBER)
    return when(is_formula).then(lit("'") + column).otherwise(column).alias(name)


def as_written(name: str) -> Expr:
    """Return an expression that removes the apostrophe with which `neutral` prefixed texts of a column."""
    column = col(name)
    rest = column.str.slice(1)
    return (
        when(column.str.starts_with("'") & rest.str.contains(_FORMULA))
        .then(rest)
        .otherwise(column)
        .alias(name)
    )


def as_json(name: str) -> Expr:
    """Return an expression that converts a column of lists or structs to JSON texts.

    Nulls stay null, and NaN becomes null.
    """
    wrapped = pl.struct(col(name).alias("v")).struct.json_encode().str.slice(len('{"v":')).str.head(-1)
    return when(col(name).is_not_null()).then(wrapped).alias(name)


def csv_table(lazy: LazyFrame) -> LazyFrame:
    """Prepare a table for CSV: lists and structs become JSON, and texts and column names that look like formulas are neutralised."""
    schema = lazy.collect_schema()
    nested = [as_json(name) for name, kind in schema.items() if kind.is_nested()]
    texts = [neutral(name) for name, kind in schema.items() if kind == String]
    names = DataFrame(
        {"old": schema.names(), "new": schema.names()}, schema={"old": String, "new": String}
    ).select("old", neutral("new"))
    return lazy.with_columns(*nested, *texts).rename(dict(names.iter_rows()))
