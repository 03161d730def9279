"""The interval of a sum of rare events."""

from __future__ import annotations

import numpy as np
import scipy.stats
from hypothesis import given, strategies as st

from tiltmeter import stats


@given(st.integers(0, 30), st.floats(0.1, 10), st.sampled_from([0.9, 0.95]))
def test_equal_weights_give_the_exact_poisson_interval(count: int, weight: float, level: float) -> None:
    low, high = stats.weighted_sum_interval([weight] * count, weight, level)
    tail = (1 - level) / 2
    assert np.isclose(low, weight * scipy.stats.chi2.ppf(tail, 2 * count) / 2 if count else 0.0)
    assert np.isclose(high, weight * scipy.stats.chi2.ppf(1 - tail, 2 * count + 2) / 2)


def test_unequal_weights_cover_the_expected_sum() -> None:
    rng = np.random.default_rng(5)
    rates, weights = np.array([0.02, 0.1, 0.01]), np.array([1.0, 3.0, 8.0])
    sizes = np.array([60, 20, 40])
    expected = float((rates * sizes * weights).sum())
    inside = 0
    for _ in range(2000):
        drawn = rng.poisson(rates * sizes)
        low, high = stats.weighted_sum_interval(np.repeat(weights, drawn), float(weights.max()), 0.95)
        inside += low <= expected <= high
    assert inside > 0.945 * 2000
