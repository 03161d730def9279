"""Cells of CSV files that no spreadsheet takes for a formula.

A spreadsheet evaluates a cell whose text begins with = + - @ (or their full-width forms), some even after spaces, invisible characters or
a line break. Such a text gets one apostrophe in front, which spreadsheets show as text. A text that begins with an apostrophe gets one
too, so that the rule can be undone exactly: take one leading apostrophe away wherever there is one. Numbers are left alone.
"""

from __future__ import annotations

import polars as pl

__all__ = ["as_json", "neutral", "neutral_names"]

_ACTS = r"^(?:['\t\r\n]|[\s\p{C}]*[=+\-@＝＋－＠﹢﹣−])"


def neutral(name: str) -> pl.Expr:
    """Texts of a column with an apostrophe before those that could be taken for a formula."""
    column = pl.col(name)
    return pl.when(column.str.contains(_ACTS)).then(pl.lit("'") + column).otherwise(column).alias(name)


def neutral_names(names: list[str]) -> list[str]:
    """The same for the names of columns."""
    return pl.DataFrame({"name": names}).select(neutral("name")).to_series().to_list()


def as_json(name: str) -> pl.Expr:
    """A column of lists or structs as JSON texts; null stays null, and a number that is none becomes null."""
    wrapped = pl.struct(pl.col(name).alias("v")).struct.json_encode().str.slice(len('{"v":')).str.head(-1)
    return pl.when(pl.col(name).is_not_null()).then(wrapped).alias(name)
