"""Rendering of blocks as LaTeX (with booktabs); all external texts are escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tiltmeter._sanitising import printable
from tiltmeter.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Heading,
    Headline,
    Response,
    Responses,
    Table,
    Text,
)
from tiltmeter.reports._words import NUMERIC, counted_marks, table_of, written_rows

_ESCAPED = {
    **{mark: f"\\{mark}" for mark in "{}$&%#_"},
    # A bracket or star after the end of a row would be parsed as its argument, and two quotes would form a
    # ligature.
    **{mark: f"{{{mark}}}" for mark in "[]*'"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\char34}",
    "`": r"\textasciigrave{}",
    "−": "$-$",
    "–": "--",
    "…": r"\ldots{}",
    "“": "``",
    "”": "''",
    "\u00a0": "~",
}
_HYPHEN = "{-}"
"""A hyphen before another one. LaTeX would turn "--" into a dash."""
_SPECIAL = re.compile(f"-(?=-)|[{re.escape(''.join(_ESCAPED))}]")
WRAPPED_FROM = 50
"""Length from which the texts of a column wrap."""
_HEADINGS = {1: "section", 2: "subsection", 3: "subsubsection"}


def latex_text(outside: str) -> str:
    """Escape a text for LaTeX, on one line; non-printable characters are written as code points."""
    escaped = _SPECIAL.sub(lambda match: _ESCAPED.get(match[0], _HYPHEN), outside)
    return "".join(
        character if character.isprintable() else rf"\texttt{{U+{ord(character):04X}}}"
        for character in escaped
    )


def comment(text: str) -> str:
    """Return a text as a single-line LaTeX comment."""
    line = printable(text, one_line=True)
    return "% " + "".join(character if character.isprintable() else "\ufffd" for character in line)


def tabular(block: Table) -> str:
    """Render a table without title and note; requires the package booktabs."""
    columns = "".join(map(_alignment, block.columns))
    head, *rows = [" & ".join(map(latex_text, row)) + r" \\" for row in written_rows(block)]
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule"]
    lines += [*rows, r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def _alignment(column: Column) -> str:
    """Return the alignment of a column; long prose wraps."""
    if column.kind in NUMERIC:
        return "r"
    is_long = column.kind == "text" and any(len(str(value)) > WRAPPED_FROM for value in column.values)
    return r"p{0.4\linewidth}" if is_long else "l"


def captioned(block: Table, label: str) -> str:
    """Render a table as a float, with its note as the caption; requires the package booktabs."""
    name = re.sub(r"[^A-Za-z0-9:-]+", "-", label)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(block.note)}}}",
        rf"\label{{{name}}}",
        tabular(block).rstrip("\n"),
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def as_latex(blocks: Sequence[Block]) -> str:
    """Render blocks as the body of a document, with charts as tables."""
    return "\n".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    match block:
        case Headline():
            detail = f"{latex_text(block.detail)} {latex_text(counted_marks(block.marks))}"
            return f"\\section*{{{latex_text(block.text)}}}\n{detail}\n"
        case Heading():
            command = _HEADINGS.get(block.level, "paragraph")
            return f"\\{command}*{{{latex_text(block.text)}}}\n"
        case Text():
            return f"{latex_text(block.text)}\n"
        case Callout():
            return f"\\textbf{{{latex_text(block.text)}}}\n"
        case Responses():
            title = f"\\textbf{{{latex_text(block.title)} (content warning)}}"
            items = "".join(map(_item, block.rows))
            return f"{title}\n\\begin{{itemize}}\n{items}\\end{{itemize}}\n"
        case Details():
            return f"\\textbf{{{latex_text(block.title)}}}\n\n{as_latex(block.blocks)}"
        case _:
            table = table_of(block)
            note = f"\n\\par {latex_text(table.note)}\n" if table.note else ""
            return f"\\par\\textbf{{{latex_text(table.title)}}}\n\n{tabular(table)}{note}"


def _item(response: Response) -> str:
    prompt = latex_text(response.prompt or "")
    answer = latex_text(response.answer or "none")
    return f"\\item {prompt} \\textbf{{Answer:}} {answer}\n"
