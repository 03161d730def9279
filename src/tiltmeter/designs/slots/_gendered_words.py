"""Nouns with a form for women, men, and people whose gender is not named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.designs.slots._forms import Pronoun


@cache
def gendered_words() -> Any:
    """Return forms for women, men and others: what a person is (`people`), or is to another (`relations`)."""
    return packaged_yaml(Path(__file__).with_name("gendered_words.yaml"))


def places_by_gender(forms: Sequence[str]) -> Mapping[Pronoun, int] | None:
    """Return the positions of the forms of a gendered noun, by the pronoun that goes with each.

    None if no known noun has these forms. Words before the noun are ignored.

    Examples
    --------
    >>> places_by_gender(["young man", "young woman"])
    {'she': 1, 'he': 0}
    >>> places_by_gender(["cat", "dog"]) is None
    True
    """
    endings = [f" {' '.join(form.lower().split())}" for form in forms]
    pronouns: Sequence[Pronoun] = ("she", "he", "they")
    for nouns in (*gendered_words()["people"], *gendered_words()["relations"]):
        places: dict[Pronoun, int] = {}
        for pronoun, noun in zip(pronouns, nouns, strict=True):
            for place, ending in enumerate(endings):
                if ending.endswith(f" {noun.lower()}"):
                    places[pronoun] = place
        if "she" in places and "he" in places and places["she"] != places["he"]:
            if "they" not in places and len(forms) == len(pronouns):
                places["they"] = ({0, 1, 2} - set(places.values())).pop()
            return places
    return None
