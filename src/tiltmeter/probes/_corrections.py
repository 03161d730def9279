"""Correction of estimates for parsing errors, from a sample of attempts that people (or a judge) labelled.

Every metric is a function of totals. The totals are those of the labels as read, plus the weighted changes
that correcting each labelled attempt makes. The weight of an attempt is the number of attempts that it
represents. What is done depends on the labels:

- With fewer than FEWEST_LABELS labels, no estimate is corrected: the correction would be more uncertain than
  any bias that matters.
- If fewer than FEWEST_ERRORS of the labels change a metric, the estimate stays as it is. Its interval is that
  around the corrected value, with what such a count of rare events allows, separately for errors that raise
  and that lower the metric, and extended to the estimate.
- Otherwise, a mean, a share or a difference is averaged with that from the labelled attempts alone, with the
  weights that give the smallest variance, so that it is never worse than the labels alone.
- A maximum of differences is biased upwards by any noise, also by that of the labels. It is therefore
  estimated from joint resamples of the items and of the labelled attempts, and tested against relabelled
  groups with the same noise.

Distances from "no bias" are not corrected here, because they are computed from the corrected signed metric.

References
----------
Angelopoulos, Duchi and Zrnic (2023), "PPI++: efficient prediction-powered inference"; Zrnic (2024), "A note
on the prediction-powered bootstrap"; Fay and Feuer (1997) for the rare events; Newcombe (1998) for combining
intervals.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tiltmeter import stats
from tiltmeter.probes._counted_items import CountedItems, cluster_spreads
from tiltmeter.probes._estimates import MARK_LEVEL, Ends, Estimate, EstimateContext, Estimator
from tiltmeter.probes._labelled_attempts import LabelledAttempts
from tiltmeter.probes._metrics import MetricKey, Values
from tiltmeter.study import Settings

if TYPE_CHECKING:
    from tiltmeter._arrays import Floats

FEWEST_LABELS: Final = 50
"""With fewer labelled responses of a model, estimates are not corrected; several labels of one response count
once."""
FEWEST_ERRORS: Final = 10
"""With fewer observed errors, a normal approximation is not used."""
LABEL_STREAM: Final = 3
"""Added to the seed for the resamples of labelled attempts."""
WORST_LEVEL: Final = 0.9999
"""Confidence level of the effect of parsing errors on the p-value of a maximum, if few errors were observed.
The remaining probability is added to the p-value, so it must be small beside 0.05 divided by the 19 key
tests."""


# -- means, shares and differences, and maxima with few errors ---------------------------------------------


class Correction(NamedTuple):
    """Correction of an estimate for parsing errors that a labelled sample shows."""

    expected: float
    """What the labels change in the metric."""
    errors: Callable[[float], tuple[float, float]]
    """Function from a confidence level to how far `expected` may be wrong, downwards and upwards."""
    moves_value: bool
    """Whether the estimate is changed by `expected`. If not, only its interval allows for the parsing errors.
    """

    def applied(self, estimate: Estimate, raw: float, context: EstimateContext) -> Estimate:
        """Return the estimate with the correction.

        The halves of its intervals combine the uncertainty of the estimate and of the correction (Newcombe's
        square-and-add). The intervals are around the value that the labels expect, and are extended to the
        estimate where that value is not the estimate.

        Parameters
        ----------
        estimate
            The estimate without labels.
        raw
            Its value before the correction for the upward bias of a maximum.
        context
            The other inputs of the estimate.
        """
        metric, level = estimate.named.metric, context.settings.level
        low, high = self._clipped(estimate, (estimate.low, estimate.high), level)
        low_items, high_items = self._clipped(estimate, (estimate.low_items, estimate.high_items), level)
        low_mark, high_mark = self._clipped(estimate, (estimate.low_mark, estimate.high_mark), MARK_LEVEL)
        if metric.kind == "maximum":
            p, lowest = self._tested_maximum(estimate, raw, context)
            low = max(low, lowest(level)) if p < 1 - level else metric.low
            low_mark = max(low_mark, lowest(MARK_LEVEL)) if p < 1 - MARK_LEVEL else metric.low
        else:
            p = self._p_of_bias(estimate, context)
        change = "corrected by labels" if self.moves_value else "widened by the errors that labels allow"
        return Estimate(
            named=estimate.named,
            value=self._corrected(estimate),
            low=low,
            high=high,
            p=p,
            method=f"{estimate.method}; {change}",
            low_items=low_items,
            high_items=high_items,
            low_mark=low_mark,
            high_mark=high_mark,
            value_read=estimate.value,
            low_read=estimate.low,
            high_read=estimate.high,
            too_few=estimate.too_few,
        )

    def _corrected(self, estimate: Estimate) -> float:
        """Return the value of the estimate with the correction, within the range of the metric."""
        if not self.moves_value:
            return estimate.value
        metric = estimate.named.metric
        return min(max(estimate.value + self.expected, metric.low), metric.high)

    def _clipped(self, estimate: Estimate, sampled: Ends, level: float) -> Ends:
        """Return the corrected interval within the range of the metric."""
        metric = estimate.named.metric
        low, high = self._interval(estimate, sampled, level)
        return max(low, metric.low), min(high, metric.high)

    def _interval(self, estimate: Estimate, sampled: Ends, level: float) -> Ends:
        """Return the corrected interval at a level, given that of the estimate without labels.

        It may exceed the range of the metric.
        """
        value = self._corrected(estimate)
        down, up = self.errors(level)
        centre = value if self.moves_value else value + self.expected
        low = centre - math.hypot(estimate.value - sampled[0], down)
        high = centre + math.hypot(sampled[1] - estimate.value, up)
        return min(low, value), max(high, value)

    def _p_of_bias(self, estimate: Estimate, context: EstimateContext) -> float:
        """Compute the p-value of "no bias" from the corrected intervals.

        It is the smallest error 1 - L at which the interval of the level L excludes "no bias". The half of
        the estimate without labels is that of the level asked for, times the ratio of the quantiles of
        Student's t at both levels. The p-value is therefore below 1 - level if and only if the interval
        excludes "no bias". A metric without a null value is tested on one side, so its p-value is half as
        large.

        Returns
        -------
        p; 1 inside the healthiest tier; NaN without a null value or tiers, or without an interval.
        """
        metric = estimate.named.metric
        level, freedom = context.settings.level, context.spread.freedom
        value = self._corrected(estimate)
        tested = metric.nearest_unbiased(value)
        unit = stats.two_sided_t(level, freedom)

        def excess(level_of_test: float) -> float:
            """Return by how much the nearer end of the interval at a level lies beyond "no bias"."""
            scale = stats.two_sided_t(level_of_test, freedom) / unit
            sampled_low = estimate.value - scale * (estimate.value - estimate.low)
            sampled_high = estimate.value + scale * (estimate.high - estimate.value)
            low, high = self._interval(estimate, (sampled_low, sampled_high), level_of_test)
            return low - tested if value > tested else tested - high

        if math.isnan(tested) or math.isnan(excess(level)):
            return math.nan
        if tested == value:
            return 1.0
        p = stats.p_of_intervals(excess)
        return p / 2 if metric.null is None else p

    def _tested_maximum(
        self, estimate: Estimate, raw: float, context: EstimateContext
    ) -> tuple[float, Callable[[float], float]]:
        """Test a maximum that parsing errors may have raised.

        With a probability of WORST_LEVEL, they have raised it by no more than the half at that level. The
        p-value is that of the maximum without this, plus the remaining probability.

        Returns
        -------
        The p-value, and a function from a level to the lower end of the interval that belongs to this test:
        the maximum without such errors, minus the critical value. It is above 0 if p is below 1 - level.

        References
        ----------
        Berger and Boos (1994), "P values maximized over a confidence set for the nuisance parameter".
        """
        assert context.null is not None
        spread = context.spread
        null = spread.ratio * context.null
        raised_at_most = max(self.errors(WORST_LEVEL)[0] - self.expected, 0.0)
        least = raw - raised_at_most
        p = min(1.0, stats.relabelling_t_p(least, null, spread.freedom) + 1 - WORST_LEVEL)

        def lowest(level: float) -> float:
            return least - spread.t_over_z(level) * float(stats.critical_values(null, level))

        return max(p, estimate.p), lowest


def corrections_of(counted: CountedItems, labelled: LabelledAttempts) -> dict[MetricKey, Correction]:
    """Compute the correction of each metric, with its uncertainty.

    Distances have none, and maxima with at least FEWEST_ERRORS errors have none, which `joint_maxima`
    estimates.
    """
    import numpy as np

    weights = labelled.weights
    totals = counted.totals
    totals_corrected = totals + weights @ labelled.changes
    totals_alone = weights @ labelled.alone
    values_read, described = counted.observed(), counted.described()
    corrected = counted.compute(np.stack([totals_corrected, totals_alone]))
    errors = _errors(counted, labelled)
    slopes_alone = counted.slopes(totals_alone)
    influences_alone = labelled.alone @ slopes_alone.T * weights[:, None]
    slopes = counted.slopes(totals)
    possible = np.einsum("nlc,cm,n->nlm", labelled.possible, slopes.T, weights, optimize=True)
    corrections = {}
    for place, key in enumerate(values_read):
        value, value_alone = corrected[key]
        of_metric = errors[:, place]
        few = _are_few(of_metric)
        kind = described[key].metric.kind
        if kind == "absolute" or (kind == "maximum" and not few):
            continue
        if few or np.isnan(value_alone):
            expected = float(of_metric.sum()) if few else float(value) - values_read[key]
            raising, lowering = _counted_errors(of_metric, possible[..., place])
            half_widths = partial(_few_errors, raising, lowering)
            corrections[key] = Correction(expected, half_widths, moves_value=not few)
        else:
            share, error = _best_average(labelled, of_metric, influences_alone[:, place])
            expected = share * value + (1 - share) * value_alone - values_read[key]
            half_widths = partial(_t_errors, error, labelled.freedom)
            corrections[key] = Correction(float(expected), half_widths, moves_value=True)
    return corrections


def _best_average(
    labelled: LabelledAttempts, errors: Floats, influences_alone: Floats
) -> tuple[float, float]:
    """Return the share of the corrected value in the average of smallest variance, and its standard error.

    The other value in the average is that from the labelled attempts alone.

    Parameters
    ----------
    labelled
        The labelled attempts.
    errors
        By how much each label changes the metric, shape (n,).
    influences_alone
        Influence of each labelled attempt on the metric of these attempts alone, shape (n,).
    """
    import numpy as np

    shares_unlabelled = np.maximum(1 - 1 / labelled.weights, 0.0)
    finite_population = np.sqrt(shares_unlabelled)[:, None]
    both = np.stack([errors, influences_alone], axis=1) * finite_population
    with_sum = np.column_stack([both, both.sum(axis=1)])
    of_errors, of_alone, of_sum = stats.stratified_variance(with_sum, labelled.strata)
    covariance = (of_sum - of_errors - of_alone) / 2
    weight = stats.ratio(of_alone - covariance, of_errors + of_alone - 2 * covariance)
    share = float(np.clip(np.nan_to_num(weight, nan=1.0), 0.0, 1.0))
    squares = share**2 * of_errors + (1 - share) ** 2 * of_alone
    variance = squares + 2 * share * (1 - share) * covariance
    return share, math.sqrt(max(variance, 0.0))


def _errors(counted: CountedItems, labelled: LabelledAttempts) -> Floats:
    """Return by how much each label changes each metric, shape (n, metrics), linearised and weighted."""
    slopes = counted.slopes(counted.totals)
    errors: Floats = labelled.changes @ slopes.T * labelled.weights[:, None]
    return errors


def _are_few(errors: Floats) -> bool:
    """Return whether fewer than FEWEST_ERRORS labels change a metric.

    `errors` (n,) are the amounts by which each label changes it.
    """
    return int((abs(errors) > 0).sum()) < FEWEST_ERRORS


class _CountedErrors(NamedTuple):
    """Errors in one direction."""

    changes: Floats
    """By how much each changes the metric, shape (errors,)."""
    most: float
    """The most that another error could change it."""


def _counted_errors(errors: Floats, possible: Floats) -> tuple[_CountedErrors, _CountedErrors]:
    """Return the errors whose correction raises the metric, and those whose correction lowers it.

    Parameters
    ----------
    errors
        By how much each label changes the metric, shape (n,).
    possible
        By how much each other label of each attempt would change it, shape (n, labels).
    """
    largest_rise = possible.max(initial=0.0)
    largest_fall = (-possible).max(initial=0.0)
    raising = _CountedErrors(errors[errors > 0], float(largest_rise))
    lowering = _CountedErrors(-errors[errors < 0], float(largest_fall))
    return raising, lowering


def _few_errors(raising: _CountedErrors, lowering: _CountedErrors, level: float) -> tuple[float, float]:
    """Return how far the sum of few changes may be wrong, downwards and upwards."""
    up, down = raising.changes.sum(), lowering.changes.sum()
    ups = stats.weighted_sum_interval(raising.changes, raising.most, level)
    downs = stats.weighted_sum_interval(lowering.changes, lowering.most, level)
    below = math.hypot(up - ups.low, downs.high - down)
    above = math.hypot(ups.high - up, down - downs.low)
    return below, above


def _t_errors(error: float, freedom: float, level: float) -> tuple[float, float]:
    """Return both halves of the t interval at a level, from a standard error and its degrees of freedom."""
    half = stats.two_sided_t(level, freedom) * error
    return half, half


# -- maxima with many errors -------------------------------------------------------------------------------


class Resampled(NamedTuple):
    """Values of a maximum in resamples, and under relabelled groups, shape (R,)."""

    samples: Floats
    null: Floats


class JointMaximum(NamedTuple):
    """A maximum of differences with corrected labels, and its resamples of items and labels together."""

    value: float
    of_clusters: Resampled
    """The items' part is stretched to the spread of clusters like these."""
    of_items: Resampled

    def estimated(self, unlabelled: Estimate, estimate: Estimator, context: EstimateContext) -> Estimate:
        """Return the estimate from these resamples, given the estimate without labels."""
        plain = context.spread._replace(ratio=1.0)
        named = unlabelled.named
        resampled = context._replace(spread=plain, sample=None)
        context_of_clusters = resampled._replace(null=self.of_clusters.null)
        context_of_items = resampled._replace(null=self.of_items.null)
        of_clusters = estimate(named, self.value, self.of_clusters.samples, context_of_clusters)
        of_items = estimate(named, self.value, self.of_items.samples, context_of_items)
        return dataclasses.replace(
            of_clusters,
            low_items=of_items.low_items,
            high_items=of_items.high_items,
            method=f"{of_clusters.method}; corrected by labels, which are resampled as well",
            value_read=unlabelled.value,
            low_read=unlabelled.low,
            high_read=unlabelled.high,
            too_few=unlabelled.too_few,
        )


def joint_maxima(
    counted: CountedItems, labelled: LabelledAttempts, settings: Settings
) -> dict[MetricKey, JointMaximum]:
    """Estimate the maxima that at least FEWEST_ERRORS labels change, from resamples of items and labels.

    The totals of a resample are the corrected totals, plus the deviation of the resampled items, stretched by
    the ratio of the standard errors of clusters and items, plus the deviation of the resampled changes. Under
    the null hypothesis, the groups' columns are exchanged within items, their changes are those of the mean
    over the groups, and the deviation of the resampled changes is added as well.
    """
    import numpy as np

    errors = _errors(counted, labelled)
    described = counted.described()
    maxima = []
    for place, (key, named) in enumerate(described.items()):
        if named.metric.kind == "maximum" and not _are_few(errors[:, place]):
            maxima.append(key)
    if not maxima:
        return {}
    changes = labelled.weights[:, None] * labelled.changes
    totals, change = counted.totals, changes.sum(axis=0)
    resamples, seed = settings.resamples, settings.seed
    resampled_items = stats.resampled_totals(
        counted.values, resamples=resamples, seed=seed, strata=counted.strata
    )
    resampled_changes = stats.resampled_totals(
        changes, resamples=resamples, seed=seed + LABEL_STREAM, strata=labelled.strata
    )
    of_items = resampled_items - totals
    of_labels = resampled_changes - change
    relabelled = counted.relabelled_totals(settings)
    centre = relabelled.mean(axis=0)
    change_of_mean_group = counted.averaged_over_groups(change)
    spreads = cluster_spreads(counted)

    @cache
    def resampled(ratio: float) -> tuple[Values, Values]:
        samples = counted.compute(totals + change + ratio * of_items + of_labels)
        null_totals = centre + change_of_mean_group + ratio * (relabelled - centre) + of_labels
        return samples, counted.compute(null_totals)

    def of_metric(key: MetricKey, ratio: float) -> Resampled:
        samples, null = resampled(ratio)
        return Resampled(samples[key], null[key])

    corrected = counted.compute(np.atleast_2d(totals + change))
    joint = {}
    for key in maxima:
        of_clusters = of_metric(key, spreads[key].ratio)
        joint[key] = JointMaximum(float(corrected[key][0]), of_clusters, of_items=of_metric(key, 1.0))
    return joint
