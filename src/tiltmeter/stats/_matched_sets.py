"""Flips of the label and ranges of the value within matched sets, each with what chance alone gives.

A matched set has attempts that differ in the group only. Even if the groups are treated alike, attempts of
one set differ by chance, and more groups differ more: a range of six values is larger than a difference of
two.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tiltmeter._arrays import Floats, Integers
from tiltmeter.stats._resampling import blocks_of

DRAWS_OF_SETS: Final = 20_000
"""Largest number of simulated studies from which the p-value of a flip rate or a range is computed."""
MOST_VALUES: Final = 50_000_000
"""Largest number of simulated values; larger studies are simulated less often."""
FEWEST_DRAWS: Final = 1_000


class SetStatistic(NamedTuple):
    """A statistic of matched sets, and what chance alone gives."""

    estimate: float
    """Mean over the sets."""
    chance: float | None
    """Its expected value if the groups are treated alike; None if the data do not say."""
    p: float | None
    """How often chance alone gives as much; None without `chance`."""
    sets: int
    """Number of sets with attempts of all groups."""
    low: float
    high: float
    """Interval of the mean for sets like these; NaN with fewer than two sets."""


class SetAttempts(NamedTuple):
    """Attempts of matched sets: arrays of one length, one entry per attempt."""

    sets: Integers
    """Number of the set of each attempt, from 0."""
    groups: Integers
    """Number of its group, from 0."""
    values: Floats
    """Its value, or the number of its label."""

    def complete(self, groups: int) -> SetAttempts:
        """Return the attempts of the sets that have attempts of all groups, sorted by set and group."""
        pairs = np.unique(np.stack([self.sets, self.groups]), axis=1)
        groups_of_sets = np.bincount(pairs[0], minlength=int(self.sets.max(initial=-1)) + 1)
        is_complete = groups_of_sets[self.sets] == groups
        order = np.lexsort((self.groups[is_complete], self.sets[is_complete]))
        numbers = np.unique(self.sets[is_complete][order], return_inverse=True)[1]
        return SetAttempts(
            numbers.astype(np.int64), self.groups[is_complete][order], self.values[is_complete][order]
        )

    @property
    def sets_present(self) -> int:
        """Number of sets."""
        return int(self.sets.max(initial=-1)) + 1

    @property
    def is_repeated(self) -> bool:
        """Whether a group of a set has several attempts."""
        cells = np.stack([self.sets, self.groups])
        return bool(np.unique(cells, axis=1).shape[1] < len(self.sets))


def flip_rate(attempts: SetAttempts, groups: int, level: float, seed: int) -> SetStatistic:
    """Compute the share of matched sets whose label is not the same for all groups.

    With several attempts of a group, it is the probability that one attempt of each group, drawn at random,
    do not all have the same label.

    Chance alone gives the probability that as many attempts, drawn from the whole set, do not all have the
    same label. It is known only from repetitions: without them, a set whose label flips would flip in any
    order of its attempts. The p-value permutes the attempts of each set.

    Parameters
    ----------
    attempts
        The attempts, with numbers of labels as values.
    groups
        Number of groups, k.
    level
        Confidence level of the interval for sets like these.
    seed
        Seed of the permutations.

    References
    ----------
    The share is the counterfactual flip rate of AgentFairBench (2026).

    Examples
    --------
    >>> sets, group, label = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([1.0, 0.0, 1.0, 1.0])
    >>> flip_rate(SetAttempts(sets, group, label), groups=2, level=0.95, seed=0).estimate
    0.5
    """
    complete = attempts.complete(groups)
    if not complete.sets_present:
        return SetStatistic(np.nan, None, None, 0, np.nan, np.nan)
    labels = np.unique(complete.values, return_inverse=True)[1]
    flips = _flips(complete, labels[None], groups)[0]
    low, high = _interval_of_rate(flips, level)
    if not complete.is_repeated:
        return SetStatistic(float(flips.mean()), None, None, complete.sets_present, low, high)
    chance = float(_flips_of_pooled(complete, labels, groups).mean())
    p = _share_as_large(complete, labels, groups, float(flips.mean()), seed)
    return SetStatistic(float(flips.mean()), chance, p, complete.sets_present, low, high)


def _flips(attempts: SetAttempts, labels: Integers, groups: int) -> Floats:
    """Return the probability of a flip in each set: labels (draws, attempts) -> (draws, sets)."""
    cells = attempts.sets * groups + attempts.groups
    sizes = np.bincount(cells, minlength=attempts.sets_present * groups)
    same = np.zeros((len(labels), attempts.sets_present))
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    for label in range(int(labels.max(initial=0)) + 1):
        counts = np.add.reduceat((labels == label).astype(np.float64), starts, axis=1)
        shares = (counts / sizes).reshape(len(labels), attempts.sets_present, groups)
        same += shares.prod(axis=2)
    return np.clip(1 - same, 0.0, 1.0)


def _flips_of_pooled(attempts: SetAttempts, labels: Integers, groups: int) -> Floats:
    """Return the probability that as many attempts of a set as groups, without replacement, differ."""
    from scipy.special import comb

    sizes = np.bincount(attempts.sets, minlength=attempts.sets_present)
    alike = np.zeros(attempts.sets_present)
    for label in range(int(labels.max(initial=0)) + 1):
        counts = np.bincount(attempts.sets[labels == label], minlength=attempts.sets_present)
        alike += comb(counts, groups) / comb(sizes, groups)
    return np.clip(1 - alike, 0.0, 1.0)


def _share_as_large(
    attempts: SetAttempts, labels: Integers, groups: int, observed: float, seed: int
) -> float:
    """Return how often permuted attempts flip at least as often as observed."""
    generator = np.random.default_rng(seed)
    draws = _draws(len(labels))
    as_large = 0
    for block in blocks_of(draws, len(labels)):
        keys = generator.random((len(block), len(labels))) + attempts.sets
        permuted = labels[np.argsort(keys, axis=1)]
        flips = _flips(attempts, permuted, groups).mean(axis=1)
        as_large += int((flips >= observed - 1e-9).sum())
    return (1 + as_large) / (1 + draws)


def set_range(attempts: SetAttempts, groups: int, level: float, seed: int) -> SetStatistic:
    """Compute the mean over matched sets of the range of the groups: the largest minus the smallest value.

    With several attempts of a group, it is the mean over its attempts in their order.

    With repetitions, chance alone gives the range after permuting the attempts of each set. Without them, it
    gives the range of as many draws from the residuals of the values, after subtracting the means of the set
    and of the group. These contain what a group changes in one set only, and are smaller than the deviations
    by the factor sqrt((1 - 1/sets) (1 - 1/groups)).

    Parameters
    ----------
    attempts
        The attempts.
    groups
        Number of groups, k.
    level
        Confidence level of the interval for sets like these.
    seed
        Seed of the draws.

    References
    ----------
    AgentFairBench (2026): the mean absolute score difference, and the null of the same number of groups.

    Examples
    --------
    >>> sets, group, score = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([3.0, 5.0, 4.0, 4.0])
    >>> set_range(SetAttempts(sets, group, score), groups=2, level=0.95, seed=0).estimate
    1.0
    """
    complete = attempts.complete(groups)
    if not complete.sets_present:
        return SetStatistic(np.nan, None, None, 0, np.nan, np.nan)
    table = _by_turn(complete, groups)
    ranges = np.nanmean(_range_over(table), axis=1)
    observed = float(ranges.mean())
    low, high = _interval_of_mean(ranges, level)
    generator = np.random.default_rng(seed)
    if complete.is_repeated:
        chance, p = _range_of_permuted(complete, groups, observed, generator)
    elif complete.sets_present < 2:
        return SetStatistic(observed, None, None, complete.sets_present, low, high)
    else:
        chance, p = _range_of_residuals(table[:, 0], observed, generator)
    return SetStatistic(observed, chance, p, complete.sets_present, low, high)


def _by_turn(attempts: SetAttempts, groups: int) -> Floats:
    """Return the values as (sets, turns, groups): the first attempt of each group, the second, ....

    Turns are as many as the group of a set with the fewest attempts has; NaN beyond these.
    """
    cells = attempts.sets * groups + attempts.groups
    sizes = np.bincount(cells, minlength=attempts.sets_present * groups)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    turn = np.arange(len(cells)) - starts[cells]
    fewest = sizes.reshape(attempts.sets_present, groups).min(axis=1)
    table = np.full((attempts.sets_present, int(fewest.max()), groups), np.nan)
    counts = turn < fewest[attempts.sets]
    table[attempts.sets[counts], turn[counts], attempts.groups[counts]] = attempts.values[counts]
    return table


def _range_over(table: Floats) -> Floats:
    """Return the range over the last axis; NaN where a value is missing."""
    ranges: Floats = table.max(axis=-1) - table.min(axis=-1)
    return ranges


def _range_of_permuted(
    attempts: SetAttempts, groups: int, observed: float, generator: np.random.Generator
) -> tuple[float, float]:
    """Return the mean range after permuting the attempts of each set, and how often it is as large."""
    draws = min(_draws(len(attempts.values)), 2_000)
    ranges = np.empty(draws)
    for draw in range(draws):
        order = np.argsort(generator.random(len(attempts.values)) + attempts.sets)
        permuted = attempts._replace(values=attempts.values[order])
        ranges[draw] = np.nanmean(_range_over(_by_turn(permuted, groups)), axis=1).mean()
    as_large = int((ranges >= observed - 1e-9).sum())
    return float(ranges.mean()), (1 + as_large) / (1 + draws)


def _range_of_residuals(
    scores: Floats, observed: float, generator: np.random.Generator
) -> tuple[float, float]:
    """Return the expected range of draws from the residuals, and how often it is as large: (sets, groups).

    The expected range of k draws with replacement is exact: that of the largest minus that of the smallest.
    """
    sets, groups = scores.shape
    of_sets, of_groups = scores.mean(axis=1, keepdims=True), scores.mean(axis=0, keepdims=True)
    residuals = (scores - of_sets - of_groups + scores.mean()).ravel()
    ordered = np.sort(residuals)
    below = np.arange(len(ordered) + 1) / len(ordered)
    largest = float(ordered @ np.diff(below**groups))
    smallest = float(ordered @ -np.diff((1 - below) ** groups))
    draws = _draws(scores.size)
    as_large = 0
    for block in blocks_of(draws, scores.size):
        drawn = generator.choice(residuals, size=(len(block), sets, groups))
        as_large += int((_range_over(drawn).mean(axis=1) >= observed - 1e-9).sum())
    return largest - smallest, (1 + as_large) / (1 + draws)


def _draws(values: int) -> int:
    """Return the number of simulated studies of this many values."""
    return int(np.clip(MOST_VALUES // max(values, 1), FEWEST_DRAWS, DRAWS_OF_SETS))


def _interval_of_rate(flips: Floats, level: float) -> tuple[float, float]:
    """Return Wilson's interval of the mean of probabilities, for sets like these."""
    from tiltmeter.stats._rates import wilson_interval

    count = float(flips.sum())
    if len(flips) < 2:
        return float("nan"), float("nan")
    low, high = wilson_interval(count, len(flips), level)
    return float(low), float(high)


def _interval_of_mean(ranges: Floats, level: float) -> tuple[float, float]:
    """Return Student's interval of a mean that is at least 0, for sets like these."""
    from tiltmeter.stats._intervals import two_sided_t

    if len(ranges) < 2:
        return float("nan"), float("nan")
    half = two_sided_t(level, len(ranges) - 1) * float(ranges.std(ddof=1)) / np.sqrt(len(ranges))
    mean = float(ranges.mean())
    return max(mean - half, 0.0), mean + half
