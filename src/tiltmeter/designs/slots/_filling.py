"""Filling of the slots of a prompt, with agreement."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tiltmeter.designs.articles import takes_an
from tiltmeter.designs.slots._forms import PRONOUNS
from tiltmeter.designs.slots._gendered_words import is_relation, places_by_gender
from tiltmeter.designs.slots._lists import GENDERS
from tiltmeter.designs.slots._people import Person
from tiltmeter.designs.slots._swap import Identities, Identity
from tiltmeter.designs.slots._template import (
    ArticleSlot,
    FieldSlot,
    GroupSlot,
    PronounSlot,
    Slot,
    Template,
    VerbSlot,
)
from tiltmeter.errors import InputError

_SENTENCE_START: Final = re.compile(r"(?:^|[.!?…][\"'”’)\]]*\s+|\n[^\S\n]*\n\s*)[\"'“‘(\[*#>-]*\s?$")
_ABBREVIATION: Final = re.compile(
    r"\b(?:e\.g|i\.e|etc|vs|cf|approx|no|Dr|Mr|Mrs|Ms|Mx|Prof|St)\.\s+$", re.IGNORECASE
)
_CLAUSE: Final = re.compile(r"\swho\s")
_SECOND_CLAUSE: Final = re.compile(r"\s+(?:who|whose)\b")
"""A relative clause after a description that ends in one: "a woman who uses a wheelchair and who ..."."""
_WORD: Final = re.compile(r"[^\s\"'“‘(*_]\S*")
_NEAR: Final = 40
"""Characters before a slot that are searched for the beginning of a sentence."""


def fill(template: Template, person: Person, identities: Identities) -> tuple[str, list[str]]:
    """Return a prompt with its slots filled, and the content of each slot."""
    contents: list[str] = []
    near = ""
    for index, slot in enumerate(template.slots):
        near = (near + template.before(index))[-_NEAR:]
        content = _content(slot, person, identities, near, template.after(index))
        contents.append(content)
        near += content
    return _with_articles(template, contents), contents


def _content(slot: Slot, person: Person, identities: Identities, before: str, after: str) -> str:
    """Return the content of a slot; that of an article is decided later."""
    if isinstance(slot, PronounSlot):
        return _pronoun(slot, person)
    if isinstance(slot, VerbSlot):
        return slot.plural if person.pronoun == "they" else slot.singular
    if isinstance(slot, GroupSlot):
        position = _place_by_pronoun(slot, person, identities)
        return slot.forms[_place(slot, person.identity, identities) if position is None else position]
    if isinstance(slot, FieldSlot):
        content = person.contents[slot.field]
        begins = slot.field == "person" and _begins_sentence(before)
        if _CLAUSE.search(content) and _SECOND_CLAUSE.match(after):
            content = f"{content} and"
        return content[:1].upper() + content[1:] if slot.capital or begins else content
    return ""


def _begins_sentence(before: str) -> bool:
    return _SENTENCE_START.search(before) is not None and _ABBREVIATION.search(before) is None


def _pronoun(slot: PronounSlot, person: Person) -> str:
    """Return the form of a pronoun: the author's own, or the usual one with the author's capitals."""
    position = slot.positions.get(person.pronoun)
    if position is not None:
        return slot.forms[position]
    form = PRONOUNS[slot.case][person.pronoun][0]
    written = slot.forms[0]
    if written.isupper() and len(written) > 1:
        return form.upper()
    return form[0].upper() + form[1:] if written[0].isupper() else form


def _place_by_pronoun(slot: GroupSlot, person: Person, identities: Identities) -> int | None:
    """Return the position of the form of a gendered noun, which agrees with the pronouns; None for others."""
    if identities.are_variants:
        return None
    places = places_by_gender(slot.forms)
    if places is None and "gender" not in identities.groups and is_relation(slot.forms):
        place = list(GENDERS).index(person.pronoun)
        return place if place < len(slot.forms) else None
    return None if places is None else places.get(person.pronoun)


def _place(slot: GroupSlot, identity: Identity, identities: Identities) -> int:
    """Return the position of the form of an identity.

    Raises
    ------
    InputError
        The number of forms is that of no attribute's groups, or of several attributes' groups.
    """
    count = len(slot.forms)
    places: dict[str, int] = {}
    for attribute, groups in identities.groups.items():
        if len(groups) == count:
            places[attribute] = list(groups).index(identity.groups[attribute])
        elif len(identities.listed.get(attribute, ())) == count and attribute in identity.places:
            places[attribute] = identity.places[attribute]
    if len(identities.groups) > 1 and len(identities.identities) == count:
        places[",".join(identities.groups)] = list(identities.identities).index(identity)
    if len(places) == 1:
        return next(iter(places.values()))
    numbers = [
        f"{name} has {len(groups)} ({', '.join(groups)})" for name, groups in identities.groups.items()
    ]
    if places:
        raise InputError(
            f"{slot.source} has {count} forms, which may be those of {' or '.join(places)}; swap one"
            " attribute at a time, or write a table with a column for these words"
        )
    raise InputError(
        f"{slot.source} has {count} forms for other numbers of groups: {'; '.join(numbers)}. Write a form for"
        f" each group, or select groups{_selection(identities)}"
    )


def _selection(identities: Identities) -> str:
    if "gender" in identities.listed:
        return ": --swap gender:women/men"
    return " in --swap" if identities.listed else " in your table"


def _with_articles(template: Template, contents: list[str]) -> str:
    """Return the filled prompt; articles depend on the word that follows them."""
    pieces: list[str] = []
    for index, slot in enumerate(template.slots):
        if isinstance(slot, ArticleSlot):
            article = "an" if takes_an(_following_word(template, contents, index)) else "a"
            contents[index] = article.capitalize() if slot.capital else article
        pieces += [template.before(index), contents[index]]
    last = len(template.slots) - 1
    return "".join([*pieces, template.after(last)])


def _following_word(template: Template, contents: Sequence[str], index: int) -> str:
    """Return the word after a slot, in the text or in the slots after it."""
    for position in range(index, len(template.slots)):
        content = contents[position] if position > index else ""
        word = _WORD.search(content + template.after(position))
        if word is not None:
            return word[0]
    return ""
