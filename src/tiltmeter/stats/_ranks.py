"""Ranks and rank correlations along the last axis of many samples at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EPSILON", "kendall", "order_codes", "pearson", "ranks", "spearman"]

Floats = NDArray[np.float64]
Whole = NDArray[Any]
EPSILON = float(np.finfo(np.float64).eps)


def order_codes(values: Floats) -> Whole:
    """Return whole numbers that order as the (C, N) values of each row do, equal where they are equal; NaN comes last."""
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    code = np.zeros(values.shape, dtype=np.uint32)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=-1, out=code[:, 1:])
    found = np.empty_like(code)
    np.put_along_axis(found, order, code, axis=-1)
    return found


def ranks(codes: Whole, missing: NDArray[np.bool_] | None = None) -> Whole:
    """Return twice the ranks 1, 2, ... of (..., n) codes, which is whole: ties share the mean of theirs. 0 is what is missing.

    A code and its place are one number, and so are a place and its rank, so that two plain sorts do what sorting by another array would:
    an order of magnitude faster for the short rows of a group.
    """
    n = codes.shape[-1]
    if missing is not None:
        codes = np.where(missing, codes.max(initial=0) + 1, codes)
    place_bits, rank_bits = n.bit_length(), (2 * n).bit_length()
    narrow = max(int(codes.max(initial=0)).bit_length(), rank_bits) + place_bits <= 32
    kind: Any = np.uint32 if narrow else np.uint64
    keys: Whole = codes.astype(kind) << kind(place_bits)
    keys |= np.arange(n, dtype=kind)
    keys.sort(axis=-1)
    twice = _shared(keys >> kind(place_bits))
    keys &= kind((1 << place_bits) - 1)
    keys <<= kind(rank_bits)
    keys |= twice
    keys.sort(axis=-1)
    keys &= kind((1 << rank_bits) - 1)
    if missing is not None:
        keys[missing] = 0
    return keys


def _shared(ordered: Whole) -> Whole:
    """Twice the ranks of sorted rows, ties sharing the mean of theirs."""
    n = ordered.shape[-1]
    places = np.arange(n, dtype=ordered.dtype)
    new = np.ones(ordered.shape, dtype=bool)
    np.not_equal(ordered[..., 1:], ordered[..., :-1], out=new[..., 1:])
    if new.all():
        untied: Whole = 2 * places + 2
        return untied
    first = np.maximum.accumulate(np.where(new, places, 0), axis=-1)
    ends = np.ones(ordered.shape, dtype=bool)
    ends[..., :-1] = new[..., 1:]
    last = np.minimum.accumulate(np.where(ends, places, n)[..., ::-1], axis=-1)[..., ::-1]
    found: Whole = (first + last + 2).astype(ordered.dtype)
    return found


def spearman(x: Whole, y: Whole) -> Floats:
    """Return Spearman's correlation from twice the ranks (`ranks`) of either side; NaN where one side does not vary."""
    if not (x.all() and y.all()):
        return pearson(*(np.where(side == 0, np.nan, side) for side in (x, y)))
    middle = x.shape[-1] + 1.0  # the mean of the doubled ranks, ties or none
    return _correlation(x - middle, y - middle)


def pearson(x: Floats, y: Floats) -> Floats:
    """Return Pearson's correlation of (..., n) values, of which both or neither are NaN; NaN where one side does not vary."""
    n = x.shape[-1]
    mean_x, mean_y = x.sum(axis=-1) / n, y.sum(axis=-1) / n
    if np.isfinite(mean_x).all():
        return _correlation(x - mean_x[..., None], y - mean_y[..., None], n * (EPSILON * mean_x) ** 2, n * (EPSILON * mean_y) ** 2)
    present = ~np.isnan(x)
    count = present.sum(axis=-1)
    dx, floor_x = _centred(x, present, count)
    dy, floor_y = _centred(y, present, count)
    return np.where(count > 1, _correlation(dx, dy, floor_x, floor_y), np.nan)


def _correlation(dx: Floats, dy: Floats, floor_x: Floats | float = 0.0, floor_y: Floats | float = 0.0) -> Floats:
    """Of deviations; NaN where a sum of squares is not above its floor, what rounding alone makes."""
    sxx, syy, sxy = (np.einsum("...n,...n->...", a, b) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
    varies = (sxx > floor_x) & (syy > floor_y)
    found: Floats = np.where(varies, np.clip(sxy / np.sqrt(sxx * syy), -1.0, 1.0), np.nan)
    return found


def kendall(x: Whole, y: Whole) -> Floats:
    """Return Kendall's tau-b from twice the ranks (`ranks`) of either side, of which both or neither are missing.

    NaN where one side does not vary. Every pair is looked at, one distance between places at a time: n(n-1)/2 comparisons of small
    integers, which at the sizes of a group is faster than sorting and counting inversions.
    """
    n = x.shape[-1]
    one, other = (_small(side.reshape(-1, n)) for side in (x, y))
    squares = np.stack([np.square(side, dtype=np.float64).sum(axis=-1) for side in (one, other)])
    # Sharing lowers the sum of squared ranks; a constant side, of which nothing can be told, the most.
    untied = (squares == 4 * n * (n + 1) * (2 * n + 1) / 6.0).all(axis=0)
    varies = (squares > n * (n + 1.0) ** 2).all(axis=0) | (one == 0).any(axis=-1)
    found = np.full(len(one), np.nan)
    if n > 1:
        for lanes, count in ((untied, _untied_tau), (varies & ~untied, _tied_tau)):
            if lanes.any():
                found[lanes] = count(*(np.ascontiguousarray(side[lanes].T) for side in (one, other)))
    return found.reshape(x.shape[:-1])


def _small(side: Whole) -> Whole:
    """The same numbers in the smallest type that holds them, which makes comparing them fast."""
    return side.astype(np.uint8 if 2 * side.shape[-1] <= np.iinfo(np.uint8).max else np.int32)


def _untied_tau(a: Whole, b: Whole) -> Floats:
    """Tau of (n, lanes) ranks without ties or gaps: twice the share of pairs in the same order, minus 1."""
    n = len(a)
    agreeing = np.zeros(a.shape, dtype=a.dtype)
    for step in range(1, n):
        agreeing[step:] += ((a[step:] > a[:-step]) == (b[step:] > b[:-step])).view(np.uint8)
    found: Floats = 4.0 * agreeing.sum(axis=0, dtype=np.float64) / (n * (n - 1)) - 1.0
    return found


def _tied_tau(a: Whole, b: Whole) -> Floats:
    """Tau-b of (n, lanes) ranks that may be tied or missing."""
    n = len(a)
    counter: Any = np.int8 if n <= np.iinfo(np.int8).max else np.int32
    agreeing, apart_a, apart_b = (np.zeros(a.shape, dtype=counter) for _ in range(3))
    incomplete = bool((a == 0).any())
    for step in range(1, n):
        sign_a, sign_b = _signs(a, step), _signs(b, step)
        if incomplete:
            both = (a[step:] > 0) & (a[:-step] > 0)
            sign_a *= both
            sign_b *= both
        agreeing[step:] += sign_a * sign_b
        apart_a[step:] += np.abs(sign_a)
        apart_b[step:] += np.abs(sign_b)
    total, left, right = (part.sum(axis=0, dtype=np.float64) for part in (agreeing, apart_a, apart_b))
    found: Floats = np.where((left > 0) & (right > 0), total / np.sqrt(left * right), np.nan)
    return found


def _centred(x: Floats, present: NDArray[np.bool_], count: NDArray[np.int_]) -> tuple[Floats, Floats]:
    """Deviations from the mean (0 where missing), and the sum of squares below which they are but rounding."""
    mean = np.where(present, x, 0.0).sum(axis=-1) / count
    return np.where(present, x - mean[..., None], 0.0), count * (EPSILON * mean) ** 2


def _signs(values: Whole, step: int) -> NDArray[np.int8]:
    later, earlier = values[step:], values[:-step]
    return (later > earlier).view(np.int8) - (later < earlier).view(np.int8)
