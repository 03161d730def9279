"""Statistics of groups and comparisons of groups, for the data and for resamples.

A layout is a list with an (R, n_g) array of row numbers for each group; the number N, one past the last row,
means "no row". Each resample has its own random generator, so that it does not depend on which other
resamples are drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Series, col, when

from tiltmeter.arrays import Booleans, Floats, Index
from tiltmeter.stats import (
    COMPARISONS,
    DEFAULT_FORMULAS,
    STATISTICS,
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
    paired_difference,
    standards,
    studentise,
    welch_p,
)
from tiltmeter.stats.arithmetic import CONSTANT, ROUNDING, mean_present, ratio
from tiltmeter.stats.intervals import critical_values
from tiltmeter.study import Definition

Layout = list[Index]
FEWEST_UNITS = 5  # units with rarer sets of groups are pooled for resampling
FEWEST_VALUES = 5
"""Smallest number of values of a group for which the default definition gives an interval or a test of the
group."""
BLOCK_CELLS = 128_000  # values of an average group in a block of resamples: 1 MB, which fits in the cache and keeps call overhead small
TABLE_CELLS = 24_000_000  # values of all statistics, groups and resamples in a chunk of columns: 192 MB
ALONE_CELLS = 4_000_000  # total number of values drawn, below which a single thread is faster


@dataclass(frozen=True, slots=True)
class DisparityDefinition(Definition):
    """Definition with the formulas of statistics and comparisons: the default ones, or those of the package `sagedbias`."""

    formulas: Formulas = DEFAULT_FORMULAS
    names_replaced: bool = True
    """Whether calibration replaces the names of the groups before it subtracts the value of the baseline."""
    calibrated_keys: bool = True
    """Whether the key numbers are calibrated where there is a baseline, and form a family of q-values of
    their own."""
    decision_rates: bool = True
    """Whether the selection rate of decisions is their mean, which is never calibrated; otherwise it is that
    of the other features."""


def _random_numbers(seed: list[int], first: int, last: int, count: int) -> Floats:
    """Draw (R, count) numbers from 0 to 1 for the resamples `first` to `last` - 1."""
    return np.stack([np.random.default_rng([*seed, number]).random(count) for number in range(first, last)])


class LayoutPlan(NamedTuple):
    """A plan of `size` layouts, each an assignment of rows to groups."""

    size: int
    layout: Callable[[int, int], Layout]
    """Function from a first and a last number (exclusive) to the layouts with these numbers."""


def as_observed(design: Design) -> LayoutPlan:
    """Return the plan with a single layout, the observed data."""
    rows = [np.flatnonzero(design.codes == group)[None, :] for group in range(design.groups)]
    return LayoutPlan(1, lambda first, last: rows)


def together(plan: LayoutPlan) -> LayoutPlan:
    """Return a plan that merges the groups of another plan into one group."""
    return LayoutPlan(plan.size, lambda first, last: [np.concatenate(plan.layout(first, last), axis=1)])


def permutation(design: Design, size: int, seed: int) -> LayoutPlan:
    """Return a plan that permutes group labels among the rows of each unit, or among all rows if there are no units."""
    units = np.zeros_like(design.codes) if design.units is None else design.units
    order = np.argsort(units, kind="stable")
    places = [np.flatnonzero(design.codes[order] == group) for group in range(design.groups)]

    def layout(first: int, last: int) -> Layout:
        # The integer part keeps the units in order; the random fraction shuffles the rows within a unit.
        rows = order[np.argsort(units[order] + _random_numbers([seed, 1], first, last, len(order)))]
        return [rows[:, of_group] for of_group in places]

    return LayoutPlan(size, layout)


def bootstrap(design: Design, size: int, seed: int) -> LayoutPlan:
    """Return a plan of stratified bootstrap resamples of units, or of rows within groups if there are no units.

    Units with the same set of groups form a stratum: a single stratum in a complete design, and one stratum
    per group if each unit has a single group. Units with rare sets are pooled into one stratum. A drawn unit
    contributes all its rows, which preserves pairing.
    """
    units = np.arange(len(design.codes)) if design.units is None else design.units
    strata = _strata(design.codes, design.groups, units)
    order = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata)
    begins, lengths = (np.repeat(of_stratum, sizes) for of_stratum in (np.cumsum(sizes) - sizes, sizes))
    number = (
        DataFrame({"unit": units, "group": design.codes})
        .select(pl.int_range(pl.len()).over("unit", "group"))
        .to_series()
        .to_numpy()
    )
    tables = [
        _rows_of_units(np.flatnonzero(design.codes == group), number, units, strata, order)
        for group in range(design.groups)
    ]

    def layout(first: int, last: int) -> Layout:
        shares = _random_numbers([seed, 2], first, last, len(order))
        drawn = order[begins + (shares * lengths).astype(np.intp)]
        return [table[drawn[:, draws]].reshape(len(drawn), -1) for draws, table in tables]

    return LayoutPlan(size, layout)


def _rows_of_units(
    rows: Index, number: Index, units: Index, strata: Index, order: Index
) -> tuple[Index, Index]:
    """Return the draws that may yield a row of a group, and the rows of each unit in the group, shape (units, most rows of a unit)."""
    table = np.full((len(strata), number[rows].max() + 1), len(units), dtype=np.intp)
    table[units[rows], number[rows]] = rows
    return np.flatnonzero(np.isin(strata[order], strata[units[rows]])), table


def _strata(codes: Index, groups: int, units: Index) -> Index:
    """Return the number of the stratum of each unit, shape (U,)."""
    has_group = np.zeros((int(units.max()) + 1, groups), dtype=bool)
    has_group[units, codes] = True
    # The sum of one random number per group identifies a set of groups.
    sets = has_group @ np.random.default_rng(0).integers(1 << 40, size=groups)
    _, pattern, sizes = np.unique(sets, return_inverse=True, return_counts=True)
    rare = (sizes[pattern] < FEWEST_UNITS) & (has_group.sum(axis=1) > 1)
    found: Index = np.where(rare, len(sizes), pattern)
    return np.unique(found, return_inverse=True)[1]


class Design(NamedTuple):
    """The measurements as arrays.

    (C, N) values, (B, N) baselines, (C,) row of each column's baseline (-1: none), and (N,) codes of groups
    and of units. `decisions` (C,) tells whether the values of a column are shares of positive decisions, and
    `bounds` (2, C) has their smallest and largest possible value.
    """

    values: Floats
    baselines: Floats
    baseline_of: Index
    codes: Index
    groups: int
    units: Index | None
    decisions: Booleans
    bounds: Floats

    def select(self, columns: slice) -> Design:
        """Return the design with these columns only."""
        return self._replace(
            values=self.values[columns],
            baseline_of=self.baseline_of[columns],
            decisions=self.decisions[columns],
            bounds=self.bounds[:, columns],
        )


class ColumnKinds(NamedTuple):
    """What is known about the values of columns."""

    decisions: Collection[str] = ()
    """Columns whose values are shares of positive decisions."""
    bounds: Mapping[str, tuple[float, float]] = MappingProxyType({})
    """Column -> its smallest and its largest possible value. Without an entry, they are the observed ones."""


NO_KINDS = ColumnKinds()


def design_of(
    table: DataFrame,
    columns: Sequence[str],
    baselines: Mapping[str, str],
    codes: Index,
    unit: str | None,
    kinds: ColumnKinds = NO_KINDS,
) -> Design:
    """Build the design from columns of a table and their baselines.

    `unit` is the name of a column or None.
    """
    shared = list(dict.fromkeys(baselines[column] for column in columns if column in baselines))
    values = _matrix(table, columns)
    possible = np.array([kinds.bounds.get(column, (np.nan, np.nan)) for column in columns]).T
    # Values outside a stated range, such as those of a user's own function, widen it.
    low = np.fmin(np.fmin.reduce(values, axis=1), possible[0])
    high = np.fmax(np.fmax.reduce(values, axis=1), possible[1])
    return Design(
        values=values,
        baselines=_matrix(table, shared),
        baseline_of=np.array(
            [shared.index(baselines[column]) if column in baselines else -1 for column in columns]
        ),
        codes=codes,
        groups=int(codes.max()) + 1,
        units=None if unit is None else ranks(table[unit]),
        decisions=np.array([column in kinds.decisions for column in columns]),
        bounds=np.stack([low, high]),
    )


def ranks(names: Series) -> Index:
    """Return the dense rank of each value, from 0."""
    return names.rank("dense").to_numpy().astype(np.intp) - 1


def _matrix(table: DataFrame, columns: Sequence[str]) -> Floats:
    """Return the columns as (C, N) values, NaN where missing or infinite."""
    values = table.select(col(columns).cast(Float64)).to_numpy().T
    return np.where(np.isfinite(values), values, np.nan)


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

    `group` is the number of the group concerned by a comparison, -1 for none. `impact` is NaN except for the
    selection rate. `difference` is that of a group from the others.
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
    difference: Floats
    difference_low: Floats
    difference_high: Floats
    difference_p: Floats


def compute(design: Design, request: SummaryRequest) -> Computed:
    """Compute all results, in parallel over chunks of columns; results do not depend on the chunks."""
    columns, repeats = len(design.values), max(request.resamples, request.permutations, 1)
    workers = 1 if design.values.size * repeats < ALONE_CELLS else _cores()
    widest = max(1, TABLE_CELLS // (repeats * design.groups * len(request.statistics)))
    width = min(widest, -(-columns // workers))
    chunks = [slice(first, first + width) for first in range(0, columns, width)]
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(partial(_computed_chunk, design, request), chunks))
    return Computed(*(np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _computed_chunk(design: Design, request: SummaryRequest, columns: slice) -> Computed:
    chosen = design.select(columns)
    with np.errstate(all="ignore"):
        standard = standards(chosen.values, request.options, request.formulas)
        observed = summaries(chosen, request, as_observed(design), standard)[..., 0]
        drawn = summaries(chosen, request, bootstrap(design, request.resamples, request.seed), standard)
        plan = permutation(design, request.permutations, request.seed)
        null = summaries(chosen, request, plan, standard)
        rows = np.broadcast_to(rows_with_value(chosen.values, chosen), observed.shape)
        reach = reach_of(chosen, request)
        low, high = group_intervals(observed, drawn, rows, reach, request)
        others = _against_others(observed, drawn, null, rows, reach, request)
        excluded = left_out(rows_with_value(chosen.values, chosen), request.formulas)
        if excluded.any():
            chosen = chosen._replace(values=np.where(excluded[:, design.codes], np.nan, chosen.values))
            null = _without(summaries(chosen, request, plan, standard), excluded)
            drawn = _without(drawn, excluded)
        among = np.where(excluded, np.nan, observed)
        tested = _tested(chosen, request, standard, excluded)
        slack = _slack_of_differences(np.where(excluded, 0, rows), reach, request.level)
        parts = zip(among, drawn, null, low, high, strict=True)
        named = zip(request.statistics, parts, slack, strict=True)
        compared = [
            _comparisons(*part, of_statistic, tested.get(name), request) for name, part, of_statistic in named
        ]
        impacts = np.full((3, *observed.shape), np.nan)
        for s, name in enumerate(request.statistics):
            if name == "selection_rate":
                impacts[:, s] = _impact_ratios(among[s], drawn[s], null[s], high[s], request)
    computed = Computed(
        observed,
        low,
        high,
        rows,
        *(np.stack(part) for part in zip(*compared, strict=True)),
        *impacts,
        *others,
    )
    return _without_few_values(computed) if request.formulas.studentised else computed


def left_out(rows: Index, formulas: Formulas) -> Booleans:
    """Return which groups are left out of the comparisons of all groups, from their numbers of values.

    Shape (..., G).

    A comparison of all groups is about groups with at least FEWEST_VALUES values if there are two of them:
    resamples of fewer values vary too little, so that an interval of the range would often miss the true
    range. Otherwise, no group is left out, and there is neither an interval nor a test.
    """
    few = rows < FEWEST_VALUES
    comparable = (~few).sum(axis=-1, keepdims=True) >= 2
    excluded: Booleans = few & comparable & formulas.studentised
    return excluded


def _without(values: Floats, excluded: Booleans) -> Floats:
    """Replace the values (S, C, G, R) of the excluded groups (C, G) by NaN."""
    return np.where(excluded[..., None], np.nan, values)


def _without_few_values(computed: Computed) -> Computed:
    """Remove the intervals and p-values that rest on fewer than FEWEST_VALUES values.

    They are those of a group with fewer values, those of a group whose other groups have fewer values
    together, and those of comparisons of all groups if fewer than two groups have enough values.
    """
    rows = computed.rows
    few = rows < FEWEST_VALUES
    few_others = rows.sum(axis=-1, keepdims=True) - rows < FEWEST_VALUES
    incomparable = (~few).sum(axis=-1, keepdims=True) < 2
    removed = {
        ("impact_low", "impact_high"): few,
        ("difference_low", "difference_high", "difference_p"): few | few_others,
        ("compared_low", "compared_high", "p"): incomparable,
    }
    values = {
        name: np.where(mask, np.nan, getattr(computed, name))
        for names, mask in removed.items()
        for name in names
    }
    return computed._replace(**values)


def rows_with_value(values: Floats, design: Design) -> Index:
    """Count the values of each column (C, N) in each group, shape (C, G)."""
    present = ~np.isnan(values)
    return np.stack(
        [present[:, design.codes == group].sum(axis=1) for group in range(design.groups)], axis=-1
    )


def summaries(design: Design, request: SummaryRequest, plan: LayoutPlan, standard: Floats) -> Floats:
    """Compute all statistics under a plan of R layouts, shape (S, C, G, R); NaN where undefined.

    `standard` (C,) is the standard of the selection rate.
    """
    columns, rows = design.values.shape
    table = np.full((len(request.statistics), columns, design.groups, plan.size), np.nan)
    paired = design.baseline_of >= 0
    # Row N, "no row", has no value.
    values, baselines = (
        np.pad(part, ((0, 0), (0, 1)), constant_values=np.nan) for part in (design.values, design.baselines)
    )
    block = max(1, BLOCK_CELLS * design.groups // max(1, rows * columns))
    for ranked in (False, True):
        known = [
            (found, one)
            for found, one in zip(table, request.statistics.values(), strict=True)
            if one.ranked == ranked
        ]
        if not known:
            continue
        if ranked:
            values, baselines = order_codes(values), order_codes(baselines)
        for first in range(0, plan.size, block):
            last = min(first + block, plan.size)
            for group, index in enumerate(plan.layout(first, last)):
                drawn = np.take(values, index, axis=1)
                sample = Sample(
                    drawn,
                    None,
                    standard[:, None, None],
                    request.options,
                    request.formulas,
                    design.decisions[:, None, None],
                )
                needs_baselines = paired.any() and any(one.paired for _, one in known)
                both = (
                    sample.paired_with(np.take(baselines, index, axis=1), design.baseline_of)
                    if needs_baselines
                    else None
                )
                for found, one in known:
                    if not one.paired:
                        found[:, group, first:last] = one.compute(sample)
                    elif both is not None:
                        found[paired, group, first:last] = one.compute(both)
    return table


def reach_of(design: Design, request: SummaryRequest) -> Floats:
    """Return the smallest and the largest possible value of each statistic, shape (2, S, C, 1).

    Infinite if unbounded.

    Those of a mean are the smallest and the largest possible value of the column.
    """
    ends = design.bounds
    held = {"mean": ends} if request.formulas.studentised else {}
    bounds = (held.get(name, one.bounds or (-np.inf, np.inf)) for name, one in request.statistics.items())
    return np.stack([np.broadcast_arrays(*pair, ends[0])[:2] for pair in bounds], axis=1)[..., None]


def group_intervals(
    observed: Floats, drawn: Floats, rows: Index, reach: Floats, request: SummaryRequest
) -> tuple[Floats, Floats]:
    """Compute bootstrap intervals of all statistics, shape (S, C, G); NaN for groups with too few rows.

    The default definition needs FEWEST_VALUES rows, the other one two.

    Intervals of smooth statistics are t intervals with the bootstrap standard error, those of others are
    percentiles. Where all resamples of a share or a mean agree, the interval is the exact bound (see
    `stats.rare_event_interval`).
    """
    from scipy.special import stdtrit

    low, _, high = column_quantiles(drawn, request.level)
    slack = (1.0 - ((1.0 - request.level) / 2.0) ** (1.0 / np.maximum(rows, 1))) * (reach[1] - reach[0])
    agreed = np.isfinite(slack) & (low == high)
    if request.formulas.studentised:
        smooth = np.array([one.bounds is not None for one in request.statistics.values()])[:, None, None]
        half = stdtrit(rows - 1.0, (1.0 + request.level) / 2.0) * np.sqrt(_squared_errors(drawn, rows))
        low, high = np.where(smooth, (observed - half, observed + half), (low, high))
    low, high = np.where(agreed, (observed - slack, observed + slack), (low, high))
    fewest = FEWEST_VALUES if request.formulas.studentised else 2
    unknown = np.isnan(observed) | (rows < fewest)
    return np.where(unknown, np.nan, np.maximum(low, reach[0])), np.where(
        unknown, np.nan, np.minimum(high, reach[1])
    )


def _squared_errors(drawn: Floats, rows: Index) -> Floats:
    """Compute squared standard errors from resamples (..., R) of n rows, multiplied by n / (n - 1) so that they are unbiased for means."""
    return mean_present((drawn - mean_present(drawn)[..., None]) ** 2) * ratio(rows, rows - 1.0)


LEAST_SPREAD = 0.01
"""Smallest variance of a group in a studentised test, as a share of the variance of all rows: groups of equal
values have none."""


def _error_of_mean(sample: Sample) -> Floats:
    """Compute the squared standard error of the mean, 1 if nothing varies.

    `sample.standard` is the variance of all rows.
    """
    overall = sample.standard[..., 0]
    own = np.where(sample.count > 1, sample.spread * ratio(sample.count, sample.count - 1.0), overall)
    return np.where(overall > 0, np.maximum(own, LEAST_SPREAD * overall) / sample.count, 1.0)


class _Tested(NamedTuple):
    """Studentised values (C, 1 + N, G) of the data and of the permutations, and sum (C,) of the inverse squared standard errors.

    `least_p` (C,) is the p-value of Welch's test, below which that of the permutations must not fall; NaN for
    paired rows.
    """

    values: Floats
    weight: Floats
    least_p: Floats


def _tested(
    design: Design, request: SummaryRequest, standard: Floats, excluded: Booleans
) -> dict[str, _Tested]:
    """Studentise the statistics that are means over rows; groups that are `excluded` (C, G) have no value.

    Permutations assume little about the shape of distributions, but in small groups of very different spreads
    they find differences too often; Welch's test does not. The larger of both p-values is used where rows are
    not paired.
    """
    known = {name: one.terms for name, one in request.statistics.items() if one.terms is not None}
    if not (request.formulas.studentised and request.permutations):
        return {}
    sample = Sample(
        design.values, None, standard[:, None], request.options, request.formulas, design.decisions[:, None]
    )
    asked = request._replace(statistics={"mean": STATISTICS["mean"], "error": Statistic(_error_of_mean)})
    plans = as_observed(design), permutation(design, request.permutations, request.seed)
    made = {}
    for name, terms_of in known.items():
        terms = terms_of(sample)
        centred = terms if design.units is None else _within_units(terms, design.units)
        variance = mean_present((centred - mean_present(centred)[:, None]) ** 2)
        variance[variance <= CONSTANT * mean_present(terms**2)] = 0.0
        tables = [summaries(design._replace(values=centred), asked, plan, variance) for plan in plans]
        means, errors = np.moveaxis(_without(np.concatenate(tables, axis=-1), excluded), -1, -2)
        errors = np.where(np.isnan(means), np.nan, errors)
        values = studentise(means, errors)
        least_p = np.full(len(values), np.nan)
        if design.units is None:
            least_p = welch_p(
                np.nansum(values[:, 0] ** 2, axis=-1), errors[:, 0], rows_with_value(terms, design)
            )
        made[name] = _Tested(values, np.nansum(1.0 / errors[:, 0], axis=-1), least_p)
    return made


def _within_units(terms: Floats, units: Index) -> Floats:
    """Subtract the mean of its unit from each row (C, N).

    Rows alone in their unit, which cannot be permuted, are missing.
    """
    rows = DataFrame(terms.T).fill_nan(None).with_columns(unit=units)
    value = pl.exclude("unit")
    return (
        rows.select(when(value.count().over("unit") > 1).then(value - value.mean().over("unit")))
        .to_numpy()
        .T.astype(np.float64)
    )


def minus_others(values: Floats, rows: Index) -> Floats:
    """Subtract from each group's statistic (..., G, R) the mean of the other groups, weighted by their rows (..., G)."""
    weight = np.where(np.isnan(values), 0.0, rows[..., None])
    weighted = weight * np.nan_to_num(values)
    return values - ratio(*(part.sum(axis=-2, keepdims=True) - part for part in (weighted, weight)))


def _against_others(
    observed: Floats, drawn: Floats, null: Floats, rows: Index, reach: Floats, request: SummaryRequest
) -> Floats:
    """Compute the difference of each group from the mean of the others, weighted by rows, with interval and p, shape (4, S, C, G).

    The degrees of freedom are those of the group, or of the others if they have fewer rows.
    """
    if not request.formulas.studentised:
        return np.full((4, *observed.shape), np.nan)
    difference, samples, exchanged = (
        minus_others(values, rows) for values in (observed[..., None], drawn, null)
    )
    # As in `_squared_errors`.
    samples = difference + (samples - difference) * np.sqrt(ratio(rows, rows - 1.0))[..., None]
    units = np.minimum(rows, rows.sum(axis=-1, keepdims=True) - rows)
    found = paired_difference(
        difference[..., 0],
        samples,
        exchanged if request.permutations else None,
        units=units,
        reach=reach[1] - reach[0],
        level=request.level,
    )
    return np.stack([difference[..., 0], *found])


def _comparisons(
    observed: Floats,
    drawn: Floats,
    null: Floats,
    group_low: Floats,
    group_high: Floats,
    slack: Floats,
    tested: _Tested | None,
    request: SummaryRequest,
) -> tuple[Floats, ...]:
    """Compute all comparisons of one statistic: (C, K) estimate, low, high, p and group.

    (C, G) z and outlier.

    `slack` (C,) is the exact bound of a difference that is the same in all resamples.
    With studentised values, p is that of their comparison.
    """
    here = GroupValues(observed, request.formulas)
    there, permuted = (GroupValues(np.moveaxis(part, -2, -1), request.formulas) for part in (drawn, null))
    groups = _groups_of(here)
    studentised = None if tested is None else GroupValues(tested.values, request.formulas)
    results = []
    for name, comparison in COMPARISONS.items():
        raw, samples, relabelled = map(comparison.compute, (here, there, permuted))
        unknown = np.isnan(raw)
        group = np.where(unknown, -1, groups.get(comparison.group, -1))
        if not comparison.extreme:
            p = np.full(raw.shape, np.nan)
        elif tested is None or studentised is None:
            p = excess_p(raw, relabelled, comparison.extreme)
        else:
            values = comparison.compute(studentised) if comparison.none is None else studentised.size
            p = excess_p(np.where(unknown, np.nan, values[:, 0]), values[:, 1:], 1)
            if comparison.none is not None:
                p = np.where(np.isnan(p), np.nan, np.fmax(p, tested.least_p))
        if comparison.none is not None:
            share = (
                None
                if tested is None
                else np.where(p < 1.0 - request.level, _least_share(tested, here, request.level), 0.0)
            )
            low, high = _lifted_ends(comparison, raw, samples, relabelled, share, request.level)
            if comparison.extreme < 0 and request.formulas.studentised:
                high = np.where(
                    raw <= 0.0, np.fmax(high, _highest_ratio(here, group_high, groups["min"])), high
                )
            if request.formulas.studentised and request.resamples:
                bounds = (
                    _ends_of_constants(name, here, group_low, group_high),
                    _ends_of_pairs(name, here, raw, slack),
                )
                low, high = _widened_constants(low, high, samples, drawn, bounds)
        elif comparison.group in ("max", "min") and not comparison.extreme:
            # The interval of the group that is observed as largest or smallest; in resamples, it may be
            # another group.
            low, high = (
                np.take_along_axis(side, np.maximum(group, 0)[:, None], axis=1)[:, 0]
                for side in (group_low, group_high)
            )
        else:
            low, _, high = column_quantiles(samples, request.level)
        results.append((*np.where(unknown, np.nan, (raw, low, high, p)), group))
    test = here.dixon
    outlier = np.where(
        observed == here.max[:, None],
        test.high[:, None],
        np.where(observed == here.min[:, None], test.low[:, None], 0.0),
    )
    outlier = np.where(
        np.isnan(observed) | np.isnan(test.critical)[:, None], np.nan, outlier > test.critical[:, None]
    )
    return (*np.stack(results, axis=-1), here.z, outlier)


def _least_share(tested: _Tested, here: GroupValues, level: float) -> Floats:
    """Compute a lower bound of the true range as a share of the observed one, shape (C,), from the Welch-James statistic.

    The true differences have at least the size sqrt(statistic) - sqrt(critical value) if they are weighted as
    in the statistic (Scheffe 1953), which is at most half the range times sqrt(sum of the weights).
    """
    sizes = np.sqrt(GroupValues(tested.values).size)
    beyond = sizes[:, 0] - critical_values(sizes[:, 1:], level)
    return np.clip(ratio(2.0 * beyond / np.sqrt(tested.weight), here.max - here.min), 0.0, 1.0)


def _lifted_ends(
    comparison: DisparityMeasure,
    raw: Floats,
    samples: Floats,
    relabelled: Floats,
    share: Floats | None,
    level: float,
) -> tuple[Floats, Floats]:
    """Compute the corrected interval of a distance, which is biased upwards, or of a ratio, which is biased downwards."""
    assert comparison.none is not None
    sign, none = comparison.extreme, comparison.none
    distance = sign * (raw - none)
    floor = None if share is None else share * distance
    low, high = lifted_interval(distance, sign * (samples - none), sign * (relabelled - none), level, floor)
    return (low, high) if sign > 0 else (np.maximum(none - high, 0.0), none - low)


def _slack_of_differences(rows: Index, reach: Floats, level: float) -> Floats:
    """Compute by how much a difference that is the same in all resamples may be wrong, shape (S, C); NaN if this is unbounded.

    If n units agree, a share of up to 1 - ((1 - level) / 2)**(1 / n) of all units may differ
    (`stats.rare_event_interval`), each by at most the `reach` (2, S, C, 1). n is the smallest number of
    values (S, C, G) among the groups that have any.
    """
    units = np.where(rows > 0, rows, np.inf).min(axis=-1)
    share = 1.0 - ((1.0 - level) / 2.0) ** (1.0 / units)
    width = (reach[1] - reach[0])[..., 0]
    return np.where(np.isfinite(width), share * width, np.nan)


def _widened_constants(
    low: Floats, high: Floats, samples: Floats, drawn: Floats, bounds: Sequence[tuple[Floats, Floats]]
) -> tuple[Floats, Floats]:
    """Widen intervals (C,) of comparisons that are the same in all resamples (C, R): they say nothing about the uncertainty.

    `bounds` has the ends if all resamples of each group (C, G, R) agree, and the ends if only the comparison
    does, as for answers that differ between prompts, but not between the groups of a prompt; NaN where
    unknown.
    """
    scale = np.fmax.reduce(np.abs(drawn), axis=(-2, -1))
    are_same = np.fmax.reduce(samples, axis=-1) - np.fmin.reduce(samples, axis=-1) <= ROUNDING * scale
    groups_agree = ((drawn == drawn[..., :1]) | np.isnan(drawn)).all(axis=(-2, -1))
    least, most = np.where(groups_agree, *bounds)
    is_known = are_same & ~np.isnan(least) & ~np.isnan(most)
    return np.where(is_known, np.fmin(low, least), low), np.where(is_known, np.fmax(high, most), high)


def _ends_of_pairs(comparison: str, here: GroupValues, raw: Floats, slack: Floats) -> tuple[Floats, Floats]:
    """Compute both ends of a comparison that is `raw` (C,) in all resamples, if the difference of two groups may be wrong by `slack`."""
    if comparison == "ratio":
        share = ratio(slack, here.max)
        return np.maximum(raw - share, 0.0), np.minimum(raw + share, 1.0)
    # The sd of two groups is their difference divided by the square root of 2; that of more groups changes
    # less.
    largest = slack / np.sqrt(2.0) if comparison == "sd" else slack
    return np.maximum(raw - largest, 0.0), raw + largest


def _ends_of_constants(
    comparison: str, here: GroupValues, group_low: Floats, group_high: Floats
) -> tuple[Floats, Floats]:
    """Compute both ends of a comparison, shape (C,), from the intervals (C, G) of the groups.

    They are used if all resamples of each group agree. The intervals of the groups are then exact bounds, of
    which each end is exceeded with a probability of (1 - level) / 2.
    """
    groups = _groups_of(here)

    def at(ends: Floats, place: str) -> Floats:
        return np.take_along_axis(ends, groups[place][:, None], axis=1)[:, 0]

    highest, lowest = np.fmax.reduce(group_high, axis=-1), np.fmin.reduce(group_low, axis=-1)
    if comparison == "ratio":
        return np.maximum(ratio(lowest, highest), 0.0), np.minimum(
            ratio(at(group_high, "min"), at(group_low, "max")), 1.0
        )
    least, most = np.maximum(at(group_low, "max") - at(group_high, "min"), 0.0), highest - lowest
    if comparison == "sd":
        # Of all values with this range, those with two groups at the ends and the others in the middle have
        # the smallest sd.
        return least / np.sqrt(2.0 * (here.count - 1.0)), most / np.sqrt(2.0)
    return least, most


def _highest_ratio(here: GroupValues, group_high: Floats, smallest: Index) -> Floats:
    """Compute the upper end of the smallest value divided by the largest value, shape (C,).

    It is used if the smallest value is 0. The ratio is then 0 in nearly all resamples, which says nothing
    about its upper end; the interval of the group does (where all values agree, it is the exact bound).
    """
    upper = np.take_along_axis(group_high, smallest[:, None], axis=1)[:, 0]
    return np.minimum(ratio(upper, here.max), 1.0)


def _groups_of(here: GroupValues) -> dict[str, Index]:
    """Return the numbers (C,) of the groups with the smallest and the largest value, the largest |z|, and the larger Dixon ratio."""
    low, high, far = map(_place_of_largest, (-here.values, here.values, np.abs(here.z)))
    return {"min": low, "max": high, "z": far, "end": np.where(here.dixon.low > here.dixon.high, low, high)}


def _place_of_largest(values: Floats) -> Index:
    """Return the number of the group with the largest value, (..., G) -> (...); 0 if none has a value."""
    return np.asarray(np.argmax(np.where(np.isnan(values), -np.inf, values), axis=-1))


def _impact_ratios(
    observed: Floats, drawn: Floats, null: Floats, group_high: Floats, request: SummaryRequest
) -> Floats:
    """Compute the impact ratio of each group (its rate divided by the largest rate) and its interval, shape (3, C, G).

    The largest of several rates is biased upwards, so plain intervals would flag too many groups. The upper
    end is 1 unless relabelling rarely gives such a small ratio in any group. Otherwise it is the bootstrap
    interval of the ratio to the group with the largest *observed* rate, adjusted for simultaneous coverage of
    all groups (Bonferroni), and at least the exact upper bound of the group's rate divided by the largest
    rate.
    """
    greatest = np.fmax.reduce(observed, axis=-1, keepdims=True)
    impact = ratio(observed, greatest)
    ratios = ratio(drawn, np.take_along_axis(drawn, _place_of_largest(observed)[:, None, None], axis=1))
    alpha = (1.0 - request.level) / max(1, observed.shape[-1] - 1)
    low, _, _ = column_quantiles(ratios, request.level)
    _, _, high = column_quantiles(ratios, 1.0 - 2.0 * alpha)
    smallest = np.fmin.reduce(ratio(null, np.fmax.reduce(null, axis=1, keepdims=True)), axis=1)
    p = excess_p(impact, np.broadcast_to(smallest[:, None], (*impact.shape, smallest.shape[-1])), -1)
    high = np.where(p < 1.0 - request.level, np.minimum(1.0, np.maximum(high, group_high / greatest)), 1.0)
    unknown = np.isnan(p) | np.isnan(group_high)
    return np.stack(
        [
            impact,
            np.where(unknown, np.nan, np.minimum(low, impact)),
            np.where(unknown, np.nan, np.maximum(high, impact)),
        ]
    )
