"""Disparity of a statistic between groups, vectorised over resamples, and Dixon's test for an outlying group.

Each comparison is one entry of `COMPARISONS`: a function of a `GroupValues` object, which holds (..., G)
values of G groups (NaN where a group has no value) and caches intermediate results that several comparisons
use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter._arrays import Booleans, Floats, Index, Objects
from tiltmeter.stats._arithmetic import ROUNDING, count_present, floats, mean_present, ratio
from tiltmeter.stats._summary import DEFAULT_FORMULAS, Formulas

SMALLEST, LARGEST = 3, 30
"""Smallest and largest number of values for which Dixon's test is defined."""
NOT_APPLICABLE, NOT_SIGNIFICANT = "not applicable due to sample size", "not significance"


class GroupValues:
    """Values of one statistic by group, with cached intermediate results of the comparisons."""

    def __init__(self, values: Floats, formulas: Formulas = DEFAULT_FORMULAS) -> None:
        """Store `values` of shape (..., G), NaN where a group has no value."""
        self.values: Floats = values
        self.formulas: Formulas = formulas

    @cached_property
    def count(self) -> Index:
        """Number of groups with a value, shape (...)."""
        return count_present(self.values)

    @cached_property
    def max(self) -> Floats:
        """Largest value, shape (...)."""
        return np.asarray(np.fmax.reduce(self.values, axis=-1))

    @cached_property
    def min(self) -> Floats:
        """Smallest value, shape (...)."""
        return np.asarray(np.fmin.reduce(self.values, axis=-1))

    @cached_property
    def mean(self) -> Floats:
        """Unweighted mean over groups, shape (...)."""
        return mean_present(self.values)

    @cached_property
    def squares(self) -> Floats:
        """Sum of squared deviations from the mean, shape (...)."""
        return np.asarray(np.nansum((self.values - self.mean[..., None]) ** 2, axis=-1))

    @cached_property
    def z(self) -> Floats:
        """Z-score of each group, shape (..., G); NaN where all values are equal.

        The standard deviation has the divisor G.
        """
        sd = np.sqrt(self.squares / self.count)
        sd = np.where(sd > ROUNDING * np.abs(self.mean), sd, np.nan)
        return (self.values - self.mean[..., None]) / sd[..., None]

    @cached_property
    def size(self) -> Floats:
        """Sum of squares.

        For the values of `studentise`, the Welch-James statistic of equal means, shape (...).
        """
        return np.asarray(np.nansum(self.values**2, axis=-1))

    @cached_property
    def dixon(self) -> DixonTest:
        """Dixon's ratios of both ends, and the two-sided critical value at 5%."""
        # Values that differ by rounding error only count as equal.
        size = np.maximum(np.abs(self.max), np.abs(self.min))
        equal = self.max - self.min <= ROUNDING * size
        present = ~np.isnan(self.values)
        return dixon_test(np.where(equal[..., None] & present, 0.0, self.values))

    def among_several(self, value: Floats) -> Floats:
        """Mask a comparison that needs two groups with NaN.

        The original formulas also compare a single group with itself.
        """
        if not self.formulas.proper_comparisons:
            return value
        return np.where(self.count > 1, value, np.nan)


def _range(groups: GroupValues) -> Floats:
    return groups.among_several(groups.max - groups.min)


def _smallest_ratio(groups: GroupValues) -> Floats:
    # The ratio is defined for non-negative values with a positive maximum; the original formula also accepts
    # negative values.
    if groups.formulas.proper_comparisons:
        defined = (groups.max > 0) & (groups.min >= 0)
    else:
        defined = groups.max != 0
    denominator = np.where(defined, groups.max, 0.0)
    return groups.among_several(ratio(groups.min, denominator))


def _sd(groups: GroupValues) -> Floats:
    return np.sqrt(ratio(groups.squares, np.maximum(groups.count - 1.0, 0.0)))


def _dixon_q(groups: GroupValues) -> Floats:
    return np.fmax(groups.dixon.low, groups.dixon.high)


def _dixon_margin(groups: GroupValues) -> Floats:
    return _dixon_q(groups) - groups.dixon.critical


def _max_z(groups: GroupValues) -> Floats:
    return groups.among_several(np.fmax.reduce(groups.z, axis=-1))


def _max_abs_z(groups: GroupValues) -> Floats:
    return groups.among_several(np.fmax.reduce(np.abs(groups.z), axis=-1))


class DisparityMeasure(NamedTuple):
    """One comparison of groups.

    Attributes
    ----------
    compute
        Function of a `GroupValues` of shape (..., G); returns an array of shape (...).
    none
        Value when all groups are equal, for measures whose distance from it is inflated by sampling noise;
        their interval is corrected for that. None for other measures.
    extreme
        +1 if large values indicate a difference, -1 if small values do, 0 if the measure is not tested.
    group
        The group reported with the measure: "max", "min", "z" (largest |z|), "end" (the end with the larger
        Dixon ratio), or "" for none.
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
    "max_z": DisparityMeasure(_max_z, extreme=1, group="max"),
    "max_abs_z": DisparityMeasure(_max_abs_z, extreme=1, group="z"),
    "dixon_low": DisparityMeasure(lambda groups: groups.dixon.low, extreme=1, group="min"),
    "dixon_high": DisparityMeasure(lambda groups: groups.dixon.high, extreme=1, group="max"),
    "dixon_q": DisparityMeasure(_dixon_q, extreme=1, group="end"),
    "dixon_margin": DisparityMeasure(_dixon_margin, extreme=1, group="end"),
}


def studentise(means: ArrayLike, errors: ArrayLike) -> Floats:
    """Compute the difference of each group's mean from that of all groups, in standard errors of the group.

    The mean of all groups weighs each by the inverse of its squared standard error. The sum of the squares of
    the result is the Welch-James statistic, whose permutation distribution is close to its distribution
    without differences between means even if spreads and sizes of the groups differ; that of the range is
    not.

    Parameters
    ----------
    means
        (..., G) means; NaN where a group has none.
    errors
        (..., G) squared standard errors, above 0.

    References
    ----------
    Welch (1951), "On the comparison of several mean values"; Chung and Romano (2013), "Exact and
    asymptotically robust permutation tests".
    """
    values, weights = floats(means), 1.0 / floats(errors)
    weights_present = np.where(np.isnan(values), 0.0, weights)
    weighted = weights_present * np.nan_to_num(values)
    centre = ratio(weighted.sum(axis=-1), weights_present.sum(axis=-1))
    return np.asarray((values - centre[..., None]) * np.sqrt(weights))


def welch_p(statistic: ArrayLike, errors: ArrayLike, counts: ArrayLike) -> Floats:
    """Compute the p-value of Welch's test of equal means from the Welch-James statistic.

    Parameters
    ----------
    statistic
        (...) sums of the squares of the values of `studentise`.
    errors
        (..., G) squared standard errors of the means, above 0; NaN where a group has no mean.
    counts
        (..., G) numbers of values. A group with a single value counts as one whose variance is known.

    Returns
    -------
    Array of shape (...); NaN with fewer than two groups.

    References
    ----------
    Welch (1951), "On the comparison of several mean values".
    """
    from scipy import special

    inverse = 1.0 / floats(errors)
    weights = np.nan_to_num(inverse)
    groups = count_present(inverse).astype(np.float64)
    freedom = floats(counts) - 1.0
    uncertainty = (1.0 - ratio(weights, weights.sum(axis=-1, keepdims=True))) ** 2
    estimated = (freedom > 0) & (weights > 0)
    spread = np.where(estimated, ratio(uncertainty, freedom), 0.0).sum(axis=-1)
    scale = ratio(2.0 * (groups - 2.0) * spread, groups**2 - 1.0) + 1.0
    numerator = groups - 1.0  # degrees of freedom
    f = ratio(floats(statistic), numerator * scale)
    denominator = np.where(spread > 0, ratio(groups**2 - 1.0, 3.0 * spread), np.inf)
    unlimited = np.isinf(denominator)
    # The survival function of F as an incomplete beta function.
    share = np.where(unlimited, np.nan, ratio(denominator, denominator + numerator * f))
    of_chi_squared = special.chdtrc(numerator, numerator * f)
    of_f = special.betainc(denominator / 2.0, numerator / 2.0, share)
    p: Floats = np.where(unlimited, of_chi_squared, of_f)
    return np.where(groups > 1, p, np.nan)


class DixonTest(NamedTuple):
    """Dixon's ratios of the smallest and the largest value, and the critical value for the larger ratio.

    NaN where undefined.
    """

    low: Floats
    high: Floats
    critical: Floats


def dixon_test(values: ArrayLike) -> DixonTest:
    """Compute Dixon's ratios of the smallest and the largest value along the last axis.

    The ratio depends on the number of values present: r10 (3 to 7), r11 (8 to 10), r21 (11 to 13), r22 (14 to
    30).

    Parameters
    ----------
    values
        (..., n) values; NaN is missing.

    Returns
    -------
    Arrays of shape (...). A value is an outlier if its ratio exceeds the critical value (two-sided, at 5%).
    The ratios are NaN where all values are equal, or where fewer than 3 or more than 30 are present.

    References
    ----------
    Dixon (1951), "Ratios involving extreme values"; Rorabacher (1991), "Statistical treatment for rejection
    of deviant values".
    """
    samples = floats(values)
    low, high, critical = np.full((3, *samples.shape[:-1]), np.nan)
    alphas, rows = critical_values_of("dixon_critical.csv")
    for n, chosen, x in _by_count(samples):
        step = 1 + (n >= 11)  # position of the neighbour, counted from the tested end
        cut = (n >= 8) + (n >= 14)  # values ignored at the opposite end
        low[chosen] = _gap_ratio(x[:, 0], x[:, step], x[:, n - 1 - cut])
        high[chosen] = _gap_ratio(x[:, n - 1], x[:, n - 1 - step], x[:, cut])
        critical[chosen] = rows[n][alphas.index(0.05)]
    return DixonTest(low, high, critical)


def _gap_ratio(end: Floats, neighbour: Floats, opposite: Floats) -> Floats:
    """Compute the distance of one end of the sorted values to its neighbour, relative to the range.

    If all other values are equal, the ratio is 1; if the end equals them too, it is NaN.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.abs(neighbour - end) / np.abs(opposite - end)
    return np.where(np.isinf(ratios), 1.0, ratios)


def original_verdicts(values: ArrayLike) -> Objects:
    """Reproduce the verdict of the package `sagedbias`: a text with the smallest significance level reached.

    `values` have the shape (..., n).

    The package tests the smallest value only and divides by the whole range. For 4 to 7 values its ratio is
    always 0. It has critical values for 8 to 20, 25 and 30 values only (Rorabacher 1991, in
    `dixon_published.csv`); other numbers of values are never significant. NaN is missing.
    """
    samples = floats(values)
    verdicts = np.full(samples.shape[:-1], NOT_APPLICABLE, dtype=object)
    alphas, rows = critical_values_of("dixon_published.csv")
    for n, chosen, x in _by_count(samples):
        if n == SMALLEST:
            continue
        step = (n >= 8) + (n >= 11)
        share = np.nan_to_num(ratio(x[:, step] - x[:, 0], x[:, n - 1] - x[:, 0]))
        texts = np.full(share.shape, NOT_SIGNIFICANT, dtype=object)
        if n in rows:
            for alpha, critical in sorted(zip(alphas, rows[n], strict=True), reverse=True):
                texts[share > critical] = f"significance at {alpha:g}"
        verdicts[chosen] = texts
    return verdicts


def _by_count(values: Floats) -> Iterator[tuple[int, Booleans, Floats]]:
    """Yield each sample size of Dixon's test that occurs, a mask of its samples, and their sorted values."""
    ordered = np.sort(values, axis=-1)
    count = count_present(ordered)
    for n in range(SMALLEST, min(LARGEST, values.shape[-1]) + 1):
        if (chosen := count == n).any():
            yield n, chosen, ordered[chosen][:, :n]


@cache
def critical_values_of(table: str) -> tuple[list[float], dict[int, list[float]]]:
    """Read the significance levels of a table of critical values, and its row for each number of values.

    `dixon_critical.csv` (two-sided) is computed by `scripts/dixon_critical_values.py`; `dixon_published.csv`
    is one-sided.
    """
    header, *rows = np.genfromtxt(Path(__file__).with_name(table), delimiter=",").tolist()
    return header[1:], {int(n): values for n, *values in rows}
