"""Agreement of decisions with the truth, of repeated answers and of clusterings; Wilson's interval."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score

from tiltmeter import stats
from tiltmeter.stats import b_cubed, cohen_kappa, decision_outcomes, v_measure, wilson_interval


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_cohens_kappa_against_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    truth, decided = np.array(pairs).T
    kappa = cohen_kappa(decision_outcomes(truth, decided).sum(axis=0))
    if truth.any() and not (truth.all() and decided.all()):
        assert kappa == pytest.approx(cohen_kappa_score(truth, decided))


def test_kappa_of_many_tables_and_of_constant_decisions() -> None:
    kappa = cohen_kappa([[8, 2, 1, 89], [0, 0, 0, 5], [5, 0, 0, 0], [0, 0, 0, 0]])
    assert kappa[0] == pytest.approx(0.82558, abs=1e-5)
    assert np.isnan(kappa[1:]).all()


@given(st.integers(1, 400), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.999]))
def test_wilson_against_scipy(n: int, share: float, level: float) -> None:
    k = round(share * n)
    expected = binomtest(k, n).proportion_ci(level, method="wilson")
    low, high = wilson_interval(k, n, level)
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= low <= k / n <= high <= 1


def test_wilson_interval_of_no_items_and_of_a_count_above_the_size() -> None:
    low, high = wilson_interval([0, 3], [0, 3], 0.95)
    assert np.isnan([low[0], high[0]]).all()
    assert high[1] == 1
    with pytest.raises(ValueError, match="between 0 and the size"):
        wilson_interval(4, 3, 0.95)


_ = 0
OBSERVERS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3),
    (_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _),
)
"""Four observers, twelve units; 0: no value."""
UNITS = [[value for value in unit if value] for unit in zip(*OBSERVERS, strict=True)]


def _counts(units: list[list[int]]) -> np.ndarray:
    return np.array([[unit.count(label) for label in range(1, 6)] for unit in units])


def _columns(units: list[list[int]]) -> np.ndarray:
    arrays = [np.array(unit, dtype=float) for unit in units]
    equal = [sum(int(a == b) for a, b in permutations(unit, 2)) for unit in units]
    return stats.interval_columns(
        [len(a) for a in arrays], [a.sum() for a in arrays], [(a * a).sum() for a in arrays], equal
    )


def test_krippendorffs_alpha_of_the_published_example() -> None:
    nominal = stats.nominal_repeats(stats.nominal_columns(_counts(UNITS)).sum(axis=0))
    interval = stats.interval_repeats(_columns(UNITS).sum(axis=0))
    assert nominal.alpha == pytest.approx(0.743, abs=5e-4)
    assert interval.alpha == pytest.approx(0.849, abs=5e-4)


def test_repeats_give_the_share_of_identical_pairs() -> None:
    units = [[1, 1, 2], [3, 3], [4]]
    for totals, repeats_of in (
        (stats.nominal_columns(_counts(units)), stats.nominal_repeats),
        (_columns(units), stats.interval_repeats),
    ):
        assert repeats_of(totals.sum(axis=0)).identical == pytest.approx(4 / 8)


@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=2, max_size=8))
def test_krippendorffs_alpha_equals_its_definition(units: list[list[int]]) -> None:
    pairable = [unit for unit in units if len(unit) > 1]
    values = [value for unit in pairable for value in unit]
    named = stats.nominal_repeats(stats.nominal_columns(_counts(units)).sum(axis=0))
    numbered = stats.interval_repeats(_columns(units).sum(axis=0))
    by_distance: list[tuple[Callable[[int, int], float], stats.Repeats]]
    by_distance = [(lambda a, b: float(a != b), named), (lambda a, b: float(a - b) ** 2, numbered)]
    for distance, repeats in by_distance:
        if len(set(values)) < 2:
            assert np.isnan(repeats.alpha)
            continue
        observed = sum(
            distance(a, b) / (len(unit) - 1) for unit in pairable for a, b in permutations(unit, 2)
        ) / len(values)
        expected = sum(distance(a, b) for a, b in permutations(values, 2)) / (len(values) * (len(values) - 1))
        assert repeats.alpha == pytest.approx(1 - observed / expected, abs=1e-9)


PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), min_size=1, max_size=60)


@given(PAIRS)
def test_v_measure_equals_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, clusters = zip(*pairs, strict=True)
    assert v_measure(truth, clusters) == pytest.approx(
        metrics.homogeneity_completeness_v_measure(truth, clusters), abs=1e-9
    )


@given(PAIRS)
def test_b_cubed_equals_its_definition(pairs: list[tuple[int, int]]) -> None:
    precision = np.mean([np.mean([b[0] == a[0] for b in pairs if b[1] == a[1]]) for a in pairs])
    recall = np.mean([np.mean([b[1] == a[1] for b in pairs if b[0] == a[0]]) for a in pairs])
    truth, clusters = zip(*pairs, strict=True)
    scores = b_cubed(truth, clusters)
    assert scores == pytest.approx((precision, recall, 2 * precision * recall / (precision + recall)))
    assert b_cubed(clusters, truth)[:2] == pytest.approx((recall, precision))


def test_clustering_scores_computed_by_hand() -> None:
    # Classes aab|bb, clusters {a a b} {b b}: the precision is 2/3, 2/3 and 1/3 for the first three elements,
    # and 1 for the other two.
    scores = b_cubed(["a", "a", "b", "b", "b"], [1, 1, 1, 2, 2])
    assert scores.precision == pytest.approx((2 / 3 + 2 / 3 + 1 / 3 + 1 + 1) / 5)
    assert scores.recall == pytest.approx((1 + 1 + 1 / 3 + 2 / 3 + 2 / 3) / 5)
    # Two clusters halve two classes independently: neither is informative about the other.
    assert v_measure(["a", "a", "b", "b"], [1, 2, 1, 2]) == pytest.approx((0, 0, 0), abs=1e-12)
    # Every element its own cluster: homogeneous, and as complete as ln 2 of ln 4.
    assert v_measure(["a", "a", "b", "b"], [1, 2, 3, 4]) == pytest.approx((1, 0.5, 2 / 3))
    # The same clusters by other names are perfect.
    assert v_measure([1, 1, 2], ["x", "x", "y"]) == pytest.approx((1, 1, 1))
    assert b_cubed([1, 1, 2], ["x", "x", "y"]) == pytest.approx((1, 1, 1))
    assert v_measure([3, 3], [5, 5]) == pytest.approx((1, 1, 1))
