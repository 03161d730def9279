"""The small picture beside each graded number: its interval over the tiers.

Every tier gets the same width whatever its span, because tiers, not raw values, are what a reader compares between metrics;
the cut points are printed so that nothing is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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
    bands = sorted(row["bands"], key=lambda band: band["low"])
    edges = [bands[0]["low"], *(band["high"] for band in bands)]
    cut_off = len(bands) == 4 and edges[0] < -edges[2]  # one-sided, anything below is healthy: draw only the part near the limits
    if cut_off:
        edges[0] = -edges[2]
    step = (WIDTH - 2 * MARGIN) / len(bands)

    def place(value: float) -> float:
        value = min(max(value, edges[0]), edges[-1])
        i = next(i for i in range(len(bands)) if value <= edges[i + 1])
        return round(float(MARGIN + step * (i + (value - edges[i]) / (edges[i + 1] - edges[i]))), 1)

    tiers = [Tier(round(MARGIN + i * step, 1), round(step, 1), band["mark"], MARK_LETTERS[band["mark"]]) for i, band in enumerate(bands)]
    cuts = [Cut(round(MARGIN + i * step, 1), ("≤" if cut_off and i == 0 else "") + _cut(edge)) for i, edge in enumerate(edges)]
    words = f"{row['metric']}: {number(row['estimate'])}, interval {number(row['low'])} to {number(row['high'])}"
    return Strip(WIDTH, HEIGHT, tiers, cuts, place(row["low"]), place(row["high"]), place(row["estimate"]), words)


def _cut(edge: float) -> str:
    """A limit between tiers, as short as it is exact (0.025, 0.5, 1)."""
    return number(edge).rstrip("0").rstrip(".") or "0"
