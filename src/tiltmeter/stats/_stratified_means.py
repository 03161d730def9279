"""The difference of two means within strata."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter.stats._clusters import ItemClusters, clustered_spread
from tiltmeter.stats._group_comparisons import GroupDifference
from tiltmeter.stats._intervals import two_sided_t, two_sided_t_p


def stratified_mean_difference(
    values: ArrayLike,
    is_first: ArrayLike,
    strata: ArrayLike,
    clusters: Sequence[ItemClusters] = (),
    *,
    level: float = 0.95,
) -> GroupDifference:
    """Compute the difference of the means of two groups within strata, with interval and test.

    It is the coefficient of the group in a least-squares regression with a constant for each stratum. The
    standard error is robust to unequal variances and, where clusters are sampled, to their correlation.
    With one stratum, it is the difference of the means.

    Parameters
    ----------
    values
        (n,) values of independent items.
    is_first
        (n,) whether an item is of the first group.
    strata
        (n,) label of the stratum of each item: an integer or text.
    clusters
        The clusters that the items belong to, if those are samples as well.
    level
        Confidence level.

    Returns
    -------
    Estimate, interval and two-sided p-value; all NaN if no stratum has both groups. The interval is infinite
    and p is 1 if there are too few items to estimate the variance.

    References
    ----------
    Frisch and Waugh (1933), "Partial time regressions as compared with individual trends"; MacKinnon and
    White (1985), "Some heteroskedasticity-consistent covariance matrix estimators with improved finite sample
    properties" (HC1).

    Examples
    --------
    >>> stratified_mean_difference([1.0, 2.0, 4.0, 5.0], [True, True, False, False], [0, 0, 0, 0]).estimate
    -3.0
    """
    numbers = np.asarray(values, dtype=np.float64)
    _, stratum = np.unique(np.asarray(strata), return_inverse=True)
    sizes = np.bincount(stratum)

    def within(column: np.ndarray) -> np.ndarray:
        """Return the deviations from the mean of the stratum."""
        deviations: np.ndarray = column - (np.bincount(stratum, column) / sizes)[stratum]
        return deviations

    group = within(np.asarray(is_first, dtype=np.float64))
    information = float(group @ group)
    if information <= 0:
        return GroupDifference(math.nan, math.nan, math.nan, math.nan)
    deviations = within(numbers)
    estimate = float(group @ deviations) / information
    freedom = len(numbers) - len(sizes) - 1
    if freedom < 1:
        return GroupDifference(estimate, -math.inf, math.inf, 1.0)
    influences = group * (deviations - estimate * group) / information
    variance = float(influences @ influences) * len(numbers) / freedom
    ratios, freedoms = clustered_spread(influences[:, None], np.zeros(len(numbers)), clusters)
    if ratios[0] > 1:
        freedom_of_clusters = float(freedoms[0])
    else:
        freedom_of_clusters = math.inf
    error = max(1.0, float(ratios[0])) * math.sqrt(variance)
    smallest_freedom = min(float(freedom), freedom_of_clusters)
    if error == 0:
        return GroupDifference(estimate, estimate, estimate, 1.0 if estimate == 0 else 0.0)
    half_width = two_sided_t(level, smallest_freedom) * error
    p = two_sided_t_p(estimate / error, smallest_freedom)
    return GroupDifference(estimate, estimate - half_width, estimate + half_width, p)
