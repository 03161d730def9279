"""Tables in GitHub-flavoured Markdown, in which texts from outside stay texts."""

from __future__ import annotations

import re

from tiltmeter._text import printable
from tiltmeter.exports._formats import Wanted
from tiltmeter.exports._paper import Paper, paper, summary
from tiltmeter.reports._files import writing

__all__ = ["fenced", "markdown_table", "text", "write_markdown"]

# What begins markup, a mention, a formula, an emoji or a link, and what ends a cell.
_ACTS = re.compile(r"([\\`*_{}\[\]<>&|~#$@]|:(?=//|[\w+\-]+:)|(?<=www)\.)", re.IGNORECASE)


def text(outside: str) -> str:
    """A text as Markdown that shows it: one line, nothing in it is markup, marks that turn the direction of writing are named by number."""
    shown = _ACTS.sub(r"\\\1", printable(outside, one_line=True))
    if shown.isprintable():
        return shown
    return "".join(one if one.isprintable() else f"&#x{ord(one):X};" for one in shown)


def fenced(outside: str) -> str:
    """A text as a block of code on one line."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", outside)), default=0))
    shown = "".join(one if one.isprintable() else "\ufffd" for one in printable(outside, one_line=True))
    return f"{fence}\n{shown}\n{fence}"


def markdown_table(made: Paper) -> str:
    """The table alone, numbers to the right."""
    rule = ["---" if i < made.texts else "---:" for i in range(len(made.headers))]
    rows = [list(map(text, made.headers)), rule, *([text(cell) for cell in row] for row in made.rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_markdown(wanted: Wanted) -> list[str]:
    """A table of findings with what must be known to read it."""
    made = paper(wanted)
    about = wanted.run.about
    facts = "".join(f"- {name}: {text(said)}\n" for name, said in summary(about, wanted.model).items())
    notes = "".join(f"\nNote: {text(note)}\n" for note in made.notes)
    with writing(wanted.path) as aside:
        aside.write_text(f"## Tiltmeter: {text(about['title'])}\n\n{facts}\n{markdown_table(made)}{notes}", encoding="utf-8", newline="\n")
    return [str(wanted.path)]
