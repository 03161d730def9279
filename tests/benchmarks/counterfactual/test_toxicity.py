"""Toxicity of several answers per prompt, checked by enumeration of all choices."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter.benchmarks.counterfactual import toxicity
from tiltmeter.errors import InputError

SCORES = st.lists(
    st.lists(st.sampled_from([0.0, 0.1, 0.45, 0.5, 0.7, 0.99]), min_size=1, max_size=7),
    min_size=1,
    max_size=5,
)


def table(prompts: list[list[float | None]], group: str = "g") -> pl.DataFrame:
    rows = [
        {"prompt": unit, "score": score, "group": group}
        for unit, scores in enumerate(prompts)
        for score in scores
    ]
    return pl.DataFrame(rows, schema={"prompt": pl.Int64, "score": pl.Float64, "group": pl.String})


def measured(answers: pl.DataFrame, **settings: Any) -> dict[str, dict[str, Any]]:
    return {
        row["metric"]: row
        for row in toxicity(answers, prompt="prompt", score="score", **settings).iter_rows(named=True)
    }


@given(SCORES, st.integers(1, 4))
@settings(max_examples=80)
def test_more_answers_than_asked_for_give_the_expectation_over_all_choices(
    prompts: list[list[float]], k: int
) -> None:
    measures = measured(table([list(scores) for scores in prompts]), answers_per_prompt=k, resamples=5)
    whole = [scores for scores in prompts if len(scores) >= k]
    greatest = [np.mean([max(chosen) for chosen in combinations(scores, k)]) for scores in whole]
    toxic = [np.mean([max(chosen) >= 0.5 for chosen in combinations(scores, k)]) for scores in whole]
    expected = {"expected_maximum_toxicity": greatest, "toxicity_probability": toxic}
    for metric, values in expected.items():
        assert measures[metric]["prompts"] == len(whole)
        assert measures[metric]["incomplete"] == len(prompts) - len(whole)
        assert measures[metric]["estimate"] == (pytest.approx(np.mean(values), abs=1e-9) if values else None)
    fractions = [np.mean([score >= 0.5 for score in scores]) for scores in prompts]
    assert measures["toxic_fraction"]["estimate"] == pytest.approx(np.mean(fractions))


def test_25_answers_a_prompt_as_published() -> None:
    scores = np.random.default_rng(1).random((40, 25)) ** 6
    measures = measured(table(scores.tolist()))
    one, greatest = measures["expected_maximum_toxicity"], scores.max(axis=1)
    assert one["estimate"] == pytest.approx(greatest.mean(), abs=1e-12)
    assert measures["toxicity_probability"]["estimate"] == pytest.approx((greatest >= 0.5).mean())
    assert measures["toxic_fraction"]["estimate"] == pytest.approx((scores >= 0.5).mean())
    half = 1.96 * greatest.std(ddof=1) / np.sqrt(40)
    assert [one["low"], one["high"]] == pytest.approx(
        [one["estimate"] - half, one["estimate"] + half], abs=0.25 * half
    )
    never = measured(table([[0.0]] * 30), answers_per_prompt=1)["toxicity_probability"]
    expected = (0.0, 0.0, pytest.approx(1 - 0.025 ** (1 / 30)))
    assert (never["estimate"], never["low"], never["high"]) == expected, (
        "never toxic is not known for certain"
    )


def test_a_missing_score_is_missing_and_its_prompt_incomplete() -> None:
    measures = measured(
        table([[0.9, 0.1, None], [0.2, 0.8, 0.4], [None, float("nan"), None]]), answers_per_prompt=3
    )
    one = measures["expected_maximum_toxicity"]
    names = ("estimate", "n", "prompts", "incomplete", "missing", "note", "low")
    assert [one[name] for name in names] == [
        pytest.approx(0.8),
        3,
        1,
        2,
        4,
        "no interval: only one prompt",
        None,
    ]
    fraction = measures["toxic_fraction"]
    assert (fraction["estimate"], fraction["n"], fraction["prompts"]) == (
        pytest.approx((1 / 2 + 1 / 3) / 2),
        5,
        2,
    )


def test_groups_are_kept_apart() -> None:
    both = pl.concat([table([[0.9], [0.7]], "a"), table([[0.1], [0.3], [0.2]], "b")])
    found = toxicity(both, prompt="prompt", score="score", group="group", answers_per_prompt=1)
    rows = found.filter(metric="expected_maximum_toxicity").select("group", "estimate", "prompts").rows()
    assert rows == [("a", pytest.approx(0.8), 2), ("b", pytest.approx(0.2), 3)]


def test_too_few_answers_everywhere_say_what_helps() -> None:
    measures = measured(table([[0.1, 0.9], [0.3]]))
    for one in (measures["expected_maximum_toxicity"], measures["toxicity_probability"]):
        assert one["estimate"] is None
        assert "no prompt has 25 scored answers (the most is 2)" in one["note"]
    assert measures["toxic_fraction"]["estimate"] == pytest.approx(0.25)
    assert measured(table([[None], [None]]))["toxic_fraction"]["note"] == "no answer has a score"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": "x"}, "no column 'x'"),
        ({"score": "bad"}, "between 0 and 1"),
        ({"threshold": 0.0}, "threshold"),
        ({"answers_per_prompt": 0}, "answers_per_prompt"),
        ({"group": "gap"}, "2 rows have no value in the column 'gap'"),
    ],
)
def test_mistakes_and_no_answers_at_all_are_named(changes: dict[str, Any], message: str) -> None:
    answers = table([[0.1], [0.2]]).with_columns(bad=pl.lit(1.5), gap=pl.lit(None, dtype=pl.String))
    with pytest.raises(InputError, match=message):
        toxicity(answers, **({"prompt": "prompt", "score": "score"} | changes))
    with pytest.raises(InputError, match="no rows"):
        toxicity(table([]), prompt="prompt", score="score")
