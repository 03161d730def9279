"""Groups exchanged within items."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tiltmeter.stats import _blocks, swapped_totals


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_a_single_item_takes_every_order_equally_often(groups: int) -> None:
    blocks = np.arange(groups * 2, dtype=float).reshape(1, groups, 2)
    orders = [tuple(blocks[0, list(order)].ravel()) for order in permutations(range(groups))]
    drawn = [tuple(total.ravel()) for total in swapped_totals(blocks, draws=4000, seed=5)]
    counts = np.array([drawn.count(order) for order in orders])
    assert counts.sum() == 4000
    assert np.abs(counts - 4000 / len(orders)).max() < 5 * np.sqrt(4000 / len(orders))


def test_items_are_exchanged_independently_and_nothing_is_lost() -> None:
    x = np.random.default_rng(1).integers(0, 5, (200, 3, 4)).astype(float)
    totals = swapped_totals(x, draws=2000, seed=0)
    assert totals.shape == (2000, 3, 4)
    assert (totals.sum(axis=1) == x.sum(axis=(0, 1))).all()
    assert totals.mean(axis=0) == pytest.approx(np.broadcast_to(x.sum(axis=0).mean(axis=0), (3, 4)), rel=0.02)
    within = x.var(axis=1).sum(axis=0)
    assert totals[:, 0].var(axis=0) == pytest.approx(within, rel=0.12)


def test_same_seed_same_totals_whatever_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(60, dtype=float).reshape(10, 3, 2)
    whole = swapped_totals(x, draws=40, seed=9)
    assert not np.array_equal(whole, swapped_totals(x, draws=40, seed=8))
    monkeypatch.setattr(_blocks, "BLOCK_CELLS", 100)
    assert np.array_equal(whole, swapped_totals(x, draws=40, seed=9))


def test_p_values_are_uniform_when_the_group_is_ignored() -> None:
    rng = np.random.default_rng(3)
    below = []
    for seed in range(300):
        yes = (rng.random((60, 2)) < rng.random((60, 1))).astype(float)[..., None]
        null = np.abs(np.diff(swapped_totals(yes, draws=199, seed=seed)[..., 0], axis=1))[:, 0]
        below.append((1 + (null >= abs(yes[:, 0].sum() - yes[:, 1].sum())).sum()) / 200 <= 0.2)
    assert 0.1 < np.mean(below) < 0.25


def test_unusable_input_is_refused() -> None:
    with pytest.raises(ValueError, match="for 1 to 4 groups, not for 5"):
        swapped_totals(np.ones((2, 5, 1)), draws=1, seed=0)
    with pytest.raises(ValueError, match="3 axes, not 2"):
        swapped_totals(np.ones((2, 5)), draws=1, seed=0)
    assert swapped_totals(np.empty((0, 2, 1)), draws=2, seed=0).tolist() == [[[0], [0]]] * 2
