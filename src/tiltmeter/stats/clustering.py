"""How well a clustering agrees with a known one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["BCubed", "VMeasure", "b_cubed", "v_measure"]


class VMeasure(NamedTuple):
    """Homogeneity, completeness and their harmonic mean, each in [0, 1]; 1 is best."""

    homogeneity: float
    completeness: float
    v: float


class BCubed(NamedTuple):
    """B-cubed precision, recall and their harmonic mean, each in (0, 1]; 1 is best."""

    precision: float
    recall: float
    f: float


class _Table(NamedTuple):
    """The cells of the contingency table that are not empty, with the totals of their class and cluster."""

    shared: NDArray[np.float64]
    classes: NDArray[np.float64]
    clusters: NDArray[np.float64]
    class_sizes: NDArray[np.float64]
    cluster_sizes: NDArray[np.float64]
    total: int


def v_measure(truth: ArrayLike, found: ArrayLike) -> VMeasure:
    """Return homogeneity (clusters hold one class), completeness (classes lie in one cluster) and V.

    Args:
        truth: the known class of each element, of any type that can be sorted; shape (n,), n >= 1.
        found: the cluster of each element; shape (n,).

    Raises:
        ValueError: the two differ in length, are empty or have more than one dimension.

    Source: Rosenberg and Hirschberg (2007), with beta = 1. One class alone is homogeneous, one cluster alone complete.
    """
    table = _contingency(truth, found)
    class_entropy, cluster_entropy = _entropy(table.class_sizes), _entropy(table.cluster_sizes)
    joint = table.shared / table.total
    information = float((joint * np.log(table.shared * table.total / (table.classes * table.clusters))).sum())
    homogeneity = min(1.0, max(0.0, information / class_entropy)) if class_entropy else 1.0
    completeness = min(1.0, max(0.0, information / cluster_entropy)) if cluster_entropy else 1.0
    return VMeasure(homogeneity, completeness, _harmonic(homogeneity, completeness))


def b_cubed(truth: ArrayLike, found: ArrayLike) -> BCubed:
    """Return the mean over elements of the share of their cluster that is of their class, and of their class that is in their cluster.

    Args:
        truth: the known class of each element, of any type that can be sorted; shape (n,), n >= 1.
        found: the cluster of each element; shape (n,).

    Raises:
        ValueError: the two differ in length, are empty or have more than one dimension.

    Source: Bagga and Baldwin (1998), each element with the same weight.
    """
    table = _contingency(truth, found)
    precision = float((table.shared**2 / table.clusters).sum() / table.total)
    recall = float((table.shared**2 / table.classes).sum() / table.total)
    return BCubed(precision, recall, _harmonic(precision, recall))


def _contingency(truth: ArrayLike, found: ArrayLike) -> _Table:
    known, clusters = np.asarray(truth), np.asarray(found)
    if known.ndim != 1 or known.shape != clusters.shape or known.size == 0:
        raise ValueError(f"two label sequences of one length are needed, not of shapes {known.shape} and {clusters.shape}")
    class_names, of_class = np.unique(known, return_inverse=True)
    cluster_names, of_cluster = np.unique(clusters, return_inverse=True)
    cells, shared = np.unique(of_class * cluster_names.size + of_cluster, return_counts=True)
    class_sizes = np.bincount(of_class, minlength=class_names.size).astype(np.float64)
    cluster_sizes = np.bincount(of_cluster, minlength=cluster_names.size).astype(np.float64)
    row, column = np.divmod(cells, cluster_names.size)
    return _Table(shared.astype(np.float64), class_sizes[row], cluster_sizes[column], class_sizes, cluster_sizes, known.size)


def _entropy(sizes: NDArray[np.float64]) -> float:
    share = sizes / sizes.sum()
    return 0.0 if sizes.size == 1 else float(-(share * np.log(share)).sum())


def _harmonic(first: float, second: float) -> float:
    return 0.0 if first + second == 0 else 2 * first * second / (first + second)
