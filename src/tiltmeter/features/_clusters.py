"""Clustering of texts, and the themes of the clusters."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from polars import DataFrame, Int64, Series, String, col

from tiltmeter._arrays import Floats, Integers, Vectors
from tiltmeter.features._scoring import number_texts, score_all
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
    distinct, numbers, _ = number_texts(texts)
    scored = score_all(encoder.encode, distinct, encoder.encode([]).shape[1])
    points = scored.values.astype(np.float32, copy=False)
    encoded = np.flatnonzero(np.isfinite(points).all(axis=1))
    readable = np.array(sorted(encoded, key=lambda number: distinct[number]), np.intp)
    labels = np.full(len(distinct) + 1, -1)  # the last element is for index -1, no text
    counts = np.bincount(numbers[numbers >= 0], minlength=len(distinct)).astype(np.float32)
    themes: list[list[str]] = []
    if readable.size:
        code = int.from_bytes(hashlib.sha256(about.encode()).digest()[:8], "big")
        rng = np.random.default_rng([seed, code])
        labels[readable], centres = partition(points[readable], counts[readable], k, rng)
        themes = _themes(distinct, labels[:-1], centres, about, encoder)
    sizes = np.bincount(labels[:-1][readable], counts[readable], len(themes)).astype(np.int64)
    theme = Series("theme", themes, dtype=pl.List(String))
    return Clusters(
        cluster=Series("cluster", labels[numbers], dtype=Int64).replace(-1, None),
        themes=DataFrame({"cluster": np.arange(len(themes)), "size": sizes}).with_columns(theme),
    )


def partition(
    points: Vectors, weights: Vectors, k: int | Literal["silhouette"], rng: np.random.Generator
) -> tuple[Integers, Vectors]:
    """Partition points into `k` clusters by k-means.

    If `k` is "silhouette", the number of clusters, from 2 to 10, is the one with the highest mean silhouette.
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
    sizes: Sequence[int]
    if k == "silhouette":
        sizes = range(2, min(MOST, different, len(points) - 1) + 1) or [1]
    else:
        sizes = [min(k, different)]
    partitions = []
    with threadpool_limits(1):
        for size in sizes:
            model = KMeans(size, n_init=10, random_state=int(rng.integers(2**32)))
            clusters = model.fit(points, sample_weight=weights).labels_
            partitions.append(_numbered_by_weight(clusters, points, weights))
    if len(partitions) == 1:
        return partitions[0]
    scores = [
        np.average(silhouette(points, weights, labels, centres), weights=weights)
        for labels, centres in partitions
    ]
    return partitions[int(np.argmax(scores))]


def _numbered_by_weight(clusters: Integers, points: Vectors, weights: Vectors) -> tuple[Integers, Vectors]:
    """Renumber the clusters by weight, then by the first point, and compute their centres."""
    _, first, cluster_of = np.unique(clusters, return_index=True, return_inverse=True)
    order = np.lexsort((first, -np.bincount(cluster_of, weights)))
    labels = np.argsort(order)[cluster_of]
    membership = (labels == np.arange(len(order))[:, None]) * weights
    centres = membership @ points / membership.sum(axis=1, keepdims=True)
    return labels, centres.astype(np.float32)


def silhouette(points: Vectors, weights: Vectors, labels: Integers, centres: Vectors) -> Floats:
    """Compute the silhouette of each point by cosine distance; 0 for a single point in a cluster.

    For vectors of length 1, the mean of 1 - x.y over the y of a cluster is 1 - x.(mean of the y), so the
    result is exact without comparing all pairs. (The implementation in scikit-learn compares all pairs and
    does not support weights.)

    References
    ----------
    Rousseeuw (1987), "Silhouettes: a graphical aid to the interpretation and validation of cluster analysis".
    """
    rows = np.arange(len(points))
    distances = 1 - points.astype(np.float64) @ centres.T
    size = np.bincount(labels, weights, len(centres))[labels]
    within = distances[rows, labels] * size / np.maximum(size - 1, 1)
    distances[rows, labels] = np.inf
    to_nearest = distances.min(axis=1)
    larger = np.maximum(np.maximum(to_nearest, within), 1e-12)
    return np.where(size > 1, (to_nearest - within) / larger, 0.0)


def _themes(
    texts: Sequence[str], labels: Integers, centres: Vectors, about: str, encoder: Encoder
) -> list[list[str]]:
    """Return up to three words per cluster: those nearest to its centre by cosine similarity.

    Words whose cosine similarity to `about` or to a word already chosen is at least 0.5 are skipped.
    """
    candidates = _theme_candidates(texts, labels)
    words = candidates["word"].unique().sort().to_list()
    encoded = score_all(encoder.encode, [about, *words], centres.shape[1]).values
    vector_of = dict(zip(words, encoded[1:], strict=True))
    subject = np.nan_to_num(encoded[0])
    themes = []
    for cluster, centre in enumerate(centres):
        cluster_words = candidates.filter(cluster=cluster)["word"].to_list()
        vectors = np.array([vector_of[word] for word in cluster_words]).reshape(-1, len(centre))
        free = np.isfinite(vectors[:, 0]) & ~(vectors @ subject >= _NEAR)
        theme: list[str] = []
        while len(theme) < _TOP and free.any():
            nearest = int(np.where(free, vectors @ centre, -np.inf).argmax())
            theme.append(cluster_words[nearest])
            free &= ~(vectors @ vectors[nearest] >= _NEAR)
            free[nearest] = False
        themes.append(theme)
    return themes


def _theme_candidates(texts: Sequence[str], labels: Integers) -> DataFrame:
    """Return the columns `cluster` and `word`: words that may describe their cluster, sorted.

    In a cluster of many texts, a word must occur in at least two texts.
    """
    members = DataFrame({"word": texts, "cluster": labels}).with_row_index("text").filter(col.cluster >= 0)
    members = members.with_columns(
        col.word.str.to_lowercase().str.extract_all(_WORD), texts=pl.len().over("cluster")
    )
    of_usual_length = col.word.str.len_chars().is_between(_SHORTEST, _LONGEST)
    occurring = members.explode("word").unique().filter(of_usual_length)
    repeated = pl.len().over("word") > 1
    return (
        occurring.filter(repeated | (col.texts < _REPEATED_FROM))
        .select("cluster", "word")
        .unique()
        .sort("cluster", "word")
    )
