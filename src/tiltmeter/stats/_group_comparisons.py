"""Comparisons of groups in a rate or a mean, valid for any number of items per group.

The items of a `GroupSample` are matched sets (each has attempts of several groups), independent (each has
attempts of one group), or both. Tests are exact or by permutation. Intervals combine the intervals of the
rates of single groups, so that they do not depend on the variation within a group alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
import scipy  # loads its submodules on first use
from numpy.typing import ArrayLike

from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.stats._arithmetic import ROUNDING, ratio
from tiltmeter.stats._clusters import WORDINGS, ItemClusters, clustered_spread
from tiltmeter.stats._exact_tests import independent_rates_p, matched_rates_p
from tiltmeter.stats._intervals import (
    Interval,
    excess_p,
    maximum_interval,
    relabelling_t_p,
    two_sided_t,
    two_sided_t_p,
)
from tiltmeter.stats._permutations import permuted_between, permuted_within
from tiltmeter.stats._rates import share_interval

FEWEST_ITEMS: Final = 10
"""With fewer items in a group, the interval of its rate is exact instead of Wilson's, and tests are exact
without the mid-p correction."""
DRAWS: Final = 9999
"""Number of random permutations of a test; no p-value is below 1 / (DRAWS + 1)."""
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


class _Spread(NamedTuple):
    """How much wider a difference varies for a sample of clusters than for a sample of items."""

    ratio: float
    freedom: float


@dataclass(frozen=True)
class GroupSample:
    """Sums and numbers of attempts of each item and group.

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
    seed
        Seed of the permutations.

    Examples
    --------
    Of 20 questions asked about each of two groups, 8 are refused for the first group only.

    >>> refused = [[1, 0]] * 8 + [[0, 0]] * 12
    >>> sample = GroupSample.of(refused, [[1, 1]] * 20)
    >>> sample.difference(0, 1, 0.95).p
    0.00390625
    """

    sums: Floats
    sizes: Floats
    clusters: Sequence[ItemClusters] = ()
    is_rate: bool = True
    seed: int = 0

    @classmethod
    def of(
        cls,
        sums: ArrayLike,
        sizes: ArrayLike,
        clusters: Sequence[ItemClusters] = (),
        *,
        is_rate: bool = True,
        seed: int = 0,
    ) -> GroupSample:
        """Return the sample; raise ValueError if the shapes differ or a size is negative."""
        totals, numbers = np.asarray(sums, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
        if totals.ndim != 2 or totals.shape != numbers.shape:
            raise ValueError("sums and sizes must have the same shape (items, groups)")
        if (numbers < 0).any() or (is_rate and ((totals < 0) | (totals > numbers)).any()):
            raise ValueError("sizes must not be negative, and counts must lie between 0 and their size")
        return cls(totals, numbers, clusters, is_rate, seed)

    # -- single groups -------------------------------------------------------------------------------------

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

    def without_clusters(self) -> GroupSample:
        """Return the sample in which the items alone are sampled."""
        return GroupSample(self.sums, self.sizes, (), self.is_rate, self.seed) if self.clusters else self

    def mean_interval(self, group: int, level: float) -> Interval:
        """Compute the interval of the mean of one group, for clusters like these.

        That of a rate is Wilson's with the effective number of trials, or Clopper and Pearson's with fewer
        than FEWEST_ITEMS items; the number of trials of a rate of 0 or 1 is the number of independent units.
        """
        spread = self._spread_of(self._influences[:, group])
        return self._mean_interval(group, level, spread)

    def _mean_interval(self, group: int, level: float, spread: _Spread) -> Interval:
        """Compute the interval of the mean of one group, wider by the spread of clusters."""
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
            return _exact_interval(mean, trials, level)
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
        interval = _ratio_interval(
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
        weights = _slope_weights(self.sizes.sum(axis=0), numbers)
        estimate = float(weights @ np.nan_to_num(self.means))
        influences = self._influences @ weights
        spread = self._spread_of(influences)
        p = self._slope_p(numbers, estimate, influences, spread)
        below, above = self._contrast_widths(weights, level, spread)
        low, high = estimate - below, estimate + above
        if not p < 1 - level:
            low, high = min(low, 0.0), max(high, 0.0)
        return GroupDifference(estimate, low, high, p)

    def _slope_p(self, numbers: Floats, estimate: float, influences: Floats, spread: _Spread) -> float:
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
        sums, sizes = self._permuted_totals(DRAWS)
        null = (_slope_weights(sizes, numbers) * np.nan_to_num(ratio(sums, sizes))).sum(axis=-1)
        p = float(excess_p(np.float64(abs(estimate)), np.abs(null), 1))
        if spread.ratio == 1:
            return p
        items = int(self.has_group.any(axis=1).sum())
        variance = float((influences**2).sum()) * items / max(items - 1, 1)
        error = spread.ratio * math.sqrt(variance)
        return max(p, two_sided_t_p(estimate / error, spread.freedom))

    def _contrast_widths(self, weights: Floats, level: float, spread: _Spread) -> tuple[float, float]:
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
        correlations = np.array([[self._correlation(one, other) for other in groups] for one in groups])
        np.fill_diagonal(correlations, 1.0)
        below = weights[groups] * np.where(is_added, to_low, to_high)
        above = weights[groups] * np.where(is_added, to_high, to_low)
        widths = [math.sqrt(max(float(part @ correlations @ part), 0.0)) for part in (below, above)]
        return widths[0], widths[1]

    def _difference_interval(self, first: int, second: int, level: float) -> Interval:
        """Compute the interval of a difference from those of both groups and their correlation."""
        weights = np.zeros(self.means.shape)
        weights[first], weights[second] = 1.0, -1.0
        spread = self._spread_of(self._influences @ weights)
        below, above = self._contrast_widths(weights, level, spread)
        estimate = float(self.means[first] - self.means[second])
        return Interval(estimate - below, estimate + above)

    def _correlation(self, first: int, second: int) -> float:
        """Return the correlation of the means of two groups; 0 if one of them does not vary."""
        products = float((self._influences[:, first] * self._influences[:, second]).sum())
        squares = (self._influences[:, [first, second]] ** 2).sum(axis=0)
        scale = math.sqrt(float(squares[0] * squares[1]))
        return min(max(products / scale, -1.0), 1.0) if scale > 0 else 0.0

    def _spread_of(self, influences: Floats) -> _Spread:
        """Return how much wider an estimate with these influences of the items, shape (items,), varies."""
        if not self.clusters:
            return _Spread(1.0, math.inf)
        one_stratum = np.zeros(len(influences))
        ratios, freedoms = clustered_spread(influences[:, None], one_stratum, self.clusters)
        spread = _Spread(float(ratios[0]), float(freedoms[0]))
        return spread if spread.ratio > 1 else _Spread(1.0, math.inf)

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

    def against_others(self, group: int) -> GroupSample:
        """Return the sample of two groups: this one, and all others together."""
        others = [number for number in range(self.sums.shape[1]) if number != group]
        sums = np.stack([self.sums[:, group], self.sums[:, others].sum(axis=1)], axis=1)
        sizes = np.stack([self.sizes[:, group], self.sizes[:, others].sum(axis=1)], axis=1)
        return GroupSample(sums, sizes, self.clusters, self.is_rate, self.seed)

    def of_groups(self, groups: Sequence[int]) -> GroupSample:
        """Return the sample of some of the groups."""
        chosen = list(groups)
        if chosen == list(range(self.sums.shape[1])):
            return self
        return GroupSample(
            self.sums[:, chosen], self.sizes[:, chosen], self.clusters, self.is_rate, self.seed
        )

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
        statistic = _weighted_variance(self.sums.sum(axis=0), self.sizes.sum(axis=0))
        null = _weighted_variance(*self._permuted_totals(DRAWS))
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
            error = spread.ratio * math.sqrt(float(self._variance_of_difference))
            return two_sided_t_p(float(self.means[0] - self.means[1]) / error, spread.freedom)
        one_stratum = np.zeros(len(influences))
        centred = influences - influences.mean(axis=1, keepdims=True)
        ratios, freedoms = clustered_spread(centred, one_stratum, self.clusters)
        widest = int(np.argmax(ratios))
        if not ratios[widest] > 1:
            return 0.0
        statistic = _weighted_variance(self.sums.sum(axis=0), self.sizes.sum(axis=0))
        scaled = float(ratios[widest]) * np.sqrt(np.asarray(null))
        return relabelling_t_p(math.sqrt(float(statistic)), scaled, float(freedoms[widest]))

    @property
    def _variance_of_difference(self) -> float:
        """Variance of the difference of two groups for a sample of items."""
        change = self._influences[:, 0] - self._influences[:, 1]
        items = int(self.has_group.any(axis=1).sum())
        return float((change**2).sum()) * items / max(items - 1, 1)

    def _permuted_totals(self, draws: int) -> tuple[Floats, Floats]:
        """Return sums and sizes of the groups, shape (draws, groups), after random permutations.

        The attempts of matched sets are permuted over their groups, and those of items with a single group
        over these items.
        """
        groups_of_item = self.has_group.sum(axis=1)
        generator = np.random.Generator(np.random.PCG64(self.seed))
        values = np.stack([self.sums, self.sizes], axis=-1)
        of_sets = permuted_within(values[groups_of_item > 1], draws, generator)
        of_singles = permuted_between(values[groups_of_item == 1], draws, generator)
        totals = of_sets + of_singles
        return totals[..., 0], totals[..., 1]


def _exact_interval(rate: float, trials: float, level: float) -> Interval:
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


def _ratio_interval(
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


def _slope_weights(sizes: Floats, numbers: Floats) -> Floats:
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


def _weighted_variance(sums: Floats, sizes: Floats) -> Floats:
    """Return the weighted sum of squared deviations of the group means from their common mean.

    For rates it is proportional to the chi-squared statistic. The shapes are (..., groups) -> (...).
    """
    total = ratio(sums.sum(axis=-1), sizes.sum(axis=-1))
    deviations = np.nan_to_num(ratio(sums, sizes) - total[..., None])
    variance: Floats = (sizes * deviations**2).sum(axis=-1)
    return variance
