"""k-means with seeded k-means++ starts, and how well clusters are parted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Partition", "distances", "partition", "silhouette"]

_STARTS: Final = 10
_ROUNDS: Final = 300
_MOST: Final = 10
"""Clusters tried at most where their number is chosen."""
_SAME: Final = 1e-6
"""Squared distance below which two vectors are the same (single precision allows no finer)."""


class Partition(NamedTuple):
    """Points parted into clusters, the heaviest first."""

    labels: NDArray[np.int64]
    """Shape (points,)."""
    centres: NDArray[np.float32]
    """Weighted means: shape (clusters, dimensions)."""


def distances(points: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.float64]:
    """Euclidean distance of each point to each centre: shape (points, centres)."""
    import numpy as np

    return np.sqrt(_squared(points, centres).astype(np.float64))


def _squared(points: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    found = np.einsum("ij,ij->i", points, points)[:, None] + np.einsum("ij,ij->i", centres, centres) - 2 * (points @ centres.T)
    return np.where(found < _SAME, np.float32(0), found)


def partition(
    points: NDArray[np.float32], weights: NDArray[np.float32], k: int | Literal["silhouette"], rng: np.random.Generator
) -> Partition:
    """Part points into `k` clusters (fewer where fewer points differ), or into as many as the mean silhouette is highest for (2 to 10).

    The best of ten starts by k-means++ (Arthur and Vassilvitskii 2007; the greedy form), each followed by Lloyd's rounds until
    nothing moves.

    Parameters
    ----------
    points
        Shape (points, dimensions), of length 1 where the number of clusters is to be chosen; at least one.
    weights
        How many times each point counts.
    """
    import numpy as np

    if k != "silhouette":
        return _best(points, weights, min(k, len(points)), rng)
    tried = [_best(points, weights, number, rng) for number in range(2, min(_MOST, len(points) - 1) + 1)]
    scored = [float(np.average(silhouette(points, weights, one), weights=weights)) for one in tried if len(one.centres) > 1]
    return tried[int(np.argmax(scored))] if scored else _best(points, weights, 1, rng)


def silhouette(points: NDArray[np.float32], weights: NDArray[np.float32], parted: Partition) -> NDArray[np.float64]:
    """Silhouette of each point by cosine distance (Rousseeuw 1987), exact, without comparing all pairs; 0 for one alone in its cluster.

    The mean of 1 - x.y over the y of a cluster is 1 - x.(mean of the y), for vectors of length 1.
    """
    import numpy as np

    rows = np.arange(len(points))
    sizes = np.bincount(parted.labels, weights, len(parted.centres))
    mean = 1 - points.astype(np.float64) @ parted.centres.T
    own_size = sizes[parted.labels]
    own = mean[rows, parted.labels] * own_size / np.maximum(own_size - 1, 1)
    mean[rows, parted.labels] = np.inf
    other = mean.min(axis=1)
    return np.where(own_size > 1, (other - own) / np.maximum(np.maximum(other, own), 1e-12), 0.0)


def _best(points: NDArray[np.float32], weights: NDArray[np.float32], k: int, rng: np.random.Generator) -> Partition:
    import numpy as np

    least, best = np.inf, None
    for _ in range(_STARTS):
        labels, spread = _settle(points, weights, _start(points, weights, k, rng))
        if spread < least:
            least, best = spread, labels
    assert best is not None
    return _ordered(points, weights, best)


def _start(points: NDArray[np.float32], weights: NDArray[np.float32], k: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Centres drawn from the points: each the best of a few, drawn with odds by the squared distance to the nearest one before."""
    import numpy as np

    drawn = [int(rng.choice(len(points), p=weights / weights.sum(dtype=np.float64)))]
    nearest = _squared(points, points[drawn])[:, 0]
    while len(drawn) < k:
        odds = np.cumsum(weights * nearest, dtype=np.float64)
        if odds[-1] == 0:
            break  # no further point differs from those drawn
        candidates = np.searchsorted(odds, rng.random(2 + int(np.log(k))) * odds[-1], side="right")
        left = np.minimum(nearest[:, None], _squared(points, points[candidates]))
        best = int((weights @ left).argmin())
        drawn.append(int(candidates[best]))
        nearest = left[:, best]
    return points[drawn]


def _settle(points: NDArray[np.float32], weights: NDArray[np.float32], centres: NDArray[np.float32]) -> tuple[NDArray[np.int64], float]:
    """Lloyd's rounds: labels, and the weighted sum of squared distances to the centres."""
    import numpy as np

    rows, labels = np.arange(len(points)), np.full(len(points), -1)
    for _ in range(_ROUNDS):
        squared = _squared(points, centres)
        new = squared.argmin(axis=1)
        if (new == labels).all():
            break
        labels = new
        centres = _means(points, weights, labels, centres)
    return labels, float((weights * squared[rows, labels]).sum(dtype=np.float64))


def _means(
    points: NDArray[np.float32], weights: NDArray[np.float32], labels: NDArray[np.int64], before: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Weighted mean of each cluster; one that lost its last point stays where it was (another start will do better)."""
    import numpy as np

    belongs = (labels == np.arange(len(before))[:, None]) * weights
    total = belongs.sum(axis=1, keepdims=True)
    return np.where(total > 0, belongs @ points / np.maximum(total, _SAME), before).astype(np.float32)


def _ordered(points: NDArray[np.float32], weights: NDArray[np.float32], labels: NDArray[np.int64]) -> Partition:
    """Clusters numbered by weight, then by their first point; none is empty."""
    import numpy as np

    _, first, found = np.unique(labels, return_index=True, return_inverse=True)
    order = np.lexsort((first, -np.bincount(found, weights)))
    place = np.argsort(order)[found]
    return Partition(place, _means(points, weights, place, np.zeros((len(order), points.shape[1]), np.float32)))
