"""Words that say what a cluster is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["pick_theme", "words_of_clusters"]

_WORD: Final = r"\p{L}[\p{L}\p{M}]*(?:['\u2019-]\p{L}[\p{L}\p{M}]*)*"
_SHORTEST, _LONGEST = 3, 40
_REPEATED_FROM: Final = 10
"""For a cluster of so many texts a word must stand in two texts of its segment: what one text alone says is no theme."""
_NEAR: Final = 0.5
_TOP: Final = 3


def words_of_clusters(texts: Sequence[str], members: pl.DataFrame) -> pl.DataFrame:
    """Which words (lower case, at least three letters) the texts of each cluster hold.

    Parameters
    ----------
    texts
        Distinct texts.
    members
        Columns `of`, `segment`, `cluster`, `number` (of the text); one row per text of a cluster.

    Returns
    -------
    Columns `of`, `segment`, `cluster`, `words` (sorted list).
    """
    length = pl.col("word").str.len_chars()
    said = (
        pl.DataFrame({"word": texts}, schema={"word": pl.String})
        .with_row_index("number")
        .with_columns(pl.col("number").cast(pl.Int64), pl.col("word").str.to_lowercase().str.extract_all(_WORD))
        .explode("word")
        .unique()
        .filter(length.is_between(_SHORTEST, _LONGEST))
    )
    size = pl.len().over("of", "segment", "cluster")
    held = members.with_columns(texts=size).join(said, on="number")
    repeated = pl.col("number").n_unique().over("of", "segment", "word") > 1
    held = held.filter(repeated | (pl.col("texts") < _REPEATED_FROM))
    return held.group_by("of", "segment", "cluster").agg(words=pl.col("word").unique().sort())


def pick_theme(words: Sequence[str], vectors: NDArray[np.float32], centre: NDArray[np.float32], own: NDArray[np.float32]) -> list[str]:
    """Up to three words nearest to the centre by cosine, none near (0.5 or more) the segment's own name or a word taken before.

    Parameters
    ----------
    vectors
        Of the words: shape (words, dimensions); NaN where a word could not be encoded.
    own
        Vector of the segment's name; NaN where it has none.
    """
    import numpy as np

    free = np.isfinite(vectors[:, 0]) & ~(vectors @ own >= _NEAR)
    nearness = vectors @ centre
    taken: list[str] = []
    while len(taken) < _TOP and free.any():
        best = int(np.where(free, nearness, -np.inf).argmax())
        taken.append(words[best])
        free &= ~(vectors @ vectors[best] >= _NEAR)
        free[best] = False
    return taken
