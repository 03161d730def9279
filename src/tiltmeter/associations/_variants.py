"""Associations of a group that are variants of one another.

"Olive skin" is a variant of "olive" if nearly all texts with the rarer of the two contain both, and they
share a word. A variant is counted and tested as any other association. Reports show it in the row of the
strongest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from polars import DataFrame, Series, String, col

from tiltmeter.associations._expressions import expression_key
from tiltmeter.associations._tables import OWNER
from tiltmeter.readers._words_in_sentences import word_lists
from tiltmeter.schema import beside

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tiltmeter._arrays import Integers

NESTED: Final = 0.9
"""An association is nested in another if at least this share of the lists with the rarer one contain both."""
_PLACE: Final = ["identity", "context", "against"]


def with_variants(associations: DataFrame, mentions: DataFrame, language: str) -> DataFrame:
    """Add `variant_of` to reported associations: the label of the one of which they are a variant, or null.

    Two associations of a group are variants if they share a word, and at least NESTED of the lists with the
    rarer of the two contain both. The one with the higher lower end of its interval represents both, or the
    other one if that is a word that says little alone.

    Parameters
    ----------
    associations
        ASSOCIATIONS with `label`.
    mentions
        MENTIONS with `concept`, `identity` and `context`.
    language
        The language of the texts.
    """
    strength = pl.coalesce("low", "effect")
    rows = associations.with_row_index("row").filter("reported")
    rows = rows.select("row", "concept", "label", "count", *_PLACE, strength=strength)
    rows = rows.with_columns(key=expression_key(rows["concept"], language))
    is_general = col.key.is_in(word_lists(language)["general"])
    number_of_words = col.key.str.count_matches(" ")
    descending = [False, True, True, True, False]
    strongest_first = rows.sort(
        is_general, "strength", "count", number_of_words, "concept", descending=descending
    )
    distinct = mentions.select(*OWNER, "concept", "identity", "context").unique()
    tables = [
        _variants_in_place(rows_of_place, distinct, language)
        for _, rows_of_place in strongest_first.group_by(_PLACE, maintain_order=True)
    ]
    empty = DataFrame(schema={"row": pl.UInt32, "variant_of": String})
    variants = pl.concat([empty, *tables])
    return beside(associations.with_row_index("row"), variants, "row").drop("row")


def _variants_in_place(rows: DataFrame, mentions: DataFrame, language: str) -> DataFrame:
    """Return `row` and `variant_of` of the associations of one group, the strongest first."""
    identity = rows["identity"][0]
    context = rows["context"][0]
    of_place = mentions.filter(identity=identity)
    if context is not None:
        of_place = of_place.filter(context=context)
    concepts = rows.select("concept", place=pl.int_range(pl.len()))
    in_lists = of_place.join(concepts, on="concept").with_columns(list=pl.struct(OWNER).rank("dense") - 1)
    lists = _incidence(in_lists["place"], in_lists["list"], rows.height)
    words = rows.select(place=pl.int_range(pl.len()), word=col.key.str.split(" ")).explode("word")
    words = words.filter(~col.word.is_in(word_lists(language)["links"] | {"not"}))
    words = words.with_columns(word_number=col.word.rank("dense") - 1)
    shared_words = _incidence(words["place"], words["word_number"], rows.height)
    head = _heads(lists, shared_words)
    label = rows["label"].gather(head)
    is_variant = Series(head != np.arange(rows.height))
    return rows.select("row", variant_of=pl.when(is_variant).then(label))


def _incidence(rows: Series, columns: Series, number_of_rows: int) -> csr_array:
    """Return a sparse matrix of 0 and 1, shape (number_of_rows, n)."""
    from scipy.sparse import csr_array

    number_of_columns = 0 if columns.is_empty() else int(columns.max()) + 1  # type: ignore[arg-type]
    shape = (number_of_rows, number_of_columns)
    ones = np.ones(len(rows), dtype=np.int64)
    matrix = csr_array((ones, (rows.to_numpy(), columns.to_numpy())), shape=shape)
    matrix.data[:] = 1
    return matrix


def _heads(lists: csr_array, words: csr_array) -> Integers:
    """Return for each association the strongest one of which it is a variant, or itself, shape (n,).

    It is nested in that one, and shares a word with it or with another variant of it.

    Parameters
    ----------
    lists
        Which lists contain each association, the strongest association first, shape (n, lists).
    words
        Which words each association has, shape (n, words).
    """
    together = (lists @ lists.T).tocoo()
    counts = lists.sum(axis=1)
    rarer = np.minimum(counts[together.row], counts[together.col])
    is_nested = (together.col < together.row) & (together.data >= NESTED * rarer)
    weaker, stronger = together.row[is_nested], together.col[is_nested]
    nested = frozenset(zip(weaker.tolist(), stronger.tolist(), strict=True))
    share_word = np.asarray((words[weaker] * words[stronger]).sum(axis=1)) > 0
    weaker, stronger = weaker[share_word], stronger[share_word]
    head = np.arange(lists.shape[0])
    order = np.lexsort((stronger, weaker))
    for variant, candidate in zip(weaker[order].tolist(), stronger[order].tolist(), strict=True):
        head_of_candidate = int(head[candidate])
        if head[variant] == variant and (variant, head_of_candidate) in nested:
            head[variant] = head_of_candidate
    return head
