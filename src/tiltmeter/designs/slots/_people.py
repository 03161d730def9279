"""What slots say about a person: names and descriptions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tiltmeter.designs.articles import takes_an
from tiltmeter.designs.slots._forms import Pronoun
from tiltmeter.designs.slots._lists import GENDERS, NAMES, built_in_list, first_names, last_names
from tiltmeter.designs.slots._swap import Identity, pronoun_of_row
from tiltmeter.errors import InputError

_ORDER: Final = ("disability", "gender", "race", "nationality", "religion")
"""Attributes in the order of their adjectives: "an autistic nonbinary Asian Christian person".

Others follow.
"""


@dataclass(slots=True)
class Draws:
    """Draws from lists: each value of a list is drawn once before any is drawn again.

    Parameters
    ----------
    seed
        Seed of the random order. Draws from one list do not depend on those from another.
    """

    seed: int
    _remaining: dict[str, list[int]] = field(default_factory=dict)
    _generators: dict[str, Random] = field(default_factory=dict)

    def position(self, name: str, count: int) -> int:
        """Return the position of the next value of a list with `count` values."""
        remaining = self._remaining.setdefault(name, [])
        if not remaining:
            generator = self._generators.setdefault(name, Random(f"{self.seed}/{name}"))
            remaining.extend(generator.sample(range(count), count))
        return remaining.pop()

    def value(self, name: str, values: Sequence[str], without: Collection[str] = ()) -> str:
        """Return the next value of a list that is not in `without`; the next value if all are."""
        skipped: list[int] = []
        position = self.position(name, len(values))
        while values[position] in without and len(skipped) < len(values):
            skipped.append(position)
            position = self.position(name, len(values))
        returned = [skip for skip in dict.fromkeys(skipped) if skip != position]
        remaining = self._remaining[name]
        remaining.extend(skip for skip in returned if skip not in remaining)
        return values[position]


@dataclass(slots=True)
class MatchedSet:
    """The people of a matched set: one for each identity.

    What is not swapped is drawn once, so that it is the same for all identities.

    Parameters
    ----------
    draws
        Where values are drawn from.
    fields
        Names of the fields that the prompt uses.
    has_gendered_words
        Whether the prompt has pronouns, titles or gendered nouns, with which names must agree.
    """

    draws: Draws
    fields: frozenset[str]
    has_gendered_words: bool
    _drawn: dict[str, str] = field(default_factory=dict)

    def person(self, identity: Identity) -> Person:
        """Return the person of an identity.

        Raises
        ------
        InputError
            The prompt has pronouns, and a user's table has names but does not say which go with them.
        """
        row = self._row_of(identity)
        contents = {name.lower(): value for name, value in row.items()}
        known_pronoun = _pronoun_of(identity, row)
        of_first_names = {"first_name", "name", "full_name"}
        uses_names = not self.fields.isdisjoint(of_first_names)
        has_own_name = uses_names and not of_first_names.isdisjoint(contents)
        if known_pronoun is None and has_own_name and self.has_gendered_words:
            raise InputError(
                "it has pronouns or gendered words, and the table does not say which go with its names; add a"
                " column pronouns with she, he or they"
            )
        pronoun = known_pronoun or self._drawn_pronoun()
        has_names = not self.fields.isdisjoint(NAMES) and not has_own_name
        shows_gender = known_pronoun is not None or self.has_gendered_words or has_names
        for name in sorted(self.fields):
            if name == "person" and name not in contents:
                contents[name] = _description(identity, pronoun if shows_gender else None)
            elif name not in contents:
                contents[name] = self._content(name, identity, pronoun, contents)
        return Person(identity, pronoun, contents)

    def _row_of(self, identity: Identity) -> Mapping[str, str]:
        if not identity.rows:
            return {}
        name = "row of " + ", ".join(identity.groups.values())
        return identity.rows[self.draws.position(name, len(identity.rows))]

    def _drawn_pronoun(self) -> Pronoun:
        return "she" if self._once("pronouns", ("she", "he")) == "she" else "he"

    def _once(self, name: str, values: Sequence[str], without: Collection[str] = ()) -> str:
        """Return the value that was drawn for this set under a name."""
        if name not in self._drawn:
            self._drawn[name] = self.draws.value(name, values, without)
        return self._drawn[name]

    def _drawn_names(self, kind: str) -> Sequence[str]:
        """Return the names of other groups in this set, so that no two groups have the same."""
        return [name for key, name in self._drawn.items() if key.startswith(kind)]

    def _content(self, name: str, identity: Identity, pronoun: Pronoun, contents: Mapping[str, str]) -> str:
        """Return the content of a field that the user's table does not fill."""
        if name == "pronouns":
            return built_in_list("gender").groups[GENDERS[pronoun]]["pronouns"]
        if name == "title":
            return built_in_list("gender").groups[GENDERS[pronoun]]["title"]
        if name in NAMES:
            return self._name(name, identity, pronoun, contents)
        attribute = "nationality" if name == "country" else name
        groups = built_in_list(attribute).groups
        group = identity.groups.get(attribute) or self._once(attribute, list(groups))
        return groups[group]["country"] if name == "country" else group

    def _name(self, name: str, identity: Identity, pronoun: Pronoun, contents: Mapping[str, str]) -> str:
        """Return a first, last or full name that agrees with pronoun and race."""
        columns = {column.lower() for column in identity.rows[0]} if identity.rows else set()
        full_names = [column for column in ("name", "full_name") if column in columns]
        if full_names and name in ("name", "full_name"):
            return contents[full_names[0]]
        if full_names:
            raise InputError(
                f"the table has a column {full_names[0]} and none {name}; add it, or write"
                f" {{{full_names[0]}}} in place of {{{name}}}"
            )
        race = identity.groups.get("race") if "race" in identity.traits else None
        first = contents.get("first_name")
        last = contents.get("last_name")
        if first is None and name != "last_name":
            list_name = f"first name, {pronoun}, {race}"
            first = self._once(list_name, first_names(pronoun, race), self._drawn_names("first name"))
        if last is None and name != "first_name":
            list_name = f"last name, {race}"
            last = self._once(list_name, last_names(race), self._drawn_names("last name"))
        if name == "first_name":
            return first or ""
        return last or "" if name == "last_name" else f"{first} {last}"


@dataclass(frozen=True, slots=True)
class Person:
    """A person of a matched set: pronoun, and contents of the fields that the prompt uses."""

    identity: Identity
    pronoun: Pronoun
    contents: Mapping[str, str]


def described_person(groups: Mapping[str, str]) -> str:
    """Return a noun phrase for a person of these built-in groups.

    Examples
    --------
    >>> described_person({"age": "70", "race": "Black", "gender": "women"})
    'a 70-year-old Black woman'
    """
    traits = {attribute: built_in_list(attribute).groups[group] for attribute, group in groups.items()}
    identity = Identity(groups=groups, places={}, traits=traits)
    return _description(identity, _pronoun_of(identity, {}))


def _pronoun_of(identity: Identity, row: Mapping[str, str]) -> Pronoun | None:
    """Return the pronoun that goes with an identity, or with a row of a user's table; None if it is open."""
    gender = identity.groups.get("gender", "")
    for pronoun, group in GENDERS.items():
        if gender == group:
            return pronoun
    return pronoun_of_row(row)


def _description(identity: Identity, pronoun: Pronoun | None) -> str:
    """Return a noun phrase such as "a 72-year-old Black woman who uses a wheelchair".

    Its noun is "person" if the pronoun is None.
    """
    words = []
    if "age" in identity.traits:
        words.append(f"{identity.groups['age']}-year-old")
    ordered = dict.fromkeys((*_ORDER, *identity.traits))
    traits = [identity.traits.get(attribute, {}) for attribute in ordered]
    words += [trait["adjective"] for trait in traits if "adjective" in trait]
    words.append("person" if pronoun is None else built_in_list("gender").groups[GENDERS[pronoun]]["noun"])
    words += [trait["phrase"] for trait in traits if "phrase" in trait]
    article = "an" if takes_an(words[0]) else "a"
    return " ".join([article, *words])
