"""Similarity of pairs of texts: BLEU, ROUGE-L and cosine similarity.

Words that name the group of a text can be masked before. Each text is tokenised once and equal pairs are
compared once. BLEU is computed by sacrebleu. ROUGE-L uses the tokens of rouge-score and gives the same
values, but the longest common subsequence is computed with a bit-parallel algorithm instead of a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from polars import Float64, Series, String

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.stats import ratio

Split = TypeVar("Split")
Texts: TypeAlias = Series | Sequence[str | None]

SMOOTHING = 0.1
_BITS = 1 << 30
MASK = "groupword"
"""Replacement of a masked word. Every tokeniser treats it as a single word."""
BLOCK_ROWS = 20_000
"""Number of pairs of vectors processed at a time."""
MOST_WORDS = 200_000
"""Maximum number of words of a text for ROUGE-L; its run time grows with the product of the lengths of both
texts."""


def bleu(first: Texts, second: Texts) -> Series:
    """Compute the symmetric sentence BLEU of each pair: the smaller value of the two directions.

    Settings: lower case, tokens as in mteval 13a, orders 1 to 4 (at most the number of words of both texts),
    and 0.1 instead of zero matches.

    Parameters
    ----------
    first, second
        n texts each; null or blank texts are missing.

    Returns
    -------
    pl.Series
        n values in [0, 1]; null if a text is missing.

    Raises
    ------
    ProviderError
        The extra `benchmarks` is not installed.

    References
    ----------
    Papineni et al. (2002); smoothing 1 of Chen and Cherry (2014); the smaller direction: Bouchard (2024),
    arXiv 2407.10853.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise _needed("BLEU", "sacrebleu") from None
    formula = BLEU(lowercase=True, smooth_method="floor", smooth_value=SMOOTHING, effective_order=True)

    def score(a: str, b: str) -> float:
        forwards = formula.sentence_score(a, [b]).score / 100.0
        backwards = formula.sentence_score(b, [a]).score / 100.0
        return min(1.0, forwards, backwards)

    return _score_pairs("bleu", first, second, lambda text: text if text.strip() else None, score)


def rouge_l(first: Texts, second: Texts) -> Series:
    """Compute ROUGE-L of each pair: the F1 score of the longest common subsequence of their stemmed words.

    Parameters
    ----------
    first, second
        n texts each; null or blank texts are missing. As in rouge-score, words are runs of the letters a-z
        and digits, so a text in another script has no words and counts as missing. So does a text of more
        than 200,000 words.

    Returns
    -------
    pl.Series
        n values in [0, 1]; null if a text is missing.

    Raises
    ------
    ProviderError
        The extra `benchmarks` is not installed.

    References
    ----------
    Lin (2004), "ROUGE: A Package for Automatic Evaluation of Summaries".
    """
    try:
        from nltk.stem.porter import PorterStemmer  # the stemmer of rouge-score
        from rouge_score.tokenize import tokenize
    except ImportError:
        raise _needed("ROUGE-L", "rouge-score") from None
    # Stem each word once, because stemming takes most of the time.
    stemmer = SimpleNamespace(stem=cache(PorterStemmer().stem))

    def split(text: str) -> list[str] | None:
        words: list[str] = tokenize(text, stemmer)
        return words if 0 < len(words) <= MOST_WORDS else None

    def score(a: list[str], b: list[str]) -> float:
        return 2.0 * _common(a, b) / (len(a) + len(b))

    return _score_pairs("rouge_l", first, second, split, score)


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    A 0 at bit i of `row` means that the subsequence grows at i.

    References
    ----------
    Hyyrö (2004), "Bit-parallel LCS-length computation revisited".
    """
    places: dict[str, list[int]] = {word: [] for word in b}
    for place, word in enumerate(a):
        if word in places:
            places[word].append(place)

    # Positions of a word as bits. The cache is limited, because the masks of all words of a long text would
    # need too much memory.
    @lru_cache(maxsize=max(1, _BITS // len(a)))
    def mask_of(word: str) -> int:
        return _bits(places[word], len(a))

    full = (1 << len(a)) - 1
    row = full
    for word in b:
        if not places[word]:
            continue
        matching = row & mask_of(word)
        if matching:
            row = ((row + matching) | (row - matching)) & full
    return len(a) - row.bit_count()


def _bits(places: Sequence[int], count: int) -> int:
    """Return a number of `count` bits in which the bits at the given positions are set."""
    octets = bytearray(count // 8 + 1)
    for place in places:
        octets[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(octets, "little")


def _score_pairs(
    name: str,
    first: Texts,
    second: Texts,
    split: Callable[[str], Split | None],
    score: Callable[[Split, Split], float],
) -> Series:
    """Score each pair; null if either text is missing.

    Each text is split once, and each pair of distinct texts is compared once.
    """
    words_of = cache(split)

    @cache
    def compared(a: str, b: str) -> float | None:
        words_a, words_b = words_of(a), words_of(b)
        if words_a is None or words_b is None:
            return None
        return score(words_a, words_b)

    def score_of(a: str | None, b: str | None) -> float | None:
        if a is None or b is None:
            return None
        return compared(min(a, b), max(a, b))  # symmetric: a pair and its reverse have the same score

    scores = [score_of(a, b) for a, b in zip(first, second, strict=True)]
    return Series(name, scores, dtype=Float64)


def _needed(measure: str, package: str) -> ProviderError:
    return ProviderError(f'{measure} needs the package {package}: pip install "tiltmeter[benchmarks]"')


def cosine(first: ArrayLike, second: ArrayLike) -> Series:
    """Compute the cosine similarity of row i of `first` and row i of `second`.

    Parameters
    ----------
    first, second
        Vectors of any length, shape (n, d), for example the output of a sentence encoder.

    Returns
    -------
    pl.Series
        n values in [-1, 1]; null if a vector is zero or contains a value that is not finite.
    """
    a, b = np.asarray(first), np.asarray(second)
    similarities = np.empty(len(a))
    for begin in range(0, len(a), BLOCK_ROWS):  # converts to double precision in steps, without a full copy
        block = slice(begin, begin + BLOCK_ROWS)
        x, y = a[block].astype(np.float64), b[block].astype(np.float64)
        finite = (np.isfinite(x) & np.isfinite(y)).all(axis=1)
        x[~finite] = 0.0  # undefined, like a vector of zeros
        y[(x == 0.0).all(axis=1)] = 0.0
        dots = np.einsum("ij,ij->i", x, y)
        squares_x, squares_y = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
        lengths = np.sqrt(squares_x * squares_y)
        similarities[block] = np.clip(ratio(dots, lengths), -1.0, 1.0)
    return Series("cosine", similarities).fill_nan(None)


def mask_words(texts: Series, words: Mapping[str, str] | Sequence[str]) -> Series:
    """Replace whole words in texts, ignoring case.

    Longer words take precedence, and replacements are not replaced again.

    Parameters
    ----------
    texts
        Strings; null stays null.
    words
        Words or phrases, which are all replaced by the same mask word, or a mapping of words to their
        replacements ("she": "they", "he": "they").

    Raises
    ------
    InputError
        A word is empty, or no words are given.
    """
    replacements = dict(words) if isinstance(words, Mapping) else dict.fromkeys(words, MASK)
    if isinstance(words, str) or not replacements or not all(word.strip() for word in replacements):
        raise InputError(
            "words to mask must be a list of words or a mapping of words to replacements, none of them empty"
        )
    by_word = {_lower_on_one_line(word): replacement for word, replacement in replacements.items()}
    longest_first = sorted(by_word, key=len, reverse=True)
    alternatives = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in longest_first)
    pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)

    def replacement_of(match: re.Match[str]) -> str:
        return by_word.get(_lower_on_one_line(match.group()), MASK)

    distinct = texts.drop_nulls().unique()
    masked = Series([pattern.sub(replacement_of, text) for text in distinct], dtype=String)
    return texts.replace_strict(distinct, masked, default=None, return_dtype=String)


def _lower_on_one_line(word: str) -> str:
    """Return a word or phrase in lower case, with single blanks."""
    return " ".join(word.lower().split())
