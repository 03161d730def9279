"""Cosine of aligned vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["cosine"]

BLOCK_ROWS = 20_000


def cosine(first: ArrayLike, second: ArrayLike) -> pl.Series:
    """Cosine of the angle between row i of `first` and row i of `second`.

    Parameters
    ----------
    first, second
        (n, d) vectors of any length, for instance those a sentence encoder gives.

    Returns
    -------
    pl.Series
        n values in [-1, 1]; null where a vector is all zero or holds a value that is not finite.

    Raises
    ------
    ValueError
        The two are not matrices of one shape.
    """
    import numpy as np

    from tiltmeter.stats import ratio

    a, b = np.asarray(first), np.asarray(second)
    if a.ndim != 2 or a.shape != b.shape:
        raise ValueError(f"vectors of pairs must be two matrices of one shape, not {a.shape} and {b.shape}")
    found = np.empty(len(a))
    for begin in range(0, len(a), BLOCK_ROWS):  # in double precision, without a copy of everything in it
        x, y = (side[begin : begin + BLOCK_ROWS].astype(np.float64) for side in (a, b))
        x[~(np.isfinite(x) & np.isfinite(y)).all(axis=1)] = 0.0  # no direction, like a vector of zeros
        y[(x == 0.0).all(axis=1)] = 0.0
        dots = np.einsum("ij,ij->i", x, y)
        lengths = np.sqrt(np.einsum("ij,ij->i", x, x) * np.einsum("ij,ij->i", y, y))
        found[begin : begin + BLOCK_ROWS] = np.clip(ratio(dots, lengths), -1.0, 1.0)
    return pl.Series("cosine", found).fill_nan(None)
