"""What is swapped in marked prompts: built-in groups, or a table of the user."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Final

from polars import DataFrame

from tiltmeter._files.tables import ROW, UserTable, read_user_table
from tiltmeter.designs.slots._forms import Pronoun
from tiltmeter.designs.slots._gendered_words import pronoun_of_words
from tiltmeter.designs.slots._lists import FIELDS, LISTS, GroupList, built_in_list
from tiltmeter.designs.slots._template import Template
from tiltmeter.errors import InputError, check_known

SLOT_COLUMNS: Final = ("person", "first_name", "last_name", "name", "full_name", "title", "pronouns")
"""Columns of a user's table that are never attributes unless they are named."""
VARIANT: Final = "variant"
"""Name of the attribute of prompts that have their own alternatives."""
_PRONOUN_WORDS: Final[Mapping[Pronoun, frozenset[str]]] = {
    "she": frozenset({"she", "her", "women", "woman", "female", "females", "f", "girls", "girl"}),
    "he": frozenset({"he", "him", "men", "man", "male", "males", "m", "boys", "boy"}),
    "they": frozenset({"they", "them", "nonbinary", "non-binary", "nonbinary people", "non-binary people"}),
}
"""Words of a user's table that tell the pronoun."""
_GENDER_COLUMNS: Final = ("pronouns", "gender", "sex")
_YOUNGEST: Final = 18
_OLDEST: Final = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A combination of groups.

    Attributes
    ----------
    groups
        The group of each attribute.
    places
        Position of each group in the list of its attribute.
    traits
        What is said about the groups of built-in attributes.
    rows
        Rows of a user's table about this combination; a prompt gets the values of one of them.
    """

    groups: Mapping[str, str]
    places: Mapping[str, int]
    traits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rows: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """The identities of every matched set.

    Attributes
    ----------
    groups
        The groups of each attribute, in their order.
    listed
        All groups of a built-in attribute, of which `groups` may be a part.
    fields
        Names of fields that slots may have.
    are_variants
        Whether the groups are the alternatives of the prompts.
    """

    groups: Mapping[str, Sequence[str]]
    identities: Sequence[Identity]
    fields: Sequence[str]
    listed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    are_variants: bool = False


@dataclass(frozen=True, slots=True)
class Swap:
    """What is swapped in marked prompts.

    Make one with `Swap.of`.

    Attributes
    ----------
    lists
        Built-in attributes, each with the selected groups (none: all of them).
    table
        A table of the user, with columns of attributes and of slots.
    attributes
        Names of the columns of the attributes, if they are given.

    Examples
    --------
    >>> Swap.of("gender:women/men,age").lists
    {'gender': ('women', 'men'), 'age': ()}
    """

    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    table: UserTable | None = None
    attributes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, choice: str | Path | DataFrame | None = None, groups: str | Sequence[str] | None = None
    ) -> Swap:
        """Return what a text, a file or a table means.

        Parameters
        ----------
        choice
            Names of built-in attributes, joined by commas if they are crossed ("race,gender"), each with the
            selected groups after a colon if not all are wanted ("gender:women/men", "age:30/60"); a table of
            groups and of what slots contain, or its file (CSV, JSONL, Excel, Parquet); or None, if the
            prompts have their own alternatives.
        groups
            Names of the columns of a table that are attributes, or the name of the attribute of the
            alternatives; a text may have several, joined by commas.

        Raises
        ------
        InputError
            An attribute, a group or a column is unknown, or the file cannot be read.
        """
        names = groups.split(",") if isinstance(groups, str) else list(groups or ())
        attributes = tuple(name.strip() for name in names)
        if choice is None:
            return cls(attributes=attributes)
        if isinstance(choice, DataFrame):
            return cls(table=_as_text(choice), attributes=attributes)
        if isinstance(choice, Path) or Path(choice).suffix:
            return cls(table=read_user_table(Path(choice)), attributes=attributes)
        lists = _selected_lists(choice)
        if attributes and set(attributes) != set(lists):
            raise InputError(
                f"--group {','.join(attributes)} names columns of your own table; --swap {choice} has the"
                f" attributes {', '.join(lists)} without it"
            )
        return cls(lists=lists)

    @property
    def origins(self) -> Mapping[str, str]:
        """Where the groups and terms of each built-in attribute come from, for reports."""
        return {attribute: built_in_list(attribute).origin for attribute in self.lists}

    def identities(self, used: Sequence[str]) -> Identities:
        """Return the identities, given the names in the slots of the prompts (`names_in`).

        Raises
        ------
        InputError
            It is not clear which columns of a table are attributes, or there are fewer than two groups.
        """
        if self.table is not None:
            return self._of_table(self.table, frozenset(used))
        lists = [built_in_list(attribute) for attribute in self.lists]
        selected = {
            groups.attribute: self.lists[groups.attribute] or tuple(groups.groups) for groups in lists
        }
        identities = [_crossed(lists, combination) for combination in product(*selected.values())]
        return Identities(
            groups=selected,
            identities=identities,
            fields=FIELDS,
            listed={groups.attribute: tuple(groups.groups) for groups in lists},
        )

    def variants(self, templates: Sequence[Template]) -> Identities:
        """Return the alternatives of prompts that have their own, as groups.

        Raises
        ------
        InputError
            A prompt has no alternatives, or others than the first prompt.
        """
        attribute = self.attributes[0] if self.attributes else VARIANT
        names: Sequence[str] = ()
        for number, template in enumerate(templates, 1):
            if not template.group_slots:
                raise InputError(
                    f"prompt {number} has no alternatives, such as {{{{a Muslim/a Christian}}}}; add them, or"
                    f" say what its slots are filled with, such as --swap {LISTS[0]}"
                )
            alternatives = [_plain(form) for form in template.group_slots[0].forms]
            if not names:
                names = alternatives
            elif not _are_alike(alternatives, names):
                raise InputError(
                    f"prompt {number} has the alternatives {', '.join(alternatives)}, and prompt 1 has"
                    f" {', '.join(names)}; the first slot of each prompt must have the same ones in one order"
                )
        if len(set(names)) < len(names):
            raise InputError(
                f"the alternatives {', '.join(names)} are not different; give each group its own"
            )
        identities = [
            Identity(groups={attribute: name}, places={attribute: place}) for place, name in enumerate(names)
        ]
        return Identities(groups={attribute: names}, identities=identities, fields=FIELDS, are_variants=True)

    def _of_table(self, table: UserTable, used: frozenset[str]) -> Identities:
        columns = [column for column in table.rows.columns if column != ROW]
        attributes = self.attributes or _attributes_among(table.place, columns, used)
        table.demand(attributes)
        table.refuse_empty(attributes)
        table.refuse_empty(name for name in columns if name.lower() in used.intersection(SLOT_COLUMNS))
        groups = {name: tuple(table.rows[name].unique(maintain_order=True)) for name in attributes}
        parts = table.rows.drop(ROW).partition_by(attributes, maintain_order=True)
        if len(parts) < 2:
            raise InputError(f"{table.place} has only one group; at least two are needed")
        identities = []
        for part in parts:
            rows = [{name: value.strip() for name, value in row.items()} for row in part.to_dicts()]
            combination = {name: rows[0][name] for name in attributes}
            places = {name: groups[name].index(group) for name, group in combination.items()}
            identities.append(Identity(groups=combination, places=places, rows=rows))
        return Identities(
            groups=groups,
            identities=identities,
            fields=list(dict.fromkeys([*columns, *FIELDS])),
        )


def _as_text(table: DataFrame) -> UserTable:
    """Return a table given in Python, with all values as text."""
    rows = table.select([table[name].cast(str).fill_null("").str.strip_chars() for name in table.columns])
    return UserTable.of("the table of groups", rows)


def _selected_lists(choice: str) -> dict[str, tuple[str, ...]]:
    """Return the built-in attributes that a text names, with the selected groups."""
    lists: dict[str, tuple[str, ...]] = {}
    for piece in choice.split(","):
        name, colon, selection = piece.partition(":")
        attribute = name.strip()
        check_known(
            attribute,
            LISTS,
            f"--swap has no built-in list {attribute!r}",
            "; or give a table with groups and names, such as names.csv",
        )
        if attribute in lists:
            raise InputError(f"--swap {choice} names {attribute} twice")
        groups = tuple(group.strip() for group in selection.split("/")) if colon else ()
        for group in groups:
            _check_group(attribute, group)
        if colon and len(set(groups)) < 2:
            raise InputError(f"--swap {piece}: name at least two groups, such as gender:women/men")
        lists[attribute] = groups
    return lists


def _check_group(attribute: str, group: str) -> None:
    if attribute == "age":
        if not group.isdecimal() or not _YOUNGEST <= int(group) <= _OLDEST:
            raise InputError(f"--swap age: {group!r} is not an age from {_YOUNGEST} to {_OLDEST} years")
        return
    check_known(group, built_in_list(attribute).groups, f"{attribute} has no group {group!r}")


def _crossed(lists: Sequence[GroupList], combination: Sequence[str]) -> Identity:
    """Return the identity of one group of each built-in attribute."""
    groups: dict[str, str] = {}
    places: dict[str, int] = {}
    traits: dict[str, Mapping[str, str]] = {}
    for groups_of_list, group in zip(lists, combination, strict=True):
        attribute = groups_of_list.attribute
        groups[attribute] = group
        names = list(groups_of_list.groups)
        if group in names:
            places[attribute] = names.index(group)
        traits[attribute] = groups_of_list.groups.get(group, {})
    return Identity(groups=groups, places=places, traits=traits)


def _attributes_among(place: str, columns: Sequence[str], used: frozenset[str]) -> tuple[str, ...]:
    """Return the columns of a table that are attributes: those that are no slots."""
    attributes = tuple(
        name for name in columns if name.lower() not in used and name.lower() not in SLOT_COLUMNS
    )
    if attributes:
        return attributes
    if len(columns) == 1:
        return (columns[0],)
    raise InputError(
        f"{place}: every column ({', '.join(columns)}) is a slot, so that no column says the group; name the"
        " columns of the groups with --group"
    )


def pronoun_of_row(row: Mapping[str, str]) -> Pronoun | None:
    """Return the pronoun of a row of a user's table; None if it says none.

    It is that of the columns pronouns, gender or sex, or that of a gendered word in title or person.
    """
    by_column = {name.lower(): value for name, value in row.items()}
    for column in _GENDER_COLUMNS:
        first = by_column.get(column, "").partition("/")[0].strip().lower()
        for pronoun, words in _PRONOUN_WORDS.items():
            if first in words:
                return pronoun
    for column in ("title", "person"):
        pronoun_of_word = pronoun_of_words(by_column.get(column, ""))
        if pronoun_of_word is not None:
            return pronoun_of_word
    return None


def _plain(form: str) -> str:
    """Return an alternative as the name of a group."""
    return " ".join(form.split()) or "none"


def _are_alike(alternatives: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether two prompts have the same alternatives, apart from articles and capitals."""
    return [_without_article(name) for name in alternatives] == [_without_article(name) for name in names]


def _without_article(name: str) -> str:
    return re.sub(r"^(?:an?|the)\s+", "", name.casefold())
