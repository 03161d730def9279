"""Released BADF results: read, summarised as in the paper's tables, and analysed again with the counts behind them.

The published files hold one row per association: location category, identity, phrase, distinctiveness score, p-value of the
chi-squared test, and the judge's answer whether the phrase is exclusive to the identity.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tiltmeter.associations.released._reanalysis import FACTS, LEVEL, MINIMUM, RULES, Families, Reanalysis, reanalyse
from tiltmeter.associations.released._recovered import read_counts
from tiltmeter.associations.released._rows import ROW, demand, no_repeats, numbers, place, read_rows
from tiltmeter.errors import InputError

__all__ = [
    "FACTS",
    "LEVEL",
    "MINIMUM",
    "RELEASED",
    "RULES",
    "Families",
    "Reanalysis",
    "by_location",
    "read_counts",
    "read_released",
    "reanalyse",
    "summary",
    "top",
]

RELEASED = {
    "context": pl.String,  # location category
    "identity": pl.String,
    "concept": pl.String,
    "score": pl.Float64,  # distinctiveness, as executed in the released code
    "p": pl.Float64,  # chi-squared, one per concept and location category
    "exclusive": pl.Boolean,  # the judge said that the concept belongs to the identity alone: no association
}
"""Columns of a released table."""

_COLUMNS = {
    "Location Category": "context",
    "Demographic Identity": "identity",
    "Phrase": "concept",
    "Score": "score",
    "P-Value": "p",
    "Prompt Response": "exclusive",
}


def read_released(path: Path) -> pl.DataFrame:
    """The associations of a released file, in its order, with the columns RELEASED.

    Raises
    ------
    InputError
        A column is missing, a name is empty, a score is negative, a p-value lies outside [0, 1], an answer is neither YES nor NO,
        or an association stands twice; file, row and column are named.
    """
    table = read_rows(path)
    demand(path, table, _COLUMNS)
    for column in ("Location Category", "Demographic Identity", "Phrase"):
        empty = table.filter(pl.col(column).str.strip_chars() == "")
        if not empty.is_empty():
            raise InputError(f"{place(path, empty[ROW][0], column)} is empty")
    answers = table["Prompt Response"].str.strip_chars().str.to_uppercase()
    odd = table.filter(~answers.is_in(["YES", "NO"]))
    if not odd.is_empty():
        raise InputError(f"{place(path, odd[ROW][0], 'Prompt Response')}: {odd['Prompt Response'][0]!r} is neither YES nor NO")
    no_repeats(path, table, ["Location Category", "Demographic Identity", "Phrase"])
    read = table.with_columns(
        numbers(path, table, "Score", low=0, high=float("inf")),
        numbers(path, table, "P-Value", low=0, high=1),
        (answers == "YES").alias("Prompt Response"),
    )
    return read.select(pl.col(old).alias(new) for old, new in _COLUMNS.items())


def associations(released: pl.DataFrame) -> pl.DataFrame:
    """The rows that are associations: those whose concept was not judged exclusive to the identity."""
    return released.filter(~pl.col("exclusive"))


def summary(released: pl.DataFrame) -> pl.DataFrame:
    """Per identity: count, mean, least and greatest score, mean and median p (the paper's Tables 2 and 14).

    Rows judged exclusive are no associations and do not count, here and in `top` and `by_location`.
    """
    score, p = pl.col("score"), pl.col("p")
    return (
        associations(released)
        .group_by("identity")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            score.mean().alias("mean_score"),
            score.min().alias("min_score"),
            score.max().alias("max_score"),
            p.mean().alias("mean_p"),
            p.median().alias("median_p"),
        )
        .sort("identity")
    )


def top(released: pl.DataFrame, k: int = 10, *, each_identity: bool = False) -> pl.DataFrame:
    """The `k` associations of greatest score, overall or of each identity (Tables 15 to 20); equal scores in the order of the file."""
    ranked = associations(released).sort("score", descending=True, maintain_order=True)
    return (
        ranked.sort("identity", maintain_order=True).group_by("identity", maintain_order=True).head(k) if each_identity else ranked.head(k)
    )


def by_location(released: pl.DataFrame) -> pl.DataFrame:
    """Number of associations of each identity and location category, cells without any included: identity, context, count."""
    kept = associations(released)
    cells = released.select(pl.col("identity").unique().sort()).join(
        released.select(pl.col("context").unique(maintain_order=True)), how="cross"
    )
    counts = kept.group_by("identity", "context").agg(pl.len().cast(pl.Int64).alias("count"))
    return cells.join(counts, on=["identity", "context"], how="left", maintain_order="left").with_columns(pl.col("count").fill_null(0))
