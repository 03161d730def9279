"""Unifying: many phrases, few concepts. Unique strings, one vocabulary for the whole study, the same result every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter.associations._tables import CONCEPTS
from tiltmeter.associations.unifying._guards import guard_keys, signed_roots
from tiltmeter.associations.unifying._spelling import folded, normal_form
from tiltmeter.associations.unifying._terms import load_terms
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Cluster = Callable[[NDArray[np.float32], float, Mapping[int, frozenset[int]]], NDArray[np.int64]]

__all__ = ["METHODS", "THRESHOLD", "sweep", "unify"]

METHODS = ("leader", "components", "average")
THRESHOLD = 0.63
"""The paper's."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Unique strings in order, and what decides about them."""

    spellings: pl.DataFrame
    """`phrase`, `mentions` and `unit`: the number of the phrase's unique string."""
    names: pl.Series
    """The most frequent spelling of each unique string, the most frequent string first."""
    keys: NDArray[np.int64]
    roots: Mapping[int, frozenset[int]]
    vectors: NDArray[np.float32] | None


def unify(
    phrases: pl.DataFrame,
    vectors: NDArray[np.float32] | None,
    *,
    threshold: float = THRESHOLD,
    method: str = "leader",
    terms: str | None = None,
    strict: bool = True,
) -> pl.DataFrame:
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
        Cosine similarity in (0, 1].
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
        Unknown method, threshold out of range, unusable file of terms, or a component too large for "average".
    ValueError
        A phrase stands there twice, or vectors and phrases differ in number.
    """
    _check(method, threshold)
    return _clustered(_candidates(phrases, vectors, terms, strict=strict), threshold, method)


def sweep(
    phrases: pl.DataFrame,
    vectors: NDArray[np.float32],
    gold: Sequence[Any],
    thresholds: Sequence[float],
    method: str = "leader",
    *,
    terms: str | None = None,
) -> pl.DataFrame:
    """How well unifying agrees with known clusters at each threshold.

    Parameters
    ----------
    gold
        The known cluster of each phrase, same order.

    Returns
    -------
    One row per threshold: `threshold`, `clusters`, `homogeneity`, `completeness`, `v_measure`, `bcubed_precision`, `bcubed_recall`,
    `bcubed_f`; each phrase counts once, however often it was mentioned.

    Raises
    ------
    InputError, ValueError
        As `unify`; also when `gold` and `phrases` differ in number.
    """
    from tiltmeter.stats import b_cubed, v_measure

    for threshold in thresholds:
        _check(method, threshold)
    candidates = _candidates(phrases, vectors, terms)
    rows = []
    for threshold in thresholds:
        concepts = _clustered(candidates, threshold, method)["concept"].to_numpy()
        v, b = v_measure(list(gold), concepts), b_cubed(list(gold), concepts)
        rows.append((threshold, len(set(concepts)), *v, *b))
    names = ("homogeneity", "completeness", "v_measure", "bcubed_precision", "bcubed_recall", "bcubed_f")
    schema = {"threshold": pl.Float64, "clusters": pl.Int64, **dict.fromkeys(names, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _check(method: str, threshold: float) -> None:
    if method not in METHODS:
        raise InputError(f"unknown method {method!r} of unifying: {did_you_mean(method, METHODS)}")
    if not 0 < threshold <= 1:
        raise InputError(f"the threshold of unifying must be a similarity above 0 and at most 1, not {threshold}")


def _candidates(phrases: pl.DataFrame, vectors: NDArray[np.float32] | None, terms: str | None, *, strict: bool = True) -> _Candidates:
    if phrases["phrase"].is_duplicated().any():
        raise ValueError("each phrase may stand there once")
    if vectors is not None and (vectors.ndim != 2 or len(vectors) != phrases.height):
        raise ValueError(f"{phrases.height} phrases need as many vectors, not an array of shape {vectors.shape}")
    words = load_terms(terms)
    spelt = phrases.select("phrase", "mentions", form=normal_form(pl.col("phrase"))).with_row_index("row")
    by_use = spelt.sort("mentions", "phrase", descending=[True, False])
    units = (
        by_use.group_by("form", maintain_order=True)
        .agg(pl.col("phrase", "row").first(), pl.col("mentions").sum())
        .sort("mentions", "phrase", descending=[True, False])
        .with_row_index("unit")
    )
    spellings = spelt.join(units.select("form", "unit"), on="form", how="left", maintain_order="left").select("phrase", "mentions", "unit")
    names = units["phrase"]
    keys = guard_keys(names, words, strict=strict)
    if vectors is None:
        return _Candidates(spellings, names, keys, {}, None)
    from tiltmeter.associations.unifying._pairs import exact

    return _Candidates(
        spellings, names, keys, signed_roots(names, words, strict=strict), exact(vectors, units["row"].cast(pl.Int64).to_numpy())
    )


def _clustered(candidates: _Candidates, threshold: float, method: str) -> pl.DataFrame:
    import numpy as np

    every = np.arange(len(candidates.names))
    if candidates.vectors is None:
        leaders = _same_words(candidates)
        similarity = pl.Series(np.where(leaders == every, 1.0, np.nan)).fill_nan(None)
    else:
        from tiltmeter.associations.unifying._pairs import similarity as cosines

        leaders = _similar(candidates, candidates.vectors, threshold, method)
        similarity = pl.Series(cosines(candidates.vectors, every, leaders))
    units = pl.DataFrame({"unit": every, "concept": candidates.names.gather(leaders), "similarity": similarity})
    made = candidates.spellings.join(units.cast({"unit": pl.UInt32}), on="unit", how="left", maintain_order="left")
    return made.select(pl.col(name).cast(kind) for name, kind in CONCEPTS.items())


def _same_words(candidates: _Candidates) -> NDArray[np.int64]:
    """The first string with the same words, for each."""
    table = pl.DataFrame({"fold": folded(candidates.names), "key": candidates.keys}).with_row_index("unit")
    first: NDArray[np.int64] = table.select(pl.col("unit").first().over("fold", "key").cast(pl.Int64)).to_series().to_numpy()
    return first


def _similar(candidates: _Candidates, vectors: NDArray[np.float32], threshold: float, method: str) -> NDArray[np.int64]:
    """The string that names the cluster of each, guard key by guard key."""
    import numpy as np

    from tiltmeter.associations.unifying._pairs import lowest

    cluster, reach = _cluster(method), lowest(threshold)
    leaders = np.arange(len(vectors))
    order = np.argsort(candidates.keys, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(candidates.keys[order])) + 1):
        if rows.size > 1:
            roots = {place: candidates.roots[row] for place, row in enumerate(rows.tolist()) if row in candidates.roots}
            whole = rows.size == len(vectors)
            leaders[rows] = rows[cluster(vectors if whole else vectors[rows], reach, roots)]
    return leaders


def _cluster(method: str) -> Cluster:
    from tiltmeter.associations.unifying._leader import follow_leaders
    from tiltmeter.associations.unifying._linkage import average_linkage, linked_components

    return dict(zip(METHODS, (follow_leaders, linked_components, average_linkage), strict=True))[method]
