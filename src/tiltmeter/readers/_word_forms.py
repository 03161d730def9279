"""Parts of speech and lemmas of English word forms.

Frequent forms are in a table. The others are tagged by the Hanover tagger, which takes about a millisecond
for each.
"""

from __future__ import annotations

from functools import cache, lru_cache
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl
from polars import Boolean, DataFrame, Series, String, col

from tiltmeter.readers._grammar import LONGEST, tagger

TABLE: Final = Path(__file__).with_name("data") / "english_forms.parquet"
"""The table of frequent forms (FORMS), see `scripts/english_forms.py`."""
FORMS: Final = {
    "form": String,  # in lower case
    "best": String,  # most likely kind: "noun", "adjective", "verb", "adverb", "name" or "other"
    "can_noun": Boolean,
    "can_adjective": Boolean,
    "can_verb": Boolean,
    "is_unknown": Boolean,  # whether the tagger does not know the form
    "lemma": String,  # of nouns and verbs; other words are unchanged
}
_LIKELY: Final = 3.5
"""A tag is possible if its log-probability is at most so much below that of the most probable tag of the word
form."""
_UNKNOWN: Final = -20.0
"""The log-probability of the best tag of a form that the tagger does not know is below this."""
_KINDS: Final = {
    "NN": "noun",
    "AJ": "adjective",
    "VV": "verb",
    "VB": "verb",
    "VH": "verb",
    "VD": "verb",
    "AV": "adverb",
    "NP": "name",
    "UN": "name",
}
_OWN_LEMMA: Final = frozenset(("blues", "born", "glasses", "goods", "shorts"))
"""Words that mean something else than their lemma ("short", "bear")."""


class WordForm(NamedTuple):
    """A row of FORMS without the form."""

    best: str
    can_noun: bool
    can_adjective: bool
    can_verb: bool
    is_unknown: bool
    lemma: str


def word_forms(forms: Series) -> DataFrame:
    """Return the rows of FORMS of distinct word forms in lower case, in their order."""
    rows = DataFrame({"form": forms}).join(_frequent_forms(), on="form", how="left", maintain_order="left")
    others = rows.filter(col.best.is_null())["form"]
    tagged_forms = [(form, *tagged(form)) for form in others]
    tagged_rows = DataFrame(tagged_forms, schema=dict(FORMS), orient="row")
    return rows.update(tagged_rows, on="form")


def word_form(form: str) -> WordForm:
    """Return the kinds and the lemma of one form."""
    _, *values = word_forms(Series([form])).row(0)
    return WordForm(*values)


@cache
def _frequent_forms() -> DataFrame:
    return pl.read_parquet(TABLE)


@lru_cache(maxsize=1 << 17)
def tagged(form: str) -> WordForm:
    """Return the kinds and the lemma of a form by the tagger.

    A word with a hyphen has those of its last part; with a participle as its last part, it is an adjective
    ("almond-shaped").
    """
    if not form[:1].isalpha() or len(form) > LONGEST:
        return WordForm("other", False, False, False, False, form)
    first, hyphen, last = form.rpartition("-")
    if hyphen and first and last.isalpha():
        return _compound(first, tagged(last), last)
    tags = tagger().tag_word(form) or [(tagger().analyze(form)[1], -inf)]
    _, probability_of_best = tags[0]
    least = probability_of_best - _LIKELY
    kinds = [_KINDS.get(tag[:2], "other") for tag, probability in tags if probability >= least]
    return WordForm(
        best=kinds[0],
        can_noun="noun" in kinds,
        can_adjective="adjective" in kinds,
        can_verb="verb" in kinds,
        is_unknown=probability_of_best < _UNKNOWN,
        lemma=_lemma(form) if kinds[0] in ("noun", "verb") else form,
    )


def _compound(first: str, of_last: WordForm, last: str) -> WordForm:
    if of_last.can_adjective or last.endswith(("ed", "ing", "en")):
        return WordForm("adjective", False, True, False, of_last.is_unknown, f"{first}-{last}")
    lemma = f"{first}-{of_last.lemma}"
    # Before another noun it is an adjective ("shoulder-length hair").
    return WordForm("noun", True, True, False, of_last.is_unknown, lemma)


def _lemma(form: str) -> str:
    if form in _OWN_LEMMA:
        return form
    return str(tagger().analyze(form)[0]).lower()
