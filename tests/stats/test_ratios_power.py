"""Arithmetic with missing values, power, and the face of the package."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltmeter import stats
from tiltmeter.stats import detectable, half_width, nan_mean, pearson_from_sums, ratio


def test_ratio_by_zero_is_missing_without_a_warning() -> None:
    assert ratio([1, 0, 3, np.nan], [2, 0, 0, 1]) == pytest.approx([0.5, np.nan, np.nan, np.nan], nan_ok=True)
    assert ratio([[1], [2]], [1, 2]).shape == (2, 2)
    assert float(ratio(1, 4)) == 0.25


def test_mean_skips_what_is_missing() -> None:
    assert nan_mean([1, np.nan, np.nan], [3, 4, np.nan]) == pytest.approx([2, 4, np.nan], nan_ok=True)
    assert float(nan_mean(1.0, np.nan, 2.0)) == 1.5
    with pytest.raises(ValueError, match="at least one"):
        nan_mean()


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=2, max_size=30))
def test_pearson_from_sums_is_pearson(points: list[tuple[int, int]]) -> None:
    x, y = np.array(points, dtype=float).T
    r = float(pearson_from_sums(len(x), x.sum(), y.sum(), x @ x, x @ y, y @ y))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(r)
    else:
        assert r == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)


def test_pearson_of_nothing_is_missing() -> None:
    assert np.isnan(pearson_from_sums([0, 2], [0, 2], [0, 1], [0, 2], [0, 1], [0, 1])).all()


def test_detectable_effect_is_found_with_the_stated_power() -> None:
    effect = detectable(0.1)
    assert effect == pytest.approx(0.28016, abs=1e-5)
    assert half_width(0.1) == pytest.approx(0.1959964)
    seen = np.random.default_rng(0).normal(effect, 0.1, 100_000)
    assert np.mean(seen > half_width(0.1)) == pytest.approx(0.8, abs=0.01)


def test_the_package_is_sorted_and_light() -> None:
    assert stats.__all__ == sorted(stats.__all__)
    code = "import sys, tiltmeter.stats; sys.exit(any(name.split('.')[0] == 'scipy' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
