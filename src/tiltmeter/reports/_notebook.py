"""Display of a result in a notebook: the headline first, then the first tables, at most a screen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tiltmeter.blocks import Block, Callout, Column, Details, Heading, Headline, Responses, Table, Text
from tiltmeter.reports._page import Report, _templates
from tiltmeter.reports._words import NUMERIC, table_of

MOST_HEADLINES = 3
"""Largest number of models whose headlines are shown."""
MOST_SENTENCES = 3
"""Largest number of paragraphs and notices shown, each; a result with headlines has no paragraphs."""
MOST_TABLES = 1
"""Largest number of tables shown."""
MOST_ROWS = 8
"""Largest number of rows of a table."""
MOST_COLUMNS = 7
"""Largest number of columns of a table."""


@dataclass(slots=True)
class Summary:
    """What a notebook shows of a report."""

    headlines: list[Headline] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    hidden: int = 0
    """Number of blocks that are not shown."""

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Summary:
        """Return the first blocks of each kind."""
        summary = cls()
        for block in blocks:
            summary.add(block)
        if summary.headlines:
            summary.texts.clear()
        return summary

    def add(self, block: Block) -> None:
        """Add a block if there is space for one of its kind, or else count it."""
        match block:
            case Headline():
                self._keep(block, self.headlines, MOST_HEADLINES)
            case Callout():
                self._keep(block.text, self.notices, MOST_SENTENCES)
            case Text() | Heading():
                self._keep(block.text, self.texts, MOST_SENTENCES)
            case Details() | Responses():
                self.hidden += 1
            case _:
                self._keep(_narrow(table_of(block)), self.tables, MOST_TABLES)

    def _keep(self, content: Any, contents: list[Any], most: int) -> None:
        """Add the content of a block to those of its kind, of which at most `most` are shown."""
        if len(contents) < most:
            contents.append(content)
        else:
            self.hidden += 1


def _narrow(table: Table) -> Table:
    """Return a table with its most important columns."""
    columns: list[Column] = sorted(table.columns, key=lambda column: column.rank)[:MOST_COLUMNS]
    kept = [column for column in table.columns if column in columns]
    return replace(table, columns=kept)


def as_notebook(report: Report) -> str:
    """Render a report as HTML for a notebook; its styles apply to nothing else in it."""
    template = _templates().get_template("notebook.html.j2")
    return template.render(
        report=report,
        summary=Summary.of(report.blocks),
        rows=MOST_ROWS,
        numeric=NUMERIC,
        colours=_colours(),
    )


@cache
def _colours() -> Markup:
    """Return the colours and the font of the page as rules for the notebook's own part."""
    css = (Path(__file__).parent / "templates" / "page.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root\{([^}]*)\}", css)[:2]
    (font,) = re.findall(r"body\{[^}]*font:[^ ]+ ([^;}]*)", css)[:1]
    rules = f".tiltmeter{{{light};font:14px/1.45 {font}}}"
    rules += f"@media screen and (prefers-color-scheme:dark){{.tiltmeter{{{dark}}}}}"
    return Markup(rules)  # noqa: S704 - contains only rules of the page
