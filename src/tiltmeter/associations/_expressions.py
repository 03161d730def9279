"""Concepts of words and phrases that are read without a judge.

A concept is one expression: a word or a phrase in all forms of its words ("keeps a diary", "kept the diary").
Expressions with different words are different concepts, so that the share of a concept is the share of the
texts that say it; only a part that hardly occurs outside an expression is the same concept. Expressions that
often occur together are combined in the report, see `variants`.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from polars import DataFrame, Expr, Series, col, lit, when

from tiltmeter.associations._concepts import normal_form
from tiltmeter.associations._tables import CONCEPTS, OWNER
from tiltmeter.associations._terms import load_terms
from tiltmeter.readers._lemmas import lemmas_of
from tiltmeter.readers._words_in_sentences import word_lists
from tiltmeter.schema import beside, conform

NEARLY_ALWAYS: Final = 0.9
"""An expression and its part are one concept if at least this share of the lists with either contain both."""
_PLACEHOLDERS: Final = frozenset({"one's", "..."})
"""What replaces words in a phrase, in its normal form."""


def unify_words(
    phrases: DataFrame, language: str = "en", terms: str | None = None, *, mentions: DataFrame | None = None
) -> DataFrame:
    """Return the map from phrase to concept (CONCEPTS), whose rows are in the order of `phrases`.

    The most frequent form of an expression names it. An expression and a part of it that occur in nearly the
    same lists are one concept ("motor" and "motor bike").

    Parameters
    ----------
    phrases
        `phrase` (unique) and `mentions`.
    language
        The language of the phrases.
    terms
        YAML file of the user in the format of `terms.yaml`. The name of a group ("black") is a concept of its
        own.
    mentions
        MENTIONS. Without them, every expression is a concept.

    Raises
    ------
    InputError
        The file of terms is invalid.
    """
    rows = phrases.select("phrase", "mentions", key=expression_key(phrases["phrase"], language))
    units = rows.group_by("key", maintain_order=True).agg(uses=col.mentions.sum()).with_row_index("unit")
    concept_number = Series(np.arange(units.height))
    if mentions is not None:
        lists = mentions.select(*OWNER, "phrase").join(rows.select("phrase", "key"), on="phrase")
        lists = lists.join(units.select("key", "unit"), on="key").select(*OWNER, "unit").unique()
        links = _nearly_equal(_parts_of(units, load_terms(terms).called), lists)
        concept_number = _linked(links, units.height)
    rows = beside(rows, units.with_columns(concept_number=concept_number), "key")
    order = ["uses", col.key.str.count_matches(" "), "mentions", "phrase"]
    name = col.phrase.sort_by(order, descending=[True, True, True, False]).first()
    rows = rows.with_columns(concept=name.over("concept_number"))
    return conform(rows.with_columns(similarity=when(col.phrase == col.concept).then(1.0)), CONCEPTS)


def _parts_of(units: DataFrame, names: Collection[str]) -> DataFrame:
    """Return the expressions (`unit`) that contain another expression (`part`).

    Names of groups and parts of negated expressions are left out.
    """
    split = units.with_columns(words=col.key.str.split(" "))
    wholes = split.filter(col.words.list.len() > 1, ~col.key.str.starts_with("not "))
    word = [col.words.list.get(place, null_on_oob=True) for place in range(3)]
    pairs = [pl.concat_str(first, second, separator=" ") for first, second in pairwise(word)]
    of_two_words = when(col.words.list.len() > 2).then(pl.concat_list(pairs))
    parts = wholes.select("unit", "words", of_two_words=of_two_words).unpivot(index="unit", value_name="key")
    parts = parts.explode("key").filter(col.key.is_not_null() & ~col.key.is_in(list(names)))
    return parts.join(units.select("key", part="unit"), on="key").select("unit", "part").unique()


def _nearly_equal(parts: DataFrame, lists: DataFrame) -> DataFrame:
    """Return the expressions with a part that occurs in nearly the same lists.

    Parameters
    ----------
    parts
        `unit` and `part`.
    lists
        The lists (OWNER) with each expression (`unit`).
    """
    sizes = lists.group_by("unit").agg(lists=pl.len())
    sized = parts.join(sizes, on="unit").join(
        sizes.rename({"unit": "part", "lists": "lists_of_part"}), on="part"
    )
    smaller, larger = pl.min_horizontal("lists", "lists_of_part"), pl.max_horizontal("lists", "lists_of_part")
    possible = sized.filter(smaller >= NEARLY_ALWAYS * larger)
    of_whole = lists.join(possible.select("unit", "part"), on="unit")
    of_both = of_whole.join(lists.rename({"unit": "part"}), on=[*OWNER, "part"])
    together = of_both.group_by("unit", "part").agg(together=pl.len())
    return possible.join(together, on=["unit", "part"]).filter(col.together >= NEARLY_ALWAYS * larger)


def _linked(links: DataFrame, units: int) -> Series:
    """Return the number of the group of linked expressions of each expression, shape (units,)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    graph = csr_array((np.ones(links.height), (links["unit"], links["part"])), shape=(units, units))
    return Series(connected_components(graph, directed=False)[1])


def expression_key(phrases: Series, language: str) -> Series:
    """Return the lemmas of each phrase, without articles, as one string; every negation is "not"."""
    rows = phrases.to_frame("phrase").with_row_index("row").with_columns(form=spelling(col.phrase))
    lists = word_lists(language)
    words = rows.select("row", word=col.form.str.split(" ")).explode("word")
    is_copula = col.word.is_in(lists["copulas"]) & (pl.len().over("row") > 1)
    words = words.filter(~col.word.is_in(lists["articles"] | _PLACEHOLDERS) & ~is_copula)
    lemma = when(col.word.is_in(lists["negations"])).then(lit("not")).otherwise("lemma")
    words = words.with_columns(lemma=lemmas_of(words["word"], language)).with_columns(lemma=lemma)
    keys = words.group_by("row", maintain_order=True).agg(key=col.lemma.str.join(" "))
    return beside(rows, keys, "row").select(pl.coalesce("key", "form")).to_series()


def spelling(phrase: Expr) -> Expr:
    """Return a phrase in its normal form, with blanks in place of hyphens."""
    return normal_form(phrase).str.replace_all(r"[-‐‑]", " ").str.replace_all(" +", " ")
