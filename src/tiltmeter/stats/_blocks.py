"""What the resampling modules share: checking their input and keeping their memory bounded."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

BLOCK_CELLS = 2_000_000  # 16 MB of float64 weights at a time; larger blocks are no faster


def block_rows(cells_per_row: int) -> int:
    """Return how many rows of so many float64 cells to work on at a time (at least one)."""
    return max(1, BLOCK_CELLS // max(1, cells_per_row))


def checked_values(x: ArrayLike, *, ndim: int) -> NDArray[np.float64]:
    """Return `x` as a contiguous float64 array.

    Raises:
        ValueError: if it has not `ndim` axes, or holds NaN or infinity (one such item would spoil every resample).
    """
    values = np.ascontiguousarray(x, dtype=np.float64)
    if values.ndim != ndim:
        raise ValueError(f"per-item values must have {ndim} axes, not {values.ndim}")
    if not np.isfinite(values).all():
        raise ValueError("per-item values must be finite: give 0 in both the sum and the count column where an item has no value")
    return values
