"""Connected components and average linkage on the graph of pairs above the threshold, neither of which may join what the guards part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tiltmeter.associations.unifying._guards import conflict
from tiltmeter.associations.unifying._pairs import SCALE, Vectors, spanning_forest
from tiltmeter.errors import InputError

__all__ = ["MOST_IN_COMPONENT", "average_linkage", "linked_components"]

MOST_IN_COMPONENT = 10_000
"""Phrases of one component that average linkage takes: 8 * n**2 / 2 bytes of distances, 400 MB, and some ten seconds."""
_NEVER = 1e10
"""Distance of what may not be joined: its share in the mean of up to MOST_IN_COMPONENT**2 / 4 distances is still above any threshold."""

Roots = Mapping[int, frozenset[int]]


def linked_components(vectors: Vectors, threshold: float, roots: Roots) -> NDArray[np.int64]:
    """First row of the connected component of each row.

    Where a component would hold a root and its negation, its spanning tree of the strongest links is built up again from the strongest
    link down, leaving out each link that would join the two.
    """
    first, second, product = spanning_forest(vectors, threshold)
    count = len(vectors)
    labels = _components(count, first, second)
    broken = np.isin(labels, [label for label, members in _rooted(labels, roots).items() if _clash(members, roots)])
    inner = broken[first]
    named = _first_rows(labels)
    if inner.any():
        order = np.lexsort((second[inner], first[inner], -product[inner]))
        parents = _joined(zip(first[inner][order].tolist(), second[inner][order].tolist(), strict=True), count, roots)
        named[broken] = parents[broken]
    return named


def average_linkage(vectors: Vectors, threshold: float, roots: Roots) -> NDArray[np.int64]:
    """First row of the cluster of each row: agglomerative clustering by the mean similarity of all pairs, cut at the threshold.

    Two clusters whose mean reaches the threshold hold a pair that does, so each connected component is clustered by itself, with the
    true similarities of all its pairs: time and memory grow with the square of the largest component.

    Raises
    ------
    InputError
        A component has more than MOST_IN_COMPONENT phrases.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    first, second, _ = spanning_forest(vectors, threshold)
    named = np.arange(len(vectors))
    for rows in _groups(_components(len(vectors), first, second)):
        if rows.size > MOST_IN_COMPONENT:
            raise InputError(
                f"method average: {rows.size} phrases hang together at this threshold, more than the {MOST_IN_COMPONENT} "
                "that can be compared each with each; raise the threshold or use the method leader"
            )
        distance = 1.0 - (vectors[rows] @ vectors[rows].T).astype(np.float64) / SCALE**2
        distance[_opposed([roots.get(row, frozenset()) for row in rows.tolist()])] = _NEVER
        np.fill_diagonal(distance, 0.0)
        labels = fcluster(linkage(squareform(distance, checks=False), "average"), 1.0 - threshold / SCALE**2 + 1e-12, "distance")
        named[rows] = rows[_first_rows(labels)]
    return named


def _opposed(roots: Sequence[frozenset[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every pair of rows of which one holds the negation of a root of the other, both ways round."""
    from scipy.sparse import coo_array

    row = np.repeat(np.arange(len(roots)), [len(held) for held in roots])
    root = np.array([one for held in roots for one in held], dtype=np.int64)
    shape, ones = (len(roots), int(root.max(initial=0)) + 2), np.ones(root.size, dtype=np.int32)
    pairs = (coo_array((ones, (row, root)), shape).tocsr() @ coo_array((ones, (row, root ^ 1)), shape).tocsr().T).tocoo()
    return pairs.row.astype(np.int64), pairs.col.astype(np.int64)


def _components(count: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(first.size, dtype=bool), (first, second)), shape=(count, count))
    labels: NDArray[np.int64] = connected_components(graph, directed=False)[1].astype(np.int64)
    return labels


def _groups(labels: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Rows of each label that more than one row has, ascending."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    yield from (rows for rows in np.split(order, starts[1:]) if rows.size > 1)


def _first_rows(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first row with the same label, for each row."""
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    named: NDArray[np.int64] = first[place].astype(np.int64)
    return named


def _rooted(labels: NDArray[np.int64], roots: Roots) -> dict[int, list[int]]:
    members: dict[int, list[int]] = {}
    for row in roots:
        members.setdefault(int(labels[row]), []).append(row)
    return members


def _clash(members: list[int], roots: Roots) -> bool:
    """Whether two different phrases are opposed; one that holds a word and its negation by itself is not."""
    held: dict[int, int] = {}
    for row in members:
        for root in roots[row]:
            held[root] = held.get(root, 0) + 1
    return any(root ^ 1 in held for root in held) and any(
        conflict(roots[row], {root for root, times in held.items() if times > (root in roots[row])}) for row in members
    )


def _joined(links: Iterator[tuple[int, int]], count: int, roots: Roots) -> NDArray[np.int64]:
    """First row of each cluster that the links make, in order, when those are left out that would join a root and its negation."""
    parent = list(range(count))
    held = {row: set(found) for row, found in roots.items()}

    def top(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    for one, other in links:
        low, high = sorted((top(one), top(other)))
        if low == high or conflict(held.get(low, ()), held.get(high, ())):
            continue
        parent[high] = low
        if high in held:
            held.setdefault(low, set()).update(held.pop(high))
    return np.array([top(row) for row in range(count)], dtype=np.int64)
