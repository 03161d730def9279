"""The words of a model's reply: read as JSON wherever it stands in the text, never evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tiltmeter._json import MAX_LENGTH, json_values, without_thinking

__all__ = ["Words", "read_words"]

_LONGEST_WORD = 80
_DEEPEST = 6


class Words(NamedTuple):
    """What was read of a reply."""

    words: tuple[str, ...]
    problem: str | None
    """What could not be used; None where all could."""


def read_words(reply: str) -> Words:
    """All texts in the first JSON list or object of the reply, however deep; of an object the values.

    Trailing commas and single or typographic quotation marks are mended; nothing else is guessed. Entries that are no texts, or
    longer than a keyword can be, are left out and counted.
    """
    for value in json_values(reply):
        entries = list(_entries(value))
        if entries and all(isinstance(entry, int | float) for entry in entries):
            continue  # a reference in prose: [1]
        words = [" ".join(entry.split()) for entry in entries if isinstance(entry, str)]
        good = [word for word in words if len(word) <= _LONGEST_WORD and any(map(str.isalnum, word))]
        left_out = len(entries) - len(good)
        return Words(tuple(good), f"{left_out} entries are no keywords" if left_out else None)
    if len(reply) > MAX_LENGTH:
        return Words((), f"the reply is too long to be read ({len(reply)} characters)")
    return Words((), "the reply is empty" if not without_thinking(reply) else "the reply holds no JSON list")


def _entries(value: object, depth: int = 0) -> Iterator[object]:
    if isinstance(value, list | dict) and depth < _DEEPEST:
        for one in value if isinstance(value, list) else value.values():
            yield from _entries(one, depth + 1)
    else:
        yield value
