"""Words that only say which group a text is about, taken out before texts are compared."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl

from tiltmeter.errors import InputError

__all__ = ["MASK", "mask_words"]

MASK = "groupword"
"""What stands for a masked word: one word for every tokenizer."""


def mask_words(texts: pl.Series, words: Mapping[str, str] | Sequence[str]) -> pl.Series:
    """The texts with certain words replaced: whole words only, whatever their case, the longest first, each place once.

    Parameters
    ----------
    texts
        Strings; null stays null.
    words
        Words or phrases, each replaced by one mask word that is the same for all; or a mapping of words to what stands for them
        ("she": "they", "he": "they").

    Raises
    ------
    InputError
        A word is empty, or there is none.
    """
    given = dict.fromkeys(words, MASK) if not isinstance(words, Mapping) else dict(words)
    if isinstance(words, str) or not given or not all(word.strip() for word in given):
        raise InputError("words to mask must be a list of words or a mapping of words to replacements, none of them empty")
    instead = {" ".join(word.lower().split()): replacement for word, replacement in given.items()}
    longest = sorted(instead, key=len, reverse=True)
    found = re.compile(r"(?<!\w)(?:" + "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in longest) + r")(?!\w)", re.IGNORECASE)

    def replacement(match: re.Match[str]) -> str:
        return instead.get(" ".join(match.group().lower().split()), MASK)

    distinct = texts.drop_nulls().unique()
    masked = pl.Series([found.sub(replacement, text) for text in distinct], dtype=pl.String)
    return texts.replace_strict(distinct, masked, default=None, return_dtype=pl.String)
