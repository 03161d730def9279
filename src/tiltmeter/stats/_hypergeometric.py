"""Tails of hypergeometric distributions and of their sums, exact far out; arrays of whole counts as floats.

A table has rows (a, n - a) and (c, m - c): `a` of `n` in one group, `c` of `m` in the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py

__all__ = ["convolved_tail", "upper_tail"]

Floats = NDArray[np.float64]

BLOCK = 1 << 21  # array elements that tests over strata hold at once (16 MiB)

_TABLE = np.arange(16.0)
_SMALL_REMAINDER = gammaln(_TABLE + 1) - _TABLE * np.log(np.maximum(_TABLE, 1)) + _TABLE


def upper_tail(a: Floats, n: Floats, c: Floats, m: Floats) -> Floats:
    """The hypergeometric chance of `a` or more where `a` lies above its expectation: terms that only fall."""
    total, term = np.ones(a.shape), np.ones(a.shape)
    active = np.arange(a.size)
    step = 0
    while active.size:
        x, y = a[active] + step, c[active] - step
        term[active] *= (n[active] - x) * y / ((x + 1) * (m[active] - y + 1))
        total[active] += term[active]
        active = active[term[active] > 1e-18 * total[active]]
        step += 1
    return np.minimum(np.exp(_log_chance(a, n, c, m)) * total, 1.0)


def _log_chance(a: Floats, n: Floats, c: Floats, m: Floats) -> Floats:
    """The log of the hypergeometric chance of the table with rows (a, n - a) and (c, m - c).

    Written with Stirling remainders and deviances from the expected counts, which cancel nothing: at 1e-110, fourteen digits.
    Source: Loader (2000), "Fast and accurate computation of binomial probabilities", carried over to the hypergeometric.
    """
    does, total = a + c, n + m
    log_p = _remainder(n) + _remainder(m) + _remainder(does) + _remainder(total - does) - _remainder(total)
    for cell, row, column in ((a, n, does), (n - a, n, total - does), (c, m, does), (m - c, m, total - does)):
        expected = row * column / np.maximum(total, 1)
        part = np.divide(cell - expected, expected, out=np.zeros_like(expected), where=expected > 0)
        log_p -= _remainder(cell) + expected * (xlog1py(1 + part, part) - part)
    return log_p


def _remainder(n: Floats) -> Floats:
    """log n! - n log n + n, which is 0 at 0."""
    big = np.maximum(n, 16.0)
    inverse = 1.0 / big**2
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))) / big
    value: Floats = np.where(n < 16, _SMALL_REMAINDER[np.minimum(n, 15).astype(np.intp)], 0.5 * np.log(2 * np.pi * big) + series)
    return value


def convolved_tail(a: Floats, n: Floats, c: Floats, m: Floats) -> Floats:
    """(tests, strata) tables -> (tests,) chance that the sum of the counts is as great or greater, given all margins."""
    p = np.ones(len(a))
    does = a + c
    lowest = np.maximum(does - m, 0)
    widths = (np.minimum(n, does) - lowest).max(axis=-1, initial=0).astype(np.intp) + 1
    # Tests of like width go together, so that one wide table does not widen all.
    for exponent in np.unique(np.ceil(np.log2(widths)).astype(np.intp)):
        chosen = np.flatnonzero(np.ceil(np.log2(widths)).astype(np.intp) == exponent)
        width = int(widths[chosen].max())
        rows = max(1, BLOCK // (a.shape[1] * width))
        for begin in range(0, chosen.size, rows):
            some = chosen[begin : begin + rows]
            p[some] = _block_tail(a[some], n[some], does[some], m[some], lowest[some], width)
    return p


def _block_tail(a: Floats, n: Floats, does: Floats, m: Floats, lowest: Floats, width: int) -> Floats:
    tests, strata = a.shape
    x = lowest[..., None] + np.arange(width)
    possible = x <= np.minimum(n, does)[..., None]
    x = np.where(possible, x, lowest[..., None])
    sizes, others = np.broadcast_to(n[..., None], x.shape), np.broadcast_to(m[..., None], x.shape)
    chance = np.where(possible, np.exp(_log_chance(x, sizes, does[..., None] - x, others)), 0.0)
    sums = np.zeros((tests, strata * (width - 1) + 1))
    sums[:, 0] = 1.0
    for stratum in range(strata):
        added = np.zeros_like(sums)
        reach = stratum * (width - 1) + 1
        for step in range(width):
            added[:, step : step + reach] += sums[:, :reach] * chance[:, stratum, step, None]
        sums = added
    start = (a - lowest).sum(axis=-1).astype(np.intp)
    # Summed from the far end, smallest first.
    tails = np.cumsum(sums[:, ::-1], axis=-1)[:, ::-1]
    p: Floats = np.minimum(tails[np.arange(tests), start], 1.0)
    return p
