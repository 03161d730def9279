"""Formulas for comparisons of the means of groups."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import scipy  # loads its submodules on first use

from tiltmeter._arrays import Floats
from tiltmeter.stats._arithmetic import ratio
from tiltmeter.stats._intervals import Interval

MOST_OF_VARIANCE: Final = 0.5
"""Largest share of the variance of permuted values that differences of the means are assumed to have."""


def exact_rate_interval(rate: float, trials: float, level: float) -> Interval:
    """Compute the interval of Clopper and Pearson; the number of trials need not be a whole number.

    References
    ----------
    Clopper and Pearson (1934), "The use of confidence or fiducial limits"; Korn and Graubard (1998),
    "Confidence intervals for proportions with small expected number of positive counts".
    """
    successes, tail = rate * trials, (1 - level) / 2
    low = scipy.special.betaincinv(successes, trials - successes + 1, tail) if rate > 0 else 0.0
    high = scipy.special.betaincinv(successes + 1, trials - successes, 1 - tail) if rate < 1 else 1.0
    return Interval(float(low), float(high))


def combined_width(one: float, other: float, correlation: float) -> float:
    """Return the half of the interval of a difference from those of two correlated means (square and add).

    Infinite halves give an infinite one.
    """
    if math.isinf(one) or math.isinf(other):
        return math.inf
    return math.sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0))


def ratio_interval(
    means: tuple[float, float], first: Interval, second: Interval, correlation: float
) -> Interval:
    """Combine the intervals of two means that are not negative to that of their ratio (see `mean_ratio`)."""
    numerator, denominator = means
    lowest, highest = max(first.low, 0.0), first.high
    least, most = max(second.low, 0.0), second.high
    if math.isinf(highest) or math.isinf(most):
        return Interval(0.0, math.inf)
    product = numerator * denominator
    middle = product - correlation * (numerator - lowest) * (most - denominator)
    constant = lowest * (2 * numerator - lowest)
    root = math.sqrt(max(middle**2 - most * (2 * denominator - most) * constant, 0.0))
    low = constant / (middle + root) if middle + root > 0 else 0.0
    leading = least * (2 * denominator - least)
    middle = product - correlation * (highest - numerator) * (denominator - least)
    root = math.sqrt(max(middle**2 - leading * highest * (2 * numerator - highest), 0.0))
    high = (middle + root) / leading if leading > 0 else math.inf
    return Interval(low, high)


def slope_weights(sizes: Floats, numbers: Floats) -> Floats:
    """Return the weight of each mean in a least-squares slope over attempts: (..., groups) -> (..., groups).

    Parameters
    ----------
    sizes
        (..., groups) number of attempts.
    numbers
        (groups,) number of each group.
    """
    mean = ratio((sizes * numbers).sum(axis=-1), sizes.sum(axis=-1))
    deviations = numbers - mean[..., None]
    squares = (sizes * deviations**2).sum(axis=-1)
    return np.nan_to_num(ratio(sizes * deviations, squares[..., None]))


def weighted_variance(sums: Floats, sizes: Floats) -> Floats:
    """Return the weighted sum of squared deviations of the group means from their common mean.

    For rates it is proportional to the chi-squared statistic. The shapes are (..., groups) -> (...).
    """
    total = ratio(sums.sum(axis=-1), sizes.sum(axis=-1))
    deviations = np.nan_to_num(ratio(sums, sizes) - total[..., None])
    variance: Floats = (sizes * deviations**2).sum(axis=-1)
    return variance


def level_of_one_difference(level: float, groups: int, items: float = math.inf, power: float = 0.8) -> float:
    """Return the level of a test of one difference that is as powerful as a test of several equal means.

    Both tests detect with probability `power` that two of the means differ, while the others lie in the
    middle between them.

    Parameters
    ----------
    level
        Confidence level of the test of all means, a chi-squared test for large samples.
    groups
        Number of means, at least two, with equal standard errors.
    items
        Number of items of each group. With few of them, the differences that are to be detected widen the
        distribution of the permuted values.
    power
        Probability of detection, above one half.

    References
    ----------
    Cohen (1988), "Statistical Power Analysis for the Behavioral Sciences" (noncentral chi-squared).
    """
    freedom = groups - 1
    critical = scipy.special.chdtri(freedom, 1 - level)
    noncentrality = scipy.special.chndtrinc(critical, freedom, 1 - power)
    share_of_permuted = min(noncentrality / (groups * items), MOST_OF_VARIANCE)
    difference = math.sqrt(noncentrality / (1 - share_of_permuted))
    return float(1 - 2 * scipy.special.ndtr(scipy.special.ndtri(power) - difference))
