"""Each plugin keeps the promises of its kind, and does what it is for."""

from __future__ import annotations

import numpy as np
import pytest

from tiltmeter.stats import Sample, SummaryOptions, summarise
from tiltmeter.testing import check_feature, check_probe, check_provider, check_statistic
from workplace.dice import create
from workplace.hedging import hedging
from workplace.salary_raise import PROBE as SALARY_RAISE
from workplace.training_request import PROBE as TRAINING_REQUEST
from workplace.trimmed import TRIMMED_MEAN


def test_the_suites_pass() -> None:
    check_probe(SALARY_RAISE)
    check_probe(TRAINING_REQUEST)
    check_provider(create, "dice/yes/no", options={"cast": "7"})
    check_feature(hedging, name="hedging")
    check_statistic(TRIMMED_MEAN, name="trimmed_mean")


def test_hedging_counts_words() -> None:
    assert hedging("She may be good, perhaps; and yet she seems quite sure") == pytest.approx(100 * 4 / 11)
    assert hedging("She leads.") == 0
    assert hedging("?!") is None


def test_a_trimmed_mean_is_not_moved_by_one_odd_value() -> None:
    values = np.array([[1.0] * 4 + [2.0] * 5 + [1_000.0]])
    summary = summarise(Sample(values, None, np.zeros(1), SummaryOptions()), ["it"], {"it": TRIMMED_MEAN})
    assert summary["it"] == pytest.approx([(3 * 1 + 5 * 2) / 8])
