"""Agreement of clusterings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiltmeter.stats import b_cubed, v_measure

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), min_size=1, max_size=60)


@given(PAIRS)
@settings(deadline=None)  # the first example imports scikit-learn
def test_v_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, found = zip(*pairs, strict=True)
    assert v_measure(truth, found) == pytest.approx(metrics.homogeneity_completeness_v_measure(truth, found), abs=1e-9)


@given(PAIRS)
def test_b_cubed_is_its_definition_spelt_out(pairs: list[tuple[int, int]]) -> None:
    precision = np.mean([np.mean([b[0] == a[0] for b in pairs if b[1] == a[1]]) for a in pairs])
    recall = np.mean([np.mean([b[1] == a[1] for b in pairs if b[0] == a[0]]) for a in pairs])
    truth, found = zip(*pairs, strict=True)
    scores = b_cubed(truth, found)
    assert scores == pytest.approx((precision, recall, 2 * precision * recall / (precision + recall)))
    assert b_cubed(found, truth)[:2] == pytest.approx((recall, precision))


def test_by_hand() -> None:
    # Classes aab|bb, clusters {a a b} {b b}: the first three have precision 2/3, 2/3 and 1/3, the other two 1.
    scores = b_cubed(["a", "a", "b", "b", "b"], [1, 1, 1, 2, 2])
    assert scores.precision == pytest.approx((2 / 3 + 2 / 3 + 1 / 3 + 1 + 1) / 5)
    assert scores.recall == pytest.approx((1 + 1 + 1 / 3 + 2 / 3 + 2 / 3) / 5)
    # Two classes halved by two clusters independently: nothing is told about either.
    assert v_measure(["a", "a", "b", "b"], [1, 2, 1, 2]) == pytest.approx((0, 0, 0), abs=1e-12)
    # Every element its own cluster: homogeneous, and as complete as ln 2 of ln 4.
    assert v_measure(["a", "a", "b", "b"], [1, 2, 3, 4]) == pytest.approx((1, 0.5, 2 / 3))


def test_the_same_clusters_by_other_names_are_perfect() -> None:
    assert v_measure([1, 1, 2], ["x", "x", "y"]) == (1, 1, 1)
    assert b_cubed([1, 1, 2], ["x", "x", "y"]) == (1, 1, 1)
    assert v_measure([3, 3], [5, 5]) == (1, 1, 1)


@pytest.mark.parametrize(("truth", "found"), [([], []), ([1], [1, 2]), ([[1]], [[1]])])
def test_what_cannot_be_compared_is_refused(truth: list[Any], found: list[Any]) -> None:
    for score in (v_measure, b_cubed):
        with pytest.raises(ValueError, match="one length"):
            score(truth, found)
