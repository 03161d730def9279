"""Samples of clusters of items: how much wider estimates vary than for a sample of items.

Items that share a question, a name or a wording are not independent. The variances are linearised: an item's
influence on an estimate is a number, and a cluster's influence is the sum over its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tiltmeter._arrays import Floats, Index
from tiltmeter.stats._arithmetic import ratio

FEWEST_IN_STRATUM: Final = 5
"""Strata with fewer members are pooled for resampling."""
WORDINGS: Final = "wordings"
"""The clusters of items that were asked in the same wording."""
NEGLIGIBLE: Final = 1e-12
"""Influences and variances up to this are rounding error."""
WIDER: Final = 1e-6
"""Relative difference up to which two variances from numerical derivatives are equal."""


class ItemClusters(NamedTuple):
    """Assignment of items to clusters: the questions, names or wordings that a population is sampled by.

    `items` (M,) and `numbers` (M,) are pairs of an item's row and a cluster's number; each item belongs to
    `members` clusters.
    """

    noun: str
    items: Index
    numbers: Index
    members: int

    @property
    def size(self) -> int:
        """Number of clusters."""
        return int(self.numbers.max(initial=-1)) + 1

    def strata(self, of_items: Floats) -> Index:
        """Return the stratum of each cluster, shape (clusters,): clusters with items in the same strata.

        Small ones are pooled (-1).
        """
        pairs = np.stack([self.numbers, of_items[self.items]]).astype(np.intp)
        cluster, stratum = np.unique(pairs, axis=1)
        # The sum of random numbers of its strata identifies the set of strata of a cluster.
        number_of_strata = stratum.max(initial=0) + 1
        identifiers = np.random.default_rng(0).random(number_of_strata)
        sums = np.bincount(cluster, identifiers[stratum])
        _, label, sizes = np.unique(sums, return_inverse=True, return_counts=True)
        return np.where(sizes[label] < FEWEST_IN_STRATUM, -1, label)

    def totals(self, values: Floats) -> Floats:
        """Return the totals of each cluster, shape (clusters, columns), from values (items, columns)."""
        order = np.argsort(self.numbers, kind="stable")
        starts = np.searchsorted(self.numbers[order], np.arange(self.size))
        totals: Floats = np.add.reduceat(values[self.items[order]], starts, axis=0)
        return totals


def clustered_spread(
    influences: Floats, strata: Floats, sampled: Sequence[ItemClusters]
) -> tuple[Floats, Floats]:
    """Compute how much wider estimates vary if clusters of items, not items, are sampled.

    With several kinds of clusters (questions and wordings), their variances are added, and the variance of
    items, which each of them contains once for each cluster that an item belongs to, is counted once. The
    degrees of freedom are Satterthwaite's; those of the items if the clusters do not add to the variance.

    Parameters
    ----------
    influences
        (items, estimates) linearised influence of each item on each estimate.
    strata
        (items,) label of the stratum of each item.
    sampled
        The kinds of clusters; one with a single cluster is ignored.

    Returns
    -------
    (estimates,) ratios of the standard errors of clusters and items, and degrees of freedom.

    References
    ----------
    Binder (1983), "On the variances of asymptotically normal estimators from complex surveys"; Cameron,
    Gelbach and Miller (2011), "Robust inference with multiway clustering".
    """
    of_items = stratified_variance(influences, strata)
    clusters = [kind for kind in sampled if kind.size > 1]
    freedom = max(len(influences) - len(np.unique(strata)), 1)
    total = (1 - sum(kind.members for kind in clusters)) * of_items
    uncertainty = of_items**2 / freedom
    for kind in clusters:
        variance = stratified_variance(kind.totals(influences), kind.strata(strata))
        total = total + variance
        uncertainty = uncertainty + variance**2 / (kind.size - 1)
    wider = (of_items > NEGLIGIBLE) & (total > (1 + WIDER) * of_items)
    of_variances = ratio(np.where(wider, total, 1.0), np.where(wider, of_items, 1.0))
    freedoms = np.where(wider, ratio(total**2, uncertainty), freedom)
    return np.sqrt(of_variances), freedoms


def joint_spread(influences: Floats, sampled: Sequence[ItemClusters]) -> tuple[float, float]:
    """Compute how much wider several estimates vary together if clusters of items, not items, are sampled.

    It is the root of the ratio of the sums of their variances, the mean design effect. The degrees of freedom
    are Satterthwaite's for a sum of correlated squares: the variance of the sum of the squares of a normal
    vector is twice the sum of the squared entries of its covariance matrix.

    Parameters
    ----------
    influences
        (items, estimates) linearised influence of each item on each estimate.
    sampled
        The kinds of clusters; one with a single cluster is ignored.

    Returns
    -------
    The ratio, which is 1 if the clusters do not add to the variance, and the degrees of freedom.

    References
    ----------
    Rao and Scott (1984), "On chi-squared tests for multiway contingency tables with cell proportions
    estimated from survey data" (first-order correction).
    """
    of_items, uncertainty = _joint_variance(influences)
    clusters = [kind for kind in sampled if kind.size > 1]
    total = (1 - sum(kind.members for kind in clusters)) * of_items
    for kind in clusters:
        variance, of_kind = _joint_variance(kind.totals(influences))
        total += variance
        uncertainty += of_kind
    if of_items <= NEGLIGIBLE or total <= (1 + WIDER) * of_items:
        return 1.0, float(max(len(influences) - 1, 1))
    return float(np.sqrt(total / of_items)), total**2 / uncertainty


def _joint_variance(values: Floats) -> tuple[float, float]:
    """Return the sum of the variances of the column sums of a sample (n, columns), and its own uncertainty.

    The uncertainty is the sum of the squared covariances divided by the degrees of freedom.
    """
    freedom = max(len(values) - 1, 1)
    deviations = values - values.mean(axis=0)
    covariance = deviations.T @ deviations * (len(values) / freedom)
    return float(np.trace(covariance)), float((covariance**2).sum()) / freedom


def stratified_variance(values: Floats, strata: Floats | Index) -> Floats:
    """Compute the variances of the column sums of a stratified sample.

    Parameters
    ----------
    values
        (n, columns) the sample.
    strata
        (n,) label of the stratum of each row.

    Returns
    -------
    (columns,) variances.
    """
    _, place, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), values.shape[1]))
    np.add.at(sums, place, values)
    deviations = values - (sums / sizes[:, None])[place]
    corrections = sizes / np.maximum(sizes - 1, 1)
    variances: Floats = corrections[place] @ deviations**2
    return variances
