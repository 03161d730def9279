"""Unification of phrases to concepts: a reproducible clustering of the unique phrases of the whole study.

Phrases are clustered by the cosine similarity of their embeddings (without an encoder, see `families`).
Phrases with opposed roots are never in one cluster. Similarities are exact, because coordinates are rounded
to whole numbers, so results do not depend on block size, number of threads or machine. Products are computed
in blocks, so that memory does not grow with the square of the number of rows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from polars import DataFrame, Expr, Series, col, when

from tiltmeter._arrays import Floats, Integers, Vectors
from tiltmeter.associations._tables import CONCEPTS
from tiltmeter.associations._terms import conflict, guard_keys, load_terms, signed_roots
from tiltmeter.errors import InputError
from tiltmeter.schema import beside, conform

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Roots = Mapping[int, frozenset[int]]
"""Signed roots (see `terms`) by row, without rows that have none."""

SCALE: Final = 4000
"""Coordinates are rounded to multiples of 1 / SCALE, which changes a cosine by about 0.0001. Every partial
sum of a dot product is then a whole number below (SCALE + sqrt(dimensions) / 2)**2 < 2**24 (up to 36,000
dimensions), which float32 represents exactly, so that the order of summation does not matter."""
_OUTER: Final = " .,;:!?…\"'“”*_-–—()[]"
MOST_IN_COMPONENT: Final = 10_000
"""Maximum number of phrases of a component for average linkage: 8 * n**2 / 2 bytes of distances (400 MB) and
about ten seconds."""

_BLOCK: Final = 2048
_LEADER_BLOCK: Final = 256
_NEVER: Final = 1e10
"""Distance of phrases that must not be merged. A mean over MOST_IN_COMPONENT**2 / 4 distances that includes
it exceeds any threshold."""


def unify(
    phrases: DataFrame,
    vectors: Vectors,
    *,
    threshold: float = 0.63,
    method: str = "leader",
    terms: str | None = None,
    strict: bool = True,
) -> DataFrame:
    """Cluster phrases to concepts and return the map from phrase to concept (CONCEPTS).

    Its rows are in the order of `phrases`.

    Spellings that differ only in case, blanks and outer punctuation are treated as one phrase. Phrases are
    processed by decreasing number of mentions, then alphabetically. The most frequent phrase of a cluster
    names it. A concept and its negation or opposite, and phrases with different demographic terms or numbers,
    are never in one cluster.

    Parameters
    ----------
    phrases
        `phrase` (unique) and `mentions`.
    vectors
        Embeddings of the phrases in the same order, shape (phrases, dimensions). Cosines are accurate to
        about 0.0001, so that the same vectors give the same concepts with any number of threads.
    threshold
        Minimum cosine similarity, in (0, 1]; the paper uses 0.63.
    method
        "leader": each phrase joins the most similar earlier leader that reaches the threshold, or becomes a
        leader; run time grows with the number of phrases times the number of leaders. "components": connected
        components of the pairs that reach the threshold; run time grows with the square of the number of
        phrases. "average": average linkage, cut at the threshold; at most 10,000 phrases in a component.
    terms
        YAML file of the user in the format of `terms.yaml`.
    strict
        False: without the guards that the published definitions do not use, numbers and `further_opposites`.

    Raises
    ------
    InputError
        The file of terms is invalid, or a component is too large for "average".
    ValueError
        A vector contains a value that is not finite.
    """
    words = load_terms(terms)
    spelt = phrases.select("phrase", "mentions", form=normal_form(col.phrase)).with_row_index("row")
    units = _unique_strings(spelt)
    names = units["phrase"]
    keys = guard_keys(names, words, strict=strict)
    rounded = round_vectors(vectors, units["row"].to_numpy())
    roots = signed_roots(names, words, strict=strict)
    leaders = _similar_leaders(rounded, keys, roots, threshold, method)
    mapped = units.select(
        "form", concept=names.gather(leaders), similarity=Series(similarities(rounded, leaders))
    )
    return conform(beside(spelt, mapped, "form"), CONCEPTS)


def normal_form(phrase: Expr) -> Expr:
    """Return the phrase in lower case without repeated blanks and outer punctuation.

    Unchanged if nothing would be left.
    """
    form = (
        phrase.str.normalize("NFKC")
        .str.replace_all("[’‘`´]", "'")
        .str.replace_all(r"\s+", " ")
        .str.strip_chars(_OUTER)
        .str.to_lowercase()
    )
    return when(form == "").then(phrase).otherwise(form)


def _unique_strings(spelt: DataFrame) -> DataFrame:
    """Return the distinct phrases, the most frequent first.

    The columns are `form`, `phrase` and `row` of its most frequent spelling, and `mentions`.
    """
    by_frequency = spelt.sort("mentions", "phrase", descending=[True, False])
    units = by_frequency.group_by("form").agg(col("phrase", "row").first(), col.mentions.sum())
    return units.sort("mentions", "phrase", descending=[True, False])


def _similar_leaders(
    vectors: Vectors, keys: Integers, roots: Roots, threshold: float, method: str
) -> Integers:
    """Return the index of the phrase that names the cluster of each phrase.

    Phrases with different guard keys are clustered separately.
    """
    cluster = _CLUSTERERS[method]
    leaders = np.arange(len(vectors))
    for rows in _rows_alike(keys):
        roots_of_rows = {place: roots[row] for place, row in enumerate(rows.tolist()) if row in roots}
        leaders[rows] = rows[cluster(vectors[rows], lowest_product(threshold), roots_of_rows)]
    return leaders


def _rows_alike(labels: NDArray[np.integer[Any]]) -> list[Integers]:
    """Return the rows of each label that occurs more than once."""
    order = np.argsort(labels, kind="stable")
    return [rows for rows in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if rows.size > 1]


# -- vectors ---------------------------------------------------------------------------------------


def round_vectors(vectors: NDArray[Any], order: Integers) -> Vectors:
    """Return the rows `order` of `vectors`, scaled to length SCALE and rounded to whole numbers.

    Rows of zeros are kept.

    Raises
    ------
    ValueError
        A value is not finite.
    """
    rounded = vectors[order].astype(np.float32, copy=False)
    length = np.sqrt(np.einsum("ij,ij->i", rounded, rounded, dtype=np.float64))
    if not np.isfinite(length).all():
        raise ValueError("the vectors contain values that are not finite")
    rounded *= (SCALE / np.where(length > 0, length, 1.0)).astype(np.float32)[:, None]
    return np.rint(rounded, out=rounded)


def lowest_product(threshold: float) -> float:
    """Return the smallest dot product of rounded vectors that reaches the threshold of the cosine."""
    return float(math.ceil(round(threshold * SCALE**2, 3)))


def similarities(vectors: Vectors, leaders: Integers) -> Floats:
    """Return the cosine similarity of each row to its leader, to four decimals; 1 for leaders."""
    products = np.einsum("ij,ij->i", vectors, vectors[leaders], dtype=np.float64)
    cosines = np.round(np.clip(products / SCALE**2, -1.0, 1.0), 4)
    return np.where(leaders == np.arange(len(vectors)), 1.0, cosines)


# -- leaders ---------------------------------------------------------------------------------------


def follow_leaders(vectors: Vectors, threshold: float, roots: Roots) -> Integers:
    """Cluster rows by leaders and return the row of the leader of each row, shape (candidates,).

    Rows are processed in order. Each joins the most similar earlier leader that reaches the threshold and
    whose cluster has no opposed root, or becomes a leader itself. The result does not depend on the block
    size.

    Parameters
    ----------
    vectors
        From `round_vectors`, shape (candidates, dimensions).
    threshold
        From `lowest_product`.
    roots
        Signed roots. No cluster contains a root and its negation.
    """
    leader_of_row = np.arange(len(vectors))
    leaders = leader_of_row[:0]
    roots_of_cluster: defaultdict[int, frozenset[int]] = defaultdict(frozenset)
    for start in range(0, len(vectors), _LEADER_BLOCK):
        block = vectors[start : start + _LEADER_BLOCK]
        columns = np.concatenate([leaders, np.arange(start, start + len(block))])
        products = block @ vectors[columns].T
        is_leader = columns < start
        for place, row in enumerate(columns[len(leaders) :].tolist()):
            near = np.flatnonzero(is_leader & (products[place] >= threshold))
            order = np.argsort(-products[place, near], kind="stable")  # the first leader in a tie
            row_roots = roots.get(row, frozenset())
            leader = row
            for candidate in columns[near[order]].tolist():
                if not conflict(row_roots, roots_of_cluster[candidate]):
                    leader = candidate
                    break
            roots_of_cluster[leader] |= row_roots
            leader_of_row[row] = leader
            is_leader[len(leaders) + place] = leader == row
        leaders = columns[is_leader]
    return leader_of_row


# -- linkage ---------------------------------------------------------------------------------------


def linked_components(vectors: Vectors, threshold: float, roots: Roots) -> Integers:
    """Return the first row of the connected component of each row.

    Links are processed in decreasing order of similarity. Links that would merge a root and its negation are
    skipped.
    """
    from scipy.cluster.hierarchy import DisjointSet

    links = _spanning_forest(vectors, threshold).tocoo()
    clusters = DisjointSet(range(len(vectors)))
    roots_of_cluster = defaultdict(frozenset, roots)
    for link in np.lexsort((links.col, links.row, links.data)):
        first = clusters[int(links.row[link])]
        second = clusters[int(links.col[link])]
        if not conflict(roots_of_cluster[first], roots_of_cluster[second]):
            clusters.merge(first, second)
            roots_of_cluster[clusters[first]] = roots_of_cluster[first] | roots_of_cluster[second]
    return _first_rows(np.array([clusters[row] for row in range(len(vectors))], dtype=np.int64))


def average_linkage(vectors: Vectors, threshold: float, roots: Roots) -> Integers:
    """Cluster by average linkage, cut at the threshold, and return the first row of the cluster of each row.

    Two clusters whose mean similarity reaches the threshold contain a pair that does, so each connected
    component is clustered separately, with the similarities of all its pairs. Time and memory grow with the
    square of the size of the largest component.

    Raises
    ------
    InputError
        A component has more than MOST_IN_COMPONENT phrases.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial.distance import squareform

    labels = connected_components(_spanning_forest(vectors, threshold), directed=False)[1]
    largest_distance = 1.0 - threshold / SCALE**2 + 1e-12
    first_of_row = np.arange(len(vectors))
    for rows in _rows_alike(labels):
        if rows.size > MOST_IN_COMPONENT:
            raise InputError(
                f"-P method=average: {rows.size:,} phrases are connected at this threshold, but at most "
                f"{MOST_IN_COMPONENT:,} can be clustered; increase the threshold or use the method leader"
            )
        distance = _distances(vectors, rows, roots)
        tree = linkage(squareform(distance, checks=False), "average")
        first_of_row[rows] = rows[_first_rows(fcluster(tree, largest_distance, "distance"))]
    return first_of_row


def _distances(vectors: Vectors, rows: Integers, roots: Roots) -> Floats:
    """Return the cosine distance of each two rows; _NEVER if one has the negation of a root of the other."""
    cosines = (vectors[rows] @ vectors[rows].T).astype(np.float64) / SCALE**2
    distance = np.maximum(1.0 - cosines, 0.0)
    places_of_root: dict[int, list[int]] = {}
    for place, row in enumerate(rows.tolist()):
        for root in roots.get(row, ()):
            places_of_root.setdefault(root, []).append(place)
    for root, places in places_of_root.items():
        opposed = places_of_root.get(root ^ 1, [])
        distance[np.ix_(places, opposed)] = _NEVER
    np.fill_diagonal(distance, 0.0)
    return distance


def _first_rows(labels: NDArray[np.integer[Any]]) -> Integers:
    """Return for each row the first row with the same label."""
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    first_rows: Integers = first[place].astype(np.int64)
    return first_rows


def _spanning_forest(vectors: Vectors, threshold: float) -> csr_array:
    """Return a maximum spanning forest of the pairs that reach the threshold.

    Values decrease with the similarity.

    The forest is updated block by block, so that memory does not grow with the number of pairs.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    count = len(vectors)
    forest = csr_array((count, count))
    for top in range(0, count, _BLOCK):
        for left in range(top, count, _BLOCK):
            products = vectors[top : top + _BLOCK] @ vectors[left : left + _BLOCK].T
            row, column = np.nonzero(np.triu(products >= threshold, 1 + top - left))  # each pair once
            # Keep lengths positive despite rounding, because SciPy treats zero as "no link".
            length = 2.0 * SCALE**2 - products[row, column]
            links = csr_array((length, (row + top, column + left)), shape=(count, count))
            forest = minimum_spanning_tree(forest + links)
    return forest


_CLUSTERERS: Final = {"leader": follow_leaders, "components": linked_components, "average": average_linkage}
