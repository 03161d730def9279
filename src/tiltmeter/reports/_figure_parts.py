"""Parts that figures share: names of rows, scales with round ticks, and legends."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from polars import DataFrame

from tiltmeter._sanitising import printable, shortened
from tiltmeter.reports._figure_theme import LINE, PAPER, Size
from tiltmeter.reports._text_widths import text_width, wrapped

LABELS_AT_MOST = 0.42
"""Largest part of a panel that is used by the names of its rows."""
BESIDE_LABELS = 0.9
"""Distance of the names of rows from a plot, in font sizes: that of a symbol at its left end, and a space."""
RIGHT_MARGIN = 0.9
"""Space to the right of a plot, in font sizes, for half the label of the last tick."""
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


def text_lines(text: str, width: float, font: float, *, bold: bool = False) -> list[str]:
    """Return a text from outside as lines of a figure."""
    return wrapped(printable(text, one_line=True), width, font, bold=bold)


def in_unit(value: float | None, unit: str) -> float | None:
    """Return a value as it is shown: shares and their differences in percent."""
    if value is None or not math.isfinite(value):
        return None
    return 100 * value if unit in PER_CENT else value


# -- charts of several parts

Specification = dict[str, Any]
"""A chart in Vega-Lite."""
_OF_WHOLE = ("$schema", "config", "datasets")
"""Keys of a specification that only a whole figure has."""


def specification(part: Any) -> Specification:
    """Return a chart of Altair, or a combined one, as a specification."""
    return part if isinstance(part, dict) else part.to_dict(validate=False)


def combined(how: str, parts: Iterable[Any], **properties: Any) -> Specification:
    """Return one chart of several: "layer", "concat" or "vconcat".

    Altair copies each part once for every chart that contains it, which took most of the time of a figure.
    """
    specifications = [specification(part) for part in parts]
    datasets: dict[str, Any] = {}
    for part in specifications:
        datasets |= part.get("datasets", {})
    members = [{key: value for key, value in part.items() if key not in _OF_WHOLE} for part in specifications]
    return {how: members, "datasets": datasets, **properties}


# -- names of rows


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
        return self.width + BESIDE_LABELS * font

    def plot_width(self, size: Size) -> float:
        """Return the width that remains for a plot beside the names."""
        return size.width - self.extent(size.font) - RIGHT_MARGIN * size.font


def row_axis(labels: Labels, font: float, field: str = "label", **more: Any) -> Any:
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
        labelPadding=(BESIDE_LABELS - 0.1) * font,
        minExtent=width,
        maxExtent=width,
    )
    scale = alt.Scale(domain=list(labels.names.values()))
    return alt.Y(f"{field}:N", sort=None, title=None, axis=axis, scale=scale, **more)


# -- scales

LIMITS = (-100.0, -1.0, 0.0, 1.0, 100.0)
"""Ends of most units: a scale does not reach beyond them, unless a value does."""
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


def ticks_of(values: Iterable[float | None], width: float, font: float) -> Ticks:
    """Return the ticks of a scale that contains the values, as many as fit into the width."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    # An interval that ends at the edge looks cut, unless no value can lie beyond.
    margin = (high - low) / 50
    limits_below = [limit for limit in LIMITS if limit <= low]
    limits_above = [limit for limit in LIMITS if limit >= high]
    low = max([low - margin, *limits_below])
    high = min([high + margin, *limits_above])
    return Ticks.of(low, high, width, font)


def value_axis(
    ticks: Ticks, title: str, plot_width: float, font: float, *, grid: bool = True
) -> functools.partial[Any]:
    """Return what makes the horizontal channel of a field: one scale, and an axis with a title that wraps.

    The label of each tick is centred below it; that of the last one ends there if it is too wide.
    """
    import altair as alt

    axis = alt.Axis(
        values=ticks.values,
        title=text_lines(title, plot_width, font),
        grid=grid,
        labelFlush=text_width(f"{ticks.values[-1]:g}", font) > 2 * RIGHT_MARGIN * font,
        labelOverlap=False,
        labelExpr="replace(datum.label, '-', '−')",
    )
    return functools.partial(alt.X, scale=alt.Scale(domain=ticks.domain, nice=False, zero=False), axis=axis)


# -- legends

LEGEND_LINE = 1.5
"""Height of a line of a legend, in font sizes."""
LINE_SYMBOLS = ("line", "dash")
"""Symbols of a legend that are lines; all others are points."""
NO_SYMBOL = ""


class Key(NamedTuple):
    """An entry of a legend: a symbol (one of LINE_SYMBOLS or of SYMBOLS), its colour, and words."""

    symbol: str
    colour: str
    words: str
    filled: bool = True


class PlacedKey(NamedTuple):
    """An entry of a legend with its position.

    That is the ends of its symbol (`start`, `end`), the left end of its words (`text`), and its height `y`.
    """

    symbol: str
    colour: str
    words: str
    filled: bool
    start: float
    end: float
    text: float
    y: float


def _placed(keys: Sequence[Key], size: Size, left_end: float) -> list[PlacedKey]:
    """Place the entries of a legend side by side from `left_end` on, in as many lines as they need.

    Words that are wider than a line wrap: each further line is an entry with NO_SYMBOL.
    """
    font = size.font
    symbol_width = 1.6 * font
    gap = 1.6 * font
    placed = []
    x = left_end
    line = 0
    for key in keys:
        lines = wrapped(shortened(key.words, 400), size.width - symbol_width, font)
        width = symbol_width + max(text_width(words, font) for words in lines) + gap
        if x > left_end and x - left_end + width > size.width + gap:
            x = left_end
            line += 1
        for number, words in enumerate(lines):
            symbol = key.symbol if number == 0 else NO_SYMBOL
            y = (line + number + 0.5) * LEGEND_LINE * font
            placed.append(PlacedKey(symbol, key.colour, words, key.filled, x, x + font, x + symbol_width, y))
        line += len(lines) - 1
        x += width
    return placed


def legend(keys: Sequence[Key], size: Size, labels: Labels) -> list[Any]:
    """Return a legend as a chart of its own, in as many lines as it needs; no chart without entries.

    It begins at the left end of the row names `labels`, since charts below each other are aligned by their
    plots.
    """
    import altair as alt

    if not keys:
        return []
    font = size.font
    placed = _placed(keys, size, -labels.extent(font))
    table = DataFrame(placed, schema=PlacedKey._fields, orient="row")
    base = alt.Chart(table).encode(y=alt.Y("y:Q", scale=None, axis=None))
    words = base.mark_text(align="left", baseline="middle")
    layers = [words.encode(x=alt.X("text:Q", scale=None, axis=None), text="words:N")]
    line_symbols = sorted({key.symbol for key in keys if key.symbol in LINE_SYMBOLS})
    point_symbols = sorted({(key.symbol, key.filled) for key in keys if key.symbol not in LINE_SYMBOLS})
    layers += [_line_symbol(base, symbol, font) for symbol in line_symbols]
    layers += [_point_symbol(base, symbol, font, filled=filled) for symbol, filled in point_symbols]
    height = (placed[-1].y / font + 0.5 * LEGEND_LINE) * font
    return [combined("layer", layers, width=labels.plot_width(size), height=height)]


def _line_symbol(base: Any, symbol: str, font: float) -> Any:
    """Draw the lines of a legend, solid or dashed."""
    import altair as alt

    of_symbol = base.transform_filter(f"datum.symbol == '{symbol}'")
    if symbol == "dash":
        mark = of_symbol.mark_rule(strokeDash=[3, 2], strokeWidth=1)
    else:
        mark = of_symbol.mark_rule(strokeWidth=0.2 * font)
    start = alt.X("start:Q", scale=None, axis=None)
    return mark.encode(x=start, x2="end:Q", color=alt.Color("colour:N", scale=None))


def _point_symbol(base: Any, symbol: str, font: float, *, filled: bool) -> Any:
    """Draw the points of a legend that have the same shape, filled or hollow."""
    import altair as alt

    with_middle = base.transform_calculate(middle="(datum.start + datum.end) / 2")
    of_symbol = with_middle.transform_filter(f"datum.symbol == '{symbol}'")
    points = of_symbol.transform_filter(f"datum.filled == {str(filled).lower()}")
    area = (1.1 if symbol == "square" else 0.8) * font**2
    middle = alt.X("middle:Q", scale=None, axis=None)
    colour = alt.Color("colour:N", scale=None)
    if not filled:
        hollow = points.mark_point(shape=symbol, size=area, filled=True, opacity=1, strokeWidth=1.5)
        return hollow.encode(x=middle, stroke=colour, fill=alt.value(PAPER))
    edge = LINE if symbol == "square" else "transparent"
    mark = points.mark_point(shape=symbol, size=area, filled=True, opacity=1)
    return mark.encode(x=middle, fill=colour, stroke=alt.value(edge), strokeWidth=alt.value(0.5))
