"""The null distribution that the design itself provides: groups exchanged within items."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltmeter.stats._blocks import block_rows, checked_values

__all__ = ["swapped_totals"]

MOST_GROUPS = 4  # the number of orders grows as G!, and no design of ours compares more identities within one item


def swapped_totals(x: ArrayLike, *, draws: int, seed: int) -> NDArray[np.float64]:
    """Return totals over items after the groups of each item have been exchanged at random.

    If the model ignores the group, the answers to the G versions of an item are exchangeable, and so are the column
    blocks of `x`; this also holds for items that were given one group at random, whose other blocks are 0.
    Items are exchanged independently and all G! orders are equally likely.

    Args:
        x: (n, G, C) finite values of n items, G groups and C columns; G is 1 to 4.
        draws: D, the number of random exchanges of the whole table.
        seed: The same seed gives the same exchanges for the same n and G, whatever the columns.

    Returns:
        (D, G, C) totals.

    Raises:
        ValueError: if `x` is not finite with three axes, or has no group or more than 4.

    Source: Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses" (restricted randomisation).
    """
    values = checked_values(x, ndim=3)
    n, groups, columns = values.shape
    if not 1 <= groups <= MOST_GROUPS:
        raise ValueError(f"the groups of an item can be exchanged for 1 to {MOST_GROUPS} groups, not for {groups}")
    orders = np.array(list(permutations(range(groups))))
    # sources[h][order] is a row of G indicators: which group's block arrives at place h under that order.
    sources = np.eye(groups)[orders].transpose(1, 0, 2)
    flat = values.reshape(n * groups, columns)
    generator = np.random.Generator(np.random.PCG64(seed))
    totals = np.empty((draws, groups, columns))
    rows = block_rows(n * groups)
    for begin in range(0, draws, rows):
        count = min(rows, draws - begin)
        # Drawn row by row, so that the stream does not depend on how many rows make a block.
        chosen = np.array([generator.integers(len(orders), size=n, dtype=np.uint8) for _ in range(count)])
        for place in range(groups):
            # G products of G*C columns in all, where one product for each order would need G! * G * C.
            indicators = np.take(sources[place], chosen, axis=0).reshape(count, n * groups)
            totals[begin : begin + count, place] = indicators @ flat
    return totals
