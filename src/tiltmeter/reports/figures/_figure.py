"""What a figure is, its colours, and how it becomes a file or a part of the page.

A figure's maker is a function from findings to figures; each module of makers lists its own in `MAKERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree as ET

from tiltmeter._text import printable

if TYPE_CHECKING:
    import altair as alt
    import polars as pl
    from markupsafe import Markup

__all__ = [
    "ACCENT",
    "FORMATS",
    "HEAT",
    "INK",
    "LINE",
    "MARKS",
    "PAINTS",
    "PAPER",
    "SOFT",
    "Figure",
    "Maker",
    "paint_rules",
    "plain",
    "render",
    "svg",
]

INK, SOFT, LINE, PAPER, ACCENT = "#1b2331", "#5b6479", "#d9dde7", "#fffffe", "#2a5bd8"
"""Text, secondary text, grid lines, background, emphasis. Each is a colour nobody else uses: the page finds it and puts its own there."""
MARKS = {"healthy": "#cfe8de", "cautionary": "#f6e3a2", "critical": "#f0b184", "catastrophic": "#d98a95", "ungraded": "#d9dde8"}
"""Tiers; always beside a letter or a place, never the only sign."""
HEAT = ("#fefeff", "#e4ebfb", "#c9d6f6", "#aec2f1", "#93adec", "#7899e7")
"""Shades of a heat map, from nothing to most, for a quantised scale; INK can be read on each. Write the number into the cell as well."""
PAINTS: Mapping[str, str] = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    LINE: "var(--line)",
    PAPER: "var(--paper)",
    ACCENT: "var(--link)",
    **{MARKS[mark]: f"var(--{letter})" for mark, letter in zip(MARKS, "abcdu", strict=True)},
    **{shade: f"color-mix(in srgb,var(--link) {10 * i}%,var(--paper))" for i, shade in enumerate(HEAT)},
}
"""What the page paints in place of each colour, so that a figure follows its light or dark."""

FORMATS = (".png", ".svg", ".pdf")
"""Kinds of files a figure can be rendered to."""
_CONFIG: Mapping[str, Any] = {
    "aria": False,
    "background": "transparent",
    "font": "Arial, Liberation Sans, Helvetica, sans-serif",
    "padding": 4,
    "view": {"stroke": None},
    "text": {"color": INK, "fontSize": 11},
    "rule": {"color": INK},
    "point": {"color": INK, "filled": True, "opacity": 1},
    "title": {"color": INK, "fontSize": 12, "anchor": "start", "subtitleColor": SOFT},
    "header": {"labelColor": INK, "titleColor": INK, "labelFontSize": 11},
    "axis": {
        "labelColor": INK,
        "titleColor": SOFT,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "labelLimit": 260,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
    },
    "legend": {"labelColor": INK, "titleColor": SOFT, "titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 11},
}
_DROPPED = ("class", "role", "pointer-events", "xmlns", "version")


class Figure(NamedTuple):
    """A picture of findings."""

    name: str
    """Lower-case letters, digits and hyphens; unique on a page, and the name of its files."""
    title: str
    """What stands above it; may hold names of models."""
    words: str
    """What it shows, for those who cannot see it: what the axes are, and what is to be seen."""
    chart: alt.TopLevelMixin
    """The chart without configuration, in the colours of this module. Text from outside goes through `plain` first."""


Maker = Callable[["pl.DataFrame"], Sequence[Figure]]
"""Makes its figures from findings of any runs, models and methods: none where these hold nothing to show."""


def plain(text: str, limit: int = 60) -> str:
    """Text from outside for a chart: on one line, without control characters, at most `limit` characters."""
    shown = printable(text, one_line=True)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def paint_rules() -> Markup:
    """The CSS rules that put the page's colours in place of a figure's."""
    from markupsafe import Markup

    rules = (f'.figure [{kind}="{colour}"]{{{kind}:{paint}}}' for colour, paint in PAINTS.items() for kind in ("fill", "stroke"))
    return Markup("".join(rules))  # noqa: S704 - of this module's own colours only


def svg(figure: Figure) -> Markup:
    """The figure as inline SVG for the page: an image with its words as label, painted by `paint_rules`."""
    from markupsafe import Markup

    root = ET.fromstring(_svg(figure, "transparent"))  # noqa: S314 - written by vl-convert a moment ago
    _tidy(root)
    ids = {old.get("id"): f"{figure.name}-{old.get('id')}" for old in root.iter() if old.get("id")}
    for element in root.iter():
        for name, value in list(element.attrib.items()):
            if name == "id" and value in ids:
                element.set(name, ids[value])
            elif found := re.fullmatch(r"url\(#(.+)\)", value):
                element.set(name, f"url(#{ids.get(found[1], found[1])})")
    width = root.attrib.pop("width")
    del root.attrib["height"]
    root.attrib |= {"role": "img", "aria-label": printable(figure.words), "style": f"max-width:{width}px;min-width:min({width}px,720px)"}
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - every text in it was escaped by the serialiser


def _tidy(root: ET.Element) -> None:
    """Drop what a page needs not: names of parts, empty frames, namespaces."""
    for element in list(root.iter()):
        element.tag = element.tag.rpartition("}")[2]
        for name in list(element.attrib):
            if name in _DROPPED or name.startswith("aria-") or (name == "opacity" and element.get(name) == "1"):
                del element.attrib[name]
        for child in list(element):
            # A frame without size, or one that nothing paints.
            if child.tag.endswith("path") and {"fill", "stroke"}.isdisjoint(child.keys()):
                element.remove(child)


def render(figure: Figure, suffix: str) -> bytes:
    """The figure as a file, on white paper.

    Parameters
    ----------
    suffix
        One of FORMATS.
    """
    import vl_convert

    if suffix == ".svg":
        return _svg(figure, "white").encode()
    spec = _spec(figure, "white")
    if suffix == ".pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec))
    return bytes(vl_convert.vegalite_to_png(spec, scale=2))


def _svg(figure: Figure, background: str) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(_spec(figure, background)))


def _spec(figure: Figure, background: str) -> dict[str, Any]:
    spec: dict[str, Any] = figure.chart.to_dict(validate=False)  # takes as long as drawing; the tests validate
    return spec | {"config": {**_CONFIG, "background": background}}
