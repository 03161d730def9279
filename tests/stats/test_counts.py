"""Counts of groups compared: tests, intervals, strata, log-odds, the false-discovery rate."""

from __future__ import annotations

import itertools
from collections import defaultdict
from fractions import Fraction
from math import comb, log, prod, sqrt

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chi2_contingency, false_discovery_control, fisher_exact, hypergeom, norm

from tiltmeter import stats

Table = tuple[int, int, int, int]  # a of n, c of m

groups = st.integers(1, 900).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
small_groups = st.integers(0, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
tables = st.tuples(groups, groups).map(lambda two: (*two[0], *two[1]))
small_tables = st.tuples(small_groups, small_groups).map(lambda two: (*two[0], *two[1]))


def chances(table: Table) -> dict[int, Fraction]:
    """The hypergeometric distribution of the first count, in exact fractions."""
    a, n, c, m = table
    does = a + c
    ways = comb(n + m, does)
    return {
        x: Fraction(comb(n, x) * comb(m, does - x), ways) for x in range(max(0, does - m), min(n, does) + 1)
    }


def exact_over_strata(strata: list[Table]) -> float:
    sums = {0: Fraction(1)}
    for table in strata:
        grown: dict[int, Fraction] = defaultdict(Fraction)
        for x, chance in chances(table).items():
            for total, share in sums.items():
                grown[total + x] += chance * share
        sums = grown
    observed = sum(table[0] for table in strata)
    return float(sum(share for total, share in sums.items() if total >= observed))


@given(
    st.integers(2, 5).flatmap(
        lambda k: st.lists(st.lists(groups, min_size=k, max_size=k), min_size=1, max_size=5)
    )
)
def test_independence_is_that_of_scipy_and_degenerate_tables_have_p_1(
    given_tables: list[list[tuple[int, int]]],
) -> None:
    a, n = np.array(given_tables).transpose(2, 0, 1)
    for p, does, size in zip(stats.independence_p(a, n), a, n, strict=True):
        table = np.array([does, size - does])
        if not table.sum(axis=1).all():
            assert p == 1
            continue
        expected = chi2_contingency(table).pvalue
        if expected > 1e-150:
            assert p == pytest.approx(expected, rel=1e-12)


def test_independence_p_is_exact_for_extreme_tables() -> None:
    p = stats.independence_p([[550, 94]], [[900, 900]])[0]
    assert p == pytest.approx(7.198889591049779e-111, rel=1e-12, abs=0)
    assert p == pytest.approx(chi2_contingency([[550, 94], [350, 806]]).pvalue, rel=1e-12, abs=0)


def test_independence_leaves_empty_groups_out() -> None:
    # Without the empty group there are two, and Yates' correction is applied.
    assert (
        stats.independence_p([[6, 0, 0]], [[800, 0, 800]])[0]
        == stats.independence_p([[6, 0]], [[800, 800]])[0]
    )
    assert stats.independence_p([[3, 0], [0, 0], [5, 5]], [[5, 0], [7, 7], [5, 5]]).tolist() == [1, 1, 1]
    assert stats.independence_p(np.zeros((0, 3)), [4, 4, 4]).shape == (0,)


@given(tables)
def test_exact_test_is_the_sum_of_hypergeometric_chances(table: Table) -> None:
    assert stats.exact_greater(*table) == pytest.approx(exact_over_strata([table]), rel=1e-11, abs=1e-300)


def test_exact_test_keeps_its_precision_for_extreme_tables() -> None:
    table = (560, 900, 94, 900)
    expected = exact_over_strata([table])
    assert 0 < expected < 1e-100
    assert stats.exact_greater(*table) == pytest.approx(expected, rel=1e-11, abs=0)


@given(tables)
def test_normal_test_is_half_of_the_two_sided_one_with_yates_correction(table: Table) -> None:
    a, n, c, m = table
    p = stats.z_greater(*table)
    if a + c in (0, n + m):
        assert p == 1
        return
    excess = a - (a + c) * n / (n + m)
    if excess >= 0.5:
        assert p == pytest.approx(stats.independence_p([[a, c]], [[n, m]])[0] / 2, rel=1e-9, abs=1e-300)
    elif excess <= 0:
        assert p > 0.5


@given(st.lists(tables | small_tables, min_size=1, max_size=8))
def test_the_test_is_exact_for_few_expected_counts_and_in_the_tail(several: list[Table]) -> None:
    a, n, c, m = np.array(several).T
    for p, table in zip(stats.greater(a, n, c, m), several, strict=True):
        rows, columns = (table[1], table[3]), (table[0] + table[2], table[1] + table[3] - table[0] - table[2])
        smallest = min(row * column for row in rows for column in columns) / max(1, sum(rows))
        normal = stats.z_greater(*table)
        is_exact = smallest < 5 or 1e-30 < normal < 1e-3
        assert p == (stats.exact_greater(*table) if is_exact else normal)


def test_the_tail_of_unequal_groups_is_not_normal() -> None:
    """The normal approximation is too small by these factors, which matters where thousands are tested."""
    others = 90_000
    for successes, count, factor in ((100, 23, 7.2), (300, 52, 3.6), (300, 60, 22.0)):
        table = (count, 10_000, successes - count, others)
        exact = hypergeom.sf(count - 1, 100_000, 10_000, successes)
        assert stats.greater(*table) == pytest.approx(exact, rel=1e-8)
        assert exact / stats.z_greater(*table) > 0.8 * factor


def test_few_of_many_tests_of_equal_rates_are_significant() -> None:
    """A tenth of the lists are of the group, and no rate differs: Bonferroni over all tests holds."""
    rng = np.random.default_rng(1)
    tests = 400_000
    successes = rng.integers(55, 400, size=tests)
    counts = rng.hypergeometric(10_000, 90_000, successes)
    p = stats.greater(counts, 10_000, successes - counts, 90_000)
    for level in (1e-3, 1e-4, 1e-5):
        expected = level * tests
        assert (p < level).sum() <= expected + 3 * np.sqrt(expected) + 1


@given(st.lists(small_tables, min_size=1, max_size=5))
def test_few_counts_over_strata_are_tested_exactly(strata: list[Table]) -> None:
    # With at most twelve lists on a side, the sum can usually deviate by less than 5. Otherwise the normal
    # test is used, which differs a little.
    array = np.array(strata).T
    expected, p = exact_over_strata(strata), float(stats.stratified_greater(*array))
    does, total = array[0] + array[2], np.maximum(array[1] + array[3], 1)
    mean = does * array[1] / total
    room = min((mean - np.maximum(0, does - array[3])).sum(), (np.minimum(array[1], does) - mean).sum())
    assert p == pytest.approx(expected, rel=1e-11 if room < 5 else 0, abs=0 if room < 5 else 0.02)


def test_many_counts_over_strata_by_mantel_and_haenszel() -> None:
    generator = np.random.default_rng(1)
    n, m = generator.integers(50, 200, (2, 10))
    a, c = generator.binomial(n, 0.3), generator.binomial(m, 0.27)
    excess, variance = -0.5, 0.0
    for table in zip(a.tolist(), n.tolist(), c.tolist(), m.tolist(), strict=True):
        does, total = table[0] + table[2], table[1] + table[3]
        excess += table[0] - does * table[1] / total
        variance += does * (total - does) * table[1] * table[3] / (total**2 * (total - 1))
    assert stats.stratified_greater(a, n, c, m) == pytest.approx(norm.sf(excess / sqrt(variance)), rel=1e-9)
    # Each test of an array has the result that it has alone.
    few = np.array([(2, 6, 0, 9), (1, 5, 1, 9), (1, 4, 0, 3), *[(0, 0, 0, 0)] * 7]).T
    both = stats.stratified_greater(*(np.stack([x, y, x]) for x, y in zip((a, n, c, m), few, strict=True)))
    alone = float(stats.stratified_greater(a, n, c, m))
    assert both == pytest.approx(
        [alone, exact_over_strata([tuple(row) for row in few.T.tolist()]), alone], rel=1e-9
    )


def test_strata_of_one_side_are_ignored_and_simpsons_paradox_is_avoided() -> None:
    a, n, c, m = np.array([(8, 10, 70, 100), (20, 100, 1, 10)]).T
    both = stats.stratified_greater(a, n, c, m), stats.stratified_rate_difference(a, n, c, m)
    aside = [np.append(x, y) for x, y in zip((a, n, c, m), (30, 40, 0, 0), strict=True)]
    assert stats.stratified_greater(*aside) == pytest.approx(both[0])
    assert stats.stratified_rate_difference(aside[0], aside[1], aside[2], aside[3]) == pytest.approx(both[1])
    # The rate is higher in each stratum and lower in the pooled counts.
    assert both[1].estimate == pytest.approx(0.1)
    assert a.sum() / n.sum() < c.sum() / m.sum()
    assert np.isnan(stats.stratified_rate_difference([30], [40], [0], [0])).all()
    assert stats.stratified_greater([30], [40], [0], [0]) == 1
    assert np.isnan(stats.rate_difference([3, 0], [5, 0], [0, 2], [0, 4])).all()


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0524, 0.3339), ((9, 10, 3, 10), 0.1705, 0.8090), ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926), ((0, 10, 0, 20), -0.1611, 0.2775),
        ((0, 10, 0, 10), -0.2775, 0.2775), ((10, 10, 0, 20), 0.6791, 1.0), ((10, 10, 0, 10), 0.6075, 1.0),
    ],
)  # fmt: skip
def test_interval_of_a_rate_difference_is_newcombes(table: Table, low: float, high: float) -> None:
    # Newcombe (1998), Table II, method 10.
    difference = stats.rate_difference(*table)
    assert (difference.low, difference.high) == pytest.approx((low, high), abs=6e-5)
    assert difference.estimate == pytest.approx(table[0] / table[1] - table[2] / table[3])


@given(tables, st.floats(0.5, 0.999))
def test_interval_of_a_rate_difference_is_antisymmetric_and_contains_the_estimate(
    table: Table, level: float
) -> None:
    a, n, c, m = table
    forward = stats.rate_difference(a, n, c, m, level)
    backward = stats.rate_difference(c, m, a, n, level)
    assert -1 - 1e-12 <= forward.low <= forward.estimate <= forward.high <= 1 + 1e-12
    assert (forward.low, forward.high) == pytest.approx((-backward.high, -backward.low))


@pytest.mark.parametrize("rates", [(0.05, 0.05), (0.5, 0.3), (0.02, 0.1)])
def test_intervals_of_rate_differences_cover_the_true_difference(rates: tuple[float, float]) -> None:
    generator, draws = np.random.default_rng(7), 4000
    gap = rates[0] - rates[1]
    n, m = np.full(draws, 60), np.full(draws, 180)
    a, c = generator.binomial(n, rates[0]), generator.binomial(m, rates[1])
    plain = stats.rate_difference(a, n, c, m)
    assert 0.935 < ((plain.low <= gap) & (gap <= plain.high)).mean() < 0.98
    # Strata that differ in size, mix and rate, with one common difference.
    base = np.linspace(max(0.0, -gap), min(1.0, 1 - gap) * 0.4, 6)
    n, m = np.array([10, 20, 30, 10, 20, 30]), np.array([90, 60, 30, 60, 90, 30])
    a, c = generator.binomial(n, base + gap, (draws, 6)), generator.binomial(m, base, (draws, 6))
    over = stats.stratified_rate_difference(a, n, c, m)
    assert 0.935 < ((over.low <= gap) & (gap <= over.high)).mean() < 0.995


@pytest.mark.parametrize("draws", [4000, pytest.param(20_000, marks=pytest.mark.verify)])
def test_tests_stay_at_their_level_when_there_is_no_difference(draws: int) -> None:
    generator = np.random.default_rng(8)
    for rate in (0.01, 0.1, 0.5):
        p = stats.greater(generator.binomial(80, rate, draws), 80, generator.binomial(240, rate, draws), 240)
        a, c = generator.binomial(8, rate, (draws, 10)), generator.binomial(24, rate, (draws, 10))
        over_strata = stats.stratified_greater(a, [8] * 10, c, [24] * 10)
        for level in (0.05, 0.001):
            assert max((p < level).mean(), (over_strata < level).mean()) < level + 3 * sqrt(level / draws)


OF_COUNTS = (
    "greater",
    "z_greater",
    "exact_greater",
    "rate_difference",
    "stratified_greater",
    "stratified_rate_difference",
)


@pytest.mark.parametrize("function", OF_COUNTS)
@pytest.mark.parametrize("mistake", [[[3], [2], [1], [2]], [[-1], [2], [1], [2]], [[1], [2], [3], [2]]])
def test_counts_above_their_size_are_refused(function: str, mistake: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="between 0 and the size"):
        getattr(stats, function)(*mistake)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(0, n))))
def test_exact_independence_of_two_groups_is_fishers_test(case: tuple[int, int, int]) -> None:
    n, a, c = case
    expected = fisher_exact([[a, n - a], [c, n - c]])[1]
    assert stats.exact_independence_p([[a, c]], [n])[0] == pytest.approx(expected, rel=1e-9)


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), min_size=3, max_size=4))
    )
)
def test_exact_independence_against_brute_force(case: tuple[int, list[int]]) -> None:
    n, counts = case
    cells = [cell for cell in itertools.product(range(n + 1), repeat=len(counts)) if sum(cell) == sum(counts)]
    ways = {cell: prod(comb(n, a) for a in cell) for cell in cells}
    reach = sum(a * a for a in counts)
    extreme = sum(way for cell, way in ways.items() if sum(a * a for a in cell) >= reach)
    assert stats.exact_independence_p([counts], [n])[0] == pytest.approx(extreme / sum(ways.values()))


def test_a_published_row_of_three_lists_is_not_significant_exactly() -> None:
    """Count three lists of one identity of four with 720 lists each.

    Chi-squared calls the difference significant. The exact probability that all three coincide is 0.06.
    """
    assert stats.independence_p([[3, 0, 0, 0]], 720)[0] < 0.05
    assert stats.exact_independence_p([[3, 0, 0, 0]], [720])[0] == pytest.approx(
        4 * comb(720, 3) / comb(2880, 3)
    )


def test_exact_independence_approaches_chi_squared_for_large_counts() -> None:
    counts = np.array([[30, 20, 25, 12], [22, 22, 22, 21], [190, 180, 185, 188]])
    assert stats.exact_independence_p(counts, [200] * 3) == pytest.approx(
        stats.independence_p(counts, np.full((3, 1), 200)), rel=0.1
    )


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=2, max_size=4),
    st.floats(0.01, 50),
    st.floats(1, 1000),
)
def test_log_odds_of_each_group_against_the_others_equal_the_formula_of_the_paper(
    numbers: list[tuple[int, int]], word: float, other_words: float
) -> None:
    counts, totals = [y for y, _ in numbers], [y + number for y, number in numbers]
    odds_ratios = stats.log_odds([counts], totals, [word, word + other_words])
    for group, (y, n) in enumerate(zip(counts, totals, strict=True)):
        y_others, n_others = sum(counts) - y, sum(totals) - n
        odds = (y + word) / (n + word + other_words - y - word)
        odds_others = (y_others + word) / (n_others + word + other_words - y_others - word)
        expected = log(odds) - log(odds_others)
        assert odds_ratios.estimate[0, group] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert odds_ratios.z[0, group] == pytest.approx(
            expected / sqrt(1 / (y + word) + 1 / (y_others + word)), rel=1e-9, abs=1e-9
        )


def test_log_odds_of_a_rare_word_are_shrunk_by_its_prior() -> None:
    counts, totals = [[3, 0], [60, 20]], [1000, 1000]
    odds_ratios = stats.log_odds(counts, totals, [[0.3, 200.0], [8.0, 200.0]])
    assert odds_ratios.estimate[0, 0] > odds_ratios.estimate[1, 0] > 0
    assert odds_ratios.z[1, 0] > 4 > 2 > odds_ratios.z[0, 0]
    assert odds_ratios.z[:, 0] == pytest.approx(-odds_ratios.z[:, 1])
    # With all weight on the prior the difference vanishes.
    assert stats.log_odds(counts, totals, [1e7, 1e9]).estimate == pytest.approx(np.zeros((2, 2)), abs=1e-4)


def test_z_of_log_odds_is_standard_normal_without_a_difference() -> None:
    generator = np.random.default_rng(3)
    counts = generator.poisson(30, (5000, 2))
    z = stats.log_odds(counts, [3000, 3000], [3, 300]).z[:, 0]
    assert abs(z.mean()) < 0.05
    assert 0.03 < (np.abs(z) > 1.96).mean() < 0.06


def test_log_odds_without_counts_are_nan_and_impossible_counts_are_refused() -> None:
    assert np.isnan(stats.log_odds([[0, 5], [0, 0]], [10, 10], [0, 0]).z).all()
    assert np.isnan(stats.log_odds([[5, 5]], [5, 10], [0, 0]).estimate).all()
    with pytest.raises(ValueError, match="between 0 and the size"):
        stats.log_odds([[11, 5]], [10, 10], [1, 10])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_q_values_equal_those_of_scipy_and_missing_tests_do_not_count(
    p: list[float], gaps: list[int]
) -> None:
    expected = false_discovery_control(p)
    assert stats.benjamini_hochberg(p) == pytest.approx(expected)
    places = np.minimum(gaps, len(p)).astype(int)
    q = stats.benjamini_hochberg(np.insert(p, places, np.nan))
    assert np.isnan(q).sum() == len(gaps)
    assert q[~np.isnan(q)] == pytest.approx(expected)


def test_families_along_an_axis_are_adjusted_separately() -> None:
    rng = np.random.default_rng(4)
    p = rng.random((3, 7, 4))
    p[rng.random(p.shape) < 0.3] = np.nan
    p[0, :, 1] = np.nan
    for axis in (0, 1, -1):
        families = np.moveaxis(stats.benjamini_hochberg(p, axis=axis), axis, -1)
        for family, alone in zip(
            families.reshape(-1, p.shape[axis]),
            np.moveaxis(p, axis, -1).reshape(-1, p.shape[axis]),
            strict=True,
        ):
            assert family == pytest.approx(stats.benjamini_hochberg(alone), nan_ok=True)


def test_q_values_keep_the_shape_and_impossible_p_values_are_refused() -> None:
    assert stats.benjamini_hochberg([[0.01, 0.02], [np.nan, 0.5]])[0] == pytest.approx([0.03, 0.03])
    assert stats.benjamini_hochberg([]).shape == (0,)
    assert np.isnan(stats.benjamini_hochberg([np.nan])).all()
    with pytest.raises(ValueError, match="0 and 1"):
        stats.benjamini_hochberg([1.2])
