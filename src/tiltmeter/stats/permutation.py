"""The null distribution that the design itself provides: groups exchanged within items."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltmeter.stats._blocks import block_rows, checked_values

__all__ = ["permuted_independence_p", "swapped_totals"]

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
        (D, G, C) totals, exact where all values are whole numbers.

    Raises:
        ValueError: if `x` is not finite with three axes, or has no group or more than 4.

    Source: Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses" (restricted randomisation).
    """
    values = checked_values(x, ndim=3)
    n, groups, columns = values.shape
    if not 1 <= groups <= MOST_GROUPS:
        raise ValueError(f"the groups of an item can be exchanged for 1 to {MOST_GROUPS} groups, not for {groups}")
    orders = np.array(list(permutations(range(groups))))
    # What is exchanged is how much each group has more than the last one; sources[h][order] is a row of G - 1 indicators:
    # which of these blocks arrives at place h under that order (none where the last group's does).
    sources = np.eye(groups)[orders].transpose(1, 0, 2)[:, :, :-1]
    last = values[:, -1].sum(axis=0)
    more = (values[:, :-1] - values[:, -1:]).reshape(n * (groups - 1), columns)
    whole = values.sum(axis=(0, 1))
    generator = np.random.Generator(np.random.PCG64(seed))
    totals = np.empty((draws, groups, columns))
    rows = block_rows(n * groups)
    for begin in range(0, draws, rows):
        count = min(rows, draws - begin)
        # Drawn row by row, so that the stream does not depend on how many rows make a block.
        chosen = np.array([generator.integers(len(orders), size=n, dtype=np.uint8) for _ in range(count)])
        block = totals[begin : begin + count]
        for place in range(groups - 1):
            indicators = np.take(sources[place], chosen, axis=0).reshape(count, n * (groups - 1))
            block[:, place] = last + indicators @ more
        block[:, -1] = whole - block[:, :-1].sum(axis=1)
    return totals


def permuted_independence_p(a: ArrayLike, n: ArrayLike, *, draws: int = 9999, seed: int) -> float:
    """Return the p-value of the permutation test of independence for one table of k groups x (does, does not).

    The statistic is chi-squared; its distribution is that of counts dealt to the groups at random, with all margins as they are.

    Args:
        a: (k,) how many of each group do; 0 <= a <= n.
        n: (k,) sizes of the groups.
        draws: The number of random deals; no p-value is below 1 / (draws + 1).
        seed: The same seed gives the same deals.

    Source: Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses".
    """
    does, size = np.asarray(a, dtype=np.int64), np.asarray(n, dtype=np.int64)
    does, size = does[size > 0], size[size > 0]
    generator = np.random.Generator(np.random.PCG64(seed))
    dealt = generator.multivariate_hypergeometric(size, int(does.sum()), size=draws, method="marginals")
    # With fixed margins chi-squared rises with this sum; counts that are equal in exact arithmetic differ by less than a part in 10**9.
    observed = float((does**2 / size).sum())
    return float((1 + ((dealt**2 / size).sum(axis=1) >= observed * (1 - 1e-9)).sum()) / (draws + 1))
