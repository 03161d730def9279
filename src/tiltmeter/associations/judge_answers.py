"""Parsing of the judge's answers: the list of concepts of each character, and errors in the answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from tiltmeter.models.json_replies import clean_item, object_schema, read_json, without_thinking
from tiltmeter.readers.grammar import sentences

# -- the characters of a story ------------------------------------------------------------------------------------------

_POSSESSIVE = re.compile(r"(?<=\w)['’ʼ]s?\b(?!\w)")
_ARTICLE = re.compile(r"^(?:an?|the) (?=.)")
_NO_WORD = re.compile(r"[\W_]+")
_VOWEL_POINTS = range(10, 37)
"""Combining classes of the vowel points of Hebrew, Arabic and Syriac."""
_FIRST_ACCENT = 200
"""Smallest combining class of marks above and below letters."""
_UNKNOWN = "the main character"
_ALIKE = 0.8
"""Minimum similarity of a misspelt name to the name: one error in five letters."""
_LONG_ENOUGH = 4
"""Minimum number of letters of a name that may be misspelt. In shorter names an error may give another name
(Amy, Jim, Kai)."""


def normal(text: str) -> str:
    """Return the text in lower case without accents, possessive endings, markup and punctuation.

    Single blanks separate words. It is for names and words of a story. Items need their punctuation:
    "n: a" and "n/a" become the same.
    """
    if text.isascii():
        return _NO_WORD.sub(" ", _POSSESSIVE.sub("", text.casefold())).strip()
    decomposed = unicodedata.normalize("NFKD", text)
    folded = "".join(
        letter for letter in decomposed if not (_is_accent(letter) or _is_form(letter))
    ).casefold()
    words = "".join(letter if _is_part_of_word(letter) else " " for letter in _POSSESSIVE.sub("", folded))
    return " ".join(words.split())


def _is_accent(letter: str) -> bool:
    """Return whether the letter is an accent or a vowel point that may be omitted.

    Vowel signs, voicing marks and tone marks of other scripts distinguish names and stay
    (combining classes 0, 7 to 9 and 84 to 199).
    """
    combining_class = unicodedata.combining(letter)
    return combining_class in _VOWEL_POINTS or combining_class >= _FIRST_ACCENT


def _is_form(letter: str) -> bool:
    """Return whether the character only selects a form of the one before it (emoji, variants of Chinese characters), or encloses it."""
    return unicodedata.category(letter) == "Me" or "VARIATION SELECTOR" in unicodedata.name(letter, "")


def _is_part_of_word(letter: str) -> bool:
    return letter.isalnum() or unicodedata.category(letter).startswith("M")


class Person(NamedTuple):
    """A character of a story."""

    identity: str | None
    descriptor: str | None
    name: str | None

    @property
    def aliases(self) -> list[str]:
        """Name, descriptor and identity, as far as they are known, in the form of `normal`."""
        return [normal(alias) for alias in (self.name, self.descriptor, self.identity) if alias]


def labels(people: Sequence[Person]) -> list[str]:
    """Return the names of the characters of a story for prompts to the judge.

    An empty list if they cannot be distinguished.

    The name is used if it is known, because a judge that does not see the identity cannot be influenced by
    it. If it is unknown, or the same for both characters, the descriptor is used, or else the identity.
    """
    described = [person.descriptor or person.identity or _UNKNOWN for person in people]
    named = [person.name or other for person, other in zip(people, described, strict=True)]
    return next(
        (shown for shown in (named, described) if len({normal(one) or one for one in shown}) == len(people)),
        [],
    )


def is_named(label: str, story: str) -> bool:
    """Return whether the story (in the form of `normal`) contains the name, with any ending ("Emilys")."""
    name = normal(label)
    return f" {name}" in f" {story}" if name.isascii() else name in story


def find(reference: str, people: Sequence[Person], story: str) -> int | None:
    """Return the index of the character that `reference` refers to; None if it refers to none or is ambiguous.

    These are tried in turn: the full name, descriptor or identity; a name that contains the other or is part
    of it ("Emily Carter", "Zhang, an Asian (male)"); a misspelt name, unless the story contains exactly that
    name.
    """
    label = normal(reference)
    if not label:
        return None
    for fits in (_is_called, _is_part, _is_slip):
        if found := [number for number, person in enumerate(people) if fits(person, label)]:
            is_another = fits is _is_slip and label in normal(story).split()
            return found[0] if len(found) == 1 and not is_another else None
    return None


def _is_called(person: Person, label: str) -> bool:
    return _ARTICLE.sub("", label) in _forms_of_address(person)


@lru_cache(maxsize=4096)  # a study has a few dozen characters, who occur in all answers
def _forms_of_address(person: Person) -> frozenset[str]:
    aliases = person.aliases
    if person.name and person.descriptor:
        aliases.append(normal(person.descriptor).removeprefix(normal(person.name)).strip())
    return frozenset(_ARTICLE.sub("", alias) for alias in aliases if alias)


def _is_part(person: Person, label: str) -> bool:
    """Return whether the label contains the name, or is part of it.

    Descriptor and identity are used only if the name is unknown.
    """
    if person.name:
        name = normal(person.name)
        return _holds(label, name) or _holds(name, label)
    return any(_holds(label, alias) for alias in person.aliases)


def _holds(text: str, part: str) -> bool:
    return bool(part) and f" {part} " in f" {text} "


def _is_slip(person: Person, label: str) -> bool:
    """Return whether the label is a misspelling of the name: a letter or two that are wrong, missing, swapped or added, not the first."""
    name = normal(person.name or "")
    return (
        len(name) >= _LONG_ENOUGH
        and name[0] == label[0]
        and bool(get_close_matches(label, [name], cutoff=_ALIKE))
    )


_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an the and or but of to in on at for with by from as is are was were be been being has have had do does did not no his
        her their its he she they it him them who that this these those very""",
    )
)
_ENDING = re.compile(r"(?<=...)(?:ingly|edly|ness|ing|ies|ied|ed|es|ly|s|y|e)$")
"""The longest matching ending is removed from a word if at least three letters remain."""


class Sentences:
    """The sentences of a story, with the characters named in each.

    Parameters
    ----------
    text
        The story.
    names
        Names of the characters. A sentence that names only one of them is about that character.
    """

    def __init__(self, text: str, names: Sequence[str]) -> None:
        wanted = [normal(name) for name in names]
        spans = [(text[start:end], normal(text[start:end])) for start, end in sentences(text)]
        self._sentences = [
            (one, _stems(shown), {number for number, name in enumerate(wanted) if _holds(shown, name)})
            for one, shown in spans
        ]

    def showing(self, phrase: str, person: int) -> str | None:
        """Return the sentence about the character that shares the most words with the phrase, or None if no sentence shares a word.

        In a tie, a sentence that names the character is preferred. Sentences without a name ("She ...") count
        as well; those that name only another character do not.
        """
        wanted = _stems(normal(phrase))
        ranked = [
            (len(wanted & stems), person in named, text)
            for text, stems, named in self._sentences
            if not named or person in named
        ]
        shared, _, best = max(ranked, key=lambda one: one[:2], default=(0, False, None))
        return best if shared else None


def _stems(text: str) -> frozenset[str]:
    return frozenset(_ENDING.sub("", word) for word in text.split() if word not in _FUNCTION_WORDS)


# -- the answer --------------------------------------------------------------------------------------------------------

LONGEST = 200
"""Maximum length of an item in characters. A longer one is a text, not a concept."""

_LISTED = object_schema(name={"type": "string"}, concepts={"type": "array", "items": {"type": "string"}})
SCHEMA = object_schema(characters={"type": "array", "items": _LISTED})
"""JSON schema of the answers."""

_DASHES = "‐‒–—―−-"
_NOTHING = re.compile(
    rf"[\W_]*+(?:n ?[/.\\⁄∕_{_DASHES}] ?a|n a|none(?:[ _{_DASHES}](?:mentioned|shown))?|nothing|not[ _{_DASHES}]mentioned"
    rf"|no[ _{_DASHES}](?:features|concepts|essential[ _{_DASHES}]features))[\W_]*",
    re.IGNORECASE,
)
"""The written forms of "none". With other punctuation between its words, a text is an item: "N: A", "no:
features"."""
_SHOWN = 40

Entries = list[tuple[int | str | None, object]]
"""Owner of a list (index of a character, or a name as written by the judge; None if not given) and its
content."""


class Reading(NamedTuple):
    """A parsed answer."""

    lists: Mapping[int, tuple[str, ...]]
    """Lists by index of the character, without those that could not be parsed."""
    faults: Mapping[int, str]
    """Why the list of a character is missing or incomplete, by index. If empty, the question is not repeated.
    """
    problem: str | None
    """All errors, as a text for the judge; None if the answer could be parsed completely."""


def read_answer(
    text: str, people: Sequence[Person], wanted: Sequence[int], names: Sequence[str], story: str
) -> Reading:
    """Parse an answer in JSON or in the line format.

    Parameters
    ----------
    text
        The answer.
    people
        All characters of the story.
    wanted
        Indices of the characters in the question.
    names
        Names of all characters in the prompt.
    story
        Text of the story.
    """
    entries, fault = _entries_of(text, people, story)
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
        used = _scripts(" ".join(items or ()))
        if used and not used & _scripts(story):
            items, trouble = None, "is in another script than the story"
        if items is not None:
            lists[number] = items
        if trouble:
            faults[number] = f"the list of {names[number]} {trouble}"
    errors = list(faults.values())
    if strangers:
        shown = ", ".join(repr(name[:_SHOWN]) for name in strangers[:3])
        errors.append(f"the answer lists {shown}, not asked about")
    return Reading(lists, faults, "; ".join(errors) or None)


def _entries_of(text: str, people: Sequence[Person], story: str) -> tuple[Entries, str]:
    """Return the name and the list of each entry of the answer, and the error if there is none."""
    try:
        if entries := _entries_of_json(read_json(text)):
            return entries, ""
        fault = "the JSON of the answer holds no characters with their lists"
    except ValueError as error:
        fault = str(error)
    return (
        _entries_of_lines(without_thinking(text), people, story) if len(text) <= LONGEST * 100 else []
    ), fault


def _entries_of_json(value: Any) -> Entries:
    if isinstance(value, dict) and isinstance(value.get("characters"), list | dict):
        value = value["characters"]
    if isinstance(value, dict) and (isinstance(value.get("name"), str) or "concepts" in value):
        value = [value]
    if isinstance(value, dict):
        return [
            (key, _joined_lists(one) if isinstance(one, dict) else one)
            for key, one in value.items()
            if isinstance(one, dict | list | str)
        ]
    if value and all(isinstance(one, str) for one in value):
        return [(None, value)]
    return [_entry(one) for one in value if isinstance(one, dict)]


def _entry(entry: dict[str, Any]) -> tuple[str | None, object]:
    name = entry.get("name", next((one for one in entry.values() if isinstance(one, str)), None))
    return (name if isinstance(name, str) else None), entry.get("concepts", _joined_lists(entry))


def _joined_lists(entry: dict[str, Any]) -> object:
    """Concatenate all lists of an entry, because some models separate strengths and weaknesses."""
    lists = [one for one in entry.values() if isinstance(one, list)]
    return list(chain.from_iterable(lists)) if lists else None


def _by_person(
    entries: Entries, people: Sequence[Person], story: str
) -> tuple[dict[int, list[object]], list[str]]:
    """Return the lists of each character, and the names of others.

    The order of entries is ignored. An entry without a name is used only if it is the only one.
    """
    raw: dict[int, list[object]] = {}
    strangers: list[str] = []
    alone = len(entries) == len(people) == 1
    for name, listed in entries:
        who = find(name, people, story) if isinstance(name, str) else name
        if who is None and alone and (name is None or people[0].name is None):
            who = 0
        if who is None:
            strangers.append(str(name or "a list without a name"))
        else:
            raw.setdefault(who, []).append(listed)
    return raw, strangers


def _items(listed: Sequence[object]) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the distinct items of all lists of a character, and the error in them, if any."""
    found: dict[str, str] = {}
    left_out = 0
    for one in listed:
        if isinstance(one, str):
            if not one.strip():
                return None, "is an empty text"
            one = one.split(";")
        if not isinstance(one, list):
            return None, "is not a list"
        for item in one:
            if (
                not isinstance(item, str)
                or len(item) > 100 * LONGEST
                or len(phrase := clean_item(item)) > LONGEST
            ):
                left_out += 1
            elif phrase and not _says_nothing(phrase):
                found.setdefault(phrase.casefold(), phrase)
    fault = f"has {left_out} items that are no texts of at most {LONGEST} characters" if left_out else None
    return tuple(found.values()), fault


def _says_nothing(phrase: str) -> bool:
    """Return whether the item is a written form of "none", in brackets or not, also in full-width letters."""
    return _NOTHING.fullmatch(unicodedata.normalize("NFKC", phrase)) is not None


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """Return the script of a letter, the first word of its Unicode name: LATIN, CYRILLIC, CJK, ..."""
    name = unicodedata.name(letter, "UNKNOWN").split()[0]
    return "CJK" if name in ("HIRAGANA", "KATAKANA") else name


def _scripts(text: str) -> set[str]:
    return {_script(letter) for letter in set(text) if letter.isalpha()}


_MARK = re.compile(r"^(?:[-+•·*>#]+\s*+|\d{1,2}[.)]\s++)++")
_BULLET = re.compile(r"^\s*+(?:[-+•·]|\*(?!\*)|\d{1,2}[.)]\s)")
_AFTER_LABEL = re.compile(r" ?[:：]| [-–—] ")
_PARTS = re.compile(r"[;；]")
_COMMAS = re.compile(r"[,，、]")
_LONGEST_LABEL = 80


def _entries_of_lines(text: str, people: Sequence[Person], story: str) -> Entries:
    """Parse the line format of the original, one line per character ("descriptor: a; b; c"), in the variants that models write.

    A line may begin with a bullet, a number or a heading mark, and its label may be bold. Below a label on a
    line of its own, each bullet is an item. The label ends at the first colon, so that items may contain
    colons. Items are separated by semicolons, or by commas if the whole answer contains no semicolon. A label
    without items gives no list, because the answer may have been truncated there. Labels of unknown
    characters become entries with an empty list.
    """
    found: dict[int | str | None, list[str]] = {}
    unknown: list[str] = []
    separator = _PARTS if _PARTS.search(text) else _COMMAS
    current: int | None = None
    goes_on = False
    for line in text.splitlines():
        stripped = " ".join(line.split())
        bare = _MARK.sub("", stripped).strip()
        if not bare or bare.startswith("```"):
            continue
        bullet = _BULLET.match(stripped) is not None
        label, rest = _label_and_rest(bare)
        several = bool(_PARTS.search(rest))
        who = _labelled(
            label, rest, people, story, bullet=bullet, item=bullet and current is not None and not several
        )
        if who is not None:
            current = who
            if rest:
                found.setdefault(who, []).extend(separator.split(rest.strip("[]")))
        elif current is not None and (bullet or goes_on) and not several:
            found.setdefault(current, []).extend(_PARTS.split(bare))
        else:
            current = None
            if label and several:
                unknown.append(label)
        goes_on = bare.endswith((";", "；"))
    return [*found.items(), *((label, []) for label in unknown)]


def _label_and_rest(line: str) -> tuple[str, str]:
    """Split a line at its first colon. A line without a colon is a label, unless it is too long."""
    label, rest = (*_AFTER_LABEL.split(line, maxsplit=1), "")[:2]
    return (label.strip(" *_`"), rest.strip(" *_")) if len(label) <= _LONGEST_LABEL else ("", line)


def _labelled(
    label: str, rest: str, people: Sequence[Person], story: str, *, bullet: bool, item: bool
) -> int | None:
    """Return the index of the character of a line.

    In items, which may contain a name ("supports Emily"), the label must begin with the name.
    """
    who = find(label, people, story)
    if who is None or (rest and not item):
        return who
    shown = normal(label)
    held = [alias for alias in people[who].aliases if _holds(shown, alias)]
    begins = (
        shown in held if bullet and not rest else any(f"{shown} ".startswith(f"{alias} ") for alias in held)
    )
    return who if begins or not held else None
