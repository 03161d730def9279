"""Fenced code blocks of Markdown pages, and the commands in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```\s*$", re.MULTILINE | re.DOTALL
)
_EXITS = re.compile(r"<!-- exits (\d) -->\s*\Z")


class Block(NamedTuple):
    """A block of code of a page.

    `line` is where it begins, `kind` its language ("" where none is named), `exits` its exit status.
    """

    page: Path
    line: int
    kind: str
    text: str
    exits: int = 0


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in order. `<!-- exits 1 -->` before a block says that its last command ends so."""
    text = page.read_text(encoding="utf-8")
    entries = []
    for match in _FENCE.finditer(text):
        inner = "\n".join(line.removeprefix(match["indent"]) for line in match["text"].splitlines())
        exits = _EXITS.search(text[: match.start()])
        entries.append(
            Block(
                page,
                text.count("\n", 0, match.start()) + 1,
                match["kind"],
                inner,
                int(exits[1]) if exits else 0,
            )
        )
    return entries


def commands(block: Block) -> list[list[str]]:
    """Return the words of each command line.

    Comments and output are left out (in a `console` block only lines after `$` are commands).
    """
    text = block.text.replace("\\\n", " ")
    lines = text.splitlines()
    if block.kind == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    return [words for line in lines if (words := shlex.split(line, comments=True))]
