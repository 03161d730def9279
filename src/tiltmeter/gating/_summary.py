"""The verdict as Markdown, for the page GitHub shows of a workflow."""

from __future__ import annotations

import re
from pathlib import Path

from tiltmeter._text import printable
from tiltmeter.errors import InputError
from tiltmeter.gating._verdict import Verdict

__all__ = ["append_summary"]

ROWS = 200
_LENGTH = 150
"""Rows, and characters of a cell, at most: GitHub refuses a summary of more than 1 MiB, and a character may take five bytes."""
_ACTS = re.compile(r"(?![,%()=])[!-/:-@\[-`{-~]")
"""The punctuation Markdown, GitHub or HTML could see anything in."""


def append_summary(verdict: Verdict, path: Path) -> None:
    """Add the verdict to the end of a Markdown file, which is made where there is none.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(_markdown(verdict))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; give --summary the name of a file you may write to") from error


def _markdown(verdict: Verdict) -> str:
    study = verdict.about["study"]
    lines = [f"### Tiltmeter: {_plain(verdict.headline)}", "", f"{_plain(study)}, run {_plain(verdict.run)}"]
    if said := (*verdict.problems, *verdict.notes):
        lines += ["", *(f"* {_plain(line)}" for line in said[:ROWS])]
    checks = verdict.failures + [one for one in verdict.checks if one.status not in ("failed", "undecided")]
    if checks:
        lines += ["", "| | model | number | reason | rule |", "|---|---|---|---|---|"]
    for one in checks[:ROWS]:
        cells = (one.status, one.model, one.number, one.reason, one.rule)
        lines.append(f"| {' | '.join(map(_plain, cells))} |")
    if len(checks) > ROWS:
        lines += ["", f"and {len(checks) - ROWS:,} more checks"]
    return "\n".join(lines) + "\n\n"


def _plain(text: str) -> str:
    """Text that stays text: in Markdown a character reference never opens markup, and does not end the cell of a table."""
    shown = printable(text, one_line=True)
    if len(shown) > _LENGTH:
        shown = f"{shown[:_LENGTH]}…"
    return _ACTS.sub(lambda found: f"&#{ord(found[0])};", shown)
