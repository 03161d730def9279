"""Unifying: many phrases, few concepts. Unique strings, one vocabulary for the whole study, the same result every time.

With an encoder, strings are clustered by the similarity of their embeddings; without one, by their words alone. No cluster joins opposed
roots. Similarities are exact: coordinates are rounded to whole numbers, so results are the same for any block size, thread count and
machine. Products are taken in blocks, so that memory does not grow with the square of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import DataFrame, Expr, Series, col, when

from tiltmeter.arrays import Floats, Integers, Vectors
from tiltmeter.associations.stage_tables import CONCEPTS
from tiltmeter.associations.terms import conflict, guard_keys, load_terms, signed_roots, undoubled
from tiltmeter.errors import InputError
from tiltmeter.study import beside, conform

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Roots = Mapping[int, frozenset[int]]
"""Signed roots (see `terms`) of the rows that have any."""

SCALE = 4000
"""Coordinates are rounded to whole multiples of 1 / SCALE (a cosine moves by some 0.0001). Every partial sum of a dot product is then
a whole number below (SCALE + sqrt(dimensions) / 2)**2 < 2**24 (up to 36,000 dimensions), which float32 holds exactly: the order of
summation does not matter."""
_OUTER = " .,;:!?…\"'“”*_-–—()[]"
MOST_IN_COMPONENT = 10_000
"""Phrases of one component that average linkage takes: 8 * n**2 / 2 bytes of distances, 400 MB, and some ten seconds."""

_BLOCK = 2048
_LEADER_BLOCK = 256
_NEVER = 1e10
"""Distance of what may not be joined: its share in the mean of up to MOST_IN_COMPONENT**2 / 4 distances is still above any threshold."""


def unify(
    phrases: DataFrame,
    vectors: Vectors | None,
    *,
    threshold: float = 0.63,
    method: str = "leader",
    terms: str | None = None,
    strict: bool = True,
) -> DataFrame:
    """The map from phrase to concept (CONCEPTS), in the order of `phrases`.

    Spellings that differ in case, blanks and outer punctuation are one string. Strings are taken in order of falling mentions, then
    alphabetically; the most frequent one of a cluster names it. Never in one cluster, whatever the method: a concept and its negation
    or opposite, and strings that hold different demographic terms or numbers (or one some and the other none).

    Parameters
    ----------
    phrases
        `phrase` (each once) and `mentions`.
    vectors
        One row per phrase, same order; shape (phrases, dimensions). Cosines are taken to about 0.0001, so that the same vectors give
        the same concepts with any number of threads. None: no encoder; strings are one concept where they differ by no more than
        articles, a leading "is", "has" for "have", a plural or a verb's third person, or an -ing form before its object ("helping
        others", "helps others"). Threshold and method then play no part, and `similarity` is null where strings differ.
    threshold
        Cosine similarity in (0, 1]; 0.63 is the paper's.
    method
        "leader": each string joins the most similar leader so far that reaches the threshold, or leads itself; grows with strings
        times leaders. "components": chains of strings that reach the threshold; grows with the square of the strings. "average": mean
        similarity over all pairs of a cluster reaches the threshold; within one component of at most 10,000 strings.
    terms
        A YAML file of the user's in the shape of `terms.yaml`.
    strict
        False: without the guards that the published definitions do not have here, of numbers and of `further_opposites`.

    Raises
    ------
    InputError
        Unusable file of terms, or a component too large for "average".
    ValueError
        A vector holds a number that is not finite.
    """
    words = load_terms(terms)
    spelt = phrases.select("phrase", "mentions", form=normal_form(col.phrase)).with_row_index("row")
    units = _unique_strings(spelt)
    names = units["phrase"]
    keys = guard_keys(names, words, strict=strict)
    if vectors is None:
        leaders = _first_of_same_words(names, keys)
        similarity = np.where(leaders == np.arange(units.height), 1.0, np.nan)
    else:
        rounded = round_vectors(vectors, units["row"].to_numpy())
        roots = signed_roots(names, words, strict=strict)
        leaders = _similar_leaders(rounded, keys, roots, threshold, method)
        similarity = similarities(rounded, leaders)
    mapped = units.select("form", concept=names.gather(leaders), similarity=Series(similarity).fill_nan(None))
    made = beside(spelt, mapped, "form")
    return conform(made, CONCEPTS)


def normal_form(phrase: Expr) -> Expr:
    """The phrase without case, repeated blanks and outer punctuation (as it is where nothing would be left)."""
    form = (
        phrase.str.normalize("NFKC").str.replace_all("[’‘`´]", "'").str.replace_all(r"\s+", " ").str.strip_chars(_OUTER).str.to_lowercase()
    )
    return when(form == "").then(phrase).otherwise(form)


def _unique_strings(spelt: DataFrame) -> DataFrame:
    """`form`, `phrase` and `row` of its most frequent spelling, and `mentions`; the most frequent string first."""
    units = spelt.sort("mentions", "phrase", descending=[True, False]).group_by("form")
    found = units.agg(col("phrase", "row").first(), col.mentions.sum())
    return found.sort("mentions", "phrase", descending=[True, False])


def _similar_leaders(vectors: Vectors, keys: Integers, roots: Mapping[int, frozenset[int]], threshold: float, method: str) -> Integers:
    """The string that names the cluster of each, guard key by guard key."""
    leaders = np.arange(len(vectors))
    for rows in _rows_alike(keys):
        own = {place: roots[row] for place, row in enumerate(rows.tolist()) if row in roots}
        mine = vectors if rows.size == len(vectors) else vectors[rows]
        leaders[rows] = rows[_CLUSTERERS[method](mine, lowest_product(threshold), own)]
    return leaders


def _rows_alike(labels: NDArray[np.integer[Any]]) -> list[Integers]:
    """The rows of each label that several have."""
    order = np.argsort(labels, kind="stable")
    return [rows for rows in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if rows.size > 1]


# -- without an encoder -----------------------------------------------------------------------------------------------

_ARTICLES = ("a", "an", "the")
_BE = ("is", "are", "was", "were", "being", "be")
_HAVE = dict.fromkeys(("has", "had", "having"), "have")


def _first_of_same_words(names: Series, keys: Integers) -> Integers:
    """The first string with the same words and guard key, for each."""
    table = DataFrame({"fold": _folded(names), "key": keys}).with_row_index("unit")
    return table.select(col.unit.first().over("fold", "key"))["unit"].to_numpy()


def _folded(phrases: Series) -> Series:
    """Equal where phrases differ by articles, a leading "is", "has" for "have", an -s, or an -ing form that has an object."""
    word, first = col.word, (pl.int_range(pl.len()).over("row") == 0) & (pl.len().over("row") > 1)
    rows = phrases.to_frame("phrase").with_row_index("row")
    words = rows.select("row", word=normal_form(col.phrase).str.split(" ")).explode("word")
    words = words.filter(~word.is_in(_ARTICLES) & (word != "").fill_null(False))
    words = words.filter(~(first & word.is_in(_BE)))
    verb = word.replace(_HAVE)
    gerund = (verb.str.len_chars() >= 6) & verb.str.contains("[aeiouy].*ing$")
    verb = when(gerund).then(verb.str.strip_suffix("ing")).otherwise(verb)
    words = words.with_columns(word=when(first).then(verb).otherwise(word))
    lines = words.group_by("row", maintain_order=True).agg(line=_singular(word).str.join(" "))
    return beside(rows, lines, "row").select(pl.coalesce("line", "phrase")).to_series()


def _singular(word: Expr) -> Expr:
    """Without -s and what its spelling changes: "carries" is "carry", "makes" and "mak(ing)" are one."""
    endings = ((r"^(..+)ies$", "${1}y"), (r"^(.*(?:ss|sh|ch|x|z|.o))es$", "${1}"), (r"^(..+[^sui])s$", "${1}"), (r"^(...+)e$", "${1}"))
    for ending, instead in endings:
        word = word.str.replace(ending, instead)
    return when(word.str.contains(r"[\p{L}--aeiou]$")).then(undoubled(word)).otherwise(word)


# -- vectors ----------------------------------------------------------------------------------------------------------


def round_vectors(vectors: NDArray[Any], order: Integers) -> Vectors:
    """The rows `order` of `vectors`, brought to length SCALE and rounded to whole numbers; rows of zeros stay so.

    Raises
    ------
    ValueError
        A number is not finite.
    """
    rounded = np.empty((order.size, vectors.shape[1]), dtype=np.float32)
    for start in range(0, order.size, _BLOCK):
        rows = vectors[order[start : start + _BLOCK]].astype(np.float32, copy=False)
        length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        if not np.isfinite(length).all():
            raise ValueError("the vectors hold numbers that are not finite")
        scale = (SCALE / np.where(length > 0, length, 1.0)).astype(np.float32)
        np.rint(rows * scale[:, None], out=rounded[start : start + _BLOCK])
    return rounded


def lowest_product(threshold: float) -> float:
    """The smallest dot product of rounded vectors that reaches a cosine."""
    return float(math.ceil(round(threshold * SCALE**2, 3)))


def similarities(vectors: Vectors, leaders: Integers) -> Floats:
    """Cosine of each row to its leader, to four decimals; 1 for a leader."""
    products = np.empty(len(vectors))
    for start in range(0, len(vectors), _BLOCK):
        block = slice(start, start + _BLOCK)
        products[block] = np.einsum("ij,ij->i", vectors[block], vectors[leaders[block]])
    found = np.round(np.clip(products / SCALE**2, -1.0, 1.0), 4)
    return np.where(leaders == np.arange(len(vectors)), 1.0, found)


# -- leaders ----------------------------------------------------------------------------------------------------------


def follow_leaders(vectors: Vectors, threshold: float, roots: Roots) -> Integers:
    """The leader's row for each row; a leader has its own.

    Candidates come in order. Each joins the most similar leader so far that reaches the threshold and whose cluster it may enter, or
    becomes a leader itself; leaders stay leaders. The result is that of the plain loop, whatever the block size.

    Parameters
    ----------
    vectors
        From `round_vectors`, the candidates in order; shape (candidates, dimensions).
    threshold
        As `lowest_product` gives it.
    roots
        No cluster may hold a root and its negation.
    """
    chosen = np.arange(len(vectors))
    leaders = chosen[:0]
    held: dict[int, frozenset[int]] = {}
    for start in range(0, len(vectors), _LEADER_BLOCK):
        block = vectors[start : start + _LEADER_BLOCK]
        columns = np.concatenate([leaders, np.arange(start, start + len(block))])
        products = block @ vectors[columns].T
        leads = columns < start
        for place, row in enumerate(columns[len(leaders) :].tolist()):
            near = np.flatnonzero(leads & (products[place] >= threshold))
            nearest = columns[near[np.argsort(-products[place, near], kind="stable")]]  # of equals the first leader
            own = roots.get(row, frozenset())
            leader = next((one for one in nearest.tolist() if not conflict(own, held.get(one, ()))), row)
            held[leader] = held.get(leader, frozenset()) | own
            chosen[row], leads[len(leaders) + place] = leader, leader == row
        leaders = columns[leads]
    return chosen


# -- linkage ----------------------------------------------------------------------------------------------------------


def linked_components(vectors: Vectors, threshold: float, roots: Roots) -> Integers:
    """First row of the connected component of each row.

    Links are taken from the strongest down; each that would join a root and its negation is left out.
    """
    from scipy.cluster.hierarchy import DisjointSet

    links = _spanning_forest(vectors, threshold).tocoo()
    clusters = DisjointSet(range(len(vectors)))
    held = {row: set(found) for row, found in roots.items()}
    for link in np.lexsort((links.col, links.row, links.data)):
        one, other = clusters[int(links.row[link])], clusters[int(links.col[link])]
        if not conflict(held.get(one, ()), held.get(other, ())):
            clusters.merge(one, other)
            held[clusters[one]] = held.get(one, set()) | held.get(other, set())
    return _first_rows(np.array([clusters[row] for row in range(len(vectors))], dtype=np.int64))


def average_linkage(vectors: Vectors, threshold: float, roots: Roots) -> Integers:
    """First row of the cluster of each row: agglomerative clustering by the mean similarity of all pairs, cut at the threshold.

    Two clusters whose mean reaches the threshold hold a pair that does, so each connected component is clustered by itself, with the
    true similarities of all its pairs: time and memory grow with the square of the largest component.

    Raises
    ------
    InputError
        A component has more than MOST_IN_COMPONENT phrases.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial.distance import squareform

    labels = connected_components(_spanning_forest(vectors, threshold), directed=False)[1]
    named = np.arange(len(vectors))
    for rows in _rows_alike(labels):
        if rows.size > MOST_IN_COMPONENT:
            raise InputError(
                f"method average: {rows.size} phrases hang together at this threshold, more than the {MOST_IN_COMPONENT} "
                "that can be compared each with each; raise the threshold or use the method leader"
            )
        distance = 1.0 - (vectors[rows] @ vectors[rows].T).astype(np.float64) / SCALE**2
        holders: dict[int, list[int]] = {}
        for place, row in enumerate(rows.tolist()):
            for root in roots.get(row, ()):
                holders.setdefault(root, []).append(place)
        for root, places in holders.items():
            distance[np.ix_(places, holders.get(root ^ 1, []))] = _NEVER
        np.fill_diagonal(distance, 0.0)
        tree = linkage(squareform(distance, checks=False), "average")
        named[rows] = rows[_first_rows(fcluster(tree, 1.0 - threshold / SCALE**2 + 1e-12, "distance"))]
    return named


def _first_rows(labels: NDArray[np.integer[Any]]) -> Integers:
    """The first row with the same label, for each row."""
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    named: Integers = first[place].astype(np.int64)
    return named


def _spanning_forest(vectors: Vectors, threshold: float) -> csr_array:
    """The strongest links that hold each connected component of the pairs above the threshold together; values fall with the product.

    Links are pruned to a forest block by block, so that memory does not grow with the number of pairs.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    count = len(vectors)
    forest = csr_array((count, count))
    for top in range(0, count, _BLOCK):
        for left in range(top, count, _BLOCK):
            products = vectors[top : top + _BLOCK] @ vectors[left : left + _BLOCK].T
            row, column = np.nonzero(products >= threshold)
            row, column = row[row + top < column + left], column[row + top < column + left]
            # Lengths are positive whatever the rounding: SciPy takes a zero for "no link".
            length = 2.0 * SCALE**2 - products[row, column]
            forest = minimum_spanning_tree(forest + csr_array((length, (row + top, column + left)), shape=(count, count)))
    return forest


_CLUSTERERS = {"leader": follow_leaders, "components": linked_components, "average": average_linkage}
