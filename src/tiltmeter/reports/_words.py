"""How numbers and marks are written, the same in the terminal and on the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["MARK_LETTERS", "interval", "level_words", "mark_words", "number", "percent", "shares", "size", "value"]

MARK_LETTERS = {"healthy": "A", "cautionary": "B", "critical": "C", "catastrophic": "D", "ungraded": "–"}


def number(value: float | None, digits: int = 3) -> str:
    """A value with a true minus sign; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    text = f"{value:.{digits}f}"
    return f"−{text[1:]}" if text.startswith("-") and float(text) != 0 else text.removeprefix("-")


def value(row: Mapping[str, Any]) -> str:
    """The estimate of a finding; a count has no upper end of its range and is a whole number."""
    estimate = row["estimate"]
    is_count = estimate is not None and row["range_high"] in (None, math.inf) and float(estimate).is_integer()
    return f"{estimate:,.0f}" if is_count else number(estimate)


def interval(row: Mapping[str, Any]) -> str:
    """`low … high` of a finding."""
    return "–" if row["low"] is None else f"{number(row['low'])} … {number(row['high'])}"


def level_words(levels: Iterable[float]) -> str:
    """`95% interval`, or `interval` where the levels differ."""
    distinct = set(levels)
    return f"{100 * distinct.pop():g}% interval" if len(distinct) == 1 else "interval"


def size(count: int) -> str:
    """A number of bytes for people: `4.3 MB`."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1_000, larger
    return f"{value:.3g} {unit}"


def percent(part: int, whole: int) -> str:
    """A share as a percentage, never rounding something to nothing."""
    if whole == 0:
        return "–"
    value = 100 * part / whole
    return f"{value:.0f}%" if value == 0 or value >= 1 else "<1%"


def shares(row: Mapping[str, Any]) -> dict[str, str]:
    """Answered, refused and otherwise unread shares of a finding's attempts."""
    n = row["n"] or 0
    lost = (row["unreadable"] or 0) + (row["empty"] or 0)
    counts = {"answered": row["answered"] or 0, "refused": row["refused"] or 0, "unreadable": lost, "failed": row["failed"] or 0}
    return {name: percent(count, n) for name, count in counts.items()}


def mark_words(row: Mapping[str, Any]) -> str:
    """The mark, with the tiers the interval reaches: "critical, could be cautionary"."""
    mark = row["mark"]
    if mark is None:
        return ""
    if mark == "ungraded":
        return "ungraded"
    others = [tier for tier in (row["mark_low"], row["mark_high"]) if tier not in (None, mark)]
    return mark if not others else f"{mark}, could be {' or '.join(dict.fromkeys(others))}"
