"""Built-in groups: their names, and what a slot says about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.designs.first_names import FIRST_NAMES
from tiltmeter.designs.slots._forms import Pronoun

FIELDS: Final = (
    "person",
    "title",
    "first_name",
    "last_name",
    "name",
    "full_name",
    "pronouns",
    "age",
    "race",
    "nationality",
    "country",
    "religion",
)
"""Fields that are filled from the built-in lists."""
NAMES: Final = ("name", "full_name", "first_name", "last_name")
"""Fields with a name."""
GENDERS: Final[Mapping[Pronoun, str]] = {"she": "women", "he": "men", "they": "nonbinary people"}
"""Group of gender of each pronoun."""
_FOLDER: Final = Path(__file__).with_name("lists")
_FIRST_LISTS: Final = ("gender", "race", "age", "nationality", "religion", "disability")
_FILES: Final = sorted(path.stem for path in _FOLDER.glob("*.yaml") if path.stem != "names")
LISTS: Final = tuple(dict.fromkeys((*_FIRST_LISTS, *_FILES)))
"""Attributes with built-in groups: each is a file of the folder `lists`."""


@dataclass(frozen=True, slots=True)
class GroupList:
    """The groups of an attribute.

    Attributes
    ----------
    origin
        Where groups and terms come from, for reports.
    groups
        What slots say about each group: `noun`, `adjective`, `phrase` after the noun, `country`, `pronouns`,
        `title`.
    """

    attribute: str
    origin: str
    groups: Mapping[str, Mapping[str, str]]


@cache
def built_in_list(attribute: str) -> GroupList:
    """Return the built-in groups of an attribute."""
    content = packaged_yaml(_FOLDER / f"{attribute}.yaml")
    return GroupList(attribute, content["origin"].strip(), content["groups"])


def first_names(pronoun: Pronoun, race: str | None = None) -> Sequence[str]:
    """Return the first names that signal a gender and, unless it is None, a race."""
    gender = GENDERS[pronoun]
    if race is None and gender in FIRST_NAMES:
        return FIRST_NAMES[gender]
    names: Sequence[str] = _names()["first_names"][race or "any"][gender]
    return names


def last_names(race: str | None = None) -> Sequence[str]:
    """Return frequent last names, or those that signal a race."""
    names: Sequence[str] = _names()["last_names"][race or "any"]
    return names


def all_first_names() -> frozenset[str]:
    """Return the first names of all lists."""
    by_race = [names for lists in _names()["first_names"].values() for names in lists.values()]
    return frozenset().union(*by_race, *FIRST_NAMES.values())


def all_last_names() -> frozenset[str]:
    """Return the last names of all lists."""
    return frozenset().union(*_names()["last_names"].values())


def _names() -> Any:
    """Return names by race, and then by gender for first names."""
    return packaged_yaml(_FOLDER / "names.yaml")
