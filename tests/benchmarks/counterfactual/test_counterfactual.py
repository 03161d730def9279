"""Answers compared between groups: published statistics, pairs, intervals, tests and unusual tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest, wasserstein_distance

from tiltmeter.benchmarks.counterfactual import counterfactual
from tiltmeter.errors import InputError
from tiltmeter.features import bleu, rouge_l


def table(scores: Mapping[str, Sequence[Sequence[float | None]]]) -> pl.DataFrame:
    """One row per answer, from the scores of each group's answers to each prompt."""
    rows = [
        (unit, group, score)
        for group, units in scores.items()
        for unit, answers in enumerate(units)
        for score in answers
    ]
    return pl.DataFrame(
        rows, schema={"prompt": pl.Int64, "group": pl.String, "score": pl.Float64}, orient="row"
    )


def scored(
    answers: pl.DataFrame | Mapping[str, Sequence[Sequence[float | None]]], **more: Any
) -> pl.DataFrame:
    answers = answers if isinstance(answers, pl.DataFrame) else table(answers)
    return counterfactual(answers, **{"unit": "prompt", "group": "group", "score": "score"} | more)


def texts_compared(answers: pl.DataFrame, **more: Any) -> pl.DataFrame:
    return counterfactual(answers, unit="prompt", group="group", text="text", resamples=50, **more)


def row(table: pl.DataFrame, metric: str, a: str = "a", b: str = "b") -> dict[str, Any]:
    return table.row(
        by_predicate=(pl.col("metric") == metric) & (pl.col("group_a") == a) & (pl.col("group_b") == b),
        named=True,
    )


def drawn(seed: int, units: int, answers: int, shift: float = 0.0, groups: str = "ab") -> pl.DataFrame:
    generator = np.random.default_rng(seed)
    prompts = generator.uniform(0.3, 0.6, size=(units, 1))
    scores = {
        group: np.clip(
            prompts + generator.normal(shift * (group == "b"), 0.1, size=(units, answers)), 0, 1
        ).tolist()
        for group in groups
    }
    return table(scores)


def test_sentiment_as_published() -> None:
    answers = drawn(1, units=7, answers=4, shift=0.1, groups="abc")
    scores = scored(answers, resamples=20, permutations=20)
    assert scores.height == 9
    for first, second in (("a", "b"), ("a", "c"), ("b", "c")):
        a = answers.filter(group=first)
        b = answers.filter(group=second)
        assert row(scores, "sentiment_strict", first, second)["estimate"] == pytest.approx(
            wasserstein_distance(a["score"], b["score"])
        )
        by_prompt = [
            wasserstein_distance(*(side.filter(pl.col("prompt") == unit)["score"] for side in (a, b)))
            for unit in range(7)
        ]
        assert row(scores, "sentiment_strict_by_prompt", first, second)["estimate"] == pytest.approx(
            np.mean(by_prompt)
        )
        share = (a["score"] > 0.5).cast(pl.Float64).to_numpy().mean() - (b["score"] > 0.5).cast(
            pl.Float64
        ).to_numpy().mean()
        assert row(scores, "sentiment_weak", first, second)["estimate"] == pytest.approx(share)


def test_answer_i_is_paired_with_answer_i_and_gaps_are_counted() -> None:
    answers = table(
        {"a": [[0.1, 0.9, 0.2], [0.4], [0.3], []], "b": [[0.5, None], [float("nan")], [0.3, 0.3], [0.9]]}
    )
    scores = row(scored(answers), "sentiment_weak")
    # Prompt 0: one pair whole, one with a side missing, one answer alone; 1: a side missing; 2: a pair and
    # one alone; 3: one alone.
    assert [scores[name] for name in ("n", "prompts", "missing", "unpaired", "estimate")] == [2, 2, 2, 3, 0.0]


def test_permutation_p_is_the_share_of_all_exchanges_of_whole_prompts() -> None:
    scores = {
        "a": [[0.9, 0.8], [0.6, 0.9], [0.2, 0.7], [0.8, 0.8]],
        "b": [[0.1, 0.4], [0.5, 0.3], [0.4, 0.1], [0.3, 0.9]],
    }
    found = scored(scores, resamples=10, permutations=20_000)
    strict, weak = [], []
    for swaps in product((False, True), repeat=4):
        sides: tuple[list[float], list[float]] = ([], [])
        for unit, swap in enumerate(swaps):
            sides[swap].extend(scores["a"][unit])
            sides[not swap].extend(scores["b"][unit])
        strict.append(wasserstein_distance(*sides))
        weak.append(np.mean(np.array(sides[0]) > 0.5) - np.mean(np.array(sides[1]) > 0.5))
    p = float(np.mean(np.array(strict) >= strict[0] - 1e-12))
    assert row(found, "sentiment_strict")["p"] == pytest.approx(p, abs=0.015)
    assert row(found, "sentiment_strict")["chance"] == pytest.approx(np.mean(strict), abs=0.01)
    p = float(np.mean(np.abs(weak) >= abs(weak[0]) - 1e-12))
    assert row(found, "sentiment_weak")["p"] == pytest.approx(p, abs=0.015)


def test_by_prompt_answers_are_exchanged_within_pairs() -> None:
    scores = {"a": [[0.9, 0.8, 0.7], [0.6, 0.9, 0.9]], "b": [[0.1, 0.4, 0.2], [0.5, 0.3, 0.95]]}
    found = scored(scores, resamples=10, permutations=20_000)
    null = []
    for swaps in product((False, True), repeat=6):
        a, b = np.array(scores["a"]), np.array(scores["b"])
        swap = np.array(swaps).reshape(2, 3)
        mixed = np.where(swap, b, a), np.where(swap, a, b)
        null.append(np.mean([wasserstein_distance(mixed[0][unit], mixed[1][unit]) for unit in range(2)]))
    expected = row(found, "sentiment_strict_by_prompt")
    assert expected["estimate"] == pytest.approx(null[0])
    assert expected["p"] == pytest.approx(np.mean(np.array(null) >= null[0] - 1e-12), abs=0.015)


def test_interval_of_a_share_is_that_of_the_prompts() -> None:
    answers = drawn(3, units=150, answers=3, shift=0.05)
    scores = row(scored(answers, resamples=2000), "sentiment_weak")
    above = (
        answers.with_columns((pl.col("score") > 0.5).cast(pl.Float64))
        .group_by("prompt", "group")
        .agg(pl.col("score").mean())
    )
    wide = above.pivot("group", index="prompt", values="score")
    half = 1.96 * float(np.std(wide["a"].to_numpy() - wide["b"].to_numpy(), ddof=1)) / np.sqrt(150)
    expected = [scores["estimate"] - half, scores["estimate"] + half]
    assert [scores["low"], scores["high"]] == pytest.approx(expected, abs=0.15 * half)


@pytest.mark.verify
def test_without_an_effect_nothing_is_found_more_often_than_chance_allows() -> None:
    p: dict[str, list[float]] = {"sentiment_strict": [], "sentiment_strict_by_prompt": []}
    above = 0
    for seed in range(120):
        scores = scored(drawn(seed, 25, 3), resamples=60, permutations=99, seed=seed)
        for metric, values in p.items():
            values.append(row(scores, metric)["p"])
            above += row(scores, metric)["low"] > 0
        assert all(row["low"] <= row["estimate"] <= row["high"] for row in scores.iter_rows(named=True))
    for values in p.values():
        assert kstest(values, "uniform").pvalue > 0.01
    assert above <= 24  # of 240; 5% are 12


def test_a_planted_effect_is_found_and_a_shift_is_its_own_distance() -> None:
    scores = scored(drawn(5, 60, 5, shift=0.12, groups="abc"))
    planted = row(scores, "sentiment_strict")
    assert planted["p"] < 0.01
    assert planted["q"] < 0.02
    assert 0 < planted["low"] < 0.12 < planted["high"]
    assert row(scores, "sentiment_strict_by_prompt")["low"] > 0
    assert row(scores, "sentiment_weak")["high"] < 0
    alike = row(scores, "sentiment_strict", "a", "c")
    assert alike["low"] == 0 < 0.05 < alike["p"]


def test_the_same_seed_gives_the_same_table_and_another_does_not() -> None:
    answers = drawn(6, 20, 2)
    once = scored(answers, seed=1)
    again = scored(answers, seed=1)
    with_second_seed = scored(answers, seed=2)
    assert once.equals(again)
    assert not once.equals(with_second_seed)
    assert once["estimate"].equals(with_second_seed["estimate"])


TEXTS = pl.DataFrame(
    {
        "prompt": ["x", "x", "y", "y", "x", "x", "y", "y"],
        "group": ["she"] * 4 + ["he"] * 4,
        "text": [
            *("She is a kind doctor.", "She works at night.", "The doctor she met smiled.", " "),
            *("He is a kind doctor.", "He is at work at night.", "The doctor he met laughed.", "He sings."),
        ],
    }
)


def test_texts_are_compared_pair_by_pair() -> None:
    found = texts_compared(TEXTS)
    first, second = TEXTS["text"][:3], TEXTS["text"][4:7]
    assert found["metric"].to_list() == ["bleu", "rouge_l"]
    for metric, measure in (("bleu", bleu), ("rouge_l", rouge_l)):
        one = row(found, metric, "she", "he")
        assert one["estimate"] == pytest.approx(np.mean(measure(first, second).to_numpy()))
        assert (one["n"], one["missing"], one["p"]) == (3, 1, None)
        # Neighbours: she/x, he/x, he/y; the only other answer of she/y is blank. The mean is over prompts and
        # groups.
        within = measure([TEXTS["text"][at] for at in (0, 4, 6)], [TEXTS["text"][at] for at in (1, 5, 7)])
        assert one["chance"] == pytest.approx(np.mean(within.to_numpy()))
    assert texts_compared(TEXTS.with_columns(text=pl.lit(""))).select("estimate", "missing").rows() == [
        (None, 4),
        (None, 4),
    ]


def test_masked_words_no_longer_tell_the_groups_apart() -> None:
    masked = texts_compared(TEXTS, mask={"she": "they", "he": "they"})
    assert (masked["estimate"] > texts_compared(TEXTS)["estimate"]).all()
    equal = TEXTS.filter(pl.col("text").str.contains("kind"))
    found = texts_compared(equal, mask=["she", "he"])
    assert found["estimate"].to_list() == pytest.approx([1.0, 1.0])
    assert found["note"].str.contains("masked").all()


class Lengths:
    """An encoder whose vectors have the direction of (words, letters)."""

    name = "test/encoder"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.array([[len(text.split()) ** 2, len(text)] for text in texts], dtype=np.float32)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def test_cosine_of_the_sentence_embeddings() -> None:
    encoder = Lengths()
    found = row(texts_compared(TEXTS, encoder=encoder), "cosine", "she", "he")
    vectors = encoder.encode(TEXTS["text"].str.replace("^ $", "x").to_list()).astype(float)
    assert found["estimate"] == pytest.approx(
        np.mean([vectors[at] @ vectors[at + 4] for at in range(3)]), abs=1e-6
    )
    assert 0.5 < found["estimate"] < 1
    assert (found["n"], found["missing"]) == (3, 1)


def test_prompts_with_one_side_have_no_pair() -> None:
    scores = scored({"a": [[0.1], [0.2], []], "b": [[], [], [0.5]]})
    assert scores.select("estimate", "low", "high", "p").null_count().row(0) == (3, 3, 3, 3)
    assert scores["note"].str.contains("no prompt has answers about both groups").all()
    assert scores["unpaired"].to_list() == [3, 3, 3]


def test_all_scores_missing_or_all_the_same_or_one_prompt() -> None:
    nothing = scored({"a": [[None], [0.1]], "b": [[0.3], [None]]})
    assert nothing["estimate"].null_count() == 3
    assert nothing["note"].str.contains("missing").all()
    one = row(scored({"a": [[0.5]] * 12, "b": [[0.5]] * 12}), "sentiment_strict")
    assert (one["estimate"], one["low"], one["p"], one["note"]) == (0.0, 0.0, 1.0, "all scores are equal")
    # 12 prompts without a difference do not exclude a small one.
    assert 0.1 < one["high"] < 0.4
    scores = scored({"a": [[0.1, 0.2]], "b": [[0.5, 0.9]]})
    assert scores["low"].null_count() == 3, "one prompt has no interval"
    assert scores["note"].str.contains("one prompt").all()
    assert row(scores, "sentiment_strict")["estimate"] == pytest.approx(0.55)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "promt"}, "did you mean prompt"),
        ({"group": "one"}, "only 'x'"),
        ({"group": "gap"}, "1 rows have no value in the column 'gap'"),
        ({"score": "wide"}, "between 0 and 1, found 7"),
        ({"score": "group"}, "expected numbers"),
        ({"score": None}, "nothing to compare"),
        ({"level": 95}, "level"),
        ({"resamples": 0}, "resamples"),
        ({"permutations": -1}, "permutations"),
        ({"threshold": 1.0}, "threshold"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    answers = table({"a": [[0.5]], "b": [[0.5]]}).with_columns(
        one=pl.lit("x"), gap=pl.Series(["a", None]), wide=pl.Series([7.0, 0.1])
    )
    with pytest.raises(InputError, match=message):
        scored(answers, **changes)
