"""How far the values of a statistic lie apart over groups, for many resamples at once, and Dixon's test for an outlying group.

Every comparison is one entry of `COMPARISONS`: a function of `GroupValues`, which holds (..., G) values of G groups (NaN: the group has
none) and computes what several comparisons share once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter.arrays import Booleans, Floats, Index, Objects
from tiltmeter.stats.arithmetic import ROUNDING, count_present, floats, mean_present, ratio
from tiltmeter.stats.summary import DEFAULT_FORMULAS, Formulas

SMALLEST, LARGEST = 3, 30
"""Numbers of values that Dixon's test is for."""
NOT_APPLICABLE, NOT_SIGNIFICANT = "not applicable due to sample size", "not significance"


class GroupValues:
    """The values of one statistic over groups, and what several comparisons need of them."""

    def __init__(self, values: Floats, formulas: Formulas = DEFAULT_FORMULAS) -> None:
        """`values` (..., G), NaN where a group has no value."""
        self.values, self.formulas = values, formulas

    @cached_property
    def count(self) -> Index:
        """How many groups have a value."""
        return np.asarray(count_present(self.values))

    @cached_property
    def max(self) -> Floats:
        """The greatest value."""
        return np.asarray(np.fmax.reduce(self.values, axis=-1))

    @cached_property
    def min(self) -> Floats:
        """The least value."""
        return np.asarray(np.fmin.reduce(self.values, axis=-1))

    @cached_property
    def mean(self) -> Floats:
        """The mean over groups."""
        return mean_present(self.values)

    @cached_property
    def squares(self) -> Floats:
        """Sum of the squared deviations from it."""
        return np.asarray(np.nansum((self.values - self.mean[..., None]) ** 2, axis=-1))

    @cached_property
    def z(self) -> Floats:
        """Deviation of each group (..., G) from their mean in standard deviations (divisor G); NaN where all are equal."""
        sd = np.sqrt(self.squares / self.count)
        sd = np.where(sd > ROUNDING * np.abs(self.mean), sd, np.nan)
        return (self.values - self.mean[..., None]) / sd[..., None]

    @cached_property
    def dixon(self) -> DixonTest:
        """Dixon's ratios of both ends, and the critical value at 95%."""
        # Equal but for rounding, values would seem to lie apart.
        equal = self.max - self.min <= ROUNDING * np.maximum(np.abs(self.max), np.abs(self.min))
        return dixon_test(np.where(equal[..., None] & ~np.isnan(self.values), 0.0, self.values))

    def among_several(self, value: Floats) -> Floats:
        """Return a comparison where it needs two groups; the original compares one with itself."""
        return np.where(self.count > 1, value, np.nan) if self.formulas.proper_comparisons else value


def _range(groups: GroupValues) -> Floats:
    return groups.among_several(groups.max - groups.min)


def _smallest_ratio(groups: GroupValues) -> Floats:
    # A ratio is one of amounts; of negative values, or of nothing, it says nothing. The original gives it for negative values too.
    defined = (groups.max > 0) & (groups.min >= 0) if groups.formulas.proper_comparisons else groups.max != 0
    return groups.among_several(ratio(groups.min, np.where(defined, groups.max, 0.0)))


def _sd(groups: GroupValues) -> Floats:
    return np.sqrt(ratio(groups.squares, np.maximum(groups.count - 1.0, 0.0)))


def _dixon_q(groups: GroupValues) -> Floats:
    return np.fmax(groups.dixon.low, groups.dixon.high)


class DisparityMeasure(NamedTuple):
    """One entry.

    Attributes
    ----------
    compute
        The comparison of (..., G) values.
    none
        Its value where groups do not differ at all, if it is a distance from there that noise lifts; the interval is then corrected.
    extreme
        +1 if great values speak of a difference, -1 if small ones do, 0 if it is no test.
    group
        Which group it is about: "max", "min", "z" (the greatest |z|), "low" or "high" (an end), "end" (the farther end), or none.
    """

    compute: Callable[[GroupValues], Floats]
    none: float | None = None
    extreme: int = 0
    group: str = ""


COMPARISONS: Mapping[str, DisparityMeasure] = {
    "max": DisparityMeasure(lambda groups: groups.max, group="max"),
    "min": DisparityMeasure(lambda groups: groups.min, group="min"),
    "range": DisparityMeasure(_range, none=0.0, extreme=1),
    "ratio": DisparityMeasure(_smallest_ratio, none=1.0, extreme=-1),
    "average": DisparityMeasure(lambda groups: groups.mean),
    "sd": DisparityMeasure(_sd, none=0.0, extreme=1),
    "max_z": DisparityMeasure(lambda groups: groups.among_several(np.fmax.reduce(groups.z, axis=-1)), extreme=1, group="max"),
    "max_abs_z": DisparityMeasure(lambda groups: groups.among_several(np.fmax.reduce(np.abs(groups.z), axis=-1)), extreme=1, group="z"),
    "dixon_low": DisparityMeasure(lambda groups: groups.dixon.low, extreme=1, group="min"),
    "dixon_high": DisparityMeasure(lambda groups: groups.dixon.high, extreme=1, group="max"),
    "dixon_q": DisparityMeasure(_dixon_q, extreme=1, group="end"),
    "dixon_margin": DisparityMeasure(lambda groups: _dixon_q(groups) - groups.dixon.critical, extreme=1, group="end"),
}


class DixonTest(NamedTuple):
    """Ratios of the least and the greatest value, and the critical value of the larger of them; NaN where there is no test."""

    low: Floats
    high: Floats
    critical: Floats


def dixon_test(values: ArrayLike) -> DixonTest:
    """Return Dixon's ratios of both ends of (..., n) values along the last axis, NaN being missing.

    The ratio depends on how many values there are: r10 (3 to 7), r11 (8 to 10), r21 (11 to 13), r22 (14 to 30).

    Parameters
    ----------
    values
        Any shape; the number of values present decides which ratio is used.

    Returns
    -------
    Arrays of the leading shape. An outlier is one whose ratio exceeds the critical value (two-sided, at 5%). All values equal, or fewer
    than 3 or more than 30 of them, give NaN ratios.

    References
    ----------
    Dixon (1951), "Ratios involving extreme values"; Rorabacher (1991), "Statistical treatment for rejection of deviant values".
    """
    given = floats(values)
    low, high, critical = np.full((3, *given.shape[:-1]), np.nan)
    alphas, rows = critical_values_of("dixon_critical.csv")
    for n, chosen, x in _by_count(given):
        step = 1 + (n >= 11)  # how far the neighbour lies from the end
        cut = (n >= 8) + (n >= 14)  # how many values the other end leaves out
        with np.errstate(invalid="ignore", divide="ignore"):
            below = (x[:, step] - x[:, 0]) / (x[:, n - 1 - cut] - x[:, 0])
            above = (x[:, n - 1] - x[:, n - 1 - step]) / (x[:, n - 1] - x[:, cut])
        # All other values equal: the end lies wholly apart (1), and where it equals them too there is nothing to test (NaN).
        low[chosen], high[chosen] = (np.where(np.isinf(part), 1.0, part) for part in (below, above))
        critical[chosen] = rows[n][alphas.index(0.05)]
    return DixonTest(low, high, critical)


def original_verdicts(values: ArrayLike) -> Objects:
    """Return what the package `sagedbias` says of (..., n) values, NaN being missing: the smallest significance level reached, in words.

    It looks at the low end only and divides by the whole range; for 4 to 7 values its ratio is always 0; and it has critical values
    for 8 to 20, 25 and 30 values only (those of Rorabacher 1991, in `dixon_published.csv`), so that nothing else can be significant.
    """
    given = floats(values)
    verdicts = np.full(given.shape[:-1], NOT_APPLICABLE, dtype=object)
    alphas, rows = critical_values_of("dixon_published.csv")
    for n, chosen, x in _by_count(given):
        if n == SMALLEST:
            continue
        step = (n >= 8) + (n >= 11)
        share = np.nan_to_num(ratio(x[:, step] - x[:, 0], x[:, n - 1] - x[:, 0]))
        said = np.full(share.shape, NOT_SIGNIFICANT, dtype=object)
        for alpha, critical in sorted(zip(alphas, rows.get(n, ()), strict=False), reverse=True):
            said[share > critical] = f"significance at {alpha:g}"
        verdicts[chosen] = said
    return verdicts


def _by_count(values: Floats) -> Iterator[tuple[int, Booleans, Floats]]:
    """For each number of values that Dixon's test is for: it, which samples have so many, and their values in order."""
    ordered = np.sort(values, axis=-1)
    count = count_present(ordered)
    for n in range(SMALLEST, min(LARGEST, values.shape[-1]) + 1):
        if (chosen := count == n).any():
            yield n, chosen, ordered[chosen][:, :n]


@cache
def critical_values_of(table: str) -> tuple[list[float], dict[int, list[float]]]:
    """Return the levels of a table of critical values, and its row for each number of values.

    `dixon_critical.csv` (two-sided) is computed by `scripts/dixon_critical_values.py`; `dixon_published.csv` is of one end.
    """
    header, *rows = np.genfromtxt(Path(__file__).with_name(table), delimiter=",").tolist()
    return header[1:], {int(n): values for n, *values in rows}
