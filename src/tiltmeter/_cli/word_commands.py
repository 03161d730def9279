"""The command that explains the words of reports and screens."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from tiltmeter import reports
from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.errors import check_known

DOCUMENTATION = "docs/"
"""Folder of the pages that entries refer to."""


class Word(NamedTuple):
    """A word of reports, or several with the same meaning."""

    words: str
    meaning: str
    see: str | None
    """Page of the documentation, with its anchor."""

    @property
    def names(self) -> list[str]:
        """Each of the words, in the form in which `plain` writes it, without what is in brackets."""
        return [plain(re.sub(r"\(.*\)", "", word)) for word in self.words.split(",")]


def plain(word: str) -> str:
    """Return a word in lower case with single blanks, so that "Tipping-point" is "tipping point"."""
    return " ".join(word.lower().replace("-", " ").replace("_", " ").split())


@cache
def all_words() -> list[Word]:
    """Return all entries in alphabetical order."""
    entries = packaged_yaml(Path(__file__).with_name("words.yaml"))
    return [Word(entry["word"], entry["meaning"], entry.get("see")) for entry in entries]


def explain(
    word: Annotated[
        str | None,
        typer.Argument(metavar="WORD", help="Word of a report, such as tipping-point; none lists all."),
    ] = None,
) -> None:
    """Explain a word of reports and screens."""
    by_name = {name: entry for entry in all_words() for name in entry.names}
    if word is None:
        reports.print_text(f"Words: {', '.join(entry.words for entry in all_words())}.", always=True)
        return
    short = plain(word)
    name = f"{short} value" if f"{short} value" in by_name else short
    check_known(name, by_name, f"explain has no word {word!r}")
    entry = by_name[name]
    reports.print_text(f"{entry.words}: {entry.meaning}.", always=True)
    if entry.see is not None:
        reports.print_text(f"More: {DOCUMENTATION}{entry.see}", always=True)
