"""Layouts: which rows belong to which group, in the data, in bootstrap resamples and in permutations.

A layout is a list with an (R, n_g) array of row numbers for each group; the number N, one past the last row,
means "no row". Each resample has its own random generator, so that it does not depend on which other
resamples are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Series, col

from tiltmeter._arrays import Booleans, Floats, Index

Layout = list[Index]
FEWEST_UNITS: Final = 5
"""Units with rarer sets of groups are pooled for resampling."""
PERMUTATION_STREAM: Final = 1
BOOTSTRAP_STREAM: Final = 2


class ColumnKinds(NamedTuple):
    """What is known about the values of columns."""

    decisions: Collection[str] = ()
    """Columns whose values are shares of positive decisions."""
    bounds: Mapping[str, tuple[float, float]] = MappingProxyType({})
    """Column -> its smallest and its largest possible value. Without an entry, they are the observed ones."""


NO_KINDS: Final = ColumnKinds()


@dataclass(frozen=True, slots=True)
class Design:
    """The measurements as arrays."""

    values: Floats
    """(C, N) values of the columns."""
    baselines: Floats
    """(B, N) values of the baselines."""
    baseline_of: Index
    """(C,) row of each column's baseline in `baselines`; -1: none."""
    codes: Index
    """(N,) numbers of the groups."""
    groups: int
    units: Index | None
    """(N,) numbers of the units; None: rows are not paired."""
    decisions: Booleans
    """(C,) whether the values of a column are shares of positive decisions."""
    bounds: Floats
    """(2, C) smallest and largest possible value of each column."""

    def select(self, columns: slice) -> Design:
        """Return the design with these columns only."""
        return replace(
            self,
            values=self.values[columns],
            baseline_of=self.baseline_of[columns],
            decisions=self.decisions[columns],
            bounds=self.bounds[:, columns],
        )


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
    baseline_columns = list(dict.fromkeys(baselines[column] for column in columns if column in baselines))
    baseline_of = [
        baseline_columns.index(baselines[column]) if column in baselines else -1 for column in columns
    ]
    values = _matrix(table, columns)
    units = None if unit is None else ranks(table[unit])
    decisions = [column in kinds.decisions for column in columns]
    return Design(
        values=values,
        baselines=_matrix(table, baseline_columns),
        baseline_of=np.array(baseline_of),
        codes=codes,
        groups=int(codes.max()) + 1,
        units=units,
        decisions=np.array(decisions),
        bounds=_bounds(values, columns, kinds),
    )


def _bounds(values: Floats, columns: Sequence[str], kinds: ColumnKinds) -> Floats:
    """Return the smallest and the largest possible value of each column, shape (2, C)."""
    unknown = (np.nan, np.nan)
    stated = np.array([kinds.bounds.get(column, unknown) for column in columns]).T
    # Values outside a stated range, such as those of a user's own function, widen it.
    low = np.fmin(np.fmin.reduce(values, axis=1), stated[0])
    high = np.fmax(np.fmax.reduce(values, axis=1), stated[1])
    return np.stack([low, high])


def ranks(names: Series) -> Index:
    """Return the dense rank of each value, from 0."""
    return names.rank("dense").to_numpy().astype(np.intp) - 1


def _matrix(table: DataFrame, columns: Sequence[str]) -> Floats:
    """Return the columns as (C, N) values, NaN where missing or infinite."""
    values = table.select(col(columns).cast(Float64)).to_numpy().T
    return np.where(np.isfinite(values), values, np.nan)


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

    def layout(first: int, last: int) -> Layout:
        return [np.concatenate(plan.layout(first, last), axis=1)]

    return LayoutPlan(plan.size, layout)


def permutation(design: Design, size: int, seed: int) -> LayoutPlan:
    """Return a plan that permutes group labels among the rows of each unit.

    Without units, they are permuted among all rows.
    """
    units = np.zeros_like(design.codes) if design.units is None else design.units
    order = np.argsort(units, kind="stable")
    units_in_order = units[order]
    places = [np.flatnonzero(design.codes[order] == group) for group in range(design.groups)]

    def layout(first: int, last: int) -> Layout:
        fractions = _random_numbers([seed, PERMUTATION_STREAM], first, last, len(order))
        # The integer part keeps the units in order; the random fraction shuffles the rows within a unit.
        rows = order[np.argsort(units_in_order + fractions)]
        return [rows[:, places_of_group] for places_of_group in places]

    return LayoutPlan(size, layout)


def bootstrap(design: Design, size: int, seed: int) -> LayoutPlan:
    """Return a plan of stratified bootstrap resamples of units.

    Without units, rows within groups are drawn. Units with the same set of groups form a stratum: a single
    stratum in a complete design, and one stratum per group if each unit has a single group. Units with rare
    sets are pooled into one stratum. A drawn unit contributes all its rows, which preserves pairing.
    """
    units = np.arange(len(design.codes)) if design.units is None else design.units
    strata = _strata(design.codes, design.groups, units)
    order = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata)
    # First place and size of the stratum of each draw.
    begins = np.repeat(np.cumsum(sizes) - sizes, sizes)
    lengths = np.repeat(sizes, sizes)
    number = _numbers_within_units(units, design.codes)
    rows_by_group = []
    for group in range(design.groups):
        rows = np.flatnonzero(design.codes == group)
        rows_by_group.append(_rows_of_units(rows, number, units, strata, order))

    def layout(first: int, last: int) -> Layout:
        shares = _random_numbers([seed, BOOTSTRAP_STREAM], first, last, len(order))
        drawn = order[begins + (shares * lengths).astype(np.intp)]
        return [rows[drawn[:, draws]].reshape(len(drawn), -1) for draws, rows in rows_by_group]

    return LayoutPlan(size, layout)


def _random_numbers(seed: list[int], first: int, last: int, count: int) -> Floats:
    """Draw (R, count) numbers from 0 to 1 for the resamples `first` to `last` - 1."""
    generators = [np.random.default_rng([*seed, number]) for number in range(first, last)]
    return np.stack([generator.random(count) for generator in generators])


def _numbers_within_units(units: Index, codes: Index) -> Index:
    """Return the number of each row among the rows of the same unit and group, from 0, shape (N,)."""
    rows = DataFrame({"unit": units, "group": codes})
    return rows.select(pl.int_range(pl.len()).over("unit", "group")).to_series().to_numpy()


def _rows_of_units(
    rows: Index, number: Index, units: Index, strata: Index, order: Index
) -> tuple[Index, Index]:
    """Return the draws that may yield a row of a group, and the rows of each unit in the group.

    The latter has the shape (units, most rows of a unit).
    """
    numbers = number[rows]
    table = np.full((len(strata), numbers.max() + 1), len(units), dtype=np.intp)
    table[units[rows], numbers] = rows
    draws = np.flatnonzero(np.isin(strata[order], strata[units[rows]]))
    return draws, table


def _strata(codes: Index, groups: int, units: Index) -> Index:
    """Return the number of the stratum of each unit, shape (U,)."""
    has_group = np.zeros((int(units.max()) + 1, groups), dtype=bool)
    has_group[units, codes] = True
    # The sum of one random number per group identifies a set of groups.
    sets = has_group @ np.random.default_rng(0).integers(1 << 40, size=groups)
    _, pattern, sizes = np.unique(sets, return_inverse=True, return_counts=True)
    is_rare = (sizes[pattern] < FEWEST_UNITS) & (has_group.sum(axis=1) > 1)
    strata: Index = np.where(is_rare, len(sizes), pattern)
    return np.unique(strata, return_inverse=True)[1]
