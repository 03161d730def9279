"""What a judge answered: a list of concepts for each character, joined by name, and what was wrong with it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tiltmeter._json import read_json, without_thinking
from tiltmeter.associations.judging._lines import read_lines
from tiltmeter.associations.judging._people import Person, find, normal

__all__ = ["LONGEST", "SCHEMA", "Reading", "clean", "read_answer"]

LONGEST = 200
"""Characters of an item; what is longer is no concept but a text."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "characters": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "concepts": {"type": "array", "items": {"type": "string"}}},
                "required": ["name", "concepts"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["characters"],
    "additionalProperties": False,
}
"""JSON schema of every answer."""

_NOTHING = frozenset(
    ("none", "n a", "nothing", "no features", "no concepts", "none mentioned", "none shown", "not mentioned", "no essential features")
)
_LEAD = re.compile(r"^(?:[-+•·*–—>]+\s+|\d{1,2}[.)]\s+)+")
_CONTROL = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " ")
_QUOTES = {'"': '"', "“": "”", "‘": "’", "'": "'", "`": "`", "«": "»"}
_SHOWN = 40

Entries = list[tuple[int | str | None, object]]
"""Whose list (the number of a person, or a name as the judge writes it; None: it does not say) and what it holds."""


class Reading(NamedTuple):
    """How one answer was read."""

    lists: Mapping[int, tuple[str, ...]]
    """By number of the person; nobody is in here whose list could not be read."""
    faults: Mapping[int, str]
    """Why the list of a person is lacking, or what of it was left out."""
    problem: str | None
    """All that was wrong, in words that the judge can be shown; None where the answer could be read whole."""

    @property
    def again(self) -> bool:
        """Whether it is worth asking again."""
        return bool(self.faults)


def read_answer(text: str | None, people: Sequence[Person], wanted: Sequence[int], names: Sequence[str], story: str) -> Reading:
    """Read an answer in JSON or in the line format.

    Parameters
    ----------
    text
        The answer.
    people
        Everybody in the story; `wanted` are the numbers of those asked about, `names` what all of them were called before the judge.
    story
        Its text.
    """
    entries, fault = _entries_of(text or "", people, story)
    if not entries:
        return Reading({}, dict.fromkeys(wanted, fault), fault)
    raw, strangers = _by_person(entries, people, story)
    lists: dict[int, tuple[str, ...]] = {}
    faults: dict[int, str] = {}
    for number in wanted:
        if number not in raw:
            faults[number] = f"there is no list for {names[number]}"
            continue
        items, trouble = _items(raw[number])
        if items is not None and not _same_script(items, story):
            items, trouble = None, "is in another script than the story"
        if items is not None:
            lists[number] = items
        if trouble:
            faults[number] = f"the list of {names[number]} {trouble}"
    said = list(faults.values())
    if strangers:
        shown = ", ".join(repr(name[:_SHOWN]) for name in strangers[:3])
        said.append(f"the answer lists {shown}, not asked about")
    return Reading(lists, faults, "; ".join(said) or None)


def _entries_of(text: str, people: Sequence[Person], story: str) -> tuple[Entries, str]:
    """Name and list of each entry of the answer; where there is none, the reason."""
    try:
        value = read_json(text)
    except ValueError as error:
        fault = str(error)
    else:
        if entries := _structure(value):
            return entries, ""
        fault = "the JSON of the answer holds no characters with their lists"
    if len(text) > LONGEST * 100:
        return [], fault
    found, unknown = read_lines(without_thinking(text), people, story)
    if not found and not unknown:
        return [], fault
    return [*found.items(), *((label, []) for label in unknown)], ""


def _structure(value: object) -> Entries:
    if isinstance(value, dict) and isinstance(value.get("characters"), list | dict):
        value = value["characters"]
    if isinstance(value, list):
        if value and all(isinstance(one, str) for one in value):
            return [(None, value)]
        return [_entry(one) for one in value if isinstance(one, dict)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("name"), str) or "concepts" in value:
        return [_entry(value)]
    return [(key, _lists_in(one) if isinstance(one, dict) else one) for key, one in value.items() if isinstance(one, dict | list | str)]


def _entry(entry: dict[str, Any]) -> tuple[str | None, object]:
    name = entry.get("name", next((one for one in entry.values() if isinstance(one, str)), None))
    return (name if isinstance(name, str) else None), entry.get("concepts", _lists_in(entry))


def _lists_in(entry: dict[str, Any]) -> object:
    """All lists of an entry, one after the other: some models part strengths and weaknesses."""
    lists = [one for one in entry.values() if isinstance(one, list)]
    return [item for one in lists for item in one] if lists else None


def _by_person(entries: Entries, people: Sequence[Person], story: str) -> tuple[dict[int, list[object]], list[str]]:
    """What is listed for each person, and the names of others. Places decide nothing; an entry without a name must be alone."""
    raw: dict[int, list[object]] = {}
    strangers: list[str] = []
    alone = len(entries) == len(people) == 1
    for name, listed in entries:
        who = name if isinstance(name, int) else None
        if isinstance(name, str):
            who = find(name, people, story)
        if who is None and alone and (name is None or people[0].name is None):
            who = 0
        if who is None:
            strangers.append(str(name or "a list without a name"))
        else:
            raw.setdefault(who, []).append(listed)
    return raw, strangers


def _items(listed: Sequence[object]) -> tuple[tuple[str, ...] | None, str | None]:
    """The items of all lists given for one person, each once; and what is wrong with them."""
    found: dict[str, str] = {}
    odd = long = 0
    for one in listed:
        if isinstance(one, str):
            if not one.strip():
                return None, "is an empty text"
            one = one.split(";")
        if not isinstance(one, list):
            return None, "is not a list"
        for item in one:
            if not isinstance(item, str):
                odd += 1
            elif len(item) > 100 * LONGEST or len(phrase := clean(item)) > LONGEST:
                long += 1
            elif phrase and normal(phrase) not in _NOTHING:
                found.setdefault(phrase.casefold(), phrase)
    faults = [f"has {odd} items that are no texts"] * bool(odd) + [f"has {long} items of more than {LONGEST} characters"] * bool(long)
    return tuple(found.values()), " and ".join(faults) or None


def clean(item: str) -> str:
    """The item on one line without bullets, numbering, bold marks, quotation marks around it and punctuation after it."""
    text = " ".join(item.translate(_CONTROL).split())
    while True:
        before = text
        text = _LEAD.sub("", text).strip("*_ ").rstrip(" .,;:!").lstrip(" ,;:")
        if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
            text = text[1:-1]
        if text == before:
            return text


def _same_script(phrases: Sequence[str], story: str) -> bool:
    """Whether the phrases share a script with the story; phrases without letters do with any."""
    joined = " ".join(phrases)
    if joined.isascii() and story.isascii():
        return True
    used = _scripts(joined)
    return not used or bool(used & _scripts(story))


def _scripts(text: str) -> set[str]:
    return {_script(letter) for letter in set(text) if letter.isalpha()}


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """The first word of the character's name: LATIN, CYRILLIC, CJK, ..."""
    name = unicodedata.name(letter, "UNKNOWN").split()[0]
    return "CJK" if name in ("HIRAGANA", "KATAKANA") else name
