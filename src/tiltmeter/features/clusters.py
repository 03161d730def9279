"""Clustering of texts, and the themes of the clusters."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from polars import DataFrame, Int64, Series, String, col

from tiltmeter.arrays import Floats, Integers, Vectors
from tiltmeter.features.scoring import number_texts, score_all
from tiltmeter.models import Encoder

MOST: Final = 10
"""Maximum number of clusters if the number is chosen by silhouette."""
DIGITS: Final = 3
"""Number of decimal digits to which vectors are rounded when distinct points are counted."""

_WORD: Final = r"\p{L}[\p{L}\p{M}]*(?:['\u2019-]\p{L}[\p{L}\p{M}]*)*"
_SHORTEST, _LONGEST = 3, 40
_REPEATED_FROM: Final = 10
"""Number of texts in a cluster from which a theme word must occur in at least two texts."""
_NEAR: Final = 0.5
_TOP: Final = 3


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters of texts and their themes."""

    cluster: Series
    """Cluster number of each text, 0 for the largest cluster; null if the text is null, blank or could not be
    encoded."""
    themes: DataFrame
    """One row per cluster: `cluster`, `size` (texts), `theme` (list of up to three words)."""


def cluster_texts(
    texts: Series, about: str, *, encoder: Encoder, k: int | Literal["silhouette"], seed: int
) -> Clusters:
    """Cluster texts by k-means on their embeddings.

    The result does not depend on the order of rows. Every distinct text is encoded once.

    Parameters
    ----------
    about
        Subject of all texts. Words similar to it are not used as themes.
    k
        Number of clusters (fewer if there are fewer distinct texts), or "silhouette" for the number from 2 to
        10 with the highest mean silhouette.

    Raises
    ------
    InputError
        The encoder cannot be used.
    """
    given = number_texts(texts)
    points = score_all(encoder.encode, given.distinct, encoder.encode([]).shape[1]).values.astype(
        np.float32, copy=False
    )
    readable = np.array(
        sorted(np.flatnonzero(np.isfinite(points).all(axis=1)), key=lambda number: given.distinct[number]),
        np.intp,
    )
    labels = np.full(len(given.distinct) + 1, -1)  # the last element is for index -1, no text
    counts = np.bincount(given.texts[given.texts >= 0], minlength=len(given.distinct)).astype(np.float32)
    themes: list[list[str]] = []
    if readable.size:
        rng = np.random.default_rng(
            [seed, int.from_bytes(hashlib.sha256(about.encode()).digest()[:8], "big")]
        )
        labels[readable], centres = partition(points[readable], counts[readable], k, rng)
        themes = _themes(given.distinct, labels[:-1], centres, about, encoder)
    sizes = np.bincount(labels[:-1][readable], counts[readable], len(themes)).astype(np.int64)
    theme = Series("theme", themes, dtype=pl.List(String))
    return Clusters(
        cluster=Series("cluster", labels[given.texts], dtype=Int64).replace(-1, None),
        themes=DataFrame({"cluster": np.arange(len(themes)), "size": sizes}).with_columns(theme),
    )


def partition(
    points: Vectors, weights: Vectors, k: int | Literal["silhouette"], rng: np.random.Generator
) -> tuple[Integers, Vectors]:
    """Partition points into `k` clusters by k-means, or into the number (2 to 10) with the highest mean silhouette.

    There are fewer clusters if there are fewer distinct points. The best of ten initialisations of
    scikit-learn's k-means is used, on one thread, so that the same input gives the same clusters.

    Parameters
    ----------
    points
        Shape (points, dimensions), at least one point. If `k` is "silhouette", the vectors must have length
        1.
    weights
        Weight of each point, shape (points,).

    Returns
    -------
    labels
        Cluster number of each point, shape (points,); 0 for the cluster with the largest weight.
    centres
        Weighted mean of each cluster, shape (clusters, dimensions).
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    different = len(np.unique(points.round(DIGITS), axis=0))
    sizes = range(2, min(MOST, different, len(points) - 1) + 1) if k == "silhouette" else [min(k, different)]
    tried = []
    with threadpool_limits(1):
        for size in sizes or [1]:
            model = KMeans(size, n_init=10, random_state=int(rng.integers(2**32)))
            _, first, found = np.unique(
                model.fit(points, sample_weight=weights).labels_, return_index=True, return_inverse=True
            )
            # Number the clusters by weight, then by the first point.
            order = np.lexsort((first, -np.bincount(found, weights)))
            labels = np.argsort(order)[found]
            belongs = (labels == np.arange(len(order))[:, None]) * weights
            tried.append((labels, (belongs @ points / belongs.sum(axis=1, keepdims=True)).astype(np.float32)))
    scores = (
        [np.average(silhouette(points, weights, *one), weights=weights) for one in tried]
        if len(tried) > 1
        else [0]
    )
    return tried[int(np.argmax(scores))]


def silhouette(points: Vectors, weights: Vectors, labels: Integers, centres: Vectors) -> Floats:
    """Compute the silhouette of each point by cosine distance (Rousseeuw 1987); 0 for a single point in a cluster.

    For vectors of length 1, the mean of 1 - x.y over the y of a cluster is 1 - x.(mean of the y), so the
    result is exact without comparing all pairs. (The implementation in scikit-learn compares all pairs and
    does not support weights.)
    """
    rows = np.arange(len(points))
    mean = 1 - points.astype(np.float64) @ centres.T
    own_size = np.bincount(labels, weights, len(centres))[labels]
    own = mean[rows, labels] * own_size / np.maximum(own_size - 1, 1)
    mean[rows, labels] = np.inf
    other = mean.min(axis=1)
    return np.where(own_size > 1, (other - own) / np.maximum(np.maximum(other, own), 1e-12), 0.0)


def _themes(
    texts: Sequence[str], labels: Integers, centres: Vectors, about: str, encoder: Encoder
) -> list[list[str]]:
    """Return up to three words per cluster: those nearest to its centre by cosine similarity.

    Words whose cosine similarity to `about` or to a word already chosen is at least 0.5 are skipped.
    """
    members = DataFrame({"word": texts, "cluster": labels}).with_row_index("text").filter(col.cluster >= 0)
    members = members.with_columns(
        col.word.str.to_lowercase().str.extract_all(_WORD), texts=pl.len().over("cluster")
    )
    occurring = (
        members.explode("word").unique().filter(col.word.str.len_chars().is_between(_SHORTEST, _LONGEST))
    )
    repeated = pl.len().over("word") > 1
    occurring = (
        occurring.filter(repeated | (col.texts < _REPEATED_FROM))
        .select("cluster", "word")
        .unique()
        .sort("cluster", "word")
    )
    words = occurring["word"].unique().sort().to_list()
    vectors = score_all(encoder.encode, [about, *words], centres.shape[1]).values
    table, own = dict(zip(words, vectors[1:], strict=True)), np.nan_to_num(vectors[0])
    themes = []
    for cluster, centre in enumerate(centres):
        some = occurring.filter(cluster=cluster)["word"].to_list()
        found = np.array([table[word] for word in some]).reshape(len(some), len(centre))
        free = np.isfinite(found[:, 0]) & ~(found @ own >= _NEAR)
        taken: list[int] = []
        while len(taken) < _TOP and free.any():
            taken.append(int(np.where(free, found @ centre, -np.inf).argmax()))
            free &= ~(found @ found[taken[-1]] >= _NEAR)
            free[taken[-1]] = False
        themes.append([some[place] for place in taken])
    return themes
