"""Specifications of figures in Vega-Lite: one width, texts that wrap, round ticks and one colour scale.

A figure consists of a title, a subtitle, a legend and one or more panels, from top to bottom. All lengths are
in the unit of the font size: points in a paper, pixels on a page.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from polars import DataFrame, Float64, String

from tiltmeter._quantities import quantity
from tiltmeter._sanitising import printable, shortened
from tiltmeter.blocks import (
    MARKS,
    Bars,
    Chart,
    Dots,
    Heatmap,
    IntervalRow,
    Intervals,
    Pairs,
)
from tiltmeter.reports._text_widths import text_width, wrapped
from tiltmeter.reports._words import MARK_LETTERS, level_words, written

if TYPE_CHECKING:
    import altair as alt

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
SIDE_BY_SIDE = 54
"""Smallest width in which two panels are side by side, in font sizes."""
MOST_BESIDE = 6
"""Largest number of rows of panels that are side by side."""
LABELS_AT_MOST = 0.42
"""Largest part of a panel that is used by the names of its rows."""
PER_CENT: Mapping[str, str] = {"share": "%", "difference": "percentage points"}
"""Units that are shown in percent, and their names."""
AXIS_TITLES: Mapping[str, str] = {
    **PER_CENT,
    "ratio": "ratio",
    "quotient": "ratio of means",
    "count": "number",
    "p": "p",
}
"""Titles of axes by unit."""


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


def figure_of(block: Chart, size: Size = TWO_COLUMNS, *, titled: bool = True) -> alt.TopLevelMixin:
    """Return a chart as a figure of a given size, without its configuration.

    Parameters
    ----------
    titled
        Whether it has a title and subtitle: the finding in words, and what the numbers are.
    """
    import altair as alt

    inner = Size(size.width - 2 * PADDING, size.font)
    match block:
        case Intervals():
            parts = _intervals(block, inner)
        case Bars():
            parts = _bars(block, inner)
        case Heatmap():
            parts = _heatmap(block, inner)
        case Dots():
            parts = _dots(block, inner)
        case Pairs():
            parts = _pairs(block, inner)
    figure = alt.vconcat(*parts, spacing=inner.font)
    return figure.properties(title=_title(block, inner)) if titled else figure


def _title(block: Chart, size: Size) -> Any:
    import altair as alt

    title_size = 1.2 * size.font
    subtitle = block.about or _about(block)
    return alt.TitleParams(
        _lines(block.finding or _finding(block), size.width, title_size, bold=True),
        subtitle=_lines(subtitle, size.width, size.font),
        fontSize=title_size,
        lineHeight=1.25 * title_size,
        subtitleLineHeight=1.3 * size.font,
        subtitlePadding=3,
        anchor="start",
        frame="bounds",
        offset=size.font,
    )


def _about(block: Chart) -> str:
    """Return what the marks of a chart show, if its block does not say it."""
    match block:
        case Intervals():
            return f"{block.title}: value (dot) and {level_words([block.level])} (line)."
        case Heatmap():
            return f"{block.title}. Colour: the value of each cell."
        case _:
            return f"{block.title}." if block.finding else block.note


def _finding(block: Chart) -> str:
    """Return the smallest and the largest value of a chart in words, for a block without a finding."""
    if isinstance(block, Intervals):
        cells = [(row.estimate, row.named, quantity(row.estimate, unit=row.unit)) for row in block.rows]
        units = {row.unit for row in block.rows}
    elif isinstance(block, Heatmap):
        cells = [
            (value, f"{row}, {column}", written(value, block.kind))
            for row, values in zip(block.rows, block.values, strict=True)
            for column, value in zip(block.columns, values, strict=True)
        ]
        units = set()
    else:
        return block.title
    known = [(value, name, text) for value, name, text in cells if value is not None]
    if not known or len(units) > 1:
        return block.title
    _, name_of_least, least = min(known)
    _, name_of_most, most = max(known)
    if least == most:
        return block.title
    return f"{block.title}: from {least} ({name_of_least}) to {most} ({name_of_most})"


def _lines(text: str, width: float, font: float, *, bold: bool = False) -> list[str]:
    """Return a text from outside as lines of a figure."""
    return wrapped(printable(text, one_line=True), width, font, bold=bold)


# -- parts that figures share --------------------------------------------------------------------------------


class Key(NamedTuple):
    """An entry of a legend: a symbol (`line`, `dash` or one of SYMBOLS), its colour, and words."""

    symbol: str
    colour: str
    words: str
    filled: bool = True


def _legend(keys: Sequence[Key], size: Size, labels: Labels) -> list[Any]:
    """Return a legend as a chart of its own, in as many lines as it needs; no chart without entries.

    It begins at the left end of the row names `labels`, since charts below each other are aligned by their
    plots.
    """
    import altair as alt

    if not keys:
        return []
    font = size.font
    symbol_width = 1.6 * font
    rows = []
    start: float = -labels.extent(font)
    x = start
    line = 0
    for key in keys:
        words = shortened(key.words, 120)
        width = symbol_width + text_width(words, font) + 1.6 * font
        if x > start and x - start + width > size.width + 1.6 * font:
            x = start
            line += 1
        y = (line + 0.5) * 1.5 * font
        rows.append((key.symbol, key.colour, words, x, x + font, x + symbol_width, y, key.filled))
        x += width
    names = ["symbol", "colour", "words", "from", "to", "text", "y", "filled"]
    table = DataFrame(rows, schema=names, orient="row")
    base = alt.Chart(table).encode(y=alt.Y("y:Q", scale=None, axis=None))
    colour = alt.Color("colour:N", scale=None)
    at_middle = alt.X("middle:Q", scale=None, axis=None)
    middle = base.transform_calculate(middle="(datum.from + datum.to) / 2")
    lines = base.encode(x=alt.X("from:Q", scale=None, axis=None), x2="to:Q", color=colour)
    layers: list[Any] = [
        base.mark_text(align="left", baseline="middle").encode(
            x=alt.X("text:Q", scale=None, axis=None), text="words:N"
        ),
    ]
    symbols = {key.symbol for key in keys}
    if "line" in symbols:
        layers.append(lines.transform_filter("datum.symbol == 'line'").mark_rule(strokeWidth=0.2 * font))
    if "dash" in symbols:
        dashes = lines.transform_filter("datum.symbol == 'dash'")
        layers.append(dashes.mark_rule(strokeDash=[3, 2], strokeWidth=1))
    for symbol in sorted(symbols - {"line", "dash"}):
        of_symbol = middle.transform_filter(f"datum.symbol == '{symbol}'")
        area = (1.1 if symbol == "square" else 0.8) * font**2
        for filled in sorted({key.filled for key in keys if key.symbol == symbol}):
            points = of_symbol.transform_filter(f"datum.filled == {str(filled).lower()}")
            mark = points.mark_point(shape=symbol, size=area, filled=True, opacity=1)
            if filled:
                edge = alt.value(LINE if symbol == "square" else "transparent")
                thin = alt.value(0.5)
                layers.append(mark.encode(x=at_middle, fill=colour, stroke=edge, strokeWidth=thin))
            else:
                hollow = points.mark_point(shape=symbol, size=area, filled=True, opacity=1, strokeWidth=1.5)
                layers.append(hollow.encode(x=at_middle, stroke=colour, fill=alt.value(PAPER)))
    plot_width = labels.plot_width(size)
    return [alt.layer(*layers).properties(width=plot_width, height=(line + 1) * 1.5 * font)]


class Labels(NamedTuple):
    """The wrapped names of rows, unique, with the width that they need and the largest number of lines."""

    names: Mapping[str, str]
    width: float
    lines: int

    @classmethod
    def of(cls, names: Iterable[str], most: float, font: float) -> Labels:
        """Wrap names to the width `most`."""
        labels: dict[str, str] = {}
        for name in dict.fromkeys(names):
            label = "\n".join(wrapped(shortened(name, 400), most, font))
            if label in labels.values():
                label += f"\n({len(labels) + 1})"
            labels[name] = label
        lines = [line for label in labels.values() for line in label.split("\n")]
        width = max((text_width(line, font) for line in lines), default=0.0)
        return cls(labels, width, max((label.count("\n") + 1 for label in labels.values()), default=1))

    def row_height(self, font: float) -> float:
        """Return the height of a row, in which each name has space."""
        return max(1.8 * font, (1.2 * self.lines + 0.6) * font)

    def extent(self, font: float) -> float:
        """Return the width of the axis of rows."""
        return self.width + 0.6 * font

    def plot_width(self, size: Size) -> float:
        """Return the width that remains for a plot beside the names."""
        return size.width - self.extent(size.font) - 0.4 * size.font


def _down(labels: Labels, font: float, field: str = "label", **more: Any) -> Any:
    """Return the vertical axis of named rows; it is as wide as the names."""
    import altair as alt

    width = labels.extent(font)
    axis = alt.Axis(
        ticks=False,
        domain=False,
        labelExpr="split(datum.label, '\\n')",
        labelLineHeight=1.2 * font,
        labelOffset=alt.expr(f"-{0.6 * font} * (length(split(datum.label, '\\n')) - 1)"),
        labelOverlap=False,
        labelPadding=0.5 * font,
        minExtent=width,
        maxExtent=width,
    )
    scale = alt.Scale(domain=list(labels.names.values()))
    return alt.Y(f"{field}:N", sort=None, title=None, axis=axis, scale=scale, **more)


LIMITS = (-100.0, -1.0, 0.0, 1.0, 100.0)
"""Ends of a scale that need no margin, because most units end there."""
MOST_STEPS = 7
"""Largest number of steps of a scale."""


class Ticks(NamedTuple):
    """Round numbers at equal distances; the scale reaches from the first to the last."""

    values: list[float]

    @property
    def domain(self) -> list[float]:
        """The ends of the scale."""
        return [self.values[0], self.values[-1]]

    @classmethod
    def of(cls, low: float, high: float, width: float, font: float) -> Ticks:
        """Return the smallest steps that cover the range and whose labels have space in a width."""
        if not high > low:
            low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
        power = 10.0 ** math.floor(math.log10((high - low) / MOST_STEPS))
        ticks = cls([low, high])
        for factor in (1, 2, 5, 10, 20, 50, 100):
            step = factor * power
            first = math.floor(low / step + 1e-9)
            last = math.ceil(high / step - 1e-9)
            ticks = cls([round(number * step, 12) for number in range(first, last + 1)])
            widest = max(text_width(f"{value:g}", font) for value in ticks.values)
            if last - first <= MOST_STEPS and (last - first + 1) * (widest + font) <= width:
                break
        return ticks


def _ticks(values: Iterable[float | None], width: float, font: float) -> Ticks:
    """Return the ticks of a scale that contains the values, as many as fit into the width."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    # An interval that ends at the edge looks cut, unless no value can lie beyond.
    margin = (high - low) / 50
    low -= 0 if low in LIMITS else margin
    high += 0 if high in LIMITS else margin
    return Ticks.of(low, high, width, font)


def _across(ticks: Ticks, title: str | list[str], *, grid: bool = True) -> functools.partial[Any]:
    """Return what makes the horizontal channel of a field: one scale, and an axis with a title."""
    import altair as alt

    axis = alt.Axis(
        values=ticks.values,
        title=title,
        grid=grid,
        labelFlush=True,
        labelOverlap=False,
        labelExpr="replace(datum.label, '-', '−')",
    )
    return functools.partial(alt.X, scale=alt.Scale(domain=ticks.domain, nice=False, zero=False), axis=axis)


def in_unit(value: float | None, unit: str) -> float | None:
    """Return a value as it is shown: shares and their differences in percent."""
    if value is None or not math.isfinite(value):
        return None
    return 100 * value if unit in PER_CENT else value


# -- intervals -----------------------------------------------------------------------------------------------


def _intervals(block: Intervals, size: Size) -> list[Any]:
    """Draw one panel per metric with the estimate and interval of each row.

    Panels of the same unit have the same scale, on which equal distances are equal differences. The
    background shows the tiers, and a line the value that means "no bias".
    """
    import altair as alt

    panels = [list(rows) for _, rows in itertools.groupby(block.rows, key=lambda row: row.name)]
    gap = 2 * size.font
    is_low = max(map(len, panels), default=0) <= MOST_BESIDE
    is_wide = len(panels) > 1 and is_low and size.width >= SIDE_BY_SIDE * size.font
    per_row = 2 if is_wide else 1
    width = (size.width - gap * (per_row - 1)) / per_row
    panel_size = Size(width, size.font)
    labels = Labels.of((row.label for row in block.rows), LABELS_AT_MOST * width, size.font)
    plot_width = labels.plot_width(Size(width, size.font))
    ticks = {}
    for unit in dict.fromkeys(row.unit for row in block.rows):
        of_unit = [row for row in block.rows if row.unit == unit]
        ticks[unit] = _ticks(shown_values(of_unit), plot_width, size.font)
    charts = [_panel(rows, labels, ticks[rows[0].unit], plot_width, panel_size, block) for rows in panels]
    figure = alt.concat(
        *charts, columns=per_row, spacing={"row": 1.5 * size.font, "column": gap}, align="none"
    )
    return [*_legend(_keys(block), size, labels), figure]


def shown_values(rows: Sequence[IntervalRow]) -> list[float | None]:
    """Return the values that a scale must contain, in the unit in which they are shown."""
    values = [
        in_unit(value, row.unit)
        for row in rows
        for value in (row.low, row.high, row.estimate, row.null_value)
    ]
    for row in rows:
        if row.bands:
            values += [in_unit(value, row.unit) for value in _healthiest(row)]
    return values


def _healthiest(row: IntervalRow) -> list[float]:
    """Return the ends of the healthiest tier that a scale shows.

    A tier that reaches far to the side of no bias without tiers is shown as far as on the other side.
    """
    healthiest = min((band for band in row.bands), key=lambda band: MARKS.index(band.mark))
    if row.null_value is None:
        return [healthiest.low, healthiest.high]
    reach = healthiest.high - row.null_value
    return [max(healthiest.low, row.null_value - reach), healthiest.high]


def _keys(block: Intervals) -> list[Key]:
    """Return the legend of a chart of intervals."""
    tiers = {band.mark for row in block.rows for band in row.bands}
    keys = [Key("square", TIERS[mark], f"{MARK_LETTERS[mark]} {mark}") for mark in MARKS if mark in tiers]
    if any(row.null_value is not None for row in block.rows):
        keys.append(Key("dash", ACCENT, block.null_words))
    if any(row.background for row in block.rows):
        keys.append(Key("circle", SOFT, "published elsewhere"))
    return keys


def _panel(
    rows: Sequence[IntervalRow], labels: Labels, ticks: Ticks, plot_width: float, size: Size, block: Intervals
) -> Any:
    """Draw the rows of one metric."""
    import altair as alt

    font = size.font
    unit = rows[0].unit
    names = {row.label: labels.names[row.label] for row in rows}
    of_panel = Labels(names, labels.width, labels.lines)
    columns: dict[str, list[Any]] = {
        "label": [names[row.label] for row in rows],
        "colour": [SOFT if row.background else INK for row in rows],
    }
    for name in ("estimate", "low", "high", "null_value"):
        columns[name] = [in_unit(getattr(row, name), unit) for row in rows]
    schema = {"estimate": Float64, "low": Float64, "high": Float64, "null_value": Float64}
    positions = DataFrame(columns, schema_overrides=schema)
    height = of_panel.row_height(font) * len(names)
    across = _across(ticks, block.axis or AXIS_TITLES.get(unit, "value"), grid=not rows[0].bands)
    base = alt.Chart(positions).encode(y=_down(of_panel, font), color=alt.Color("colour:N", scale=None))
    has_interval = "isValid(datum.low) && isValid(datum.high)"
    lines = base.transform_filter(has_interval).mark_rule(strokeWidth=0.2 * font)
    points = base.transform_filter("isValid(datum.estimate)").mark_point(size=0.5 * font**2)
    layers = [
        lines.encode(x=across("low:Q"), x2="high:Q"),
        points.encode(x=across("estimate:Q")),
    ]
    nulls = positions["null_value"].drop_nulls()
    if len(nulls):
        null = alt.Chart(DataFrame({"null_value": [nulls[0]]}))
        line = null.mark_rule(strokeDash=[3, 2], strokeWidth=1, color=ACCENT)
        layers.insert(0, line.encode(x=across("null_value:Q")))
    layers = [*_tiers(rows, ticks, across, plot_width, font), *layers]
    panel = alt.layer(*layers).properties(width=plot_width, height=height)
    if not rows[0].name:
        return panel
    title = alt.TitleParams(
        _lines(rows[0].name, size.width, font, bold=True),
        lineHeight=1.2 * font,
        frame="bounds",
        offset=0.5 * font,
    )
    return panel.properties(title=title)


def _tiers(
    rows: Sequence[IntervalRow], ticks: Ticks, across: Any, plot_width: float, font: float
) -> list[Any]:
    """Draw the tiers of a metric within its scale, with their letters above them."""
    import altair as alt

    tiers = next((row.bands for row in rows if row.bands), ())
    first, last = ticks.domain
    shown = []
    for band in tiers:
        low = max(in_unit(band.low, rows[0].unit) or 0.0, first)
        high = min(in_unit(band.high, rows[0].unit) or 0.0, last)
        if high > low:
            is_wide = (high - low) / (last - first) * plot_width > 0.75 * font
            letter = MARK_LETTERS[band.mark] if is_wide else ""
            shown.append((low, high, (low + high) / 2, TIERS[band.mark], letter))
    if not shown:
        return []
    table = DataFrame(shown, schema=["from", "to", "middle", "colour", "letter"], orient="row")
    base = alt.Chart(table)
    areas = base.mark_rect().encode(x=across("from:Q"), x2="to:Q", color=alt.Color("colour:N", scale=None))
    letters = base.mark_text(baseline="bottom", color=SOFT, clip=False)
    return [areas, letters.encode(x=across("middle:Q"), y=alt.value(-2), text="letter:N")]


# -- bars, dots and pairs ------------------------------------------------------------------------------------


def _long(block: Bars | Dots, labels: Labels) -> DataFrame:
    """Return the values of a chart, one row per label and series."""
    is_in_percent = isinstance(block, Dots) or block.kind == "percent"
    factor = 100 if is_in_percent else 1
    rows = []
    for series, (name, values) in enumerate(block.values.items()):
        ends = block.intervals.get(name, ()) if isinstance(block, Dots) else ()
        for i, (label, value) in enumerate(zip(block.labels, values, strict=True)):
            if value is None:
                continue
            low, high = (ends[i] if i < len(ends) else None) or (None, None)
            numbers = [None if number is None else factor * number for number in (value, low, high)]
            rows.append((labels.names[label], str(series), *numbers))
    schema = {"label": String, "series": String, "value": Float64, "low": Float64, "high": Float64}
    return DataFrame(rows, schema=schema, orient="row")


def _series_keys(names: Sequence[str], symbols: Sequence[str]) -> list[Key]:
    return [
        Key(symbols[i % len(symbols)], SERIES[i % len(SERIES)], shortened(name, 60))
        for i, name in enumerate(names)
    ]


def _bars(block: Bars, size: Size) -> list[Any]:
    import altair as alt

    font = size.font
    labels = Labels.of(block.labels, LABELS_AT_MOST * size.width, font)
    table = _long(block, labels)
    plot_width = labels.plot_width(size)
    ticks = _ticks([0.0, *table["value"]], plot_width, font)
    unit = "%" if block.kind == "percent" else "value"
    across = _across(ticks, block.axis or unit)
    keys = _series_keys(list(block.values), ["square"]) if len(block.values) > 1 else []
    names = [str(i) for i in range(len(block.values))]
    colours = [SERIES[i % len(SERIES)] for i in range(len(names))] if keys else [ACCENT]
    colour = alt.Color("series:N", scale=alt.Scale(domain=names, range=colours), legend=None)
    offset = alt.YOffset("series:N", scale=alt.Scale(domain=names))
    bars = (
        alt.Chart(table)
        .mark_bar()
        .encode(y=_down(labels, font), yOffset=offset, x=across("value:Q"), x2=alt.X2Datum(0), color=colour)
    )
    height = max(labels.row_height(font), (len(names) + 0.8) * font) * len(labels.names)
    return [*_legend(keys, size, labels), bars.properties(width=plot_width, height=height)]


def _dots(block: Dots, size: Size) -> list[Any]:
    """Draw the value and interval of each series, on a scale in points that contains the neutral value."""
    import altair as alt

    font = size.font
    left_end, right_end = block.ends
    labels = Labels.of(block.labels, LABELS_AT_MOST * size.width, font)
    table = _long(block, labels)
    plot_width = labels.plot_width(size)
    middle = 100 * sum(block.span) / 2
    ticks = _ticks([middle, *table["value"], *table["low"], *table["high"]], plot_width, font)
    axis = _lines(f"← {left_end} · {block.axis} · {right_end} →", plot_width, font)
    across = _across(ticks, axis)
    names = [str(i) for i in range(len(block.values))]
    colours = [SERIES[i % len(SERIES)] for i in range(len(names))]
    symbols = [SYMBOLS[i % len(SYMBOLS)] for i in range(len(names))]
    base = alt.Chart(table).encode(
        y=_down(labels, font),
        yOffset=alt.YOffset("series:N", scale=alt.Scale(domain=names)),
        color=alt.Color("series:N", scale=alt.Scale(domain=names, range=colours), legend=None),
    )
    shape = alt.Shape("series:N", scale=alt.Scale(domain=names, range=symbols), legend=None)
    whiskers = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=0.15 * font)
    line = alt.Chart(DataFrame({"middle": [middle]})).mark_rule(strokeDash=[3, 2], color=ACCENT)
    layers = [
        line.encode(x=across("middle:Q")),
        whiskers.encode(x=across("low:Q"), x2="high:Q"),
        base.mark_point(size=0.7 * font**2).encode(x=across("value:Q"), shape=shape),
    ]
    keys = [*_series_keys(list(block.values), SYMBOLS), Key("dash", ACCENT, "no bias")]
    height = max(labels.row_height(font), (0.9 * len(names) + 0.9) * font) * len(labels.names)
    return [*_legend(keys, size, labels), alt.layer(*layers).properties(width=plot_width, height=height)]


def _pairs(block: Pairs, size: Size) -> list[Any]:
    """Draw a line from the share of the others (hollow) to that of the group (filled) for each row."""
    import altair as alt

    font = size.font
    names = [f"{row.label} ({row.group})" for row in block.rows]
    labels = Labels.of(names, LABELS_AT_MOST * size.width, font)
    plot_width = labels.plot_width(size)
    shares = DataFrame(
        {
            "label": [labels.names[name] for name in names],
            "share": [100 * row.share for row in block.rows],
            "other": [100 * row.other_share for row in block.rows],
        }
    )
    ticks = _ticks([0.0, *shares["share"], *shares["other"]], plot_width, font)
    across = _across(ticks, "descriptions (%)")
    base = alt.Chart(shares).encode(y=_down(labels, font))
    area = 0.7 * font**2
    hollow = base.mark_point(size=area, filled=True, stroke=ACCENT, fill=PAPER, strokeWidth=1.5, opacity=1)
    layers = [
        base.mark_rule(color=ACCENT).encode(x=across("share:Q"), x2="other:Q"),
        base.mark_point(size=area, color=ACCENT).encode(x=across("share:Q")),
        hollow.encode(x=across("other:Q")),
    ]
    compared_with = {row.others for row in block.rows}
    others = compared_with.pop() if len(compared_with) == 1 else "what it is compared with"
    keys = [Key("circle", ACCENT, "the group"), Key("circle", ACCENT, others, filled=False)]
    height = labels.row_height(font) * len(labels.names)
    return [*_legend(keys, size, labels), alt.layer(*layers).properties(width=plot_width, height=height)]


# -- heat maps -----------------------------------------------------------------------------------------------

MOST_OF_CELL = 9
"""Largest width of a cell, in font sizes."""


def _heatmap(block: Heatmap, size: Size) -> list[Any]:
    """Draw a table of coloured cells.

    Cells have their numbers if all fit, or else the letters of their marks, or else only colours.
    """
    import altair as alt

    font = size.font
    labels = Labels.of(block.rows, LABELS_AT_MOST * size.width, font)
    available = labels.plot_width(size)
    cell = min(available / max(len(block.columns), 1), MOST_OF_CELL * font)
    heads, angle = _heads(block.columns, cell, font)
    texts = _texts(block, cell - 0.6 * font, font)
    cells = _cells(block, labels, heads, texts)
    axis = alt.Axis(
        orient="top",
        labelAngle=angle,
        labelAlign="left" if angle else "center",
        labelBaseline="middle" if angle else "bottom",
        labelExpr="split(datum.label, '\\n')",
        labelLineHeight=1.2 * font,
        labelOverlap=False,
        ticks=False,
        domain=False,
    )
    scale = alt.Scale(domain=list(heads.names.values()))
    base = alt.Chart(cells).encode(
        x=alt.X("column:N", sort=None, title=None, axis=axis, scale=scale), y=_down(labels, font, "row")
    )
    colour = alt.Color("colour:N", scale=None)
    shades = base.mark_rect(stroke=PAPER, strokeWidth=1).encode(color=colour)
    numbers = base.mark_text(color=INK).encode(text="text:N")
    height = labels.row_height(font) * len(labels.names)
    chart = alt.layer(shades, numbers).properties(width=cell * len(heads.names), height=height)
    return [*_legend(_heat_keys(block), size, labels), chart]


def _heads(names: Sequence[str], cell: float, font: float) -> tuple[Labels, int]:
    """Return the names of columns and the angle at which they are written: upright if they are too wide."""
    words = [word for name in names for word in shortened(name, 400).split()]
    fits = all(text_width(word, font) <= cell - 0.4 * font for word in words)
    if fits:
        return Labels.of(names, cell - 0.4 * font, font), 0
    return Labels.of(names, 12 * font if cell > 2.6 * font else 40 * font, font), -90


def _texts(block: Heatmap, width: float, font: float) -> list[list[str]]:
    """Return the texts of the cells: with letter and number, number, letter, or none, as the width allows."""
    numbers = [[written(value, block.kind) for value in row] for row in block.values]
    if block.marks is None:
        candidates = [numbers]
    else:
        letters = [[MARK_LETTERS[mark] if mark else "" for mark in row] for row in block.marks]
        both = [
            [f"{letter} {number}".strip() for letter, number in zip(*rows, strict=True)]
            for rows in zip(letters, numbers, strict=True)
        ]
        candidates = [both, letters]
    for texts in candidates:
        if all(text_width(text, font) <= width for row in texts for text in row):
            return texts
    return [["" for _ in row] for row in numbers]


def _cells(block: Heatmap, labels: Labels, heads: Labels, texts: Sequence[Sequence[str]]) -> DataFrame:
    """Return the cells of a heat map, one row per cell."""
    marks = block.marks or [[None] * len(block.columns)] * len(block.rows)
    colours = _shades(block)
    cells = []
    for i, row in enumerate(block.rows):
        for j, column in enumerate(block.columns):
            colour = colours[i][j] if block.marks is None else tier_colour(marks[i][j])
            cells.append((labels.names[row], heads.names[column], texts[i][j], colour))
    return DataFrame(cells, schema=["row", "column", "text", "colour"], orient="row")


def _shades(block: Heatmap) -> list[list[str]]:
    """Return the colours of the values of a heat map."""
    low, high = _domain(block)

    def shade(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return PAPER
        if block.centre is not None and value < block.centre:
            part = (value - low) / (block.centre - low)
            return BELOW[min(int(part * len(BELOW)), len(BELOW) - 1)]
        start = low if block.centre is None else block.centre
        part = (value - start) / (high - start) if high > start else 0.0
        return HEAT[min(int(part * len(HEAT)), len(HEAT) - 1)]

    return [[shade(value) for value in row] for row in block.values]


def _heat_keys(block: Heatmap) -> list[Key]:
    """Return the legend of a heat map: the tiers, or the values at the ends of its scale."""
    if block.marks is not None:
        shown = {shaded_as(mark) for row in block.marks for mark in row if mark}
        keys = [Key("square", TIERS[mark], f"{MARK_LETTERS[mark]} {mark}") for mark in MARKS if mark in shown]
        return (
            [*keys, Key("square", TIERS["ungraded"], "? undecided, – ungraded")]
            if "ungraded" in shown
            else keys
        )
    low, high = _domain(block)
    if low == high:
        return []
    values = [value for row in block.values for value in row if value is not None]
    keys = []
    if block.centre is None:
        keys.append(Key("square", HEAT[0], written(low, block.kind)))
    else:
        if min(values, default=block.centre) < block.centre:
            keys.append(Key("square", BELOW[0], written(low, block.kind)))
        keys.append(Key("square", HEAT[0], written(block.centre, block.kind)))
    return [*keys, Key("square", HEAT[-1], written(high, block.kind))]


def _domain(block: Heatmap) -> tuple[float, float]:
    """Return the values at the ends of the colour scale of a heat map; shares and counts begin at 0."""
    values = [value for row in block.values for value in row if value is not None and math.isfinite(value)]
    low = min(values, default=0.0)
    high = max(values, default=1.0)
    if block.centre is None:
        return (min(low, 0.0) if block.kind in ("percent", "count") else low), high
    reach = max(abs(low - block.centre), abs(high - block.centre)) or 1.0
    return block.centre - reach, block.centre + reach
