"""Comparison of two models on the same prompts of a benchmark: statistics of groups, and disparities."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Series, col, lit, when

from tiltmeter._arrays import Floats, Index
from tiltmeter.benchmarks._computation import TABLE_CELLS
from tiltmeter.benchmarks._definitions import definition_of, find_statistics
from tiltmeter.benchmarks._findings import COMPARED, IS_OF_KEY, MINUS_OTHERS, SELECTION_RATE
from tiltmeter.benchmarks._group_comparisons import minus_others
from tiltmeter.benchmarks._layouts import (
    Design,
    Layout,
    LayoutPlan,
    as_observed,
    bootstrap,
    design_of,
    permutation,
    ranks,
)
from tiltmeter.benchmarks._measurements import Measurements, kinds_of, measurements_of
from tiltmeter.benchmarks._options import options_of
from tiltmeter.benchmarks._summaries import SummaryRequest, left_out, rows_with_value, summaries
from tiltmeter.benchmarks._tables import BASELINES
from tiltmeter.benchmarks.diagnosis import cross
from tiltmeter.schema import CONTRASTS, beside, conform
from tiltmeter.stats import (
    COMPARISONS,
    DisparityMeasure,
    GroupValues,
    PairedDifference,
    exchange_difference,
    independent_difference,
    lifted_interval,
    paired_difference,
    standards,
)
from tiltmeter.study import Settings

METHOD = "paired bootstrap of {}, t interval; p also by exchanging the sides of roots"
LIFTED_METHOD = (
    "intervals of both sides, each corrected for the upward bias of a distance between groups; "
    "p by exchanging the sides of roots"
)
TABLES_IN_MEMORY: Final = 8
"""Tables of statistics held in memory at once."""
EXCHANGE_STREAM: Final = 3
"""Number of the random stream; those of permutations and of the bootstrap are in `layouts`."""


class _Sides(NamedTuple):
    """Both sides as arrays with the same rows and columns."""

    first: Design
    second: Design
    roots: Index
    """(N,) number of the root of each row."""
    request: SummaryRequest


class _SideTables(NamedTuple):
    """Statistics of both sides, each of shape (2, S, C, G, R)."""

    observed: Floats
    resampled: Floats
    exchanged: Floats
    """With the sides of roots exchanged."""
    permuted: Floats
    """With the labels of groups permuted."""


class _Gaps(NamedTuple):
    """Second side minus first side: observed, resampled, and with exchanged sides."""

    observed: Floats
    resampled: Floats
    exchanged: Floats


def contrast_of(first: DataFrame, second: DataFrame, settings: Settings) -> DataFrame | None:
    """Compute CONTRASTS of the features, generations and prompts that both sides share.

    None if fewer than two groups or roots are left. Both sides use the same resamples of roots. A range over
    groups is biased upwards, and so is its bootstrap; differences of ranges are therefore tested by
    exchanging the two sides within roots, which have the same bias.
    """
    sides = _same_generations([measures.rename({"subject": "group"}) for measures in (first, second)])
    measurements = [measurements_of(side) for side in sides]
    columns, rows = _shared(*measurements)
    if columns.is_empty() or rows["group"].n_unique() < 2 or rows["root"].n_unique() < 2:
        return None
    keys = rows.columns
    tables = [beside(rows, side.table, *keys) for side in measurements]
    groups = rows["group"].unique().sort().to_list()
    unit, baselines = measurements[0].unit, measurements[0].baselines
    definition = definition_of(settings)
    kinds = kinds_of(columns, definition)
    request = SummaryRequest(
        statistics=find_statistics(options_of(settings).statistics),
        formulas=definition.formulas,
        level=settings.level,
        resamples=settings.resamples,
        permutations=settings.resamples,
        seed=settings.seed,
    )
    cells = TABLES_IN_MEMORY * settings.resamples * len(groups) * len(request.statistics)
    codes, roots = ranks(rows["group"]), ranks(rows["root"])
    contrasts = []
    for chunk in columns.iter_slices(max(1, TABLE_CELLS // cells)):
        names = chunk["column"].to_list()
        designs = [design_of(table, names, baselines, codes, unit, kinds) for table in tables]
        with np.errstate(all="ignore"):
            contrasts += _contrasts(_Sides(designs[0], designs[1], roots, request), chunk, groups)
    table = pl.concat(contrasts, how="diagonal")
    if definition.decision_rates:
        decisions = columns.filter("decision")["feature"].to_list()
        table = table.remove("calibrated", col.feature.is_in(decisions), statistic=SELECTION_RATE)
    has_conditions = measurements[0].columns["generation"].n_unique() > 1
    units = "roots with all their branches" if unit else "prompts within each group"
    metric = when(col.comparison.is_null()).then(lit("value")).otherwise(lit("disparity"))
    table = table.with_columns(
        metric=metric,
        context=when(lit(has_conditions)).then("generation"),
        paired=lit(value=True),
        how=col.how.fill_null(METHOD.format(units)),
    )
    table = conform(table, CONTRASTS).with_columns(col(Float64).fill_nan(None))
    return table.filter(col.difference.is_not_null())


def _same_generations(sides: list[DataFrame]) -> list[DataFrame]:
    """Name generations by role only, if the sides have no generation in common.

    This is the case if they used different templates.
    """
    generations = [set(side["generation"].unique()) for side in sides]
    if generations[0] & generations[1]:
        return sides
    return [side.with_columns(generation="role") for side in sides]


def _shared(first: Measurements, second: Measurements) -> tuple[DataFrame, DataFrame]:
    """Return the columns (without those of baselines) and the rows that both sides have."""
    columns = first.columns.join(second.columns, on="column", how="semi", maintain_order="left")
    keys = ["prompt_key", "group", "root"]
    rows = first.table.join(second.table, on=keys, how="semi", maintain_order="left").select(keys)
    return columns.filter(col.generation != BASELINES), rows


def _tables(sides: _Sides) -> _SideTables:
    """Compute the statistics of both sides."""
    first, second, _, request = sides
    of_first = standards(first.values, request.options, request.formulas)
    of_second = standards(second.values, request.options, request.formulas)
    both = replace(
        first,
        values=np.concatenate([first.values, second.values], axis=1),
        baselines=np.concatenate([first.baselines, second.baselines], axis=1),
    )

    def of_both_sides(plan: LayoutPlan) -> Floats:
        return np.stack(
            [summaries(first, request, plan, of_first), summaries(second, request, plan, of_second)]
        )

    resampling = bootstrap(first, request.resamples, request.seed)
    relabelling = permutation(first, request.permutations, request.seed)
    first_exchanged = summaries(both, request, _exchange(sides, 0), of_first)
    second_exchanged = summaries(both, request, _exchange(sides, 1), of_second)
    return _SideTables(
        observed=of_both_sides(as_observed(first)),
        resampled=of_both_sides(resampling),
        exchanged=np.stack([first_exchanged, second_exchanged]),
        permuted=of_both_sides(relabelling),
    )


def _exchange(sides: _Sides, side: int) -> LayoutPlan:
    """Return a plan of one side's rows after exchanging the sides of roots at random.

    Rows of the second side follow those of the first.
    """
    design, roots = sides.first, sides.roots
    request = sides.request
    rows = len(roots)
    root_count = int(roots.max()) + 1

    def layout(first: int, last: int) -> Layout:
        seeds = [[request.seed, EXCHANGE_STREAM, number] for number in range(first, last)]
        exchanged = np.stack([np.random.default_rng(seed).integers(2, size=root_count) for seed in seeds])
        place = np.arange(rows) + rows * (exchanged[:, roots] ^ side)
        return [place[:, design.codes == group] for group in range(design.groups)]

    return LayoutPlan(request.resamples, layout)


def _contrasts(sides: _Sides, columns: DataFrame, groups: list[str]) -> list[DataFrame]:
    """Compute differences of each statistic, by group and for each comparison of groups."""
    request = sides.request
    tables = _tables(sides)
    rows = rows_with_value(sides.first.values + sides.second.values, sides.first)
    axes = cross(
        DataFrame({"statistic": list(request.statistics)}),
        columns.select("generation", "feature", "calibrated"),
    )
    of_groups = cross(axes, DataFrame({"group": groups}))
    # The largest difference of a share is 1.
    reaches = [1.0 if statistic.share else np.inf for statistic in request.statistics.values()]
    reach = np.array(reaches)[:, None, None]
    gaps = _gaps(tables)
    difference = _paired(gaps, rows, reach, request.level)
    from_others = _Gaps(*(minus_others(gap, rows) for gap in gaps))
    difference_from_others = _paired(from_others, rows, 2 * reach, request.level)
    of_others = _with_numbers(of_groups, from_others.observed, difference_from_others, rows)
    of_others = of_others.filter(IS_OF_KEY).with_columns(comparison=lit(MINUS_OTHERS))
    roots = np.asarray(sides.roots.max() + 1)
    return [
        _with_numbers(of_groups, gaps.observed, difference, rows),
        of_others,
        *_compared(tables, axes, rows, roots, reach, request),
    ]


def _gaps(tables: _SideTables) -> _Gaps:
    """Subtract the first side from the second."""
    return _Gaps(*(second - first for first, second in tables[:3]))


def _paired(gaps: _Gaps, units: Index, reach: Floats, level: float) -> PairedDifference:
    return paired_difference(
        gaps.observed[..., 0], gaps.resampled, gaps.exchanged, units=units, reach=reach, level=level
    )


def _compared(
    tables: _SideTables,
    axes: DataFrame,
    rows: Index,
    roots: Index,
    reach: Floats,
    request: SummaryRequest,
) -> list[DataFrame]:
    """Compute the differences of the comparisons COMPARED."""
    excluded = left_out(rows, request.formulas)[..., None]
    included = [np.where(excluded, np.nan, table) for table in tables]
    spreads = [GroupValues(np.moveaxis(table, -2, -1), request.formulas) for table in included]
    differences = []
    for name in COMPARED:
        comparison = COMPARISONS[name]
        compared = _SideTables(*(comparison.compute(spread)[..., None, :] for spread in spreads))
        gaps = _gaps(compared)
        bound = _reach_of_comparison(name, reach)
        if comparison.none is None:
            difference, method = _paired(gaps, roots, bound, request.level), None
        else:
            difference = _lifted(comparison, compared, bound, request.level)
            method = LIFTED_METHOD
        numbers = _with_numbers(axes, gaps.observed, difference, roots)
        differences.append(numbers.with_columns(comparison=lit(name), how=lit(method)))
    return differences


def _reach_of_comparison(name: str, reach: Floats) -> Floats:
    """Return the largest possible difference of a comparison; infinite if unknown."""
    if name == "range":
        return reach
    return np.asarray(1.0 if name == "ratio" else np.inf)


def _lifted(
    comparison: DisparityMeasure, compared: _SideTables, bound: Floats, level: float
) -> PairedDifference:
    """Compare two distances with upward bias, or two ratios with downward bias.

    The corrected intervals of both sides are compared, and the sides are exchanged.
    """
    assert comparison.none is not None
    sign, equal = comparison.extreme, comparison.none
    distances = _SideTables(*(sign * (values - equal) for values in compared))
    observed = distances.observed[..., 0]
    low, high = lifted_interval(observed, distances.resampled, distances.permuted, level)
    estimates, lows, highs = np.moveaxis(np.stack([observed, low, high]), 1, -1)
    independent = independent_difference(estimates, lows, highs, level)
    gap = observed[1] - observed[0]
    exchanged = distances.exchanged[1] - distances.exchanged[0]
    difference = exchange_difference(gap, independent, gap, exchanged, level)
    low, high = np.maximum(difference.low, -bound), np.minimum(difference.high, bound)
    if sign > 0:
        return PairedDifference(low, high, difference.p)
    return PairedDifference(-high, -low, difference.p)


def _with_numbers(axes: DataFrame, gaps: Floats, difference: PairedDifference, n: Index) -> DataFrame:
    """Add the numbers to the axes (one row for each statistic, column and group).

    `gaps` has shape (S, C, G, 1).
    """
    numbers = {
        "difference": gaps[..., 0],
        **difference._asdict(),
        "n": np.broadcast_to(n, gaps.shape[:-1]),
    }
    return axes.with_columns(Series(name, values.ravel()) for name, values in numbers.items())
