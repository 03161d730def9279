"""Comparisons over groups, and the intervals of those that noise lifts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import zscore

from tiltmeter.stats import maximum_interval
from tiltmeter.stats.disparity import COMPARISONS, Spread, column_quantiles, excess_p, lifted_interval


def compared(values: list[float], original: bool = False) -> dict[str, float]:
    with np.errstate(all="ignore"):
        return {name: float(entry.compute(Spread(np.array([values]), original))[0]) for name, entry in COMPARISONS.items()}


@given(st.lists(st.floats(0.01, 10), min_size=3, max_size=12))
def test_against_numpy(values: list[float]) -> None:
    told = compared([*values, float("nan")])
    assert told["max"] == max(values)
    assert told["min"] == min(values)
    assert_allclose(told["range"], np.ptp(values))
    assert_allclose(told["ratio"], min(values) / max(values))
    assert_allclose(told["average"], np.mean(values))
    assert_allclose(told["sd"], np.std(values, ddof=1), atol=1e-12)
    if np.std(values) > 1e-6:
        assert_allclose(told["max_abs_z"], np.abs(zscore(values)).max(), rtol=1e-6)
        assert_allclose(told["max_z"], zscore(values).max(), rtol=1e-6)


def test_a_low_outlier_shows_in_both_ends() -> None:
    told = compared([0.1, 0.9, 0.91, 0.92, 0.93])
    assert told["max_abs_z"] > 1.9 > told["max_z"]
    assert told["dixon_q"] == told["dixon_low"] > told["dixon_high"]
    assert told["dixon_margin"] > 0


def test_a_ratio_is_of_amounts() -> None:
    assert np.isnan(compared([-0.1, 0.2])["ratio"])
    assert np.isnan(compared([0.0, 0.0])["ratio"])
    assert compared([0.0, 0.2])["ratio"] == 0.0
    assert compared([-0.1, 0.2], original=True)["ratio"] == pytest.approx(-0.5)


def test_equal_groups_have_no_outlier() -> None:
    told = compared([0.1 + 0.2, 0.3, 0.3])  # equal but for rounding
    assert told["range"] < 1e-15
    assert np.isnan([told["max_abs_z"], told["max_z"], told["dixon_q"]]).all()


@given(st.integers(0, 1000), st.sampled_from([0.9, 0.95]))
@settings(max_examples=60, deadline=None)
def test_lifted_intervals_are_those_of_a_maximum(seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.uniform(0, 3, size=4)
    samples, null = np.abs(rng.normal(raw[:, None], 1, size=(4, 200))), np.abs(rng.normal(size=(4, 150)))
    samples[0, :20] = np.nan
    null[1, :20] = np.nan
    low, high = lifted_interval(raw, samples, null, level)
    p = excess_p(raw, null, 1)
    for at in range(4):
        one = maximum_interval(raw[at], samples[at], null[at], level)
        assert (low[at], high[at], p[at]) == pytest.approx((one.low, one.high, one.p))


def test_no_relabelling_no_p() -> None:
    low, high = lifted_interval(np.array([1.0]), np.ones((1, 9)), np.empty((1, 0)), 0.95)
    assert (low[0], high[0]) == (0.0, 1.0)
    assert np.isnan(excess_p(np.array([1.0]), np.empty((1, 0)), 1))[0]


def test_quantiles_skip_what_is_missing() -> None:
    samples = np.array([[5.0, np.nan, 1.0, 3.0], [np.nan] * 4])
    low, median, high = column_quantiles(samples, 1.0)
    assert_allclose([low, median, high], [[1, np.nan], [3, np.nan], [5, np.nan]])
