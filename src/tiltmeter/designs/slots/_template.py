"""Slots of a marked prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from tiltmeter.designs.slots._forms import Case, Pronoun, case_of, is_agreement, is_pronoun
from tiltmeter.errors import InputError, did_you_mean

SLOT: Final = re.compile(
    r"\{\{(?P<by_group>[^{}\":\n]*/[^{}\":\n]*)\}\}|\{(?P<single>[\w '’/-]*[^\W\d_][\w '’/-]*)\}"
)
"""A slot with forms by group, or one with a field or forms by pronoun."""
_NAME: Final = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSlot:
    """A slot that is filled from a list: `{first_name}`."""

    source: str
    """The slot as written, with its braces."""
    start: int
    end: int
    field: str
    capital: bool
    """Whether the value gets a capital first letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PronounSlot:
    """A slot with forms of a pronoun: `{he/she/they}`."""

    source: str
    start: int
    end: int
    case: Case
    forms: tuple[str, ...]
    positions: Mapping[Pronoun, int]
    """Positions of the forms of each pronoun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbSlot:
    """A slot with the forms of a verb that follow "she" and "they": `{works/work}`."""

    source: str
    start: int
    end: int
    singular: str
    plural: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleSlot:
    """The slot `{a/an}`."""

    source: str
    start: int
    end: int
    capital: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSlot:
    """A slot with a form for each group: `{{waitress/waiter}}`."""

    source: str
    start: int
    end: int
    forms: tuple[str, ...]


Slot: TypeAlias = FieldSlot | PronounSlot | VerbSlot | ArticleSlot | GroupSlot


@dataclass(frozen=True)
class Template:
    """A marked prompt."""

    prompt: str
    slots: tuple[Slot, ...]

    @cached_property
    def fields(self) -> frozenset[str]:
        """Names of the fields that the prompt uses."""
        return frozenset(slot.field for slot in self.slots if isinstance(slot, FieldSlot))

    @cached_property
    def has_pronouns(self) -> bool:
        """Whether the prompt has slots of pronouns or of verbs that agree with them."""
        return any(isinstance(slot, PronounSlot | VerbSlot) for slot in self.slots)

    @cached_property
    def group_slots(self) -> tuple[GroupSlot, ...]:
        """Slots with a form for each group."""
        return tuple(slot for slot in self.slots if isinstance(slot, GroupSlot))

    def before(self, index: int) -> str:
        """Return the text between a slot and the slot before it."""
        start = self.slots[index - 1].end if index else 0
        return self.prompt[start : self.slots[index].start]

    def after(self, index: int) -> str:
        """Return the text between a slot and the next slot."""
        is_last = index == len(self.slots) - 1
        end = len(self.prompt) if is_last else self.slots[index + 1].start
        return self.prompt[self.slots[index].end : end]


def names_in(prompt: str) -> Iterator[str]:
    """Yield what is in single braces in a prompt and may be the name of a field, in lower case."""
    for match in SLOT.finditer(prompt):
        name = (match["single"] or "").strip()
        if name and "/" not in name:
            yield name.lower()


def parse(prompt: str, fields: Sequence[str]) -> Template:
    """Find the slots of a prompt.

    Other braces, such as those of JSON, are text. So is an unknown word between braces and blanks
    (`{ word }`).

    Parameters
    ----------
    fields
        Names of the fields that slots may have. A slot whose name has a capital that the field has not gets a
        value with a capital.

    Raises
    ------
    InputError
        A slot has an unknown name, or its forms do not belong together.

    Examples
    --------
    >>> template = parse('{Name} says {he/she/they} {is/are} {"ready": 1}.', ["name"])
    >>> [slot.source for slot in template.slots]
    ['{Name}', '{he/she/they}', '{is/are}']
    """
    slots: list[Slot] = []
    for match in SLOT.finditer(prompt):
        slot = _slot_of(match, fields)
        if slot is not None:
            slots.append(slot)
    return Template(prompt, tuple(slots))


def _slot_of(match: re.Match[str], fields: Sequence[str]) -> Slot | None:
    """Return the slot that a match means; None if it is text."""
    source = match[0]
    start, end = match.span()
    if match["by_group"] is not None:
        return GroupSlot(source=source, start=start, end=end, forms=tuple(match["by_group"].split("/")))
    content = match["single"]
    name = content.strip()
    if name.lower() in [field.lower() for field in fields]:
        is_capital = name[0].isupper() and name not in fields
        return FieldSlot(source=source, start=start, end=end, field=name.lower(), capital=is_capital)
    if "/" not in name:
        if content == name and _NAME.fullmatch(name):
            raise InputError(
                f"unknown slot {source}: {did_you_mean(name.lower(), list(fields))}; write {{ {name} }} with"
                " blanks if the braces are part of the text"
            )
        return None
    forms = tuple(form.strip() for form in name.split("/"))
    words = [form.lower().replace("’", "'") for form in forms]
    if sorted(words) == ["a", "an"]:
        return ArticleSlot(source=source, start=start, end=end, capital=forms[0][0].isupper())
    pronouns = case_of(words)
    if pronouns is not None:
        case, positions = pronouns
        return PronounSlot(source=source, start=start, end=end, case=case, forms=forms, positions=positions)
    if len(words) == 2:
        for singular, plural in ((0, 1), (1, 0)):
            if is_agreement(words[singular], words[plural]):
                return VerbSlot(
                    source=source, start=start, end=end, singular=forms[singular], plural=forms[plural]
                )
    raise InputError(_unknown_forms(source, words))


def _unknown_forms(source: str, words: Sequence[str]) -> str:
    """Return the sentence about a slot whose forms do not belong together."""
    if all(map(is_pronoun, words)):
        return (
            f"the pronouns in {source} are not the same case; write one of {{he/she/they}}, {{him/her/them}},"
            " {his/her/their}, {his/hers/theirs}, {himself/herself/themself}, {he's/she's/they're}"
        )
    return (
        f"the slot {source} has neither pronouns, such as {{he/she/they}}, nor the forms of a verb after she"
        f" and after they, such as {{works/work}}; write {{{source}}} for forms by group"
    )
