"""Agreement of repeated answers, against the example of Krippendorff (2011) and the definition spelled out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltmeter import stats

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
    return stats.interval_columns([len(a) for a in arrays], [a.sum() for a in arrays], [(a * a).sum() for a in arrays], equal)


def _named(a: int, b: int) -> float:
    return float(a != b)


def _numbered(a: int, b: int) -> float:
    return float(a - b) ** 2


def test_the_published_example() -> None:
    assert stats.nominal_repeats(stats.nominal_columns(_counts(UNITS)).sum(axis=0)).alpha == pytest.approx(0.743, abs=5e-4)
    assert stats.interval_repeats(_columns(UNITS).sum(axis=0)).alpha == pytest.approx(0.849, abs=5e-4)


def test_the_share_of_identical_pairs() -> None:
    units = [[1, 1, 2], [3, 3], [4]]
    for totals, of in ((stats.nominal_columns(_counts(units)), stats.nominal_repeats), (_columns(units), stats.interval_repeats)):
        assert of(totals.sum(axis=0)).identical == pytest.approx(4 / 8)


@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=2, max_size=8))
def test_alpha_is_what_its_definition_says(units: list[list[int]]) -> None:
    pairable = [unit for unit in units if len(unit) > 1]
    values = [value for unit in pairable for value in unit]
    distances: dict[Callable[[int, int], float], stats.Repeats] = {
        _named: stats.nominal_repeats(stats.nominal_columns(_counts(units)).sum(axis=0)),
        _numbered: stats.interval_repeats(_columns(units).sum(axis=0)),
    }
    for distance, found in distances.items():
        if len(set(values)) < 2:
            assert np.isnan(found.alpha)
            continue
        observed = sum(distance(a, b) / (len(unit) - 1) for unit in pairable for a, b in permutations(unit, 2)) / len(values)
        expected = sum(distance(a, b) for a, b in permutations(values, 2)) / (len(values) * (len(values) - 1))
        assert found.alpha == pytest.approx(1 - observed / expected, abs=1e-9)


def test_counts_are_checked() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        stats.nominal_columns([[-1]])
