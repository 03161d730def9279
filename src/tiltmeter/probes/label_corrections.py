"""Correction of estimates for parsing errors, from a random sample of attempts that people (or a judge) labelled.

Every metric is a function of totals. The totals are those of the labels as read, plus the weighted changes that correcting each labelled
attempt makes, where the weight of an attempt is the number of attempts that it stands for. If at least FEWEST_ERRORS labels change a
metric, the estimate is averaged with that from the labelled attempts alone, with the weights that give the smallest variance, so that it
is never worse than the labels alone. With fewer, the uncertainty is that of a count of rare events, separately for errors that raise and
that lower the metric.

References
----------
Angelopoulos, Duchi and Zrnic (2023), "PPI++: efficient prediction-powered inference"; Fay and Feuer (1997) for the rare events; Newcombe
(1998) for combining intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tiltmeter import stats
from tiltmeter.probes.analysis import CountedItems, stratified_variance
from tiltmeter.probes.metric import Correction, MetricKey

if TYPE_CHECKING:
    from tiltmeter.arrays import Floats, Index

FEWEST_ERRORS = 10
"""With fewer observed errors, a normal approximation is not used."""


class LabelledAttempts(NamedTuple):
    """The labelled attempts of one model and part, as columns to be summed (see `CountedItems`).

    `weights` (n,) are the numbers of attempts that each one stands for, and `strata` (n,) the strata they were drawn from. `changes`
    (n, columns) is what the label changes in the totals, `possible` (n, labels, columns) what any other label would change, and `own`
    (n, columns) are the columns of the attempts alone, as labelled.
    """

    weights: Floats
    strata: Index
    changes: Floats
    possible: Floats
    own: Floats


def corrections_of(counted: CountedItems, labelled: LabelledAttempts, levels: Sequence[float]) -> dict[MetricKey, Correction]:
    """Compute the correction of each metric, with its uncertainty at each level."""
    import numpy as np

    weights, strata = labelled.weights, labelled.strata
    totals, own = counted.values.sum(axis=0), weights @ labelled.own
    read, keys = counted.observed(), list(counted.observed())
    corrected = counted.compute(np.stack([totals + weights @ labelled.changes, own])).values()
    slopes = counted.slopes(totals).T
    errors = labelled.changes @ slopes * weights[:, None]  # (n, metrics)
    rivals = labelled.own @ counted.slopes(own).T * weights[:, None]
    largest = np.einsum("nlc,cm,n->nlm", labelled.possible, slopes, weights, optimize=True)
    finite = np.sqrt(np.maximum(1 - 1 / weights, 0.0))[:, None]  # finite-population correction
    freedom = max(len(weights) - len(np.unique(strata)), 1)
    found = {}
    for place, (key, (value, only)) in enumerate(zip(keys, corrected, strict=True)):
        wrong = errors[:, place]
        few = (np.abs(wrong) > 0).sum() < FEWEST_ERRORS
        if few or np.isnan(only):
            ends = {one: _few_errors(wrong, largest[..., place], one) for one in levels}
            found[key] = Correction(float(value) - read[key], ends)
            continue
        both = np.stack([wrong, rivals[:, place]], axis=1) * finite
        of_errors, of_rivals, of_sum = stratified_variance(np.column_stack([both, both.sum(axis=1)]), strata)
        covariance = (of_sum - of_errors - of_rivals) / 2
        weight = stats.ratio(of_rivals - covariance, of_errors + of_rivals - 2 * covariance)
        share = float(np.clip(np.nan_to_num(weight, nan=1.0), 0.0, 1.0))
        variance = share**2 * of_errors + (1 - share) ** 2 * of_rivals + 2 * share * (1 - share) * covariance
        half = {one: float(stats.two_sided_t(one, freedom) * np.sqrt(variance)) for one in levels}
        shift = share * value + (1 - share) * only - read[key]
        found[key] = Correction(float(shift), {one: (width, width) for one, width in half.items()})
    return found


def _few_errors(wrong: Floats, possible: Floats, level: float) -> tuple[float, float]:
    """Return how far the sum of the changes may be wrong, downwards and upwards, from few changes (n,) and possible ones (n, labels)."""
    raised, lowered = (
        (sums.sum(), stats.weighted_sum_interval(sums, float(max(most, 0.0)), level))
        for sums, most in ((wrong[wrong > 0], possible.max(initial=0.0)), (-wrong[wrong < 0], (-possible).max(initial=0.0)))
    )
    (up, ups), (down, downs) = raised, lowered
    return math.hypot(up - ups.low, downs.high - down), math.hypot(ups.high - up, down - downs.low)
