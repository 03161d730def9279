"""Figures of tables: a heat map of coloured cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polars import DataFrame

from tiltmeter._sanitising import shortened
from tiltmeter.blocks import MARKS, Heatmap
from tiltmeter.reports._figure_parts import LABELS_AT_MOST, Key, Labels, combined, legend, row_axis
from tiltmeter.reports._figure_theme import BELOW, HEAT, INK, PAPER, TIERS, Size, shaded_as, tier_colour
from tiltmeter.reports._text_widths import text_width
from tiltmeter.reports._words import MARK_LETTERS, written

MOST_OF_CELL = 9
"""Largest width of a cell, in font sizes."""


def heat_map(block: Heatmap, size: Size) -> list[Any]:
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
    to_middle = alt.expr(f"-{0.6 * font} * (length(split(datum.label, '\\n')) - 1)")
    axis = alt.Axis(
        orient="top",
        labelAngle=angle,
        labelAlign="left" if angle else "center",
        labelBaseline="middle" if angle else "bottom",
        labelExpr="split(datum.label, '\\n')",
        labelLineHeight=1.2 * font,
        labelOffset=to_middle if angle else 0,
        labelOverlap=False,
        ticks=False,
        domain=False,
    )
    scale = alt.Scale(domain=list(heads.names.values()))
    base = alt.Chart(cells).encode(
        x=alt.X("column:N", sort=None, title=None, axis=axis, scale=scale), y=row_axis(labels, font, "row")
    )
    colour = alt.Color("colour:N", scale=None)
    shades = base.mark_rect(stroke=PAPER, strokeWidth=1).encode(color=colour)
    numbers = base.mark_text(color=INK).encode(text="text:N")
    height = labels.row_height(font) * len(labels.names)
    chart = combined("layer", [shades, numbers], width=cell * len(heads.names), height=height)
    return [*legend(_keys(block), size, labels), chart]


def _heads(names: Sequence[str], cell: float, font: float) -> tuple[Labels, int]:
    """Return the names of columns and the angle at which they are written: upright if they are too wide."""
    words = [word for name in names for word in shortened(name, 400).split()]
    fits = all(text_width(word, font) <= cell - 0.4 * font for word in words)
    if fits:
        return Labels.of(names, cell - 0.4 * font, font), 0
    return Labels.of(names, 12 * font if cell > 2.6 * font else 40 * font, font), -90


def _texts(block: Heatmap, width: float, font: float) -> list[list[str]]:
    """Return the texts of the cells: letter and number, number, letter or sign, or none, as the width allows.

    Signs distinguish values below and above the neutral value where colours cannot be seen.
    """
    numbers = [[written(value, block.kind) for value in row] for row in block.values]
    if block.marks is None:
        candidates = [numbers]
        if block.centre is not None:
            candidates.append(_signs(block, block.centre))
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


def _signs(block: Heatmap, centre: float) -> list[list[str]]:
    """Return on which side of the neutral value each shaded cell is: "+" above, "−" below."""
    colours = _shades(block)
    signs = []
    for i, values in enumerate(block.values):
        row = []
        for j, value in enumerate(values):
            if value is None or colours[i][j] in (PAPER, HEAT[0]):
                row.append("")
            else:
                row.append("+" if value > centre else "−")
        signs.append(row)
    return signs


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


def _keys(block: Heatmap) -> list[Key]:
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
