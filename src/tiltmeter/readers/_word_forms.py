"""Parts of speech and lemmas of English word forms.

Common forms are in a table, which was made with the Hanover tagger (see `scripts/english_forms.py`). The
kinds of another form are those of most forms with the same ending, and so is the change that gives its lemma.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl
from polars import Boolean, DataFrame, Int64, Series, String, col, lit, when

from tiltmeter.readers._grammar import LONGEST

TABLE: Final = Path(__file__).with_name("data") / "english_forms.parquet"
"""The table of common forms (FORMS without `is_unknown`)."""
ENDINGS: Final = Path(__file__).with_name("data") / "english_endings.parquet"
"""The table of the endings of common forms: `ending` and OF_ENDING."""
FORMS: Final = {
    "form": String,  # in lower case
    "best": String,  # most likely kind: "noun", "adjective", "verb", "adverb", "name" or "other"
    "can_noun": Boolean,
    "can_adjective": Boolean,
    "can_verb": Boolean,
    "lemma": String,  # of nouns and verbs; other words are unchanged
    "is_unknown": Boolean,  # whether it is no common form
}
LENGTHS: Final = (6, 5, 4, 3, 2, 1)
"""Numbers of letters of the endings that are compared, the longest first."""
OF_ENDING: Final = ("best", "can_noun", "can_adjective", "can_verb", "cut", "added")
"""What is known of an ending: its kinds, and how many letters are cut and which are added for the lemma."""


class WordForm(NamedTuple):
    """A row of FORMS without the form."""

    best: str
    can_noun: bool
    can_adjective: bool
    can_verb: bool
    lemma: str
    is_unknown: bool


def word_forms(forms: Series) -> DataFrame:
    """Return the rows of FORMS of distinct word forms in lower case, in their order.

    A word with a hyphen has the kinds and the lemma of its last part; with a participle as its last part, it
    is an adjective ("almond-shaped").
    """
    is_word = col.form.str.contains(r"^\p{L}") & (col.form.str.len_chars() <= LONGEST)
    parts = DataFrame({"form": forms}).with_columns(
        is_word=is_word,
        first=when(is_word).then(col.form.str.extract(r"^(.+-)[^-]+$")).fill_null(""),
    )
    parts = parts.with_columns(last=col.form.str.slice(col.first.str.len_chars()))
    of_last = _simple_forms(parts["last"].unique(maintain_order=True))
    rows = parts.join(of_last, left_on="last", right_on="form", how="left", maintain_order="left")
    is_compound = col.first != ""
    is_participle = col.can_adjective | col.last.str.contains("(?:ed|ing|en)$")
    kind_of_compound = when(is_participle).then(lit("adjective")).otherwise(lit("noun"))
    kind = when(is_compound).then(kind_of_compound).otherwise("best")
    lemma = when(is_compound & is_participle).then("form").otherwise(pl.concat_str("first", "lemma"))
    return rows.select(
        "form",
        best=when("is_word").then(kind).otherwise(lit("other")),
        can_noun=col.is_word & when(is_compound).then(~is_participle).otherwise("can_noun"),
        # Before another noun, a compound is an adjective ("shoulder-length hair").
        can_adjective=col.is_word & (col.can_adjective | is_compound),
        can_verb=col.is_word & col.can_verb & ~is_compound,
        lemma=when("is_word").then(lemma).otherwise("form"),
        is_unknown=col.is_word & col.is_unknown,
    )


def word_form(form: str) -> WordForm:
    """Return the kinds and the lemma of one form."""
    _, *values = word_forms(Series([form])).row(0)
    return WordForm(*values)


def _simple_forms(forms: Series) -> DataFrame:
    """Return the rows of FORMS of distinct forms without a hyphen."""
    rows = DataFrame({"form": forms}).join(_common_forms(), on="form", how="left", maintain_order="left")
    guessed = _of_endings(rows.filter(col.best.is_null())["form"])
    return rows.update(guessed, on="form")


@cache
def _common_forms() -> DataFrame:
    return pl.read_parquet(TABLE).with_columns(is_unknown=lit(False))


@cache
def _endings() -> DataFrame:
    return pl.read_parquet(ENDINGS)


def _of_endings(forms: Series) -> DataFrame:
    """Return the rows of FORMS of other forms: those of the longest ending that common forms have."""
    rows = DataFrame({"form": forms})
    for length in LENGTHS:
        ending = col.form.str.tail(length)
        known = _endings().filter(col.ending.str.len_chars() == length)
        renamed = known.rename({name: f"{name}_{length}" for name in OF_ENDING})
        rows = rows.with_columns(ending=ending).join(renamed, on="ending", how="left", maintain_order="left")
    best = {name: pl.coalesce(f"{name}_{length}" for length in LENGTHS) for name in OF_ENDING}
    rows = rows.select("form", **best).with_columns(col.best.fill_null("noun"), col.added.fill_null(""))
    letters = col.form.str.len_chars().cast(Int64) - col.cut.fill_null(0)
    return rows.select(
        "form",
        "best",
        can_noun=col.can_noun.fill_null(True),
        can_adjective=col.can_adjective.fill_null(False),
        can_verb=col.can_verb.fill_null(False),
        lemma=pl.concat_str(col.form.str.head(letters), "added"),
        is_unknown=lit(True),
    )
