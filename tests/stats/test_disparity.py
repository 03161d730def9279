"""Comparisons over groups, the intervals of those that noise increases, and Dixon's test."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from scipy.special import fdtrc
from scipy.stats import zscore

from tiltmeter import stats


def compared(values: list[float], formulas: stats.Formulas = stats.DEFAULT_FORMULAS) -> dict[str, float]:
    with np.errstate(all="ignore"):
        return {
            name: float(entry.compute(stats.GroupValues(np.array([values]), formulas))[0])
            for name, entry in stats.COMPARISONS.items()
        }


@given(st.lists(st.floats(0.01, 10), min_size=3, max_size=12))
def test_comparisons_against_numpy(values: list[float]) -> None:
    comparisons = compared([*values, float("nan")])
    assert (comparisons["max"], comparisons["min"]) == (max(values), min(values))
    expected = [np.ptp(values), min(values) / max(values), np.mean(values), np.std(values, ddof=1)]
    assert_allclose([comparisons[name] for name in ("range", "ratio", "average", "sd")], expected, atol=1e-12)
    if np.std(values) > 1e-6:
        assert_allclose(
            [comparisons["max_abs_z"], comparisons["max_z"]],
            [np.abs(zscore(values)).max(), zscore(values).max()],
            rtol=1e-6,
        )


def test_a_low_outlier_is_the_largest_absolute_z_and_the_low_ratio_of_dixon() -> None:
    comparisons = compared([0.1, 0.9, 0.91, 0.92, 0.93])
    assert comparisons["max_abs_z"] > 1.9 > comparisons["max_z"]
    assert comparisons["dixon_q"] == comparisons["dixon_low"] > comparisons["dixon_high"]
    assert comparisons["dixon_margin"] > 0


def test_a_ratio_with_a_negative_value_or_zero_maximum_is_missing() -> None:
    assert np.isnan(compared([-0.1, 0.2])["ratio"])
    assert np.isnan(compared([0.0, 0.0])["ratio"])
    assert compared([0.0, 0.2])["ratio"] == 0.0
    assert compared([-0.1, 0.2], stats.SAGED_FORMULAS)["ratio"] == pytest.approx(-0.5)


def test_equal_groups_have_no_outlier() -> None:
    comparisons = compared([0.1 + 0.2, 0.3, 0.3])  # equal but for rounding
    assert comparisons["range"] < 1e-15
    assert np.isnan([comparisons["max_abs_z"], comparisons["max_z"], comparisons["dixon_q"]]).all()


@given(st.integers(0, 1000), st.sampled_from([0.9, 0.95]))
@settings(max_examples=60)
def test_lifted_intervals_equal_those_of_a_maximum(seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.uniform(0, 3, size=4)
    samples, null = np.abs(rng.normal(raw[:, None], 1, size=(4, 200))), np.abs(rng.normal(size=(4, 150)))
    samples[0, :20] = np.nan
    null[1, :20] = np.nan
    low, high = stats.lifted_interval(raw, samples, null, level)
    p = stats.excess_p(raw, null, 1)
    for at in range(4):
        maximum = stats.maximum_interval(raw[at], samples[at], null[at], level)
        assert (low[at], high[at], p[at]) == pytest.approx((maximum.low, maximum.high, maximum.p))


def test_without_relabellings_p_is_missing() -> None:
    assert np.array(
        stats.lifted_interval(np.array([1.0]), np.ones((1, 9)), np.empty((1, 0)), 0.95)
    ).tolist() == [[0.0], [1.0]]
    assert np.isnan(stats.excess_p(np.array([1.0]), np.empty((1, 0)), 1))[0]


def test_column_quantiles_skip_missing_values() -> None:
    samples = np.array([[5.0, np.nan, 1.0, 3.0], [np.nan] * 4])
    low, median, high = stats.column_quantiles(samples, 1.0)
    assert_allclose([low, median, high], [[1, np.nan], [3, np.nan], [5, np.nan]])


# Rorabacher (1991), two-sided 95%: r10 to n = 7, r11 to 10, r21 to 13, r22 from 14. Later and more exact
# computations (McBane 2006, Verma and Quiroz-Ruiz 2006) differ from his digits by up to 0.003.
def critical_value(n: int, alpha: float = 0.05) -> float:
    alphas, rows = stats.critical_values_of("dixon_critical.csv")
    return rows[n][alphas.index(alpha)]


RORABACHER = {
    3: 0.970,
    4: 0.829,
    5: 0.710,
    6: 0.625,
    7: 0.568,
    8: 0.615,
    9: 0.570,
    10: 0.534,
    11: 0.625,
    12: 0.592,
    13: 0.565,
}
RORABACHER |= {
    14: 0.590,
    15: 0.568,
    16: 0.548,
    17: 0.531,
    18: 0.516,
    19: 0.503,
    20: 0.491,
    25: 0.443,
    30: 0.412,
}


@pytest.mark.parametrize("n", RORABACHER)
def test_critical_values_of_dixon_are_near_those_of_rorabacher(n: int) -> None:
    assert critical_value(n) == pytest.approx(RORABACHER[n], abs=0.004)


@pytest.mark.parametrize("alpha", [0.2, 0.1, 0.05, 0.04, 0.02, 0.01, 0.005, 0.002])
def test_critical_values_of_dixon_for_three_values_have_a_closed_form(alpha: float) -> None:
    # The distribution function of r10 of three values is 1/2 + (3/pi) arctan((2R - 1)/sqrt(3)).
    exact = (np.sqrt(3) * np.tan(np.pi / 3 * (0.5 - alpha / 2)) + 1) / 2
    assert critical_value(3, alpha) == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize("n", [3, 7, 8, 10, 11, 13, 14, 21, 24, 29, 30])
def test_the_test_of_dixon_keeps_its_level(n: int) -> None:
    test = stats.dixon_test(np.random.default_rng(n).normal(size=(40_000, n)))
    for side in (test.low, test.high):
        assert (side > test.critical).mean() == pytest.approx(0.025, abs=0.004)


def test_ratios_of_dixon_computed_by_hand() -> None:
    ten = np.array([0.0, 3, 4, 5, 6, 7, 8, 9, 10, 30])
    test = stats.dixon_test(np.stack([ten, ten[::-1]]))
    assert_allclose(test.low, [3 / 10] * 2)  # r11: the opposite end is left out
    assert_allclose(test.high, [20 / 27] * 2)
    fourteen = np.arange(14.0) ** 2
    assert stats.dixon_test(fourteen[None]).high[0] == pytest.approx((169 - 121) / (169 - 4))
    assert stats.dixon_test(np.array([[1.0, 2, 10, np.nan]])).high[0] == pytest.approx(8 / 9)


def test_the_test_of_dixon_is_missing_for_too_few_too_many_or_equal_values() -> None:
    for values in ([1.0, 2.0], [1.0] * 31, [np.nan] * 5):
        assert np.isnan(stats.dixon_test(np.array([values])).critical).all()
    assert np.isnan(stats.dixon_test(np.full((1, 5), 2.0)).low).all()


def test_studentised_values_give_the_statistic_of_welch() -> None:
    groups = [np.array(values) for values in ([1.0, 2, 4, 3], [2.0, 9, 5], [0.0, 1, 1, 2, 0])]
    weights = np.array([len(group) / group.var(ddof=1) for group in groups])
    means = np.array([group.mean() for group in groups])
    expected = (weights * (means - (weights * means).sum() / weights.sum()) ** 2).sum()
    table = [[*means, np.nan], [*means + 5, np.nan]]
    studentised = stats.GroupValues(stats.studentise(table, [*1 / weights, 1.0]))
    assert_allclose(studentised.size, [expected] * 2)
    assert np.isnan(studentised.values[:, 3]).all()


ORIGINAL_VERDICTS = {
    (0.0, 5.0, 6.0): "not applicable due to sample size",  # the original has no branch for three values
    (0.0, 90.0, 95.0, 100.0): "not significance",  # the ratio is always 0 for four to seven values
    (0.0, 90.0, 91.0, 92.0, 93.0, 94.0, 95.0, 96.0): "significance at 0.001",
    (0.0, 50.0, 91.0, 92.0, 93.0, 94.0, 95.0, 100.0): "significance at 0.1",
    (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 100.0): "not significance",  # the high end is not tested
    (5.0,) * 9: "not significance",
    (0.0, *map(float, range(90, 111))): "not significance",  # there are no critical values for 22 values
}


def test_verdicts_of_the_original_are_reproduced() -> None:
    widest = max(map(len, ORIGINAL_VERDICTS))
    values = np.array([[*row, *[np.nan] * (widest - len(row))] for row in ORIGINAL_VERDICTS])
    assert stats.original_verdicts(values).tolist() == list(ORIGINAL_VERDICTS.values())


def test_critical_values_of_dixon_are_near_the_published_table() -> None:
    text = (files("tiltmeter.stats") / "dixon_published.csv").read_text(encoding="utf-8").split()
    alphas = [float(alpha_text) for alpha_text in text[0].split(",")[1:]]
    for line in text[1:]:
        n, *values = line.split(",")
        for alpha, value in zip(alphas, values, strict=True):
            if alpha in (0.1, 0.05, 0.02, 0.01, 0.005, 0.001):  # of one end: half of what two ends have
                assert critical_value(int(n), 2 * alpha) == pytest.approx(float(value), abs=0.005)


def test_welchs_test_against_its_published_formula() -> None:
    """Welch (1951), as a loop over groups; a group without a mean is ignored."""
    rng = np.random.default_rng(4)
    groups = [
        rng.normal(mean, spread, size) for mean, spread, size in ((0.0, 1, 6), (0.5, 3, 12), (1.0, 0.4, 30))
    ]
    means = np.array([group.mean() for group in groups])
    errors = np.array([group.var(ddof=1) / len(group) for group in groups])
    weights = 1 / errors
    centre = (weights * means).sum() / weights.sum()
    spread = sum(
        (1 - weight / weights.sum()) ** 2 / (len(group) - 1)
        for weight, group in zip(weights, groups, strict=True)
    )
    f = (weights * (means - centre) ** 2).sum() / 2 / (1 + 2 * spread / 8)
    expected = fdtrc(2, 8 / (3 * spread), f)
    counts = [len(group) for group in groups]
    statistic = (stats.studentise(means, errors) ** 2).sum()
    assert_allclose(stats.welch_p(statistic, errors, counts), expected, rtol=1e-9)
    assert_allclose(stats.welch_p(statistic, [*errors, np.nan], [*counts, 0]), expected, rtol=1e-9)
    assert np.isnan(stats.welch_p(0.0, [1.0, np.nan], [5, 0]))
