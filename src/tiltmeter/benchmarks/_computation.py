"""All numbers of a diagnosis as arrays, computed in parallel over chunks of columns."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from tiltmeter._arrays import Floats, Index
from tiltmeter.benchmarks._array_records import joined, stacked, without
from tiltmeter.benchmarks._group_comparisons import (
    Comparisons,
    GroupDifferences,
    GroupDistances,
    ImpactRatios,
    StatisticDraws,
    against_others,
    compare_groups,
    distances_of,
    impact_ratios,
    slack_of_differences,
)
from tiltmeter.benchmarks._layouts import Design, as_observed, bootstrap, permutation
from tiltmeter.benchmarks._summaries import (
    FEWEST_VALUES,
    SummaryRequest,
    group_intervals,
    left_out,
    reach_of,
    rows_with_value,
    studentised_tests,
    summaries,
    without_groups,
)
from tiltmeter.stats import standards

TABLE_CELLS: Final = 24_000_000
"""Values of all statistics, groups and resamples in a chunk of columns: 192 MB."""
ALONE_CELLS: Final = 4_000_000
"""Total number of values drawn, below which a single thread is faster."""


@dataclass(frozen=True, slots=True)
class GroupEstimates:
    """Statistics of the groups with intervals, shape (S, C, G); NaN where undefined."""

    estimate: Floats
    low: Floats
    high: Floats
    rows: Index
    """Numbers of values."""


class Computed(NamedTuple):
    """All numbers by statistic and column; NaN where undefined."""

    groups: GroupEstimates
    compared: Comparisons
    """Shape (S, C, K)."""
    distances: GroupDistances
    impacts: ImpactRatios
    differences: GroupDifferences


def compute(design: Design, request: SummaryRequest) -> Computed:
    """Compute all numbers, in parallel over chunks of columns; they do not depend on the chunks."""
    columns = len(design.values)
    repeats = max(request.resamples, request.permutations, 1)
    workers = 1 if design.values.size * repeats < ALONE_CELLS else _cores()
    widest = max(1, TABLE_CELLS // (repeats * design.groups * len(request.statistics)))
    width = min(widest, -(-columns // workers))
    slices = [slice(first, first + width) for first in range(0, columns, width)]
    with ThreadPoolExecutor(workers) as pool:
        chunks = list(pool.map(partial(_computed_chunk, design, request), slices))
    return Computed(*(joined(records, axis=1) for records in zip(*chunks, strict=True)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _computed_chunk(design: Design, request: SummaryRequest, columns: slice) -> Computed:
    design = design.select(columns)
    with np.errstate(all="ignore"):
        standard = standards(design.values, request.options, request.formulas)
        observed = summaries(design, request, as_observed(design), standard)[..., 0]
        resampling = bootstrap(design, request.resamples, request.seed)
        drawn = summaries(design, request, resampling, standard)
        relabelling = permutation(design, request.permutations, request.seed)
        null = summaries(design, request, relabelling, standard)
        counts = rows_with_value(design.values, design)
        rows = np.broadcast_to(counts, observed.shape)
        reach = reach_of(design, request)
        low, high = group_intervals(observed, drawn, rows, reach, request)
        differences = against_others(observed, drawn, null, rows, reach, request)
        excluded = left_out(counts, request.formulas)
        if excluded.any():
            present = np.where(excluded[:, design.codes], np.nan, design.values)
            design = replace(design, values=present)
            null = without_groups(summaries(design, request, relabelling, standard), excluded)
            drawn = without_groups(drawn, excluded)
        included = np.where(excluded, np.nan, observed)
        tests = studentised_tests(design, request, standard, excluded)
        slack = slack_of_differences(np.where(excluded, 0, rows), reach, request.level)
        statistics: dict[str, StatisticDraws] = {}
        for place, name in enumerate(request.statistics):
            statistics[name] = StatisticDraws(
                observed=included[place],
                drawn=drawn[place],
                null=null[place],
                low=low[place],
                high=high[place],
                slack=slack[place],
                test=tests.get(name),
            )
        compared = [compare_groups(draws, request) for draws in statistics.values()]
        distances = [distances_of(draws, request) for draws in statistics.values()]
        impacts = [impact_ratios(name, draws, request.level) for name, draws in statistics.items()]
    computed = Computed(
        groups=GroupEstimates(observed, low, high, rows),
        compared=stacked(compared),
        distances=stacked(distances),
        impacts=stacked(impacts),
        differences=differences,
    )
    return _without_few_values(computed) if request.formulas.studentised else computed


def _without_few_values(computed: Computed) -> Computed:
    """Remove the intervals and p-values that rest on fewer than FEWEST_VALUES values.

    They are those of a group with fewer values, those of a group whose other groups have fewer values
    together, and those of comparisons of all groups if fewer than two groups have enough values.
    """
    rows = computed.groups.rows
    is_small = rows < FEWEST_VALUES
    rows_of_others = rows.sum(axis=-1, keepdims=True) - rows
    others_are_small = rows_of_others < FEWEST_VALUES
    is_incomparable = (~is_small).sum(axis=-1, keepdims=True) < 2
    inference = ("low", "high", "p")
    return computed._replace(
        compared=without(computed.compared, inference, is_incomparable),
        impacts=without(computed.impacts, ("low", "high"), is_small),
        differences=without(computed.differences, inference, is_small | others_are_small),
    )
