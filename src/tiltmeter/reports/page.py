"""Rendering of a report as one self-contained HTML page, without scripts or network access."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter.blocks import SEVERITY, Block, Column, Details, Heading, Headline, Heatmap, Intervals, Table
from tiltmeter.files.writing import check_suffix, writing
from tiltmeter.quantities import interval, quantity
from tiltmeter.reports.charts import file_name, paint_rules, saved, shaded_as, svg
from tiltmeter.reports.words import (
    MARK_LETTERS,
    NUMERIC,
    constant,
    contrast,
    in_every_row,
    in_words,
    level_words,
    not_run,
    number,
    place,
    scale_of,
    table_of,
    written,
)
from tiltmeter.sanitising import printable

if TYPE_CHECKING:
    from jinja2 import Environment

SHADES = 5
"""Number of colour steps in a heat map."""
WIDTH, MARGIN = 350.0, 16.0
"""Dimensions of the interval plot next to an estimate, in SVG units; the margin leaves space for half a
label."""
NOTEBOOK_ROWS = 30


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a page.

    Parameters
    ----------
    runs
        Contents of the run.json of each run.
    blocks
        The blocks to render.
    """

    runs: Sequence[Mapping[str, Any]]
    blocks: Sequence[Block]

    @property
    def title(self) -> str:
        """Distinct titles of the runs."""
        return " · ".join(dict.fromkeys(str(about["title"]) for about in self.runs))


def write_page(report: Report, path: Path) -> Path:
    """Write the page atomically and return its path.

    Raises InputError if the file cannot be written or its name is of another kind.
    """
    check_suffix(path, "the report is a web page", ".html", ".htm")
    contents = [
        (i, block.text)
        for i, block in enumerate(report.blocks)
        if isinstance(block, Heading) and block.level <= 2
    ]
    first = next((block for block in report.blocks if isinstance(block, Headline)), None)
    targets = {link for column in _columns(report.blocks) for link in column.links if link}
    page = _templates().get_template("page.html.j2")
    text = page.render(
        report=report, contents=contents, first=first, paint_rules=paint_rules(), charts=True, targets=targets
    )
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def as_html(report: Report) -> str:
    """Render the blocks as an HTML fragment for notebooks, without charts and with truncated tables."""
    return (
        _templates()
        .get_template("fragment.html.j2")
        .render(report=report, rows=NOTEBOOK_ROWS, charts=False, first=None, targets=())
    )


def _columns(blocks: Iterable[Block]) -> Iterator[Column]:
    """Yield the columns of tables and interval plots, including those within `Details`."""
    for block in blocks:
        if isinstance(block, Details):
            yield from _columns(block.blocks)
        elif isinstance(block, Table | Intervals):
            yield from block.columns if isinstance(block, Table) else block.further


@cache
def _templates() -> Environment:
    """Return the Jinja environment; templates are compiled once per process."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            printable(value) if isinstance(value, str) else value
        ),  # removes control characters from external text
    )
    used: list[Any] = [
        written,
        number,
        level_words,
        constant,
        contrast,
        in_every_row,
        not_run,
        table_of,
        in_words,
        quantity,
        interval,
    ]
    used += [svg, saved, strips, shades, zip]
    environment.globals.update({one.__name__: one for one in used})
    environment.globals.update(
        letters=MARK_LETTERS,
        severity=SEVERITY,
        numeric=NUMERIC,
        kind=lambda block: type(block).__name__,
        anchor=file_name,
    )
    return environment


def strips(block: Intervals) -> list[dict[str, Any] | None]:
    """Return the plot data of each row: tiers, axis labels, the value without bias, the interval and the estimate."""
    made: list[dict[str, Any] | None] = []
    for _, rows in itertools.groupby(block.rows, key=lambda row: row.name):
        panel = list(rows)
        edges, labels, marks = scale_of(panel)
        step = (WIDTH - 2 * MARGIN) / (len(edges) - 1)
        cuts = [(round(MARGIN + step * i, 1), label) for i, label in enumerate(labels)]
        tiers = [(cuts[i][0], round(step, 1), mark, MARK_LETTERS[mark]) for i, mark in enumerate(marks)]
        for row in panel:
            if row.estimate is None or row.low is None or row.high is None:
                made.append(None)
                continue
            low, high, value = (
                round(MARGIN + step * place(one, edges), 1) for one in (row.low, row.high, row.estimate)
            )
            zero = None if row.null_value is None else round(MARGIN + step * place(row.null_value, edges), 1)
            shown, ends = (
                quantity(row.estimate, row.low, row.high, row.unit),
                interval(row.low, row.high, row.unit),
            )
            words = f"{row.named}: {shown}, interval {ends}"
            made.append(
                {
                    "tiers": tiers,
                    "cuts": cuts,
                    "low": low,
                    "high": max(high, low + 1.5),
                    "value": value,
                    "zero": zero,
                    "words": words,
                }
            )
    return made


def shades(block: Heatmap) -> list[list[str]]:
    """Return the CSS class of each cell of a heat map."""
    if block.marks is not None:
        return [[f"mark {shaded_as(mark)}" if mark else "" for mark in row] for row in block.marks]
    known = [value for row in block.values for value in row if value is not None]
    centre = min(known, default=0.0) if block.centre is None else block.centre
    most = max((abs(value - centre) for value in known), default=0.0)
    return [
        [
            f"s{round(SHADES * abs(value - centre) / most)}" if value is not None and most else ""
            for value in row
        ]
        for row in block.values
    ]
