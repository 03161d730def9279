"""Correction of estimates for parsing errors, from a random sample of attempts that people (or a judge) labelled.

Every metric is a function of totals. The totals are those of the labels as read, plus the weighted changes
that correcting each labelled attempt makes, where the weight of an attempt is the number of attempts that it
stands for. What is done depends on the labels:

- With fewer than FEWEST_LABELS labels, no estimate is corrected: the correction would be more uncertain than any bias that matters.
- If fewer than FEWEST_ERRORS of the labels change a metric, the estimate stays as it is. Its interval is that around the corrected value,
  with what such a count of rare events allows, separately for errors that raise and that lower the metric,
  and extended to the estimate.
- Otherwise, a mean, a share or a difference is averaged with that from the labelled attempts alone, with the weights that give the smallest
  variance, so that it is never worse than the labels alone.
- A maximum of differences is biased upwards by any noise, also by that of the labels. It is therefore estimated from joint resamples of the
  items and of the labelled attempts, and tested against relabelled groups with the same noise.

Distances from "no bias" are not corrected here, because they are computed from the corrected signed metric.

References
----------
Angelopoulos, Duchi and Zrnic (2023), "PPI++: efficient prediction-powered inference"; Zrnic (2024), "A note
on the prediction-powered bootstrap"; Fay and Feuer (1997) for the rare events; Newcombe (1998) for combining
intervals.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from tiltmeter import stats
from tiltmeter.probes.analysis import CountedItems, cluster_spreads, stratified_variance
from tiltmeter.probes.metrics import Correction, JointMaximum, MetricKey, Resampled, Values
from tiltmeter.study import Settings

if TYPE_CHECKING:
    from tiltmeter.arrays import Floats, Index

FEWEST_LABELS = 50
"""With fewer labelled responses of a model, estimates are not corrected; several labels of one response count
once."""
FEWEST_ERRORS = 10
"""With fewer observed errors, a normal approximation is not used."""
LABEL_STREAM = 3
"""Added to the seed for the resamples of labelled attempts."""


class LabelledAttempts(NamedTuple):
    """The labelled attempts of one model and part, as columns to be summed (see `CountedItems`).

    `weights` (n,) are the numbers of attempts that each one stands for, and `strata` (n,) the strata they
    were drawn from. `changes` (n, columns) is what the label changes in the totals, `possible` (n, labels,
    columns) what any other label would change, and `own` (n, columns) are the columns of the attempts alone,
    as labelled.
    """

    weights: Floats
    strata: Index
    changes: Floats
    possible: Floats
    own: Floats


def corrections_of(counted: CountedItems, labelled: LabelledAttempts) -> dict[MetricKey, Correction]:
    """Compute the correction of each metric, with its uncertainty.

    Distances have none, and maxima with at least FEWEST_ERRORS errors have none, which `joint_maxima`
    estimates.
    """
    import numpy as np

    weights, strata = labelled.weights, labelled.strata
    totals, own = counted.values.sum(axis=0), weights @ labelled.own
    read, described = counted.observed(), counted.described()
    keys = list(read)
    corrected = counted.compute(np.stack([totals + weights @ labelled.changes, own])).values()
    errors = _errors(counted, labelled)
    rivals = labelled.own @ counted.slopes(own).T * weights[:, None]
    largest = np.einsum("nlc,cm,n->nlm", labelled.possible, counted.slopes(totals).T, weights, optimize=True)
    finite = np.sqrt(np.maximum(1 - 1 / weights, 0.0))[:, None]  # finite-population correction
    freedom = max(len(weights) - len(np.unique(strata)), 1)
    corrections = {}
    for place, (key, (value, only)) in enumerate(zip(keys, corrected, strict=True)):
        kind = described[key].metric.kind
        if kind == "absolute":
            continue
        wrong = errors[:, place]
        few = _are_few(wrong)
        if kind == "maximum" and not few:
            continue
        if few or np.isnan(only):
            expected = float(wrong.sum()) if few else float(value) - read[key]
            corrections[key] = Correction(
                expected, partial(_few_errors, *_counted_errors(wrong, largest[..., place])), not few
            )
            continue
        both = np.stack([wrong, rivals[:, place]], axis=1) * finite
        of_errors, of_rivals, of_sum = stratified_variance(np.column_stack([both, both.sum(axis=1)]), strata)
        covariance = (of_sum - of_errors - of_rivals) / 2
        weight = stats.ratio(of_rivals - covariance, of_errors + of_rivals - 2 * covariance)
        share = float(np.clip(np.nan_to_num(weight, nan=1.0), 0.0, 1.0))
        variance = share**2 * of_errors + (1 - share) ** 2 * of_rivals + 2 * share * (1 - share) * covariance
        error = math.sqrt(max(variance, 0.0))
        shift = share * value + (1 - share) * only - read[key]
        corrections[key] = Correction(float(shift), partial(_t_errors, error, freedom), moves_value=True)
    return corrections


def joint_maxima(
    counted: CountedItems, labelled: LabelledAttempts, settings: Settings
) -> dict[MetricKey, JointMaximum]:
    """Estimate the maxima that at least FEWEST_ERRORS labels change, from joint resamples of items and labelled attempts.

    The totals of a resample are the corrected totals, plus the deviation of the resampled items, stretched by
    the ratio of the standard errors of clusters and items, plus the deviation of the resampled changes. Under
    the null hypothesis, the groups' columns are exchanged within items, their changes are those of the mean
    over the groups, and the deviation of the resampled changes is added as well.
    """
    import numpy as np

    errors = _errors(counted, labelled)
    described = counted.described()
    maxima = [
        key
        for place, key in enumerate(counted.observed())
        if described[key].metric.kind == "maximum" and not _are_few(errors[:, place])
    ]
    if not maxima:
        return {}
    changes = labelled.weights[:, None] * labelled.changes
    totals, change = counted.values.sum(axis=0), changes.sum(axis=0)
    resamples, seed = settings.resamples, settings.seed
    of_items = (
        stats.resampled_totals(counted.values, resamples=resamples, seed=seed, strata=counted.strata) - totals
    )
    of_labels = (
        stats.resampled_totals(changes, resamples=resamples, seed=seed + LABEL_STREAM, strata=labelled.strata)
        - change
    )
    relabelled = counted.relabelled_totals(settings)
    centre = relabelled.mean(axis=0)
    alike = counted.averaged_over_groups(change)
    spreads = cluster_spreads(counted)

    @cache
    def resampled(ratio: float) -> tuple[Values, Values]:
        samples = counted.compute(totals + change + ratio * of_items + of_labels)
        null = counted.compute(centre + alike + ratio * (relabelled - centre) + of_labels)
        return samples, null

    def of_metric(key: MetricKey, ratio: float) -> Resampled:
        samples, null = resampled(ratio)
        return Resampled(samples[key], null[key])

    corrected = counted.compute(np.atleast_2d(totals + change))
    return {
        key: JointMaximum(float(corrected[key][0]), of_metric(key, spreads[key].ratio), of_metric(key, 1.0))
        for key in maxima
    }


def tipping_share(changes: Floats, distance: float, attempts: int) -> float:
    """Return the smallest share of attempts whose wrong labels together change a metric by `distance`.

    Parameters
    ----------
    changes
        What each other label of each sampled attempt changes in the metric, shape (n, labels).
    distance
        Change that is looked for; its sign is the direction.
    attempts
        Number of attempts, of which the n are a random sample.

    Returns
    -------
    The share, from 0 to 1; NaN if even wrong labels of all attempts would not suffice.
    """
    import numpy as np

    direction = math.copysign(1.0, distance)
    largest = np.sort(np.maximum((direction * changes).max(axis=1), 0.0))[::-1]
    reached = np.concatenate([[0.0], largest.cumsum()]) * attempts / len(largest)
    if reached[-1] < abs(distance):
        return math.nan
    strictly = np.concatenate([[True], np.diff(reached) > 0])
    return float(np.interp(abs(distance), reached[strictly], np.linspace(0, 1, len(reached))[strictly]))


def _errors(counted: CountedItems, labelled: LabelledAttempts) -> Floats:
    """Return by how much each label changes each metric, shape (n, metrics), linearised and weighted."""
    found: Floats = (
        labelled.changes @ counted.slopes(counted.values.sum(axis=0)).T * labelled.weights[:, None]
    )
    return found


def _are_few(wrong: Floats) -> bool:
    """Return whether fewer than FEWEST_ERRORS labels change a metric, given by how much each changes it, shape (n,)."""
    return int((abs(wrong) > 0).sum()) < FEWEST_ERRORS


class _CountedErrors(NamedTuple):
    """Errors in one direction: by how much each changes the metric, shape (errors,), and the most that another could change it."""

    changes: Floats
    most: float


def _counted_errors(wrong: Floats, possible: Floats) -> tuple[_CountedErrors, _CountedErrors]:
    """Return the errors whose correction raises and lowers the metric, from the changes (n,) and the possible ones (n, labels)."""
    raising = _CountedErrors(wrong[wrong > 0], float(possible.max(initial=0.0)))
    lowering = _CountedErrors(-wrong[wrong < 0], float((-possible).max(initial=0.0)))
    return raising, lowering


def _few_errors(raising: _CountedErrors, lowering: _CountedErrors, level: float) -> tuple[float, float]:
    """Return how far the sum of the changes may be wrong, downwards and upwards, from few changes that raise and lower the metric."""
    up, down = raising.changes.sum(), lowering.changes.sum()
    ups, downs = (stats.weighted_sum_interval(one.changes, one.most, level) for one in (raising, lowering))
    return math.hypot(up - ups.low, downs.high - down), math.hypot(ups.high - up, down - downs.low)


def _t_errors(error: float, freedom: float, level: float) -> tuple[float, float]:
    """Return both halves of the t interval at a level, from a standard error and its degrees of freedom."""
    half = stats.two_sided_t(level, freedom) * error
    return half, half
