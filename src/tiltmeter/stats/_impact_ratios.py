"""Ratios of selection rates: score intervals, and the ratio to the highest rate of several groups."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import scipy  # loads its submodules on first use

from tiltmeter._arrays import Booleans, Floats, Integers
from tiltmeter.stats._intervals import two_sided_z

FOUR_FIFTHS: Final = 0.8
"""Impact ratio below which a selection procedure is taken to have adverse impact.

29 CFR 1607.4 D, "Uniform guidelines on employee selection procedures" (1978).
"""
STEPS: Final = 60
"""Number of bisections of the ratio; the ends are exact to about one part in 10^13."""
LARGEST: Final = 1e8
"""Largest finite ratio that is searched for an end."""


class ImpactRatio(NamedTuple):
    """The selection rate of a group divided by that of its reference.

    `high` is infinite if nobody of the reference may have been selected.
    """

    estimate: float
    low: float
    high: float

    @property
    def four_fifths(self) -> str:
        """Whether the ratio is at least 0.8: "yes", "no", or "cannot be told" if the interval contains 0.8."""
        if self.low >= FOUR_FIFTHS:
            return "yes"
        return "no" if self.high < FOUR_FIFTHS else "cannot be told"


def ratio_interval(
    selected: Integers, total: Integers, reference_selected: Integers, reference_total: Integers, level: float
) -> tuple[Floats, Floats]:
    """Compute the score interval of the ratio of two independent rates: four arrays (...) -> two arrays (...).

    The interval consists of the ratios that a score test does not reject, with the rates estimated under the
    ratio, and the variance enlarged by n / (n - 1) for the number n of all observations.

    Parameters
    ----------
    selected, total
        Number of selected members of the group, and of all its members.
    reference_selected, reference_total
        The same of the reference.
    level
        Confidence level.

    Returns
    -------
    tuple of Floats
        The low ends, at least 0, and the high ends, at most infinity.

    References
    ----------
    Koopman (1984), "Confidence intervals for the ratio of two binomial proportions"; Miettinen and Nurminen
    (1985), "Comparative analysis of two rates".

    Examples
    --------
    >>> low, high = ratio_interval(*np.array([[36], [40], [16], [80]]), level=0.95)
    >>> f"{low[0]:.2f} to {high[0]:.2f}"
    '2.93 to 7.17'
    """
    counts = np.broadcast_arrays(selected, total, reference_selected, reference_total)
    x, n, y, m = (np.asarray(count, dtype=np.float64) for count in counts)
    limit = two_sided_z(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.nan_to_num((x / n) / (y / m), nan=1.0, posinf=LARGEST)
    start = np.log(np.clip(estimate, 1 / LARGEST, LARGEST))
    furthest = np.log(LARGEST)

    def is_rejected(log_ratio: Floats) -> Booleans:
        """Return whether the score test rejects a ratio."""
        return np.abs(_score(x, n, y, m, np.exp(log_ratio))) > limit

    ends = []
    for direction in (-1.0, 1.0):
        inside, outside = start, np.full_like(start, direction * furthest)
        reaches_limit = ~is_rejected(outside)
        for _ in range(STEPS):
            middle = (inside + outside) / 2
            rejected = is_rejected(middle)
            outside = np.where(rejected, middle, outside)
            inside = np.where(rejected, inside, middle)
        unlimited = 0.0 if direction < 0 else np.inf
        ends.append(np.where(reaches_limit, unlimited, np.exp(inside)))
    return ends[0], ends[1]


def _score(x: Floats, n: Floats, y: Floats, m: Floats, ratios: Floats) -> Floats:
    """Return the score statistic of a ratio of rates x / n and y / m: arrays of one shape -> that shape.

    The rates under the ratio maximise the likelihood; that of the reference solves a quadratic equation.
    """
    leading = (n + m) * ratios
    linear = ratios * (n + y) + x + m
    constant = x + y
    root = np.sqrt(np.maximum(linear**2 - 4 * leading * constant, 0.0))
    rate_of_reference = 2 * constant / (linear + root)
    rate = np.minimum(rate_of_reference * ratios, 1.0)
    variance = rate * (1 - rate) / n + ratios**2 * rate_of_reference * (1 - rate_of_reference) / m
    enlarged = variance * (n + m) / (n + m - 1)
    difference = x / n - ratios * y / m
    with np.errstate(divide="ignore", invalid="ignore"):
        score = difference / np.sqrt(enlarged)
    return np.nan_to_num(score, nan=0.0, posinf=np.inf, neginf=-np.inf)


def ratios_to_reference(selected: Integers, total: Integers, reference: int, level: float) -> list[ImpactRatio]:
    """Compute the impact ratio of each group to a reference: (groups,), (groups,) -> one per group.

    The ratio of the reference to itself is 1.

    Parameters
    ----------
    selected, total
        Number of selected members of each group, and of all its members.
    reference
        Place of the reference.
    level
        Confidence level.
    """
    low, high = ratio_interval(selected, total, selected[reference], total[reference], level)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimates = (selected / total) / (selected[reference] / total[reference])
    ratios = [
        ImpactRatio(*ends) for ends in zip(estimates.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    ratios[reference] = ImpactRatio(1.0, 1.0, 1.0)
    return ratios


def ratios_to_highest(selected: Integers, total: Integers, level: float) -> list[ImpactRatio]:
    """Compute the ratio of each rate to the highest rate of all groups: (groups,), (groups,) -> one per group.

    The interval is about the highest true rate, whichever group has it, so the choice of the reference by the
    observed rates does not bias it. Its low end is the smallest of the low ends of the ratios to the other
    groups: one of these is the true highest. Its high end is the smallest of their high ends at a level
    corrected for their number (Bonferroni). A ratio is at most 1.

    Parameters
    ----------
    selected, total
        Number of selected members of each group, and of all its members.
    level
        Confidence level of each ratio.

    References
    ----------
    Berger (1982), "Multiparameter hypothesis testing and acceptance sampling" (intersection-union tests).
    """
    groups = len(selected)
    pairs = (selected[:, None], total[:, None], selected[None, :], total[None, :])
    lows, _ = ratio_interval(*pairs, level)
    corrected = 1 - (1 - level) / (groups - 1)
    _, highs = ratio_interval(*pairs, corrected)
    is_other = ~np.eye(groups, dtype=bool)
    low = np.minimum(np.where(is_other, lows, np.inf).min(axis=1), 1.0)
    high = np.minimum(np.where(is_other, highs, np.inf).min(axis=1), 1.0)
    rates = selected / total
    highest = rates.max()
    estimates = rates / highest if highest > 0 else np.full(groups, np.nan)
    return [ImpactRatio(*ends) for ends in zip(estimates.tolist(), low.tolist(), high.tolist(), strict=True)]
