"""Small pieces probes share: counts per item, means over cells, lettered options, yes/no rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter import stats
from tiltmeter.probes._analysis import Sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LETTERS", "labels_of_letters", "letter_of", "mean_columns", "mean_of", "per_item", "reading", "share", "spread"]

LETTERS = "abcde"


def reading(labels: pl.Series, answers: pl.Series) -> pl.DataFrame:
    """Outcome and label of a strict reader: a text without a label is unreadable, no text at all is empty."""
    frame = pl.DataFrame({"label": labels.cast(pl.String), "answer": answers})
    blank = pl.col("answer").fill_null("").str.strip_chars() == ""
    outcome = (
        pl.when(pl.col("label").is_not_null()).then(pl.lit("answered")).when(blank).then(pl.lit("empty")).otherwise(pl.lit("unreadable"))
    )
    return frame.select(outcome=outcome, label="label")


def per_item(attempts: pl.DataFrame, sums: Mapping[str, pl.Expr], *factors: str) -> pl.DataFrame:
    """One row per item: the sum of each expression over its attempts (null counts as 0), and the item's own factors."""
    return attempts.group_by("item", maintain_order=True).agg(
        *(value.cast(pl.Float64).fill_null(0.0).sum().alias(name) for name, value in sums.items()), pl.col(factors).first()
    )


def share(part: str, *others: str) -> pl.Expr:
    """part / (part + others) of an item's counts; null where there are none."""
    total = pl.sum_horizontal(part, *others)
    return pl.when(total > 0).then(pl.col(part) / total)


def mean_columns(value: pl.Expr, cells: Mapping[str, pl.Expr]) -> dict[str, pl.Expr]:
    """Columns "sum_CELL" and "n_CELL" whose ratio is the mean of `value` (null skipped) over the items of each cell."""
    known = value.is_not_null()
    return {f"sum_{c}": pl.when(where).then(value).fill_null(0.0) for c, where in cells.items()} | {
        f"n_{c}": (where & known).fill_null(False).cast(pl.Float64) for c, where in cells.items()
    }


def mean_of(s: Sums, cell: str) -> NDArray[np.float64]:
    """The mean over the items of a cell made by `mean_columns`; NaN where it is empty."""
    return stats.ratio(s[f"sum_{cell}"], s[f"n_{cell}"])


def spread(rates: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The greatest absolute difference between two of the rates; NaN where one is NaN."""
    import numpy as np

    stacked = np.stack(list(rates))
    return np.asarray(stacked.max(axis=0) - stacked.min(axis=0))


def letter_of(label: str, options: str = "options", count: int = 3) -> pl.Expr:
    """The letter under which `label` stands in the list column `options` (null where it does not)."""
    chain = pl.lit(None, dtype=pl.String)
    for i in reversed(range(count)):
        chain = pl.when(pl.col(options).list.get(i, null_on_oob=True) == label).then(pl.lit(LETTERS[i])).otherwise(chain)
    return chain


def labels_of_letters(letters: pl.Series, options: pl.Series) -> pl.Series:
    """The options' labels at the chosen letters (null stays null)."""
    frame = pl.DataFrame({"letter": letters, "options": options})
    place = pl.col("letter").replace_strict({letter: i for i, letter in enumerate(LETTERS)}, default=None, return_dtype=pl.Int32)
    return frame.select(pl.col("options").list.get(place, null_on_oob=True))["options"]
