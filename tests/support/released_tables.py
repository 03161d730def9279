"""The paper's tables of released associations, computed from the released rows."""

from __future__ import annotations

import polars as pl
from polars import DataFrame, Int64, col

from tiltmeter.study import beside


def summary(released: DataFrame) -> DataFrame:
    """Summarise each identity by count, mean, smallest and largest score, and mean and median p (Tables 2 and 14 of the paper).

    Rows judged exclusive are not associations and are excluded here, in `top` and in `by_location`.
    """
    score, p = col.score, col.p
    figures = {
        "count": pl.len().cast(Int64),
        "mean_score": score.mean(),
        "min_score": score.min(),
        "max_score": score.max(),
        "mean_p": p.mean(),
        "median_p": p.median(),
    }
    return released.filter(~col.exclusive).group_by("identity").agg(**figures).sort("identity")


def top(released: DataFrame, k: int = 10, *, each_identity: bool = False) -> DataFrame:
    """Return the `k` associations with the largest scores, overall or by identity (Tables 15 to 20); ties keep the order of the file."""
    ranked = released.filter(~col.exclusive).sort("score", descending=True, maintain_order=True)
    if not each_identity:
        return ranked.head(k)
    return ranked.sort("identity", maintain_order=True).group_by("identity", maintain_order=True).head(k)


def by_location(released: DataFrame) -> DataFrame:
    """Count the associations of every identity and location category, including cells with none: identity, context, count."""
    contexts = released.select(col.context.unique(maintain_order=True))
    cells = released.select(col.identity.unique().sort()).join(contexts, how="cross")
    counts = released.group_by("identity", "context").agg(count=(~col.exclusive).sum().cast(Int64))
    return beside(cells, counts, "identity", "context").with_columns(col.count.fill_null(0))
