"""Comparisons of groups: their size by enumeration, their power, and their agreement with libraries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats as scipy_stats

from tiltmeter.stats import (
    GroupSample,
    ItemClusters,
    independent_rates_p,
    level_of_one_difference,
    matched_rates_p,
    rate_difference,
)

SIZES = (1, 2, 5, 10, 20, 60)
RATES = (0.02, 0.1, 0.3, 0.5, 0.9, 0.98)
LEVEL = 0.95


def independent(first: tuple[int, int], second: tuple[int, int]) -> GroupSample:
    """Return a sample of successes of items in two independent groups."""
    (a, n), (c, m) = first, second
    sums, sizes = np.zeros((n + m, 2)), np.zeros((n + m, 2))
    sizes[:n, 0] = sizes[n:, 1] = 1
    sums[:a, 0] = sums[n : n + c, 1] = 1
    return GroupSample.of(sums, sizes)


def matched(both: int, first: int, second: int, neither: int) -> GroupSample:
    """Return a sample of pairs."""
    pairs = [[1, 1]] * both + [[1, 0]] * first + [[0, 1]] * second + [[0, 0]] * neither
    return GroupSample.of(pairs, np.ones((len(pairs), 2)))


def claims(sample: GroupSample) -> bool:
    """Whether the test is significant, or the interval excludes 0."""
    difference = sample.difference(0, 1, LEVEL)
    return difference.p <= 1 - LEVEL or difference.low > 0 or difference.high < 0


# -- size and power ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", SIZES)
def test_independent_groups_of_equal_rates_differ_in_at_most_5_percent(n: int, m: int) -> None:
    """By enumeration of all tables; the interval excludes 0 only where the test is significant."""
    p = np.array([[independent_rates_p(a, n, c, m) for c in range(m + 1)] for a in range(n + 1)])
    for rate in RATES:
        chances = np.outer(
            scipy_stats.binom.pmf(range(n + 1), n, rate), scipy_stats.binom.pmf(range(m + 1), m, rate)
        )
        assert chances[p <= 0.05].sum() <= 0.0501


@pytest.mark.parametrize("sizes", [(1, 40), (5, 40), (12, 40)])
def test_the_interval_agrees_with_the_test_at_any_sizes(sizes: tuple[int, int]) -> None:
    n, m = sizes
    for a in range(0, n + 1, max(1, n // 4)):
        for c in range(0, m + 1, 4):
            sample = independent((a, n), (c, m))
            difference = sample.difference(0, 1, LEVEL)
            if difference.p > 1 - LEVEL:
                assert difference.low <= 0 <= difference.high
            assert difference.low <= difference.estimate <= difference.high


@pytest.mark.parametrize("pairs", [5, 20, 60])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_pairs_of_equal_rates_differ_in_at_most_6_percent(pairs: int, rate: float) -> None:
    """By enumeration of the discordant pairs."""
    total = 0.0
    discordance = 2 * rate * (1 - rate)
    for discordant in range(pairs + 1):
        chance = scipy_stats.binom.pmf(discordant, pairs, discordance)
        for first in range(discordant + 1):
            p = matched_rates_p(first, discordant - first, mid_p=pairs >= 10)
            total += (p <= 0.05) * chance * scipy_stats.binom.pmf(first, discordant, 0.5)
    assert total <= 0.06


@pytest.mark.parametrize(
    ("n", "m", "rates"), [(20, 20, (0.2, 0.6)), (10, 60, (0.5, 0.1)), (60, 60, (0.1, 0.3))]
)
def test_the_power_is_at_least_that_of_fishers_test(n: int, m: int, rates: tuple[float, float]) -> None:
    own, fisher = 0.0, 0.0
    for a in range(n + 1):
        for c in range(m + 1):
            chance = scipy_stats.binom.pmf(a, n, rates[0]) * scipy_stats.binom.pmf(c, m, rates[1])
            own += chance * (independent_rates_p(a, n, c, m) <= 0.05)
            fisher += chance * (scipy_stats.fisher_exact([[a, n - a], [c, m - c]])[1] <= 0.05)
    assert own >= fisher


@pytest.mark.parametrize("sizes", [(5, 20, 60), (20, 20, 20)])
def test_three_groups_of_equal_rates_rarely_differ(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    membership = np.repeat(np.arange(3), sizes)
    false_claims = 0
    for _ in range(150):
        sizes_of_items = np.eye(3)[membership]
        sums = sizes_of_items * (rng.random(len(membership)) < 0.3)[:, None]
        largest = GroupSample.of(sums, sizes_of_items).largest_difference(LEVEL)
        false_claims += largest.p <= 0.05 or largest.low > 0
    assert false_claims <= 15  # 7.5 are expected at the nominal level; 15 or fewer in 99.6% of cases


# -- agreement ---------------------------------------------------------------------------------------------


@given(st.integers(1, 30), st.integers(1, 30), st.data())
def test_the_exact_test_lies_between_scipys_boschloo_and_fisher(n: int, m: int, data: st.DataObject) -> None:
    a, c = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    fisher = scipy_stats.fisher_exact([[a, n - a], [c, m - c]])[1]
    p = independent_rates_p(a, n, c, m)
    assert 0 <= p <= fisher * (1 + 1e-6)
    assert independent_rates_p(c, m, a, n) == pytest.approx(p)
    assert independent_rates_p(n - a, n, m - c, m) == pytest.approx(p)


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_test_of_pairs_is_the_binomial_test(first: int, second: int) -> None:
    p = matched_rates_p(first, second, mid_p=False)
    if first + second:
        assert p == pytest.approx(scipy_stats.binomtest(first, first + second).pvalue)
    assert matched_rates_p(first, second, mid_p=True) <= p


def test_the_permutation_test_of_three_groups_agrees_with_scipys_chi_squared_test_of_large_groups() -> None:
    counts = np.array([40, 55, 62])
    membership = np.repeat(np.arange(3), 100)
    sums = np.zeros((300, 3))
    for group, count in enumerate(counts):
        sums[100 * group : 100 * group + count, group] = 1
    p = GroupSample.of(sums, np.eye(3)[membership]).p
    expected = scipy_stats.chi2_contingency(np.stack([counts, 100 - counts])).pvalue
    assert p == pytest.approx(expected, rel=0.25)


def test_the_interval_of_independent_rates_is_newcombes() -> None:
    difference = independent((12, 30), (20, 30)).difference(0, 1, LEVEL)
    newcombe = rate_difference(12, 30, 20, 30)
    assert (difference.low, difference.high) == pytest.approx((float(newcombe.low), float(newcombe.high)))


# -- ratios and slopes -------------------------------------------------------------------------------------


def of_counts(counts: list[int], sizes: list[int]) -> GroupSample:
    """Return a sample of successes of items in several independent groups."""
    membership = np.eye(len(sizes))[np.repeat(np.arange(len(sizes)), sizes)]
    is_case = np.concatenate([np.arange(size) < count for count, size in zip(counts, sizes, strict=True)])
    return GroupSample.of(membership * is_case[:, None], membership)


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_a_ratio_lies_in_its_interval_and_is_the_inverse_of_the_reverse(
    n: int, m: int, data: st.DataObject
) -> None:
    a, c = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    ratio = independent((a, n), (c, m)).mean_ratio(0, 1, LEVEL)
    reverse = independent((c, m), (a, n)).mean_ratio(0, 1, LEVEL)
    assert 0 <= ratio.low <= ratio.high
    if a and c:
        assert ratio.low <= ratio.estimate <= ratio.high
        assert ratio.estimate == pytest.approx(1 / reverse.estimate)
        assert ratio.high == pytest.approx(1 / reverse.low)
    if not c:
        assert np.isnan(ratio.estimate)
        assert ratio.high == np.inf


@pytest.mark.parametrize("sizes", [(20, 20), (20, 200), (200, 200)])
@pytest.mark.parametrize("rates", [(0.05, 0.05), (0.05, 0.2), (0.5, 0.9), (0.9, 0.9)])
def test_the_interval_of_a_ratio_contains_the_true_ratio(
    sizes: tuple[int, int], rates: tuple[float, float]
) -> None:
    """By enumeration of all tables with a chance above one in a million."""
    (n, m), (first, second) = sizes, rates
    of_first = scipy_stats.binom.pmf(np.arange(n + 1), n, first)
    of_second = scipy_stats.binom.pmf(np.arange(m + 1), m, second)
    covered, total = 0.0, 0.0
    for a in np.flatnonzero(of_first > 1e-3):
        for c in np.flatnonzero(of_second > 1e-3):
            chance = float(of_first[a] * of_second[c])
            ratio = independent((int(a), n), (int(c), m)).mean_ratio(0, 1, LEVEL)
            covered += chance * (ratio.low <= first / second <= ratio.high)
            total += chance
    assert covered / total >= 0.93


def test_the_ratio_of_values_that_may_be_negative_is_missing() -> None:
    sample = GroupSample.of([[1.0, -2.0]] * 20, np.ones((20, 2)), is_rate=False)
    assert np.isnan(sample.mean_ratio(0, 1, LEVEL).estimate)


@given(st.integers(2, 40), st.integers(2, 40), st.data())
def test_the_slope_of_two_groups_one_apart_is_their_difference(n: int, m: int, data: st.DataObject) -> None:
    a, c = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    sample = independent((a, n), (c, m))
    assert sample.slope([1, 0], LEVEL) == pytest.approx(sample.difference(0, 1, LEVEL))


def test_the_slope_is_that_of_the_regression_over_the_attempts() -> None:
    sizes, counts, ages = [20, 60, 40], [5, 20, 16], [20, 40, 80]
    slope = of_counts(counts, sizes).slope(ages, LEVEL)
    responses = np.concatenate([np.arange(size) < count for count, size in zip(counts, sizes, strict=True)])
    expected = scipy_stats.linregress(np.repeat(ages, sizes), responses.astype(float))
    assert slope.estimate == pytest.approx(expected.slope)
    assert slope.p == pytest.approx(expected.pvalue, rel=0.3)
    assert slope.low < slope.estimate < slope.high


@pytest.mark.parametrize("rates", [(0.3, 0.3, 0.3), (0.2, 0.4, 0.6)])
def test_the_interval_of_a_slope_contains_the_true_slope(rates: tuple[float, ...]) -> None:
    rng = np.random.default_rng(2)
    sizes, covered, significant = [20, 20, 20], 0, 0
    for _ in range(200):
        slope = of_counts([int(rng.binomial(20, rate)) for rate in rates], sizes).slope([1, 2, 3], LEVEL)
        covered += slope.low <= (rates[2] - rates[0]) / 2 <= slope.high
        significant += slope.p <= 0.05
    assert covered >= 180  # 190 are expected; 180 or more in 99.8% of cases
    assert significant <= 19 if rates[0] == rates[2] else significant >= 100


def test_a_slope_needs_a_number_for_each_group() -> None:
    with pytest.raises(ValueError, match="one finite number for each group"):
        of_counts([1, 2], [10, 10]).slope([1, np.nan], LEVEL)


# -- behaviour ---------------------------------------------------------------------------------------------


def test_a_group_without_variation_has_an_interval_of_positive_width() -> None:
    sample = independent((30, 30), (0, 30))
    difference = sample.difference(0, 1, LEVEL)
    assert difference.low < 1
    assert sample.mean_interval(0, LEVEL).low < 1
    assert difference.p < 1e-9


def test_a_single_item_is_no_evidence() -> None:
    difference = independent((1, 1), (60, 100)).difference(0, 1, LEVEL)
    assert difference.low <= 0 <= difference.high
    assert difference.p > 0.5


def test_matched_items_are_compared_within_sets() -> None:
    """10 of 20 pairs disagree, always in the same direction; unmatched, 14 of 20 against 4 of 20."""
    pairs = matched(both=4, first=10, second=0, neither=6)
    assert pairs.difference(0, 1, LEVEL).p == pytest.approx(2**-9 / 2)


def test_groups_can_be_matched_in_some_items_and_alone_in_others() -> None:
    sums = [[1, 0]] * 8 + [[0, 0]] * 8 + [[1, 0]] * 6 + [[0, 0]] * 6
    sizes = [[1, 1]] * 16 + [[1, 0]] * 6 + [[0, 1]] * 6
    difference = GroupSample.of(sums, sizes).difference(0, 1, LEVEL)
    assert difference.estimate == pytest.approx(14 / 22)
    assert difference.p < 0.001


@pytest.mark.parametrize("groups", [2, 5, 8])
def test_any_number_of_groups_is_compared(groups: int) -> None:
    rng = np.random.default_rng(groups)
    rates = np.where(np.arange(groups) == 0, 0.8, 0.2)
    sums = (rng.random((40, groups)) < rates).astype(float)
    largest = GroupSample.of(sums, np.ones_like(sums)).largest_difference(LEVEL)
    assert largest.p < 0.001
    assert 0 < largest.low <= largest.estimate <= largest.high


def test_clusters_make_a_difference_less_certain() -> None:
    """Each name has one group, and all items with a name have the same outcome."""
    names = np.repeat(np.arange(8), 25)
    group = names % 2
    outcome = np.isin(names, [0, 2, 4]).astype(float)
    sizes = np.eye(2)[group]
    clusters = [ItemClusters("names", np.arange(200), names, 1)]
    alone = GroupSample.of(sizes * outcome[:, None], sizes).difference(0, 1, LEVEL)
    clustered = GroupSample.of(sizes * outcome[:, None], sizes, clusters).difference(0, 1, LEVEL)
    assert alone.p < 1e-6
    assert clustered.p > 0.01
    assert clustered.high - clustered.low > 2 * (alone.high - alone.low)


def test_means_are_compared_like_rates() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 2)) + np.array([1.0, 0.0])
    sample = GroupSample.of(values, np.ones_like(values), is_rate=False)
    difference = sample.difference(0, 1, LEVEL)
    assert difference.p < 0.001
    assert difference.low < difference.estimate < difference.high


def test_counts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="same shape"):
        GroupSample.of([[1, 0]], [[1, 1, 1]])
    with pytest.raises(ValueError, match="between 0 and their size"):
        GroupSample.of([[2, 0]], [[1, 1]])


def test_groups_without_items_have_no_difference() -> None:
    difference = GroupSample.of([[1, 0]], [[1, 0]]).difference(0, 1, LEVEL)
    assert np.isnan([difference.estimate, difference.p]).all()


def asked_about(
    groups: int, seed: int, *, effects_of_questions: float = 0.0, largest: float = 0.0
) -> GroupSample:
    """Return a sample of 160 items in 20 questions whose effects on each group are random.

    The log-odds of the first and the last group differ by `largest`, the others are in the middle.
    """
    rng = np.random.default_rng(seed)
    question = np.arange(160) % 20
    of_groups = np.zeros(groups)
    of_groups[0], of_groups[-1] = largest / 2, -largest / 2
    log_odds = of_groups + rng.normal(0, effects_of_questions, (20, groups))[question]
    answers = rng.random((160, groups)) < 1 / (1 + np.exp(-log_odds))
    clusters = [ItemClusters("questions", np.arange(160), question, 1)]
    return GroupSample.of(answers, np.ones((160, groups)), clusters, seed=seed)


@pytest.mark.verify
@pytest.mark.parametrize("effects_of_questions", [0.0, 0.8])
def test_several_groups_of_questions_like_these_rarely_differ(effects_of_questions: float) -> None:
    """A test of 5% states more than 6 of 60 differences with a probability of 3%, one of 20% with 96%."""
    p = [asked_about(4, seed, effects_of_questions=effects_of_questions).p for seed in range(60)]
    assert sum(value < 0.05 for value in p) <= 6


@pytest.mark.verify
def test_a_difference_between_two_of_many_groups_is_found_although_questions_are_clusters() -> None:
    """Five standard errors; a chi-squared test with five degrees of freedom finds 97% of such differences."""
    largest = 5 * np.sqrt(2 / (160 * 0.25))
    p = [asked_about(6, seed, largest=largest).p for seed in range(20)]
    assert np.mean(np.array(p) < 0.05) >= 0.75


@pytest.mark.parametrize("groups", [2, 3, 4, 7, 15])
def test_a_test_of_one_difference_at_the_planned_level_is_as_powerful_as_that_of_several_means(
    groups: int,
) -> None:
    level, power = 1 - 0.05 / 30, 0.8
    of_one = scipy_stats.norm.isf((1 - level_of_one_difference(level, groups, power=power)) / 2)
    difference = of_one + scipy_stats.norm.ppf(power)
    critical = scipy_stats.chi2.isf(1 - level, groups - 1)
    assert scipy_stats.ncx2.sf(critical, groups - 1, difference**2) == pytest.approx(power, abs=1e-6)
