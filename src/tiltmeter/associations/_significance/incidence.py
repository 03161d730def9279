"""Incidence of concepts in lists, and the numbers of lists by concept, context and identity, as arrays.

The dimensions are L lists, P pairs of a list and a concept in it, X concepts, C contexts and K identities.
Shuffled identities are processed in the same way as the real ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col

from tiltmeter._arrays import Floats, Index
from tiltmeter._files.tables import UserTable
from tiltmeter.errors import InputError
from tiltmeter.schema import beside, conform

COUNTS: Final = {
    "context": String,
    "concept": String,
    "identity": String,
    "count": Int64,  # lists of the identity with the concept
    "lists": Int64,  # all lists of the identity in the context
    "mentions": Int64,  # mentions of any concept in these lists; null if unknown
}
"""Columns of a table of counts: one row for each concept in a context and every identity in it, including
counts of 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Numbers of lists that contain each concept, by context and identity."""

    contexts: Series  # C names, null last; null: lists without a context
    concepts: Series  # X names
    identities: Series  # K names
    with_concept: Floats  # (X, C, K) lists that contain the concept
    lists: Floats  # (C, K)
    mentions: Floats  # (C, K); NaN if unknown


@dataclass(frozen=True, slots=True, eq=False)
class Incidence:
    """Incidence of concepts in lists."""

    cells: Cells
    identity: Index  # (L,)
    context: Index  # (L,)
    stratum: Index  # (L,)
    descriptor: Index  # (L,) index in `descriptors`; -1: unknown
    repetition: Index  # (L,) rank of the repetition; -1: unknown
    name: Index  # (L,) index of the first name; -1: unknown
    story: Index  # (L,) index of the story, of the pair of texts, or of the user's cluster of texts
    paired: bool  # whether texts are compared within pairs
    clustered: bool  # whether `story` is the user's cluster
    mentions: Floats  # (L,) number of mentions
    descriptors: DataFrame  # `identity` (index) and `descriptor` (name), grouped by identity
    pair_list: Index  # (P,)
    pair_test: Index  # (P,) number of the concept in a context, concept * C + context, in ascending order


def counted_lists(lists: DataFrame) -> DataFrame:
    """Return the lists (LISTS) that are not missing, with `pair`, `cluster` and `story`.

    The story of texts of the user is their pair, or their cluster. The first name of paired texts is replaced
    by their cluster, if known.
    """
    complete = conform(lists, {"pair": String, "cluster": String}, further=True)
    counted = complete.filter(col.status != "missing")
    if counted["pair"].count() > 0:
        return counted.with_columns(name=pl.coalesce("cluster", "name"), story=pl.coalesce("pair", "attempt"))
    return counted.with_columns(story=pl.coalesce("cluster", "attempt"))


def incidence_of(lists: DataFrame, mentions: DataFrame) -> Incidence:
    """Build the incidence of concepts in lists.

    Parameters
    ----------
    lists
        LISTS; rows with the status "missing" are ignored.
    mentions
        `attempt`, `character` and `concept`. Several mentions of a concept in a list count once. A mention
        without a concept (null) counts as a mention only.

    Raises
    ------
    InputError
        There are lists of fewer than two identities.
    """
    counted = counted_lists(lists).with_row_index("list")
    identities, identity = _numbered(counted["identity"])
    _check_two(identities)
    contexts, context = _numbered(counted["context"])
    _, stratum = _numbered(counted["stratum"])

    descriptor_of_list = counted.select("descriptor", identity=Series(identity))
    descriptors = descriptor_of_list.drop_nulls().unique().sort("identity", "descriptor")
    place = beside(descriptor_of_list, descriptors.with_row_index("place"), "descriptor", "identity")["place"]

    owner = ["attempt", "character"]
    mentioned = mentions.select(*owner, "concept").join(counted.select("list", *owner), on=owner)
    pairs = mentioned.select("list", "concept").drop_nulls().unique()
    concepts, concept = _numbered(pairs["concept"])
    pair_list = _index(pairs["list"])
    pair_test = concept * len(contexts) + context[pair_list]
    order = np.lexsort((pair_list, pair_test))

    paired = counted["pair"].count() > 0
    empty = np.zeros(0)
    incidence = Incidence(
        cells=Cells(contexts, concepts, identities, with_concept=empty, lists=empty, mentions=empty),
        identity=identity,
        context=context,
        stratum=stratum,
        descriptor=_index(place),
        repetition=_ranks(counted["repetition"]),
        name=_ranks(counted["name"]),
        story=_ranks(counted["story"]),
        paired=paired,
        clustered=counted["cluster"].count() > 0 and not paired,
        mentions=summed(_index(mentioned["list"]), (counted.height,)),
        descriptors=descriptors,
        pair_list=pair_list[order],
        pair_test=pair_test[order],
    )
    return replace(incidence, cells=cells_of(incidence, identity))


def cells_of(incidence: Incidence, identity: Index) -> Cells:
    """Count the lists under the given identities, shape (L,); lists with -1 are left out."""
    cells = incidence.cells
    identities = len(cells.identities)
    shape = (len(cells.contexts), identities)
    counted = identity >= 0
    cell = (incidence.context * identities + identity)[counted]
    pair = incidence.pair_test * identities + identity[incidence.pair_list]
    pair = pair[counted[incidence.pair_list]]
    return replace(
        cells,
        with_concept=summed(pair, (len(cells.concepts), *shape)),
        lists=summed(cell, shape),
        mentions=summed(cell, shape, incidence.mentions[counted]),
    )


def only_concepts(incidence: Incidence, concepts: Index) -> Incidence:
    """Keep only some of the concepts, given in ascending order; mentions are unchanged."""
    cells = incidence.cells
    concept, context = np.divmod(incidence.pair_test, len(cells.contexts))
    is_kept = np.isin(concept, concepts)
    selected = replace(
        cells, concepts=cells.concepts.gather(concepts), with_concept=cells.with_concept[concepts]
    )
    tests = np.searchsorted(concepts, concept) * len(cells.contexts) + context
    return replace(
        incidence, cells=selected, pair_list=incidence.pair_list[is_kept], pair_test=tests[is_kept]
    )


@dataclass(frozen=True, slots=True, eq=False)
class CountRows:
    """A table of counts as cells, with the indices of each of its N rows."""

    cells: Cells
    concept: Index  # (N,)
    context: Index  # (N,)
    identity: Index  # (N,)


def read_counts_table(counts: DataFrame) -> CountRows:
    """Convert a table of counts (see `compare_counts`) to cells.

    Raises
    ------
    InputError
        A column is missing, a row occurs twice, an identity of a context has no row for a concept in it, a
        count is not between 0 and the numbers of lists and mentions, or numbers of lists or mentions of an
        identity differ within a context.
    """
    table = UserTable.of("the table of counts", counts)
    table.demand(COUNTS)
    for is_invalid, column, message in _CHECKS_OF_COUNTS:
        table.refuse(is_invalid, column, message)
    table.refuse_repeats(("context", "concept", "identity"))
    contexts, context = _numbered(counts["context"])
    concepts, concept = _numbered(counts["concept"])
    identities, identity = _numbered(counts["identity"])
    _check_two(identities)
    shape = (len(contexts), len(identities))
    with_concept = np.zeros((len(concepts), *shape))
    with_concept[concept, context, identity] = _floats(counts["count"])
    lists = np.zeros(shape)
    lists[context, identity] = _floats(counts["lists"])
    mentions = np.zeros(shape)
    mentions[context, identity] = _floats(counts["mentions"])
    cells = Cells(contexts, concepts, identities, with_concept, lists, mentions)
    return CountRows(cells, concept, context, identity)


_OF_IDENTITY: Final = ("context", "identity")
_CHECKS_OF_COUNTS: Final = (
    (
        ~col.count.is_between(0, col.lists).fill_null(False),
        "count",
        "must be between 0 and the number of lists",
    ),
    (col.mentions < col.count, "mentions", "must not be smaller than the number of lists with the concept"),
    (
        col.lists.n_unique().over(_OF_IDENTITY) > 1,
        "lists",
        "differs from that of other rows of the identity in this context",
    ),
    (
        col.mentions.n_unique().over(_OF_IDENTITY) > 1,
        "mentions",
        "differs from that of other rows of the identity in this context",
    ),
    (
        pl.len().over("context", "concept") < col.identity.n_unique().over("context"),
        "concept",
        "lacks rows for other identities of the context (with a count of 0 if they never have the concept)",
    ),
)
"""Conditions for invalid rows of a table of counts, with column and error message."""


def place_of(column: Series, names: Series) -> Series:
    """Return the index of each value in `names`; null if it is not in `names`."""
    return column.cast(String).replace_strict(names, pl.int_range(len(names), eager=True), default=None)


def context_names(cells: Cells, context: Index) -> Series:
    """Return the names of contexts; null for tests over all contexts (-1)."""
    return cells.contexts.gather(Series(context).replace(-1, None))


def summed(place: Index, shape: tuple[int, ...], weight: Floats | None = None) -> Floats:
    """Return how often each place of an array of this shape occurs, or the sum of the weights there."""
    return np.bincount(place, weight, minlength=math.prod(shape)).astype(np.float64).reshape(shape)


def _numbered(column: Series) -> tuple[Series, Index]:
    """Return the distinct values in alphabetical order, null last, and the index of each value."""
    names = column.cast(String).unique().sort(nulls_last=True)
    return names, _index(place_of(column, names))


def _ranks(column: Series) -> Index:
    """Return the dense rank of each value, from 0; -1 for null."""
    return _index(column.rank("dense") - 1)


def _index(column: Series) -> Index:
    """Return indices as an array; -1 for null."""
    return column.cast(Int64).fill_null(-1).to_numpy()


def _floats(column: Series) -> Floats:
    """Return numbers as an array; NaN for null."""
    return column.cast(Float64).fill_null(np.nan).to_numpy()


def _check_two(identities: Series) -> None:
    if len(identities) < 2:
        names = ", ".join(map(repr, identities)) or "none"
        raise InputError(
            "a comparison needs lists of at least two identities, not counting missing ones, "
            f"but there is {names}"
        )
