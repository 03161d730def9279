"""Totals of groups after random permutations of their values."""

from __future__ import annotations

import math
from itertools import combinations, permutations
from typing import Final

import numpy as np

from tiltmeter._arrays import Floats
from tiltmeter.stats._resampling import blocks_of

MOST_ARRANGEMENTS: Final = 1000
"""Largest number of arrangements of a set that are counted instead of drawn set by set."""


def permuted_within(values: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return totals, shape (draws, groups, columns), after permuting the groups of each item at random.

    Sets with the same values are permuted together: how many of them have each arrangement is multinomial.

    Parameters
    ----------
    values
        (items, groups, columns) values of matched sets; the last column is 0 where a set lacks a group.
    """
    groups, columns = values.shape[1:]
    totals = np.zeros((draws, groups, columns))
    if not len(values):
        return totals
    rare = []
    patterns, counts = np.unique(values.reshape(len(values), -1), axis=0, return_counts=True)
    for pattern, count in zip(patterns.reshape(-1, groups, columns), counts.tolist(), strict=True):
        arranged = _arrangements(pattern, most=min(MOST_ARRANGEMENTS, count * groups))
        if arranged is None:
            rare.append(np.repeat(pattern[None], count, axis=0))
            continue
        distinct, multiplicity = np.unique(arranged.reshape(len(arranged), -1), axis=0, return_counts=True)
        chances = multiplicity / multiplicity.sum()
        numbers = generator.multinomial(count, chances, size=draws)
        totals += (numbers @ distinct).reshape(totals.shape)
    if rare:
        totals += _permuted_one_by_one(np.concatenate(rare), draws, generator)
    return totals


def _arrangements(pattern: Floats, most: int) -> Floats | None:
    """Return equally likely arrangements of the values of a set, shape (arrangements, groups, columns).

    None if there are more than `most`. With two different values, as for one yes or no of each group, an
    arrangement is the choice of the groups that have the second.

    Parameters
    ----------
    pattern
        (groups, columns) values of the set.
    """
    present = np.flatnonzero(pattern[:, -1] > 0)
    kinds, kind_of_group = np.unique(pattern[present], axis=0, return_inverse=True)
    if len(kinds) > 2:
        if math.factorial(len(present)) > most:
            return None
        arranged = np.tile(pattern, (math.factorial(len(present)), 1, 1))
        arranged[:, present] = pattern[np.array(list(permutations(present.tolist())))]
        return arranged
    size = int(kind_of_group.sum())
    if math.comb(len(present), size) > most:
        return None
    chosen = np.array(list(combinations(present.tolist(), size)), dtype=np.intp)
    arranged = np.tile(pattern, (len(chosen), 1, 1))
    arranged[:, present] = kinds[0]
    np.put_along_axis(arranged, chosen[..., None], kinds[-1], axis=1)
    return arranged


def _permuted_one_by_one(values: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return the totals of `permuted_within`, with the order of each set drawn by itself."""
    items, groups, columns = values.shape
    sizes = values[..., -1]
    if columns == 2 and (sizes == sizes[:, :1]).all():
        return _permuted_sums(values, draws, generator)
    is_present = sizes > 0
    totals = np.empty((draws, groups, columns))
    places = np.argsort(~is_present, axis=1, kind="stable")  # the groups of each set come first
    for block in blocks_of(draws, items * groups):
        keys = generator.random((len(block), items, groups), dtype=np.float32)
        keys[:, ~is_present] = 2.0
        order = np.argsort(keys, axis=2)
        group_at = np.empty_like(order)
        np.put_along_axis(group_at, np.broadcast_to(places, order.shape), order, axis=2)
        for column in range(columns):
            of_column = np.broadcast_to(values[..., column], order.shape)
            permuted = np.take_along_axis(of_column, group_at, axis=2)
            totals[block.start : block.stop, :, column] = permuted.sum(axis=1)
    return totals


def _permuted_sums(values: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return the totals of `permuted_within` where all groups of a set have the same size.

    The sizes then stay where they are, and only the sums are permuted.
    """
    items, groups, columns = values.shape
    totals = np.empty((draws, groups, columns))
    totals[..., 1] = values[..., 1].sum(axis=0)
    for block in blocks_of(draws, items * groups):
        sums = np.broadcast_to(values[..., 0], (len(block), items, groups)).copy()
        generator.permuted(sums, axis=2, out=sums)
        totals[block.start : block.stop, :, 0] = sums.sum(axis=1)
    return totals


def permuted_between(values: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return totals, shape (draws, groups, columns), after permuting items with one group each.

    How many of the items with the same values are in each group is hypergeometric.

    Parameters
    ----------
    values
        (items, groups, columns) values; the last column is 0 except in the group of an item.
    """
    items, groups, columns = values.shape
    totals = np.zeros((draws, groups, columns))
    if not items:
        return totals
    group = np.argmax(values[..., -1] > 0, axis=1)
    patterns, counts = np.unique(values[np.arange(items), group], axis=0, return_counts=True)
    vacant = np.tile(np.bincount(group, minlength=groups), (draws, 1))
    for pattern, count in zip(patterns, counts.tolist(), strict=True):
        unassigned = np.full(draws, count)
        for number in range(groups):
            elsewhere = vacant[:, number + 1 :].sum(axis=1)
            assigned = generator.hypergeometric(vacant[:, number], elsewhere, unassigned)
            totals[:, number] += assigned[:, None] * pattern
            vacant[:, number] -= assigned
            unassigned -= assigned
    return totals
