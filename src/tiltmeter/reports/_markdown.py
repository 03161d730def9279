"""Rendering of blocks as Markdown; all external texts are escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tiltmeter._sanitising import printable
from tiltmeter.blocks import Block, Callout, Details, Heading, Headline, Response, Responses, Table, Text
from tiltmeter.reports._words import NUMERIC, counted_marks, table_of, written_rows

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>&|~#$@]|:(?=//|[\w+\-]+:)|(?<=www)\.)", re.IGNORECASE)
"""Characters that start markup, mentions, formulas, emoji or links, or that end a table cell."""


def text(outside: str) -> str:
    """Escape a text for Markdown, on one line.

    Non-printable characters (such as direction marks) become character references.
    """
    escaped = _SPECIAL.sub(r"\\\1", printable(outside, one_line=True))
    return "".join(
        character if character.isprintable() else f"&#x{ord(character):X};" for character in escaped
    )


def fenced(outside: str) -> str:
    """Return a text as a code block of one line."""
    longest = max(map(len, re.findall("`+", outside)), default=0)
    fence = "`" * max(3, longest + 1)
    characters = printable(outside, one_line=True)
    line = "".join(character if character.isprintable() else "\ufffd" for character in characters)
    return f"{fence}\n{line}\n{fence}"


def table(block: Table) -> str:
    """Render a table without title and note; numbers are right-aligned."""
    rule = ["---:" if column.kind in NUMERIC else "---" for column in block.columns]
    head, *rows = [[text(cell) for cell in row] for row in written_rows(block)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, rule, *rows])


def as_markdown(blocks: Sequence[Block]) -> str:
    """Render blocks as one document, with charts as tables."""
    return "\n".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    match block:
        case Headline():
            return f"## {text(block.text)}\n\n{text(block.detail)}\n\n{text(counted_marks(block.marks))}\n"
        case Heading():
            return f"{'#' * (block.level + 1)} {text(block.text)}\n"
        case Text():
            return f"{text(block.text)}\n"
        case Callout():
            return f"> **{text(block.text)}**\n"
        case Responses():
            quotations = "\n".join(map(_quotation, block.rows))
            return f"**{text(block.title)} (content warning)**\n\n{quotations}"
        case Details():
            return f"**{text(block.title)}**\n\n{as_markdown(block.blocks)}"
        case _:
            numbers = table_of(block)
            note = f"\n{text(numbers.note)}\n" if numbers.note else ""
            return f"**{text(numbers.title)}**\n\n{table(numbers)}{note}"


def _quotation(response: Response) -> str:
    return f"> {text(response.prompt or '')}\n>\n> **Answer:** {text(response.answer or 'none')}\n"
