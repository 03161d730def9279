"""Column totals of resamples, and of groups exchanged within items."""

from __future__ import annotations

import random
import time
import tracemalloc
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter.stats import _resampling as resampling, replayed_totals, resampled_totals, swapped_totals


@given(st.integers(1, 60), st.integers(0, 2**40))
@settings(max_examples=40)
def test_replayed_totals_draw_the_same_items_as_python(n: int, seed: int) -> None:
    x = np.eye(n)  # the totals of unit columns are the multiplicities
    original = random.Random(seed)
    for row in replayed_totals(x, resamples=7, seed=seed):
        drawn = original.choices(range(n), k=n)
        assert row.tolist() == np.bincount(drawn, minlength=n).tolist()


def test_resampling_does_not_change_the_global_random_state() -> None:
    def states() -> tuple[object, str]:
        return random.getstate(), str(np.random.get_state(legacy=False))

    before = states()
    replayed_totals(np.ones((5, 1)), resamples=3, seed=123)
    resampled_totals(np.ones((5, 1)), resamples=3, seed=123)
    assert states() == before


@pytest.mark.parametrize("strata", [None, [0, 0, 0, 7, 7, 1, 1, 1, 1, 5]])
def test_totals_depend_on_the_seed_and_not_on_the_block_size(
    strata: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(20, dtype=float).reshape(10, 2)
    totals = resampled_totals(x, resamples=50, seed=3, strata=strata)
    replayed = replayed_totals(x, resamples=50, seed=3)
    assert np.array_equal(totals, resampled_totals(x, resamples=50, seed=3, strata=strata))
    assert not np.array_equal(totals, resampled_totals(x, resamples=50, seed=4, strata=strata))
    monkeypatch.setattr(resampling, "BLOCK_CELLS", 30)
    assert np.allclose(totals, resampled_totals(x, resamples=50, seed=3, strata=strata), rtol=1e-13)
    assert np.allclose(replayed, replayed_totals(x, resamples=50, seed=3), rtol=1e-13)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(0, 1000))
@settings(max_examples=40)
def test_every_stratum_keeps_its_size_and_a_single_item_always_counts_once(
    labels: list[int], seed: int
) -> None:
    strata = np.array(labels)
    weights = resampled_totals(np.eye(len(labels)), resamples=5, seed=seed, strata=strata)
    for label in set(labels):
        members = strata == label
        size = int(members.sum())
        assert weights[:, members].sum(axis=1) == pytest.approx(size)
        if size > 1:
            draws = weights[:, members] * (size - 1) / size
            assert draws == pytest.approx(np.rint(draws))


def test_the_variance_of_a_total_is_the_unbiased_estimate() -> None:
    x = np.array([[0.0], [1.0], [4.0], [10.0], [11.0], [30.0]])
    strata = np.array([0, 0, 0, 1, 1, 2])
    totals = resampled_totals(x, resamples=40_000, seed=1, strata=strata)
    expected = 3 * np.var([0, 1, 4], ddof=1) + 2 * np.var([10, 11], ddof=1)
    assert totals.var() == pytest.approx(expected, rel=0.03)
    assert totals.mean() == pytest.approx(56.0, abs=0.1)


def test_equal_columns_have_exactly_equal_totals() -> None:
    x = np.random.default_rng(0).integers(0, 4, (333, 1)).repeat(9, axis=1)
    totals = resampled_totals(x, resamples=200, seed=0)
    assert (totals == totals[:, :1]).all()


def test_resampling_no_item_or_one_item_and_refusing_unusable_values() -> None:
    assert resampled_totals(np.empty((0, 2)), resamples=3, seed=0).tolist() == [[0, 0]] * 3
    assert replayed_totals(np.empty((0, 2)), resamples=3, seed=0).tolist() == [[0, 0]] * 3
    assert resampled_totals([[4.0, 5.0]], resamples=2, seed=0).tolist() == [[4, 5]] * 2
    with pytest.raises(ValueError, match="must be finite"):
        resampled_totals([[np.nan]], resamples=1, seed=0)
    with pytest.raises(ValueError, match="2 axes, not 1"):
        replayed_totals([1.0], resamples=1, seed=0)


def test_a_thousand_resamples_of_many_items_are_fast_and_use_little_memory() -> None:
    x = np.ones((22_000, 60))
    started = time.process_time()
    resampled_totals(x, resamples=1000, seed=0)
    assert time.process_time() - started < 5.0  # 0.2 s of processor time
    tracemalloc.start()
    resampled_totals(x, resamples=1000, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_the_groups_of_a_single_item_take_every_order_equally_often(groups: int) -> None:
    blocks = np.arange(groups * 2, dtype=float).reshape(1, groups, 2)
    orders = [tuple(blocks[0, list(order)].ravel()) for order in permutations(range(groups))]
    drawn = [tuple(total.ravel()) for total in swapped_totals(blocks, draws=4000, seed=5)]
    counts = np.array([drawn.count(order) for order in orders])
    assert counts.sum() == 4000
    assert np.abs(counts - 4000 / len(orders)).max() < 5 * np.sqrt(4000 / len(orders))


def test_items_are_exchanged_independently_and_totals_are_preserved() -> None:
    x = np.random.default_rng(1).integers(0, 5, (200, 3, 4)).astype(float)
    totals = swapped_totals(x, draws=2000, seed=0)
    assert totals.shape == (2000, 3, 4)
    assert (totals.sum(axis=1) == x.sum(axis=(0, 1))).all()
    assert totals.mean(axis=0) == pytest.approx(np.broadcast_to(x.sum(axis=0).mean(axis=0), (3, 4)), rel=0.02)
    within = x.var(axis=1).sum(axis=0)
    assert totals[:, 0].var(axis=0) == pytest.approx(within, rel=0.12)


def test_exchanges_depend_on_the_seed_and_not_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(60, dtype=float).reshape(10, 3, 2)
    totals = swapped_totals(x, draws=40, seed=9)
    assert not np.array_equal(totals, swapped_totals(x, draws=40, seed=8))
    monkeypatch.setattr(resampling, "BLOCK_CELLS", 100)
    assert np.array_equal(totals, swapped_totals(x, draws=40, seed=9))


def test_p_values_are_uniform_when_the_group_is_ignored() -> None:
    rng = np.random.default_rng(3)
    below = []
    for seed in range(300):
        yes = (rng.random((60, 2)) < rng.random((60, 1))).astype(float)[..., None]
        null = np.abs(np.diff(swapped_totals(yes, draws=199, seed=seed)[..., 0], axis=1))[:, 0]
        observed = abs(yes[:, 0].sum() - yes[:, 1].sum())
        below.append((1 + (null >= observed).sum()) / 200 <= 0.2)
    assert 0.1 < np.mean(below) < 0.25


def test_values_that_cannot_be_exchanged_are_refused() -> None:
    with pytest.raises(ValueError, match="3 axes, not 2"):
        swapped_totals(np.ones((2, 5)), draws=1, seed=0)
    assert swapped_totals(np.empty((0, 2, 1)), draws=2, seed=0).tolist() == [[[0], [0]]] * 2
