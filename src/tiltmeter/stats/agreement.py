"""Agreement of yes-or-no decisions with the truth, the baseline of always saying no, and the interval of a proportion."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltmeter.stats.ratios import ratio

__all__ = ["Agreement", "decision_agreement", "decision_outcomes", "wilson_interval"]


class Agreement(NamedTuple):
    """Each (...,): one value per row of outcome counts; NaN where it is not defined (nothing to divide by)."""

    accuracy: NDArray[np.float64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    kappa: NDArray[np.float64]
    always_no: NDArray[np.float64]
    """Accuracy of a judge that always says no: the share of true noes."""


def decision_outcomes(truth: ArrayLike, found: ArrayLike) -> NDArray[np.float64]:
    """Return (n, 4) indicators of each decision's outcome: true positive, false negative, false positive, true negative.

    Args:
        truth: (n,) booleans, what is right.
        found: (n,) booleans, what was decided.

    Raises:
        ValueError: if the two differ in shape or are not one-dimensional.
    """
    right, said = np.asarray(truth, dtype=bool), np.asarray(found, dtype=bool)
    if right.shape != said.shape or right.ndim != 1:
        raise ValueError(f"truth and found must be two arrays of one length, not of shapes {right.shape} and {said.shape}")
    return np.stack([right & said, right & ~said, ~right & said, ~right & ~said], axis=1).astype(np.float64)


def decision_agreement(counts: ArrayLike) -> Agreement:
    """Return how well decisions agree with the truth, for each row of outcome counts.

    Args:
        counts: (..., 4) numbers, at least 0, of true positives, false negatives, false positives, true negatives
            (of a resample they need not be whole).

    Returns:
        Arrays of shape (...). Kappa is (accuracy - chance) / (1 - chance), chance being the agreement of independent
        decisions with the same shares of yes; it is NaN where truth and decisions are all alike.

    Raises:
        ValueError: if the last axis does not hold four numbers, or one is negative.

    Source: Cohen (1960), "A coefficient of agreement for nominal scales".
    """
    values = np.asarray(counts, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] != 4 or (values < 0).any():
        raise ValueError("counts must hold, along the last axis, four numbers of at least 0")
    tp, fn, fp, tn = np.moveaxis(values, -1, 0)
    n = tp + fn + fp + tn
    accuracy = ratio(tp + tn, n)
    chance = ratio((tp + fn) * (tp + fp) + (tn + fn) * (tn + fp), n * n)
    return Agreement(accuracy, ratio(tp, tp + fp), ratio(tp, tp + fn), ratio(accuracy - chance, 1.0 - chance), ratio(fp + tn, n))


def wilson_interval(successes: ArrayLike, n: ArrayLike, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both ends of Wilson's score interval of proportions (with broadcasting); NaN where n is 0.

    Args:
        successes: Between 0 and n.
        n: Numbers of independent trials.
        level: Confidence level.

    Raises:
        ValueError: if some successes are not between 0 and n.

    Source: Wilson (1927), "Probable inference, the law of succession, and statistical inference".
    """
    k, of = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(n, dtype=np.float64))
    if not ((k >= 0) & (k <= of)).all():
        raise ValueError("successes must lie between 0 and n")
    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    centre = ratio(k + z * z / 2.0, np.where(of > 0, of + z * z, 0.0))
    half = ratio(z * np.sqrt(ratio(k * (of - k), of) + z * z / 4.0), of + z * z)
    # Rounding may leave an end an ulp outside [0, 1], or off 0 and 1 where it is just that.
    low = np.where((k == 0) & (of > 0), 0.0, np.clip(centre - half, 0.0, 1.0))
    return low, np.where((k == of) & (of > 0), 1.0, np.clip(centre + half, 0.0, 1.0))
