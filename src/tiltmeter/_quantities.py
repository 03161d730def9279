"""Numbers in words, for people.

Shares are in percent and differences of shares in percentage points, with digits that follow the uncertainty.
"""

from __future__ import annotations

import math

PRECISE = 0.02
"""Half-width of an interval below which a decimal is shown."""
LARGE = 1000
"""Score from which no decimals are shown; from a tenth of it, one."""
MOST_DECIMALS = 3
"""Number of decimals of a percentage that is nearly 0."""


def number(value: float | None, digits: int = 3) -> str:
    """Format a value with a typographic minus sign and sign of infinity; a missing value becomes a dash."""
    if value is None or math.isnan(value):
        return "–"
    written = f"{value:z.{digits}f}"
    return written.replace("-", "−").replace("inf", "∞")


def score(value: float, *others: float | None) -> str:
    """Format a number without a unit, with fewer decimals the larger it or one of the `others` is.

    Examples
    --------
    >>> score(-3100.4, -5000, -1200), score(0.5)
    ('−3,100', '0.500')
    """
    largest = max(abs(each) for each in (value, *others) if each is not None and math.isfinite(each))
    if largest >= LARGE:
        return f"{value:z,.0f}".replace("-", "−").replace("inf", "∞")
    return number(value, 1 if largest >= LARGE / 10 else 3)


def percent_digits(low: float | None, high: float | None) -> int:
    """Return the number of decimals of a percentage that its interval supports."""
    is_precise = low is not None and high is not None and high - low < 2 * PRECISE
    return 1 if is_precise else 0


def in_percent(value: float, digits: int = 0) -> str:
    """Format a share as a number of percent or points, without unit and with a typographic minus sign."""
    return number(100 * value, digits)


def quantity(value: float | None, low: float | None = None, high: float | None = None, unit: str = "") -> str:
    """Format an estimate in its unit.

    Parameters
    ----------
    low, high
        Ends of its interval, which determine the number of decimals.
    unit
        One of UNITS of findings. "share": in percent. "difference": in percentage points. "count": whole.
        "score": see `score`. Others: three decimals.

    Examples
    --------
    >>> quantity(0.2816, 0.24, 0.32, "share")
    '28%'
    >>> quantity(-0.0046, -0.01, 0.0008, "difference")
    '−0.5 points'
    """
    if value is None or math.isnan(value):
        return number(value)
    digits = percent_digits(low, high)
    match unit:
        case "share":
            return f"{in_percent(value, digits)}%"
        case "difference":
            text = in_percent(value, digits)
            return f"{text} point{'' if text in ('1', '−1') else 's'}"
        case "count":
            return f"{value:,.0f}"
        case "score":
            return score(value, low, high) if math.isfinite(value) else number(value)
        case _:
            return number(value)


def confidence(level: float) -> str:
    """Format a confidence level in percent, with as many decimals as its distance from 100% needs.

    Examples
    --------
    >>> confidence(0.95), confidence(0.99834), confidence(0.99996)
    ('95%', '99.8%', '99.996%')
    """
    distance = max(100 * (1 - level), 1e-9)
    decimals = max(1, math.ceil(-math.log10(distance)))
    return f"{round(100 * level, decimals):.12g}%"


def interval_name(level: float | None) -> str:
    """Return "95% interval", or "interval" if there is no level.

    Examples
    --------
    >>> interval_name(0.95), interval_name(None)
    ('95% interval', 'interval')
    """
    return "interval" if level is None else f"{confidence(level)} interval"


def interval(low: float | None, high: float | None, unit: str = "") -> str:
    """Format an interval in the unit of its estimate: "24 to 32", with "%" for a share.

    Examples
    --------
    >>> interval(0.003, 0.13, "difference")
    '0.3 to 13'
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return number(None)
    if unit == "score" and math.isfinite(low) and math.isfinite(high):
        return f"{score(low, high)} to {score(high, low)}"
    if unit not in ("share", "difference"):
        return f"{number(low)} to {number(high)}"
    digits = percent_digits(low, high)
    ends = f"{_end_in_percent(low, digits)} to {_end_in_percent(high, digits)}"
    return f"{ends}%" if unit == "share" else ends


def _end_in_percent(end: float, digits: int) -> str:
    """Return an end of an interval in percent, with the decimals that show that it is not 0."""
    percent = 100 * end
    for decimals in range(digits, MOST_DECIMALS + 1):
        if round(percent, decimals) != 0:
            return number(percent, decimals)
    return number(percent, digits)
