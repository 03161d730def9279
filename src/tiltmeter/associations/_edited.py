"""Tables of an earlier run that a user looked through, mended and gives back in place of a stage."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tiltmeter._damage import UNREADABLE, csv_of, unreadable
from tiltmeter._paths import is_file
from tiltmeter.associations._tables import CONCEPTS, EXCLUSIVE, LISTS, MENTIONS, Schema
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["of", "read_concepts", "read_exclusive", "read_lists", "read_mentions"]


def read_lists(path: str) -> pl.DataFrame:
    """LISTS (and `model` and `part`, where several share the table)."""
    return _read("lists", path, LISTS, ("attempt", "character", "status"))


def read_mentions(path: str) -> pl.DataFrame:
    """MENTIONS (and `model` and `part`, likewise); a row without a phrase is an error."""
    table = _read("mentions", path, MENTIONS, ("attempt", "character", "phrase"))
    if table["phrase"].null_count():
        raise InputError(
            f"-P mentions={path}: row {table['phrase'].is_null().arg_true()[0] + 1} has no phrase; fill it in or take the row out"
        )
    return table


def read_concepts(path: str) -> pl.DataFrame:
    """CONCEPTS; a phrase may stand there once only."""
    table = _read("concepts", path, CONCEPTS, ("phrase", "concept"))
    if twice := table.filter(pl.col("phrase").is_duplicated())["phrase"].to_list():
        raise InputError(f"-P concepts={path}: the phrase {twice[0]!r} stands there more than once; give each phrase one concept")
    return table


def read_exclusive(path: str) -> pl.DataFrame:
    """EXCLUSIVE (and `model` and `part`, likewise); an empty identity means that the concept belongs to none."""
    table = _read("exclusive", path, EXCLUSIVE, ("concept", "identity"))
    filled = {"by": pl.col("by").fill_null("user"), "status": pl.col("status").fill_null("ok")}
    return table.with_columns(identity=pl.when(pl.col("identity").str.strip_chars() != "").then("identity"), **filled)


def of(table: pl.DataFrame, **whose: str) -> pl.DataFrame:
    """The rows of a table read here that are of this model or part, or do not say of which."""
    mine = (pl.col(name).is_null() | (pl.col(name) == value) for name, value in whose.items())
    return table.filter(*mine).drop("model", "part")


def _read(key: str, path: str, schema: Schema, needed: tuple[str, ...]) -> pl.DataFrame:
    place = f"-P {key}={path}"
    if not is_file(path):
        raise InputError(f"{place}: there is no such file")
    try:
        match Path(path).suffix.lower():
            case ".csv":
                table = csv_of(Path(path))
            case ".parquet":
                table = pl.read_parquet(path, glob=False)
            case other:
                raise InputError(f"{place}: unknown kind of file {other!r}; give .csv or .parquet")
        for name in needed:
            if name not in table.columns:
                raise InputError(f"{place} lacks the column {name!r} ({did_you_mean(name, table.columns)})")
        columns = {"model": pl.String, "part": pl.String, **schema}
        return table.select((pl.col(n) if n in table.columns else pl.lit(None)).cast(kind).alias(n) for n, kind in columns.items())
    except UNREADABLE as error:
        raise InputError(f"{place} cannot be read: {unreadable(Path(path), error)}") from error
