"""Sample sizes of shares, and the excess of a share over a boundary that a test is likely to show."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tiltmeter import stats


@given(share=st.floats(0.01, 0.6), size=st.integers(10, 5_000), critical=st.sampled_from([1.6, 1.96, 2.3]))
def test_the_sample_size_follows_from_the_width_of_wilsons_interval(
    share: float, size: int, critical: float
) -> None:
    variance = share * (1 - share) / size + critical**2 / (4 * size**2)
    half = critical * math.sqrt(variance) / (1 + critical**2 / size)
    assert stats.size_from_width(share, half, critical) == pytest.approx(size, rel=1e-6)


@pytest.mark.parametrize(("size", "level"), [(40, 0.99), (200, 0.95), (1000, 0.9974)])
def test_an_excess_over_a_boundary_is_shown_with_the_stated_power(size: int, level: float) -> None:
    boundary = 0.05
    share = boundary + stats.detectable_excess(size, boundary, level)
    observed = np.random.default_rng(0).binomial(size, share, 200_000) / size
    error = math.sqrt(boundary * (1 - boundary) / size)
    significant = (observed - boundary) / error > NormalDist().inv_cdf(level)
    assert significant.mean() == pytest.approx(0.8, abs=0.06), "counts are whole"


def test_no_excess_is_large_enough_in_a_tiny_sample() -> None:
    assert stats.detectable_excess(0.1, 0.5, 0.9999) == math.inf
