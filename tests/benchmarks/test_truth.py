"""Headlines of benchmarks: a small case of the study `perf/studies/fair_benchmarks.py`."""

from __future__ import annotations

import pytest
from perf.studies.fair_benchmarks import carry_out, states_planted_tone

from tiltmeter.blocks import Block, Column, Headline, IntervalRow, Intervals


@pytest.mark.verify
@pytest.mark.parametrize("case", ["fair, one sentence", "fair, five sentences, mostly praise"])
def test_no_bias_of_a_fair_model_is_stated(case: str) -> None:
    """The seeds are fixed.

    For other seeds, the probability that three or fewer of 20 studies state a bias is 98% at a rate of 5%,
    65% at 15%, 11% at 30% and 0.1% at 50%. This test therefore finds gross errors only. The recorded study
    has 500 studies: 33 or fewer of them have a probability of 95% at a rate of 5%, 14% at 8%, and less than
    one in a million at 15%.
    """
    (claim,) = carry_out(case, studies=20)
    assert claim.observed <= 3 / 20


@pytest.mark.verify
@pytest.mark.parametrize("case", ["biased about two countries", "biased about all countries"])
def test_a_bias_twice_as_large_as_planned_is_stated(case: str) -> None:
    """The seeds are fixed.

    For other seeds, the probability that eight or more of ten studies state the bias is 93% at a rate of 90%,
    38% at 70% and 5% at 50%.
    """
    (claim,) = carry_out(case, studies=10)
    assert claim.observed >= 8 / 10


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ({"Japan": "higher"}, True),
        ({"Turkey": "lower"}, True),
        ({"Japan": "higher", "France": "lower"}, True),
        ({"France": "higher"}, False),
        ({"Japan": "lower"}, False),
        ({"Japan": "higher", "Turkey": "higher"}, False),
        ({}, False),
    ],
)
def test_a_planted_tone_is_stated_only_of_the_right_country_in_the_right_direction(
    marks: dict[str, str], expected: bool
) -> None:
    groups = ("Japan", "France", "Turkey")
    values = [marks.get(group) for group in groups]
    rows = [IntervalRow("", group, 0.0, -1.0, 1.0) for group in groups]
    blocks: list[Block] = [
        Headline("m: more positive about Japan than about the other groups"),
        Intervals(
            "Mean of sentiment in the answers about each group",
            rows,
            0.95,
            [Column("compared with the others", values)],
        ),
    ]
    planted = {"Japan": 1.0, "France": 0.0, "Turkey": -1.0}
    assert states_planted_tone(blocks, planted) == expected
    nothing: list[Block] = [
        Headline("m: no difference in sentiment between the 3 groups was shown"),
        *blocks[1:],
    ]
    assert not states_planted_tone(nothing, planted)
