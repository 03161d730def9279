"""Statistics of groups and comparisons of groups, for the data and for resamples.

A layout is a list with an (R, n_g) array of row numbers for each group; the number N, one past the last row, means "no row". Each
resample has its own random generator, so that it does not depend on which other resamples are drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Series, col

from tiltmeter.arrays import Floats, Index
from tiltmeter.stats import (
    COMPARISONS,
    DEFAULT_FORMULAS,
    DisparityMeasure,
    Formulas,
    GroupValues,
    Sample,
    Statistic,
    SummaryOptions,
    column_quantiles,
    excess_p,
    lifted_interval,
    order_codes,
    standards,
)
from tiltmeter.study import Definition

Layout = list[Index]
FEWEST_UNITS = 5  # units with rarer sets of groups are pooled for resampling
BLOCK_CELLS = 128_000  # values in a block of groups and resamples: 1 MB, which fits in the cache and keeps call overhead small
TABLE_CELLS = 24_000_000  # values of all statistics, groups and resamples in a chunk of columns: 192 MB
ALONE_CELLS = 4_000_000  # total number of values drawn, below which a single thread is faster


@dataclass(frozen=True, slots=True)
class DisparityDefinition(Definition):
    """Definition with the formulas of statistics and comparisons: the default ones, or those of the package `sagedbias`."""

    formulas: Formulas = DEFAULT_FORMULAS


def _random_numbers(seed: list[int], first: int, last: int, count: int) -> Floats:
    """Draw (R, count) numbers from 0 to 1 for the resamples `first` to `last` - 1."""
    return np.stack([np.random.default_rng([*seed, number]).random(count) for number in range(first, last)])


class LayoutPlan(NamedTuple):
    """A plan of `size` layouts, each an assignment of rows to groups."""

    size: int
    layout: Callable[[int, int], Layout]
    """Function from a first and a last number (exclusive) to the layouts with these numbers."""
    gaps: bool = False
    """Whether layouts may contain the number N for "no row"."""


def as_observed(design: Design) -> LayoutPlan:
    """Return the plan with a single layout, the observed data."""
    rows = [np.nonzero(design.codes == group)[0][None, :] for group in range(design.groups)]
    return LayoutPlan(1, lambda first, last: rows)


def together(plan: LayoutPlan) -> LayoutPlan:
    """Return a plan that merges the groups of another plan into one group."""
    return LayoutPlan(plan.size, lambda first, last: [np.concatenate(plan.layout(first, last), axis=1)], plan.gaps)


def permutation(design: Design, size: int, seed: int) -> LayoutPlan:
    """Return a plan that permutes group labels among the rows of each unit, or among all rows if there are no units."""
    units = np.zeros_like(design.codes) if design.units is None else design.units
    order = np.argsort(units, kind="stable")
    places = [np.nonzero(design.codes[order] == group)[0] for group in range(design.groups)]

    def layout(first: int, last: int) -> Layout:
        # The integer part keeps the units in order; the random fraction shuffles the rows within a unit.
        rows = order[np.argsort(units[order] + _random_numbers([seed, 1], first, last, len(order)))]
        return [rows[:, of_group] for of_group in places]

    return LayoutPlan(size, layout)


def bootstrap(design: Design, size: int, seed: int) -> LayoutPlan:
    """Return a plan of stratified bootstrap resamples of units, or of rows within groups if there are no units.

    Units with the same set of groups form a stratum: a single stratum in a complete design, and one stratum per group if each unit has a
    single group. Units with rare sets are pooled into one stratum. A drawn unit contributes all its rows, which preserves pairing.
    """
    if not size:
        return LayoutPlan(0, lambda first, last: [])
    units = np.arange(len(design.codes)) if design.units is None else design.units
    strata = _strata(design.codes, design.groups, units)
    order = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata)
    begins, lengths = (np.repeat(of_stratum, sizes) for of_stratum in (np.cumsum(sizes) - sizes, sizes))
    number = DataFrame({"unit": units, "group": design.codes}).select(pl.int_range(pl.len()).over("unit", "group")).to_series().to_numpy()
    tables = [_rows_of_units(np.nonzero(design.codes == group)[0], number, units, strata, order) for group in range(design.groups)]

    def layout(first: int, last: int) -> Layout:
        shares = _random_numbers([seed, 2], first, last, len(order))
        drawn = order[begins + (shares * lengths).astype(np.intp)]
        return [table[drawn[:, draws]].reshape(len(drawn), -1) for draws, table in tables]

    return LayoutPlan(size, layout, gaps=True)


def _rows_of_units(rows: Index, number: Index, units: Index, strata: Index, order: Index) -> tuple[Index, Index]:
    """Return the draws that may yield a row of a group, and the rows of each unit in the group, shape (units, most rows of a unit)."""
    table = np.full((len(strata), number[rows].max() + 1), len(units), dtype=np.intp)
    table[units[rows], number[rows]] = rows
    return np.nonzero(np.isin(strata[order], strata[units[rows]]))[0], table


def _strata(codes: Index, groups: int, units: Index) -> Index:
    """Return the number of the stratum of each unit, shape (U,)."""
    unit, group = np.unique(np.stack([units, codes], axis=1), axis=0).T
    # The sum of one random number per group identifies a set of groups.
    names = np.random.default_rng(0).integers(1 << 40, size=groups)
    sets = np.zeros(int(units.max()) + 1, dtype=np.int64)
    np.add.at(sets, unit, names[group])
    _, pattern, sizes = np.unique(sets, return_inverse=True, return_counts=True)
    alone = np.bincount(unit, minlength=len(sets)) == 1
    rare = (sizes[pattern] < FEWEST_UNITS) & ~alone
    found: Index = np.where(rare, len(sizes), pattern)
    return np.unique(found, return_inverse=True)[1]


class Design(NamedTuple):
    """The measurements as arrays.

    (C, N) values, (B, N) baselines, (C,) row of each column's baseline (-1: none), and (N,) codes of groups and of units.
    """

    values: Floats
    baselines: Floats
    baseline_of: Index
    codes: Index
    groups: int
    units: Index | None


def design_of(table: DataFrame, columns: Sequence[str], baselines: Mapping[str, str], codes: Index, unit: str | None) -> Design:
    """Build the design from columns of a table and their baselines; `unit` is the name of a column or None."""
    shared = list(dict.fromkeys(baselines[column] for column in columns if column in baselines))
    return Design(
        values=_matrix(table, columns),
        baselines=_matrix(table, shared),
        baseline_of=np.array([shared.index(baselines[column]) if column in baselines else -1 for column in columns]),
        codes=codes,
        groups=int(codes.max()) + 1,
        units=None if unit is None else ranks(table[unit]),
    )


def ranks(names: Series) -> Index:
    """Return the dense rank of each value, from 0."""
    return names.rank("dense").to_numpy().astype(np.intp) - 1


def _matrix(table: DataFrame, columns: Sequence[str]) -> Floats:
    """Return the columns as (C, N) values, NaN where missing or infinite."""
    # Without columns, Polars returns integers; `astype` converts them.
    values: Floats = table.select(col(columns).cast(Float64)).to_numpy().T.astype(np.float64, copy=False)
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, np.nan)


class SummaryRequest(NamedTuple):
    """Statistics to compute, with options, formulas and numbers of draws."""

    statistics: Mapping[str, Statistic]
    options: SummaryOptions
    formulas: Formulas
    level: float
    resamples: int
    permutations: int
    seed: int


class Computed(NamedTuple):
    """Results by statistic and column: shape (S, C, G) for groups and (S, C, K) for comparisons; NaN where undefined.

    `group` is the number of the group concerned by a comparison, -1 for none. `impact` is NaN except for the selection rate.
    """

    estimate: Floats
    low: Floats
    high: Floats
    rows: Index
    compared: Floats
    compared_low: Floats
    compared_high: Floats
    p: Floats
    group: Floats
    z: Floats
    outlier: Floats
    impact: Floats
    impact_low: Floats
    impact_high: Floats


def compute(design: Design, request: SummaryRequest) -> Computed:
    """Compute all results, in parallel over chunks of columns; results do not depend on the chunks."""
    columns, repeats = len(design.values), max(request.resamples, request.permutations, 1)
    workers = 1 if design.values.size * repeats < ALONE_CELLS else _cores()
    widest = max(1, TABLE_CELLS // (repeats * design.groups * len(request.statistics)))
    width = min(widest, -(-columns // workers))
    chunks = [slice(first, first + width) for first in range(0, columns, width)]
    computed = partial(_computed_chunk, design, request)
    if workers == 1:
        found = list(map(computed, chunks))
    else:
        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(computed, chunks))
    return found[0] if len(found) == 1 else Computed(*(np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _computed_chunk(design: Design, request: SummaryRequest, columns: slice) -> Computed:
    chosen = design._replace(values=design.values[columns], baseline_of=design.baseline_of[columns])
    with np.errstate(all="ignore"):
        standard = standards(chosen.values, request.options, request.formulas)
        observed = summaries(chosen, request, as_observed(design), standard)[..., 0]
        drawn = summaries(chosen, request, bootstrap(design, request.resamples, request.seed), standard)
        null = summaries(chosen, request, permutation(design, request.permutations, request.seed), standard)
        rows = np.broadcast_to(rows_with_value(chosen.values, chosen), observed.shape)
        low, high = _group_intervals(observed, drawn, rows, request)
        compared = [_comparisons(*part, request) for part in zip(observed, drawn, null, low, high, strict=True)]
        impacts = np.full((3, *observed.shape), np.nan)
        for s, name in enumerate(request.statistics):
            if name == "selection_rate":
                impacts[:, s] = _impact_ratios(observed[s], drawn[s], null[s], high[s], request)
    return Computed(observed, low, high, rows, *(np.stack(part) for part in zip(*compared, strict=True)), *impacts)


def rows_with_value(values: Floats, design: Design) -> Index:
    """Count the values of each column (C, N) in each group, shape (C, G)."""
    present = ~np.isnan(values)
    return np.stack([present[:, design.codes == group].sum(axis=1) for group in range(design.groups)], axis=-1)


def summaries(design: Design, request: SummaryRequest, plan: LayoutPlan, standard: Floats) -> Floats:
    """Compute all statistics under a plan of R layouts, shape (S, C, G, R); NaN where undefined.

    `standard` (C,) is the standard of the selection rate.
    """
    columns, rows = design.values.shape
    table = np.full((len(request.statistics), columns, design.groups, plan.size), np.nan)
    if not plan.size:
        return table
    paired, values, baselines = design.baseline_of >= 0, design.values, design.baselines
    if plan.gaps:
        values, baselines = (np.pad(part, ((0, 0), (0, 1)), constant_values=np.nan) for part in (values, baselines))
    block = max(1, BLOCK_CELLS * design.groups // max(1, rows * columns))
    for ranked in (False, True):
        known = [(found, one) for found, one in zip(table, request.statistics.values(), strict=True) if one.ranked == ranked]
        if ranked and known:
            values, baselines = order_codes(values), order_codes(baselines)
        for first in range(0, plan.size if known else 0, block):
            last = min(first + block, plan.size)
            for groups, index in _group_batches(plan.layout(first, last), columns):
                held = standard[:, None, None, None]
                sample = Sample(np.take(values, index, axis=1), None, held, request.options, request.formulas)
                needs_baselines = paired.any() and any(one.paired for _, one in known)
                both = sample.paired_with(np.take(baselines, index, axis=1), design.baseline_of) if needs_baselines else None
                for found, one in known:
                    if not one.paired:
                        found[:, groups, first:last] = one.compute(sample)
                    elif both is not None:
                        found[paired, groups, first:last] = one.compute(both)
    return table


def _group_batches(layout: Layout, columns: int) -> Iterator[tuple[slice, Index]]:
    """Yield batches of neighbouring groups of equal size, (groups, R, n) row numbers, as many as fit in a block."""
    first = 0
    while first < len(layout):
        shape = layout[first].shape
        most = max(1, BLOCK_CELLS // max(1, columns * layout[first].size))
        last = first + 1
        while last < min(first + most, len(layout)) and layout[last].shape == shape:
            last += 1
        yield slice(first, last), np.stack(layout[first:last])
        first = last


def _group_intervals(observed: Floats, drawn: Floats, rows: Index, request: SummaryRequest) -> tuple[Floats, Floats]:
    """Compute bootstrap percentile intervals of all statistics, shape (S, C, G); NaN for groups with a single row.

    Where all resamples of a share agree, the interval is the exact bound (see `stats.rare_event_interval`).
    """
    low, _, high = column_quantiles(drawn, request.level)
    slack = 1.0 - ((1.0 - request.level) / 2.0) ** (1.0 / np.maximum(rows, 1))
    shares = np.array([one.share for one in request.statistics.values()])[:, None, None]
    agreed = shares & (low == high)
    low, high = np.where(agreed, np.maximum(0.0, observed - slack), low), np.where(agreed, np.minimum(1.0, observed + slack), high)
    unknown = np.isnan(observed) | (rows < 2)
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def _comparisons(
    observed: Floats, drawn: Floats, null: Floats, group_low: Floats, group_high: Floats, request: SummaryRequest
) -> tuple[Floats, ...]:
    """Compute all comparisons of one statistic: (C, K) estimate, low, high, p and group; (C, G) z and outlier."""
    here = GroupValues(observed, request.formulas)
    there, permuted = (GroupValues(np.moveaxis(part, -2, -1), request.formulas) for part in (drawn, null))
    groups = _groups_of(here)
    results = []
    for comparison in COMPARISONS.values():
        raw = comparison.compute(here)
        # Do not compute comparisons of empty arrays.
        none = np.empty((*raw.shape, 0))
        samples, relabelled = (comparison.compute(part) if part.values.size else none for part in (there, permuted))
        unknown = np.isnan(raw)
        group = np.where(unknown, -1, groups.get(comparison.group, -1))
        p = excess_p(raw, relabelled, comparison.extreme) if comparison.extreme and relabelled.size else np.full(raw.shape, np.nan)
        if not samples.size:
            low = high = np.full(raw.shape, np.nan)
        elif comparison.none is not None:
            low, high = _lifted_ends(comparison, raw, samples, relabelled, request.level)
        elif comparison.group in ("max", "min") and not comparison.extreme:
            # The interval of the group that is observed as largest or smallest; in resamples, it may be another group.
            low, high = (np.take_along_axis(side, np.maximum(group, 0)[:, None], axis=1)[:, 0] for side in (group_low, group_high))
        else:
            low, _, high = column_quantiles(samples, request.level)
        results.append((raw, np.where(unknown, np.nan, low), np.where(unknown, np.nan, high), p, group.astype(np.float64)))
    test = here.dixon
    outlier = np.where(observed == here.max[:, None], test.high[:, None], np.where(observed == here.min[:, None], test.low[:, None], 0.0))
    outlier = np.where(np.isnan(observed) | np.isnan(test.critical)[:, None], np.nan, outlier > test.critical[:, None])
    return (*(np.stack(part, axis=-1) for part in zip(*results, strict=True)), here.z, outlier)


def _lifted_ends(comparison: DisparityMeasure, raw: Floats, samples: Floats, relabelled: Floats, level: float) -> tuple[Floats, Floats]:
    """Compute the corrected interval of a distance, which is biased upwards, or of a ratio, which is biased downwards."""
    assert comparison.none is not None
    sign, none = comparison.extreme, comparison.none
    low, high = lifted_interval(sign * (raw - none), sign * (samples - none), sign * (relabelled - none), level)
    return (low, high) if sign > 0 else (np.maximum(none - high, 0.0), none - low)


def _groups_of(here: GroupValues) -> dict[str, Index]:
    """Return the numbers (C,) of the groups with the smallest and the largest value, the largest |z|, and the larger Dixon ratio."""
    low = np.argmin(np.where(np.isnan(here.values), np.inf, here.values), axis=-1)
    high = np.argmax(np.where(np.isnan(here.values), -np.inf, here.values), axis=-1)
    far = np.argmax(np.where(np.isnan(here.z), -1.0, np.abs(here.z)), axis=-1)
    return {"min": low, "max": high, "z": far, "end": np.where(here.dixon.low > here.dixon.high, low, high)}


def _impact_ratios(observed: Floats, drawn: Floats, null: Floats, group_high: Floats, request: SummaryRequest) -> Floats:
    """Compute the impact ratio of each group (its rate divided by the largest rate) and its interval, shape (3, C, G).

    The largest of several rates is biased upwards, so plain intervals would flag too many groups. The upper end is 1 unless relabelling
    rarely gives such a small ratio in any group. Otherwise it is the bootstrap interval of the ratio to the group with the largest
    *observed* rate, adjusted for simultaneous coverage of all groups (Bonferroni), and at least the exact upper bound of the group's rate
    divided by the largest rate.
    """
    greatest = np.fmax.reduce(observed, axis=-1)[:, None]
    impact = np.where(greatest > 0, observed / greatest, np.nan)
    top = np.argmax(np.where(np.isnan(observed), -np.inf, observed), axis=-1)
    over = np.take_along_axis(drawn, top[:, None, None], axis=1)
    ratios = np.where(over > 0, drawn / over, np.nan)
    alpha = (1.0 - request.level) / max(1, observed.shape[-1] - 1)
    low, _, _ = column_quantiles(ratios, request.level)
    _, _, high = column_quantiles(ratios, 1.0 - 2.0 * alpha)
    smallest = np.fmin.reduce(null / np.fmax.reduce(null, axis=1)[:, None], axis=1)
    p = excess_p(impact, np.broadcast_to(smallest[:, None], (*impact.shape, smallest.shape[-1])), -1)
    high = np.where(p < 1.0 - request.level, np.minimum(1.0, np.maximum(high, group_high / greatest)), 1.0)
    unknown = np.isnan(p) | np.isnan(group_high)
    return np.stack([impact, np.where(unknown, np.nan, np.minimum(low, impact)), np.where(unknown, np.nan, np.maximum(high, impact))])
