"""Many tests at once: the false-discovery rate."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["benjamini_hochberg"]


def benjamini_hochberg(p: ArrayLike) -> NDArray[np.float64]:
    """Return the q-value of each p-value: the smallest false-discovery rate at which it would be reported.

    Args:
        p: p-values of one family, of any shape; NaN (no test was possible) stays NaN and does not count in the family.

    Returns:
        q-values in the shape of `p`.

    Raises:
        ValueError: if a p-value lies outside [0, 1].

    Source: Benjamini and Hochberg (1995), step-up procedure.
    """
    given = np.asarray(p, dtype=np.float64)
    q = np.full(given.shape, np.nan)
    tested = ~np.isnan(given)
    family = given[tested]
    if ((family < 0) | (family > 1)).any():
        raise ValueError("p-values must lie in [0, 1]")
    order = np.argsort(family, kind="stable")[::-1]
    ranks = np.arange(family.size, 0, -1)
    adjusted = np.empty(family.size)
    adjusted[order] = np.minimum.accumulate(family[order] * family.size / ranks)
    # Rounding may lift p * m / m an ulp above 1.
    q[tested] = np.minimum(adjusted, 1.0)
    return q
