"""Figures of intervals: one panel per metric, with the estimate and interval of each row."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from polars import DataFrame, Float64

from tiltmeter.blocks import MARKS, IntervalRow, Intervals
from tiltmeter.reports._figure_parts import (
    AXIS_TITLES,
    LABELS_AT_MOST,
    Key,
    Labels,
    Ticks,
    combined,
    in_unit,
    legend,
    row_axis,
    text_lines,
    ticks_of,
    value_axis,
)
from tiltmeter.reports._figure_theme import ACCENT, INK, SOFT, TIERS, Size
from tiltmeter.reports._words import MARK_LETTERS

SIDE_BY_SIDE = 54
"""Smallest width in which two panels are side by side, in font sizes."""
MOST_BESIDE = 6
"""Largest number of rows of panels that are side by side."""


def intervals(block: Intervals, size: Size) -> list[Any]:
    """Draw one panel per metric with the estimate and interval of each row.

    Panels of the same unit have the same scale, on which equal distances are equal differences. The
    background shows the tiers, and a line the value that means "no bias".
    """
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
        ticks[unit] = ticks_of(shown_values(of_unit), plot_width, size.font)
    charts = [_panel(rows, labels, ticks[rows[0].unit], plot_width, panel_size, block) for rows in panels]
    spacing = {"row": 1.5 * size.font, "column": gap}
    figure = combined("concat", charts, columns=per_row, spacing=spacing, align="none")
    return [*legend(_keys(block), size, labels), figure]


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
    title = block.axis or AXIS_TITLES.get(unit, "value")
    across = value_axis(ticks, title, plot_width, font, grid=not rows[0].bands)
    base = alt.Chart(positions).encode(y=row_axis(of_panel, font), color=alt.Color("colour:N", scale=None))
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
    panel = combined("layer", layers, width=plot_width, height=height)
    if not rows[0].name:
        return panel
    heading = alt.TitleParams(
        text_lines(rows[0].name, size.width, font, bold=True),
        lineHeight=1.2 * font,
        frame="bounds",
        offset=0.5 * font,
    )
    return panel | {"title": heading.to_dict(validate=False)}


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
