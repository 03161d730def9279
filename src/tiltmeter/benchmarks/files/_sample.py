"""A smaller benchmark of the same make-up."""

from __future__ import annotations

import polars as pl

from tiltmeter.errors import InputError

__all__ = ["sample_benchmark"]


def sample_benchmark(table: pl.DataFrame, size: int, *, seed: int = 123) -> pl.DataFrame:
    """About `size` rows, drawn by seeded lots and balanced over the concepts of the roots; the order of the table is kept.

    Roots are drawn, and every branch goes with its root, so that what is compared stays paired: the result has `size` rows where
    nothing is branched, else as many whole families as fit into `size`, at least one. A smaller sample is a subset of a larger one
    with the same seed.

    Raises
    ------
    InputError
        `size` is less than 1.
    """
    import numpy as np

    if size < 1:
        raise InputError(f"the size of a sample must be at least 1, found {size}")
    families = table.group_by("root", maintain_order=True).agg(
        pl.len().alias("rows"), pl.coalesce("branched_from", "concept").first().alias("of")
    )
    # Lots are drawn over sorted roots, so that the order of the rows in a file does not decide who is kept.
    families = families.sort("root").with_columns(lot=pl.Series(np.random.default_rng(seed).permutation(families.height)))
    turns = families.with_columns(turn=pl.col("lot").rank("ordinal").over("of")).sort("turn", "lot")
    kept = turns.filter((pl.col("rows").cum_sum() <= size) | (pl.int_range(pl.len()) == 0))
    return table.join(kept.select("root"), on="root", how="semi", maintain_order="left")
