"""The texts to be measured: each distinct one once, and where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Given", "gather"]


class Given(NamedTuple):
    """Texts and baselines, row by row, as numbers of distinct texts."""

    distinct: list[str]
    """In order of first appearance, texts before baselines; none is blank."""
    texts: NDArray[np.int64]
    """Shape (rows,): number of the distinct text; -1 where it is null or blank."""
    baselines: NDArray[np.int64] | None
    """The same of the baselines; None where there are none at all."""


def gather(texts: pl.Series, baselines: pl.Series | None = None) -> Given:
    """Number the distinct texts of two columns of one length.

    Raises
    ------
    ValueError
        The columns have different lengths.
    """
    if baselines is not None and len(baselines) != len(texts):
        raise ValueError(f"there are {len(baselines)} baselines for {len(texts)} texts")
    every = [texts.cast(pl.String)] if baselines is None else [texts.cast(pl.String), baselines.cast(pl.String)]
    table = pl.DataFrame({"text": pl.concat([one.alias("text") for one in every], rechunk=True)})
    table = table.with_columns(text=pl.when(pl.col("text").str.strip_chars() != "").then("text"))
    known = table.drop_nulls().unique(maintain_order=True).with_row_index("number")
    numbers = table.join(known, on="text", how="left", maintain_order="left")["number"].cast(pl.Int64).fill_null(-1).to_numpy()
    rows = len(texts)
    return Given(known["text"].to_list(), numbers[:rows], None if baselines is None else numbers[rows:])
