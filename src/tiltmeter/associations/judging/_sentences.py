"""Where a story shows a phrase: the sentence that shares most of its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tiltmeter.associations.judging._people import normal

__all__ = ["Sentences"]

_END = re.compile(r"(?<=[.!?…。！？])[\"'”’»)\]*]*\s*(?=\s)|(?<=[。！？])|\n+")
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an the and or but of to in on at for with by from as is are was were be been being has have had do does did not no his her
        their its he she they it him them who that this these those very""",
    )
)
_ENDINGS = ("ingly", "edly", "ness", "ing", "ies", "ied", "ed", "es", "ly", "s", "y", "e")
_SHORTEST_STEM = 3


class Sentences:
    """The sentences of one story, and who is named in each.

    Parameters
    ----------
    text
        The story.
    names
        What its people are called; a sentence that names one of them and not another is about the one.
    """

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._texts = list(_split(text))
        shown = [normal(one) for one in self._texts]
        self._stems = [_stems(one) for one in shown]
        wanted = [normal(name) for name in names]
        self._named = [{number for number, name in enumerate(wanted) if name and f" {name}" in f" {one}"} for one in shown]

    def showing(self, phrase: str, person: int) -> str | None:
        """The sentence about that person with most words of the phrase (one that names the person if several have), None without any.

        Sentences that name nobody count as well ("She ..."); those that name another person alone do not.
        """
        wanted = _stems(normal(phrase))
        best, chosen = (0, False), None
        for text, stems, named in zip(self._texts, self._stems, self._named, strict=True):
            if named and person not in named:
                continue
            rank = (len(wanted & stems), person in named)
            if rank[0] and rank > best:
                best, chosen = rank, text
        return chosen


def _split(text: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(text):
        if sentence := text[start : end.end()].strip():
            yield sentence
        start = end.end()
    if sentence := text[start:].strip():
        yield sentence


def _stems(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in text.split() if word not in _FUNCTION_WORDS)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word
