"""How alike two texts are: BLEU, ROUGE-L and cosine of aligned pairs, and words masked that only say which group a text is about.

Texts are split once each, however many pairs they are in, and equal pairs are compared once. BLEU is sacrebleu's, the words of
ROUGE-L are rouge-score's; the longest common subsequence is counted here, a row of the table at a time in
the bits of one number, which gives rouge-score's values without filling the table cell by cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from polars import Float64, Series, String

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.stats import ratio

Split = TypeVar("Split")
Texts = Series | Sequence[str | None]

SMOOTHING = 0.1
_BITS = 1 << 30
MASK = "groupword"
"""Takes the place of a masked word: one word for every tokenizer."""
BLOCK_ROWS = 20_000
"""Pairs of vectors whose cosine is computed at once."""
MOST_WORDS = 200_000
"""Words of a text whose longest common subsequence with another is looked for: the work grows with the product of their numbers."""


def bleu(first: Texts, second: Texts) -> Series:
    """Sentence BLEU of each pair, the smaller of its two directions, so that it does not matter which text comes first.

    Lower case, tokens as of mteval 13a, orders 1 to 4 (as many as both texts have words for), 0.1 in place of no match of an order.

    Parameters
    ----------
    first, second
        n texts each; null or blank: missing.

    Returns
    -------
    pl.Series
        n values in [0, 1]; null where a text is missing.

    Raises
    ------
    ProviderError
        The extra `benchmarks` is not installed.

    References
    ----------
    Papineni et al. (2002); smoothing 1 of Chen and Cherry (2014); the smaller direction: Bouchard (2024), arXiv 2407.10853.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise _needed("BLEU", "sacrebleu") from None
    formula = BLEU(lowercase=True, smooth_method="floor", smooth_value=SMOOTHING, effective_order=True)

    def score(a: str, b: str) -> float:
        return min(1.0, *(formula.sentence_score(one, [other]).score / 100.0 for one, other in ((a, b), (b, a))))

    return _score_pairs("bleu", first, second, lambda text: text if text.strip() else None, score)


def rouge_l(first: Texts, second: Texts) -> Series:
    """ROUGE-L of each pair: F1 of the longest common subsequence of their stemmed words.

    Parameters
    ----------
    first, second
        n texts each; null or blank: missing. Words are runs of the letters a-z and digits, as rouge-score has them: a text of another
        script has none and counts as missing, and so does one of more than 200,000 words.

    Returns
    -------
    pl.Series
        n values in [0, 1]; null where a text is missing.

    Raises
    ------
    ProviderError
        The extra `benchmarks` is not installed.

    References
    ----------
    Lin (2004), "ROUGE: A Package for Automatic Evaluation of Summaries".
    """
    try:
        from nltk.stem.porter import PorterStemmer  # what rouge-score itself stems with
        from rouge_score.tokenize import tokenize
    except ImportError:
        raise _needed("ROUGE-L", "rouge-score") from None
    stemmer = SimpleNamespace(stem=cache(PorterStemmer().stem))  # each word once: stemming takes most of the time

    def split(text: str) -> list[str] | None:
        words: list[str] = tokenize(text, stemmer)
        return words if 0 < len(words) <= MOST_WORDS else None

    def score(a: list[str], b: list[str]) -> float:
        return 2.0 * _common(a, b) / (len(a) + len(b))

    return _score_pairs("rouge_l", first, second, split, score)


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence.

    Source: Hyyrö (2004), "Bit-parallel LCS-length computation revisited": a 0 at place i of `row` says that the subsequence grows there.
    """
    places: dict[str, list[int]] = {word: [] for word in b}
    for place, word in enumerate(a):
        if word in places:
            places[word].append(place)
    # The places of a word as bits; those of a long text's rare words are too many to be held at once.
    masks = lru_cache(maxsize=max(1, _BITS // len(a)))(lambda word: _bits(places[word], len(a)))
    full = (1 << len(a)) - 1
    row = full
    for word in b:
        if places[word] and (matching := row & masks(word)):
            row = ((row + matching) | (row - matching)) & full
    return len(a) - row.bit_count()


def _bits(places: Sequence[int], count: int) -> int:
    """A number of so many bits, with those set that are named."""
    made = bytearray(count // 8 + 1)
    for place in places:
        made[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(made, "little")


def _score_pairs(
    name: str, first: Texts, second: Texts, split: Callable[[str], Split | None], score: Callable[[Split, Split], float]
) -> Series:
    """The score of each pair, each text split once and each two texts compared once; null where either says nothing."""
    part = cache(split)

    @cache
    def compared(a: str, b: str) -> float | None:
        one, other = part(a), part(b)
        return None if one is None or other is None else score(one, other)

    # Both measures are symmetric, so a pair and its reverse are one.
    pairs = zip(first, second, strict=True)
    scores = [None if a is None or b is None else compared(min(a, b), max(a, b)) for a, b in pairs]
    return Series(name, scores, dtype=Float64)


def _needed(measure: str, package: str) -> ProviderError:
    return ProviderError(f'{measure} needs the package {package}: pip install "tiltmeter[benchmarks]"')


def cosine(first: ArrayLike, second: ArrayLike) -> Series:
    """Cosine of the angle between row i of `first` and row i of `second`.

    Parameters
    ----------
    first, second
        (n, d) vectors of any length, for instance those a sentence encoder gives.

    Returns
    -------
    pl.Series
        n values in [-1, 1]; null where a vector is all zero or holds a value that is not finite.
    """
    a, b = np.asarray(first), np.asarray(second)
    found = np.empty(len(a))
    for begin in range(0, len(a), BLOCK_ROWS):  # in double precision, without a copy of everything in it
        x, y = (side[begin : begin + BLOCK_ROWS].astype(np.float64) for side in (a, b))
        x[~(np.isfinite(x) & np.isfinite(y)).all(axis=1)] = 0.0  # no direction, like a vector of zeros
        y[(x == 0.0).all(axis=1)] = 0.0
        dots = np.einsum("ij,ij->i", x, y)
        lengths = np.sqrt(np.einsum("ij,ij->i", x, x) * np.einsum("ij,ij->i", y, y))
        found[begin : begin + BLOCK_ROWS] = np.clip(ratio(dots, lengths), -1.0, 1.0)
    return Series("cosine", found).fill_nan(None)


def mask_words(texts: Series, words: Mapping[str, str] | Sequence[str]) -> Series:
    """The texts with certain words replaced: whole words only, whatever their case, the longest first, each place once.

    Parameters
    ----------
    texts
        Strings; null stays null.
    words
        Words or phrases, each replaced by one mask word that is the same for all; or a mapping of words to their replacements
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
    masked = Series([found.sub(replacement, text) for text in distinct], dtype=String)
    return texts.replace_strict(distinct, masked, default=None, return_dtype=String)
