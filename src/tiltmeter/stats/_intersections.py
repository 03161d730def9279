"""Rates of intersections of attributes, shrunk towards what the attributes alone predict."""

from __future__ import annotations

from typing import Final

import numpy as np
import scipy  # loads its submodules on first use

from tiltmeter._arrays import Floats

MOST_STEPS: Final = 100
WEAK: Final = 0.1
"""Precision of the normal prior (logit) of each effect: with it, a margin of 0 or 1 has a finite effect."""


def shrunk_rates(successes: Floats, trials: Floats, effects: Floats) -> Floats:
    """Shrink the rates of cells towards those that the effects of their attributes predict.

    A cell's shrunk rate is (successes + m * predicted) / (trials + m). The weight m is that of a beta
    distribution of the cells around the predicted rates, estimated by the method of moments. If the cells
    vary no more than by chance, it is infinite, and the shrunk rates are the predicted ones.

    Parameters
    ----------
    successes, trials
        (cells,) number of successes, and of trials.
    effects
        (cells, columns) 0 and 1: an intercept, and a column for each group of an attribute but its first.

    Returns
    -------
    Floats
        (cells,) rates from 0 to 1.

    References
    ----------
    Kleinman (1973), "Proportions with extraneous variance"; Gelman et al. (2013), "Bayesian Data Analysis",
    chapter 5.

    Examples
    --------
    >>> effects = np.array([[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]])
    >>> rates = shrunk_rates(np.array([50, 40, 40, 3]), np.array([100, 100, 100, 5]), effects)
    >>> [f"{rate:.2f}" for rate in rates]
    ['0.50', '0.40', '0.40', '0.32']
    """
    predicted = _predicted_rates(successes, trials, effects.astype(np.float64))
    variances = predicted * (1 - predicted)
    excess = float((((successes - trials * predicted) ** 2) / (trials * variances)).sum())
    freedom = max(len(trials) - effects.shape[1], 1)
    # Under the beta distribution with intraclass correlation c, the expected sum is about
    # freedom * (1 + (typical number of trials - 1) * c).
    typical = float((trials.sum() - (trials**2).sum() / trials.sum()) / max(len(trials) - 1, 1))
    correlation = (excess / freedom - 1) / max(typical - 1, 1.0)
    if correlation <= 0:
        return predicted
    weight = max(1 / min(correlation, 1.0) - 1, 0.0)
    shrunk: Floats = (successes + weight * predicted) / (trials + weight)
    return shrunk


def _predicted_rates(successes: Floats, trials: Floats, effects: Floats) -> Floats:
    """Return the rates of a logistic regression on the effects, with a weak prior: (cells,)."""
    coefficients = np.zeros(effects.shape[1])
    overall = (successes.sum() + WEAK) / (trials.sum() + 2 * WEAK)
    coefficients[0] = scipy.special.logit(overall)
    precision = np.full(effects.shape[1], WEAK)
    precision[0] = 0.0
    for _ in range(MOST_STEPS):
        rates = scipy.special.expit(effects @ coefficients)
        gradient = effects.T @ (successes - trials * rates) - precision * coefficients
        weights = trials * rates * (1 - rates)
        curvature = effects.T @ (weights[:, None] * effects) + np.diag(precision + 1e-9)
        step = np.clip(np.linalg.solve(curvature, gradient), -2.0, 2.0)
        coefficients = coefficients + step
        if float(np.abs(step).max()) < 1e-10:
            break
    predicted: Floats = scipy.special.expit(effects @ coefficients)
    return predicted
