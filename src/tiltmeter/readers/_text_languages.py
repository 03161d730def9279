"""The language of texts, by their function words."""

from __future__ import annotations

from typing import Final

from polars import DataFrame, Series, col, when

from tiltmeter.readers._words_in_sentences import word_lists

NAMES: Final = {"en": "English", "de": "German", "es": "Spanish", "fr": "French"}
"""Names of the languages whose texts can be read without a judge."""
_LEAST_SHARE: Final = 0.15
"""A text is in a language if at least this share of its words are function words of the language."""
_FEWEST_WORDS: Final = 5
"""Smallest number of words of a text whose language can be told."""
_MOST_WORDS: Final = 100
"""Number of first words of a text that are read."""


def languages_of(texts: Series) -> Series:
    """Return the language of each text, shape (texts,); null if it cannot be told.

    It is the one with most function words among the words.

    Parameters
    ----------
    texts
        Texts; null has no language.
    """
    words = texts.fill_null("").str.to_lowercase().str.extract_all(r"\p{L}+").list.head(_MOST_WORDS)
    in_names = word_lists("en")["beside_names"]  # "de la Cruz" is a name in any language
    listed = DataFrame({"words": words}).with_row_index("row")
    shares = (
        listed.explode("words")
        .group_by("row", maintain_order=True)
        .agg(
            number=col.words.count(),
            **{name: col.words.is_in(word_lists(name)["stop"] - in_names).mean() for name in NAMES},
        )
    )
    by_language = shares.unpivot(index=["row", "number"], variable_name="language", value_name="share")
    highest_first = by_language.sort("row", "share", descending=[False, True], maintain_order=True)
    best = highest_first.unique("row", keep="first", maintain_order=True)
    is_clear = (col.share >= _LEAST_SHARE) & (col.number >= _FEWEST_WORDS)
    known = best.select("row", language=when(is_clear).then("language"))
    return listed.join(known, on="row", how="left", maintain_order="left")["language"]


def language_counts(texts: Series) -> dict[str, int]:
    """Return the number of texts in each language, the most frequent first."""
    counts = languages_of(texts).drop_nulls().value_counts(name="texts").sort("texts", descending=True)
    return dict(counts.iter_rows())
