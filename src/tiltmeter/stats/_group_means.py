"""Means of groups with their intervals, for any number of items per group.

The interval of a weighted sum of the means combines the intervals of the means, so that it does not depend on
the variation within a group alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.stats._arithmetic import ratio
from tiltmeter.stats._clusters import WORDINGS, ItemClusters, clustered_spread, joint_spread
from tiltmeter.stats._group_formulas import exact_rate_interval
from tiltmeter.stats._intervals import Interval, two_sided_t
from tiltmeter.stats._rates import share_interval

FEWEST_ITEMS: Final = 10
"""With fewer items in a group, the interval of its rate is exact instead of Wilson's, and tests are exact
without the mid-p correction."""


class Spread(NamedTuple):
    """How much wider a difference varies for a sample of clusters than for a sample of items."""

    ratio: float
    freedom: float


@dataclass(frozen=True)
class GroupMeans:
    """Sums and numbers of attempts of each item and group, with the means of the groups.

    Parameters
    ----------
    sums
        (items, groups) sum of the values of the attempts: the number of successes if the outcome is a rate.
    sizes
        (items, groups) number of attempts; 0 where an item has none of a group.
    clusters
        The clusters that the items belong to, if those are samples as well.
    is_rate
        Whether the values are 0 and 1, so that the mean of a group is a rate.
    """

    sums: Floats
    sizes: Floats
    clusters: Sequence[ItemClusters] = ()
    is_rate: bool = True

    @cached_property
    def means(self) -> Floats:
        """Mean of the values of each group over its attempts, shape (groups,); NaN without attempts."""
        return ratio(self.sums.sum(axis=0), self.sizes.sum(axis=0))

    @cached_property
    def has_group(self) -> Booleans:
        """Whether an item has an attempt of a group, shape (items, groups)."""
        return self.sizes > 0

    @cached_property
    def items(self) -> Index:
        """Number of items with an attempt of each group, shape (groups,)."""
        return np.asarray(self.has_group.sum(axis=0))

    @cached_property
    def _influences(self) -> Floats:
        """Linearised influence of each item on the mean of each group, shape (items, groups)."""
        deviations = self.sums - np.nan_to_num(self.means) * self.sizes
        return np.nan_to_num(ratio(deviations, self.sizes.sum(axis=0)))

    @cached_property
    def _variances(self) -> Floats:
        """Variance of the mean of each group for a sample of items, shape (groups,)."""
        corrections = self.items / np.maximum(self.items - 1, 1)
        variances: Floats = corrections * (self._influences**2).sum(axis=0)
        return variances

    @property
    def _is_one_binary_trial(self) -> bool:
        """Whether each item has at most one attempt of each group, and its value is 0 or 1."""
        return self.is_rate and bool((self.sizes <= 1).all())

    def _independent_units(self, group: int) -> int:
        """Return the number of items of a group, or of its clusters of a kind if there are fewer.

        Wordings are not counted: items in the same wording are different questions.
        """
        units = int(self.items[group])
        of_group = self.has_group[:, group]
        for kind in self.clusters:
            if kind.noun != WORDINGS and kind.size > 1:
                units = min(units, np.unique(kind.numbers[of_group[kind.items]]).size)
        return units

    def mean_interval(self, group: int, level: float) -> Interval:
        """Compute the interval of the mean of one group, for clusters like these.

        That of a rate is Wilson's with the effective number of trials, or Clopper and Pearson's with fewer
        than FEWEST_ITEMS items; the number of trials of a rate of 0 or 1 is the number of independent units.
        """
        spread = self._spread_of(self._influences[:, group])
        return self._mean_interval(group, level, spread)

    @cached_property
    def _known_intervals(self) -> dict[tuple[int, float, Spread], Interval]:
        """Intervals that were computed before; pairs of groups have many in common."""
        return {}

    def _mean_interval(self, group: int, level: float, spread: Spread) -> Interval:
        """Return the interval of the mean of one group, wider by the spread of clusters."""
        arguments = (group, level, spread)
        if arguments not in self._known_intervals:
            self._known_intervals[arguments] = self._computed_interval(*arguments)
        return self._known_intervals[arguments]

    def _computed_interval(self, group: int, level: float, spread: Spread) -> Interval:
        """Compute `_mean_interval`."""
        mean = float(self.means[group])
        items = int(self.items[group])
        if math.isnan(mean):
            return Interval(math.nan, math.nan)
        variance = float(self._variances[group]) * spread.ratio**2
        is_plain = self._is_one_binary_trial and spread.ratio == 1
        freedom = math.inf if is_plain else min(spread.freedom, max(items - 1, 1))
        critical = two_sided_t(level, freedom)
        if not self.is_rate:
            if items < 2:
                return Interval(-math.inf, math.inf)
            half = critical * math.sqrt(variance)
            return Interval(mean - half, mean + half)
        trials = float(items) if is_plain else self._effective_trials(group, mean, variance)
        if items < FEWEST_ITEMS:
            return exact_rate_interval(mean, trials, level)
        if 0 < mean < 1:
            error = math.sqrt(mean * (1 - mean) / trials)
            return Interval(*share_interval(mean, error, critical))
        half = critical**2 / (trials + critical**2)
        return Interval(0.0, half) if mean == 0 else Interval(1 - half, 1.0)

    def _effective_trials(self, group: int, mean: float, variance: float) -> float:
        """Return the number of independent trials in which a rate would have this variance.

        At most the number of attempts. Without variation within the group, it is that of independent units.
        """
        attempts = float(self.sizes[:, group].sum())
        if variance > 0 and 0 < mean < 1:
            return min(mean * (1 - mean) / variance, attempts)
        return float(self._independent_units(group))

    def effective_counts(self) -> tuple[Floats, Floats]:
        """Return successes and independent trials of each group with its rate and variance: two (groups,).

        They are the counts themselves if each item has at most one attempt of a group, and there are no
        clusters.
        """
        trials = self.sizes.sum(axis=0)
        for group, mean in enumerate(self.means.tolist()):
            spread = self._spread_of(self._influences[:, group])
            if not self._is_one_binary_trial or spread.ratio > 1:
                variance = float(self._variances[group]) * spread.ratio**2
                trials[group] = self._effective_trials(group, mean, variance)
        return np.nan_to_num(self.means) * trials, trials

    # -- weighted sums of means ---------------------------------------------------------------------------

    def _contrast_widths(self, weights: Floats, level: float, spread: Spread) -> tuple[float, float]:
        """Return how far the interval of a weighted sum of the means reaches below and above it.

        Parameters
        ----------
        weights
            (groups,) weight of each mean; groups without items have none.
        """
        groups = np.flatnonzero(weights).tolist()
        intervals = [self._mean_interval(group, level, spread) for group in groups]
        means = self.means[groups]
        to_low = means - np.array([interval.low for interval in intervals])
        to_high = np.array([interval.high for interval in intervals]) - means
        if not np.isfinite(to_low + to_high).all():
            return math.inf, math.inf
        is_added = weights[groups] > 0
        correlations = self._correlations[np.ix_(groups, groups)]
        below = weights[groups] * np.where(is_added, to_low, to_high)
        above = weights[groups] * np.where(is_added, to_high, to_low)
        widths = [math.sqrt(max(float(part @ correlations @ part), 0.0)) for part in (below, above)]
        return widths[0], widths[1]

    @cached_property
    def _known_spreads(self) -> dict[int, list[Spread]]:
        """By a group, the spreads of the differences of its mean from all means."""
        return {}

    def _spread_of_pair(self, first: int, second: int) -> Spread:
        """Return how much wider the difference between two means varies for a sample of clusters."""
        if first not in self._known_spreads:
            differences = self._influences[:, [first]] - self._influences
            self._known_spreads[first] = self._spreads_of(differences)
        return self._known_spreads[first][second]

    @cached_property
    def _correlations(self) -> Floats:
        """Correlations of the means, shape (groups, groups), 1 on the diagonal."""
        numbers = range(len(self.means))
        correlations = np.array([[self._correlation(one, other) for other in numbers] for one in numbers])
        np.fill_diagonal(correlations, 1.0)
        return correlations

    def _correlation(self, first: int, second: int) -> float:
        """Return the correlation of the means of two groups; 0 if one of them does not vary."""
        products = float((self._influences[:, first] * self._influences[:, second]).sum())
        squares = (self._influences[:, [first, second]] ** 2).sum(axis=0)
        scale = math.sqrt(float(squares[0] * squares[1]))
        return min(max(products / scale, -1.0), 1.0) if scale > 0 else 0.0

    def _spread_of(self, influences: Floats) -> Spread:
        """Return how much wider an estimate with these influences of the items, shape (items,), varies."""
        return self._spreads_of(influences[:, None])[0]

    def _spreads_of(self, influences: Floats) -> list[Spread]:
        """Return how much wider estimates with these influences, shape (items, estimates), vary."""
        plain = Spread(1.0, math.inf)
        if not self.clusters:
            return [plain] * influences.shape[1]
        one_stratum = np.zeros(len(influences))
        ratios, freedoms = clustered_spread(influences, one_stratum, self.clusters)
        spreads = map(Spread, ratios.tolist(), freedoms.tolist())
        return [spread if spread.ratio > 1 else plain for spread in spreads]

    @property
    def _joint_spread(self) -> Spread:
        """How much wider the deviations of the means from their average vary for a sample of clusters."""
        centred = self._influences - self._influences.mean(axis=1, keepdims=True)
        return Spread(*joint_spread(centred, self.clusters))

    def _variance_of(self, influences: Floats) -> float:
        """Return the variance of an estimate with these influences, shape (items,), for a sample of items."""
        items = int(self.has_group.any(axis=1).sum())
        return float((influences**2).sum()) * items / max(items - 1, 1)
