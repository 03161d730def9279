"""A replacement table proposed by a judge: for each word of the root its counterpart for the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tiltmeter._json import MAX_LENGTH, json_values
from tiltmeter.benchmarks.branching._asked import ask, question, templates
from tiltmeter.errors import InputError
from tiltmeter.study import Judge

__all__ = ["Proposal", "propose_replacements"]

_AT_ONCE = 50
"""Words in one question: answers stay short enough not to be cut off."""
_LONGEST = 80
"""Characters of a counterpart; what is longer is no word but a text."""


_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "replacements": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                "required": ["old", "new"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["replacements"],
    "additionalProperties": False,
}

_Pairs = list[tuple[object, object]]


class Proposal(NamedTuple):
    """What a judge proposes; to be looked through before it is used."""

    words: dict[str, str]
    """`{old: new}` in the order of the words asked about: the entry of a replacement table."""
    left_out: dict[str, str]
    """Every other word asked about, and why it has no counterpart."""


def propose_replacements(words: Sequence[str], root: str, target: str, judge: Judge, *, wording: str | None = None) -> Proposal:
    """Ask a judge which words hold the same place for the target as these do for the root.

    The answer is read as JSON, never evaluated, whatever stands around it: a list of old and new words, or an object `{old: new}`.
    Words that were not asked about are passed over, whatever it says of them.

    Parameters
    ----------
    words
        See `find_descriptors`; a word given twice (in any case) is asked about once.
    wording
        Name of a wording, or a file with one.

    Raises
    ------
    InputError
        No words, or an unusable wording.
    NotRun, ProviderError
        The judge did not answer.
    """
    asked = list({word.casefold(): word for word in reversed(words)}.values())[::-1]
    if not asked:
        raise InputError(f"there are no words of {root!r} to find counterparts for; lower the threshold of descriptors")
    chosen = templates(wording)
    parts = [asked[start : start + _AT_ONCE] for start in range(0, len(asked), _AT_ONCE)]
    questions = [question(chosen, "analogous", {"root": root, "target": target, "words": part}) for part in parts]
    found: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for part, (_, pairs, problem) in zip(parts, ask(judge, questions, _read, _SCHEMA), strict=True):
        proposed = {old.strip().casefold(): new for old, new in pairs or [] if isinstance(old, str)}
        for word in part:
            new, reason = _counterpart(word, proposed, problem if pairs is None else "")
            if new is None:
                left_out[word] = reason
            else:
                found[word] = new
    return Proposal(found, left_out)


def _counterpart(word: str, proposed: Mapping[str, object], problem: str) -> tuple[str | None, str]:
    """The new word, or why there is none."""
    if problem:
        return None, f"the judge's answer could not be used: {problem}"
    if word.casefold() not in proposed:
        return None, "the judge gave no counterpart"
    new = proposed[word.casefold()]
    if not isinstance(new, str) or not (text := " ".join(new.split())):
        return None, "the judge gave no counterpart"
    if len(text) > _LONGEST:
        return None, f"its counterpart has more than {_LONGEST} characters"
    if text.casefold() == word.casefold():
        return None, "its counterpart is the word itself"
    return text, ""


def _read(answer: str) -> tuple[_Pairs | None, str]:
    """Old and new word of each entry of the first JSON in the answer that has any; an empty list of entries is an answer as well."""
    if len(answer) > MAX_LENGTH:
        return None, "it is too long to be read"
    empty = False
    for given in json_values(answer):
        value: object = given
        while isinstance(value, dict) and len(value) == 1 and isinstance(inner := next(iter(value.values())), list | dict):
            value = inner  # {"replacements": ...}, or a table with root and target
        if pairs := _pairs(value):
            return pairs, ""
        empty = empty or not value
    return ([], "") if empty else (None, "it holds no JSON with old and new words")


def _pairs(value: object) -> _Pairs:
    if isinstance(value, dict):
        return list(value.items())
    if not isinstance(value, list):
        return []
    found: _Pairs = []
    for one in value:
        if isinstance(one, dict):
            found += [(one["old"], one["new"])] if {"old", "new"} <= set(one) else list(one.items())
    return found
