"""Welch's test of two independent estimates with standard errors of few degrees of freedom."""

from __future__ import annotations

import numpy as np
import scipy  # loads its submodules on first use
from numpy.typing import ArrayLike

from tiltmeter._arrays import Floats


def standard_errors(low: ArrayLike, high: ArrayLike, level: float, freedom: ArrayLike) -> Floats:
    """Return the standard errors of estimates from their intervals.

    The half-width of an interval is a quantile of Student's t times the standard error.

    Parameters
    ----------
    low, high
        (...) ends of the intervals.
    level
        Confidence level of the intervals.
    freedom
        (...) degrees of freedom.
    """
    quantile = scipy.special.stdtrit(np.asarray(freedom, dtype=float), (1 + level) / 2)
    widths: Floats = np.asarray(high, dtype=float) - np.asarray(low, dtype=float)
    errors: Floats = widths / (2 * quantile)
    return errors


def welch_p(difference: ArrayLike, errors: ArrayLike, freedom: ArrayLike) -> Floats:
    """Compute the two-sided p-value of the difference of two estimates; NaN if both have no error.

    Parameters
    ----------
    difference
        (...) differences.
    errors
        (..., 2) standard errors of the two estimates.
    freedom
        (..., 2) degrees of freedom of the standard errors.

    References
    ----------
    Welch (1947), "The generalization of Student's problem when several different population variances are
    involved".
    """
    variances = np.asarray(errors, dtype=float) ** 2
    total = variances.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = variances**2 / np.asarray(freedom, dtype=float)
        freedom_of_difference = total**2 / squares.sum(axis=-1)
        t = np.abs(np.asarray(difference, dtype=float)) / np.sqrt(total)
    two_sided = 2 * scipy.special.stdtr(freedom_of_difference, -t)
    p: Floats = np.where(total > 0, two_sided, np.nan)
    return p
