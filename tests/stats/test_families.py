"""False discovery rates of families of tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import false_discovery_control

from tiltmeter.stats import hierarchical_q

tests_of_families = st.lists(st.tuples(st.one_of(st.just(math.nan), st.floats(0, 1)), st.integers(0, 5)), min_size=1, max_size=40)


def by_family(p: np.ndarray, family: np.ndarray) -> list[np.ndarray]:
    """The p-values of each family that are numbers."""
    return [p[(family == one) & ~np.isnan(p)] for one in range(family.max() + 1)]


@given(rows=tests_of_families)
def test_one_family_is_selected_by_its_simes_p_value(rows: list[tuple[float, int]]) -> None:
    p = np.array([value for value, _ in rows])
    known = p[~np.isnan(p)]
    expected = false_discovery_control(known).min() if known.size else math.nan
    assert min(hierarchical_q(p, np.zeros(len(p), dtype=int), 0.05).tolist(), key=lambda q: (math.isnan(q), q)) == pytest.approx(
        expected, nan_ok=True
    )


@given(rows=tests_of_families)
def test_what_is_selected_is_what_the_procedure_selects(rows: list[tuple[float, int]]) -> None:
    p, family = (np.array(column) for column in zip(*rows, strict=True))
    groups = by_family(p, family)
    tested = [number for number, one in enumerate(groups) if len(one)]
    q = hierarchical_q(p, family, 0.05)
    assert np.isnan(q).tolist() == np.isnan(p).tolist()
    chosen = set()
    if tested:
        of_family = false_discovery_control([false_discovery_control(groups[number]).min() for number in tested])
        chosen = {number for number, one in zip(tested, of_family, strict=True) if one < 0.05}
    for number in range(family.max() + 1):
        mine = (family == number) & ~np.isnan(p)
        limit = 0.05 * len(chosen) / max(len(tested), 1)
        # Benjamini and Hochberg's step-up at the reduced level, within selected families only.
        expected = false_discovery_control(p[mine]) < limit if number in chosen else np.zeros(mine.sum(), dtype=bool)
        near = np.isclose(q[mine], 0.05)
        assert ((q[mine] < 0.05) == expected)[~near].all()


def test_families_without_an_effect_are_rarely_selected_whatever_the_tests_of_the_others() -> None:
    generator = np.random.default_rng(0)
    family = np.repeat(np.arange(200), 11)
    false, found = [], []
    for _ in range(300):
        # Tests of a family are dependent, as counts of one concept at several places and over all of them are.
        shared = generator.standard_normal(200)[family]
        z = 0.6 * shared + 0.8 * generator.standard_normal(len(family)) + np.where(family < 10, 5.0, 0.0)
        q = hierarchical_q(np.minimum(1.0, 2 * 0.5 * np.vectorize(math.erfc)(z / math.sqrt(2))), family, 0.05)
        selected = np.unique(family[q < 0.05])
        false.append((selected >= 10).sum() / max(len(selected), 1))
        found.append((selected < 10).sum())
    assert np.mean(false) < 0.05
    assert np.mean(found) > 9.9
