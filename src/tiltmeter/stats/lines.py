"""Least-squares lines y ~ a*s + b for a rate against a score, with a in [-1, 1] and b in [0, 1], from sums.

Everything takes the (weighted) count n and the sums of s, y, s*s, s*y (and y*y), as arrays of one shape or scalars, so that
the slopes of a thousand resamples are found at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltmeter.stats.ratios import CONSTANT, ratio

__all__ = ["box_line_slope", "lsq_linear_slope"]

SLOPE = (-1.0, 1.0)
INTERCEPT = (0.0, 1.0)
# Sums carry rounding that the data do not: a line that leaves the box by less than this touches its edge.
TOUCH = 1e-11

_Array = NDArray[np.float64]


def box_line_slope(n: ArrayLike, sx: ArrayLike, sy: ArrayLike, sxx: ArrayLike, sxy: ArrayLike) -> _Array:
    """Return the slope of the exact least-squares line within the box a in [-1, 1], b in [0, 1].

    The squared error is convex: if the unbounded line lies inside the box it is the answer, otherwise the best point of
    the four edges is, and along an edge the best point is the edge's own optimum clipped to its ends.

    Returns:
        Slopes in the broadcast shape; NaN where n is 0 or s does not vary (any slope would fit).
    """
    n, sx, sy, sxx, sxy = _arrays(n, sx, sy, sxx, sxy)
    slope, intercept = _unbounded(n, sx, sy, sxx, sxy)
    edges_a, edges_b = [], []
    for end in SLOPE:
        edges_a.append(np.full(slope.shape, end))
        edges_b.append(np.clip(ratio(sy - end * sx, n), *INTERCEPT))
    for end in INTERCEPT:
        edges_a.append(np.clip(ratio(sxy - end * sx, sxx), *SLOPE))
        edges_b.append(np.full(slope.shape, end))
    a, b = np.stack(edges_a), np.stack(edges_b)
    # Excess squared error over the unbounded line, as a sum of squares: no cancellation of large sums.
    da, db = a - slope, b - intercept
    mean = ratio(sx, n)
    excess = (da * mean + db) ** 2 + da * da * (ratio(sxx, n) - mean * mean)
    best = np.argmin(np.where(np.isnan(excess), np.inf, excess), axis=0)
    bounded = np.take_along_axis(a, best[None, ...], axis=0)[0]
    return np.where(np.isnan(slope), np.nan, np.where(_inside(slope, intercept), np.clip(slope, *SLOPE), bounded))


def lsq_linear_slope(n: ArrayLike, sx: ArrayLike, sy: ArrayLike, sxx: ArrayLike, sxy: ArrayLike, syy: ArrayLike) -> _Array:
    """Return the slope that `scipy.optimize.lsq_linear` finds on the rows behind the sums, with the same bounds.

    It returns the unbounded line if that lies inside the bounds, else the end of an interior search that stops about 1e-6
    short of the edge. The search sees the rows only through inner products, so three rows with the same inner products
    (a square root of the 3 x 3 matrix of all sums) send it along the same path. Where the unbounded line touches an edge
    exactly (every y is 1, say) SciPy's answer hangs on the last bit of its rounding; then the unbounded slope is returned.

    Returns:
        Slopes in the broadcast shape; NaN where n is 0 or s does not vary.
    """
    n, sx, sy, sxx, sxy, syy = _arrays(n, sx, sy, sxx, sxy, syy)
    slope, intercept = _unbounded(n, sx, sy, sxx, sxy)
    result = slope.copy()
    outside = ~np.isnan(slope) & ~_inside(slope, intercept)
    if outside.any():
        grams = np.stack([sxx, sx, sxy, sx, n, sy, sxy, sy, syy], axis=-1)[outside].reshape(-1, 3, 3)
        result[outside] = _interior_search(grams)
    return result


def _interior_search(grams: _Array) -> _Array:
    """Return lsq_linear's slope for each (3, 3) matrix of inner products of the columns s, 1, y."""
    from scipy.optimize import lsq_linear

    # Rows of sqrt(values) * vectors.T have the Gram matrix back as their inner products, singular or not.
    values, vectors = np.linalg.eigh(grams)
    rows = np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.transpose(0, 2, 1)
    bounds = ([SLOPE[0], INTERCEPT[0]], [SLOPE[1], INTERCEPT[1]])
    return np.array([lsq_linear(row[:, :2], row[:, 2], bounds=bounds).x[0] for row in rows])


def _unbounded(n: _Array, sx: _Array, sy: _Array, sxx: _Array, sxy: _Array) -> tuple[_Array, _Array]:
    """Return slope and intercept of the ordinary least-squares line, from centred moments."""
    mx, my = ratio(sx, n), ratio(sy, n)
    mean_square = ratio(sxx, n)
    variance = mean_square - mx * mx
    slope = ratio(ratio(sxy, n) - mx * my, np.where(variance > CONSTANT * mean_square, variance, 0.0))
    return slope, my - slope * mx


def _inside(slope: _Array, intercept: _Array) -> NDArray[np.bool_]:
    within_slope = (slope >= SLOPE[0] - TOUCH) & (slope <= SLOPE[1] + TOUCH)
    return within_slope & (intercept >= INTERCEPT[0] - TOUCH) & (intercept <= INTERCEPT[1] + TOUCH)


def _arrays(*values: ArrayLike) -> tuple[_Array, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in values)))
