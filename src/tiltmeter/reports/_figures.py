"""Specifications of figures in Vega-Lite: one width, texts that wrap, round ticks and one colour scale.

A figure consists of a title, a subtitle, a legend and one or more panels, from top to bottom. All lengths are
in the unit of the font size: points in a paper, pixels on a page.
"""

from __future__ import annotations

from typing import Any

from tiltmeter._quantities import quantity
from tiltmeter.blocks import Bars, Chart, Dots, Heatmap, Intervals, Pairs
from tiltmeter.reports._figure_parts import Specification, combined, text_lines
from tiltmeter.reports._figure_theme import PADDING, TWO_COLUMNS, Size
from tiltmeter.reports._heat_map_figures import heat_map
from tiltmeter.reports._interval_figures import intervals
from tiltmeter.reports._value_figures import bars, dots, pairs
from tiltmeter.reports._words import level_words, written


def figure_of(block: Chart, size: Size = TWO_COLUMNS, *, titled: bool = True) -> Specification:
    """Return a chart as a figure of a given size in Vega-Lite, without its configuration.

    Parameters
    ----------
    titled
        Whether it has a title and subtitle: the finding in words, and what the numbers are.
    """
    inner = Size(size.width - 2 * PADDING, size.font)
    match block:
        case Intervals():
            parts = intervals(block, inner)
        case Bars():
            parts = bars(block, inner)
        case Heatmap():
            parts = heat_map(block, inner)
        case Dots():
            parts = dots(block, inner)
        case Pairs():
            parts = pairs(block, inner)
    figure = combined("vconcat", parts, spacing=inner.font)
    return figure | {"title": _title(block, inner).to_dict(validate=False)} if titled else figure


def _title(block: Chart, size: Size) -> Any:
    import altair as alt

    title_size = 1.2 * size.font
    subtitle = block.about or _about(block)
    return alt.TitleParams(
        text_lines(block.finding or _finding(block), size.width, title_size, bold=True),
        subtitle=text_lines(subtitle, size.width, size.font),
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
            named = f"{block.title}: value" if block.finding else "Value"
            return f"{named} (dot) and {level_words([block.level])} (line)."
        case Heatmap():
            named = f"{block.title}. " if block.finding else ""
            return f"{named}Colour: the value of each cell."
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
    _, _, least = min(known)
    _, _, most = max(known)
    if least == most:
        return block.title
    ends = []
    for end in (least, most):
        names = [name for _, name, text in known if text == end]
        ends.append(f"{end} ({names[0]})" if len(names) == 1 else end)
    return f"{block.title}: from {ends[0]} to {ends[1]}"
