"""BLEU and ROUGE-L of aligned pairs of texts.

Texts are split once each, however many pairs they are in, and equal pairs are compared once. The tokenizers, the stemmer and the
formula of BLEU are those of sacrebleu and rouge-score; the longest common subsequence is counted here, a row of the table at a time in
the bits of one number, which gives rouge-score's values without filling the table cell by cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import polars as pl

from tiltmeter.errors import ProviderError

__all__ = ["bleu", "rouge_l"]

Split = TypeVar("Split")
Texts = pl.Series | Sequence[str | None]

SMOOTHING = 0.1
ORDERS = 4
MOST_WORDS = 200_000
"""Words of a text whose longest common subsequence with another is looked for: the work grows with the product of their numbers."""


def bleu(first: Texts, second: Texts) -> pl.Series:
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
    ValueError
        There are not as many texts on both sides.

    Source: Papineni et al. (2002); smoothing 1 of Chen and Cherry (2014); the smaller direction: Bouchard (2024), arXiv 2407.10853.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.helpers import extract_all_word_ngrams
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    except ImportError:
        raise _needed("BLEU", "sacrebleu") from None
    tokenizer: Callable[[str], str] = cast(Any, Tokenizer13a)()

    def split(text: str) -> tuple[Counter[tuple[str, ...]], list[int]] | None:
        grams, length = extract_all_word_ngrams(tokenizer(text.lower().rstrip()), 1, ORDERS)
        return (grams, [max(0, length - order) for order in range(ORDERS)]) if length else None

    def score(a: tuple[Counter[tuple[str, ...]], list[int]], b: tuple[Counter[tuple[str, ...]], list[int]]) -> float:
        correct = [0] * ORDERS
        for gram in a[0].keys() & b[0].keys():
            correct[len(gram) - 1] += min(a[0][gram], b[0][gram])
        return min(_direction(BLEU, correct, a[1], b[1]), _direction(BLEU, correct, b[1], a[1]))

    return _compared("bleu", first, second, split, score)


def _direction(formula: Any, correct: list[int], guessed: list[int], reference: list[int]) -> float:
    """BLEU of a text with so many n-grams of each order, against a reference with so many."""
    made = formula.compute_bleu(
        list(correct), list(guessed), guessed[0], reference[0], smooth_method="floor", smooth_value=SMOOTHING, effective_order=True
    )
    return min(1.0, float(made.score) / 100.0)


def rouge_l(first: Texts, second: Texts) -> pl.Series:
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
    ValueError
        There are not as many texts on both sides.

    Source: Lin (2004), "ROUGE: A Package for Automatic Evaluation of Summaries".
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

    return _compared("rouge_l", first, second, split, score)


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


_BITS = 1 << 30


def _bits(places: Sequence[int], count: int) -> int:
    """A number of so many bits, with those set that are named."""
    made = bytearray(count // 8 + 1)
    for place in places:
        made[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(made, "little")


def _compared(
    name: str, first: Texts, second: Texts, split: Callable[[str], Split | None], score: Callable[[Split, Split], float]
) -> pl.Series:
    """The score of each pair, each text split once and each two texts compared once; null where either says nothing."""
    if len(first) != len(second):
        raise ValueError(f"pairs need as many texts on both sides, not {len(first)} and {len(second)}")
    pairs = pl.DataFrame({"a": pl.Series(first, dtype=pl.String), "b": pl.Series(second, dtype=pl.String)})
    # Both measures are symmetric, so a pair and its reverse are one.
    pairs = pairs.select(a=pl.min_horizontal("a", "b"), b=pl.max_horizontal("a", "b"), whole=pl.all_horizontal(pl.all().is_not_null()))
    distinct = pairs.filter("whole").select("a", "b").unique(maintain_order=True)
    parts = {text: split(text) for text in pl.concat([distinct["a"], distinct["b"]]).unique(maintain_order=True)}
    scores = [_score_or_none(parts[a], parts[b], score) for a, b in distinct.iter_rows()]
    known = distinct.with_columns(pl.Series(name, scores, dtype=pl.Float64), whole=pl.lit(True))
    return pairs.join(known, on=["a", "b", "whole"], how="left", maintain_order="left")[name]


def _score_or_none(a: Split | None, b: Split | None, score: Callable[[Split, Split], float]) -> float | None:
    return None if a is None or b is None else score(a, b)


def _needed(measure: str, package: str) -> ProviderError:
    return ProviderError(f'{measure} needs the package {package}: pip install "tiltmeter[benchmarks]"')
