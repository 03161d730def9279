"""Greedy leader clustering in blocks.

Candidates come in order. Each joins the most similar leader so far that reaches the threshold and whose cluster it may enter, or becomes
a leader itself; leaders stay leaders. The result is that of the plain loop, whatever the block size; memory holds one block of products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiltmeter.associations.unifying._guards import conflict
from tiltmeter.associations.unifying._pairs import Vectors

__all__ = ["follow_leaders"]

_BLOCK = 512
_CHUNK = 4096

Roots = Mapping[int, frozenset[int]]


class _Nearest(NamedTuple):
    """For each row of a block its most similar leader, and for the rows with roots every leader in reach."""

    product: NDArray[np.float32]
    leader: NDArray[np.int64]
    in_reach: dict[int, list[tuple[float, int]]]


class _Leaders:
    """Vectors of the leaders so far, in chunks, in the order in which they became leaders."""

    def __init__(self, dimensions: int, threshold: float, rows: int) -> None:
        self._dimensions, self._threshold = dimensions, threshold
        self._chunks: list[Vectors] = []
        self._products = np.empty((min(_BLOCK, rows), min(_CHUNK, rows)), dtype=np.float32)
        self._size = min(_CHUNK, rows)
        self._ids, self._count = np.empty(rows, dtype=np.int64), 0

    def add(self, ids: NDArray[np.int64], rows: Vectors) -> None:
        while ids.size:
            place = self._count % self._size
            if place == 0:
                self._chunks.append(np.empty((self._size, self._dimensions), dtype=np.float32))
            fitting = min(self._size - place, ids.size)
            self._chunks[-1][place : place + fitting] = rows[:fitting]
            self._ids[self._count : self._count + fitting] = ids[:fitting]
            self._count += fitting
            ids, rows = ids[fitting:], rows[fitting:]

    def nearest(self, rows: Vectors, rooted: NDArray[np.int64]) -> _Nearest:
        ids = self._ids[: self._count]
        found = _Nearest(np.full(len(rows), -np.inf, dtype=np.float32), np.full(len(rows), -1), {int(row): [] for row in rooted})
        every = np.arange(len(rows))
        for number, chunk in enumerate(self._chunks):
            begin = number * self._size
            filled = chunk[: ids.size - begin]
            products = np.matmul(rows, filled.T, out=self._products[: len(rows), : len(filled)])
            place = products.argmax(axis=1)
            product = products[every, place]
            better = product > found.product  # of equals the first leader stays
            found.product[better] = product[better]
            found.leader[better] = ids[begin + place[better]]
            if rooted.size:
                mine = products[rooted]
                for row, column in np.argwhere(mine >= self._threshold).tolist():
                    found.in_reach[int(rooted[row])].append((float(mine[row, column]), int(ids[begin + column])))
        return found


def follow_leaders(vectors: Vectors, threshold: float, roots: Roots) -> NDArray[np.int64]:
    """The leader's row for each row; a leader has its own.

    Parameters
    ----------
    vectors
        Exact vectors of the candidates, in order; shape (candidates, dimensions).
    threshold
        As `_pairs.lowest` gives it.
    roots
        Signed roots of the candidates that have any; no cluster may hold a root and its negation.
    """
    count = len(vectors)
    chosen = np.full(count, -1, dtype=np.int64)
    known = _Leaders(vectors.shape[1], threshold, count)
    inside: dict[int, set[int]] = {}
    for start in range(0, count, _BLOCK):
        rows = vectors[start : start + _BLOCK]
        rooted = np.array([row for row in range(len(rows)) if start + row in roots], dtype=np.int64)
        nearest = known.nearest(rows, rooted)
        mine = _within(rows, start, threshold, nearest, roots, inside)
        chosen[start : start + len(rows)] = mine
        fresh = np.flatnonzero(mine == np.arange(start, start + len(rows)))
        known.add(start + fresh, rows[fresh])
    return chosen


def _within(rows: Vectors, start: int, threshold: float, nearest: _Nearest, roots: Roots, inside: dict[int, set[int]]) -> NDArray[np.int64]:
    """Leaders of the rows of one block; `inside` holds the roots within each cluster and grows."""
    covered = nearest.product >= threshold
    chosen = np.where(covered, nearest.leader, -1)
    rooted = np.zeros(len(rows), dtype=bool)
    rooted[list(nearest.in_reach)] = True
    fresh = _fresh(rows, start, threshold, np.flatnonzero(~covered | rooted), nearest, chosen, roots, inside)
    leads = np.zeros(len(rows), dtype=bool)
    leads[fresh] = True
    later = np.flatnonzero(~rooted & ~leads)
    if fresh.size and later.size:
        products = rows[later] @ rows[fresh].T
        products[fresh[None, :] > later[:, None]] = -np.inf
        place = products.argmax(axis=1)
        product = products[np.arange(later.size), place]
        better = (product >= threshold) & (product > nearest.product[later])
        chosen[later[better]] = start + fresh[place[better]]
    return chosen


def _fresh(
    rows: Vectors,
    start: int,
    threshold: float,
    undecided: NDArray[np.int64],
    nearest: _Nearest,
    chosen: NDArray[np.int64],
    roots: Roots,
    inside: dict[int, set[int]],
) -> NDArray[np.int64]:
    """The rows of a block that become leaders; `chosen` is filled in for them and for the rows with roots."""
    products = rows[undecided] @ rows[undecided].T
    near = products >= threshold
    covered = np.zeros(undecided.size, dtype=bool)
    leads = np.zeros(undecided.size, dtype=bool)
    for place, row in enumerate(undecided.tolist()):
        if (reach := nearest.in_reach.get(row)) is not None:
            close = np.flatnonzero(near[place] & leads)
            mine = zip(products[place, close].tolist(), (start + undecided[close]).tolist(), strict=True)
            chosen[row] = _home([*reach, *mine], start + row, roots[start + row], inside)
            if chosen[row] != start + row:
                continue
        elif covered[place]:
            continue
        leads[place], chosen[row] = True, start + row
        covered |= near[place]
    return undecided[leads]


def _home(close: list[tuple[float, int]], own: int, roots: frozenset[int], inside: dict[int, set[int]]) -> int:
    """The most similar leader whose cluster holds no negation of the roots, or the row itself."""
    allowed = (leader for _, leader in sorted(close, key=lambda one: (-one[0], one[1])) if not conflict(roots, inside.get(leader, ())))
    leader = next(allowed, own)
    inside.setdefault(leader, set()).update(roots)
    return leader
