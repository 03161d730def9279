"""Similarities of very many unit vectors in blocks, exact and therefore the same for any block size, thread count and machine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SCALE", "Vectors", "exact", "lowest", "similarity", "spanning_forest"]

Vectors = NDArray[np.float32]

SCALE = 4000
"""Coordinates are rounded to whole multiples of 1 / SCALE (a cosine moves by some 0.0001). Every partial sum of a dot product is then
a whole number below (SCALE + sqrt(dimensions) / 2)**2 < 2**24, which float32 holds exactly: the order of summation does not matter."""
_MOST_DIMENSIONS = 36_000
_BLOCK = 2048
_MOST_EDGES = 4_000_000


def exact(vectors: NDArray[Any], order: NDArray[np.int64]) -> Vectors:
    """The rows `order` of `vectors`, brought to length SCALE and rounded to whole numbers; rows of zeros stay so.

    Raises
    ------
    ValueError
        A number is not finite, or there are too many dimensions to be exact.
    """
    if vectors.shape[1] > _MOST_DIMENSIONS:
        raise ValueError(f"vectors may have at most {_MOST_DIMENSIONS} dimensions, not {vectors.shape[1]}")
    rounded = np.empty((order.size, vectors.shape[1]), dtype=np.float32)
    for start in range(0, order.size, _BLOCK):
        rows = vectors[order[start : start + _BLOCK]].astype(np.float32, copy=False)
        length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        if not np.isfinite(length).all():
            raise ValueError("the vectors hold numbers that are not finite")
        scale = (SCALE / np.where(length > 0, length, 1.0)).astype(np.float32)
        np.rint(rows * scale[:, None], out=rounded[start : start + _BLOCK])
    return rounded


def lowest(threshold: float) -> float:
    """The smallest dot product of exact vectors that reaches a cosine."""
    return float(math.ceil(round(threshold * SCALE**2, 3)))


def similarity(vectors: Vectors, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
    """Cosines of pairs of rows, to four decimals; 1 for a row and itself."""
    found = np.ones(first.size)
    different = np.flatnonzero(first != second)
    for start in range(0, different.size, _BLOCK):
        part = different[start : start + _BLOCK]
        products = np.einsum("ij,ij->i", vectors[first[part]], vectors[second[part]])
        found[part] = np.round(np.clip(products.astype(np.float64) / SCALE**2, -1.0, 1.0), 4)
    return found


def spanning_forest(vectors: Vectors, threshold: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The strongest links that hold each connected component of the pairs above the threshold together.

    Links are pruned to a forest whenever there are a few million, so that memory does not grow with the number of pairs.

    Parameters
    ----------
    threshold
        As `lowest` gives it.

    Returns
    -------
    First row, second row and dot product of each link; at most one link less than there are rows.
    """
    count = len(vectors)
    kept: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
    edges = 0
    for top in range(0, count, _BLOCK):
        for left in range(top, count, _BLOCK):
            products = vectors[top : top + _BLOCK] @ vectors[left : left + _BLOCK].T
            row, column = np.nonzero(products >= threshold)
            upper = row + top < column + left
            row, column = row[upper], column[upper]
            kept.append((row + top, column + left, products[row, column].astype(np.float64)))
            edges += row.size
            if edges > _MOST_EDGES:
                kept = [_forest(kept, count)]
                edges = kept[0][0].size
    return _forest(kept, count)


def _forest(
    links: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    first, second, product = (np.concatenate([link[part] for link in links]) for part in range(3))
    # Lengths are positive whatever the rounding: SciPy takes a zero for "no link".
    most = 2.0 * SCALE**2
    tree = minimum_spanning_tree(coo_array((most - product, (first, second)), shape=(count, count)).tocsr()).tocoo()
    return tree.row.astype(np.int64), tree.col.astype(np.int64), most - tree.data
