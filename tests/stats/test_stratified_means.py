"""The difference of two means within strata: against least squares, its size on fair data, and clusters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiltmeter.stats import ItemClusters, stratified_mean_difference


def test_the_estimate_is_that_of_least_squares_with_a_constant_for_each_stratum() -> None:
    rng = np.random.default_rng(1)
    strata = rng.integers(4, size=200)
    group = rng.random(200) < 0.2 + 0.15 * strata
    values = 3.0 * strata + 0.7 * group + rng.normal(size=200)
    design = np.column_stack([group, *(strata == stratum for stratum in range(4))]).astype(float)
    coefficients, *_ = np.linalg.lstsq(design, values, rcond=None)
    residuals = values - design @ coefficients
    bread = np.linalg.inv(design.T @ design)
    robust = bread @ (design.T * residuals**2) @ design @ bread * 200 / (200 - 5)
    difference = stratified_mean_difference(values, group, strata)
    assert difference.estimate == pytest.approx(coefficients[0])
    half_width = (difference.high - difference.low) / 2
    assert half_width == pytest.approx(1.97 * math.sqrt(robust[0, 0]), rel=0.01)
    assert difference.p < 0.001


def test_groups_in_different_strata_cannot_be_compared() -> None:
    difference = stratified_mean_difference([1.0, 2.0, 3.0], [True, True, False], [0, 0, 1])
    assert math.isnan(difference.estimate)
    assert stratified_mean_difference([1.0, 2.0], [True, False], [0, 0]).p == 1
    assert stratified_mean_difference([1.0] * 6, [True, False] * 3, [0] * 6).p == 1


@pytest.mark.parametrize("clustered", [False, True])
def test_equal_groups_are_called_different_as_often_as_the_level_says(*, clustered: bool) -> None:
    rng = np.random.default_rng(2)
    rejected = covered = 0
    samples = 600
    for _ in range(samples):
        author = np.arange(120) // 4
        group = author % 2 == 0
        of_author = rng.normal(size=30) if clustered else np.zeros(30)
        values = rng.gamma(0.5, 1 + group, size=120) - 0.5 * (1 + group) + of_author[author]
        clusters = [ItemClusters("authors", np.arange(120), author, 1)] if clustered else []
        difference = stratified_mean_difference(values, group, np.zeros(120), clusters)
        rejected += difference.p < 0.05
        covered += difference.low <= 0 <= difference.high
    assert rejected == samples - covered
    assert 0.025 <= rejected / samples <= 0.085
