"""Elementwise arithmetic along the last axis in which "no data" is NaN and never a warning."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter.arrays import Floats, Index

ROUNDING = 1e-12
"""Values that are equal in exact arithmetic differ by this much, relatively, after sums in another order."""
CONSTANT = 1e-13
"""A variance this small beside the mean square is what rounding leaves of a constant."""


def ratio(a: ArrayLike, b: ArrayLike) -> Floats:
    """Return a / b elementwise (with broadcasting), NaN wherever b is 0 or either is NaN."""
    top, bottom = float_arrays(a, b)
    found = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=found, where=bottom != 0)
    return found


def floats(values: ArrayLike) -> Floats:
    """Return the values as an array of float64."""
    return np.asarray(values, dtype=np.float64)


def count_present(values: Floats) -> Index:
    """Return how many of (..., n) values are not NaN."""
    return np.asarray((~np.isnan(values)).sum(axis=-1))


def float_arrays(*values: ArrayLike) -> tuple[Floats, ...]:
    """Return the values as float arrays of one shape."""
    return tuple(np.broadcast_arrays(*map(floats, values)))


def nan_mean(*arrays: ArrayLike) -> Floats:
    """Return the elementwise mean over the given arrays (of one shape, or broadcast), skipping NaN.

    Where every array is NaN the mean is NaN.
    """
    return mean_present(np.stack(float_arrays(*arrays), axis=-1))


def mean_present(values: Floats) -> Floats:
    """Return the mean of (..., n) values, skipping NaN."""
    present = ~np.isnan(values)
    return ratio(np.where(present, values, 0.0).sum(axis=-1), present.sum(axis=-1))


def sorted_quantile(ordered: Floats, count: Floats | Index, share: float) -> Floats:
    """Return a quantile of (..., n) sorted values of which the first `count` are present (linear interpolation, type 7)."""
    if not ordered.shape[-1]:
        return np.full(ordered.shape[:-1], np.nan)
    last = np.maximum(count - 1.0, 0.0)
    place = last * share
    low = np.floor(place).astype(np.intp)
    high = np.minimum(low + 1, last.astype(np.intp))
    below, above = (np.take_along_axis(ordered, at[..., None], axis=-1)[..., 0] for at in (low, high))
    return below + (above - below) * (place - low)
