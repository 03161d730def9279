"""Agreement of decisions with the truth, and Wilson's interval, against references and hand-made cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, cohen_kappa_score, precision_score, recall_score

from tiltmeter.stats import decision_agreement, decision_outcomes, wilson_interval


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_against_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    truth, found = np.array(pairs).T
    mine = decision_agreement(decision_outcomes(truth, found).sum(axis=0))
    assert mine.accuracy == pytest.approx(accuracy_score(truth, found))
    assert mine.always_no == pytest.approx(1 - truth.mean())
    if found.any():
        assert mine.precision == pytest.approx(precision_score(truth, found))
    else:
        assert np.isnan(mine.precision)
    if truth.any():
        assert mine.recall == pytest.approx(recall_score(truth, found))
    else:
        assert np.isnan(mine.recall)
    if truth.any() and not (truth.all() and found.all()):
        assert mine.kappa == pytest.approx(cohen_kappa_score(truth, found))


def test_many_tables_at_once_and_alike_decisions() -> None:
    found = decision_agreement([[8, 2, 1, 89], [0, 0, 0, 5], [5, 0, 0, 0], [0, 0, 0, 0]])
    assert found.kappa[0] == pytest.approx(0.82558, abs=1e-5)
    assert np.isnan(found.kappa[1:]).all()
    assert found.accuracy[:3] == pytest.approx([0.97, 1, 1])
    assert np.isnan(found.accuracy[3])


@given(st.integers(1, 400), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.999]))
def test_wilson_against_scipy(n: int, share: float, level: float) -> None:
    k = round(share * n)
    expected = binomtest(k, n).proportion_ci(level, method="wilson")
    low, high = wilson_interval(k, n, level)
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= low <= k / n <= high <= 1


def test_wilson_of_nothing() -> None:
    low, high = wilson_interval([0, 3], [0, 3], 0.95)
    assert np.isnan([low[0], high[0]]).all()
    assert high[1] == 1


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="one length"):
        decision_outcomes([True], [True, False])
    with pytest.raises(ValueError, match="four numbers"):
        decision_agreement([1, 2, 3])
    with pytest.raises(ValueError, match="four numbers"):
        decision_agreement([1, 2, 3, -1])
    with pytest.raises(ValueError, match="between 0 and n"):
        wilson_interval(4, 3, 0.95)
