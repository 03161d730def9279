"""The difference between two sides that were measured on the same items: interval and p-value that agree with each other."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtr, stdtrit

from tiltmeter.stats._blocks import block_rows, checked_values
from tiltmeter.stats.intervals import ROUNDING
from tiltmeter.stats.ratios import ratio

__all__ = ["PairedDifference", "exchange_difference", "exchanged_totals", "independent_difference", "paired_difference"]

Floats = NDArray[np.float64]
FEWEST = 2
"""Resamples with a value without which there is no spread."""


class PairedDifference(NamedTuple):
    """Each (...): ends of the interval, and the p-value of no difference; NaN where there is none."""

    low: Floats
    high: Floats
    p: Floats


def exchanged_totals(first: ArrayLike, second: ArrayLike, *, draws: int, seed: int) -> tuple[Floats, Floats]:
    """Return the column totals of both sides after the sides of each item have been exchanged at random, each with chance one half.

    If both sides behave alike, the two answers to an item are exchangeable, so that these totals are as likely as those observed.

    Args:
        first: (n, K) finite per-item values of one side.
        second: (n, K) those of the other side, same items and columns.
        draws: D, the number of random exchanges.
        seed: The same seed exchanges the same items for the same n.

    Returns:
        Two arrays of shape (D, K).

    Raises:
        ValueError: if the two are not finite matrices of one shape.

    Source: Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses" (matched pairs).
    """
    a, b = checked_values(first, ndim=2), checked_values(second, ndim=2)
    if a.shape != b.shape:
        raise ValueError(f"both sides must have the same items and columns, not shapes {a.shape} and {b.shape}")
    whole, gap = (a + b).sum(axis=0) / 2.0, (a - b) / 2.0
    generator = np.random.Generator(np.random.PCG64(seed))
    moved = np.empty((draws, a.shape[1]))
    rows = block_rows(len(a))
    for begin in range(0, draws, rows):
        count = min(rows, draws - begin)
        # Drawn row by row, so that the stream does not depend on how many rows make a block.
        kept = np.array([generator.integers(2, size=len(a), dtype=np.int8) for _ in range(count)])
        np.matmul(2.0 * kept - 1.0, gap, out=moved[begin : begin + count])
    return whole + moved, whole - moved


def paired_difference(
    observed: ArrayLike,
    resampled: ArrayLike,
    exchanged: ArrayLike | None,
    *,
    units: ArrayLike,
    reach: ArrayLike,
    level: float,
) -> PairedDifference:
    """Return interval and p-value of differences from their bootstrap values and their values under exchange of the sides.

    - The interval is observed -+ t * (bootstrap standard error), with one degree of freedom less than there are units. Where all
      resamples agree, it allows for what so many units could have missed (see `rare_event_interval`).
    - p is the greater of that interval's own p-value and that of the exchange, (1 + #{|exchanged| >= |observed|}) / (1 + N); where no
      exchange reaches the observed difference, the normal tail beyond them counts if it is smaller than 1 / (1 + N).
    - Where the exchange alone gives as much, the interval is drawn to 0. So it excludes 0 if and only if p < 1 - level, and without any
      difference between the sides it does so no more often than 1 - level.

    Args:
        observed: (...) differences; NaN gives NaN.
        resampled: (..., R) differences in resamples of the units, the same units on both sides; NaN is skipped.
        exchanged: (..., N) differences after exchanging sides, NaN skipped; None: the sides cannot be exchanged.
        units: (...) numbers of resampled units.
        reach: (...) the greatest possible |difference|; infinite where there is no bound (all resamples alike then give no interval).
        level: Confidence level.

    Source: Efron and Tibshirani (1993), chapter 12; Good (2005); Clopper and Pearson (1934).
    """
    value = np.asarray(observed, dtype=np.float64)
    count, bound = (np.broadcast_to(np.asarray(one, dtype=np.float64), value.shape) for one in (units, reach))
    found = _by_resampling(value, np.asarray(resampled, dtype=np.float64), count, bound, level)
    if exchanged is not None:
        chance = _by_exchange(value, np.asarray(exchanged, dtype=np.float64))
        found = PairedDifference(*_drawn(found, chance >= 1.0 - level), np.fmax(found.p, np.where(np.isnan(found.p), np.nan, chance)))
    unknown = np.isnan(value)
    low, high = np.maximum(found.low, -bound), np.minimum(found.high, bound)
    return PairedDifference(*(np.where(unknown, np.nan, one) for one in (low, high, found.p)))


def exchange_difference(
    observed: ArrayLike, found: PairedDifference, tested: ArrayLike, exchanged: ArrayLike, level: float
) -> PairedDifference:
    """Return differences of numbers that noise lifts, such as ranges over groups, decided by exchanging the sides.

    Noise lifts both sides alike under exchange, so that p is valid under no difference, where intervals of either side reach down to none
    at all. The given interval is drawn to 0 unless p < 1 - level; then it ends above 0, at the observed difference less the critical value
    of the exchange if that is more.

    Args:
        observed: (...) differences, corrected for what noise lifts them by.
        found: (...) their intervals by other means; its p-values are not used.
        tested: (...) the differences as they are, to hold against `exchanged`.
        exchanged: (..., N) differences after exchanging sides, NaN skipped; see `exchanged_totals`.
        level: Confidence level.
    """
    value, raw, moved = (np.asarray(one, dtype=np.float64) for one in (observed, tested, exchanged))
    size, n = np.abs(raw), (~np.isnan(moved)).sum(axis=-1)
    p = _by_exchange(raw, moved)
    # As many exchanges may reach the critical value as leave p below 1 - level.
    place = np.clip(n - 1 - (np.ceil((1.0 - level) * (1.0 + n)) - 2.0), 0, moved.shape[-1] - 1).astype(np.intp)
    critical = np.take_along_axis(np.sort(np.abs(moved), axis=-1), place[..., None], axis=-1)[..., 0]
    agreeing = np.sign(value) == np.sign(raw)
    surely = (p < 1.0 - level) & (size > critical) & agreeing
    low, high = _drawn(found, ~surely)
    floor = np.minimum(size - critical, np.abs(value))
    low = np.where(surely & (raw > 0), np.maximum(low, floor), low)
    high = np.where(surely & (raw < 0), np.minimum(high, -floor), high)
    unknown = np.isnan(value + found.low + found.high) | (n == 0)
    p = np.where(surely, p, np.maximum(p, 1.0 - level))
    return PairedDifference(*(np.where(unknown, np.nan, one) for one in (low, high, p)))


def _drawn(found: PairedDifference, to_zero: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The intervals, drawn to 0 where chance alone may give as much."""
    return np.where(to_zero, np.minimum(found.low, 0.0), found.low), np.where(to_zero, np.maximum(found.high, 0.0), found.high)


def independent_difference(estimates: ArrayLike, lows: ArrayLike, highs: ArrayLike, level: float) -> PairedDifference:
    """Return interval and p-value of second - first from the intervals of two independent estimates.

    The arms that face each other are joined by squares (MOVER), which suits estimates with one arm longer than the other; p is that of the
    level at which the interval would just reach 0, its arms growing as normal quantiles.

    Args:
        estimates: (..., 2) first and second.
        lows: (..., 2) lower ends of their intervals at `level`.
        highs: (..., 2) upper ends.
        level: Confidence level.

    Source: Zou and Donner (2008), "Construction of confidence limits about effect measures".
    """
    value, low, high = (np.asarray(one, dtype=np.float64) for one in (estimates, lows, highs))
    d = value[..., 1] - value[..., 0]
    down, up = value - low, high - value
    below, above = np.hypot(down[..., 1], up[..., 0]), np.hypot(up[..., 1], down[..., 0])
    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    arm = np.where(d > 0, below, above)
    p = np.where(d == 0, 1.0, 2.0 * ndtr(-z * ratio(np.abs(d), arm)))
    return PairedDifference(d - below, d + above, np.where(np.isnan(below + above), np.nan, p))


def _by_resampling(value: Floats, samples: Floats, units: Floats, reach: Floats, level: float) -> PairedDifference:
    present = ~np.isnan(samples)
    n = present.sum(axis=-1)
    filled = np.where(present, samples, 0.0)
    mean = ratio(filled.sum(axis=-1), n)
    away = np.where(present, samples - mean[..., None], 0.0)
    spread = np.sqrt(ratio((away * away).sum(axis=-1), np.where(n >= FEWEST, n - 1, 0)))
    free = np.maximum(units - 1.0, 1.0)
    half = stdtrit(free, (1.0 + level) / 2.0) * spread
    p = 2.0 * stdtr(free, -ratio(np.abs(value), spread))
    rigid = spread <= ROUNDING * np.maximum(1.0, np.abs(np.where(np.isnan(mean), 0.0, mean)))
    bounded = np.isfinite(reach)
    span = np.where(bounded, 2.0 * reach, 0.0)
    some = np.maximum(units, 1.0)
    slack = span * (1.0 - ((1.0 - level) / 2.0) ** (1.0 / some))
    rare = np.minimum(1.0, 2.0 * (1.0 - np.clip(ratio(np.abs(value), span), 0.0, 1.0)) ** some)
    half = np.where(rigid, np.where(bounded, slack, np.nan), half)
    p = np.where(rigid, np.where(bounded, rare, np.nan), p)
    return PairedDifference(value - half, value + half, p)


def _by_exchange(tested: Floats, exchanged: Floats) -> Floats:
    size = np.abs(tested)
    present = ~np.isnan(exchanged)
    n = present.sum(axis=-1)
    reached = (np.abs(exchanged) >= (size - ROUNDING * np.maximum(1.0, size))[..., None]).sum(axis=-1)
    floor = 1.0 / (1.0 + n)
    spread = np.sqrt(ratio(np.where(present, exchanged**2, 0.0).sum(axis=-1), n))
    beyond = np.minimum(floor, 2.0 * ndtr(-ratio(size, spread)))
    p: Floats = np.where(reached == 0, np.where(np.isnan(beyond), floor, beyond), (1.0 + reached) * floor)
    return p
