"""Differences of two sides: the interval and p agree, are antisymmetric, and keep their error rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter import stats

seeds = st.integers(0, 10_000)


def _yes_or_no(rng: np.random.Generator, n: int, rate: float) -> np.ndarray:
    """(n, 2) yes and asked, of items that are hard or easy."""
    hard = rng.uniform(-0.2, 0.2, n)
    return np.column_stack([rng.random(n) < np.clip(rate + hard, 0, 1), np.ones(n)]).astype(float)


def _difference(first: np.ndarray, second: np.ndarray, seed: int = 1) -> stats.PairedDifference:
    drawn = [stats.resampled_totals(x, resamples=200, seed=seed) for x in (first, second)]
    moved = stats.exchanged_totals(first, second, draws=200, seed=seed)
    rates = [[totals[:, 0] / totals[:, 1] for totals in pair] for pair in (drawn, moved)]
    observed = second[:, 0].mean() - first[:, 0].mean()
    resampled, exchanged = rates
    return stats.paired_difference(
        observed,
        resampled[1] - resampled[0],
        exchanged[1] - exchanged[0],
        units=len(first),
        reach=1.0,
        level=0.95,
    )


@given(seeds, st.integers(2, 60), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=30)
def test_interval_and_p_of_a_difference_agree(seed: int, n: int, rate: float, second_rate: float) -> None:
    rng = np.random.default_rng(seed)
    first, second = _yes_or_no(rng, n, rate), _yes_or_no(rng, n, second_rate)
    difference = _difference(first, second)
    observed = second[:, 0].mean() - first[:, 0].mean()
    assert -1 <= difference.low <= observed <= difference.high <= 1
    assert 0 <= difference.p <= 1
    assert (difference.p < 0.05) == (difference.low > 0 or difference.high < 0)


@given(seeds, st.integers(2, 40))
@settings(max_examples=20)
def test_a_difference_is_antisymmetric_in_its_sides(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = _yes_or_no(rng, n, 0.3), _yes_or_no(rng, n, 0.6)
    forward, backward = _difference(first, second), _difference(second, first)
    assert np.allclose([forward.low, forward.high, forward.p], [-backward.high, -backward.low, backward.p])


@given(seeds, st.integers(1, 30), st.integers(1, 4))
def test_exchanging_moves_all_columns_of_an_item_together(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, k)), rng.normal(size=(n, k))
    first_totals, second_totals = stats.exchanged_totals(a, b, draws=20, seed=seed)
    assert np.allclose(first_totals + second_totals, a.sum(axis=0) + b.sum(axis=0))
    same, again = stats.exchanged_totals(a, a, draws=3, seed=seed)
    assert np.allclose([same, again], a.sum(axis=0))


def test_all_arrangements_of_two_items_are_drawn_equally_often() -> None:
    totals, _ = stats.exchanged_totals([[1.0], [10.0]], [[0.0], [0.0]], draws=4000, seed=3)
    values, counts = np.unique(totals.round(6), return_counts=True)
    assert values.tolist() == [0, 1, 10, 11]
    assert (abs(counts - 1000) < 120).all()


@pytest.mark.parametrize(("studies", "slack"), [(40, 0.06), pytest.param(200, 0.0, marks=pytest.mark.verify)])
def test_differences_have_few_false_positives_and_their_intervals_cover_the_truth(
    studies: int, slack: float
) -> None:
    rng = np.random.default_rng(5)
    false = np.mean(
        [_difference(_yes_or_no(rng, 80, 0.4), _yes_or_no(rng, 80, 0.4), i).p < 0.05 for i in range(studies)]
    )
    assert 0.005 - slack <= false <= 0.085 + slack
    drawn = [_difference(_yes_or_no(rng, 80, 0.3), _yes_or_no(rng, 80, 0.6), i) for i in range(studies)]
    covered = [entries.low <= 0.3 <= entries.high for entries in drawn]
    assert 0.91 - slack <= np.mean(covered) <= 0.99 + slack


def test_rare_events_show_no_difference_and_all_against_none_does() -> None:
    """Compare forty items without an event on either side.

    A share of several per cent is not ruled out, and there is no significant difference.
    """
    none = np.column_stack([np.zeros(40), np.ones(40)])
    difference = _difference(none, none)
    assert difference.low == -difference.high
    assert difference.p == 1
    assert 0.1 < difference.high < 0.25
    few = none.copy()
    few[:3, 0] = 1
    assert _difference(none, few).p > 0.05
    every = _difference(none, np.ones((40, 2)))
    assert every.p < 1e-6
    assert every.low > 0.8


def test_the_difference_of_missing_values_is_missing() -> None:
    difference = stats.paired_difference(
        [np.nan], np.full((1, 5), np.nan), None, units=[3], reach=[np.inf], level=0.95
    )
    assert np.isnan(np.array(difference)).all()


def test_standard_errors_of_independent_sides_add_in_quadrature() -> None:
    """Two means with standard error 1 have a difference with standard error sqrt(2)."""
    z = 1.959963984540054
    difference = stats.independent_difference([0.0, 3.0], [-z, 3 - z], [z, 3 + z], 0.95)
    assert (difference.low, difference.high, difference.p) == pytest.approx(
        (3 - z * 2**0.5, 3 + z * 2**0.5, 0.033894853524689295)
    )
    assert np.isnan(stats.independent_difference([0.0, 3.0], [np.nan, 1.0], [np.nan, 5.0], 0.95).p)


@given(seeds, st.floats(-3, 3), st.integers(20, 200))
@settings(max_examples=60)
def test_p_of_a_statistic_that_noise_increases_is_that_of_the_exchange(seed: int, raw: float, n: int) -> None:
    rng = np.random.default_rng(seed)
    wide = stats.PairedDifference(np.array(raw - 2), np.array(raw + 2), np.array(0.5))
    difference = stats.exchange_difference(raw * 0.9, wide, raw, np.clip(rng.normal(size=n), -2.5, 2.5), 0.95)
    assert difference.low <= raw * 0.9 <= difference.high
    assert (difference.p < 0.05) == (difference.low > 0 or difference.high < 0)
    if abs(raw) > 2.9:
        assert difference.p < 0.05


@given(seeds, st.floats(-3, 3), st.sampled_from([0.8, 0.9, 0.99]), st.sampled_from([-0.9, 0.9]))
@settings(max_examples=60)
def test_p_of_an_exchange_does_not_depend_on_the_level_of_the_interval(
    seed: int, raw: float, level: float, corrected: float
) -> None:
    exchanged = np.random.default_rng(seed).normal(size=100)
    wide = stats.PairedDifference(np.array(raw - 2), np.array(raw + 2), np.array(0.5))
    usual = stats.exchange_difference(raw * corrected, wide, raw, exchanged, 0.95)
    at_level = stats.exchange_difference(raw * corrected, wide, raw, exchanged, level)
    assert usual.p == at_level.p
