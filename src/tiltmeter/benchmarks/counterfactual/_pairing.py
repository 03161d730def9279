"""Which answers are compared with which: answer i of one group with answer i of the other, prompt by prompt."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["Pairs", "Places", "check_columns", "pairs_of", "places_of", "scores_of"]

Index = NDArray[np.intp]


class Places(NamedTuple):
    """Where the answers of each prompt and group stand in the table."""

    groups: list[str]
    rows: Index
    """(U, G, K) number of the row of the k-th answer, -1 where there is none."""

    @property
    def units(self) -> int:
        """U, prompts in all."""
        return int(self.rows.shape[0])

    @property
    def answers(self) -> int:
        """K, the greatest number of answers to a prompt about one group."""
        return int(self.rows.shape[2])


class Pairs(NamedTuple):
    """The n 1:1 pairs of two groups, in order of prompt and answer."""

    names: tuple[str, str]
    a: int
    """Number of the first group."""
    b: int
    cell: Index
    """(n,) prompt * K + number of the answer."""
    first: Index
    """(n,) row of the answer about the first group."""
    second: Index
    unpaired: int
    """Answers about either group without a partner."""

    def unit(self, places: Places) -> Index:
        """(n,) prompt of each pair."""
        return self.cell // places.answers


def check_columns(table: pl.DataFrame, columns: dict[str, str | None], whole: tuple[str, ...]) -> None:
    """Raise InputError where a named column is not there, or one of `whole` (parameters) holds nulls."""
    for parameter, column in columns.items():
        if column is None:
            continue
        if column not in table.columns:
            raise InputError(f"{parameter}={column!r}: the answers have no such column: {did_you_mean(column, table.columns)}")
        if parameter in whole and (gaps := table[column].null_count()):
            raise InputError(f"{parameter}={column!r}: the column is empty in {gaps} rows; fill it in or leave the rows out")


def places_of(answers: pl.DataFrame, unit: str, group: str) -> Places:
    """The answers by prompt, group and their order in the table. Raises InputError for fewer than two groups."""
    known = answers.select(
        unit=pl.col(unit).rank("dense").cast(pl.Int64) - 1,
        group=pl.col(group).cast(pl.String),
    )
    groups = known["group"].unique(maintain_order=True).to_list()
    if len(groups) < 2:
        found = f"only {groups[0]!r}" if groups else "no rows"
        raise InputError(f"group={group!r}: the column holds {found}; answers are compared between two groups or more")
    number = pl.col("group").replace_strict(groups, list(range(len(groups))), return_dtype=pl.Int64)
    known = known.with_columns(number=number, k=pl.int_range(pl.len()).over("unit", "group"))
    u, g, k = (known[name].to_numpy() for name in ("unit", "number", "k"))
    rows = np.full((int(u.max()) + 1, len(groups), int(k.max()) + 1), -1, dtype=np.intp)
    rows[u, g, k] = np.arange(len(known))
    return Places(groups, rows)


def pairs_of(places: Places) -> list[Pairs]:
    """All pairs of groups, in the order in which the groups first appear."""
    found = []
    for a, b in combinations(range(len(places.groups)), 2):
        first, second = places.rows[:, a], places.rows[:, b]
        both = (first >= 0) & (second >= 0)
        alone = int((first >= 0).sum() + (second >= 0).sum() - 2 * both.sum())
        found.append(Pairs((places.groups[a], places.groups[b]), a, b, np.flatnonzero(both), first[both], second[both], alone))
    return found


def scores_of(answers: pl.DataFrame, column: str, parameter: str) -> NDArray[np.float64]:
    """Scores in [0, 1], NaN where missing. Raises InputError for others and for text."""
    if not answers[column].dtype.is_numeric() and answers[column].dtype != pl.Null:
        raise InputError(f"{parameter}={column!r}: expected numbers from 0 to 1, found {answers[column].dtype}")
    scores = answers[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
    wrong = scores[(scores < 0.0) | (scores > 1.0)]
    if wrong.size:
        raise InputError(f"{parameter}={column!r}: scores must lie between 0 and 1, found {wrong[0]:g}; rescale the column")
    return scores
