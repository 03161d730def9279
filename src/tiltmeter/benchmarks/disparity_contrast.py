"""Comparison of two models on the same prompts of a benchmark: statistics of groups, and disparities between groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Series, col, lit, when

from tiltmeter import stats
from tiltmeter.arrays import Floats, Index
from tiltmeter.benchmarks.definitions import BASELINES, options_of
from tiltmeter.benchmarks.findings import (
    COMPARED,
    DEFINITIONS,
    IS_OF_KEY,
    MINUS_OTHERS,
    SELECTION_RATE,
    SummaryOptions,
    cross,
    find_statistics,
    kinds_of,
    wide_of,
)
from tiltmeter.benchmarks.summaries import (
    TABLE_CELLS,
    Design,
    Layout,
    LayoutPlan,
    SummaryRequest,
    as_observed,
    bootstrap,
    design_of,
    left_out,
    minus_others,
    permutation,
    ranks,
    rows_with_value,
    summaries,
)
from tiltmeter.schema import CONTRASTS, beside, conform
from tiltmeter.stats import COMPARISONS, lifted_interval
from tiltmeter.study import Settings

HOW = "paired bootstrap of {}, t interval; p also by exchanging the sides of roots"
LIFTED = "intervals of both sides, each corrected for the upward bias of a distance between groups; p by exchanging the sides of roots"
TABLES = 8
"""Tables of statistics held in memory at once."""


class _Pair(NamedTuple):
    """Both sides as arrays with the same rows and columns."""

    sides: Sequence[Design]
    roots: Index
    request: SummaryRequest


def _exchange(pair: _Pair, side: int) -> LayoutPlan:
    """Return a plan of one side's rows after exchanging the sides of roots at random.

    Rows of the second side follow those of the first.
    """
    (design, _), roots, request = pair

    def layout(first: int, last: int) -> Layout:
        draws = (np.random.default_rng([request.seed, 3, number]) for number in range(first, last))
        other = np.stack([draw.integers(2, size=int(roots.max()) + 1) for draw in draws])
        place = np.arange(len(roots)) + len(roots) * (other[:, roots] ^ side)
        return [place[:, design.codes == group] for group in range(design.groups)]

    return LayoutPlan(request.resamples, layout)


def contrast_of(first: DataFrame, second: DataFrame, settings: Settings) -> DataFrame | None:
    """Compute CONTRASTS of the features, generations and prompts that both sides share; None if fewer than two groups or roots are left.

    Both sides use the same resamples of roots. A range over groups is biased upwards, and so is its
    bootstrap; differences of ranges are therefore tested by exchanging the two sides within roots, which have
    the same bias.
    """
    wide = [
        wide_of(side)
        for side in _same_generations([measures.rename({"subject": "group"}) for measures in (first, second)])
    ]
    columns = wide[0].columns.join(wide[1].columns, on="column", how="semi", maintain_order="left")
    columns = columns.filter(col.generation != BASELINES)
    keys = ["prompt_key", "group", "root"]
    rows = wide[0].table.join(wide[1].table, on=keys, how="semi", maintain_order="left").select(keys)
    if columns.is_empty() or rows["group"].n_unique() < 2 or rows["root"].n_unique() < 2:
        return None
    tables = [beside(rows, one.table, *keys) for one in wide]
    groups, roots = rows["group"].unique().sort().to_list(), ranks(rows["root"])
    unit, baselines = wide[0].unit, wide[0].baselines
    statistics = find_statistics(options_of(settings).statistics)
    drawn = settings.resamples
    definition = DEFINITIONS[settings.definition]
    kinds = kinds_of(columns, definition)
    request = SummaryRequest(
        statistics, SummaryOptions(), definition.formulas, settings.level, drawn, drawn, settings.seed
    )
    widest = max(1, TABLE_CELLS // (TABLES * drawn * len(groups) * len(statistics)))
    made = []
    for chosen in columns.iter_slices(widest):
        sides = [
            design_of(table, chosen["column"].to_list(), baselines, ranks(rows["group"]), unit, kinds)
            for table in tables
        ]
        with np.errstate(all="ignore"):
            made += _contrasts(_Pair(sides, roots, request), chosen, groups)
    units = "roots with all their branches" if unit else "prompts within each group"
    several = wide[0].columns["generation"].n_unique() > 1
    found = pl.concat(made, how="diagonal")
    if definition.decision_rates:
        found = found.remove(
            "calibrated",
            col.feature.is_in(columns.filter("decision")["feature"].to_list()),
            statistic=SELECTION_RATE,
        )
    found = found.with_columns(
        metric=when(col.comparison.is_null()).then(lit("value")).otherwise(lit("disparity")),
        context=when(lit(several)).then("generation"),
        paired=lit(value=True),
        how=col.how.fill_null(HOW.format(units)),
    )
    return (
        conform(found, CONTRASTS)
        .with_columns(col(Float64).fill_nan(None))
        .filter(col.difference.is_not_null())
    )


def _same_generations(sides: list[DataFrame]) -> list[DataFrame]:
    """Name generations by role only, if the sides have no generation in common because they used different templates."""
    named = [set(side["generation"].unique()) for side in sides]
    if named[0] & named[1]:
        return sides
    return [side.with_columns(generation="role") for side in sides]


def _tables(pair: _Pair) -> tuple[Floats, Floats, Floats, Floats]:
    """Compute the observed, resampled, exchanged and label-permuted statistics of both sides, shape (2, S, C, G, R)."""
    first, second = pair.sides
    request = pair.request
    limits = [stats.standards(side.values, request.options, request.formulas) for side in pair.sides]
    both = first._replace(
        values=np.concatenate([first.values, second.values], axis=1),
        baselines=np.concatenate([first.baselines, second.baselines], axis=1),
    )

    def twice(plan: LayoutPlan) -> Floats:
        return np.stack(
            [summaries(side, request, plan, limit) for side, limit in zip(pair.sides, limits, strict=True)]
        )

    return (
        twice(as_observed(first)),
        twice(bootstrap(first, request.resamples, request.seed)),
        np.stack(
            [summaries(both, request, _exchange(pair, side), limit) for side, limit in enumerate(limits)]
        ),
        twice(permutation(first, request.permutations, request.seed)),
    )


def _contrasts(pair: _Pair, columns: DataFrame, names: list[str]) -> list[DataFrame]:
    """Compute differences of each statistic, by group and for each comparison of groups."""
    level, formulas, statistics = pair.request.level, pair.request.formulas, pair.request.statistics
    tables = _tables(pair)
    held = rows_with_value(pair.sides[0].values + pair.sides[1].values, pair.sides[0])
    shares = np.array([1.0 if one.share else np.inf for one in statistics.values()])[:, None, None]
    axes = cross(
        DataFrame({"statistic": list(statistics)}), columns.select("generation", "feature", "calibrated")
    )
    of_groups = cross(axes, DataFrame({"group": names}))

    def paired(gaps: list[Floats], units: Index, reach: Floats) -> stats.PairedDifference:
        observed, resampled, exchanged = gaps
        return stats.paired_difference(
            observed[..., 0], resampled, exchanged, units=units, reach=reach, level=level
        )

    gaps = [after - before for before, after in tables[:3]]
    made = [_with_numbers(of_groups, gaps[0], paired(gaps, held, shares), held)]
    apart = [minus_others(gap, held) for gap in gaps]
    compared = _with_numbers(of_groups, apart[0], paired(apart, held, 2 * shares), held)
    made.append(compared.filter(IS_OF_KEY).with_columns(comparison=lit(MINUS_OTHERS)))
    excluded = left_out(held, formulas)[..., None]
    spreads = [
        stats.GroupValues(np.moveaxis(np.where(excluded, np.nan, table), -2, -1), formulas)
        for table in tables
    ]
    roots = np.asarray(pair.roots.max() + 1)
    for comparison in COMPARED:
        entry = COMPARISONS[comparison]
        values = [entry.compute(spread)[..., None, :] for spread in spreads]
        gaps = [after - before for before, after in values[:3]]
        reach = np.asarray({"ratio": 1.0, "range": shares}.get(comparison, np.inf))
        if entry.none is None:
            found, how = paired(gaps, roots, reach), None
        else:
            found, how = (
                _lifted(
                    entry.extreme, [entry.extreme * (value - entry.none) for value in values], reach, level
                ),
                LIFTED,
            )
        made.append(
            _with_numbers(axes, gaps[0], found, roots).with_columns(comparison=lit(comparison), how=lit(how))
        )
    return made


def _lifted(sign: int, values: list[Floats], bound: Floats, level: float) -> stats.PairedDifference:
    """Compare two distances with upward bias (`sign` -1: downward bias) by their corrected intervals and by exchanging the sides."""
    observed, drawn, exchanged, permuted = values
    observed = observed[..., 0]
    estimates, lows, highs = (
        np.moveaxis(part, 0, -1) for part in (observed, *lifted_interval(observed, drawn, permuted, level))
    )
    gap = observed[1] - observed[0]
    found = stats.exchange_difference(
        gap,
        stats.independent_difference(estimates, lows, highs, level),
        gap,
        exchanged[1] - exchanged[0],
        level,
    )
    low, high = np.maximum(found.low, -bound), np.minimum(found.high, bound)
    return (
        stats.PairedDifference(low, high, found.p)
        if sign > 0
        else stats.PairedDifference(-high, -low, found.p)
    )


def _with_numbers(axes: DataFrame, gaps: Floats, found: stats.PairedDifference, n: Index) -> DataFrame:
    """Add the numbers to the axes (one row for each statistic, column and group).

    `gaps` has shape (S, C, G, 1).
    """
    numbers = {"difference": gaps[..., 0], **found._asdict(), "n": np.broadcast_to(n, gaps.shape[:-1])}
    return axes.with_columns(**{name: Series(values.ravel()) for name, values in numbers.items()})
