"""Ratios of selection rates: score intervals, and the ratio to the highest rate of several groups."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import scipy  # loads its submodules on first use

from tiltmeter._arrays import Booleans, Floats, Integers
from tiltmeter.stats._arithmetic import ratio
from tiltmeter.stats._intervals import two_sided_z

FOUR_FIFTHS: Final = 0.8
"""Impact ratio below which a selection procedure is taken to have adverse impact.

29 CFR 1607.4 D, "Uniform guidelines on employee selection procedures" (1978).
"""
STEPS: Final = 60
"""Number of bisections of the ratio; the ends are exact to about one part in 10^13."""
LARGEST: Final = 1e8
"""Largest finite ratio that is searched for an end."""
FEW: Final = 5
"""If fewer members of a group were selected, or not selected, the interval is at least as wide as that from
exact intervals of both rates."""


class ImpactRatio(NamedTuple):
    """The selection rate of a group divided by that of its reference.

    `high` is infinite if the reference may have a rate of 0.
    """

    estimate: float
    low: float
    high: float

    @property
    def four_fifths(self) -> str:
        """Whether the ratio is at least 0.8: "yes", "no", or "cannot be told" from the interval."""
        if self.low >= FOUR_FIFTHS:
            return "yes"
        return "no" if self.high < FOUR_FIFTHS else "cannot be told"


def ratio_interval(
    selected: Floats | Integers,
    total: Floats | Integers,
    reference_selected: Floats | Integers,
    reference_total: Floats | Integers,
    level: float,
) -> tuple[Floats, Floats]:
    """Compute the interval of the ratio of two independent rates: four arrays (...) -> two arrays (...).

    It consists of the ratios that a score test does not reject, with the rates estimated under the ratio, and
    the variance enlarged by n / (n - 1) for the number n of all observations. Where a count is below FEW, the
    score interval contains the ratio in as few as 92% of studies instead of 95%. There, the interval from
    those of Clopper and Pearson for both rates is added (MOVER-R).

    Parameters
    ----------
    selected, total
        Number of selected members of the group, and of all its members. Numbers of effective trials need not
        be whole.
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
    (1985), "Comparative analysis of two rates"; Donner and Zou (2012), "Closed-form confidence intervals for
    functions of the normal mean and standard deviation".

    Examples
    --------
    >>> low, high = ratio_interval(*np.array([[36], [40], [16], [80]]), level=0.95)
    >>> f"{low[0]:.2f} to {high[0]:.2f}"
    '2.93 to 7.17'
    """
    counts = np.broadcast_arrays(selected, total, reference_selected, reference_total)
    x, n, y, m = np.stack(counts).astype(np.float64)
    low, high = _score_interval(x, n, y, m, level)
    exact_low, exact_high = _exact_interval(x, n, y, m, level)
    has_few = np.minimum(np.minimum(x, n - x), np.minimum(y, m - y)) < FEW
    low = np.where(has_few, np.minimum(low, exact_low), low)
    return low, np.where(has_few, np.maximum(high, exact_high), high)


def _score_interval(x: Floats, n: Floats, y: Floats, m: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends of the score interval of the ratio of rates x / n and y / m: arrays of one shape."""
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


def _exact_interval(x: Floats, n: Floats, y: Floats, m: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the interval of the ratio from the exact intervals of both rates: arrays of one shape."""
    rate, rate_of_reference = x / n, y / m
    lowest, highest = _clopper_pearson(x, n, level)
    least, most = _clopper_pearson(y, m, level)
    product = rate * rate_of_reference
    constant = lowest * (2 * rate - lowest)
    root = np.sqrt(np.maximum(product**2 - most * (2 * rate_of_reference - most) * constant, 0.0))
    low = ratio(constant, product + root)
    leading = least * (2 * rate_of_reference - least)
    root = np.sqrt(np.maximum(product**2 - leading * highest * (2 * rate - highest), 0.0))
    high = np.where(leading > 0, ratio(product + root, leading), np.inf)
    return np.nan_to_num(low, nan=0.0), high


def _clopper_pearson(successes: Floats, trials: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends of the exact intervals of rates: arrays of one shape."""
    tail = (1 - level) / 2
    failures = trials - successes
    some, others = np.where(successes > 0, successes, 1.0), np.where(failures > 0, failures, 1.0)
    low = scipy.special.betaincinv(some, failures + 1, tail)
    high = scipy.special.betaincinv(successes + 1, others, 1 - tail)
    return np.where(successes > 0, low, 0.0), np.where(failures > 0, high, 1.0)


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
    finite: Floats = np.nan_to_num(score, nan=0.0, posinf=np.inf, neginf=-np.inf)
    return finite


def ratios_to_reference(
    selected: Floats | Integers, total: Floats | Integers, reference: int, level: float
) -> list[ImpactRatio]:
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
    rates = selected / total
    ratios = _ratios(ratio(rates, rates[reference]), low, high)
    ratios[reference] = ImpactRatio(1.0, 1.0, 1.0)
    return ratios


def ratios_to_highest(
    selected: Floats | Integers, total: Floats | Integers, level: float
) -> list[ImpactRatio]:
    """Compute the ratio of each rate to the highest rate: (groups,), (groups,) -> one per group.

    Parameters
    ----------
    selected, total
        Number of selected members of each group, and of all its members.
    level
        Confidence level of each ratio.

    Examples
    --------
    >>> ratios = ratios_to_highest(np.array([48, 24]), np.array([80, 80]), level=0.95)
    >>> [(round(ratio.estimate, 2), ratio.four_fifths) for ratio in ratios]
    [(1.0, 'yes'), (0.5, 'no')]
    """
    low, high = highest_ratio_interval(selected, total, level)
    rates = selected / total
    return _ratios(ratio(rates, rates.max()), low, high)


def highest_ratio_interval(
    selected: Floats | Integers, total: Floats | Integers, level: float
) -> tuple[Floats, Floats]:
    """Compute intervals of ratios to the highest rate: (..., groups), (..., groups) -> two (..., groups).

    An interval is about the highest true rate, whichever group has it, so the choice of the reference by the
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
    groups = selected.shape[-1]
    pairs = selected[..., :, None], total[..., :, None], selected[..., None, :], total[..., None, :]
    lows, _ = ratio_interval(*pairs, level)
    corrected = 1 - (1 - level) / (groups - 1)
    _, highs = ratio_interval(*pairs, corrected)
    is_other = ~np.eye(groups, dtype=bool)
    low = np.where(is_other, lows, np.inf).min(axis=-1)
    high = np.where(is_other, highs, np.inf).min(axis=-1)
    return np.minimum(low, 1.0), np.minimum(high, 1.0)


def _ratios(estimates: Floats, low: Floats, high: Floats) -> list[ImpactRatio]:
    """Return ratios with their intervals: three arrays (groups,) -> one per group."""
    rows = np.stack([estimates, low, high], axis=1).tolist()
    return [ImpactRatio(*row) for row in rows]
