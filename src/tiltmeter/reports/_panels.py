"""Interval charts on the page: one panel per test, with all models on one scale."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tiltmeter._quantities import interval, quantity
from tiltmeter.blocks import IntervalRow, Intervals
from tiltmeter.reports._figure_parts import Ticks, in_unit
from tiltmeter.reports._interval_figures import shown_values
from tiltmeter.reports._words import MARK_LETTERS

WIDTH = 350.0
"""Width of a plot, in SVG units."""
MARGIN = 16.0
"""Width of the space at both ends of a plot, for half a label."""
FONT = 12.0
LEAST_WIDTH = 1.5
"""Smallest width of an interval that can be seen."""
LEAST_TIER = 14.0
"""Smallest width of a tier that has its letter."""


class Tier(NamedTuple):
    """A tier in the background of a panel: its left end, width, mark and letter."""

    x: float
    width: float
    mark: str
    letter: str


class Line(NamedTuple):
    """One row of a panel; `low`, `high` and `value` are positions, None without an interval."""

    row: IntervalRow
    number: int
    """Number of the row in the block."""
    low: float | None
    high: float | None
    value: float | None
    words: str
    """The numbers in words."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The rows of one test on one scale; lengths are in SVG units.

    Parameters
    ----------
    name, about
        Title of the panel, and what the number is.
    lines
        The rows.
    tiers
        Tiers of the background.
    cuts
        Position and label of each tick.
    zero
        Position of the value that means "no bias"; None if there is none.
    """

    name: str
    about: str
    lines: Sequence[Line]
    tiers: Sequence[Tier]
    cuts: Sequence[tuple[float, str]]
    zero: float | None

    @property
    def has_marks(self) -> bool:
        """Whether a row has a mark."""
        return any(line.row.mark is not None for line in self.lines)


def panels(block: Intervals) -> list[Panel]:
    """Return the panels of a chart.

    Panels of the same unit have the same scale, on which equal distances are equal differences.
    """
    ticks = {}
    for unit in dict.fromkeys(row.unit for row in block.rows):
        values = shown_values([row for row in block.rows if row.unit == unit])
        finite = [value for value in values if value is not None]
        low, high = min(finite, default=0.0), max(finite, default=1.0)
        ticks[unit] = Ticks.of(low, high, WIDTH - 2 * MARGIN, FONT)
    numbered = enumerate(block.rows)
    grouped = itertools.groupby(numbered, key=lambda pair: pair[1].name)
    return [_panel(list(rows), ticks) for _, rows in grouped]


def _panel(rows: Sequence[tuple[int, IntervalRow]], ticks_of: dict[str, Ticks]) -> Panel:
    """Return the panel of some numbered rows."""
    _, first = rows[0]
    ticks = ticks_of[first.unit]
    start, end = ticks.domain

    def at(value: float | None) -> float | None:
        """Return the position of a value; values beyond the scale are at its ends."""
        shown = in_unit(value, first.unit)
        if shown is None:
            return None
        share = (min(max(shown, start), end) - start) / (end - start)
        return round(MARGIN + (WIDTH - 2 * MARGIN) * share, 1)

    tiers = []
    for band in sorted(first.bands, key=lambda band: band.low):
        left, right = at(band.low), at(band.high)
        if left is not None and right is not None and right > left:
            width = round(right - left, 1)
            letter = MARK_LETTERS[band.mark] if width >= LEAST_TIER else ""
            tiers.append(Tier(left, width, band.mark, letter))
    cuts = []
    for value in ticks.values:
        share = (value - start) / (end - start)
        position = round(MARGIN + (WIDTH - 2 * MARGIN) * share, 1)
        cuts.append((position, f"{value:g}".replace("-", "−")))
    lines = [_line(number, row, at(row.low), at(row.high), at(row.estimate)) for number, row in rows]
    return Panel(first.panel, first.about, lines, tiers, cuts, at(first.null_value))


def _line(number: int, row: IntervalRow, low: float | None, high: float | None, value: float | None) -> Line:
    """Return a row with its positions and its numbers in words."""
    if low is None or high is None or value is None:
        return Line(row, number, None, None, None, row.named)
    estimate = quantity(row.estimate, row.low, row.high, row.unit)
    words = f"{row.named}: {estimate}, interval {interval(row.low, row.high, row.unit)}"
    return Line(row, number, low, max(high, low + LEAST_WIDTH), value, words)
