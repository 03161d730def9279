"""Elementwise arithmetic, and reductions over the last axis.

Missing values are NaN and raise no warning.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter._arrays import Floats, Index

ROUNDING = 1e-12
"""Relative tolerance for values that are equal in exact arithmetic but were summed in a different order."""
CONSTANT = 1e-13
"""A variance below this share of the mean square is rounding error of a constant."""


def ratio(a: ArrayLike, b: ArrayLike) -> Floats:
    """Divide a by b elementwise, with broadcasting; NaN where b is 0 or either is NaN."""
    top, bottom = float_arrays(a, b)
    quotients = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=quotients, where=bottom != 0)
    return quotients


def floats(values: ArrayLike) -> Floats:
    """Convert the values to a float64 array."""
    return np.asarray(values, dtype=np.float64)


def count_present(values: Floats) -> Index:
    """Count the values of (..., n) that are not NaN, over the last axis."""
    return np.asarray((~np.isnan(values)).sum(axis=-1))


def float_arrays(*values: ArrayLike) -> tuple[Floats, ...]:
    """Convert the values to float64 arrays and broadcast them to one shape."""
    return tuple(np.broadcast_arrays(*map(floats, values)))


def nan_mean(*arrays: ArrayLike) -> Floats:
    """Compute the elementwise mean of arrays, broadcast to one shape and skipping NaN.

    NaN where all are NaN.
    """
    return mean_present(np.stack(float_arrays(*arrays), axis=-1))


def mean_present(values: Floats) -> Floats:
    """Compute the mean of (..., n) values over the last axis, skipping NaN; NaN where all are NaN."""
    present = ~np.isnan(values)
    return ratio(np.where(present, values, 0.0).sum(axis=-1), present.sum(axis=-1))


def sorted_quantile(ordered: Floats, count: Floats | Index, share: float) -> Floats:
    """Compute a quantile of (..., n) sorted values of which the first `count` (...) are present.

    Linear interpolation, type 7 of Hyndman and Fan (1996), "Sample quantiles in statistical packages".
    """
    if not ordered.shape[-1]:
        return np.full(ordered.shape[:-1], np.nan)
    last = np.maximum(count - 1.0, 0.0)
    place = last * share
    low = np.floor(place).astype(np.intp)
    high = np.minimum(low + 1, last.astype(np.intp))
    below = np.take_along_axis(ordered, low[..., None], axis=-1)[..., 0]
    above = np.take_along_axis(ordered, high[..., None], axis=-1)[..., 0]
    return below + (above - below) * (place - low)
