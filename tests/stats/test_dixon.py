"""Dixon's ratios and their critical values."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tiltmeter.stats.dixon import critical_value, dixon_test, original_verdicts

# Rorabacher (1991), two-sided 95%: r10 to n = 7, r11 to 10, r21 to 13, r22 from 14. Some of his digits are off by up to 0.003, which later
# and more exact computations (McBane 2006, Verma and Quiroz-Ruiz 2006) have shown.
RORABACHER = {3: 0.970, 4: 0.829, 5: 0.710, 6: 0.625, 7: 0.568, 8: 0.615, 9: 0.570, 10: 0.534, 11: 0.625, 12: 0.592, 13: 0.565}
RORABACHER |= {14: 0.590, 15: 0.568, 16: 0.548, 17: 0.531, 18: 0.516, 19: 0.503, 20: 0.491, 25: 0.443, 30: 0.412}


@pytest.mark.parametrize("n", RORABACHER)
def test_published_values(n: int) -> None:
    assert critical_value(n) == pytest.approx(RORABACHER[n], abs=0.004)


@pytest.mark.parametrize("alpha", [0.2, 0.1, 0.05, 0.04, 0.02, 0.01, 0.005, 0.002])
def test_of_three_values_in_closed_form(alpha: float) -> None:
    # The distribution function of r10 of three values is 1/2 + (3/pi) arctan((2R - 1)/sqrt(3)).
    exact = (np.sqrt(3) * np.tan(np.pi / 3 * (0.5 - alpha / 2)) + 1) / 2
    assert critical_value(3, alpha) == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize("n", [3, 7, 8, 10, 11, 13, 14, 21, 24, 29, 30])
def test_holds_its_level(n: int) -> None:
    test = dixon_test(np.random.default_rng(n).normal(size=(40_000, n)))
    for side in (test.low, test.high):
        assert (side > test.critical).mean() == pytest.approx(0.025, abs=0.004)


def test_ratios_by_hand() -> None:
    ten = np.array([0.0, 3, 4, 5, 6, 7, 8, 9, 10, 30])
    test = dixon_test(np.stack([ten, ten[::-1]]))
    assert_allclose(test.low, [3 / 10] * 2)  # r11: the other end is left out
    assert_allclose(test.high, [20 / 27] * 2)
    fourteen = np.arange(14.0) ** 2
    assert dixon_test(fourteen[None]).high[0] == pytest.approx((169 - 121) / (169 - 4))
    assert dixon_test(np.array([[1.0, 2, 10, np.nan]])).high[0] == pytest.approx(8 / 9)


def test_where_there_is_no_test() -> None:
    for values in ([1.0, 2.0], [1.0] * 31, [np.nan] * 5):
        assert np.isnan(dixon_test(np.array([values])).critical).all()
    assert np.isnan(dixon_test(np.full((1, 5), 2.0)).low).all()
    with pytest.raises(ValueError, match="alpha"):
        critical_value(5, 0.3)
    with pytest.raises(ValueError, match="3 to 30"):
        critical_value(31)


def test_what_the_original_says() -> None:
    rows = {
        (0.0, 5.0, 6.0): "not applicable due to sample size",  # it has no branch for three values
        (0.0, 90.0, 95.0, 100.0): "not significance",  # its ratio is always 0 for four to seven
        (0.0, 90.0, 91.0, 92.0, 93.0, 94.0, 95.0, 96.0): "significance at 0.001",
        (0.0, 50.0, 91.0, 92.0, 93.0, 94.0, 95.0, 100.0): "significance at 0.1",
        (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 100.0): "not significance",  # the high end is not looked at
        (5.0,) * 9: "not significance",
        tuple(float(one) for one in [0, *range(90, 111)]): "not significance",  # 22 values: no critical values
    }
    widest = max(map(len, rows))
    given = np.array([[*row, *[np.nan] * (widest - len(row))] for row in rows])
    assert original_verdicts(given).tolist() == list(rows.values())


def test_our_critical_values_are_the_published_ones() -> None:
    text = (files("tiltmeter.stats") / "dixon_published.csv").read_text(encoding="utf-8").split()
    alphas = [float(one) for one in text[0].split(",")[1:]]
    for line in text[1:]:
        n, *values = line.split(",")
        for alpha, value in zip(alphas, values, strict=True):
            if alpha in (0.1, 0.05, 0.02, 0.01, 0.005, 0.001):  # of one end: half of what two ends have
                assert critical_value(int(n), 2 * alpha) == pytest.approx(float(value), abs=0.005)
