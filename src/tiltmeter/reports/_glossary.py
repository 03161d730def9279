"""The words of reports and screens, with their meanings."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tiltmeter._files.yaml import packaged_yaml


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


@cache
def _by_name() -> dict[str, Word]:
    return {name: entry for entry in all_words() for name in entry.names}


def word_of(name: str) -> Word | None:
    """Return the entry of a word in any spelling; None if there is none.

    Examples
    --------
    >>> word_of("Tipping-point").words
    'tipping point'
    """
    short = plain(name)
    return _by_name().get(f"{short} value") or _by_name().get(short)


def known_names() -> list[str]:
    """Return the names of all words, in the form in which `plain` writes them."""
    return list(_by_name())
