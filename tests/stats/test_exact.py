"""The exact test of independence for equal groups, against Fisher's test and brute force."""

from __future__ import annotations

import itertools
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from tiltmeter.stats import exact_independence_p, independence_p


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(0, n))))
def test_two_groups_are_fishers_test(case: tuple[int, int, int]) -> None:
    n, a, c = case
    expected = fisher_exact([[a, n - a], [c, n - c]])[1]
    assert exact_independence_p([[a, c]], [n])[0] == pytest.approx(expected, rel=1e-9)


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), min_size=3, max_size=4))))
def test_brute_force(case: tuple[int, list[int]]) -> None:
    n, counts = case
    ways = {
        cell: prod(comb(n, a) for a in cell) for cell in itertools.product(range(n + 1), repeat=len(counts)) if sum(cell) == sum(counts)
    }
    reach = sum(a * a for a in counts)
    extreme = sum(way for cell, way in ways.items() if sum(a * a for a in cell) >= reach)
    assert exact_independence_p([counts], [n])[0] == pytest.approx(extreme / sum(ways.values()))


def test_a_published_row_of_three_lists() -> None:
    """Three lists of one identity of four, 720 lists each: significant by chi-squared, not by the chance that all three coincide."""
    assert independence_p([[3, 0, 0, 0]], 720)[0] < 0.05
    assert exact_independence_p([[3, 0, 0, 0]], [720])[0] == pytest.approx(4 * comb(720, 3) / comb(2880, 3))


def test_it_nears_chi_squared_where_counts_are_large() -> None:
    counts = np.array([[30, 20, 25, 12], [22, 22, 22, 21], [190, 180, 185, 188]])
    assert exact_independence_p(counts, [200] * 3) == pytest.approx(independence_p(counts, np.full((3, 1), 200)), rel=0.1)


def test_bad_input() -> None:
    for counts, sizes in (([[1, 4]], [3]), ([[-1, 1]], [3]), ([[0.5, 1]], [3]), ([1, 2], [3]), ([[1, 2]], [3, 3])):
        with pytest.raises(ValueError, match="counts"):
            exact_independence_p(counts, sizes)
