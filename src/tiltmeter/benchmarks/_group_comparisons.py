"""Comparisons of groups by one statistic: estimates, intervals and p-values from resamples and permutations.

Arrays have axes for columns (C), groups (G), comparisons (K), and resamples or permutations (R).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tiltmeter._arrays import Floats, Index
from tiltmeter.benchmarks._array_records import stacked, without
from tiltmeter.benchmarks._summaries import StudentisedTest, SummaryRequest
from tiltmeter.stats import (
    COMPARISONS,
    DisparityMeasure,
    GroupValues,
    column_quantiles,
    excess_p,
    lifted_interval,
    paired_difference,
)
from tiltmeter.stats._arithmetic import ROUNDING, ratio
from tiltmeter.stats._intervals import critical_values

Ends = tuple[Floats, Floats]
"""Lower and upper ends of intervals."""


@dataclass(frozen=True, slots=True)
class StatisticDraws:
    """One statistic of all groups: observed, in resamples, and with permuted groups."""

    observed: Floats
    """(C, G) values of the data."""
    drawn: Floats
    """(C, G, R) values of the bootstrap resamples."""
    null: Floats
    """(C, G, R) values of the permutations."""
    low: Floats
    """(C, G) lower ends of the intervals of the groups."""
    high: Floats
    slack: Floats
    """(C,) exact bound of a difference that is the same in all resamples."""
    test: StudentisedTest | None
    """Studentised values, whose comparison gives p; None: the statistic is tested as it is."""


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Comparisons of groups, shape (..., C, K), or one comparison, shape (C,)."""

    estimate: Floats
    low: Floats
    high: Floats
    p: Floats
    group: Index
    """Number of the group concerned by a comparison, -1 for none."""


@dataclass(frozen=True, slots=True)
class GroupDistances:
    """Distances of groups from the other groups, shape (..., C, G)."""

    z: Floats
    """Distance from the mean of the groups, in standard deviations."""
    outlier: Floats
    """Whether the group is an outlier by Dixon's test (1 or 0); NaN if unknown."""


class _Values(NamedTuple):
    """Values of the groups, with intermediate results that several comparisons use."""

    observed: GroupValues
    resampled: GroupValues
    permuted: GroupValues
    studentised: GroupValues | None
    groups: dict[str, Index]
    """Numbers (C,) of the groups at the ends; see `_extreme_groups`."""


def compare_groups(draws: StatisticDraws, request: SummaryRequest) -> Comparisons:
    """Compute all comparisons of one statistic."""
    formulas = request.formulas
    observed = GroupValues(draws.observed, formulas)
    resampled = GroupValues(np.moveaxis(draws.drawn, -2, -1), formulas)
    permuted = GroupValues(np.moveaxis(draws.null, -2, -1), formulas)
    studentised = None if draws.test is None else GroupValues(draws.test.values, formulas)
    values = _Values(observed, resampled, permuted, studentised, _extreme_groups(observed))
    return stacked([_compare(name, draws, values, request) for name in COMPARISONS], axis=-1)


def distances_of(draws: StatisticDraws, request: SummaryRequest) -> GroupDistances:
    """Compute the distances of the groups by one statistic."""
    observed = GroupValues(draws.observed, request.formulas)
    return GroupDistances(observed.z, _outliers(observed))


class _ComparisonDraws(NamedTuple):
    """One comparison of all columns: observed (C,), in resamples (C, R), and with permuted groups (C, R)."""

    estimate: Floats
    samples: Floats
    null: Floats


def _compare(name: str, draws: StatisticDraws, values: _Values, request: SummaryRequest) -> Comparisons:
    """Compute one comparison."""
    comparison = COMPARISONS[name]
    compared = _ComparisonDraws(
        comparison.compute(values.observed),
        comparison.compute(values.resampled),
        comparison.compute(values.permuted),
    )
    unknown = np.isnan(compared.estimate)
    group = np.where(unknown, -1, values.groups.get(comparison.group, -1))
    p = _p_value(comparison, compared, draws.test, values)
    if comparison.none is not None:
        low, high = _ends_of_distance(name, compared, p, draws, values, request)
    elif comparison.group in ("max", "min") and not comparison.extreme:
        # The interval of the group that is observed as largest or smallest; in resamples, it may be another
        # group.
        place = np.maximum(group, 0)
        low, high = _at(draws.low, place), _at(draws.high, place)
    else:
        low, _, high = column_quantiles(compared.samples, request.level)
    comparisons = Comparisons(compared.estimate, low, high, p, group)
    return without(comparisons, ("low", "high", "p"), unknown)


def _p_value(
    comparison: DisparityMeasure, compared: _ComparisonDraws, test: StudentisedTest | None, values: _Values
) -> Floats:
    """Compute the p-value of a comparison, shape (C,); NaN if it is not tested."""
    if not comparison.extreme:
        return np.full(compared.estimate.shape, np.nan)
    if test is None or values.studentised is None:
        return excess_p(compared.estimate, compared.null, comparison.extreme)
    if comparison.none is None:
        sizes = comparison.compute(values.studentised)
    else:
        sizes = values.studentised.size
    size = np.where(np.isnan(compared.estimate), np.nan, sizes[:, 0])
    p = excess_p(size, sizes[:, 1:], 1)
    if comparison.none is None:
        return p
    return np.where(np.isnan(p), np.nan, np.fmax(p, test.least_p))


def _ends_of_distance(
    name: str,
    compared: _ComparisonDraws,
    p: Floats,
    draws: StatisticDraws,
    values: _Values,
    request: SummaryRequest,
) -> Ends:
    """Compute the corrected interval of a comparison that has a value for equal groups (range, ratio, sd)."""
    comparison, observed = COMPARISONS[name], values.observed
    share = None
    if draws.test is not None:
        least = _least_share(draws.test, observed, request.level)
        share = np.where(p < 1.0 - request.level, least, 0.0)
    low, high = _lifted_ends(comparison, compared, share, request.level)
    if not request.formulas.studentised:
        return low, high
    if comparison.extreme < 0:
        highest = _highest_ratio(observed, draws.high, values.groups["min"])
        high = np.where(compared.estimate <= 0.0, np.fmax(high, highest), high)
    if request.resamples:
        of_groups = _ends_of_constants(name, values, draws)
        of_pairs = _ends_of_pairs(name, observed, compared.estimate, draws.slack)
        low, high = _widened_constants(low, high, compared.samples, draws.drawn, of_groups, of_pairs)
    return low, high


def _least_share(test: StudentisedTest, observed: GroupValues, level: float) -> Floats:
    """Compute a lower bound of the true range as a share of the observed one, shape (C,).

    The true differences have at least the size sqrt(Welch-James statistic) - sqrt(critical value) if they are
    weighted as in the statistic (Scheffe 1953), which is at most half the range times sqrt(sum of the
    weights).
    """
    sizes = np.sqrt(GroupValues(test.values).size)
    excess = sizes[:, 0] - critical_values(sizes[:, 1:], level)
    least_range = 2.0 * excess / np.sqrt(test.weight)
    share = ratio(least_range, observed.max - observed.min)
    return np.clip(share, 0.0, 1.0)


def _lifted_ends(
    comparison: DisparityMeasure, compared: _ComparisonDraws, share: Floats | None, level: float
) -> Ends:
    """Compute the corrected interval of a distance, which is biased upwards, or of a ratio, biased downwards.

    `share` is a lower bound of the true distance as a share of the estimate.
    """
    assert comparison.none is not None
    sign, equal = comparison.extreme, comparison.none
    distance = sign * (compared.estimate - equal)
    samples = sign * (compared.samples - equal)
    null = sign * (compared.null - equal)
    floor = None if share is None else share * distance
    low, high = lifted_interval(distance, samples, null, level, floor)
    if sign > 0:
        return low, high
    return np.maximum(equal - high, 0.0), equal - low


def slack_of_differences(rows: Index, reach: Floats, level: float) -> Floats:
    """Compute by how much a difference that is the same in all resamples may be wrong, shape (S, C).

    NaN if this is unbounded. If n units agree, a share of up to 1 - ((1 - level) / 2)**(1 / n) of all units
    may differ (`stats.rare_event_interval`), each by at most the `reach` (2, S, C, 1). n is the smallest
    number of values (S, C, G) among the groups that have any.
    """
    units = np.where(rows > 0, rows, np.inf).min(axis=-1)
    share = 1.0 - ((1.0 - level) / 2.0) ** (1.0 / units)
    width = (reach[1] - reach[0])[..., 0]
    return np.where(np.isfinite(width), share * width, np.nan)


def _widened_constants(
    low: Floats, high: Floats, samples: Floats, drawn: Floats, of_groups: Ends, of_pairs: Ends
) -> Ends:
    """Widen intervals (C,) of comparisons that are the same in all resamples (C, R).

    Such resamples say nothing about the uncertainty. `of_groups` has the ends if all resamples of each group
    (C, G, R) agree, `of_pairs` the ends if only the comparison does, as for answers that differ between
    prompts, but not between the groups of a prompt; NaN where unknown.
    """
    scale = np.fmax.reduce(np.abs(drawn), axis=(-2, -1))
    largest, smallest = np.fmax.reduce(samples, axis=-1), np.fmin.reduce(samples, axis=-1)
    spread = largest - smallest
    is_constant = spread <= ROUNDING * scale
    agrees = (drawn == drawn[..., :1]) | np.isnan(drawn)
    groups_agree = agrees.all(axis=(-2, -1))
    least = np.where(groups_agree, of_groups[0], of_pairs[0])
    most = np.where(groups_agree, of_groups[1], of_pairs[1])
    is_widened = is_constant & ~np.isnan(least) & ~np.isnan(most)
    low = np.where(is_widened, np.fmin(low, least), low)
    high = np.where(is_widened, np.fmax(high, most), high)
    return low, high


def _ends_of_pairs(name: str, observed: GroupValues, estimate: Floats, slack: Floats) -> Ends:
    """Compute both ends of a comparison that has its `estimate` (C,) in all resamples.

    The difference of two groups may be wrong by `slack`.
    """
    if name == "ratio":
        share = ratio(slack, observed.max)
        return np.maximum(estimate - share, 0.0), np.minimum(estimate + share, 1.0)
    # The sd of two groups is their difference divided by the square root of 2; that of more groups changes
    # less.
    largest = slack / np.sqrt(2.0) if name == "sd" else slack
    return np.maximum(estimate - largest, 0.0), estimate + largest


def _ends_of_constants(name: str, values: _Values, draws: StatisticDraws) -> Ends:
    """Compute both ends of a comparison, shape (C,), from the intervals of the groups.

    They are used if all resamples of each group agree. The intervals of the groups are then exact bounds, of
    which each end is exceeded with a probability of (1 - level) / 2.
    """
    largest, smallest = values.groups["max"], values.groups["min"]
    highest = np.fmax.reduce(draws.high, axis=-1)
    lowest = np.fmin.reduce(draws.low, axis=-1)
    low_of_largest = _at(draws.low, largest)
    high_of_smallest = _at(draws.high, smallest)
    if name == "ratio":
        least = np.maximum(ratio(lowest, highest), 0.0)
        most = np.minimum(ratio(high_of_smallest, low_of_largest), 1.0)
        return least, most
    least = np.maximum(low_of_largest - high_of_smallest, 0.0)
    most = highest - lowest
    if name == "sd":
        # Of all values with this range, those with two groups at the ends and the others in the middle have
        # the smallest sd.
        further_groups = values.observed.count - 1.0
        return least / np.sqrt(2.0 * further_groups), most / np.sqrt(2.0)
    return least, most


def _highest_ratio(observed: GroupValues, group_high: Floats, smallest: Index) -> Floats:
    """Compute the upper end of the smallest value divided by the largest value, shape (C,).

    It is used if the smallest value is 0. The ratio is then 0 in nearly all resamples, which says nothing
    about its upper end; the interval of the group does (where all values agree, it is the exact bound).
    """
    return np.minimum(ratio(_at(group_high, smallest), observed.max), 1.0)


def _at(ends: Floats, group: Index) -> Floats:
    """Return the end (C, G) of one group (C,) of each column, shape (C,)."""
    return np.take_along_axis(ends, group[:, None], axis=1)[:, 0]


def _extreme_groups(observed: GroupValues) -> dict[str, Index]:
    """Return the numbers (C,) of the groups at the ends.

    They are those with the smallest and the largest value, the largest |z|, and the larger Dixon ratio.
    """
    smallest = _place_of_largest(-observed.values)
    largest = _place_of_largest(observed.values)
    is_low = observed.dixon.low > observed.dixon.high
    return {
        "min": smallest,
        "max": largest,
        "z": _place_of_largest(np.abs(observed.z)),
        "end": np.where(is_low, smallest, largest),
    }


def _place_of_largest(values: Floats) -> Index:
    """Return the number of the group with the largest value, (..., G) -> (...); 0 if none has a value."""
    present = np.where(np.isnan(values), -np.inf, values)
    return np.asarray(np.argmax(present, axis=-1))


def _outliers(observed: GroupValues) -> Floats:
    """Return whether each group is an outlier by Dixon's test (1 or 0), shape (C, G); NaN if unknown."""
    test = observed.dixon
    is_largest = observed.values == observed.max[:, None]
    is_smallest = observed.values == observed.min[:, None]
    ratio_of_smallest = np.where(is_smallest, test.low[:, None], 0.0)
    ratios = np.where(is_largest, test.high[:, None], ratio_of_smallest)
    critical = test.critical[:, None]
    unknown = np.isnan(observed.values) | np.isnan(critical)
    return np.where(unknown, np.nan, ratios > critical)


def minus_others(values: Floats, rows: Index) -> Floats:
    """Subtract from each group's statistic the mean of the other groups, weighted by their rows.

    Shapes: values (..., G, R), rows (..., G).
    """
    weights = np.where(np.isnan(values), 0.0, rows[..., None])
    weighted = weights * np.nan_to_num(values)
    weighted_others = weighted.sum(axis=-2, keepdims=True) - weighted
    weights_of_others = weights.sum(axis=-2, keepdims=True) - weights
    return values - ratio(weighted_others, weights_of_others)


@dataclass(frozen=True, slots=True)
class GroupDifferences:
    """Difference of each group from the others, shape (S, C, G); NaN where unknown."""

    difference: Floats
    low: Floats
    high: Floats
    p: Floats


def against_others(
    observed: Floats, drawn: Floats, null: Floats, rows: Index, reach: Floats, request: SummaryRequest
) -> GroupDifferences:
    """Compute the difference of each group from the mean of the others, weighted by rows.

    The degrees of freedom are those of the group, or of the others if they have fewer rows. All numbers are
    NaN under "saged".
    """
    if not request.formulas.studentised:
        unknown = np.full(observed.shape, np.nan)
        return GroupDifferences(unknown, unknown, unknown, unknown)
    difference = minus_others(observed[..., None], rows)
    samples = minus_others(drawn, rows)
    exchanged = minus_others(null, rows) if request.permutations else None
    # The variance is multiplied by n / (n - 1), as in the intervals of the groups.
    scale = np.sqrt(ratio(rows, rows - 1.0))[..., None]
    samples = difference + (samples - difference) * scale
    difference = difference[..., 0]
    rows_of_others = rows.sum(axis=-1, keepdims=True) - rows
    units = np.minimum(rows, rows_of_others)
    width = reach[1] - reach[0]
    inference = paired_difference(
        difference, samples, exchanged, units=units, reach=width, level=request.level
    )
    return GroupDifferences(difference, inference.low, inference.high, inference.p)


@dataclass(frozen=True, slots=True)
class ImpactRatios:
    """Impact ratio of each group (its rate divided by the largest rate) and its interval, shape (..., C, G).

    NaN except for the selection rate.
    """

    estimate: Floats
    low: Floats
    high: Floats


def impact_ratios(name: str, draws: StatisticDraws, level: float) -> ImpactRatios:
    """Compute the impact ratio of each group and its interval, if the statistic is the selection rate.

    The largest of several rates is biased upwards, so plain intervals would flag too many groups. The upper
    end is 1 unless relabelling rarely gives such a small ratio in any group. Otherwise it is the bootstrap
    interval of the ratio to the group with the largest *observed* rate, adjusted for simultaneous coverage of
    all groups (Bonferroni), and at least the exact upper bound of the group's rate divided by the largest
    rate.
    """
    observed = draws.observed
    if name != "selection_rate":
        unknown = np.full(observed.shape, np.nan)
        return ImpactRatios(unknown, unknown, unknown)
    largest = np.fmax.reduce(observed, axis=-1, keepdims=True)
    impact = ratio(observed, largest)
    place = _place_of_largest(observed)[:, None, None]
    samples = ratio(draws.drawn, np.take_along_axis(draws.drawn, place, axis=1))
    alpha = (1.0 - level) / max(1, observed.shape[-1] - 1)
    low, _, _ = column_quantiles(samples, level)
    _, _, high = column_quantiles(samples, 1.0 - 2.0 * alpha)
    p = _p_of_impact(impact, draws.null)
    adjusted = np.minimum(1.0, np.maximum(high, draws.high / largest))
    high = np.where(p < 1.0 - level, adjusted, 1.0)
    ratios = ImpactRatios(impact, np.minimum(low, impact), np.maximum(high, impact))
    return without(ratios, ("low", "high"), np.isnan(p) | np.isnan(draws.high))


def _p_of_impact(impact: Floats, null: Floats) -> Floats:
    """Compare the impact ratio of each group (C, G) with the smallest one of the permuted groups."""
    relabelled = ratio(null, np.fmax.reduce(null, axis=1, keepdims=True))
    smallest = np.fmin.reduce(relabelled, axis=1)
    draws = smallest.shape[-1]
    return excess_p(impact, np.broadcast_to(smallest[:, None], (*impact.shape, draws)), -1)
