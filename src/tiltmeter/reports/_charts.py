"""Charts of blocks, drawn with Altair; they are embedded in pages as SVG or written to files."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from polars import DataFrame, Float64, String

from tiltmeter._files.writing import writing
from tiltmeter._sanitising import printable, shortened
from tiltmeter.blocks import Bars, Block, Chart, Details, Dots, Heatmap, IntervalRow, Intervals, Pairs
from tiltmeter.reports._files import csv_table
from tiltmeter.reports._words import in_words, numbers_of, place, scale_of, written

if TYPE_CHECKING:
    import altair as alt
    from markupsafe import Markup

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
    "healthy": "#cfe8de",
    "cautionary": "#f6e3a2",
    "critical": "#f0b184",
    "catastrophic": "#d98a95",
    "ungraded": "#d9dde8",
}
"""Colours of the tiers. Colour is never the only cue: a letter or a position always accompanies it."""
SHADED: Mapping[str, str] = {
    "at most cautionary": "healthy",
    "cautionary to critical": "cautionary",
    "at least cautionary": "cautionary",
    "at least critical": "critical",
    "undecided": "ungraded",
}
"""The tier whose colour a range of tiers has: the best one, which the interval supports."""
HEAT = ("#fefeff", "#e4ebfb", "#c9d6f6", "#aec2f1", "#93adec", "#7899e7")
"""Shades of a heat map with a quantised scale, from low to high.

INK is legible on all of them; cells also show the number.
"""
PAINTS: Mapping[str, str] = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    LINE: "var(--line)",
    PAPER: "var(--paper)",
    ACCENT: "var(--link)",
    **{TIERS[mark]: f"var(--{letter})" for mark, letter in zip(TIERS, "abcdu", strict=True)},
    **{shade: f"color-mix(in srgb,var(--link) {10 * i}%,var(--paper))" for i, shade in enumerate(HEAT)},
}
"""CSS colours that replace the colours of a figure on the page.

With them, the figure follows the light or dark theme.
"""


def shaded_as(mark: str) -> str:
    """Return the tier in whose colour a mark is shown in a heat map, on pages and in figures alike."""
    return SHADED.get(mark, mark)


def tier_colour(mark: str | None) -> str:
    """Return the colour of a mark, or PAPER without a mark."""
    return TIERS.get(shaded_as(mark or ""), PAPER)


PANELS_PER_ROW = 3
PANEL_WIDTH = 240
ROW_HEIGHT = 15
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
    "legend": {
        "labelColor": INK,
        "titleColor": SOFT,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 11,
    },
}
MOST_CELLS = 200
"""Maximum number of cells of a heat map that a page offers as SVG.

Larger ones take long to draw, and the page has them as a table.
"""
MOST_FIGURES = 64
"""Maximum number of specifications kept by `figure`, and of drawings kept by `as_svg`."""
_FIGURES: dict[str, str] = {}
_DRAWINGS: dict[str, str] = {}
_DROPPED = ("class", "role", "pointer-events", "xmlns", "version")


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
    from markupsafe import Markup

    root = ET.fromstring(as_svg(block))  # noqa: S314 - the input was written by vl-convert
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


def as_svg(block: Chart) -> str:
    """Return the chart as an SVG file with a white background.

    The last drawings are kept, because a page needs each twice.
    """
    import vl_convert

    key = repr(block)
    if key not in _DRAWINGS:
        if len(_DRAWINGS) == MOST_FIGURES:
            _DRAWINGS.clear()
        _DRAWINGS[key] = str(vl_convert.vegalite_to_svg(vega_lite(block, "white")))
    return _DRAWINGS[key]


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
    """Write each chart as NAME.png, NAME.svg and NAME.pdf with a white background; return the paths.

    Raises
    ------
    InputError
        A file cannot be written.
    """
    import vl_convert

    paths: list[Path] = []
    names: set[str] = set()
    for i, block in enumerate(charts_in(blocks)):
        name = file_name(block.title)
        if name in names:
            name = f"{name}-{i}"
        names.add(name)
        spec = vega_lite(block, "white")
        contents = {
            ".png": vl_convert.vegalite_to_png(spec, scale=2),
            ".svg": as_svg(block).encode(),
            ".pdf": vl_convert.vegalite_to_pdf(spec),
        }
        for suffix, content in contents.items():
            path = folder / f"{name}{suffix}"
            with writing(path) as temporary:
                temporary.write_bytes(bytes(content))
            paths.append(path)
    return paths


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


def _names(names: Iterable[str]) -> dict[str, str]:
    """Map each name to a short, unique label on one line."""
    labels: dict[str, str] = {}
    for name in names:
        if name in labels:
            continue
        label = shortened(name, 44)
        if label in labels.values():
            label = f"{shortened(name, 39)} ({len(labels) + 1})"
        labels[name] = label
    return labels


def vega_lite(block: Chart, background: str, columns: int = PANELS_PER_ROW) -> dict[str, Any]:
    """Return the Vega-Lite specification of a chart with its data.

    `columns` is the number of panels per row.
    """
    chart = chart_of(block, columns)
    # Validation takes as long as drawing, and is done in the tests.
    spec: dict[str, Any] = chart.to_dict(validate=False)
    return spec | {"config": {**_CONFIG, "background": background}}


def figure(block: Chart) -> str:
    """Return the Vega-Lite specification of a chart for a narrow page, as JSON.

    Those of the last charts are kept.
    """
    key = repr(block)
    if key not in _FIGURES:
        if len(_FIGURES) == MOST_FIGURES:
            _FIGURES.clear()
        _FIGURES[key] = json.dumps(vega_lite(block, "white", columns=2))
    return _FIGURES[key]


def drawn(block: Chart) -> alt.TopLevelMixin:
    """Return the chart with its colours, on a white background."""
    import altair as alt

    return alt.Chart.from_dict(vega_lite(block, "white"))


def chart_of(block: Chart, columns: int = PANELS_PER_ROW) -> alt.TopLevelMixin:
    """Return the chart without its colour configuration."""
    match block:
        case Intervals():
            return _intervals(block, columns)
        case Bars():
            return _bars(block)
        case Heatmap():
            return _heatmap(block)
        case Dots():
            return _dots(block)
        case Pairs():
            return _pairs(block)


def _intervals(block: Intervals, columns: int) -> alt.TopLevelMixin:
    """Draw one panel per metric with the estimate and interval of each row.

    The background shows the tiers, or the value that means "no bias".
    """
    import altair as alt

    labels = _names(row.label for row in block.rows)
    panels = [list(rows) for _, rows in itertools.groupby(block.rows, key=lambda row: row.name)]
    charts = [_panel(panel, labels, named=i % columns == 0) for i, panel in enumerate(panels)]
    return alt.concat(*charts, columns=columns, spacing={"row": 18, "column": 16})


def _panel(rows: Sequence[IntervalRow], labels: Mapping[str, str], *, named: bool) -> Any:
    """Draw the rows of one metric.

    Parameters
    ----------
    labels
        The labels of the rows of all panels.
    named
        Whether to write the labels of the rows.
    """
    import altair as alt

    edges, edge_labels, marks = scale_of(rows)
    edge_texts = ",".join(f"'{label}'" for label in edge_labels)
    axis = alt.Axis(
        values=list(range(len(edges))),
        labelExpr=f"[{edge_texts}][datum.value]",
        grid=False,
        title=None,
        labelFontSize=8,
        labelColor=SOFT,
        labelOverlap=False,
    )
    scale = alt.Scale(domain=[0, len(edges) - 1], nice=False)
    across = functools.partial(alt.X, scale=scale, axis=axis)
    rows_axis = alt.Axis(
        ticks=False,
        domain=False,
        labels=named,
        labelOverlap=False,
        labelFlush=False,
        labelPadding=8,
    )
    rows_scale = alt.Scale(domain=list(dict.fromkeys(labels.values())))
    down = alt.Y("label:N", sort=None, scale=rows_scale, title=None, axis=rows_axis)
    colour = alt.Color("colour:N", scale=None)
    positions = _positions(rows, labels, edges)
    base = alt.Chart(positions).encode(y=down, color=colour)
    lines = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2)
    points = base.mark_point(size=36)
    layers = [
        lines.encode(x=across("low:Q"), x2="high:Q"),
        points.encode(x=across("estimate:Q")),
    ]
    if marks:
        colours = [TIERS[mark] for mark in marks]
        tiers = DataFrame({"from": range(len(marks)), "to": range(1, len(edges)), "colour": colours})
        background = alt.Chart(tiers).mark_rect()
        layers.insert(0, background.encode(x=across("from:Q"), x2="to:Q", color=colour))
    elif positions["null_value"].count():
        line = alt.Chart(positions.head(1)).mark_rule(strokeDash=[4, 3], color=ACCENT)
        layers.insert(0, line.encode(x=across("null_value:Q")))
    height = ROW_HEIGHT * max(len(set(labels.values())), 2)
    title = alt.TitleParams(shortened(rows[0].name, 60), fontSize=11)
    return alt.layer(*layers).properties(width=PANEL_WIDTH, height=height, title=title)


def _positions(rows: Sequence[IntervalRow], labels: Mapping[str, str], edges: list[float]) -> DataFrame:
    """Return the positions of the numbers of each row on the scale of its panel."""
    columns: dict[str, list[Any]] = {
        "label": [labels[row.label] for row in rows],
        "colour": [SOFT if row.background else INK for row in rows],
    }
    for name in ("estimate", "low", "high", "null_value"):
        values = [getattr(row, name) for row in rows]
        columns[name] = [None if value is None else place(value, edges) for value in values]
    return DataFrame(columns)


def _long(block: Bars | Dots) -> DataFrame:
    """Return the values of a chart, one row per label and series."""
    labels = _names(block.labels)
    series = _names(block.values)
    rows = [
        (labels[label], series[name], value)
        for name, values in block.values.items()
        for label, value in zip(block.labels, values, strict=True)
    ]
    schema = {"label": String, "series": String, "value": Float64}
    return DataFrame(rows, schema=schema, orient="row").drop_nulls("value")


def _bars(block: Bars) -> alt.TopLevelMixin:
    import altair as alt

    across = alt.X("value:Q", title=None)
    down = alt.Y("series:N", sort=None, title=None)
    bars = alt.Chart(_long(block)).mark_bar(color=ACCENT).encode(x=across, y=down)
    header = alt.Header(labelAngle=0, labelAlign="left")
    row = alt.Row("label:N", sort=None, title=None, header=header)
    facets: alt.TopLevelMixin = bars.properties(width=2 * PANEL_WIDTH).facet(row=row)
    return facets


def _dots(block: Dots) -> alt.TopLevelMixin:
    import altair as alt

    left_end, right_end = block.ends
    title = f"← {shortened(left_end, 30)}    {shortened(right_end, 30)} →"
    scale = alt.Scale(domain=list(block.span))
    across = alt.X("value:Q", scale=scale, title=title)
    down = alt.Y("label:N", sort=None, title=None)
    legend = alt.Legend(orient="bottom", columns=2, labelLimit=300)
    shape = alt.Shape("series:N", title=None, legend=legend)
    points = alt.Chart(_long(block)).mark_point(size=60, color=INK).encode(x=across, y=down, shape=shape)
    middle = DataFrame({"middle": [sum(block.span) / 2]})
    line = alt.Chart(middle).mark_rule(strokeDash=[4, 3], color=ACCENT)
    return alt.layer(line.encode(x=alt.X("middle:Q", scale=scale)), points).properties(width=2 * PANEL_WIDTH)


def _pairs(block: Pairs) -> alt.TopLevelMixin:
    """Draw a line from the share of the others (hollow) to that of the group (filled) for each row."""
    import altair as alt

    names = [f"{row.label} ({row.group})" for row in block.rows]
    labels = _names(names)
    shares = DataFrame(
        {
            "label": [labels[name] for name in names],
            "share": [row.share for row in block.rows],
            "other": [row.other_share for row in block.rows],
        }
    )
    base = alt.Chart(shares).encode(y=alt.Y("label:N", sort=None, title=None))
    across = alt.X("share:Q", title="share of descriptions (hollow: others)", axis=alt.Axis(format="%"))
    lines = base.mark_rule(color=ACCENT)
    of_groups = base.mark_point(size=60, color=ACCENT)
    of_others = base.mark_point(size=60, filled=True, stroke=ACCENT, fill=PAPER, strokeWidth=2, opacity=1)
    layers = [
        lines.encode(x=across, x2="other:Q"),
        of_groups.encode(x=across),
        of_others.encode(x="other:Q"),
    ]
    return alt.layer(*layers).properties(width=2 * PANEL_WIDTH)


def _heatmap(block: Heatmap) -> alt.TopLevelMixin:
    import altair as alt

    base = alt.Chart(_cells(block)).encode(
        x=alt.X("column:N", sort=None, title=None, axis=alt.Axis(orient="top", labelAngle=-45)),
        y=alt.Y("row:N", sort=None, title=None),
    )
    if block.marks is not None:
        colour = alt.Color("colour:N", scale=None)
    else:
        scale = alt.Scale(domain=_domain(block), range=list(HEAT))
        colour = alt.Color("value:Q", scale=scale, legend=None)
    shades = base.mark_rect().encode(color=colour)
    texts = base.mark_text(fontSize=9, color=INK).encode(text="text:N")
    return alt.layer(shades, texts)


def _cells(block: Heatmap) -> DataFrame:
    """Return the cells of a heat map, one row per cell."""
    row_labels = _names(block.rows)
    column_labels = _names(block.columns)
    marks = block.marks or [[None] * len(block.columns)] * len(block.rows)
    cells = []
    for row, values, marks_of_row in zip(block.rows, block.values, marks, strict=True):
        for column, value, mark in zip(block.columns, values, marks_of_row, strict=True):
            text = written(value, block.kind)
            cells.append((row_labels[row], column_labels[column], value, text, tier_colour(mark)))
    schema = {"row": String, "column": String, "value": Float64, "text": String, "colour": String}
    return DataFrame(cells, schema=schema, orient="row")


def _domain(block: Heatmap) -> list[float]:
    """Return the values at the ends of the colour scale of a heat map."""
    values = [value for row in block.values for value in row if value is not None]
    low = min(values, default=0.0)
    high = max(values, default=1.0)
    if block.centre is None:
        return [low, high]
    reach = max(abs(low - block.centre), abs(high - block.centre)) or 1.0
    return [block.centre - reach, block.centre + reach]
