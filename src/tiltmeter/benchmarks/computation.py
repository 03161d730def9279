"""All numbers of a diagnosis as arrays, computed in parallel over chunks of columns."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Final

import numpy as np

from tiltmeter.arrays import Booleans, Floats, Index
from tiltmeter.benchmarks.group_comparisons import (
    StatisticDraws,
    against_others,
    compare_groups,
    impact_ratios,
    slack_of_differences,
)
from tiltmeter.benchmarks.layouts import Design, as_observed, bootstrap, permutation
from tiltmeter.benchmarks.summaries import (
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
class Computed:
    """Numbers by statistic and column; NaN where undefined.

    The shape is (S, C, G) for groups and (S, C, K) for comparisons. `group` is the number of the group
    concerned by a comparison, -1 for none. `impact` is NaN except for the selection rate. `difference` is
    that of a group from the others.
    """

    estimate: Floats
    low: Floats
    high: Floats
    rows: Index
    compared: Floats
    compared_low: Floats
    compared_high: Floats
    p: Floats
    group: Index
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
    """Compute all numbers, in parallel over chunks of columns; they do not depend on the chunks."""
    columns = len(design.values)
    repeats = max(request.resamples, request.permutations, 1)
    workers = 1 if design.values.size * repeats < ALONE_CELLS else _cores()
    widest = max(1, TABLE_CELLS // (repeats * design.groups * len(request.statistics)))
    width = min(widest, -(-columns // workers))
    slices = [slice(first, first + width) for first in range(0, columns, width)]
    with ThreadPoolExecutor(workers) as pool:
        chunks = list(pool.map(partial(_computed_chunk, design, request), slices))
    arrays = {
        field.name: np.concatenate([getattr(chunk, field.name) for chunk in chunks], axis=1)
        for field in fields(Computed)
    }
    return Computed(**arrays)


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
        draws = {
            name: StatisticDraws(
                observed=included[place],
                drawn=drawn[place],
                null=null[place],
                low=low[place],
                high=high[place],
                slack=slack[place],
                test=tests.get(name),
            )
            for place, name in enumerate(request.statistics)
        }
        compared = [compare_groups(statistic, request) for statistic in draws.values()]
        impact, impact_low, impact_high = _impacts(draws, request)
    computed = Computed(
        estimate=observed,
        low=low,
        high=high,
        rows=rows,
        compared=np.stack([statistic.estimate for statistic in compared]),
        compared_low=np.stack([statistic.low for statistic in compared]),
        compared_high=np.stack([statistic.high for statistic in compared]),
        p=np.stack([statistic.p for statistic in compared]),
        group=np.stack([statistic.group for statistic in compared]),
        z=np.stack([statistic.z for statistic in compared]),
        outlier=np.stack([statistic.outlier for statistic in compared]),
        impact=impact,
        impact_low=impact_low,
        impact_high=impact_high,
        difference=differences.difference,
        difference_low=differences.low,
        difference_high=differences.high,
        difference_p=differences.p,
    )
    return _without_few_values(computed) if request.formulas.studentised else computed


def _impacts(draws: dict[str, StatisticDraws], request: SummaryRequest) -> Floats:
    """Compute impact ratios and their intervals, shape (3, S, C, G); NaN except for the selection rate."""
    first = next(iter(draws.values()))
    impacts = np.full((3, len(draws), *first.observed.shape), np.nan)
    for place, (name, statistic) in enumerate(draws.items()):
        if name == "selection_rate":
            impacts[:, place] = impact_ratios(statistic, request.level)
    return impacts


def _without_few_values(computed: Computed) -> Computed:
    """Remove the intervals and p-values that rest on fewer than FEWEST_VALUES values.

    They are those of a group with fewer values, those of a group whose other groups have fewer values
    together, and those of comparisons of all groups if fewer than two groups have enough values.
    """
    rows = computed.rows
    is_small = rows < FEWEST_VALUES
    others_are_small = rows.sum(axis=-1, keepdims=True) - rows < FEWEST_VALUES
    is_incomparable = (~is_small).sum(axis=-1, keepdims=True) < 2
    without_difference = is_small | others_are_small

    return replace(
        computed,
        impact_low=_without(computed.impact_low, is_small),
        impact_high=_without(computed.impact_high, is_small),
        difference_low=_without(computed.difference_low, without_difference),
        difference_high=_without(computed.difference_high, without_difference),
        difference_p=_without(computed.difference_p, without_difference),
        compared_low=_without(computed.compared_low, is_incomparable),
        compared_high=_without(computed.compared_high, is_incomparable),
        p=_without(computed.p, is_incomparable),
    )


def _without(values: Floats, is_removed: Booleans) -> Floats:
    return np.where(is_removed, np.nan, values)
