"""Nouns with a form for women, men, and people whose gender is not named."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.designs.slots._forms import Pronoun

_PRONOUNS: Final[Sequence[Pronoun]] = ("she", "he", "they")
"""Pronouns in the order of the forms of gendered words."""


@cache
def gendered_words() -> Any:
    """Return forms for women, men and others: what a person is (`people`), or is to another (`relations`)."""
    return packaged_yaml(Path(__file__).with_name("gendered_words.yaml"))


def places_by_gender(forms: Sequence[str]) -> Mapping[Pronoun, int] | None:
    """Return the positions of the forms of a gendered noun, by the pronoun that goes with each.

    None if no noun for a person has these forms. Words before the noun are ignored.

    Examples
    --------
    >>> places_by_gender(["young man", "young woman"])
    {'she': 1, 'he': 0}
    >>> places_by_gender(["cat", "dog"]) is None
    True
    """
    for nouns in gendered_words()["people"]:
        places: dict[Pronoun, int] = {}
        for pronoun, noun in zip(_PRONOUNS, nouns, strict=True):
            for place, form in enumerate(forms):
                if _ends_in(form, noun):
                    places[pronoun] = place
        if "she" in places and "he" in places and places["she"] != places["he"]:
            if "they" not in places and len(forms) == len(_PRONOUNS):
                places["they"] = ({0, 1, 2} - set(places.values())).pop()
            return places
    return None


def pronoun_of_words(text: str) -> Pronoun | None:
    """Return the pronoun that goes with a gendered noun or title in a text; None if it has none, or several.

    Examples
    --------
    >>> pronoun_of_words("a Muslim woman"), pronoun_of_words("a nurse")
    ('she', None)
    """
    words = set(re.findall(r"[\w-]+", text.lower()))
    pronouns: set[Pronoun] = set()
    for female, male, _ in gendered_words()["people"]:
        if female.lower().rstrip(".") in words:
            pronouns.add("she")
        if male.lower().rstrip(".") in words:
            pronouns.add("he")
    return pronouns.pop() if len(pronouns) == 1 else None


def is_relation(forms: Sequence[str]) -> bool:
    """Return whether forms are nouns for what a person is to another: {{mother/father}}.

    Their order is that of the groups: for men, the form may be "wife".
    """
    for female, male, _ in gendered_words()["relations"]:
        has_female = any(_ends_in(form, female) for form in forms)
        if has_female and any(_ends_in(form, male) for form in forms):
            return True
    return False


def _ends_in(form: str, noun: str) -> bool:
    return f" {' '.join(form.lower().split())}".endswith(f" {noun.lower()}")
