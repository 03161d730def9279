"""Resamples of units and exchanges of groups within units, in blocks that bound the memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tiltmeter.errors import InputError
from tiltmeter.stats import Interval, MaximumEstimate, is_constant, maximum_interval, percentile_interval, rare_event_interval

__all__ = ["check_resampling", "exchanged", "interval_of", "maximum_of", "mean_distance_of", "number", "resampled", "turned", "two_sided"]

Floats = NDArray[np.float64]

BLOCK_CELLS = 2_000_000
RESAMPLES, EXCHANGES = 1, 2
"""Numbers of the streams: none is the one that a generator seeded with `seed` alone gives, with which the data may have been made."""
PERCENTILE = "percentile bootstrap"
MAXIMUM = "bootstrap, corrected for the lift of a distance by noise; starts at 0 unless p is small"
CONSTANT = "every resample gave the same value: as far as so many units that agree leave room for others"
FLOOR = "bootstrap; starts at 0 unless p is small, else at the estimate less the critical value of exchanged groups"
EQUAL = 1e-12


def check_resampling(level: float, resamples: int, permutations: int = 0) -> None:
    """Raise InputError unless the settings make sense."""
    if not 0.0 < level < 1.0:
        raise InputError(f"level must lie between 0 and 1, for instance 0.95, not {level}")
    if resamples < 1:
        raise InputError(f"resamples must be at least 1, not {resamples}")
    if permutations < 0:
        raise InputError(f"permutations must be 0 (no test) or more, not {permutations}")


def resampled(units: int, resamples: int, seed: int) -> Iterator[Floats]:
    """How often each unit counts in each resample, blocks of (rows, units).

    Of n units n - 1 are drawn with replacement, each draw counting n / (n - 1); so means have an unbiased variance however few units
    there are (Rao, Wu and Yue 1992). A lone unit counts once.
    """
    generator = np.random.Generator(np.random.PCG64([seed, RESAMPLES]))
    rows = max(1, BLOCK_CELLS // max(1, units))
    for begin in range(0, resamples, rows):
        block = np.ones((min(rows, resamples - begin), units))
        if units > 1:
            for row in block:
                row[:] = np.bincount((generator.random(units - 1) * units).astype(np.intp), minlength=units)
            block *= units / (units - 1)
        yield block


def turned(units: int, answers: int, draws: int, seed: int) -> Iterator[Floats]:
    """Which pairs are turned round, blocks of (rows, units, answers): -1 for these, 1 for the others, both equally likely."""
    generator = np.random.Generator(np.random.PCG64([seed, EXCHANGES]))
    rows = max(1, BLOCK_CELLS // max(1, units * answers))
    for begin in range(0, draws, rows):
        # One stream of random numbers, so that the draws do not depend on the size of the blocks.
        yield np.where(generator.random((min(rows, draws - begin), units, answers)) < 0.5, -1.0, 1.0)


def exchanged(units: int, groups: int, draws: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """For each draw and unit a random order of the groups, blocks of (rows, units, groups): the place each group goes to."""
    generator = np.random.Generator(np.random.PCG64([seed, EXCHANGES]))
    rows = max(1, BLOCK_CELLS // max(1, units * groups))
    for begin in range(0, draws, rows):
        yield np.argsort(generator.random((min(rows, draws - begin), units, groups)), axis=2)


def interval_of(
    estimate: float, samples: Floats, units: int, level: float, bounds: tuple[float, float] | None
) -> tuple[Interval, str | None]:
    """Interval of a mean or another smooth statistic, and how it was made; none with fewer than two units."""
    if units < 2 or math.isnan(estimate):
        return Interval(math.nan, math.nan), None
    if bounds is not None and is_constant(samples):
        return rare_event_interval(estimate, units, *bounds, level), CONSTANT
    return percentile_interval(samples, level), PERCENTILE


def maximum_of(
    estimate: float, samples: Floats, null: Floats, units: int, level: float, bounds: tuple[float, float] | None
) -> tuple[MaximumEstimate, str | None]:
    """Interval and p of a distance, which noise can only lift; `estimate` itself stays as published."""
    if math.isnan(estimate):
        return MaximumEstimate(math.nan, math.nan, math.nan, math.nan), None
    found = maximum_interval(estimate, samples, null, level)
    if units < 2:
        return found._replace(low=math.nan, high=math.nan), None
    if bounds is not None and estimate <= EQUAL and is_constant(samples):
        low, high = rare_event_interval(estimate, units, *bounds, level)
        return found._replace(low=low, high=high), CONSTANT
    return found, MAXIMUM


def mean_distance_of(estimate: float, samples: Floats, null: Floats, units: int, level: float) -> tuple[MaximumEstimate, str | None]:
    """Interval and p of a mean of distances, each lifted by the noise within its own unit, which resampling units does not show.

    A distance in the data is at most the true one plus that of the noise, so that the true mean is at least `estimate` less the critical
    value under exchanged groups. Without a test (nothing to exchange) only the bootstrap is left.
    """
    if math.isnan(estimate):
        return MaximumEstimate(math.nan, math.nan, math.nan, math.nan), None
    p = two_sided(estimate, null)
    low, high = percentile_interval(samples, level) if units > 1 else (math.nan, math.nan)
    if units > 1 and null.size:
        critical = float(np.quantile(null, level, method="higher"))
        low = max(0.0, min(low, estimate - critical)) if p < 1.0 - level else 0.0
    how = (FLOOR if null.size else PERCENTILE) if units > 1 else None
    return MaximumEstimate(estimate, low, high, p), how


def two_sided(estimate: float, null: Floats) -> float:
    """(1 + exchanges at least as far from 0) / (1 + exchanges); NaN without an estimate or an exchange."""
    known = null[~np.isnan(null)]
    if math.isnan(estimate) or not known.size:
        return math.nan
    return float((1 + (np.abs(known) >= abs(estimate) - EQUAL).sum()) / (1 + known.size))


def number(value: float) -> float | None:
    """The value, null where there is none."""
    return None if math.isnan(value) else float(value)
