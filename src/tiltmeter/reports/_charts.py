"""Figures in pages and files, in the notebook and in the explorer."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from tiltmeter._files.writing import writing
from tiltmeter._sanitising import printable
from tiltmeter.blocks import Block, Chart, Details, Heatmap
from tiltmeter.reports._figure_theme import (
    ACCENT,
    COLUMN,
    HEAT,
    INK,
    LINE,
    PAPER,
    SCREEN,
    SERIES,
    SHADED as SHADED,
    SOFT,
    TIERS,
    TWO_COLUMNS,
    Size,
    config_of,
    shaded_as as shaded_as,
    tier_colour as tier_colour,
)
from tiltmeter.reports._figures import figure_of
from tiltmeter.reports._files import csv_table
from tiltmeter.reports._text_widths import has_known_width, text_width
from tiltmeter.reports._words import in_words, numbers_of

if TYPE_CHECKING:
    import altair as alt
    from markupsafe import Markup

# Each colour is unique.
PAINTS: Mapping[str, str] = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    LINE: "var(--line)",
    PAPER: "var(--paper)",
    ACCENT: "var(--link)",
    **{TIERS[mark]: f"var(--{letter})" for mark, letter in zip(TIERS, "abcdu", strict=True)},
    **{shade: f"color-mix(in srgb,var(--link) {10 * i}%,var(--paper))" for i, shade in enumerate(HEAT)},
    **{colour: f"color-mix(in srgb,{colour} 70%,var(--ink))" for colour in SERIES[2:]},
}
"""CSS colours that replace the colours of a figure on the page.

With them, the figure follows the light or dark theme.
"""

MOST_CELLS = 200
"""Maximum number of cells of a heat map that a page offers as SVG.

Larger ones take long to draw, and the page has them as a table.
"""
MOST_FIGURES = 64
"""Maximum number of specifications kept by `figure`, and of drawings kept by `as_svg`."""
_FIGURES: dict[str, str] = {}
_DRAWINGS: dict[str, str] = {}
_DROPPED = ("class", "role", "pointer-events", "xmlns", "version")
RESOLUTION = 300
"""Dots per inch of PNG files."""
ON_PAGE = Size(760, 12)
"""A figure within a page, in pixels."""
_SVG = "http://www.w3.org/2000/svg"


def paint_rules() -> Markup:
    """Return the CSS rules that replace the colours of figures with those of the page."""
    from markupsafe import Markup

    rules = ""
    for colour, paint in PAINTS.items():
        for attribute in ("fill", "stroke"):
            rules += f'.figure [{attribute}="{colour}"]{{{attribute}:{paint}}}'
    return Markup(rules)  # noqa: S704 - contains only colours of this module


def svg(block: Chart) -> Markup:
    """Return the chart as inline SVG with a text description as its label; `paint_rules` sets its colours."""
    import vl_convert
    from markupsafe import Markup

    drawing = vl_convert.vegalite_to_svg(vega_lite(block, ON_PAGE, titled=False))
    root = ET.fromstring(drawing)  # noqa: S314 - the input was written by vl-convert
    background = root.find("{*}rect")
    if background is not None:
        root.remove(background)
    _tidy(root, file_name(block.title))
    width = root.attrib.pop("width")
    del root.attrib["height"]
    root.set("role", "img")
    root.set("aria-label", printable(in_words(block)))
    root.set("style", f"max-width:{width}px;min-width:min({width}px,720px)")
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - the serialiser has escaped all texts


def as_svg(block: Chart, size: Size = TWO_COLUMNS) -> str:
    """Return the chart as an SVG file with a white background, whose length is given in inches.

    Each text has the width of the font that it was laid out with, so that it fits where another font is
    used. The last drawings are kept.
    """
    import vl_convert

    key = f"{size}{block!r}"
    if key not in _DRAWINGS:
        if len(_DRAWINGS) == MOST_FIGURES:
            _DRAWINGS.clear()
        _DRAWINGS[key] = _in_inches(vl_convert.vegalite_to_svg(vega_lite(block, size)))
    return _DRAWINGS[key]


def _in_inches(drawing: str) -> str:
    """Return an SVG file with its lengths in inches, and each text with its width."""
    ET.register_namespace("", _SVG)
    root = ET.fromstring(drawing)  # noqa: S314 - the input was written by vl-convert
    for length in ("width", "height"):
        root.set(length, f"{float(root.attrib[length]) / 72:.3f}in")
    for text in root.iter(f"{{{_SVG}}}text"):
        is_bold = text.get("font-weight") == "bold"
        size = float(text.get("font-size", "0").removesuffix("px"))
        for element in text.iter():
            words = element.text or ""
            if words.strip() and has_known_width(words, bold=is_bold):
                element.set("textLength", f"{text_width(words, size, bold=is_bold):.2f}")
                element.set("lengthAdjust", "spacingAndGlyphs")
    return ET.tostring(root, encoding="unicode")


def saved(block: Chart, *, drawn: bool) -> list[tuple[str, str, str]]:
    """Return the files as which a page offers the chart: format, file name, and content as a data URL.

    Parameters
    ----------
    drawn
        Whether to offer the chart itself as SVG, besides its numbers as CSV.
    """
    name = file_name(block.title)
    numbers = csv_table(numbers_of(block).lazy()).collect().write_csv(quote_style="non_numeric")
    files = [("CSV", f"{name}.csv", _data_url("text/csv", numbers))]
    is_large = isinstance(block, Heatmap) and len(block.rows) * len(block.columns) > MOST_CELLS
    if drawn and not is_large:
        files.append(("SVG", f"{name}.svg", _data_url("image/svg+xml", as_svg(block))))
    return files


def _data_url(media_type: str, content: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content.encode()).decode()}"


def _tidy(root: ET.Element, name: str) -> None:
    """Remove parts that a page does not need, and make ids unique.

    Such parts are classes, empty frames and namespaces. Ids are prefixed with the name.
    """
    for element in list(root.iter()):
        element.tag = element.tag.rpartition("}")[2]
        for key, value in element.items():
            has_no_effect = key == "opacity" and value == "1"
            if key in _DROPPED or key.startswith("aria-") or has_no_effect:
                del element.attrib[key]
            elif key == "id":
                element.set(key, f"{name}-{value}")
            elif value.startswith("url(#"):
                element.set(key, value.replace("#", f"#{name}-", 1))
        for child in list(element):
            # Remove frames that are neither filled nor stroked.
            if child.tag.endswith("path") and {"fill", "stroke"}.isdisjoint(child.keys()):
                element.remove(child)


def write_charts(blocks: Iterable[Block], folder: Path) -> list[Path]:
    """Write each chart as PNG, SVG and PDF with a white background, and return the paths.

    NAME is 7 inches wide, as two columns of a paper, and NAME-column 3.4 inches, as one. PDF files contain
    their fonts.

    Raises
    ------
    InputError
        A file cannot be written.
    """
    paths: list[Path] = []
    names: set[str] = set()
    for i, block in enumerate(charts_in(blocks)):
        name = file_name(block.title)
        if name in names:
            name = f"{name}-{i}"
        names.add(name)
        for ending, size in (("", TWO_COLUMNS), ("-column", COLUMN)):
            for suffix, content in _files(block, size).items():
                path = folder / f"{name}{ending}{suffix}"
                with writing(path) as temporary:
                    temporary.write_bytes(content)
                paths.append(path)
    return paths


def _files(block: Chart, size: Size) -> dict[str, bytes]:
    """Return a figure in each format, by file extension."""
    import vl_convert

    spec = vega_lite(block, size)
    return {
        ".png": vl_convert.vegalite_to_png(spec, ppi=RESOLUTION),
        ".svg": as_svg(block, size).encode(),
        ".pdf": vl_convert.vegalite_to_pdf(spec),
    }


def charts_in(blocks: Iterable[Block]) -> Iterator[Chart]:
    """Yield the charts among blocks, including those within `Details`."""
    for block in blocks:
        if isinstance(block, Details):
            yield from charts_in(block.blocks)
        elif isinstance(block, Chart):
            yield block


def file_name(title: str) -> str:
    """Convert a title to a file name of lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:80] or "chart"


def vega_lite(block: Chart, size: Size = TWO_COLUMNS, *, titled: bool = True) -> dict[str, Any]:
    """Return the Vega-Lite specification of a chart with its data.

    See `figure_of` for `titled`.
    """
    # Validation takes as long as drawing, and is done in the tests.
    return figure_of(block, size, titled=titled) | {"config": config_of(size, "white")}


def figure(block: Chart) -> str:
    """Return the Vega-Lite specification of a chart for a page that shows the title itself, as JSON.

    Those of the last charts are kept.
    """
    key = repr(block)
    if key not in _FIGURES:
        if len(_FIGURES) == MOST_FIGURES:
            _FIGURES.clear()
        _FIGURES[key] = json.dumps(vega_lite(block, SCREEN, titled=False))
    return _FIGURES[key]


def drawn(block: Chart) -> alt.TopLevelMixin:
    """Return the chart as a figure for a screen, with its title and colours."""
    import altair as alt

    return alt.Chart.from_dict(vega_lite(block, SCREEN))
