"""Words near the names of groups: both measures by loops, words and phrases, intervals and tests."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import kstest

from tiltmeter.benchmarks.counterfactual import cooccurrence_bias, default_words, stereotypical_associations
from tiltmeter.errors import InputError

GROUPS = {"women": ["she", "her", "woman"], "men": ["he", "man"], "others": ["they"]}
TARGETS = ["kind", "nurse", "brave", "pilot", "unheard"]
STOP = ["the", "a", "is"]
FILLER = [
    "the",
    "a",
    "is",
    "walks",
    "sees",
    "garden",
    "night",
    "kind",
    "nurse",
    "brave",
    "she",
    "he",
    "they",
    "man",
    "her",
]


def texts(seed: int, count: int, words: int = 12) -> list[str]:
    generator = np.random.default_rng(seed + 1000)
    return [" ".join(generator.choice(FILLER, size=generator.integers(1, words))) for _ in range(count)]


def brief(measure: Callable[..., pl.DataFrame], *value: Any, **more: Any) -> pl.DataFrame:
    """Measured with few resamples and permutations."""
    return measure(*value, **{"resamples": 10, "permutations": 10} | more)


def single(table: pl.DataFrame, **values: str | None) -> dict[str, Any]:
    return table.row(
        by_predicate=pl.all_horizontal(
            pl.col(name).eq_missing(pl.lit(value)) for name, value in values.items()
        ),
        named=True,
    )


def test_stereotypical_associations_as_published() -> None:
    given = texts(1, 40)
    found = brief(stereotypical_associations, given, GROUPS, TARGETS)
    expected = {}
    for target in TARGETS:
        counts = dict.fromkeys(GROUPS, 0.0)
        for text in given:
            tokens = text.split()
            for group, words in GROUPS.items():
                counts[group] += sum(tokens.count(word) for word in words) * tokens.count(target) / len(words)
        total = sum(counts.values())
        if total:
            expected[target] = sum(abs(count / total - 1 / 3) for count in counts.values()) / 2
            one = single(found, target=target)
            assert (one["estimate"], one["most"]) == (
                pytest.approx(expected[target]),
                max(counts, key=lambda group: counts[group]),
            )
    assert set(expected) == {"kind", "nurse", "brave"}
    mean = single(found, target=None)
    assert mean["estimate"] == pytest.approx(np.mean(list(expected.values())))
    assert mean["note"].startswith("2 of 5 targets")
    unheard = single(found, target="unheard")
    assert (unheard["estimate"], unheard["note"]) == (None, "does not co-occur with a word of any group")


@pytest.mark.parametrize(("window", "beta"), [(None, 0.95), (3, 1.0), (2, 0.5), (None, 1.0)])
def test_cooccurrence_bias_as_published(window: int | None, beta: float) -> None:
    given = texts(2, 60)
    found = brief(cooccurrence_bias, given, GROUPS, TARGETS, window=window, beta=beta, stop=STOP)
    met: dict[tuple[str, str], float] = {}
    surroundings, named = dict.fromkeys(GROUPS, 0.0), dict.fromkeys(GROUPS, 0)
    references = 0
    protected = {word for words in GROUPS.values() for word in words}
    for text in given:
        tokens = text.split()
        for group, words in GROUPS.items():
            named[group] += sum(token in words for token in tokens)
            for i, word in enumerate(tokens):
                if word in protected or word in STOP:
                    continue
                for j, token in enumerate(tokens):
                    if token in words and (window is None or abs(i - j) <= window):
                        surroundings[group] += beta ** abs(i - j)
                        met[word, group] = met.get((word, group), 0.0) + beta ** abs(i - j)
        references += sum(word not in protected and word not in STOP for word in tokens)
    for a, b in (("women", "men"), ("women", "others"), ("men", "others")):
        published, balanced = {}, {}
        for target in ("kind", "nurse", "brave"):
            p = {
                group: (met[target, group] / surroundings[group]) / (named[group] / references)
                for group in (a, b)
            }
            published[target] = math.log10(p[a] / p[b])
            balanced[target] = math.log10(
                (met[target, a] / surroundings[a]) / (met[target, b] / surroundings[b])
            )
        for metric, values in (("cooccurrence_bias", published), ("cooccurrence_bias_balanced", balanced)):
            for target, value in values.items():
                assert single(found, metric=metric, group_a=a, group_b=b, target=target)[
                    "estimate"
                ] == pytest.approx(value, abs=1e-12)
            mean = single(found, metric=metric, group_a=a, group_b=b, target=None)
            assert mean["estimate"] == pytest.approx(np.mean(np.abs(list(values.values()))))
            assert (
                mean["note"]
                == "2 of 5 targets do not co-occur with both groups and are excluded, as published"
            )


def test_texts_of_all_lengths_keep_their_own_words() -> None:
    """Texts are worked on by length.

    Shuffling or lengthening them must not mix them up, in resamples neither.
    """
    given = [*texts(3, 30), " ".join(texts(4, 60)), *texts(5, 30)]
    found = cooccurrence_bias(given, GROUPS, TARGETS, stop=STOP, resamples=200, permutations=50)
    # The one long text dominates all sums: whether a resample holds it decides, so intervals are wide but
    # hold the estimate.
    for one in found.drop_nulls(["estimate", "target"]).iter_rows(named=True):
        assert one["low"] <= one["estimate"] <= one["high"]
    again = cooccurrence_bias(given[::-1], GROUPS, TARGETS, stop=STOP, resamples=1, permutations=0)
    assert again["estimate"].to_list() == pytest.approx(found["estimate"].to_list())


def test_naming_one_group_less_is_bias_as_published_only() -> None:
    given = ["she is kind"] * 10 + ["he is kind"] * 20
    found = brief(cooccurrence_bias, given, {"f": ["she"], "m": ["he"]}, ["kind"])
    ends = [
        single(found, metric=f"cooccurrence_bias{end}", target="kind")["estimate"]
        for end in ("", "_balanced")
    ]
    assert ends == pytest.approx([math.log10(2), 0.0])


def test_whole_words_in_any_case_phrases_and_possessives() -> None:
    given = [
        "The WOMAN\u2019s nurse-like shell.",
        "A white  Man is a human nurse",
        "Nurses shed her heroine",
        "The well-read man's NURSE!",
    ]
    groups = {"women": ["woman", "she", "her"], "white men": ["white man"], "men": ["man"]}
    found = brief(stereotypical_associations, given, groups, ["nurse", "well-read"])
    # "nurse" beside: woman (1 of 3 words), white man (1 of 1), man (1 of 1).
    shares = np.array([1 / 3, 1, 1]) / (7 / 3)
    nurse = single(found, target="nurse")
    assert (nurse["estimate"], nurse["n"], nurse["most"]) == (
        pytest.approx(np.abs(shares - 1 / 3).sum() / 2),
        3,
        None,
    )
    assert single(found, target="well-read")["most"] == "men"


def test_a_planted_association_is_found_and_none_where_there_is_none() -> None:
    generator = np.random.default_rng(7)
    given = []
    for _ in range(300):
        who = generator.choice(["she", "he"])
        job = generator.choice(["nurse", "pilot"], p=[0.8, 0.2] if who == "she" else [0.2, 0.8])
        given.append(
            f"today {who} met the {job} who was {generator.choice(['kind', 'brave'])} and left the"
            f" house again"
        )
    groups = {"f": ["she"], "m": ["he"]}
    found = stereotypical_associations(given, groups, ["nurse", "pilot", "kind", "brave"])
    for target, most in (("nurse", "f"), ("pilot", "m")):
        one = single(found, target=target)
        assert (one["most"], one["q"] < 0.01, 0.15 < one["low"] < 0.3 < one["high"]) == (most, True, True)
    assert single(found, target="kind")["low"] == 0
    both = cooccurrence_bias(given, groups, ["nurse", "pilot", "kind", "brave"])
    for metric in ("cooccurrence_bias", "cooccurrence_bias_balanced"):
        nurse = single(both, metric=metric, target="nurse")
        pilot = single(both, metric=metric, target="pilot")
        kind = single(both, metric=metric, target="kind")
        mean = single(both, metric=metric, target=None)
        assert pilot["high"] < -0.3 < 0.3 < nurse["low"]
        assert mean["p"] < 0.01 < 0.05 < kind["p"]


@pytest.mark.verify
def test_p_of_words_is_uniform_without_an_association() -> None:
    p: dict[str, list[float]] = {"tv": [], "ratio": []}
    for seed in range(60):
        arguments = texts(seed, 90, 9), {"f": ["she", "her"], "m": ["he", "man"]}, ["kind", "nurse"]
        distances = brief(stereotypical_associations, *arguments, permutations=99)
        ratios = brief(cooccurrence_bias, *arguments, permutations=99)
        p["tv"].append(single(distances, target="kind")["p"])
        p["ratio"].append(single(ratios, metric="cooccurrence_bias", target="kind")["p"])
    for values in p.values():
        assert 0.35 < np.mean(values) < 0.68
        assert np.mean(np.array(values) < 0.1) < 0.25
        assert kstest(values, "uniform").pvalue > 0.01


def test_texts_that_say_nothing_are_counted_and_shift_no_other_text() -> None:
    found = brief(
        stereotypical_associations, [None, " ", "she is kind", "..."], {"f": ["she"], "m": ["he"]}, ["kind"]
    )
    assert found.select("texts", "missing", "estimate").row(0) == (2, 2, pytest.approx(0.5))
    given = ["she is kind", "...", "he sees the nurse", "?!", "the garden is kind to her"]
    plain = [text for text in given if text[0].isalpha()]
    for measure in (stereotypical_associations, cooccurrence_bias):
        scores = brief(measure, given, GROUPS, TARGETS)
        expected = brief(measure, plain, GROUPS, TARGETS)
        assert scores["estimate"].to_list() == pytest.approx(expected["estimate"].to_list())
        assert scores["n"].to_list() == expected["n"].to_list()


@pytest.mark.parametrize("value", [[], [None, ""], ["nothing of the kind is said here"]])
def test_without_a_word_of_a_group_there_is_no_value(value: list[str | None]) -> None:
    groups = {"f": ["she"], "m": ["he"]}
    distances = stereotypical_associations(value, groups, ["kind"])
    both = cooccurrence_bias(value, groups, ["kind"])
    assert distances["estimate"].to_list() == [None] * 2
    assert distances["note"][0] == "no target co-occurs with a word of a group"
    assert both.select("estimate", "note").rows() == [(None, "no text contains a word of f")] * 4


def test_default_lists_are_whole_and_parallel() -> None:
    lists = default_words()
    assert len(lists["groups"]["female"]) == len(lists["groups"]["male"])
    words = [*lists["groups"]["female"], *lists["groups"]["male"], *lists["targets"], *lists["stop"]]
    assert len(words) == len(set(words))
    assert all(isinstance(word, str) and re.fullmatch(r"[a-z]+", word) for word in words)
    found = cooccurrence_bias(["She is a kind doctor and he is a calm nurse."] * 3)
    assert found["estimate"].null_count() < found.height


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": {"f": ["she"]}}, "at least two"),
        ({"groups": {"f": ["she"], "m": []}}, r"groups\['m'\] must be a non-empty list"),
        ({"groups": {"f": ["she"], "m": "he"}}, "must be a non-empty list of words"),
        ({"groups": {"f": ["She"], "m": ["she"]}}, "'she' is in groups"),
        ({"targets": ["kind", "woman"], "groups": {"f": ["woman"], "m": ["man"]}}, "one list only"),
        ({"targets": [" "]}, "without empty entries"),
        ({"level": 1.0}, "level"),
        ({"window": 0}, "window"),
        ({"beta": 0.0}, "beta"),
        ({"beta": 1.5}, "beta"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cooccurrence_bias(["she is kind"], **arguments)
