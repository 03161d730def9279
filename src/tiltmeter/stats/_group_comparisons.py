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
from itertools import combinations, permutations
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
from tiltmeter.stats._rates import share_interval
from tiltmeter.stats._resampling import blocks_of

FEWEST_ITEMS: Final = 10
"""With fewer items in a group, the interval of its rate is exact instead of Wilson's, and tests are exact
without the mid-p correction."""
DRAWS: Final = 9999
"""Number of random permutations of a test; no p-value is below 1 / (DRAWS + 1)."""

NORMAL_DRAWS: Final = 1000
"""Number of random errors from which the upward bias of a maximum is estimated."""
MOST_ARRANGEMENTS: Final = 1000
"""Largest number of arrangements of a set that are counted instead of drawn set by set."""


class GroupDifference(NamedTuple):
    """The difference of two groups, or the largest of several, with its interval and test."""

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
        p = self._of_groups([first, second]).p
        interval = self._difference_interval(first, second, level)
        low, high = interval
        if not p < 1 - level:
            low, high = min(low, 0.0), max(high, 0.0)
        return GroupDifference(estimate, low, high, p)

    def _difference_interval(self, first: int, second: int, level: float) -> Interval:
        """Compute the interval of a difference from those of both groups and their correlation."""
        influences = self._influences
        spread = self._spread_of(influences[:, first] - influences[:, second])
        estimate = float(self.means[first] - self.means[second])
        of_first = self._mean_interval(first, level, spread)
        of_second = self._mean_interval(second, level, spread)
        down_first = float(self.means[first]) - of_first.low
        up_first = of_first.high - float(self.means[first])
        down_second = float(self.means[second]) - of_second.low
        up_second = of_second.high - float(self.means[second])
        correlation = self._correlation(first, second)
        below = _combined(down_first, up_second, correlation)
        above = _combined(up_first, down_second, correlation)
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
        draws = 1000
        errors = generator.multivariate_normal(
            np.zeros(len(covariance)), covariance, size=draws, method="eigh"
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

    def _of_groups(self, groups: Sequence[int]) -> GroupSample:
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
        of_sets = _permuted_within(values[groups_of_item > 1], draws, generator)
        of_singles = _permuted_between(values[groups_of_item == 1], draws, generator)
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


def _combined(first: float, second: float, correlation: float) -> float:
    """Return the half-width of a difference from the half-widths of two correlated estimates."""
    if math.isinf(first) or math.isinf(second):
        return math.inf
    return math.sqrt(max(first**2 + second**2 - 2 * correlation * first * second, 0.0))


def _weighted_variance(sums: Floats, sizes: Floats) -> Floats:
    """Return the weighted sum of squared deviations of the group means from their common mean.

    For rates it is proportional to the chi-squared statistic. The shapes are (..., groups) -> (...).
    """
    total = ratio(sums.sum(axis=-1), sizes.sum(axis=-1))
    deviations = np.nan_to_num(ratio(sums, sizes) - total[..., None])
    variance: Floats = (sizes * deviations**2).sum(axis=-1)
    return variance


def _permuted_within(values: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return totals, shape (draws, groups, columns), after permuting the groups of each item at random.

    Sets with the same values are permuted together: how many of them have each arrangement is multinomial.

    Parameters
    ----------
    values
        (items, groups, columns) values of matched sets; the last column is 0 where a set lacks a group.
    """
    groups, columns = values.shape[1:]
    totals = np.zeros((draws, groups, columns))
    if not len(values):
        return totals
    rare = []
    patterns, counts = np.unique(values.reshape(len(values), -1), axis=0, return_counts=True)
    for pattern, count in zip(patterns.reshape(-1, groups, columns), counts.tolist(), strict=True):
        present = np.flatnonzero(pattern[:, -1] > 0)
        if math.factorial(len(present)) > min(MOST_ARRANGEMENTS, 4 * count * groups):
            rare.append(np.repeat(pattern[None], count, axis=0))
            continue
        arranged = np.tile(pattern, (math.factorial(len(present)), 1, 1))
        arranged[:, present] = pattern[np.array(list(permutations(present.tolist())))]
        distinct, multiplicity = np.unique(arranged.reshape(len(arranged), -1), axis=0, return_counts=True)
        chances = multiplicity / multiplicity.sum()
        numbers = generator.multinomial(count, chances, size=draws)
        totals += (numbers @ distinct).reshape(totals.shape)
    if rare:
        totals += _permuted_one_by_one(np.concatenate(rare), draws, generator)
    return totals


def _permuted_one_by_one(values: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return the totals of `_permuted_within`, with the order of each set drawn by itself."""
    items, groups, columns = values.shape
    is_present = values[..., -1] > 0
    totals = np.empty((draws, groups, columns))
    places = np.argsort(~is_present, axis=1, kind="stable")  # the groups of each set come first
    rows = np.arange(items)[None, :, None]
    for block in blocks_of(draws, items * groups):
        keys = generator.random((len(block), items, groups))
        keys[:, ~is_present] = 2.0
        order = np.argsort(keys, axis=2)
        group_at = np.empty_like(order)
        np.put_along_axis(group_at, np.broadcast_to(places, order.shape), order, axis=2)
        totals[block.start : block.stop] = values[rows, group_at].sum(axis=1)
    return totals


def _permuted_between(values: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return totals, shape (draws, groups, columns), after permuting items with one group each.

    How many of the items with the same values are in each group is hypergeometric.

    Parameters
    ----------
    values
        (items, groups, columns) values; the last column is 0 except in the group of an item.
    """
    items, groups, columns = values.shape
    totals = np.zeros((draws, groups, columns))
    if not items:
        return totals
    group = np.argmax(values[..., -1] > 0, axis=1)
    patterns, counts = np.unique(values[np.arange(items), group], axis=0, return_counts=True)
    vacant = np.tile(np.bincount(group, minlength=groups), (draws, 1))
    for pattern, count in zip(patterns, counts.tolist(), strict=True):
        unassigned = np.full(draws, count)
        for number in range(groups):
            elsewhere = vacant[:, number + 1 :].sum(axis=1)
            assigned = generator.hypergeometric(vacant[:, number], elsewhere, unassigned)
            totals[:, number] += assigned[:, None] * pattern
            vacant[:, number] -= assigned
            unassigned -= assigned
    return totals
