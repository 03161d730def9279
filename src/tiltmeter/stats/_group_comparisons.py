"""Comparisons of groups in a rate or a mean, valid for any number of items per group.

The items of a `GroupSample` are matched sets (each has attempts of several groups), independent (each has
attempts of one group), or both. Tests are exact or by permutation. Intervals combine the intervals of the
rates of single groups, so that they do not depend on the variation within a group alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter._arrays import Floats
from tiltmeter.stats._arithmetic import ROUNDING, ratio
from tiltmeter.stats._clusters import ItemClusters
from tiltmeter.stats._exact_tests import independent_rates_p, matched_rates_p
from tiltmeter.stats._group_formulas import combined_width, ratio_interval, slope_weights, weighted_variance
from tiltmeter.stats._group_means import FEWEST_ITEMS, GroupMeans, Spread
from tiltmeter.stats._intervals import (
    Interval,
    excess_p,
    maximum_interval,
    relabelling_t_p,
    two_sided_t_p,
)
from tiltmeter.stats._permutations import permuted_between, permuted_within

DRAWS: Final = 9999
"""Usual number of random permutations of a test; no p-value is below 1 / (draws + 1)."""
NORMAL_DRAWS: Final = 1000
"""Number of random errors from which the upward bias of a maximum is estimated."""


class GroupDifference(NamedTuple):
    """A comparison of groups (a difference, the largest difference, a ratio or a slope) with its test.

    `low` and `high` are the ends of the interval.
    """

    estimate: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class GroupSample(GroupMeans):
    """Sums and numbers of attempts of each item and group, whose means are compared.

    Parameters
    ----------
    sums, sizes, clusters, is_rate
        See GroupMeans.
    seed
        Seed of the permutations.
    draws
        Number of permutations.

    Examples
    --------
    Of 20 questions asked about each of two groups, 8 are refused for the first group only.

    >>> refused = [[1, 0]] * 8 + [[0, 0]] * 12
    >>> sample = GroupSample.of(refused, [[1, 1]] * 20)
    >>> sample.difference(0, 1, 0.95).p
    0.00390625
    """

    seed: int = 0
    draws: int = DRAWS

    @classmethod
    def of(
        cls,
        sums: ArrayLike,
        sizes: ArrayLike,
        clusters: Sequence[ItemClusters] = (),
        *,
        is_rate: bool = True,
        seed: int = 0,
        draws: int = DRAWS,
    ) -> GroupSample:
        """Return the sample; raise ValueError if the shapes differ or a size is negative."""
        totals, numbers = np.asarray(sums, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
        if totals.ndim != 2 or totals.shape != numbers.shape:
            raise ValueError("sums and sizes must have the same shape (items, groups)")
        if (numbers < 0).any() or (is_rate and ((totals < 0) | (totals > numbers)).any()):
            raise ValueError("sizes must not be negative, and counts must lie between 0 and their size")
        return cls(totals, numbers, clusters, is_rate, seed, draws)

    # -- differences -----------------------------------------------------------------------------------------

    def difference(self, first: int, second: int, level: float) -> GroupDifference:
        """Compute the mean of one group minus that of another, with interval and test.

        The interval contains 0 if the test is not significant at this level.

        Parameters
        ----------
        first, second
            Numbers of the groups.
        level
            Confidence level.

        References
        ----------
        Newcombe (1998), "Interval estimation for the difference between independent proportions" and
        "Improved confidence intervals for the difference between binomial proportions based on paired data";
        Zou and Donner (2008), "Construction of confidence limits about effect measures".
        """
        estimate = float(self.means[first] - self.means[second])
        if math.isnan(estimate):
            return GroupDifference(math.nan, math.nan, math.nan, math.nan)
        p = self.of_groups([first, second]).p
        interval = self._difference_interval(first, second, level)
        low, high = interval
        if not p < 1 - level:
            low, high = min(low, 0.0), max(high, 0.0)
        return GroupDifference(estimate, low, high, p)

    def mean_ratio(self, first: int, second: int, level: float) -> GroupDifference:
        """Compute the mean of one group divided by that of another, with interval and test of equality.

        The interval has all ratios R for which the interval of the first mean minus R times the second
        contains 0. It contains 1 if the test is not significant at this level. The upper end is infinite if
        the second mean may be 0. The estimate is NaN if the second mean is 0, and all is NaN if a value is
        negative.

        Parameters
        ----------
        first, second
            Numbers of the groups.
        level
            Confidence level.

        References
        ----------
        Newcombe (2016), "MOVER-R confidence intervals for ratios and products of two independently
        estimated quantities". The correlation of the means enters as in `difference`.
        """
        means = float(self.means[first]), float(self.means[second])
        if math.isnan(sum(means)) or (self.sums < 0).any():
            return GroupDifference(math.nan, math.nan, math.nan, math.nan)
        influences = self._influences
        of_ratio = means[1] * influences[:, first] - means[0] * influences[:, second]
        spread = self._spread_of(of_ratio)
        interval = ratio_interval(
            means,
            self._mean_interval(first, level, spread),
            self._mean_interval(second, level, spread),
            self._correlation(first, second),
        )
        low, high = interval
        p = self.of_groups([first, second]).p
        if not p < 1 - level:
            low, high = min(low, 1.0), max(high, 1.0)
        estimate = means[0] / means[1] if means[1] > 0 else math.nan
        return GroupDifference(estimate, low, high, p)

    def slope(self, values: ArrayLike, level: float) -> GroupDifference:
        """Compute the slope of the outcome on a number of each group, with interval and test.

        It is the least-squares line over the attempts, such as the change of a rate per year of age. The
        interval contains 0 if the test is not significant at this level. The test permutes values as `p`
        does; that of two groups is `p`.

        Parameters
        ----------
        values
            (groups,) number of each group, such as an age.
        level
            Confidence level.

        Raises
        ------
        ValueError
            There is not one finite number for each group.

        References
        ----------
        Armitage (1955), "Tests for linear trends in proportions and frequencies". For the interval, see
        `difference`.
        """
        numbers = np.asarray(values, dtype=np.float64)
        if numbers.shape != self.means.shape or not np.isfinite(numbers).all():
            raise ValueError("a slope needs one finite number for each group")
        if np.unique(numbers[self.items > 0]).size < 2:
            return GroupDifference(math.nan, math.nan, math.nan, math.nan)
        weights = slope_weights(self.sizes.sum(axis=0), numbers)
        estimate = float(weights @ np.nan_to_num(self.means))
        influences = self._influences @ weights
        spread = self._spread_of(influences)
        p = self._slope_p(numbers, estimate, influences, spread)
        below, above = self._contrast_widths(weights, level, spread)
        low, high = estimate - below, estimate + above
        if not p < 1 - level:
            low, high = min(low, 0.0), max(high, 0.0)
        return GroupDifference(estimate, low, high, p)

    def _slope_p(self, numbers: Floats, estimate: float, influences: Floats, spread: Spread) -> float:
        """Compute the p-value of a slope of 0.

        Parameters
        ----------
        numbers
            (groups,) number of each group.
        estimate
            The slope.
        influences
            (items,) linearised influence of each item on the slope.
        spread
            How much wider the slope varies for a sample of clusters.
        """
        present = np.flatnonzero(self.items > 0)
        if len(present) == 2:
            return self.of_groups(present.tolist()).p
        sums, sizes = self._permuted
        null = (slope_weights(sizes, numbers) * np.nan_to_num(ratio(sums, sizes))).sum(axis=-1)
        p = float(excess_p(np.float64(abs(estimate)), np.abs(null), 1))
        if spread.ratio == 1:
            return p
        error = spread.ratio * math.sqrt(self._variance_of(influences))
        return max(p, two_sided_t_p(estimate / error, spread.freedom))

    def _difference_interval(self, first: int, second: int, level: float) -> Interval:
        """Compute the interval of a difference from those of both groups and their correlation."""
        estimate = float(self.means[first] - self.means[second])
        spread = self._spread_of_pair(first, second)
        of_first = self._mean_interval(first, level, spread)
        of_second = self._mean_interval(second, level, spread)
        mean, mean_of_second = float(self.means[first]), float(self.means[second])
        correlation = float(self._correlations[first, second])
        below = combined_width(mean - of_first.low, of_second.high - mean_of_second, correlation)
        above = combined_width(of_first.high - mean, mean_of_second - of_second.low, correlation)
        return Interval(estimate - below, estimate + above)

    def largest_difference(self, level: float) -> GroupDifference:
        """Compute the largest absolute difference between two groups, with interval and test.

        The estimate is corrected for the upward bias of a maximum (see `maximum_interval`). The true largest
        difference is at least as large as the true difference of each pair: the lower end is the largest one
        of the pairs' lower ends, at a level adjusted for their number (Bonferroni). The interval of the pair
        with the truly largest difference covers it, so the upper end is the largest upper end of all pairs.
        """
        groups = np.flatnonzero(self.items > 0)
        if len(groups) < max(2, self.sums.shape[1]):
            return GroupDifference(math.nan, math.nan, math.nan, math.nan)
        p = self.p
        pairs = list(combinations(groups.tolist(), 2))
        adjusted = 1 - (1 - level) / len(pairs)
        lowest, highest = 0.0, 0.0
        for first, second in pairs:
            wide = self._difference_interval(first, second, adjusted)
            lowest = max(lowest, wide.low, -wide.high)
            interval = self._difference_interval(first, second, level)
            highest = max(highest, abs(interval.low), abs(interval.high))
        if not p < 1 - level:
            lowest = 0.0
        raw = float(np.ptp(self.means))
        estimate = max(self._unbiased_range(raw, level), lowest)
        return GroupDifference(estimate, lowest, max(highest, raw), p)

    def _unbiased_range(self, raw: float, level: float) -> float:
        """Return the range of the means, corrected for its upward bias."""
        influences = self._influences
        covariance = influences.T @ influences
        generator = np.random.Generator(np.random.PCG64(self.seed))
        errors = generator.multivariate_normal(
            np.zeros(len(covariance)), covariance, size=NORMAL_DRAWS, method="eigh"
        )
        resampled = np.ptp(self.means + errors, axis=1)
        null = np.ptp(errors, axis=1)
        return float(maximum_interval(raw, resampled, null, level).estimate)

    # -- samples of the same attempts ---------------------------------------------------------------------

    def without_clusters(self) -> GroupSample:
        """Return the sample in which the items alone are sampled."""
        if not self.clusters:
            return self
        sample = replace(self, clusters=())
        if self.sums.shape[1] > 2:  # the permutations are the same without clusters
            sample.__dict__["_permuted"] = self._permuted
        return sample

    def against_others(self, group: int) -> GroupSample:
        """Return the sample of two groups: this one, and all others together."""
        others = [number for number in range(self.sums.shape[1]) if number != group]
        sums = np.stack([self.sums[:, group], self.sums[:, others].sum(axis=1)], axis=1)
        sizes = np.stack([self.sizes[:, group], self.sizes[:, others].sum(axis=1)], axis=1)
        return replace(self, sums=sums, sizes=sizes)

    def of_groups(self, groups: Sequence[int]) -> GroupSample:
        """Return the sample of some of the groups."""
        chosen = list(groups)
        if chosen == list(range(self.sums.shape[1])):
            return self
        return replace(self, sums=self.sums[:, chosen], sizes=self.sizes[:, chosen])

    # -- tests -----------------------------------------------------------------------------------------------

    @cached_property
    def p(self) -> float:
        """The p-value of equal means of all groups.

        With two groups and at most one attempt of each item and group, it is that of Boschloo's test of
        independent items, or of McNemar's test of matched items, with the mid-p correction if each group has
        FEWEST_ITEMS items. Otherwise the values of the groups are permuted: within matched sets, and over
        the items that have one group only. Where clusters are a sample, the p-value is at least that of a t
        test with a cluster-robust standard error.

        It is NaN with fewer than two groups, and 1 if all values are equal.

        References
        ----------
        Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses"; see also
        `independent_rates_p` and `matched_rates_p`.
        """
        if (self.items > 0).sum() < 2:
            return math.nan
        is_varied = self.sizes > 0
        values = ratio(self.sums, self.sizes)[is_varied]
        if np.ptp(values) <= ROUNDING * max(1.0, float(np.abs(values).max())):
            return 1.0
        groups_of_item = self.has_group.sum(axis=1)
        if self.sums.shape[1] == 2 and self._is_one_binary_trial and (groups_of_item < 2).all():
            p = self._independent_p()
        elif self.sums.shape[1] == 2 and self._is_one_binary_trial and (groups_of_item != 1).all():
            p = self._matched_p()
        else:
            return self._permutation_p()
        return max(p, self._cluster_p(()))

    def _independent_p(self) -> float:
        """Compute the p-value of equal rates of two groups of independent items."""
        (a, c), (n, m) = self.sums.sum(axis=0).tolist(), self.sizes.sum(axis=0).tolist()
        return independent_rates_p(int(a), int(n), int(c), int(m))

    def _matched_p(self) -> float:
        """Compute the p-value of equal rates of two groups of matched items."""
        change = self.sums[:, 0] - self.sums[:, 1]
        has_enough_items = bool((self.items >= FEWEST_ITEMS).all())
        return matched_rates_p(int((change > 0).sum()), int((change < 0).sum()), mid_p=has_enough_items)

    def _permutation_p(self) -> float:
        """Compute the p-value of the permutation test with the weighted variance of the group means."""
        statistic = weighted_variance(self.sums.sum(axis=0), self.sizes.sum(axis=0))
        null = weighted_variance(*self._permuted)
        p = float(excess_p(np.float64(statistic), null, 1))
        return max(p, self._cluster_p(null))

    def _cluster_p(self, null: ArrayLike) -> float:
        """Return the p-value for a sample of clusters; 0 if these add nothing to the variance.

        Parameters
        ----------
        null
            Values of the statistic under permutation of the items, if there are more than two groups.
        """
        influences = self._influences
        if not self.clusters:
            return 0.0
        if self.sums.shape[1] == 2:
            change = influences[:, 0] - influences[:, 1]
            spread = self._spread_of(change)
            if spread.ratio == 1:
                return 0.0
            error = spread.ratio * math.sqrt(self._variance_of(change))
            return two_sided_t_p(float(self.means[0] - self.means[1]) / error, spread.freedom)
        spread = self._joint_spread
        if spread.ratio == 1:
            return 0.0
        statistic = weighted_variance(self.sums.sum(axis=0), self.sizes.sum(axis=0))
        scaled = spread.ratio * np.sqrt(np.asarray(null))
        return relabelling_t_p(math.sqrt(float(statistic)), scaled, spread.freedom)

    @cached_property
    def _permuted(self) -> tuple[Floats, Floats]:
        """Sums and sizes of the groups, shape (draws, groups), after random permutations.

        The attempts of matched sets are permuted over their groups, and those of items with a single group
        over these items.
        """
        groups_of_item = self.has_group.sum(axis=1)
        generator = np.random.Generator(np.random.PCG64(self.seed))
        values = np.stack([self.sums, self.sizes], axis=-1)
        of_sets = permuted_within(values[groups_of_item > 1], self.draws, generator)
        of_singles = permuted_between(values[groups_of_item == 1], self.draws, generator)
        totals = of_sets + of_singles
        return totals[..., 0], totals[..., 1]
