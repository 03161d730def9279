"""Dixon's test for an outlier among 3 to 30 values, at both ends, for many samples at once.

The ratio depends on how many values there are: r10 (3 to 7), r11 (8 to 10), r21 (11 to 13), r22 (14 to 30). The critical values stand
in `dixon_critical.csv`, computed by `scripts/dixon_critical_values.py`.

Sources: Dixon (1951), "Ratios involving extreme values"; Rorabacher (1991), "Statistical treatment for rejection of deviant values".
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LARGEST", "SMALLEST", "DixonTest", "critical_value", "dixon_test", "original_verdicts"]

Floats = NDArray[np.float64]
SMALLEST, LARGEST = 3, 30
# From so many values on: how far the neighbour lies from the end, and how many values the other end leaves out.
_RATIOS = ((3, 1, 0), (8, 1, 1), (11, 2, 1), (14, 2, 2))


class DixonTest(NamedTuple):
    """Ratios of the least and the greatest value, and the critical value of the larger of them; NaN where there is no test."""

    low: Floats
    high: Floats
    critical: Floats


def dixon_test(values: ArrayLike, alpha: float = 0.05) -> DixonTest:
    """Return Dixon's ratios of both ends of (..., n) values along the last axis, NaN being missing.

    Args:
        values: Any shape; the number of values present decides which ratio is used.
        alpha: Two-sided significance of the critical value, one of those in the table (0.2 to 0.002).

    Returns:
        Arrays of the leading shape. An outlier is one whose ratio exceeds the critical value. All values equal, or fewer than 3 or more
        than 30 of them, give NaN ratios.

    Raises:
        ValueError: if there are no critical values for `alpha`.
    """
    given = np.asarray(values, dtype=np.float64)
    ordered = np.sort(given, axis=-1)
    count = (~np.isnan(given)).sum(axis=-1)
    low, high, critical = (np.full(count.shape, np.nan) for _ in range(3))
    for n in np.unique(count):
        if not SMALLEST <= n <= LARGEST:
            continue
        step, cut = next((step, cut) for first, step, cut in reversed(_RATIOS) if n >= first)
        chosen = count == n
        x = ordered[chosen]
        with np.errstate(invalid="ignore", divide="ignore"):
            below = (x[:, step] - x[:, 0]) / (x[:, n - 1 - cut] - x[:, 0])
            above = (x[:, n - 1] - x[:, n - 1 - step]) / (x[:, n - 1] - x[:, cut])
        # All other values equal: the end stands apart wholly (1), and where it equals them too there is nothing to test (NaN).
        low[chosen], high[chosen] = (np.where(np.isinf(part), 1.0, part) for part in (below, above))
        critical[chosen] = critical_value(int(n), alpha)
    return DixonTest(low, high, critical)


def critical_value(n: int, alpha: float = 0.05) -> float:
    """Return the two-sided critical value of the ratio that is used for n values; n is 3 to 30.

    Raises:
        ValueError: if the table has no such n or alpha.
    """
    alphas, rows = _table()
    if alpha not in alphas:
        raise ValueError(f"Dixon's test has critical values for alpha {', '.join(f'{known:g}' for known in alphas)}, not for {alpha:g}")
    if n not in rows:
        raise ValueError(f"Dixon's test is for {SMALLEST} to {LARGEST} values, not for {n}")
    return rows[n][alphas.index(alpha)]


@cache
def _table(name: str = "dixon_critical.csv") -> tuple[list[float], dict[int, list[float]]]:
    header, *lines = files("tiltmeter.stats").joinpath(name).read_text(encoding="utf-8").split()
    rows = {int(n): [float(value) for value in values] for n, *values in (line.split(",") for line in lines)}
    return [float(alpha) for alpha in header.split(",")[1:]], rows


NOT_APPLICABLE, NOT_SIGNIFICANT = "not applicable due to sample size", "not significance"
_ORIGINAL_STEPS = ((4, 0), (8, 1), (11, 2), (14, 2))
"""From so many values on: how far the neighbour lies from the least value."""


def original_verdicts(values: ArrayLike) -> NDArray[np.object_]:
    """Return what the package `sagedbias` says of (..., n) values, NaN being missing: the smallest significance level reached, in words.

    It looks at the low end only and divides by the whole range; for 4 to 7 values its ratio is always 0; and it has critical values
    for 8 to 20, 25 and 30 values only (those of Rorabacher 1991, in `dixon_published.csv`), so that nothing else can be significant.
    """
    given = np.asarray(values, dtype=np.float64)
    ordered = np.sort(given, axis=-1)
    count = (~np.isnan(given)).sum(axis=-1)
    verdicts = np.full(count.shape, NOT_APPLICABLE, dtype=object)
    alphas, rows = _table("dixon_published.csv")
    for n in np.unique(count):
        if not _ORIGINAL_STEPS[0][0] <= n <= LARGEST:
            continue
        step = next(step for first, step in reversed(_ORIGINAL_STEPS) if n >= first)
        chosen = count == n
        x = ordered[chosen]
        width = x[:, n - 1] - x[:, 0]
        ratio = np.divide(x[:, step] - x[:, 0], width, out=np.zeros_like(width), where=width > 0)
        said = np.full(width.shape, NOT_SIGNIFICANT, dtype=object)
        for alpha, critical in sorted(zip(alphas, rows.get(int(n), ()), strict=False), reverse=True):
            said[ratio > critical] = f"significance at {alpha:g}"
        verdicts[chosen] = said
    return verdicts
