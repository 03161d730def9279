"""Whether repeated answers to the same question agree: the share of equal pairs, and Krippendorff's alpha.

Both are functions of totals over questions, so that a bootstrap of questions needs no more than resampled totals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltmeter.stats.ratios import ratio

__all__ = ["Repeats", "interval_columns", "interval_repeats", "nominal_columns", "nominal_repeats"]

Floats = NDArray[np.float64]


class Repeats(NamedTuple):
    """Each (...,): one value per row of totals; NaN where it is not defined."""

    identical: Floats
    """Share of the pairs of answers to one question that are equal."""
    alpha: Floats
    """1: answers to a question always agree; 0: they agree no more than answers to different questions."""


def nominal_columns(counts: ArrayLike) -> Floats:
    """Return (U, 3 + K) columns whose totals `nominal_repeats` takes.

    Args:
        counts: (U, K) how many answers to each question had each label; questions with fewer than 2 answers count as absent.

    Raises:
        ValueError: if the counts are no matrix, or one is negative.
    """
    n = np.asarray(counts, dtype=np.float64)
    if n.ndim != 2 or (n < 0).any():
        raise ValueError("counts must be a matrix of numbers of at least 0")
    m = n.sum(axis=1, keepdims=True)
    n = np.where(m > 1, n, 0.0)
    m = n.sum(axis=1)
    equal = (n * (n - 1.0)).sum(axis=1)
    return np.column_stack([equal, m * (m - 1.0), np.nan_to_num(ratio(equal, m - 1.0)), n])


def nominal_repeats(totals: ArrayLike) -> Repeats:
    """Return agreement of repeated labels, for each row of totals (..., 3 + K) of `nominal_columns`.

    Alpha is 1 - observed / expected disagreement over pairs; NaN where all labels are the same (nothing could disagree).

    Source: Krippendorff (2011), "Computing Krippendorff's alpha-reliability"; Hayes and Krippendorff (2007).
    """
    values = np.asarray(totals, dtype=np.float64)
    equal, pairs, weighted = np.moveaxis(values[..., :3], -1, 0)
    labels = values[..., 3:]
    n = labels.sum(axis=-1)
    expected = n * n - (labels * labels).sum(axis=-1)
    alpha = 1.0 - ratio((n - 1.0) * (n - weighted), np.where(expected > 1e-9 * n * n, expected, 0.0))
    return Repeats(ratio(equal, pairs), alpha)


def interval_columns(answers: ArrayLike, total: ArrayLike, squares: ArrayLike, equal: ArrayLike) -> Floats:
    """Return (U, 6) columns whose totals `interval_repeats` takes.

    Args:
        answers: (U,) numbers of answers to each question; questions with fewer than 2 count as absent.
        total: (U,) their sums.
        squares: (U,) sums of their squares.
        equal: (U,) numbers of ordered pairs of equal answers.
    """
    m, s, ss, same = (np.asarray(one, dtype=np.float64) for one in (answers, total, squares, equal))
    several = m > 1
    m, s, ss, same = (np.where(several, one, 0.0) for one in (m, s, ss, same))
    apart = np.nan_to_num(ratio(np.maximum(2.0 * (m * ss - s * s), 0.0), m - 1.0))
    return np.column_stack([same, m * (m - 1.0), apart, m, s, ss])


def interval_repeats(totals: ArrayLike) -> Repeats:
    """Return agreement of repeated numbers (disagreement is the squared difference), for each row of totals (..., 6).

    Source: Krippendorff (2011), interval metric.
    """
    equal, pairs, apart, n, s, ss = np.moveaxis(np.asarray(totals, dtype=np.float64), -1, 0)
    expected = 2.0 * (n * ss - s * s)
    varies = expected > 1e-9 * n * ss
    return Repeats(ratio(equal, pairs), 1.0 - ratio((n - 1.0) * apart, np.where(varies, expected, 0.0)))
