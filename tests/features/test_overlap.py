"""Similarity of two texts: equal to that of the libraries, symmetric, missing for a text without words."""

from __future__ import annotations

import math
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.features import bleu, cosine, mask_words, rouge_l

WORDS = (
    "the",
    "The",
    "doctors",
    "doctor",
    "said",
    "saying",
    "it's",
    "fine,",
    "3.5",
    "well-known",
    "end.",
    "x",
)
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=6))
@settings(max_examples=60)
def test_bleu_and_rouge_equal_those_of_the_libraries_for_each_pair(pairs: list[tuple[str, str]]) -> None:
    one_way = BLEU(lowercase=True, smooth_method="floor", smooth_value=0.1, effective_order=True)
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    expected = [
        min(one_way.sentence_score(a, [b]).score, one_way.sentence_score(b, [a]).score) / 100
        for a, b in pairs
    ]
    assert bleu(first, second).to_list() == pytest.approx(expected, abs=1e-12)
    expected = [scorer.score(a, b)["rougeL"].fmeasure for a, b in pairs]
    assert rouge_l(first, second).to_list() == pytest.approx(expected, abs=1e-12)
    assert bleu(first, second).equals(bleu(second, first))
    assert rouge_l(first, second).equals(rouge_l(second, first))


def test_bleu_and_rouge_computed_by_hand() -> None:
    # 3 of 4 words, 2 of 3 pairs, 1 of 2 triples, and no quadruple, which counts 0.1.
    assert bleu(["a b c d"], ["A b c e"])[0] == pytest.approx((3 / 4 * 2 / 3 * 1 / 2 * 0.1) ** 0.25)
    # The shorter text against the longer: all precisions 1, brevity exp(1 - 8/4). The longer against the
    # shorter: precisions 4/8, 3/7, 2/6, 1/5. The smaller score counts.
    longer_first = (4 / 8 * 3 / 7 * 2 / 6 * 1 / 5) ** 0.25
    assert bleu(["a b c d"], ["a b c d e f g h"])[0] == pytest.approx(min(math.exp(-1), longer_first))
    assert rouge_l(["the cats sat down"], ["the cat ran down fast"])[0] == pytest.approx(2 * 3 / 9)
    # Equal texts have the similarity 1, also if they are short.
    assert bleu(["x", "a b", "One, two."], ["x", "a b", "one, two."]).to_list() == pytest.approx([1, 1, 1])
    assert rouge_l(["x"], ["x"]).to_list() == [1.0]


def test_the_similarity_to_a_text_without_words_is_missing_and_not_zero() -> None:
    first, second = ["a", None, " ", "a", None], [None, "b", "b", "zz", None]
    assert bleu(first, second).to_list() == [None, None, None, 0.0, None]
    assert rouge_l(first, second).to_list() == [None, None, None, 0.0, None]
    assert rouge_l(["\u4f60\u597d"], ["\u4f60\u597d"]).to_list() == [None]
    assert bleu([], []).len() == 0


def test_similarities_without_their_libraries_name_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module, measure in (("sacrebleu.metrics.bleu", bleu), ("rouge_score.tokenize", rouge_l)):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ProviderError, match=r'pip install "tiltmeter\[benchmarks\]"'):
            measure(["a"], ["b"])


def test_cosine_is_computed_row_by_row() -> None:
    a = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0], [1.0, math.inf]])
    b = np.array([[6.0, 8.0], [-2.0, 2.0], [1.0, 1.0], [1.0, 1.0]])
    assert cosine(a, b).to_list() == [pytest.approx(1.0), pytest.approx(-math.sqrt(0.5)), None, None]


def test_masking_replaces_whole_words_the_longest_first() -> None:
    texts = pl.Series(["She told the Woman Doctor: 'the heroine is hers.'", None, "shell"])
    masked = ["groupword told the groupword: 'the heroine is groupword.'", None, "shell"]
    assert mask_words(texts, ["she", "woman", "woman doctor", "hers"]).to_list() == masked
    # A replacement is not replaced in turn.
    assert mask_words(pl.Series(["He saw they"]), {"he": "they", "they": "it"}).to_list() == ["they saw it"]


@pytest.mark.parametrize("words", [[], ["a", " "], "she"])
def test_words_to_mask_must_be_words(words: list[str]) -> None:
    with pytest.raises(InputError, match="words to mask"):
        mask_words(pl.Series(["a"]), words)
