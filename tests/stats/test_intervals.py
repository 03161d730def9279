"""Intervals, maxima of absolute differences, power, arithmetic with missing values, the package itself."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy import stats as reference

from tiltmeter import stats

FINITE = st.floats(-10, 10)
SHARE_OR_NONE = st.floats(0, 1) | st.just(math.nan)


def test_percentile_interval_skips_missing_values() -> None:
    values = np.append(np.arange(101.0), np.nan)
    assert stats.percentile_interval(values, 0.9) == pytest.approx((5, 95))
    assert all(math.isnan(end) for end in stats.percentile_interval([np.nan, np.nan], 0.95))


def test_normal_interval_is_the_original_one() -> None:
    values = [1.0, 2.0, 4.0, np.nan]
    half = 1.959964 * np.std([1, 2, 4])
    assert stats.normal_interval(values, 0.95) == pytest.approx((7 / 3 - half, 7 / 3 + half), abs=1e-6)
    assert stats.normal_interval([0.3, 0.3, np.nan], 0.95) == stats.Interval(0.3, 0.3)
    assert all(math.isnan(end) for end in stats.normal_interval([np.nan], 0.95))


def test_values_that_differ_by_rounding_are_constant() -> None:
    assert stats.is_constant([0.1 + 0.2, 0.3, np.nan])
    assert not stats.is_constant([0.3, 0.3001])
    assert not stats.is_constant([np.nan])


@given(st.integers(1, 5000), st.floats(0.5, 0.999))
def test_rare_event_interval_is_clopper_pearson_at_the_edge(n: int, level: float) -> None:
    exact = reference.binomtest(0, n).proportion_ci(level, "exact")
    low, high = stats.rare_event_interval(0.0, n, 0.0, 1.0, level)
    assert low == 0.0
    assert high == pytest.approx(exact.high)
    assert stats.rare_event_interval(1.0, n, 0.0, 1.0, level) == pytest.approx((1 - exact.high, 1.0))


def test_rare_event_interval_scales_with_the_range() -> None:
    low, high = stats.rare_event_interval(0.0, 100, -1.0, 1.0, 0.95)
    assert high == pytest.approx(2 * (1 - 0.025**0.01))
    assert low == -high
    assert stats.rare_event_interval(0.2, 0, 0.0, 1.0, 0.95) == (0.0, 1.0)
    assert all(math.isnan(end) for end in stats.rare_event_interval(math.nan, 10, 0, 1, 0.95))


@given(FINITE, FINITE, st.floats(0, 1))
def test_absolute_interval_contains_the_absolute_value_of_every_point(
    first: float, second: float, share: float
) -> None:
    low, high = min(first, second), max(first, second)
    inside = min(max(low + share * (high - low), low), high)
    bounds = stats.absolute_interval(low, high)
    assert 0.0 <= bounds.low <= abs(inside) <= bounds.high == max(abs(low), abs(high))


def test_absolute_interval_across_zero_below_zero_and_missing() -> None:
    assert stats.absolute_interval(-0.2, 0.1) == (0.0, 0.2)
    assert stats.absolute_interval(-0.4, -0.1) == (0.1, 0.4)
    assert all(math.isnan(end) for end in stats.absolute_interval(math.nan, math.nan))


def _spread(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Greatest difference between groups (last axis) over all outcomes (the axis before)."""
    return np.asarray(np.ptp(means, axis=-1).max(axis=-1))


def _simulate(truth: NDArray[np.float64], datasets: int) -> list[stats.MaximumEstimate]:
    """Groups with means `truth`, in units of the standard error of one difference."""
    rng = np.random.default_rng(7)
    results = []
    for _ in range(datasets):
        observed = truth + rng.normal(0, math.sqrt(0.5), truth.shape)
        noise = rng.normal(0, math.sqrt(0.5), (2, 300, *truth.shape))
        samples, null = _spread(observed + noise[0]), _spread(noise[1])
        results.append(stats.maximum_interval(float(_spread(observed)), samples, null, 0.95))
    return results


@pytest.mark.verify
@pytest.mark.parametrize("outcomes", [1, 12])
@pytest.mark.parametrize("effect", [0.0, 2.0, 3.0, 8.0])
def test_the_interval_of_a_maximum_covers_an_effect_of_any_size(outcomes: int, effect: float) -> None:
    truth = np.zeros((outcomes, 3))
    truth[0, 0] = effect
    results = _simulate(truth, 400)
    covered = np.mean([r.low <= effect <= r.high for r in results])
    assert 0.92 <= covered <= 0.99
    assert all((r.low > 0) == (r.p < 0.05) for r in results)


def test_the_interval_of_a_maximum_covers_many_equal_differences() -> None:
    truth = np.zeros((12, 3))
    truth[:, 0] = 5.0
    results = _simulate(truth, 300)
    assert np.mean([r.low <= 5.0 <= r.high for r in results]) > 0.88
    assert np.mean([r.estimate for r in results]) == pytest.approx(5.0, abs=0.3)


@given(
    st.floats(0, 1), st.lists(SHARE_OR_NONE, min_size=1, max_size=40), st.lists(SHARE_OR_NONE, max_size=60)
)
@settings(max_examples=80)
def test_a_maximum_lies_within_its_interval(raw: float, samples: list[float], null: list[float]) -> None:
    maximum = stats.maximum_interval(raw, samples, null, 0.95)
    if all(math.isnan(v) for v in samples):
        assert all(math.isnan(v) for v in maximum)
        return
    assert 0.0 <= maximum.low <= maximum.estimate <= maximum.high
    assert (maximum.low > 0) == (maximum.p < 1 - 0.95)


@pytest.mark.parametrize("freedom", [5.0, 30.0, math.inf])
def test_p_of_a_maximum_below_the_smallest_count_is_not_too_small(freedom: float) -> None:
    """Test three groups without an effect with 39 relabellings.

    p below 1/40 is a tail probability of a distribution with these degrees of freedom.
    """
    rng = np.random.default_rng(8)
    datasets = 20_000
    error = 1.0 if math.isinf(freedom) else np.sqrt(rng.chisquare(freedom, datasets) / freedom)
    observed = _spread(rng.normal(size=(datasets, 1, 3)))
    relabelled = np.reshape(error * np.ones(datasets), (-1, 1)) * _spread(
        rng.normal(size=(datasets, 39, 1, 3))
    )
    pairs = zip(observed, relabelled, strict=True)
    p = np.array([stats.relabelling_t_p(maximum, null, freedom) for maximum, null in pairs])
    for level in (0.02, 0.01, 0.005, 0.0026, 0.001):
        assert (p < level).mean() <= level
    assert stats.relabelling_t_p(20.0, relabelled[0], 30.0) < 0.001


def test_stretching_widens_the_interval_of_a_maximum_and_keeps_its_estimate() -> None:
    rng = np.random.default_rng(9)
    samples, null = 0.5 + 0.1 * rng.normal(size=500), np.abs(0.1 * rng.normal(size=500))
    plain = stats.maximum_interval(0.45, samples, null, 0.95, stretch=1.0)
    stretched = stats.maximum_interval(0.45, samples, null, 0.95, stretch=1.5)
    assert stretched.estimate == plain.estimate
    assert stretched.low < plain.low < plain.high < stretched.high


def test_p_of_intervals_inverts_them() -> None:
    z = 2.5
    p = stats.p_of_intervals(lambda level: z - stats.two_sided_z(level) if level else z)
    assert p == pytest.approx(stats.two_sided_t_p(z, math.inf))
    assert stats.p_of_intervals(lambda level: -level) == 1
    assert 0 < stats.p_of_intervals(lambda level: 1.0) < 1e-9


def test_a_maximum_without_data_or_without_relabellings_has_no_p() -> None:
    assert all(math.isnan(v) for v in stats.maximum_interval(math.nan, [0.1], [0.1], 0.95))
    alone = stats.maximum_interval(0.5, [0.4, 0.5, 0.6], [], 0.95)
    assert math.isnan(alone.p)
    assert alone.low == 0.0
    # A relabelling with the observed value counts, also if it differs by rounding.
    assert stats.maximum_interval(0.1 + 0.2, [0.3], [0.3, 0.0, 0.0], 0.95).p == 0.5


def test_a_ratio_by_zero_is_missing_and_a_mean_skips_missing_values() -> None:
    assert stats.ratio([1, 0, 3, np.nan], [2, 0, 0, 1]) == pytest.approx(
        [0.5, np.nan, np.nan, np.nan], nan_ok=True
    )
    assert stats.ratio([[1], [2]], [1, 2]).shape == (2, 2)
    assert float(stats.ratio(1, 4)) == 0.25
    assert stats.nan_mean([1, np.nan, np.nan], [3, 4, np.nan]) == pytest.approx([2, 4, np.nan], nan_ok=True)
    assert float(stats.nan_mean(1.0, np.nan, 2.0)) == 1.5


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=2, max_size=30))
def test_pearson_from_sums_is_pearson(points: list[tuple[int, int]]) -> None:
    x, y = np.array(points, dtype=float).T
    r = float(stats.pearson_from_sums(len(x), x.sum(), y.sum(), x @ x, x @ y, y @ y))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(r)
    else:
        assert r == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    # The correlation of no points is missing.
    assert np.isnan(stats.pearson_from_sums([0, 2], [0, 2], [0, 1], [0, 2], [0, 1], [0, 1])).all()


def test_detectable_effect_is_found_with_the_stated_power() -> None:
    effect = stats.detectable([stats.ExpectedError(0.1)])
    assert effect == pytest.approx(0.28016, abs=1e-5)
    assert stats.half_width(0.1) == pytest.approx(0.1959964)
    observed = np.random.default_rng(0).normal(effect, 0.1, 100_000)
    assert np.mean(observed > stats.half_width(0.1)) == pytest.approx(0.8, abs=0.01)


def test_the_power_is_averaged_over_standard_errors_that_are_equally_probable() -> None:
    errors = [
        stats.ExpectedError(0.1),
        stats.ExpectedError(0.1, freedom=9.0),
        stats.ExpectedError(0.4, freedom=4.0),
        stats.ExpectedError(0.0),
    ]
    effect = stats.detectable(errors, 0.99)
    rng = np.random.default_rng(0)
    detected = [
        np.mean(
            np.abs(rng.normal(effect, expected.error, 100_000))
            > stats.two_sided_t(0.99, expected.freedom) * expected.error
        )
        for expected in errors
    ]
    assert np.mean(detected) == pytest.approx(0.8, abs=0.01)
    assert stats.detectable([stats.ExpectedError(0.0)] * 9 + [stats.ExpectedError(0.1)]) == 0.0


def test_the_names_of_the_package_are_sorted_and_its_import_loads_no_scipy() -> None:
    assert vars(stats)["__all__"] == sorted(vars(stats)["__all__"])
    code = "import sys, tiltmeter.stats; sys.exit(any(name.split('.')[0] == 'scipy' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
