"""Look of figures: colours, sizes, and the Vega-Lite configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# Each colour is unique, so that the page can replace it.
INK = "#1b2331"
"""Colour of text."""
SOFT = "#5b6479"
"""Colour of secondary text."""
LINE = "#d9dde7"
"""Colour of grid lines."""
PAPER = "#fffffe"
"""Colour of the background."""
ACCENT = "#2a5bd8"
"""Colour of emphasis."""
TIERS: Mapping[str, str] = {
    "healthy": "#e3f3f3",
    "cautionary": "#f4dc95",
    "critical": "#e9a36c",
    "catastrophic": "#c9707f",
    "ungraded": "#d9dde8",
}
"""Colours of the tiers, darker with severity, so that they differ in grey and for colour-blind readers.

Colour is never the only cue: a letter or a position always accompanies it.
"""
SHADED: Mapping[str, str] = {
    "at most cautionary": "healthy",
    "cautionary to critical": "cautionary",
    "at least cautionary": "cautionary",
    "at least critical": "critical",
    "undecided": "ungraded",
}
"""The tier whose colour a range of tiers has: the best one, which the interval supports."""
HEAT = ("#fefeff", "#e4ebfb", "#c9d6f6", "#aec2f1", "#93adec", "#7899e7")
"""Shades of a heat map, from low to high.

INK is legible on all of them; cells also show the number.
"""
BELOW = ("#d98a4a", "#e5ab7c", "#efcaab", "#f8e6d8")
"""Shades of a heat map for values below its neutral value, from low to high; those above have HEAT."""
SERIES = (INK, ACCENT, "#b4531f", "#5f8f3f")
"""Colours of series; their symbols differ, too."""
SYMBOLS = ("circle", "square", "triangle-up", "diamond")
"""Symbols of series."""


class Size(NamedTuple):
    """The size of a figure: its width, and that of its text, which determines all other lengths."""

    width: float
    font: float


COLUMN = Size(3.4 * 72, 7)
"""One column of a paper, in points."""
TWO_COLUMNS = Size(7 * 72, 7.5)
"""The whole width of a paper, in points."""
SCREEN = Size(800, 12)
"""A figure on a screen, in pixels."""
PADDING = 4


def shaded_as(mark: str) -> str:
    """Return the tier in whose colour a mark is shown in a heat map, on pages and in figures alike."""
    return SHADED.get(mark, mark)


def tier_colour(mark: str | None) -> str:
    """Return the colour of a mark, or PAPER without a mark."""
    return TIERS.get(shaded_as(mark or ""), PAPER)


def config_of(size: Size, background: str) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a figure."""
    font = size.font
    quiet = {"labelColor": INK, "titleColor": SOFT, "titleFontWeight": "normal"}
    sizes = {"labelFontSize": font, "titleFontSize": font, "labelLimit": 0, "titleLimit": 0}
    return {
        "aria": False,
        "background": background,
        "font": "Arial, Helvetica, Liberation Sans, sans-serif",
        "padding": PADDING,
        "view": {"stroke": None},
        "text": {"color": INK, "fontSize": font},
        "rule": {"color": INK},
        "point": {"color": INK, "filled": True, "opacity": 1},
        "title": {
            "color": INK,
            "fontSize": font,
            "anchor": "start",
            "subtitleColor": SOFT,
            "subtitleFontSize": font,
            "limit": 0,
        },
        "axis": {
            **quiet,
            **sizes,
            "gridColor": LINE,
            "domainColor": LINE,
            "tickColor": LINE,
            "tickSize": 3,
            "labelPadding": 2,
            "titlePadding": 3,
        },
        "legend": {**quiet, **sizes},
    }
