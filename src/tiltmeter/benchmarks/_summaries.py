"""Statistics of groups with intervals, and studentised tests of the differences between groups.

Arrays have axes for statistics (S), columns (C), groups (G), and resamples or permutations (R).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, when

from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.benchmarks._layouts import Design, LayoutPlan, as_observed, permutation
from tiltmeter.stats import (
    STATISTICS,
    Formulas,
    Sample,
    Statistic,
    SummaryOptions,
    column_quantiles,
    order_codes,
    studentise,
    welch_p,
)
from tiltmeter.stats._arithmetic import CONSTANT, mean_present, ratio

FEWEST_VALUES: Final = 5
"""Smallest number of values of a group for which the default definition gives an interval or a test of the
group."""
FEWEST_VALUES_PUBLISHED: Final = 2
"""The same for the definition "saged"."""
BLOCK_CELLS: Final = 128_000
"""Values of an average group in a block of resamples: 1 MB, which fits in the cache and keeps call overhead
small."""
LEAST_SPREAD: Final = 0.01
"""Smallest variance of a group in a studentised test, as a share of the variance of all rows: groups of equal
values have none."""


class SummaryRequest(NamedTuple):
    """Statistics to compute, with options, formulas and numbers of draws."""

    statistics: Mapping[str, Statistic]
    formulas: Formulas
    level: float
    resamples: int
    permutations: int
    seed: int
    options: SummaryOptions = SummaryOptions()


def summaries(design: Design, request: SummaryRequest, plan: LayoutPlan, standard: Floats) -> Floats:
    """Compute all statistics under a plan of R layouts, shape (S, C, G, R); NaN where undefined.

    `standard` (C,) is the standard of the selection rate.
    """
    columns = len(design.values)
    table = np.full((len(request.statistics), columns, design.groups, plan.size), np.nan)
    values = _with_missing_row(design.values)
    baselines = _with_missing_row(design.baselines)
    unranked: list[tuple[Floats, Statistic]] = []
    ranked: list[tuple[Floats, Statistic]] = []
    for estimates, statistic in zip(table, request.statistics.values(), strict=True):
        (ranked if statistic.ranked else unranked).append((estimates, statistic))
    if unranked:
        _fill(unranked, values, baselines, design, request, plan, standard)
    if ranked:
        _fill(ranked, order_codes(values), order_codes(baselines), design, request, plan, standard)
    return table


def _with_missing_row(values: Floats) -> Floats:
    """Add row N, "no row", which has no value."""
    return np.pad(values, ((0, 0), (0, 1)), constant_values=np.nan)


def _fill(
    statistics: list[tuple[Floats, Statistic]],
    values: Floats,
    baselines: Floats,
    design: Design,
    request: SummaryRequest,
    plan: LayoutPlan,
    standard: Floats,
) -> None:
    """Write the estimates of statistics into their arrays (C, G, R), in blocks of layouts.

    `values` (C, N + 1) and `baselines` (B, N + 1) end with the row that has no value.
    """
    columns, rows = design.values.shape
    has_baseline = design.baseline_of >= 0
    needs_baselines = has_baseline.any() and any(statistic.paired for _, statistic in statistics)
    block = max(1, BLOCK_CELLS * design.groups // max(1, rows * columns))
    for first in range(0, plan.size, block):
        last = min(first + block, plan.size)
        for group, index in enumerate(plan.layout(first, last)):
            sample = Sample(
                np.take(values, index, axis=1),
                None,
                standard[:, None, None],
                request.options,
                request.formulas,
                design.decisions[:, None, None],
            )
            paired = None
            if needs_baselines:
                paired = sample.paired_with(np.take(baselines, index, axis=1), design.baseline_of)
            for estimates, statistic in statistics:
                if not statistic.paired:
                    estimates[:, group, first:last] = statistic.compute(sample)
                elif paired is not None:
                    estimates[has_baseline, group, first:last] = statistic.compute(paired)


def rows_with_value(values: Floats, design: Design) -> Index:
    """Count the values of each column (C, N) in each group, shape (C, G)."""
    present = ~np.isnan(values)
    counts = [present[:, design.codes == group].sum(axis=1) for group in range(design.groups)]
    return np.stack(counts, axis=-1)


def left_out(rows: Index, formulas: Formulas) -> Booleans:
    """Return which groups are left out of the comparisons of all groups, from their numbers of values.

    Shape (..., G).

    A comparison of all groups is about groups with at least FEWEST_VALUES values if there are two of them:
    resamples of fewer values vary too little, so that an interval of the range would often miss the true
    range. Otherwise, no group is left out, and there is neither an interval nor a test.
    """
    is_small = rows < FEWEST_VALUES
    is_comparable = (~is_small).sum(axis=-1, keepdims=True) >= 2
    excluded: Booleans = is_small & is_comparable & formulas.studentised
    return excluded


def without_groups(values: Floats, excluded: Booleans) -> Floats:
    """Replace the values (S, C, G, R) of the excluded groups (C, G) by NaN."""
    return np.where(excluded[..., None], np.nan, values)


def reach_of(design: Design, request: SummaryRequest) -> Floats:
    """Return the smallest and the largest possible value of each statistic, shape (2, S, C, 1).

    Infinite if unbounded. Those of a mean are the smallest and the largest possible value of the column.
    """
    low, high = design.bounds
    ends = []
    for name, statistic in request.statistics.items():
        if name == "mean" and request.formulas.studentised:
            ends.append((low, high))
        else:
            least, most = statistic.bounds or (-np.inf, np.inf)
            ends.append((np.full_like(low, least), np.full_like(low, most)))
    return np.stack(ends, axis=1)[..., None]


def group_intervals(
    observed: Floats, drawn: Floats, rows: Index, reach: Floats, request: SummaryRequest
) -> tuple[Floats, Floats]:
    """Compute bootstrap intervals of all statistics, shape (S, C, G); NaN for groups with too few rows.

    The default definition needs FEWEST_VALUES rows, "saged" FEWEST_VALUES_PUBLISHED.

    Intervals of smooth statistics are t intervals with the bootstrap standard error, those of others are
    percentiles. Where all resamples of a share or a mean agree, the interval is the exact bound (see
    `stats.rare_event_interval`).
    """
    from scipy.special import stdtrit

    tail = (1.0 - request.level) / 2.0
    low, _, high = column_quantiles(drawn, request.level)
    share = 1.0 - tail ** (1.0 / np.maximum(rows, 1))
    slack = share * (reach[1] - reach[0])
    agree = np.isfinite(slack) & (low == high)
    fewest = FEWEST_VALUES_PUBLISHED
    if request.formulas.studentised:
        fewest = FEWEST_VALUES
        smooth = [statistic.bounds is not None for statistic in request.statistics.values()]
        is_smooth = np.array(smooth)[:, None, None]
        quantile = stdtrit(rows - 1.0, (1.0 + request.level) / 2.0)
        half = quantile * np.sqrt(_squared_errors(drawn, rows))
        low = np.where(is_smooth, observed - half, low)
        high = np.where(is_smooth, observed + half, high)
    low = np.where(agree, observed - slack, low)
    high = np.where(agree, observed + slack, high)
    unknown = np.isnan(observed) | (rows < fewest)
    low = np.where(unknown, np.nan, np.maximum(low, reach[0]))
    high = np.where(unknown, np.nan, np.minimum(high, reach[1]))
    return low, high


def _squared_errors(drawn: Floats, rows: Index) -> Floats:
    """Compute squared standard errors from resamples (..., R) of n rows.

    They are multiplied by n / (n - 1), so that they are unbiased for means.
    """
    deviations = drawn - mean_present(drawn)[..., None]
    return mean_present(deviations**2) * ratio(rows, rows - 1.0)


class StudentisedTest(NamedTuple):
    """Studentised values of one statistic, for the data and for permutations."""

    values: Floats
    """(C, 1 + R, G) values: first the data, then the permutations."""
    weight: Floats
    """(C,) sum of the inverse squared standard errors of the groups."""
    least_p: Floats
    """(C,) p-value of Welch's test, below which that of the permutations must not fall; NaN for paired rows.
    """


def studentised_tests(
    design: Design, request: SummaryRequest, standard: Floats, excluded: Booleans
) -> dict[str, StudentisedTest]:
    """Studentise the statistics that are means over rows; groups that are `excluded` (C, G) have no value.

    Permutations assume little about the shape of distributions, but in small groups of very different spreads
    they find differences too often; Welch's test does not. The larger of both p-values is used where rows are
    not paired.
    """
    if not (request.formulas.studentised and request.permutations):
        return {}
    sample = Sample(
        design.values, None, standard[:, None], request.options, request.formulas, design.decisions[:, None]
    )
    return {
        name: _studentised_test(statistic.terms(sample), design, request, excluded)
        for name, statistic in request.statistics.items()
        if statistic.terms is not None
    }


def _studentised_test(
    terms: Floats, design: Design, request: SummaryRequest, excluded: Booleans
) -> StudentisedTest:
    """Studentise a statistic that is the mean of `terms` (C, N)."""
    centred = terms if design.units is None else _within_units(terms, design.units)
    variance = mean_present((centred - mean_present(centred)[:, None]) ** 2)
    variance[variance <= CONSTANT * mean_present(terms**2)] = 0.0
    design_of_terms = replace(design, values=centred)
    means_and_errors = request._replace(
        statistics={"mean": STATISTICS["mean"], "error": Statistic(_error_of_mean)}
    )
    plans = (as_observed(design), permutation(design, request.permutations, request.seed))
    tables = [summaries(design_of_terms, means_and_errors, plan, variance) for plan in plans]
    draws = without_groups(np.concatenate(tables, axis=-1), excluded)
    means, errors = np.moveaxis(draws, -1, -2)
    errors = np.where(np.isnan(means), np.nan, errors)
    values = studentise(means, errors)
    least_p = np.full(len(values), np.nan)
    if design.units is None:
        statistic = np.nansum(values[:, 0] ** 2, axis=-1)
        least_p = welch_p(statistic, errors[:, 0], rows_with_value(terms, design))
    return StudentisedTest(values, np.nansum(1.0 / errors[:, 0], axis=-1), least_p)


def _error_of_mean(sample: Sample) -> Floats:
    """Compute the squared standard error of the mean, 1 if nothing varies.

    `sample.standard` is the variance of all rows.
    """
    overall = sample.standard[..., 0]
    unbiased = sample.spread * ratio(sample.count, sample.count - 1.0)
    variance = np.where(sample.count > 1, unbiased, overall)
    error = np.maximum(variance, LEAST_SPREAD * overall) / sample.count
    return np.where(overall > 0, error, 1.0)


def _within_units(terms: Floats, units: Index) -> Floats:
    """Subtract the mean of its unit from each row (C, N).

    Rows alone in their unit, which cannot be permuted, are missing.
    """
    rows = DataFrame(terms.T).fill_nan(None).with_columns(unit=units)
    value = pl.exclude("unit")
    deviation = value - value.mean().over("unit")
    centred = rows.select(when(value.count().over("unit") > 1).then(deviation))
    return centred.to_numpy().T.astype(np.float64)
