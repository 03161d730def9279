"""The command that explains the words of reports and screens."""

from __future__ import annotations

from typing import Annotated

import typer

from tiltmeter import reports
from tiltmeter.errors import check_known

DOCUMENTATION = "docs/"
"""Folder of the pages that entries refer to."""


def explain(
    word: Annotated[
        str | None,
        typer.Argument(metavar="WORD", help="Word of a report, such as tipping-point; none lists all."),
    ] = None,
) -> None:
    """Explain a word of reports and screens."""
    if word is None:
        names = ", ".join(entry.words for entry in reports.all_words())
        reports.print_text(f"Words: {names}.", always=True)
        return
    entry = reports.word_of(word)
    if entry is None:
        check_known(
            word, reports.known_names(), f"explain has no word {word!r}", "; tiltmeter explain lists them"
        )
        return
    reports.print_text(f"{entry.words}: {entry.meaning}.", always=True)
    if entry.see is not None:
        reports.print_text(f"More: {DOCUMENTATION}{entry.see}", always=True)
