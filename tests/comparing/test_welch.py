"""Welch's test of two independent estimates, compared with SciPy's test of two samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t, ttest_ind

from tiltmeter.comparing._welch import standard_errors, welch_p


def test_welch_p_is_that_of_scipy_for_two_samples() -> None:
    rng = np.random.default_rng(5)
    samples = [rng.normal(size=6), rng.normal(0.8, 3.0, size=25)]
    errors = np.array([sample.std(ddof=1) / np.sqrt(len(sample)) for sample in samples])
    p = welch_p(samples[1].mean() - samples[0].mean(), errors, [5, 24])
    assert p == pytest.approx(ttest_ind(*samples, equal_var=False).pvalue)
    halves = errors * t.ppf(0.9, [5, 24])
    assert standard_errors(-halves, halves, 0.8, [5, 24]) == pytest.approx(errors)


def test_welch_p_without_standard_errors_is_missing() -> None:
    p = welch_p([0.1, 0.0, 0.0], [[0.0, 0.0], [1.0, 1.0], [np.nan, 1.0]], [5, 5])
    assert np.isnan(p).tolist() == [True, False, True]
    assert p[1] == 1
