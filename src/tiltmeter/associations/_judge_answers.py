"""Parsing of the judge's answers: the list of concepts of each character, and errors in the answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

from tiltmeter.models._json_replies import clean_item, object_schema, read_json, without_thinking
from tiltmeter.readers._grammar import sentences

# -- the characters of a story ---------------------------------------------------------------------

_POSSESSIVE: Final = re.compile(r"(?<=\w)['’ʼ]s?\b(?!\w)")
_ARTICLE: Final = re.compile(r"^(?:an?|the) (?=.)")
_NO_WORD: Final = re.compile(r"[\W_]+")
_VOWEL_POINTS: Final = range(10, 37)
"""Combining classes of the vowel points of Hebrew, Arabic and Syriac."""
_FIRST_ACCENT: Final = 200
"""Smallest combining class of marks above and below letters."""
_UNKNOWN_PERSON: Final = "the main character"
_LEAST_SIMILARITY: Final = 0.8
"""Minimum similarity of a misspelt name to the name: one error in five letters."""
_SHORTEST_MISSPELT: Final = 4
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
    letters = [letter for letter in decomposed if not (_is_accent(letter) or _is_form(letter))]
    folded = _POSSESSIVE.sub("", "".join(letters).casefold())
    words = "".join(letter if _is_part_of_word(letter) else " " for letter in folded)
    return " ".join(words.split())


def _is_accent(letter: str) -> bool:
    """Return whether the letter is an accent or a vowel point that may be omitted.

    Vowel signs, voicing marks and tone marks of other scripts distinguish names and stay
    (combining classes 0, 7 to 9 and 84 to 199).
    """
    combining_class = unicodedata.combining(letter)
    return combining_class in _VOWEL_POINTS or combining_class >= _FIRST_ACCENT


def _is_form(letter: str) -> bool:
    """Return whether the character only selects a form of the one before it, or encloses it.

    Forms are those of emoji, and variants of Chinese characters.
    """
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
    descriptions = [person.descriptor or person.identity or _UNKNOWN_PERSON for person in people]
    names = [person.name or description for person, description in zip(people, descriptions, strict=True)]
    for candidates in (names, descriptions):
        distinct = {normal(label) or label for label in candidates}
        if len(distinct) == len(people):
            return candidates
    return []


def is_named(label: str, story: str) -> bool:
    """Return whether the story (in the form of `normal`) contains the name, with any ending ("Emilys")."""
    name = normal(label)
    return f" {name}" in f" {story}" if name.isascii() else name in story


def find(reference: str, people: Sequence[Person], story: str) -> int | None:
    """Return the index of the character that `reference` refers to.

    None if it refers to none or is ambiguous.

    These are tried in turn: the full name, descriptor or identity; a name that contains the other or is part
    of it ("Emily Carter", "Zhang, an Asian (male)"); a misspelt name, unless the story contains exactly that
    name.
    """
    label = normal(reference)
    if not label:
        return None
    for matches in (_is_called, _is_part, _is_misspelt):
        numbers = [number for number, person in enumerate(people) if matches(person, label)]
        if numbers:
            is_another_name = matches is _is_misspelt and label in normal(story).split()
            return numbers[0] if len(numbers) == 1 and not is_another_name else None
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
        return _contains_words(label, name) or _contains_words(name, label)
    return any(_contains_words(label, alias) for alias in person.aliases)


def _contains_words(text: str, part: str) -> bool:
    """Return whether a text contains a part as whole words."""
    return bool(part) and f" {part} " in f" {text} "


def _is_misspelt(person: Person, label: str) -> bool:
    """Return whether the label is a misspelling of the name.

    A letter or two may be wrong, missing, swapped or added, but not the first.
    """
    name = normal(person.name or "")
    if len(name) < _SHORTEST_MISSPELT or name[0] != label[0]:
        return False
    return bool(get_close_matches(label, [name], cutoff=_LEAST_SIMILARITY))


_FUNCTION_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """a an the and or but of to in on at for with by from as is are was were be been being has have had
        do does did not no his her their its he she they it him them who that this these those very""",
    )
)
_ENDING: Final = re.compile(r"(?<=...)(?:ingly|edly|ness|ing|ies|ied|ed|es|ly|s|y|e)$")
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
        normal_names = [normal(name) for name in names]
        self._sentences: list[_Sentence] = []
        for start, end in sentences(text):
            words = normal(text[start:end])
            named = {number for number, name in enumerate(normal_names) if _contains_words(words, name)}
            self._sentences.append(_Sentence(text[start:end], _stems(words), named))

    def showing(self, phrase: str, person: int) -> str | None:
        """Return the sentence about the character that shares the most words with the phrase.

        None if no sentence shares a word. In a tie, a sentence that names the character is preferred.
        Sentences without a name ("She ...") count as well; those that name only another character do not.
        """
        stems = _stems(normal(phrase))
        best = None
        best_rank = (0, True)
        for sentence in self._sentences:
            is_named = person in sentence.named
            if sentence.named and not is_named:
                continue
            rank = (len(stems & sentence.stems), is_named)
            if rank > best_rank:
                best, best_rank = sentence.text, rank
        return best


class _Sentence(NamedTuple):
    """A sentence with the stems of its words and the indices of the characters it names."""

    text: str
    stems: frozenset[str]
    named: set[int]


def _stems(text: str) -> frozenset[str]:
    return frozenset(_ENDING.sub("", word) for word in text.split() if word not in _FUNCTION_WORDS)


# -- the answer ------------------------------------------------------------------------------------

LONGEST: Final = 200
"""Maximum length of an item in characters. A longer one is a text, not a concept."""

_LIST_SCHEMA: Final = object_schema(
    name={"type": "string"}, concepts={"type": "array", "items": {"type": "string"}}
)
SCHEMA: Final = object_schema(characters={"type": "array", "items": _LIST_SCHEMA})
"""JSON schema of the answers."""

_DASHES: Final = "‐‒–—―−-"
_NOTHING: Final = re.compile(
    rf"[\W_]*+(?:n ?[/.\\⁄∕_{_DASHES}] ?a|n a|none(?:[ _{_DASHES}](?:mentioned|shown))?|nothing"
    rf"|not[ _{_DASHES}]mentioned"
    rf"|no[ _{_DASHES}](?:features|concepts|essential[ _{_DASHES}]features))[\W_]*",
    re.IGNORECASE,
)
"""The written forms of "none". With other punctuation between its words, a text is an item: "N: A", "no:
features"."""
_LONGEST_NAME_QUOTED: Final = 40
"""Maximum number of characters of a name that an error quotes."""

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
    text: str, people: Sequence[Person], numbers: Sequence[int], names: Sequence[str], story: str
) -> Reading:
    """Parse an answer in JSON or in the line format.

    Parameters
    ----------
    text
        The answer.
    people
        All characters of the story.
    numbers
        Indices of the characters in the question.
    names
        Names of all characters in the prompt.
    story
        Text of the story.
    """
    entries, fault = _entries_of(text, people, story)
    if not entries:
        return Reading({}, dict.fromkeys(numbers, fault), fault)
    lists_of_person, unknown_names = _by_person(entries, people, story)
    lists: dict[int, tuple[str, ...]] = {}
    faults: dict[int, str] = {}
    for number in numbers:
        if number not in lists_of_person:
            faults[number] = f"there is no list for {names[number]}"
            continue
        items, problem = _items(lists_of_person[number])
        scripts = _scripts(" ".join(items or ()))
        if scripts and not scripts & _scripts(story):
            items, problem = None, "is in another script than the story"
        if items is not None:
            lists[number] = items
        if problem:
            faults[number] = f"the list of {names[number]} {problem}"
    errors = list(faults.values())
    if unknown_names:
        quoted = ", ".join(repr(name[:_LONGEST_NAME_QUOTED]) for name in unknown_names[:3])
        errors.append(f"the answer lists {quoted}, not asked about")
    return Reading(lists, faults, "; ".join(errors) or None)


def _entries_of(text: str, people: Sequence[Person], story: str) -> tuple[Entries, str]:
    """Return the name and the list of each entry of the answer, and the error if there is none."""
    try:
        entries = _entries_of_json(read_json(text))
        fault = "the JSON of the answer holds no characters with their lists"
    except ValueError as error:
        entries = []
        fault = str(error)
    if entries:
        return entries, ""
    if len(text) > LONGEST * 100:
        return [], fault
    return _entries_of_lines(without_thinking(text), people, story), fault


def _entries_of_json(value: Any) -> Entries:
    if isinstance(value, dict) and isinstance(value.get("characters"), list | dict):
        value = value["characters"]
    if isinstance(value, dict) and (isinstance(value.get("name"), str) or "concepts" in value):
        value = [value]
    if isinstance(value, dict):
        entries: Entries = []
        for name, content in value.items():
            if isinstance(content, dict):
                entries.append((name, _joined_lists(content)))
            elif isinstance(content, list | str):
                entries.append((name, content))
        return entries
    if value and all(isinstance(item, str) for item in value):
        return [(None, value)]
    return [_entry(item) for item in value if isinstance(item, dict)]


def _entry(entry: dict[str, Any]) -> tuple[str | None, object]:
    """Return the name and the list of an object; without the key "name", the first text is the name."""
    texts = (value for value in entry.values() if isinstance(value, str))
    name = entry.get("name", next(texts, None))
    concepts = entry.get("concepts", _joined_lists(entry))
    return (name if isinstance(name, str) else None), concepts


def _joined_lists(entry: dict[str, Any]) -> object:
    """Concatenate all lists of an entry, because some models separate strengths and weaknesses."""
    lists = [value for value in entry.values() if isinstance(value, list)]
    return list(chain.from_iterable(lists)) if lists else None


def _by_person(
    entries: Entries, people: Sequence[Person], story: str
) -> tuple[dict[int, list[object]], list[str]]:
    """Return the lists of each character, and the names of others.

    The order of entries is ignored. An entry without a name is used only if it is the only one.
    """
    lists: dict[int, list[object]] = {}
    unknown_names: list[str] = []
    is_only_entry = len(entries) == len(people) == 1
    for name, content in entries:
        number = find(name, people, story) if isinstance(name, str) else name
        if number is None and is_only_entry and (name is None or people[0].name is None):
            number = 0
        if number is None:
            unknown_names.append(str(name or "a list without a name"))
        else:
            lists.setdefault(number, []).append(content)
    return lists, unknown_names


def _items(lists: Sequence[object]) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the distinct items of all lists of a character, and the error in them, if any."""
    phrases: dict[str, str] = {}
    too_long = 0
    for items in lists:
        if isinstance(items, str):
            if not items.strip():
                return None, "is an empty text"
            items = items.split(";")
        if not isinstance(items, list):
            return None, "is not a list"
        for item in items:
            phrase = _phrase_of(item)
            if phrase is None:
                too_long += 1
            elif phrase and not _says_nothing(phrase):
                phrases.setdefault(phrase.casefold(), phrase)
    fault = None
    if too_long:
        fault = f"has {too_long} items that are no texts of at most {LONGEST} characters"
    return tuple(phrases.values()), fault


def _phrase_of(item: object) -> str | None:
    """Return an item without markup; None if it is no text, or too long."""
    if not isinstance(item, str) or len(item) > 100 * LONGEST:
        return None
    phrase = clean_item(item)
    return phrase if len(phrase) <= LONGEST else None


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


_MARK: Final = re.compile(r"^(?:[-+•·*>#]+\s*+|\d{1,2}[.)]\s++)++")
_BULLET: Final = re.compile(r"^\s*+(?:[-+•·]|\*(?!\*)|\d{1,2}[.)]\s)")
_AFTER_LABEL: Final = re.compile(r" ?[:：]| [-–—] ")
_SEMICOLONS: Final = re.compile(r"[;；]")
_COMMAS: Final = re.compile(r"[,，、]")
_LONGEST_LABEL: Final = 80


def _entries_of_lines(text: str, people: Sequence[Person], story: str) -> Entries:
    """Parse the line format of the original, in the variants that models write.

    It has one line per character ("descriptor: a; b; c"). A line may begin with a bullet, a number or a
    heading mark, and its label may be bold. Below a label on a line of its own, each bullet is an item. The
    label ends at the first colon, so that items may contain colons. Items are separated by semicolons, or by
    commas if the whole answer contains no semicolon. A label without items gives no list, because the answer
    may have been truncated there. Labels of unknown characters become entries with an empty list.
    """
    lists: dict[int, list[str]] = {}
    unknown: list[str] = []
    separator = _SEMICOLONS if _SEMICOLONS.search(text) else _COMMAS
    current: int | None = None
    is_continued = False
    for line in text.splitlines():
        stripped = " ".join(line.split())
        bare = _MARK.sub("", stripped).strip()
        if not bare or bare.startswith("```"):
            continue
        is_bullet = _BULLET.match(stripped) is not None
        label, items = _label_and_items(bare)
        has_several = bool(_SEMICOLONS.search(items))
        is_item = is_bullet and current is not None and not has_several
        number = _labelled(label, items, people, story, is_bullet=is_bullet, is_item=is_item)
        if number is not None:
            current = number
            if items:
                lists.setdefault(number, []).extend(separator.split(items.strip("[]")))
        elif current is not None and (is_bullet or is_continued) and not has_several:
            lists.setdefault(current, []).extend(_SEMICOLONS.split(bare))
        else:
            current = None
            if label and has_several:
                unknown.append(label)
        is_continued = bare.endswith((";", "；"))
    entries: Entries = list(lists.items())
    entries += [(label, []) for label in unknown]
    return entries


def _label_and_items(line: str) -> tuple[str, str]:
    """Split a line at its first colon. A line without a colon is a label, unless it is too long."""
    end = _AFTER_LABEL.search(line)
    label = line[: end.start()] if end else line
    items = line[end.end() :] if end else ""
    if len(label) > _LONGEST_LABEL:
        return "", line
    return label.strip(" *_`"), items.strip(" *_")


def _labelled(
    label: str, items: str, people: Sequence[Person], story: str, *, is_bullet: bool, is_item: bool
) -> int | None:
    """Return the index of the character of a line.

    In items, which may contain a name ("supports Emily"), the label must begin with the name.
    """
    number = find(label, people, story)
    if number is None or (items and not is_item):
        return number
    words = normal(label)
    aliases = [alias for alias in people[number].aliases if _contains_words(words, alias)]
    if not aliases:
        return number
    if is_bullet and not items:
        return number if words in aliases else None
    begins_with_name = any(f"{words} ".startswith(f"{alias} ") for alias in aliases)
    return number if begins_with_name else None
