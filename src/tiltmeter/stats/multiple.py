"""Many tests at once: the false-discovery rate."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["benjamini_hochberg"]


def benjamini_hochberg(p: ArrayLike, axis: int | None = None) -> NDArray[np.float64]:
    """Return the q-value of each p-value: the smallest false-discovery rate at which it would be reported.

    Args:
        p: p-values, of any shape; NaN (no test was possible) stays NaN and does not count in its family.
        axis: Along which a family lies; None: all are one family.

    Returns:
        q-values in the shape of `p`.

    Raises:
        ValueError: if a p-value lies outside [0, 1].

    Source: Benjamini and Hochberg (1995), step-up procedure.
    """
    given = np.asarray(p, dtype=np.float64)
    if ((given < 0) | (given > 1)).any():
        raise ValueError("p-values must lie in [0, 1]")
    families = given.reshape(-1) if axis is None else np.moveaxis(given, axis, -1)
    order = np.argsort(families, axis=-1)  # NaN comes last
    size = (~np.isnan(families)).sum(axis=-1, keepdims=True)
    ranked = np.take_along_axis(families, order, axis=-1) * size / np.arange(1, families.shape[-1] + 1)
    # Rounding may lift p * m / m an ulp above 1. A minimum over what is tested: fmin leaves NaN out, where there is anything else.
    adjusted = np.minimum(np.fmin.accumulate(ranked[..., ::-1], axis=-1)[..., ::-1], 1.0)
    q = np.empty(families.shape)
    np.put_along_axis(q, order, adjusted, axis=-1)
    q[np.isnan(families)] = np.nan
    return q.reshape(given.shape) if axis is None else np.moveaxis(q, -1, axis)
