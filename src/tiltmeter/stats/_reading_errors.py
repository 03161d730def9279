"""Intervals of sums that were estimated from few observed errors."""

from __future__ import annotations

import scipy  # loads its submodules on first use
from numpy.typing import ArrayLike

from tiltmeter.stats._arithmetic import floats
from tiltmeter.stats._intervals import Interval


def weighted_sum_interval(weights: ArrayLike, largest: float, level: float) -> Interval:
    """Compute the interval of the expected sum of weights of rare events, each of which was observed once.

    The interval is exact for equal weights (that of a Poisson count) and conservative otherwise.

    Parameters
    ----------
    weights
        (n,) weights of the observed events, at least 0; may be empty.
    largest
        The largest weight that an unobserved event could have.
    level
        Confidence level.

    References
    ----------
    Fay and Feuer (1997), "Confidence intervals for directly standardized rates: a method based on the gamma
    distribution".

    Examples
    --------
    >>> low, high = weighted_sum_interval([], 1.0, 0.95)
    >>> round(low, 3), round(high, 3)
    (0.0, 3.689)
    """

    def quantile(share: float, mean: float, variance: float) -> float:
        """Return a quantile of the scaled chi-squared distribution with this mean and variance."""
        if not mean > 0:
            return 0.0
        freedom = 2 * mean**2 / variance
        return float(variance / (2 * mean) * scipy.stats.chi2.ppf(share, freedom))

    values, tail = floats(weights), (1 - level) / 2
    total, variance = values.sum(), (values**2).sum()
    low = quantile(tail, total, variance)
    high = quantile(1 - tail, total + largest, variance + largest**2)
    return Interval(low, high)
