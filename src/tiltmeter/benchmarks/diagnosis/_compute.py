"""Every statistic of every group and column, in the data and in resamples, and every comparison over the groups."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiltmeter.benchmarks.diagnosis._resampling import Bootstrap, Layout, Observed, Permutation, Plan
from tiltmeter.stats.disparity import COMPARISONS, Spread, column_quantiles, excess_p, lifted_interval
from tiltmeter.stats.summary import Options, Sample, Statistic, order_codes, standards, summarise

__all__ = ["TABLE_CELLS", "Design", "Found", "Request", "compute", "summaries"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]
BLOCK_CELLS = 128_000  # values of a block of groups and resamples: 1 MB, which stays in the cache and outweighs the calls
TABLE_CELLS = 24_000_000  # values of all statistics, groups and resamples of a chunk of columns: 192 MB
ALONE_CELLS = 4_000_000  # values drawn in all: with fewer, threads wait for each other longer than they work


class Design(NamedTuple):
    """The measurements as arrays: (C, N) values, (B, N) baselines and each column's row there (-1: none), codes of groups and units."""

    values: Floats
    baseline_of: Index
    baselines: Floats
    codes: Index
    groups: int
    units: Index | None


class Request(NamedTuple):
    """What to compute."""

    statistics: Mapping[str, Statistic]
    options: Options
    original: bool
    level: float
    resamples: int
    permutations: int
    seed: int


class Found(NamedTuple):
    """Results by statistic, (S, C, G) and (S, K, C) with K comparisons; NaN where there is none.

    `group` is the number of the group a comparison is about, -1 for none. `impact` is null but for the selection rate.
    """

    estimate: Floats
    low: Floats
    high: Floats
    rows: Floats
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


def compute(design: Design, request: Request) -> Found:
    """Compute everything, in chunks of columns beside each other; which chunks there are does not change a value."""
    columns, repeats = len(design.values), max(request.resamples, request.permutations, 1)
    workers = 1 if design.values.size * repeats < ALONE_CELLS else _cores()
    widest = max(1, TABLE_CELLS // (repeats * design.groups * len(request.statistics)))
    width = min(widest, -(-columns // workers))
    chunks = [np.arange(first, min(first + width, columns)) for first in range(0, columns, width)]
    if workers == 1:
        found = [_chunk(design, request, chunk) for chunk in chunks]
    else:
        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(lambda chunk: _chunk(design, request, chunk), chunks))
    # Columns are the second axis of group results, and the last of comparisons.
    axes = {"compared": -1, "compared_low": -1, "compared_high": -1, "p": -1, "group": -1, "rows": 0}
    return Found(
        *(np.concatenate(parts, axis=axes.get(name, 1)) for name, parts in zip(Found._fields, zip(*found, strict=True), strict=True))
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chunk(design: Design, request: Request, columns: Index) -> Found:
    groups, units = design.groups, design.units
    chosen = design._replace(values=design.values[columns], baseline_of=design.baseline_of[columns])
    with np.errstate(all="ignore"):
        standard = standards(chosen.values, request.options, request.original)
        observed = summaries(chosen, request, Observed(chosen.codes, groups), standard)[..., 0]
        count = _counts(chosen.values, chosen.codes, groups)
        drawn, null = (
            summaries(chosen, request, plan(chosen.codes, groups, units, size, request.seed), standard)
            if size
            else np.empty((*observed.shape, 0))
            for plan, size in ((Bootstrap, request.resamples), (Permutation, request.permutations))
        )
        low, high = _group_intervals(observed, drawn, count, request)
        parts = [_compare(observed[s], drawn[s], null[s], low[s], high[s], request) for s in range(len(request.statistics))]
        impacts = [_impact(observed[s], drawn[s], null[s], high[s], name, request) for s, name in enumerate(request.statistics)]
    compared, compared_low, compared_high, p, group, z, outlier = (np.stack(part) for part in zip(*parts, strict=True))
    impact, impact_low, impact_high = (np.stack(part) for part in zip(*impacts, strict=True))
    return Found(
        observed, low, high, count, compared, compared_low, compared_high, p, group.astype(np.intp), z, outlier,
        impact, impact_low, impact_high,
    )  # fmt: skip


def _counts(values: Floats, codes: Index, groups: int) -> Floats:
    """How many values each column (C, N) has in each group: (C, G)."""
    column, row = np.nonzero(np.isnan(values))
    missing = np.bincount(column * groups + codes[row], minlength=len(values) * groups).reshape(len(values), groups)
    return (np.bincount(codes, minlength=groups) - missing).astype(np.float64)


def summaries(design: Design, request: Request, plan: Plan, standard: Floats) -> Floats:
    """Every statistic (S, C, G, R) under a plan of R layouts; NaN where it is not defined."""
    columns, rows = design.values.shape
    values, baselines = design.values, design.baselines
    if plan.gaps:  # one place more, for "no row"
        values, baselines = (np.pad(part, ((0, 0), (0, 1)), constant_values=np.nan) for part in (values, baselines))
    paired = design.baseline_of >= 0
    table = np.full((len(request.statistics), columns, design.groups, plan.size), np.nan)
    block = max(1, BLOCK_CELLS * design.groups // max(1, rows * columns))
    alone = [name for name, one in request.statistics.items() if not one.paired]
    pairs = [name for name, one in request.statistics.items() if one.paired and paired.any()]
    ranked = any(request.statistics[name].ranked for name in pairs)
    codes, base_codes = (order_codes(values), order_codes(baselines)) if ranked else (None, None)
    number = {name: at for at, name in enumerate(request.statistics)}
    for first in range(0, plan.size, block):
        last = min(first + block, plan.size)
        for groups, index in _batches(plan.layout(first, last), columns):
            place = (slice(None), groups, slice(first, last))
            own = None if codes is None else (np.take(codes, index, axis=1), None)
            sample = Sample(np.take(values, index, axis=1), None, standard[:, None, None, None], request.options, request.original, own)
            for name, found in summarise(sample, alone, request.statistics).items():
                table[number[name]][place] = found
            if pairs:
                drawn = None if base_codes is None else np.take(base_codes, index, axis=1)
                both = sample.paired_with(np.take(baselines, index, axis=1), design.baseline_of, paired, drawn)
                for name, found in summarise(both, pairs, request.statistics).items():
                    table[number[name]][paired, groups, first:last] = found
    return table


def _batches(layout: Layout, columns: int) -> Iterator[tuple[slice, Index]]:
    """Neighbouring groups of one size together, (groups, R, n) rows, as many as fit a block: fewer, longer steps for a few resamples."""
    first = 0
    while first < len(layout):
        shape = layout[first].shape
        most = max(1, BLOCK_CELLS // max(1, columns * layout[first].size))
        last = first + 1
        while last < min(first + most, len(layout)) and layout[last].shape == shape:
            last += 1
        yield slice(first, last), np.stack(layout[first:last])
        first = last


def _group_intervals(observed: Floats, drawn: Floats, count: Floats, request: Request) -> tuple[Floats, Floats]:
    """Bootstrap percentile intervals of every statistic (S, C, G); a group of one row has none.

    Where all resamples agree on a share, an exact interval: a share of 0 in n rows does not show that it is 0.
    """
    if not request.resamples:
        return np.full(observed.shape, np.nan), np.full(observed.shape, np.nan)
    low, _, high = column_quantiles(drawn, request.level)
    slack = 1.0 - ((1.0 - request.level) / 2.0) ** (1.0 / np.maximum(count, 1))
    for s, name in enumerate(request.statistics):
        if request.statistics[name].share:
            agreed = low[s] == high[s]
            low[s] = np.where(agreed, np.maximum(0.0, observed[s] - slack), low[s])
            high[s] = np.where(agreed, np.minimum(1.0, observed[s] + slack), high[s])
    unknown = np.isnan(observed) | (count < 2)
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def _compare(observed: Floats, drawn: Floats, null: Floats, group_low: Floats, group_high: Floats, request: Request) -> tuple[Floats, ...]:
    """Every comparison of one statistic: (K, C) estimate, low, high, p and group; (C, G) z and outlier."""
    here = Spread(observed, request.original)
    # Without resamples there is nothing to compare: what is empty costs as many calls as what is full.
    there, permuted = (Spread(np.moveaxis(part, -2, -1), request.original) if part.shape[-1] else None for part in (drawn, null))
    results = []
    groups = _groups_of(here)
    for comparison in COMPARISONS.values():
        raw = comparison.compute(here)
        samples, relabelled = (np.empty((*raw.shape, 0)) if one is None else comparison.compute(one) for one in (there, permuted))
        group = groups[comparison.group] if comparison.group else np.full(raw.shape, -1)
        group = np.where(np.isnan(raw), -1, group)
        tested = comparison.extreme and permuted is not None
        p = excess_p(raw, relabelled, comparison.extreme) if tested else np.full(raw.shape, np.nan)
        if there is None:
            low = high = np.full(raw.shape, np.nan)
        elif comparison.none is not None:
            sign, none = comparison.extreme, comparison.none
            ends = lifted_interval(sign * (raw - none), sign * (samples - none), sign * (relabelled - none), request.level)
            low, high = ends if sign > 0 else (np.maximum(none - ends[1], 0.0), none - ends[0])
        elif comparison.group in ("max", "min") and not comparison.extreme:
            # Of the very group that is the greatest or least: resampled, another one would take its place.
            low, high = (np.take_along_axis(side, np.maximum(group, 0)[:, None], axis=1)[:, 0] for side in (group_low, group_high))
        else:
            low, _, high = column_quantiles(samples, request.level)
        unknown = np.isnan(raw)
        results.append((raw, np.where(unknown, np.nan, low), np.where(unknown, np.nan, high), p, group.astype(np.float64)))
    test = here.dixon
    outlier = np.where(observed == here.max[:, None], test.high[:, None], np.where(observed == here.min[:, None], test.low[:, None], 0.0))
    outlier = np.where(np.isnan(observed) | np.isnan(test.critical)[:, None], np.nan, outlier > test.critical[:, None])
    return (*(np.stack(part) for part in zip(*results, strict=True)), here.z, outlier)


def _groups_of(here: Spread) -> dict[str, Index]:
    low, high = (
        np.argmin(np.where(np.isnan(here.values), np.inf, here.values), axis=-1),
        np.argmax(np.where(np.isnan(here.values), -np.inf, here.values), axis=-1),
    )
    far = np.argmax(np.where(np.isnan(here.z), -1.0, np.abs(here.z)), axis=-1)
    return {"min": low, "max": high, "z": far, "end": np.where(here.dixon.low > here.dixon.high, low, high)}


def _impact(
    observed: Floats, drawn: Floats, null: Floats, group_high: Floats, name: str, request: Request
) -> tuple[Floats, Floats, Floats]:
    """The impact ratio of every group (C, G), its rate over the greatest rate, with an interval; NaN for other statistics.

    The greatest of many rates is lifted by noise, so that plain intervals would flag groups without cause. The upper end is 1 unless
    relabelling seldom gives a ratio as small in any group; then it is the bootstrap's, over the greatest *observed* group's own resampled
    rate, widened to hold for all groups of the level at once, and never below what the exact interval of the group's rate allows.
    """
    if name != "selection_rate":
        return (np.full(observed.shape, np.nan),) * 3
    greatest = np.fmax.reduce(observed, axis=-1)[:, None]
    impact = np.where(greatest > 0, observed / greatest, np.nan)
    if not request.resamples or not request.permutations:
        return impact, np.full(impact.shape, np.nan), np.full(impact.shape, np.nan)
    top = np.argmax(np.where(np.isnan(observed), -np.inf, observed), axis=-1)
    over = np.take_along_axis(drawn, top[:, None, None], axis=1)
    ratios = np.where(over > 0, drawn / over, np.nan)
    alpha = (1.0 - request.level) / max(1, observed.shape[-1] - 1)
    low, _, _ = column_quantiles(ratios, request.level)
    _, _, high = column_quantiles(ratios, 1.0 - 2.0 * alpha)
    smallest = np.fmin.reduce(null / np.fmax.reduce(null, axis=1)[:, None], axis=1)
    p = excess_p(impact, np.broadcast_to(smallest[:, None], (*impact.shape, smallest.shape[-1])), -1)
    high = np.where(p < 1.0 - request.level, np.minimum(1.0, np.maximum(high, group_high / greatest)), 1.0)
    unknown = np.isnan(impact) | np.isnan(group_high)
    return impact, np.where(unknown, np.nan, np.minimum(low, impact)), np.where(unknown, np.nan, np.maximum(high, impact))
