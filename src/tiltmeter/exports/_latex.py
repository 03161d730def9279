"""Tables in LaTeX (booktabs), ready to \\input, in which texts from outside stay texts."""

from __future__ import annotations

import re

from tiltmeter._text import printable
from tiltmeter.exports._formats import Wanted
from tiltmeter.exports._paper import paper, summary
from tiltmeter.reports._files import writing

__all__ = ["text", "write_latex"]

_ESCAPED = {
    **{mark: f"\\{mark}" for mark in "{}$&%#_"},
    # A bracket or star after the end of a row would be its argument, and two quotes would become another one.
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
_ACTS = re.compile(f"-(?=-)|[{re.escape(''.join(_ESCAPED))}]")


def text(outside: str) -> str:
    """A text as LaTeX that prints it on one line; characters that cannot be printed are named by number."""
    shown = _ACTS.sub(lambda found: _ESCAPED.get(found[0], "{-}"), outside)  # hyphens that stand together would become a dash
    if shown.isprintable():
        return shown
    return "".join(one if one.isprintable() else rf"\texttt{{U+{ord(one):04X}}}" for one in shown)


def write_latex(wanted: Wanted) -> list[str]:
    """A `tabular` of findings; what must be known to read it stands before it as comments."""
    made = paper(wanted)
    about = wanted.run.about
    said = [f"{name}: {fact}" for name, fact in summary(about, wanted.model).items()]
    comments = [_comment(one) for one in ("Needs \\usepackage{booktabs}.", *said, *made.notes)]
    columns = "l" * made.texts + "r" * (len(made.headers) - made.texts)
    lines = [
        *comments,
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _row(made.headers),
        r"\midrule",
        *map(_row, made.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    with writing(wanted.path) as aside:
        aside.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return [str(wanted.path)]


def _row(cells: list[str]) -> str:
    return " & ".join(map(text, cells)) + r" \\"


def _comment(said: str) -> str:
    """One line, whatever it holds."""
    return "% " + "".join(one if one.isprintable() else "\ufffd" for one in printable(said, one_line=True))
