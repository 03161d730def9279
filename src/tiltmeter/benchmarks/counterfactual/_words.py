"""Which words of the lists stand where in which text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.benchmarks.counterfactual._lists import Lists

__all__ = ["OTHER", "STOP", "coded", "known_texts"]

STOP, OTHER = -1, -2
"""Codes of words without a topic and of all other words outside the lists."""

BLOCK_TEXTS = 10_000
_WORD = r"\w+(?:'\w+)*"


def known_texts(texts: pl.Series | Sequence[str | None]) -> tuple[pl.Series, int]:
    """The texts that say something, and how many do not (null or blank)."""
    given = pl.Series("text", texts, dtype=pl.String)
    kept = given.filter(given.str.strip_chars().str.len_chars().fill_null(0) > 0)
    return kept, len(given) - len(kept)


def coded(texts: pl.Series, lists: Lists, stop: Iterable[str] = ()) -> Iterator[tuple[int, list[NDArray[np.int32]]]]:
    """The words of each text as codes, in blocks of texts: number of the block's first text, and one array per text.

    Target t has the code t, a word of group g the code T + g, others STOP or OTHER. Words are matched whole and whatever their case;
    a possessive 's is no part of the word; listed phrases (and hyphenated words) are matched before single words.
    """
    codes = dict.fromkeys(stop, STOP) | {word: number for number, word in enumerate(lists.targets)}
    for number, own in enumerate(lists.groups.values()):
        codes |= dict.fromkeys(own, len(lists.targets) + number)
    phrases = sorted((word for word in codes if not re.fullmatch(_WORD, word)), key=len, reverse=True)
    pattern = "|".join([*(_whole(phrase) for phrase in phrases), _WORD])
    for begin in range(0, len(texts), BLOCK_TEXTS):
        block = texts.slice(begin, BLOCK_TEXTS).str.to_lowercase().str.replace_all("\u2019", "'").str.extract_all(pattern)
        words = block.explode().str.replace(r"'s$", "").str.replace_all(r"\s+", " ")
        numbers = words.replace_strict(codes, default=OTHER, return_dtype=pl.Int32).to_numpy()
        lengths = block.list.len().to_numpy().astype(np.intp)
        # A text without a word is one null after the explosion.
        ends = np.cumsum(np.maximum(lengths, 1))
        parts = np.split(numbers, ends[:-1])
        yield begin, [part[:length] for part, length in zip(parts, lengths, strict=True)]


def _whole(phrase: str) -> str:
    """A regular expression of Rust (no look-around): \\b where the phrase has a letter at that end."""
    inner = re.escape(phrase).replace(r"\ ", r"\s+").replace(" ", r"\s+")
    return (r"\b" if phrase[0].isalnum() else "") + inner + (r"\b" if phrase[-1].isalnum() else "")
