"""Concepts of words and phrases that are read without a judge.

A concept is one expression: a word or a phrase in all forms of its words ("keeps a diary", "kept the diary").
Expressions with different words are different concepts, so that the share of a concept is the share of the
texts that say it. Expressions that occur together are combined in the report only, see `variants`.
"""

from __future__ import annotations

from typing import Final

import polars as pl
from polars import DataFrame, Expr, Series, col, lit, when

from tiltmeter.associations._concepts import normal_form
from tiltmeter.associations._tables import CONCEPTS
from tiltmeter.readers._lemmas import lemmas_of
from tiltmeter.readers._words_in_sentences import word_lists
from tiltmeter.schema import beside, conform

_PLACEHOLDERS: Final = frozenset({"one's", "..."})
"""What replaces words in a phrase, in its normal form."""


def unify_words(phrases: DataFrame, language: str = "en") -> DataFrame:
    """Return the map from phrase to concept (CONCEPTS), whose rows are in the order of `phrases`.

    The most frequent form of an expression names it.

    Parameters
    ----------
    phrases
        `phrase` (unique) and `mentions`.
    language
        The language of the phrases.
    """
    rows = phrases.select("phrase", "mentions", key=expression_key(phrases["phrase"], language))
    order = ["mentions", "phrase"]
    name = col.phrase.sort_by(order, descending=[True, False]).first()
    rows = rows.with_columns(concept=name.over("key"))
    return conform(rows.with_columns(similarity=when(col.phrase == col.concept).then(1.0)), CONCEPTS)


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
