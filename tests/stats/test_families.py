"""False discovery rates of families of tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from scipy.stats import false_discovery_control

from tiltmeter.stats import hierarchical_q

small = st.floats(1e-9, 1e-3)
p_values = st.one_of(
    st.just(math.nan),
    small,
    st.floats(0, 1, allow_subnormal=False),
    st.sampled_from([0.0, 0.01, 0.02, 0.04, 0.5, 1.0]),
)
tests_of_families = st.lists(st.tuples(p_values, st.integers(0, 5)), min_size=1, max_size=40)
levels = st.one_of(st.floats(1e-6, 1), st.sampled_from([0.01, 0.03, 0.05, 0.1, 0.5]))

RISES = [(1e-4, 0), (0.012, 0), (0.02, 1), (0.02, 2), (0.9, 3)]
"""The second test of family 0 is selected at .05, where three of four families are selected, but not at .02,
where one is."""


def arrays(rows: list[tuple[float, int]]) -> tuple[np.ndarray, np.ndarray]:
    """The p-values, and the family of each."""
    return np.array([p for p, _ in rows]), np.array([family for _, family in rows])


def by_family(p: np.ndarray, family: np.ndarray) -> list[np.ndarray]:
    """The p-values of each family that are numbers."""
    return [p[(family == number) & ~np.isnan(p)] for number in range(family.max() + 1)]


def selected(p: np.ndarray, family: np.ndarray, level: float) -> np.ndarray:
    """Select tests at a level by the procedure of Benjamini and Bogomolov.

    The step-up procedure is that of SciPy.
    """
    groups = by_family(p, family)
    tested = [number for number, group in enumerate(groups) if len(group)]
    chosen = np.zeros(len(p), dtype=bool)
    if not tested:
        return chosen
    of_family = false_discovery_control([false_discovery_control(groups[number]).min() for number in tested])
    families = [number for number, q in zip(tested, of_family, strict=True) if q < level]
    for number in families:
        members = (family == number) & ~np.isnan(p)
        chosen[members] = false_discovery_control(p[members]) * len(tested) / len(families) < level
    return chosen


@given(rows=tests_of_families)
def test_one_family_is_selected_by_its_simes_p_value(rows: list[tuple[float, int]]) -> None:
    p = np.array([value for value, _ in rows])
    tested = p[~np.isnan(p)]
    expected = false_discovery_control(tested).min() if tested.size else math.nan
    q = hierarchical_q(p, np.zeros(len(p), dtype=int))
    assert min(q.tolist(), key=lambda q: (math.isnan(q), q)) == pytest.approx(expected, nan_ok=True)


@given(rows=tests_of_families, level=levels)
@example(rows=RISES, level=0.05)
@example(rows=RISES, level=0.02)
@example(rows=RISES, level=0.025)
def test_the_procedure_selects_the_tests_with_a_q_below_the_level(
    rows: list[tuple[float, int]], level: float
) -> None:
    p, family = arrays(rows)
    q = hierarchical_q(p, family)
    assert np.isnan(q).tolist() == np.isnan(p).tolist()
    near = np.isclose(q, level, rtol=1e-9, atol=0)  # equal but for rounding
    assert ((q < level) == selected(p, family, level))[~near].all()


@given(rows=tests_of_families, level=levels)
def test_each_q_is_the_level_at_which_the_test_begins_to_be_selected(
    rows: list[tuple[float, int]], level: float
) -> None:
    p, family = arrays(rows)
    q = hierarchical_q(p, family)
    for test in np.flatnonzero((q > 1e-300) & (q < 1)):
        assert selected(p, family, q[test] * (1 + 1e-9))[test]
        assert not selected(p, family, q[test] * (1 - 1e-9))[test]
    # What is selected at a level is selected at all higher ones, so the levels of a test have no gaps.
    assert not (selected(p, family, level / 2) & ~selected(p, family, level)).any()


def test_q_is_larger_where_fewer_families_are_selected() -> None:
    p, family = arrays(RISES)
    # The second test of family 0 is .012 after adjustment within it. At .05, three of four families are
    # selected, and .012 * 4 / 3 = .016 is below the level. At .016, one family is selected, and .012 * 4 is
    # above the level. Two more are selected above .02 * 4 / 3.
    assert hierarchical_q(p, family) == pytest.approx([0.0008, 0.08 / 3, 0.08 / 3, 0.08 / 3, 0.9])
    assert selected(p, family, 0.02).sum() == 1
    assert selected(p, family, 0.05).sum() == 4


def test_families_without_an_effect_are_rarely_selected_beside_families_with_one() -> None:
    generator = np.random.default_rng(0)
    family = np.repeat(np.arange(200), 11)
    false, entries = [], []
    for _ in range(300):
        # Tests of a family are dependent, like counts of one concept at each place and over all places.
        shared = generator.standard_normal(200)[family]
        z = 0.6 * shared + 0.8 * generator.standard_normal(len(family)) + np.where(family < 10, 5.0, 0.0)
        p = np.minimum(1.0, 2 * 0.5 * np.vectorize(math.erfc)(z / math.sqrt(2)))
        q = hierarchical_q(p, family)
        chosen = np.unique(family[q < 0.05])
        false.append((chosen >= 10).sum() / max(len(chosen), 1))
        entries.append((chosen < 10).sum())
    assert np.mean(false) < 0.05
    assert np.mean(entries) > 9.9
