"""Agreement of decisions with the truth, of repeated answers, and of clusters with known classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter._arrays import Floats
from tiltmeter.stats._arithmetic import floats, ratio


def decision_outcomes(truth: ArrayLike, found: ArrayLike) -> Floats:
    """Classify each decision as true positive, false negative, false positive or true negative.

    Parameters
    ----------
    truth
        (n,) booleans, the correct decisions.
    found
        (n,) booleans, the decisions that were made.

    Returns
    -------
    (n, 4) indicators (0 or 1) in the order above.
    """
    correct, decided = np.asarray(truth, dtype=bool), np.asarray(found, dtype=bool)
    true_positive = correct & decided
    false_negative = correct & ~decided
    false_positive = ~correct & decided
    true_negative = ~correct & ~decided
    outcomes = np.stack([true_positive, false_negative, false_positive, true_negative], axis=1)
    return outcomes.astype(np.float64)


def cohen_kappa(counts: ArrayLike) -> Floats:
    """Compute Cohen's kappa, the agreement of decisions with the truth beyond chance.

    Parameters
    ----------
    counts
        (..., 4) non-negative counts of true positives, false negatives, false positives and true negatives,
        as from `decision_outcomes`. Counts of a resample need not be whole numbers.

    Returns
    -------
    (...) values of (accuracy - chance) / (1 - chance), where chance is the expected agreement of independent
    decisions with the same marginal rates. NaN where truth and decisions all have the same value.

    References
    ----------
    Cohen (1960), "A coefficient of agreement for nominal scales".
    """
    tp, fn, fp, tn = np.moveaxis(floats(counts), -1, 0)
    n = tp + fn + fp + tn
    accuracy = ratio(tp + tn, n)
    chance = ratio((tp + fn) * (tp + fp) + (tn + fn) * (tn + fp), n * n)
    return ratio(accuracy - chance, 1.0 - chance)


class Repeats(NamedTuple):
    """Agreement of repeated answers to the same question.

    Arrays of shape (...), one value per row of totals, NaN where undefined.

    Both measures are functions of totals over questions, so a bootstrap of questions only has to resample
    totals.
    """

    identical: Floats
    """Share of the pairs of answers to one question that are equal."""
    alpha: Floats
    """Krippendorff's alpha. 1: answers to a question always agree; 0: they agree no more than answers to
    different questions."""


def nominal_columns(counts: ArrayLike) -> Floats:
    """Compute the per-question columns whose totals are the input of `nominal_repeats`.

    Parameters
    ----------
    counts
        (U, K) number of answers to each of U questions with each of K labels. Questions with fewer than 2
        answers are ignored.

    Returns
    -------
    (U, 3 + K): ordered pairs of equal answers, ordered pairs of answers, pairs of equal answers divided by
    (answers - 1), and the counts.
    """
    labels = floats(counts)
    labels = np.where(labels.sum(axis=1, keepdims=True) > 1, labels, 0.0)
    answers = labels.sum(axis=1)
    equal = (labels * (labels - 1.0)).sum(axis=1)
    pairs = answers * (answers - 1.0)
    weighted = np.nan_to_num(ratio(equal, answers - 1.0))
    return np.column_stack([equal, pairs, weighted, labels])


def nominal_repeats(totals: ArrayLike) -> Repeats:
    """Compute the agreement of repeated labels.

    Parameters
    ----------
    totals
        (..., 3 + K) column totals of `nominal_columns`.

    Returns
    -------
    Arrays of shape (...). Alpha is 1 - observed / expected disagreement over pairs; NaN where all labels are
    the same.

    References
    ----------
    Krippendorff (2011), "Computing Krippendorff's alpha-reliability"; Hayes and Krippendorff (2007).
    """
    values = floats(totals)
    equal, pairs, weighted = np.moveaxis(values[..., :3], -1, 0)
    labels = values[..., 3:]
    n = labels.sum(axis=-1)
    observed = n - weighted
    scale = n * n
    expected = scale - (labels * labels).sum(axis=-1)
    return _repeats(equal, pairs, n, observed, expected, scale)


def interval_columns(answers: ArrayLike, total: ArrayLike, squares: ArrayLike, equal: ArrayLike) -> Floats:
    """Compute the per-question columns whose totals are the input of `interval_repeats`.

    Parameters
    ----------
    answers
        (U,) number of numeric answers to each question. Questions with fewer than 2 answers are ignored.
    total
        (U,) sum of the answers to each question.
    squares
        (U,) sum of their squares.
    equal
        (U,) number of ordered pairs of equal answers.

    Returns
    -------
    (U, 6): pairs of equal answers, pairs of answers, squared differences within the question, answers, their
    sum and sum of squares.
    """
    sums = np.array([answers, total, squares, equal], dtype=np.float64)
    m, s, ss, same = np.where(sums[0] > 1, sums, 0.0)
    pairs = m * (m - 1.0)
    differences = np.maximum(2.0 * (m * ss - s * s), 0.0)
    apart = np.nan_to_num(ratio(differences, m - 1.0))
    return np.column_stack([same, pairs, apart, m, s, ss])


def interval_repeats(totals: ArrayLike) -> Repeats:
    """Compute the agreement of repeated numbers, with the squared difference as disagreement.

    Parameters
    ----------
    totals
        (..., 6) column totals of `interval_columns`.

    Returns
    -------
    Arrays of shape (...).

    References
    ----------
    Krippendorff (2011), "Computing Krippendorff's alpha-reliability", interval metric.
    """
    equal, pairs, apart, n, s, ss = np.moveaxis(floats(totals), -1, 0)
    scale = n * ss
    expected = 2.0 * (scale - s * s)
    return _repeats(equal, pairs, n, apart, expected, scale)


def _repeats(
    equal: Floats, pairs: Floats, n: Floats, observed: Floats, expected: Floats, scale: Floats
) -> Repeats:
    """Compute agreement from disagreement within and between questions.

    Expected disagreement below rounding error of `scale` is 0.
    """
    significant = np.where(expected > 1e-9 * scale, expected, 0.0)
    alpha = 1.0 - ratio((n - 1.0) * observed, significant)
    return Repeats(identical=ratio(equal, pairs), alpha=alpha)


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
    """Compute homogeneity, completeness and the V-measure of clusters.

    Clusters are homogeneous if each holds one class, and complete if each class lies in one cluster.

    Parameters
    ----------
    truth
        The known class of each element, of any type that can be sorted; shape (n,), n >= 1.
    found
        The cluster of each element; shape (n,).

    References
    ----------
    Rosenberg and Hirschberg (2007), "V-Measure: a conditional entropy-based external cluster evaluation
    measure", with beta = 1. With a single class homogeneity is 1; with a single cluster completeness is 1.
    """
    from sklearn.metrics import homogeneity_completeness_v_measure

    measures = homogeneity_completeness_v_measure(np.asarray(truth), np.asarray(found))
    homogeneity, completeness, v = map(float, measures)
    return VMeasure(homogeneity, completeness, v)


def b_cubed(truth: ArrayLike, found: ArrayLike) -> BCubed:
    """Compute B-cubed precision and recall.

    Precision is the mean over elements of the share of the element's cluster that has its class; recall is
    the mean share of the element's class that lies in its cluster.

    Parameters
    ----------
    truth
        The known class of each element, of any type that can be sorted; shape (n,), n >= 1.
    found
        The cluster of each element; shape (n,).

    References
    ----------
    Bagga and Baldwin (1998), "Algorithms for scoring coreference chains", with equal weight for each element.
    """
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(np.asarray(truth), np.asarray(found), sparse=True)
    squares, elements = table.multiply(table), table.sum()
    precision = float((squares / table.sum(axis=0)).sum() / elements)
    recall = float((squares / table.sum(axis=1)).sum() / elements)
    f = 2 * precision * recall / (precision + recall)
    return BCubed(precision, recall, f)
