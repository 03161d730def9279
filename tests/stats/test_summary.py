"""Summary statistics against SciPy and NumPy, along the last axis of many samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy import stats

from tiltmeter.stats import (
    DEFAULT_FORMULAS,
    SAGED_FORMULAS,
    STATISTICS,
    Sample,
    SummaryOptions,
    standards,
    summarise,
)
from tiltmeter.stats._arithmetic import sorted_quantile

Floats = NDArray[np.float64]
value = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-2, 2, allow_nan=False).map(lambda x: round(x, 6)),
    st.just(float("nan")),
)
columns = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.lists(value, min_size=n, max_size=n), min_size=2, max_size=2)
)


def summary_of(
    x: Floats, y: Floats | None = None, original: bool = False, options: SummaryOptions | None = None
) -> dict[str, float]:
    options = options or SummaryOptions()
    values = np.stack([x, x])  # two lanes at once
    baseline = None if y is None else np.stack([y, y])
    formulas = SAGED_FORMULAS if original else DEFAULT_FORMULAS
    standard = standards(values[:1], options, formulas)[:, None]
    summary = summarise(Sample(values, baseline, standard, options, formulas), list(STATISTICS))
    for lanes in summary.values():
        assert_allclose(lanes[0], lanes[1])
    return {name: float(lanes[0]) for name, lanes in summary.items()}


@given(columns)
@settings(max_examples=100)
def test_against_scipy(pair: list[list[float]]) -> None:
    values, base = np.array(pair[0]), np.array(pair[1])
    x = values[~np.isnan(values)]
    for original in (False, True):
        with np.errstate(all="ignore"):
            summary = summary_of(values, base, original)
        if not x.size:
            assert all(np.isnan(number) for name, number in summary.items() if not STATISTICS[name].paired)
            continue
        ddof = 0 if original else 1
        variance = x.var(ddof=ddof) if x.size > ddof else np.nan
        expected = [x.mean(), np.median(x), np.ptp(x), np.subtract(*np.quantile(x, [0.75, 0.25])), variance]
        assert_allclose(
            [summary[name] for name in ("mean", "median", "range", "quantile_range", "variance")],
            expected,
            atol=1e-12,
        )
        assert_allclose(summary["sd"], np.sqrt(variance), atol=1e-7)
        if x.size > 3 and x.var() > 1e-6:
            assert_allclose(summary["skewness"], stats.skew(x, bias=original), rtol=1e-6, atol=1e-8)
            assert_allclose(summary["kurtosis"], stats.kurtosis(x, bias=original), rtol=1e-6, atol=1e-8)
        edges = np.arange(x.min(), x.max() + 0.5, 0.5)
        assert_allclose(
            summary["mode"], edges[np.bincount(np.digitize(x, edges)).argmax() - 1] + 0.25, atol=1e-12
        )


@given(
    st.integers(500, 1500),
    st.integers(0, 2**32 - 1),
    st.integers(0, 1),
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]),
)
@settings(max_examples=60)
def test_quantiles_of_many_values_against_numpy(count: int, seed: int, decimals: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, count)).round(decimals)  # with ties
    with_gaps = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    for values in (x, with_gaps):
        sample = Sample(values, None, np.zeros((2, 1)), SummaryOptions())
        assert_allclose(sample.quantile(share), np.nanquantile(values, share, axis=-1), atol=1e-12)


@given(columns)
@settings(max_examples=100)
def test_paired_statistics_against_scipy(pair: list[list[float]]) -> None:
    values, base = np.array(pair[0]), np.array(pair[1])
    both = ~np.isnan(values + base)
    x, y = values[both], base[both]
    summary = summary_of(values, base)
    if x.size > 1 and x.std() > 1e-3 and y.std() > 1e-3:
        assert_allclose(summary["pearson"], stats.pearsonr(x, y)[0], atol=1e-7)
        ranked = [stats.spearmanr(x, y)[0], stats.kendalltau(x, y)[0]]
        assert_allclose([summary["spearman"], summary["kendall"]], ranked, atol=1e-9)
    elif x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        assert all(np.isnan(summary[name]) for name in ("spearman", "kendall"))
    if x.size:
        assert_allclose(summary["precision"], (np.abs(x - y) <= 0.1).mean())
    p, q = values[~np.isnan(values)], base[~np.isnan(base)]
    if p.size and q.size:
        for original in (False, True):
            span = None if original else (min(p.min(), q.min()), max(p.max(), q.max()))
            p_shares = np.histogram(p, 10, span)[0] / p.size
            q_shares = np.histogram(q, 10, span)[0] / q.size
            p_shares[p_shares == 0] = 1e-10
            q_shares[q_shares == 0] = 1e-10
            divergence = (p_shares * np.log(p_shares / q_shares)).sum()
            assert_allclose(summary_of(values, base, original)["kl"], divergence, atol=1e-9)
    else:
        assert np.isnan(summary["kl"])


@given(st.integers(2, 200), st.integers(0, 10_000))
@settings(max_examples=30)
def test_rank_correlations_of_many_values_against_scipy(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n), rng.normal(size=n)
    assert_allclose(summary_of(x, y)["kendall"], stats.kendalltau(x, y)[0], atol=1e-9)
    tied = np.round(x)
    if np.ptp(tied):
        assert_allclose(summary_of(tied, y)["kendall"], stats.kendalltau(tied, y)[0], atol=1e-9)
        assert_allclose(summary_of(tied, y)["spearman"], stats.spearmanr(tied, y)[0], atol=1e-9)


@pytest.mark.parametrize(
    ("method", "standard", "rate"),
    [
        ("larger", "mean", 2 / 4), ("larger", "median", 2 / 4), ("larger", "quantile=0.25", 3 / 4),
        ("larger", "percentile=75", 1 / 4), ("larger", "fixed=0.4", 2 / 4), ("larger", "mode=0.2", 3 / 4),
        ("smaller", "fixed=0.1", 1 / 4),
        ("within-range=0.1", "fixed=0.5", 1 / 4), ("within-percentage=0.5", "fixed=0.4", 2 / 4),
    ],
)  # fmt: skip
def test_selection_rates_by_method_and_standard(method: str, standard: str, rate: float) -> None:
    x = np.array([0.1, 0.25, 0.5, 0.9, np.nan])
    summary = summary_of(x, options=SummaryOptions(method=method, standard=standard))
    assert summary["selection_rate"] == rate
    # The original selects nothing if a value is missing.
    assert summary_of(x, original=True)["selection_rate"] == 0.0


def test_constant_values_have_no_skewness_kurtosis_or_correlation() -> None:
    summary = summary_of(np.full(8, 0.1), np.full(8, 0.3))
    assert summary["variance"] < 1e-30
    assert all(np.isnan(summary[name]) for name in ("skewness", "kurtosis", "pearson", "spearman", "kendall"))


def test_quantiles_of_sorted_values_skip_missing_values() -> None:
    ordered = np.array([[1.0, 2.0, 4.0, np.nan], [np.nan] * 4])
    assert_allclose(sorted_quantile(ordered, np.array([3.0, 0.0]), 0.25), [1.5, np.nan])
