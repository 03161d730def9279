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

from tiltmeter.blocks import Bars, Block, Chart, Details, Dots, Heatmap, IntervalRow, Intervals, Pairs
from tiltmeter.files.writing import writing
from tiltmeter.reports.files import csv_table
from tiltmeter.reports.words import in_words, numbers_of, place, scale_of, written
from tiltmeter.sanitising import printable, shortened

if TYPE_CHECKING:
    import altair as alt
    from markupsafe import Markup

INK, SOFT, LINE, PAPER, ACCENT = "#1b2331", "#5b6479", "#d9dde7", "#fffffe", "#2a5bd8"
"""Colours of text, secondary text, grid lines, background and emphasis. Each is unique, so that the page can
replace it."""
TIERS = {
    "healthy": "#cfe8de",
    "cautionary": "#f6e3a2",
    "critical": "#f0b184",
    "catastrophic": "#d98a95",
    "ungraded": "#d9dde8",
}
"""Colours of the tiers. Colour is never the only cue: a letter or a position always accompanies it."""
SHADED = {
    "at most cautionary": "healthy", "cautionary to critical": "cautionary", "at least cautionary": "cautionary",
    "at least critical": "critical", "undecided": "ungraded",
}  # fmt: skip
"""The tier whose colour a range of tiers has: the best one, which the interval supports."""
HEAT = ("#fefeff", "#e4ebfb", "#c9d6f6", "#aec2f1", "#93adec", "#7899e7")
"""Shades of a heat map with a quantised scale, from low to high. INK is legible on all of them; cells also
show the number."""
PAINTS: Mapping[str, str] = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    LINE: "var(--line)",
    PAPER: "var(--paper)",
    ACCENT: "var(--link)",
    **{TIERS[mark]: f"var(--{letter})" for mark, letter in zip(TIERS, "abcdu", strict=True)},
    **{shade: f"color-mix(in srgb,var(--link) {10 * i}%,var(--paper))" for i, shade in enumerate(HEAT)},
}
"""CSS colours that replace the colours of a figure on the page, so that the figure follows the light or dark
theme."""


def shaded_as(mark: str) -> str:
    """Return the tier in whose colour a mark is shown in a heat map, on pages and in figures alike."""
    return SHADED.get(mark, mark)


def tier_colour(mark: str | None) -> str:
    """Return the colour of a mark, or PAPER without a mark."""
    return TIERS.get(shaded_as(mark or ""), PAPER)


COLUMNS = 3
"""Number of panels per row."""
WIDTH, ROW = 240, 15
"""Width of a panel, and height of a row in it."""
FORMATS = (".png", ".svg", ".pdf")
"""File formats of figures."""
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
"""Maximum number of cells of a heat map that a page offers as SVG: larger ones take long to draw, and the
page has them as a table."""
MOST_FIGURES = 64
"""Maximum number of specifications kept by `figure`, and of drawings kept by `as_svg`."""
_FIGURES: dict[str, str] = {}
_DRAWINGS: dict[str, str] = {}
_DROPPED = ("class", "role", "pointer-events", "xmlns", "version")


def paint_rules() -> Markup:
    """Return the CSS rules that replace the colours of figures with those of the page."""
    from markupsafe import Markup

    rules = (
        f'.figure [{kind}="{colour}"]{{{kind}:{paint}}}'
        for colour, paint in PAINTS.items()
        for kind in ("fill", "stroke")
    )
    return Markup("".join(rules))  # noqa: S704 - contains only colours of this module


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
    root.attrib |= {
        "role": "img",
        "aria-label": printable(in_words(block)),
        "style": f"max-width:{width}px;min-width:min({width}px,720px)",
    }
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
    """Return the format, the file name and the content (a data URL) of each file as which a page offers the chart.

    Parameters
    ----------
    drawn
        Whether to offer the chart itself as SVG, besides its numbers as CSV.
    """
    files = [
        (
            "CSV",
            "text/csv",
            csv_table(numbers_of(block).lazy()).collect().write_csv(quote_style="non_numeric"),
        )
    ]
    if drawn and not (isinstance(block, Heatmap) and len(block.rows) * len(block.columns) > MOST_CELLS):
        files.append(("SVG", "image/svg+xml", as_svg(block)))
    name = file_name(block.title)
    return [
        (kind, f"{name}.{kind.lower()}", f"data:{media};base64,{base64.b64encode(content.encode()).decode()}")
        for kind, media, content in files
    ]


def _tidy(root: ET.Element, name: str) -> None:
    """Remove parts that a page does not need (classes, empty frames, namespaces), and prefix ids with the name to make them unique."""
    for element in list(root.iter()):
        element.tag = element.tag.rpartition("}")[2]
        for key, value in element.items():
            if key in _DROPPED or key.startswith("aria-") or (key == "opacity" and value == "1"):
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
    for block in charts_in(blocks):
        spec, name = vega_lite(block, "white"), file_name(block.title)
        name += f"-{len(paths) // len(FORMATS)}" if any(path.stem == name for path in paths) else ""
        contents = (
            vl_convert.vegalite_to_png(spec, scale=2),
            as_svg(block).encode(),
            vl_convert.vegalite_to_pdf(spec),
        )
        for suffix, content in zip(FORMATS, contents, strict=True):
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
        if name not in labels:
            short = shortened(name, 44)
            labels[name] = (
                short if short not in labels.values() else f"{shortened(name, 39)} ({len(labels) + 1})"
            )
    return labels


def vega_lite(block: Chart, background: str, columns: int = COLUMNS) -> dict[str, Any]:
    """Return the Vega-Lite specification of a chart with its data.

    `columns` is the number of panels per row.
    """
    spec: dict[str, Any] = chart_of(block, columns).to_dict(
        validate=False
    )  # validation takes as long as drawing, and is done in the tests
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


def chart_of(block: Chart, columns: int = COLUMNS) -> alt.TopLevelMixin:
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
    """Draw one panel per metric: the estimate and interval of each row, over the tiers or the value that means no bias."""
    import altair as alt

    labels = _names(row.label for row in block.rows)
    panels = [list(rows) for _, rows in itertools.groupby(block.rows, key=lambda row: row.name)]
    charts = [_panel(panel, labels, named=i % columns == 0) for i, panel in enumerate(panels)]
    return alt.concat(*charts, columns=columns, spacing={"row": 18, "column": 16})


def _panel(rows: Sequence[IntervalRow], labels: Mapping[str, str], *, named: bool) -> Any:
    import altair as alt

    edges, edge_labels, marks = scale_of(rows)
    axis = alt.Axis(
        values=list(range(len(edges))),
        labelExpr="[" + ",".join(f"'{label}'" for label in edge_labels) + "][datum.value]",
        grid=False,
        title=None,
        labelFontSize=8,
        labelColor=SOFT,
        labelOverlap=False,
    )
    across = functools.partial(alt.X, scale=alt.Scale(domain=[0, len(edges) - 1], nice=False), axis=axis)
    data = DataFrame(
        {
            "label": [labels[row.label] for row in rows],
            "colour": [SOFT if row.background else INK for row in rows],
            **{
                name: [None if (value := getattr(row, name)) is None else place(value, edges) for row in rows]
                for name in ("estimate", "low", "high", "null_value")
            },
        }
    )
    down = alt.Y(
        "label:N",
        sort=None,
        scale=alt.Scale(domain=list(dict.fromkeys(labels.values()))),
        title=None,
        axis=alt.Axis(
            ticks=False, domain=False, labels=named, labelOverlap=False, labelFlush=False, labelPadding=8
        ),
    )
    colour = alt.Color("colour:N", scale=None)
    base = alt.Chart(data).encode(y=down, color=colour)
    layers = [
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=2)
        .encode(x=across("low:Q"), x2="high:Q"),
        base.mark_point(size=36).encode(x=across("estimate:Q")),
    ]
    if marks:
        bands = DataFrame(
            {"from": range(len(marks)), "to": range(1, len(edges)), "colour": [TIERS[mark] for mark in marks]}
        )
        drawn = alt.Chart(bands).mark_rect().encode(x=across("from:Q"), x2="to:Q", color=colour)
        layers.insert(0, drawn)
    elif data["null_value"].count():
        line = alt.Chart(data.head(1)).mark_rule(strokeDash=[4, 3], color=ACCENT)
        layers.insert(0, line.encode(x=across("null_value:Q")))
    height = ROW * max(len(set(labels.values())), 2)
    return alt.layer(*layers).properties(
        width=WIDTH, height=height, title=alt.TitleParams(shortened(rows[0].name, 60), fontSize=11)
    )


def _long(block: Bars | Dots) -> DataFrame:
    labels, series = _names(block.labels), _names(block.values)
    rows = [
        (labels[label], series[name], value)
        for name, values in block.values.items()
        for label, value in zip(block.labels, values, strict=True)
    ]
    return DataFrame(
        rows, schema={"label": String, "series": String, "value": Float64}, orient="row"
    ).drop_nulls("value")


def _bars(block: Bars) -> alt.TopLevelMixin:
    import altair as alt

    chart = (
        alt.Chart(_long(block))
        .mark_bar(color=ACCENT)
        .encode(x=alt.X("value:Q", title=None), y=alt.Y("series:N", sort=None, title=None))
    )
    facets: alt.TopLevelMixin = chart.properties(width=2 * WIDTH).facet(
        row=alt.Row("label:N", sort=None, title=None, header=alt.Header(labelAngle=0, labelAlign="left"))
    )
    return facets


def _dots(block: Dots) -> alt.TopLevelMixin:
    import altair as alt

    left, right = (shortened(end, 30) for end in block.ends)
    across = alt.X("value:Q", scale=alt.Scale(domain=list(block.span)), title=f"← {left}    {right} →")
    down = alt.Y("label:N", sort=None, title=None)
    shape = alt.Shape("series:N", title=None, legend=alt.Legend(orient="bottom", columns=2, labelLimit=300))
    rule = alt.Chart(DataFrame({"middle": [sum(block.span) / 2]})).mark_rule(strokeDash=[4, 3], color=ACCENT)
    points = alt.Chart(_long(block)).mark_point(size=60, color=INK).encode(x=across, y=down, shape=shape)
    return alt.layer(
        rule.encode(x=alt.X("middle:Q", scale=alt.Scale(domain=list(block.span)))), points
    ).properties(width=2 * WIDTH)


def _pairs(block: Pairs) -> alt.TopLevelMixin:
    """Draw a line from the share of the others (hollow) to that of the group (filled) for each row."""
    import altair as alt

    names = [f"{row.label} ({row.group})" for row in block.rows]
    labels = _names(names)
    data = DataFrame(
        {
            "label": [labels[name] for name in names],
            "share": [row.share for row in block.rows],
            "other": [row.other_share for row in block.rows],
        }
    )
    base = alt.Chart(data).encode(y=alt.Y("label:N", sort=None, title=None))
    across = alt.X("share:Q", title="share of descriptions (hollow: others)", axis=alt.Axis(format="%"))
    line = base.mark_rule(color=ACCENT).encode(x=across, x2="other:Q")
    group = base.mark_point(size=60, color=ACCENT).encode(x=across)
    others = base.mark_point(
        size=60, filled=True, stroke=ACCENT, fill=PAPER, strokeWidth=2, opacity=1
    ).encode(x="other:Q")
    return alt.layer(line, group, others).properties(width=2 * WIDTH)


def _heatmap(block: Heatmap) -> alt.TopLevelMixin:
    import altair as alt

    rows, columns = _names(block.rows), _names(block.columns)
    marks = block.marks or [[None] * len(columns)] * len(rows)
    cells = [
        (rows[row], columns[column], value, written(value, block.kind), tier_colour(mark))
        for row, values, own in zip(block.rows, block.values, marks, strict=True)
        for column, value, mark in zip(block.columns, values, own, strict=True)
    ]
    schema = {"row": String, "column": String, "value": Float64, "text": String, "colour": String}
    base = alt.Chart(DataFrame(cells, schema=schema, orient="row")).encode(
        x=alt.X("column:N", sort=None, title=None, axis=alt.Axis(orient="top", labelAngle=-45)),
        y=alt.Y("row:N", sort=None, title=None),
    )
    known = [value for values in block.values for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if block.centre is not None:
        reach = max(abs(low - block.centre), abs(high - block.centre)) or 1.0
        low, high = block.centre - reach, block.centre + reach
    scale = alt.Scale(domain=[low, high], range=list(HEAT))
    colour = (
        alt.Color("colour:N", scale=None)
        if block.marks is not None
        else alt.Color("value:Q", scale=scale, legend=None)
    )
    return alt.layer(
        base.mark_rect().encode(color=colour), base.mark_text(fontSize=9, color=INK).encode(text="text:N")
    )
