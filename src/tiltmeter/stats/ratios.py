"""Elementwise arithmetic in which "no data" is NaN and never a warning."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["nan_mean", "pearson_from_sums", "ratio"]

# A variance this small beside the mean square is what rounding leaves of a constant.
CONSTANT = 1e-13


def ratio(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Return a / b elementwise (with broadcasting), NaN wherever b is 0 or either is NaN."""
    top, bottom = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    out = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=out, where=bottom != 0)
    return out


def nan_mean(*arrays: ArrayLike) -> NDArray[np.float64]:
    """Return the elementwise mean over the given arrays (of one shape, or broadcast), skipping NaN.

    Where every array is NaN the mean is NaN.

    Raises:
        ValueError: if no array is given.
    """
    if not arrays:
        raise ValueError("nan_mean needs at least one array")
    stacked = np.stack(np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in arrays)))
    present = ~np.isnan(stacked)
    return ratio(np.where(present, stacked, 0.0).sum(axis=0), present.sum(axis=0))


def pearson_from_sums(n: ArrayLike, sx: ArrayLike, sy: ArrayLike, sxx: ArrayLike, sxy: ArrayLike, syy: ArrayLike) -> NDArray[np.float64]:
    """Return Pearson's r from the (weighted) count and the sums of x, y, x*x, x*y and y*y, over any leading axes.

    NaN where either variable does not vary, or n is 0. Clipped to [-1, 1] against rounding.
    """
    sums = (np.asarray(v, dtype=np.float64) for v in (n, sx, sy, sxx, sxy, syy))
    n, sx, sy, sxx, sxy, syy = np.broadcast_arrays(*sums)
    mx, my = ratio(sx, n), ratio(sy, n)
    vx, vy, cov = ratio(sxx, n) - mx * mx, ratio(syy, n) - my * my, ratio(sxy, n) - mx * my
    varies = (vx > CONSTANT * ratio(sxx, n)) & (vy > CONSTANT * ratio(syy, n))
    spread = np.sqrt(np.where(varies, vx, 0.0)) * np.sqrt(np.where(varies, vy, 0.0))
    return np.clip(ratio(cov, spread), -1.0, 1.0)
