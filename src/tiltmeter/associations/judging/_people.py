"""Who is meant: the people of a story, and the names by which a judge speaks of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Person", "find", "is_named", "labels", "normal"]


class Person(NamedTuple):
    """A character of a story, by what is known of them."""

    identity: str | None
    descriptor: str | None
    name: str | None

    @property
    def aliases(self) -> list[str]:
        """Name, descriptor and identity as far as they are known, `normal`."""
        return [normal(alias) for alias in (self.name, self.descriptor, self.identity) if alias]


_POSSESSIVE = re.compile(r"(?<=\w)['’ʼ]s?\b(?!\w)")
_ARTICLE = re.compile(r"^(?:an?|the) (?=.)")
_NO_WORD = re.compile(r"[\W_]+")
_UNKNOWN = "the main character"
_LONG_ENOUGH = 4
"""Letters from which on a name may be misspelt; in shorter ones a slip makes another name (Amy, Jim, Kai)."""


def normal(text: str) -> str:
    """Lower case, without accents, possessive endings, markup and punctuation; words parted by single blanks."""
    if not text.isascii():
        text = "".join(mark for mark in unicodedata.normalize("NFKD", text) if not unicodedata.combining(mark))
    return _NO_WORD.sub(" ", _POSSESSIVE.sub("", text.casefold())).strip()


def labels(people: Sequence[Person]) -> list[str] | None:
    """What to call each of the people of one story before the judge; None where two of them cannot be told apart.

    The name where it is known: a judge that is not told the identity cannot be led by it. Where it is not, or where both have the
    same, the descriptor, else the identity.
    """
    for shown in (
        [person.name or person.descriptor or person.identity or _UNKNOWN for person in people],
        [person.descriptor or person.identity or _UNKNOWN for person in people],
    ):
        if len({normal(one) or one for one in shown}) == len(people):
            return shown
    return None


def is_named(label: str, story: str) -> bool:
    """Whether the story (made `normal`) names the person, with any ending ("Emilys")."""
    name = normal(label)
    return f" {name}" in f" {story}" if name.isascii() else name in story


def find(said: str, people: Sequence[Person], story: str) -> int | None:
    """The number of the one person that `said` means, None where it means nobody or may mean several.

    Tried in turn: the whole name, descriptor or identity; a name that holds the other or stands in it ("Emily Carter", "Zhang, an
    Asian (male)"); a slip of one letter, unless the story knows somebody of just that name.
    """
    label = normal(said)
    if not label:
        return None
    for fits in (_is_called, _is_part):
        if found := [number for number, person in enumerate(people) if fits(person, label)]:
            return found[0] if len(found) == 1 else None
    near = [number for number, person in enumerate(people) if person.name and _is_slip(normal(person.name), label)]
    return near[0] if len(near) == 1 and label not in normal(story).split() else None


def _is_called(person: Person, label: str) -> bool:
    return _ARTICLE.sub("", label) in _called(person)


@lru_cache(maxsize=4096)  # a study has a few dozen people and asks about them in each of its answers
def _called(person: Person) -> frozenset[str]:
    aliases = person.aliases
    if person.name and person.descriptor:
        aliases.append(normal(person.descriptor).removeprefix(normal(person.name)).strip())
    return frozenset(_ARTICLE.sub("", alias) for alias in aliases if alias)


def _is_part(person: Person, label: str) -> bool:
    """An identity in a label ("Sarah, a Muslim") says nothing about a person whose name is known."""
    if person.name:
        name = normal(person.name)
        return _holds(label, name) or _holds(name, label)
    return any(_holds(label, alias) for alias in person.aliases)


def _holds(text: str, words: str) -> bool:
    return bool(words) and f" {words} " in f" {text} "


def _is_slip(name: str, label: str) -> bool:
    """One letter too many or too few, or two neighbours exchanged; in names of five letters or more also one letter for another."""
    if len(name) < _LONG_ENOUGH or name[0] != label[0]:
        return False
    shorter = min(len(name), len(label))
    start = next((at for at in range(shorter) if name[at] != label[at]), shorter)
    a, b = name[start:], label[start:]
    if len(a) != len(b):
        return a[1:] == b or a == b[1:]
    return (a[:2] == b[:2][::-1] and a[2:] == b[2:]) or (len(name) > _LONG_ENOUGH and a[1:] == b[1:])
