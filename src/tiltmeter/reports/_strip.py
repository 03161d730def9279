"""The small picture beside each graded number: its interval over the tiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tiltmeter.reports._tiers import scale_of
from tiltmeter.reports._words import MARK_LETTERS, number

__all__ = ["Strip", "strip"]

WIDTH, HEIGHT = 350.0, 44.0
MARGIN = 16.0
"""Room for half a label."""


class Tier(NamedTuple):
    """One band of the picture."""

    x: float
    width: float
    mark: str
    letter: str


class Cut(NamedTuple):
    """One labelled limit between bands."""

    x: float
    label: str


class Strip(NamedTuple):
    """Geometry in user units; the template draws it."""

    width: float
    height: float
    tiers: list[Tier]
    cuts: list[Cut]
    low: float
    high: float
    value: float
    words: str


def strip(row: Mapping[str, Any]) -> Strip | None:
    """The picture of one finding, None where it has no tiers or no value."""
    if not row["bands"] or row["estimate"] is None or row["low"] is None:
        return None
    scale = scale_of(row["bands"])
    step = (WIDTH - 2 * MARGIN) / len(scale.marks)

    def across(steps: float) -> float:
        return round(MARGIN + step * steps, 1)

    tiers = [Tier(across(i), round(step, 1), mark, MARK_LETTERS[mark]) for i, mark in enumerate(scale.marks)]
    cuts = [Cut(across(i), label) for i, label in enumerate(scale.labels)]
    words = f"{row['metric']}: {number(row['estimate'])}, interval {number(row['low'])} to {number(row['high'])}"
    low, high, value = (across(scale.place(row[name])) for name in ("low", "high", "estimate"))
    return Strip(WIDTH, HEIGHT, tiers, cuts, low, high, value, words)
