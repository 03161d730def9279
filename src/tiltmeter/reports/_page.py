"""Rendering of a report as one self-contained HTML page, without scripts or network access."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter._files.writing import check_suffix, writing
from tiltmeter._quantities import interval, quantity
from tiltmeter._sanitising import printable
from tiltmeter.blocks import (
    SEVERITY,
    Block,
    Column,
    Details,
    Heading,
    Headline,
    Heatmap,
    Intervals,
    Table,
)
from tiltmeter.reports._charts import file_name, paint_rules, saved, shaded_as, svg
from tiltmeter.reports._glossary import Word, all_words, word_of
from tiltmeter.reports._panels import panels
from tiltmeter.reports._words import (
    MARK_LETTERS,
    NUMERIC,
    constant,
    contrast,
    in_every_row,
    in_words,
    level_words,
    not_run,
    number,
    table_of,
    written,
)

if TYPE_CHECKING:
    from jinja2 import Environment

SHADES = 5
"""Number of colour steps in a heat map."""
NOTEBOOK_ROWS = 30
"""Maximum number of rows of a table in a notebook."""


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
    headings = {i: block for i, block in enumerate(report.blocks) if isinstance(block, Heading)}
    contents = [(i, heading.text) for i, heading in headings.items() if heading.level <= 2]
    headlines = [block for block in report.blocks if isinstance(block, Headline)]
    columns = list(_columns(report.blocks))
    targets = {link for column in columns for link in column.links if link}
    explained = {entry for column in columns if (entry := word_of(column.name)) is not None}
    page = _templates().get_template("page.html.j2")
    text = page.render(
        report=report,
        contents=contents,
        first=headlines[0] if headlines else None,
        paint_rules=paint_rules(),
        charts=True,
        targets=targets,
        listed_first=len(headlines) > 1,
        several_models=len({headline.model for headline in headlines if headline.model}) > 1,
        words=[entry for entry in all_words() if entry in explained],
        top=min((heading.level for heading in headings.values()), default=1),
    )
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def as_html(report: Report) -> str:
    """Render the blocks as an HTML fragment for notebooks, without charts and with truncated tables."""
    fragment = _templates().get_template("fragment.html.j2")
    return fragment.render(
        report=report,
        rows=NOTEBOOK_ROWS,
        charts=False,
        first=None,
        targets=(),
        listed_first=False,
        several_models=False,
        words=(),
        top=1,
    )


def _columns(blocks: Iterable[Block]) -> Iterator[Column]:
    """Yield the columns of tables and interval plots, including those within `Details`."""
    for block in blocks:
        if isinstance(block, Details):
            yield from _columns(block.blocks)
        elif isinstance(block, Table):
            yield from block.columns
        elif isinstance(block, Intervals):
            yield from block.further


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
        finalize=_without_control_characters,
    )
    environment.globals.update({function.__name__: function for function in _FUNCTIONS})
    environment.globals.update(
        letters=MARK_LETTERS,
        severity=SEVERITY,
        numeric=NUMERIC,
        kind=_kind,
        anchor=file_name,
        zip=zip,
    )
    return environment


def _without_control_characters(value: Any) -> Any:
    """Return a value of a template without control characters, because texts may come from outside."""
    return printable(value) if isinstance(value, str) else value


def anchor_of(entry: Word) -> str:
    """Return the anchor of a word on the page."""
    return f"word-{file_name(entry.names[0])}"


def responses_of(about: Mapping[str, Any]) -> int:
    """Return the number of responses of a run; 0 if its description does not have it."""
    counts = [part.get("responses", {}) for part in about.get("parts", {}).values()]
    return sum(count.get("found", 0) for of_models in counts for count in of_models.values())


def _kind(block: object) -> str:
    return type(block).__name__


def shades(block: Heatmap) -> list[list[str]]:
    """Return the CSS class of each cell of a heat map."""
    if block.marks is not None:
        return [[f"mark {shaded_as(mark)}" if mark else "" for mark in row] for row in block.marks]
    values = [value for row in block.values for value in row if value is not None]
    centre = min(values, default=0.0) if block.centre is None else block.centre
    largest = max((abs(value - centre) for value in values), default=0.0)

    def shade(value: float | None) -> str:
        if value is None or largest == 0:
            return ""
        return f"s{round(SHADES * abs(value - centre) / largest)}"

    return [[shade(value) for value in row] for row in block.values]


_FUNCTIONS: tuple[Callable[..., object], ...] = (
    anchor_of,
    responses_of,
    constant,
    contrast,
    in_every_row,
    in_words,
    interval,
    level_words,
    not_run,
    number,
    quantity,
    saved,
    shades,
    panels,
    svg,
    table_of,
    word_of,
    written,
)
"""Functions that the templates call."""
