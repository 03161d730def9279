"""Numbers in words, for people: shares in percent, differences of shares in percentage points, with digits that follow the uncertainty."""

from __future__ import annotations

PRECISE = 0.02
"""Half-width of an interval below which a decimal is shown."""


def percent_digits(low: float | None, high: float | None) -> int:
    """Return the number of decimals of a percentage that its interval supports."""
    return 1 if low is not None and high is not None and high - low < 2 * PRECISE else 0


def in_percent(value: float, digits: int = 0) -> str:
    """Format a share as a number of percent or points, without unit and with a typographic minus sign."""
    return f"{100 * value:z.{digits}f}".replace("-", "−")


def quantity(value: float | None, low: float | None = None, high: float | None = None, unit: str = "") -> str:
    """Format an estimate in its unit.

    Parameters
    ----------
    low, high
        Ends of its interval, which determine the number of decimals.
    unit
        One of UNITS of findings. "share": in percent. "difference": in percentage points. Others: three decimals.

    Examples
    --------
    >>> quantity(0.2816, 0.24, 0.32, "share")
    '28%'
    >>> quantity(-0.0046, -0.01, 0.0008, "difference")
    '−0.5 points'
    """
    if value is None or value != value:
        return "–"
    digits = percent_digits(low, high)
    match unit:
        case "share":
            return f"{in_percent(value, digits)}%"
        case "difference":
            text = in_percent(value, digits)
            return f"{text} point{'' if text in ('1', '−1') else 's'}"
        case _:
            return f"{value:z.3f}".replace("-", "−")


def interval(low: float | None, high: float | None, unit: str = "") -> str:
    """Format an interval in the unit of its estimate: "24 to 32", with "%" for a share."""
    if low is None or high is None or low != low or high != high:
        return "–"
    if unit not in ("share", "difference"):
        return f"{low:z.3f} to {high:z.3f}".replace("-", "−")
    digits = percent_digits(low, high)
    return f"{in_percent(low, digits)} to {in_percent(high, digits)}{'%' if unit == 'share' else ''}"
