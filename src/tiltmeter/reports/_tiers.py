"""The scale all pictures of graded numbers share: every tier gets the same width whatever its span.

Tiers, not raw values, are what a reader compares between metrics; the limits are printed so that nothing is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiltmeter.reports._words import number

__all__ = ["Scale", "scale_of"]


class Scale(NamedTuple):
    """Tiers in the order of their values."""

    marks: tuple[str, ...]
    edges: tuple[float, ...]
    """One more than `marks`."""
    labels: tuple[str, ...]
    """The edges in words."""

    def place(self, value: float) -> float:
        """Where a value stands: 0 is the first edge, 1 the second, and so on; what is outside stands at the end."""
        return float(np.interp(value, self.edges, range(len(self.edges))))


def scale_of(bands: Sequence[Mapping[str, Any]]) -> Scale:
    """The scale of one metric's tiers (`bands` of a finding)."""
    ordered = sorted(bands, key=lambda band: float(band["low"]))
    edges = [float(ordered[0]["low"]), *(float(band["high"]) for band in ordered)]
    cut_off = len(ordered) == 4 and edges[0] < -edges[2]  # one-sided, anything below is healthy: show only the part near the limits
    if cut_off:
        edges[0] = -edges[2]
    labels = [("≤" if cut_off and i == 0 else "") + _cut(edge) for i, edge in enumerate(edges)]
    return Scale(tuple(str(band["mark"]) for band in ordered), tuple(edges), tuple(labels))


def _cut(edge: float) -> str:
    """A limit between tiers, as short as it is exact (0.025, 0.5, 1)."""
    return number(edge).rstrip("0").rstrip(".") or "0"
