"""Agreement: of decisions with the truth, of repeated answers with each other, of a clustering with a known one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter.arrays import Floats
from tiltmeter.stats.arithmetic import floats, ratio


def decision_outcomes(truth: ArrayLike, found: ArrayLike) -> Floats:
    """Return (n, 4) indicators of each decision's outcome: true positive, false negative, false positive, true negative.

    Parameters
    ----------
    truth
        (n,) booleans, what is right.
    found
        (n,) booleans, what was decided.
    """
    right, said = np.asarray(truth, dtype=bool), np.asarray(found, dtype=bool)
    return np.stack([right & said, right & ~said, ~right & said, ~right & ~said], axis=1).astype(np.float64)


def cohen_kappa(counts: ArrayLike) -> Floats:
    """Return how well decisions agree with the truth beyond chance, for each row of outcome counts.

    Parameters
    ----------
    counts
        (..., 4) numbers, at least 0, of true positives, false negatives, false positives, true negatives
        (of a resample they need not be whole).

    Returns
    -------
    (...): (accuracy - chance) / (1 - chance), chance being the agreement of independent decisions with the same shares of yes; NaN where
    truth and decisions are all alike.

    References
    ----------
    Cohen (1960), "A coefficient of agreement for nominal scales".
    """
    tp, fn, fp, tn = np.moveaxis(floats(counts), -1, 0)
    n = tp + fn + fp + tn
    chance = ratio((tp + fn) * (tp + fp) + (tn + fn) * (tn + fp), n * n)
    return ratio(ratio(tp + tn, n) - chance, 1.0 - chance)


class Repeats(NamedTuple):
    """Whether repeated answers to the same question agree: each (...,), one value per row of totals; NaN where it is not defined.

    Both are functions of totals over questions, so that a bootstrap of questions needs no more than resampled totals.
    """

    identical: Floats
    """Share of the pairs of answers to one question that are equal."""
    alpha: Floats
    """Krippendorff's. 1: answers to a question always agree; 0: they agree no more than answers to different questions."""


def nominal_columns(counts: ArrayLike) -> Floats:
    """Return (U, 3 + K) columns whose totals `nominal_repeats` takes.

    Parameters
    ----------
    counts
        (U, K) how many answers to each question had each label; questions with fewer than 2 answers count as absent.
    """
    n = floats(counts)
    n = np.where(n.sum(axis=1, keepdims=True) > 1, n, 0.0)
    m = n.sum(axis=1)
    equal = (n * (n - 1.0)).sum(axis=1)
    return np.column_stack([equal, m * (m - 1.0), np.nan_to_num(ratio(equal, m - 1.0)), n])


def nominal_repeats(totals: ArrayLike) -> Repeats:
    """Return agreement of repeated labels, for each row of totals (..., 3 + K) of `nominal_columns`.

    Alpha is 1 - observed / expected disagreement over pairs; NaN where all labels are the same (nothing could disagree).

    Source: Krippendorff (2011), "Computing Krippendorff's alpha-reliability"; Hayes and Krippendorff (2007).
    """
    values = floats(totals)
    equal, pairs, weighted = np.moveaxis(values[..., :3], -1, 0)
    labels = values[..., 3:]
    n = labels.sum(axis=-1)
    return _repeats(equal, pairs, n, n - weighted, n * n - (labels * labels).sum(axis=-1), n * n)


def interval_columns(answers: ArrayLike, total: ArrayLike, squares: ArrayLike, equal: ArrayLike) -> Floats:
    """Return (U, 6) columns whose totals `interval_repeats` takes.

    Parameters
    ----------
    answers
        (U,) numbers of answers to each question; questions with fewer than 2 count as absent.
    total
        (U,) their sums.
    squares
        (U,) sums of their squares.
    equal
        (U,) numbers of ordered pairs of equal answers.
    """
    given = np.array([answers, total, squares, equal], dtype=np.float64)
    m, s, ss, same = np.where(given[0] > 1, given, 0.0)
    apart = np.nan_to_num(ratio(np.maximum(2.0 * (m * ss - s * s), 0.0), m - 1.0))
    return np.column_stack([same, m * (m - 1.0), apart, m, s, ss])


def interval_repeats(totals: ArrayLike) -> Repeats:
    """Return agreement of repeated numbers (disagreement is the squared difference), for each row of totals (..., 6).

    Source: Krippendorff (2011), interval metric.
    """
    equal, pairs, apart, n, s, ss = np.moveaxis(floats(totals), -1, 0)
    return _repeats(equal, pairs, n, apart, 2.0 * (n * ss - s * s), n * ss)


def _repeats(equal: Floats, pairs: Floats, n: Floats, observed: Floats, expected: Floats, scale: Floats) -> Repeats:
    """Agreement from disagreement within and between questions; an expected one that is but rounding beside `scale` counts as none."""
    return Repeats(ratio(equal, pairs), 1.0 - ratio((n - 1.0) * observed, np.where(expected > 1e-9 * scale, expected, 0.0)))


class VMeasure(NamedTuple):
    """Homogeneity, completeness and their harmonic mean, each in [0, 1]; 1 is best."""

    homogeneity: float
    completeness: float
    v: float


class BCubed(NamedTuple):
    """B-cubed precision, recall and their harmonic mean, each in (0, 1]; 1 is best."""

    precision: float
    recall: float
    f: float


def v_measure(truth: ArrayLike, found: ArrayLike) -> VMeasure:
    """Return homogeneity (clusters hold one class), completeness (classes lie in one cluster) and V.

    Parameters
    ----------
    truth
        The known class of each element, of any type that can be sorted; shape (n,), n >= 1.
    found
        The cluster of each element; shape (n,).

    References
    ----------
    Rosenberg and Hirschberg (2007), with beta = 1. One class alone is homogeneous, one cluster alone complete.
    """
    from sklearn.metrics import homogeneity_completeness_v_measure

    return VMeasure(*map(float, homogeneity_completeness_v_measure(np.asarray(truth), np.asarray(found))))


def b_cubed(truth: ArrayLike, found: ArrayLike) -> BCubed:
    """Return the mean over elements of the share of their cluster that is of their class, and of their class that is in their cluster.

    Parameters
    ----------
    truth
        The known class of each element, of any type that can be sorted; shape (n,), n >= 1.
    found
        The cluster of each element; shape (n,).

    References
    ----------
    Bagga and Baldwin (1998), each element with the same weight.
    """
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(np.asarray(truth), np.asarray(found), sparse=True)
    precision, recall = (float((table.multiply(table) / table.sum(axis=axis)).sum() / table.sum()) for axis in (0, 1))
    return BCubed(precision, recall, 2 * precision * recall / (precision + recall))
