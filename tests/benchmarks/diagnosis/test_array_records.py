"""Records of arrays are combined field by field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.testing import assert_array_equal

from tiltmeter._arrays import Floats
from tiltmeter.benchmarks._array_records import joined, stacked, without


@dataclass(frozen=True, slots=True)
class Bounds:
    low: Floats
    high: Floats


FIRST = Bounds(np.array([0.0, 1.0]), np.array([2.0, 3.0]))
SECOND = Bounds(np.array([4.0, 5.0]), np.array([6.0, 7.0]))


def test_joined_concatenates_each_array() -> None:
    both = joined([FIRST, SECOND], axis=0)
    assert_array_equal(both.low, [0.0, 1.0, 4.0, 5.0])
    assert_array_equal(both.high, [2.0, 3.0, 6.0, 7.0])


def test_stacked_adds_an_axis() -> None:
    both = stacked([FIRST, SECOND], axis=-1)
    assert_array_equal(both.low, [[0.0, 4.0], [1.0, 5.0]])


def test_without_replaces_marked_values_of_the_named_arrays_only() -> None:
    bounds = without(FIRST, ("high",), np.array([True, False]))
    assert_array_equal(bounds.low, FIRST.low)
    assert_array_equal(bounds.high, [np.nan, 3.0])
    assert FIRST.high[0] == 2.0
