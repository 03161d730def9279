"""What a study can see before it is paid for."""

from __future__ import annotations

from statistics import NormalDist

__all__ = ["detectable", "half_width"]


def detectable(se: float, level: float = 0.95, power: float = 0.8) -> float:
    """Return the smallest true effect that a two-sided test at `level` finds with probability `power`.

    Args:
        se: Expected standard error, in the units of the effect.
        level: Confidence level of the interval that must exclude 0.
        power: Probability of finding the effect, above one half.

    Returns:
        (z of the level + z of the power) times `se`; the chance of an error in the other direction is left out.

    Source: Cohen (1988), "Statistical Power Analysis for the Behavioral Sciences", normal approximation.
    """
    return half_width(se, level) + NormalDist().inv_cdf(power) * se


def half_width(se: float, level: float = 0.95) -> float:
    """Return half the width of the two-sided normal interval at `level` for an estimate of standard error `se`."""
    return NormalDist().inv_cdf((1.0 + level) / 2.0) * se
