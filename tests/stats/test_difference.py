"""Differences of two sides: the interval and p agree, swapping the sides turns them round, and nothing is found where nothing is."""

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
    rates = [[one[:, 0] / one[:, 1] for one in pair] for pair in (drawn, moved)]
    observed = second[:, 0].mean() - first[:, 0].mean()
    return stats.paired_difference(
        observed, *(b - a for a, b in rates), units=len(first), reach=1.0, level=0.95
    )


@given(seeds, st.integers(2, 60), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=30)
def test_interval_and_p_agree(seed: int, n: int, rate: float, other: float) -> None:
    rng = np.random.default_rng(seed)
    first, second = _yes_or_no(rng, n, rate), _yes_or_no(rng, n, other)
    found = _difference(first, second)
    observed = second[:, 0].mean() - first[:, 0].mean()
    assert -1 <= found.low <= observed <= found.high <= 1
    assert 0 <= found.p <= 1
    assert (found.p < 0.05) == (found.low > 0 or found.high < 0)


@given(seeds, st.integers(2, 40))
@settings(max_examples=20)
def test_the_other_way_round_it_is_the_same(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = _yes_or_no(rng, n, 0.3), _yes_or_no(rng, n, 0.6)
    there, back = _difference(first, second), _difference(second, first)
    assert np.allclose([there.low, there.high, there.p], [-back.high, -back.low, back.p])


@given(seeds, st.integers(1, 30), st.integers(1, 4))
def test_exchanging_moves_items_whole(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, k)), rng.normal(size=(n, k))
    one, other = stats.exchanged_totals(a, b, draws=20, seed=seed)
    assert np.allclose(one + other, a.sum(axis=0) + b.sum(axis=0))
    same, again = stats.exchanged_totals(a, a, draws=3, seed=seed)
    assert np.allclose([same, again], a.sum(axis=0))


def test_all_arrangements_of_two_items_are_drawn_equally_often() -> None:
    one, _ = stats.exchanged_totals([[1.0], [10.0]], [[0.0], [0.0]], draws=4000, seed=3)
    values, counts = np.unique(one.round(6), return_counts=True)
    assert values.tolist() == [0, 1, 10, 11]
    assert (abs(counts - 1000) < 120).all()


@pytest.mark.parametrize(("studies", "slack"), [(40, 0.06), pytest.param(200, 0.0, marks=pytest.mark.verify)])
def test_nothing_is_found_where_nothing_is_and_the_truth_is_held(studies: int, slack: float) -> None:
    rng = np.random.default_rng(5)
    false = np.mean(
        [_difference(_yes_or_no(rng, 80, 0.4), _yes_or_no(rng, 80, 0.4), i).p < 0.05 for i in range(studies)]
    )
    assert 0.005 - slack <= false <= 0.085 + slack
    drawn = [_difference(_yes_or_no(rng, 80, 0.3), _yes_or_no(rng, 80, 0.6), i) for i in range(studies)]
    held = [entries.low <= 0.3 <= entries.high for entries in drawn]
    assert 0.91 - slack <= np.mean(held) <= 0.99 + slack


def test_rare_events_are_no_proof_and_all_against_none_is_found() -> None:
    """Forty items, none with an event on either side: a share of some per cent is not ruled out, and no difference is claimed."""
    none = np.column_stack([np.zeros(40), np.ones(40)])
    found = _difference(none, none)
    assert found.low == -found.high
    assert found.p == 1
    assert 0.1 < found.high < 0.25
    few = none.copy()
    few[:3, 0] = 1
    assert _difference(none, few).p > 0.05
    every = _difference(none, np.ones((40, 2)))
    assert every.p < 1e-6
    assert every.low > 0.8


def test_no_value_gives_none() -> None:
    found = stats.paired_difference(
        [np.nan], np.full((1, 5), np.nan), None, units=[3], reach=[np.inf], level=0.95
    )
    assert np.isnan(np.array(found)).all()


def test_independent_sides() -> None:
    """Two means with standard error 1: their difference has standard error sqrt(2)."""
    z = 1.959963984540054
    found = stats.independent_difference([0.0, 3.0], [-z, 3 - z], [z, 3 + z], 0.95)
    assert (found.low, found.high, found.p) == pytest.approx(
        (3 - z * 2**0.5, 3 + z * 2**0.5, 0.033894853524689295)
    )
    assert np.isnan(stats.independent_difference([0.0, 3.0], [np.nan, 1.0], [np.nan, 5.0], 0.95).p)


@given(seeds, st.floats(-3, 3), st.integers(20, 200))
@settings(max_examples=60)
def test_of_what_noise_lifts_the_exchange_decides(seed: int, raw: float, n: int) -> None:
    rng = np.random.default_rng(seed)
    wide = stats.PairedDifference(np.array(raw - 2), np.array(raw + 2), np.array(0.5))
    found = stats.exchange_difference(raw * 0.9, wide, raw, np.clip(rng.normal(size=n), -2.5, 2.5), 0.95)
    assert found.low <= raw * 0.9 <= found.high
    assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
    if abs(raw) > 2.9:
        assert found.p < 0.05


@given(seeds, st.floats(-3, 3), st.sampled_from([0.8, 0.9, 0.99]), st.sampled_from([-0.9, 0.9]))
@settings(max_examples=60)
def test_p_of_an_exchange_does_not_depend_on_the_level_of_the_interval(
    seed: int, raw: float, level: float, corrected: float
) -> None:
    exchanged = np.random.default_rng(seed).normal(size=100)
    wide = stats.PairedDifference(np.array(raw - 2), np.array(raw + 2), np.array(0.5))
    usual, other = (
        stats.exchange_difference(raw * corrected, wide, raw, exchanged, one) for one in (0.95, level)
    )
    assert usual.p == other.p
