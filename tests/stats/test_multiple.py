"""The false-discovery rate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from tiltmeter.stats import benjamini_hochberg


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_q_values_are_those_of_scipy_and_missing_tests_do_not_count(p: list[float], gaps: list[int]) -> None:
    expected = false_discovery_control(p)
    assert benjamini_hochberg(p) == pytest.approx(expected)
    places = np.minimum(gaps, len(p)).astype(int)
    q = benjamini_hochberg(np.insert(p, places, np.nan))
    assert np.isnan(q).sum() == len(gaps)
    assert q[~np.isnan(q)] == pytest.approx(expected)


def test_families_along_an_axis_are_families_of_their_own() -> None:
    rng = np.random.default_rng(4)
    p = rng.random((3, 7, 4))
    p[rng.random(p.shape) < 0.3] = np.nan
    p[0, :, 1] = np.nan
    for axis in (0, 1, -1):
        families = np.moveaxis(benjamini_hochberg(p, axis=axis), axis, -1)
        for family, alone in zip(families.reshape(-1, p.shape[axis]), np.moveaxis(p, axis, -1).reshape(-1, p.shape[axis]), strict=True):
            assert family == pytest.approx(benjamini_hochberg(alone), nan_ok=True)


def test_shape_is_kept_and_nonsense_refused() -> None:
    assert benjamini_hochberg([[0.01, 0.02], [np.nan, 0.5]])[0] == pytest.approx([0.03, 0.03])
    assert benjamini_hochberg([]).shape == (0,)
    assert np.isnan(benjamini_hochberg([np.nan])).all()
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        benjamini_hochberg([1.2])
