"""Lists and their concepts as arrays: which list holds which concept, and how many lists of each identity do, for every test at once.

A *test* is a concept in a context. L lists, P pairs of a list and a concept in it, T tests, K identities, C contexts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.errors import InputError

__all__ = ["COUNTS", "Cells", "Incidence", "cells_of", "incidence_of", "place_of", "read_cells", "strata_of"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

COUNTS = {
    "context": pl.String,
    "concept": pl.String,
    "identity": pl.String,
    "count": pl.Int64,  # lists of the identity with the concept
    "lists": pl.Int64,  # lists of the identity in the context, whatever the concept
    "mentions": pl.Int64,  # of any concept in them; null where it is not known
}
"""Columns of a table of counts: one row for every identity of the context, count 0 included, for each concept in it."""


class Cells(NamedTuple):
    """How many lists of each identity hold each concept in each context."""

    contexts: pl.Series  # C names, null last; null: lists that lie in no context
    concepts: pl.Series
    identities: pl.Series  # K names
    context: Index  # (T,) place in `contexts`
    concept: Index  # (T,) place in `concepts`; tests are in order of concept, then context
    held: Floats  # (T, K) lists that hold the concept
    lists: Floats  # (C, K)
    mentions: Floats  # (C, K); NaN where it is not known


class Incidence(NamedTuple):
    """Which list holds which concept."""

    cells: Cells
    identity: Index  # (L,)
    context: Index  # (L,)
    stratum: Index  # (L,)
    descriptor: Index  # (L,) place in `descriptors`; -1: not known
    repetition: Index  # (L,) rank among the repetitions there are; -1: not known
    said: Floats  # (L,) mentions
    descriptors: pl.DataFrame  # identity (place), descriptor (name): those there are
    pair_list: Index  # (P,)
    pair_test: Index  # (P,)


def incidence_of(lists: pl.DataFrame, mentions: pl.DataFrame) -> Incidence:
    """Number lists, concepts and tests.

    Parameters
    ----------
    lists
        With the columns of LISTS; those whose status is "missing" do not count.
    mentions
        `attempt`, `character` and `concept`; several mentions of a concept in a list count once, and a mention without a concept
        (null) is a mention only.

    Raises
    ------
    InputError
        The lists are of fewer than two identities.
    """
    counted = lists.filter(pl.col("status") != "missing").with_row_index("list")
    identities = _names(counted["identity"])
    if len(identities) < 2:
        raise InputError(_too_few(lists, identities))
    contexts, strata = _names(counted["context"]), _names(counted["stratum"])
    descriptors = (
        counted.select(place_of(counted["identity"], identities), "descriptor").drop_nulls().unique().sort("identity", "descriptor")
    )
    codes = counted.select(
        place_of(counted["identity"], identities),
        place_of(counted["context"], contexts),
        place_of(counted["stratum"], strata),
        pl.col("descriptor"),
        pl.col("repetition").rank("dense").cast(pl.Int64).sub(1).fill_null(-1),
    ).join(descriptors.with_row_index("place"), on=["identity", "descriptor"], how="left", maintain_order="left")
    said = mentions.select("attempt", "character", "concept").join(
        counted.select("list", "attempt", "character"), on=["attempt", "character"], how="inner"
    )
    identity, context = _index(codes["identity"]), _index(codes["context"])
    told = np.bincount(_index(said["list"]), minlength=counted.height).astype(np.float64)
    held = said.select("list", "concept").drop_nulls()
    concepts = _names(held["concept"])
    of_concept = _index(held.select(place_of(held["concept"], concepts)).to_series())
    # Sorted by ourselves: np.unique hashes, which takes six times as long for millions of keys.
    pairs = np.sort(_index(held["list"]) * max(len(concepts), 1) + of_concept)
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    pair_list, pair_concept = np.divmod(pairs, max(len(concepts), 1))
    keys, pair_test = np.unique(pair_concept * len(contexts) + context[pair_list], return_inverse=True)
    concept_of, context_of = np.divmod(keys, len(contexts))
    empty = np.zeros((0, 0))
    frame = Cells(contexts, concepts, identities, context_of, concept_of, empty, empty, empty)
    made = Incidence(
        frame,
        identity,
        context,
        _index(codes["stratum"]),
        _index(codes["place"].cast(pl.Int64).fill_null(-1)),
        _index(codes["repetition"]),
        told,
        descriptors,
        pair_list,
        pair_test.astype(np.intp),
    )
    return made._replace(cells=cells_of(made, identity))


def cells_of(incidence: Incidence, identity: Index, chosen: NDArray[np.bool_] | None = None) -> Cells:
    """Count: every list as one of the given `identity` (L,), only the `chosen` lists (L,) where they are given."""
    cells = incidence.cells
    k = len(cells.identities)
    weight = np.ones(len(identity)) if chosen is None else chosen.astype(np.float64)
    cell, shape = incidence.context * k + identity, (len(cells.contexts), k)
    tests = len(cells.context)
    pair = incidence.pair_test * k + identity[incidence.pair_list]
    held = _summed(pair, weight[incidence.pair_list], (tests, k))
    return cells._replace(held=held, lists=_summed(cell, weight, shape), mentions=_summed(cell, weight * incidence.said, shape))


def strata_of(cells: Cells, concepts: Index) -> Floats:
    """Counts of the given concepts (R,) in all contexts, 0 where a concept does not occur: (R, K, C)."""
    keys = cells.concept * len(cells.contexts) + cells.context
    wanted = concepts[:, None] * len(cells.contexts) + np.arange(len(cells.contexts))
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    there = keys[place] == wanted
    return np.where(there[..., None], cells.held[place], 0.0).transpose(0, 2, 1)


def read_cells(counts: pl.DataFrame) -> tuple[Cells, Index, Index]:
    """Cells of a table of COUNTS, with the test and the identity of each of its rows.

    Raises
    ------
    InputError
        A column is missing; a row stands twice; an identity of a context has no row for a concept of it; counts do not lie
        between 0 and the lists and mentions; lists or mentions of an identity differ within a context.
    """
    for name in COUNTS:
        if name not in counts.columns:
            raise InputError(f"the table of counts has no column {name!r}; it needs {', '.join(COUNTS)}")
    contexts, concepts, identities = (_names(counts[name]) for name in ("context", "concept", "identity"))
    if len(identities) < 2:
        raise InputError(f"the table of counts is of {len(identities)} identity, so there is nothing to compare: it needs two or more")
    places = (("context", contexts), ("concept", concepts), ("identity", identities))
    context, concept, identity = (_index(counts.select(place_of(counts[name], names)).to_series()) for name, names in places)
    keys, test = np.unique(concept * max(len(contexts), 1) + context, return_inverse=True)
    concept_of, context_of = np.divmod(keys, max(len(contexts), 1))
    k = len(identities)
    count, lists = (counts[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in ("count", "lists"))
    mentions = counts["mentions"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    _refuse(counts, ~((count >= 0) & (count <= lists)), "needs a count between 0 and its lists")
    _refuse(counts, mentions < count, "has fewer mentions than lists with the concept")
    places_of = test * k + identity
    first = np.zeros(len(places_of), dtype=bool)
    first[np.unique(places_of, return_index=True)[1]] = True
    _refuse(counts, ~first, "stands twice")
    whole = np.zeros((len(keys), k))
    whole[test, identity] = count
    sizes, said = np.zeros((len(contexts), k)), np.zeros((len(contexts), k))
    sizes[context, identity], said[context, identity] = lists, mentions
    _refuse(counts, lists != sizes[context, identity], "has other lists than other rows of the identity in this context")
    # NaN: not known, which must hold for all of them.
    same = (mentions == said[context, identity]) | (np.isnan(mentions) & np.isnan(said[context, identity]))
    _refuse(counts, ~same, "has other mentions than other rows of the identity in this context")
    there = np.zeros((len(contexts), k), dtype=bool)
    there[context, identity] = True
    lacking = np.bincount(test, minlength=len(keys))[test] < there.sum(axis=1)[context]
    _refuse(counts, lacking, "is not beside a row for every other identity of the context (count 0 where it never has the concept)")
    return Cells(contexts, concepts, identities, context_of, concept_of, whole, sizes, said), test.astype(np.intp), identity


def _summed(place: Index, weight: Floats, shape: tuple[int, int]) -> Floats:
    return np.bincount(place, weight, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape)


def _refuse(counts: pl.DataFrame, wrong: NDArray[np.bool_], what: str) -> None:
    if wrong.any():
        row = counts.row(int(np.flatnonzero(wrong)[0]), named=True)
        raise InputError(f"the row of counts for {row['concept']!r}, {row['identity']!r} in {row['context']!r} {what}")


def _too_few(lists: pl.DataFrame, identities: pl.Series) -> str:
    if not len(identities):
        return "there is no list of concepts at all, so there is nothing to compare"
    other = lists.filter(pl.col("identity") != identities[0]).height
    why = f"; the {other:,} lists of others are missing" if other else ""
    return f"all lists are of one identity, {identities[0]!r}, so there is nothing to compare it with{why}: give texts about two or more"


def _names(column: pl.Series) -> pl.Series:
    """The values there are, in alphabetical order, null last."""
    return column.cast(pl.String).unique().sort(nulls_last=True)


def place_of(column: pl.Series, names: pl.Series) -> pl.Series:
    """Where each value stands in `names`, under the column's own name."""
    codes = pl.DataFrame({"name": names, "place": np.arange(len(names))})
    found = column.cast(pl.String).to_frame("name").join(codes, on="name", how="left", nulls_equal=True, maintain_order="left")
    return found["place"].alias(column.name)


def _index(column: pl.Series) -> Index:
    return column.to_numpy().astype(np.intp)
