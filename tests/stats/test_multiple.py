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


def test_shape_is_kept_and_nonsense_refused() -> None:
    assert benjamini_hochberg([[0.01, 0.02], [np.nan, 0.5]])[0] == pytest.approx([0.03, 0.03])
    assert benjamini_hochberg([]).shape == (0,)
    assert np.isnan(benjamini_hochberg([np.nan])).all()
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        benjamini_hochberg([1.2])
