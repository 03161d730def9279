"""The exact test of independence for several groups of one size, where the chi-squared approximation is not to be trusted."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

__all__ = ["exact_independence_p"]


def exact_independence_p(a: ArrayLike, n: ArrayLike) -> NDArray[np.float64]:
    """Return exact p-values of the test of independence for tables of k equal groups x (does, does not).

    The chance, given the margins, of counts whose chi-squared statistic is at least the observed one. Among groups of one size
    the statistic rises with the sum of squared counts, so its distribution follows from convolving (sum, sum of squares) over the
    groups: k * total steps on arrays of total**3 / 2 numbers at most for each distinct margin. Meant for small totals.

    Args:
        a: (tests, k) whole counts, 0 <= a <= n.
        n: (tests,) size of every group of a test.

    Returns:
        (tests,) p-values. For two groups they are those of Fisher's exact test, two-sided.

    Raises:
        ValueError: if a count is negative, above its size, or not whole.

    Source: Agresti (1992), "A survey of exact inference for contingency tables".
    """
    counts, size = np.asarray(a, dtype=np.int64), np.asarray(n, dtype=np.int64)
    if counts.ndim != 2 or size.shape != counts.shape[:1] or (counts != np.asarray(a)).any() or (size != np.asarray(n)).any():
        raise ValueError("a must hold whole counts of shape (tests, k), n one whole size per test")
    if ((counts < 0) | (counts > size[:, None])).any():
        raise ValueError("counts must lie between 0 and the size of their group")
    # What does and what does not are alike: the rarer of the two makes the shorter convolution.
    rarer = np.where((2 * counts.sum(axis=1) > counts.shape[1] * size)[:, None], size[:, None] - counts, counts)
    margins, test = np.unique(np.column_stack([rarer.sum(axis=1), size]), axis=0, return_inverse=True)
    squares = (rarer * rarer).sum(axis=1)
    p = np.empty(len(counts))
    for index, (total, of) in enumerate(margins.tolist()):
        mine = test.ravel() == index
        tail = np.cumsum(_square_sums(total, of, counts.shape[1])[::-1])[::-1]
        p[mine] = tail[squares[mine]] / tail[0]
    return np.minimum(p, 1.0)


def _square_sums(total: int, size: int, groups: int) -> NDArray[np.float64]:
    """Relative chance of each sum of squares (total**2 + 1,) of `groups` counts that add up to `total`."""
    ways = np.arange(min(total, size) + 1)
    log = gammaln(size + 1.0) - gammaln(ways + 1.0) - gammaln(size - ways + 1.0)
    weight = np.exp(log - log.max())
    chance = np.zeros((total + 1, total * total + 1))
    chance[0, 0] = 1.0
    for _ in range(groups):
        grown = np.zeros_like(chance)
        for count, share in enumerate(weight):
            grown[count:, count * count :] += share * chance[: total + 1 - count, : total * total + 1 - count * count]
        chance = grown / grown.max()
    whole: NDArray[np.float64] = chance[total]
    return whole
