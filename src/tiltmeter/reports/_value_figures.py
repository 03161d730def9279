"""Figures of labelled values: bars, dots with intervals, and pairs of shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polars import DataFrame, Float64, String

from tiltmeter.blocks import Bars, Dots, Pairs
from tiltmeter.reports._figure_parts import (
    LABELS_AT_MOST,
    Key,
    Labels,
    combined,
    legend,
    row_axis,
    ticks_of,
    value_axis,
)
from tiltmeter.reports._figure_theme import ACCENT, PAPER, SERIES, SYMBOLS, Size


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
    return [Key(symbols[i % len(symbols)], SERIES[i % len(SERIES)], name) for i, name in enumerate(names)]


def bars(block: Bars, size: Size) -> list[Any]:
    import altair as alt

    font = size.font
    labels = Labels.of(block.labels, LABELS_AT_MOST * size.width, font)
    table = _long(block, labels)
    plot_width = labels.plot_width(size)
    ticks = ticks_of([0.0, *table["value"]], plot_width, font)
    unit = "%" if block.kind == "percent" else "value"
    across = value_axis(ticks, block.axis or unit, plot_width, font)
    keys = _series_keys(list(block.values), ["square"]) if len(block.values) > 1 else []
    names = [str(i) for i in range(len(block.values))]
    colours = [SERIES[i % len(SERIES)] for i in range(len(names))] if keys else [ACCENT]
    colour = alt.Color("series:N", scale=alt.Scale(domain=names, range=colours), legend=None)
    offset = alt.YOffset("series:N", scale=alt.Scale(domain=names))
    bars = (
        alt.Chart(table)
        .mark_bar()
        .encode(
            y=row_axis(labels, font), yOffset=offset, x=across("value:Q"), x2=alt.X2Datum(0), color=colour
        )
    )
    height = max(labels.row_height(font), (len(names) + 0.8) * font) * len(labels.names)
    return [*legend(keys, size, labels), bars.properties(width=plot_width, height=height)]


def dots(block: Dots, size: Size) -> list[Any]:
    """Draw the value and interval of each series, on a scale in points that contains the neutral value."""
    import altair as alt

    font = size.font
    left_end, right_end = block.ends
    labels = Labels.of(block.labels, LABELS_AT_MOST * size.width, font)
    table = _long(block, labels)
    plot_width = labels.plot_width(size)
    middle = 100 * sum(block.span) / 2
    ticks = ticks_of([middle, *table["value"], *table["low"], *table["high"]], plot_width, font)
    across = value_axis(ticks, f"← {left_end} · {block.axis} · {right_end} →", plot_width, font)
    names = [str(i) for i in range(len(block.values))]
    colours = [SERIES[i % len(SERIES)] for i in range(len(names))]
    symbols = [SYMBOLS[i % len(SYMBOLS)] for i in range(len(names))]
    base = alt.Chart(table).encode(
        y=row_axis(labels, font),
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
    return [*legend(keys, size, labels), combined("layer", layers, width=plot_width, height=height)]


def pairs(block: Pairs, size: Size) -> list[Any]:
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
    ticks = ticks_of([0.0, *shares["share"], *shares["other"]], plot_width, font)
    across = value_axis(ticks, "descriptions (%)", plot_width, font)
    base = alt.Chart(shares).encode(y=row_axis(labels, font))
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
    return [*legend(keys, size, labels), combined("layer", layers, width=plot_width, height=height)]
