"""Bounded least-squares lines from sums, against the same lines from rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from tiltmeter.stats import box_line_slope, lsq_linear_slope


def _sums(s: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(v) for v in (s.size, s.sum(), y.sum(), s @ s, s @ y, y @ y))


def _full(s: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    return lsq_linear(np.column_stack([s, np.ones_like(s)]), y, bounds=([-1, 0], [1, 1]))


OUTCOMES = {
    "any": lambda s, rng: (rng.random(s.size) < rng.random()).astype(float),
    "rising": lambda s, rng: (rng.random(s.size) < s).astype(float),
    "low and rising": lambda s, rng: (rng.random(s.size) < 0.4 * s**2).astype(float),
    "step up": lambda s, rng: (s > 0.5).astype(float),
    "step down": lambda s, rng: (s < 0.5).astype(float),
    "shares": lambda s, rng: np.round(rng.random(s.size) * 5) / 5,
    "all reject": lambda s, rng: np.zeros_like(s),
    "all but one reject": lambda s, rng: np.eye(1, s.size)[0],
    "all but one accept": lambda s, rng: 1 - np.eye(1, s.size)[0],
}


@pytest.mark.parametrize("kind", OUTCOMES)
@given(n=st.integers(3, 2000), seed=st.integers(0, 10**6))
@settings(max_examples=25)
def test_the_slope_from_sums_equals_that_of_scipy_on_all_rows(kind: str, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = rng.choice(rng.random(339), n)
    y = OUTCOMES[kind](s, rng)
    full = _full(s, y)
    # SciPy's rounding decides a line that lies exactly on a bound (three rows may give one): see the next
    # test.
    ordinary = np.linalg.lstsq(np.column_stack([s, np.ones_like(s)]), y)[0]
    assume(s.var() > 1e-6)
    distances = np.abs(np.array([*(ordinary - [-1, 0]), *([1, 1] - ordinary)]))
    assume(kind == "all reject" or distances.min() > 1e-9)
    assert lsq_linear_slope(*_sums(s, y)) == pytest.approx(full.x[0], abs=1e-9)
    assert box_line_slope(*_sums(s, y)[:5]) == pytest.approx(full.x[0], abs=1e-5)


def test_the_slope_of_equal_outcomes_is_zero_and_near_that_of_scipy() -> None:
    s = np.random.default_rng(0).random(500)
    y = np.ones(500)
    slope = lsq_linear_slope(*_sums(s, y))
    assert slope == pytest.approx(0.0, abs=1e-12)
    assert slope == pytest.approx(_full(s, y).x[0], abs=2e-5)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=20))
@settings(max_examples=100)
def test_the_bounded_slope_is_no_worse_than_a_fine_grid(points: list[tuple[float, float]]) -> None:
    s, y = np.array(points).T
    assume(s.var() > 1e-4)

    def error(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(((a[..., None] * s + b[..., None] - y) ** 2).sum(-1))

    slope = box_line_slope(*_sums(s, y)[:5])
    assert -1.0 <= slope <= 1.0
    intercept = np.clip(np.mean(y - slope * s), 0, 1)
    grid = np.meshgrid(np.linspace(-1, 1, 81), np.linspace(0, 1, 41))
    assert error(slope, np.asarray(intercept)) <= error(*grid).min() + 1e-9


def test_slopes_of_many_samples_are_computed_at_once() -> None:
    rng = np.random.default_rng(2)
    rows = [(rng.random(50), rng.integers(0, 2, 50).astype(float)) for _ in range(6)]
    sums = np.array([_sums(s, y) for s, y in rows]).T.reshape(6, 2, 3)
    expected = [_full(s, y).x[0] for s, y in rows]
    assert lsq_linear_slope(*sums).ravel() == pytest.approx(expected, abs=1e-9)
    assert box_line_slope(*sums[:5]).shape == (2, 3)


def test_the_slope_without_variation_is_missing() -> None:
    for sums in ((0, 0, 0, 0, 0, 0), (3, 0.9, 1, 0.27, 0.3, 1)):
        assert np.isnan([box_line_slope(*sums[:5]), lsq_linear_slope(*sums)]).all()
