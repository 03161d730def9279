"""Log-odds with an informative Dirichlet prior."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltmeter.stats import log_odds


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=2, max_size=4),
    st.floats(0.01, 50),
    st.floats(1, 1000),
)
def test_each_group_against_all_others_as_written_in_the_paper(numbers: list[tuple[int, int]], word: float, rest: float) -> None:
    counts, totals = [y for y, _ in numbers], [y + other for y, other in numbers]
    found = log_odds([counts], totals, [word, word + rest])
    for group, (y, n) in enumerate(zip(counts, totals, strict=True)):
        y_others, n_others = sum(counts) - y, sum(totals) - n
        odds = (y + word) / (n + word + rest - y - word)
        odds_others = (y_others + word) / (n_others + word + rest - y_others - word)
        expected = log(odds) - log(odds_others)
        assert found.estimate[0, group] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert found.z[0, group] == pytest.approx(expected / sqrt(1 / (y + word) + 1 / (y_others + word)), rel=1e-9, abs=1e-9)


def test_a_rare_word_is_held_back_by_its_prior() -> None:
    counts, totals = [[3, 0], [60, 20]], [1000, 1000]
    found = log_odds(counts, totals, [[0.3, 200.0], [8.0, 200.0]])
    assert found.estimate[0, 0] > found.estimate[1, 0] > 0
    assert found.z[1, 0] > 4 > 2 > found.z[0, 0]
    assert found.z[:, 0] == pytest.approx(-found.z[:, 1])
    # With all weight on the prior nothing is left of the difference.
    assert log_odds(counts, totals, [1e7, 1e9]).estimate == pytest.approx(np.zeros((2, 2)), abs=1e-4)


def test_z_is_standard_normal_without_a_difference() -> None:
    generator = np.random.default_rng(3)
    counts = generator.poisson(30, (5000, 2))
    z = log_odds(counts, [3000, 3000], [3, 300]).z[:, 0]
    assert abs(z.mean()) < 0.05
    assert 0.03 < (np.abs(z) > 1.96).mean() < 0.06


def test_nothing_to_go_by_is_nan_and_nonsense_refused() -> None:
    assert np.isnan(log_odds([[0, 5], [0, 0]], [10, 10], [0, 0]).z).all()
    assert np.isnan(log_odds([[5, 5]], [5, 10], [0, 0]).estimate).all()
    with pytest.raises(ValueError, match="between 0 and their totals"):
        log_odds([[11, 5]], [10, 10], [1, 10])
    with pytest.raises(ValueError, match="prior of a word"):
        log_odds([[1, 5]], [10, 10], [11, 10])
