"""The grid: identities with the descriptors that represent them, which of these meet in a story, and where.

The built-in grid is the data in `grids/`; a user's own file has the same shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import chain, combinations, product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from tiltmeter.errors import InputError
from tiltmeter.records import Line, Record, read_record
from tiltmeter.registry import check_known

ALIGNED = "aligned"
"""The first descriptor of an identity meets the first of each other one, the second the second, ..."""
WITHIN_TYPE = "within type"
"""Every descriptor of a type meets every one of another identity in the same type."""

BUILT_IN_LANGUAGE = "en"
"""The language of the built-in wordings."""

_HOME = Path(__file__).with_name("grids")
_CATEGORIES = ("gender", "race", "religions")


class Descriptor(NamedTuple):
    """A person a story can be about."""

    name: str
    """As the story calls the person: "Zhang"."""
    text: str
    """As the prompt does: "Zhang, an Asian (male)"; it holds the name."""
    identity: str
    type: str
    """The group of descriptors it is paired in."""


class Pair(NamedTuple):
    """Two descriptors of one type and of different identities, in the order of the grid."""

    first: Descriptor
    second: Descriptor

    @property
    def name(self) -> str:
        """ "Emily-John"; unique within the type."""
        return f"{self.first.name}-{self.second.name}"


def _named_text(given: Any) -> Any:
    """A descriptor as name and text; what comes before the first comma of a text is the name."""
    if isinstance(given, str):
        return {"name": given.partition(",")[0], "text": given}
    if isinstance(given, dict) and given.keys() == {"name", "text"}:
        return given
    raise ValueError("each descriptor must be a text such as 'Jim, white race', or have the keys name and text")


def _lower_case(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise ValueError(f"must be lower-case letters, digits, - and _, such as 'age_group', not {name!r}")
    return name


def _check_unique(what: str, values: Iterable[str], remedy: str = "remove one, or use different names") -> None:
    """Raise ValueError where a value is given twice, in whatever case."""
    seen: set[str] = set()
    for value in values:
        if value.casefold() in seen:
            raise ValueError(f"the {what} {value!r} is given twice; {remedy}")
        seen.add(value.casefold())


class NamedText(Record):
    """A descriptor in a file."""

    name: Line
    text: Line

    @model_validator(mode="after")
    def _check_name(self) -> NamedText:
        if self.name not in self.text:
            raise ValueError(f"the name {self.name!r} is not part of the text {self.text!r}, so a story cannot use it")
        return self


_NamedTexts = Annotated[list[Annotated[NamedText, BeforeValidator(_named_text)]], Field(min_length=1)]


class Category(Record):
    """Identities that are compared with each other."""

    title: Line | None = None
    pairing: Literal["aligned", "within type"] = "within type"
    stories: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Stories for each pair and location."""
    types: Annotated[dict[Line, Annotated[dict[Line, _NamedTexts], Field(min_length=1)]], Field(min_length=1)]
    """type -> identity -> descriptors."""

    @property
    def identities(self) -> tuple[str, ...]:
        """Names of the identities, in the order of the grid."""
        return tuple(dict.fromkeys(one.identity for one in self.descriptors))

    @property
    def descriptors(self) -> list[Descriptor]:
        """Every descriptor, in the order of the grid."""
        return [one for groups in self._groups() for group in groups for one in group]

    @property
    def pairs(self) -> list[Pair]:
        """Every pair that meets at every location, in the order of the grid."""
        if self.pairing == ALIGNED:
            return [Pair(*pair) for groups in self._groups() for row in zip(*groups, strict=True) for pair in combinations(row, 2)]
        return [Pair(*pair) for groups in self._groups() for two in combinations(groups, 2) for pair in product(*two)]

    def _groups(self) -> list[list[list[Descriptor]]]:
        """Descriptors by type and identity."""
        return [
            [[Descriptor(one.name, one.text, identity, kind) for one in given] for identity, given in members.items()]
            for kind, members in self.types.items()
        ]

    @model_validator(mode="after")
    def _check_types(self) -> Category:
        _check_unique("identity", self.identities)
        _check_unique("descriptor", (one.text for one in self.descriptors), "keep it under one identity, once")
        for kind, members in self.types.items():
            if len(members) < 2:
                raise ValueError(f"types.{kind} has one identity only ({next(iter(members))}); comparing needs at least two")
            if self.pairing == ALIGNED and len({len(given) for given in members.values()}) > 1:
                counts = ", ".join(f"{identity} {len(given)}" for identity, given in members.items())
                needs = f"aligned pairing needs as many descriptors for each identity ({counts})"
                raise ValueError(f"types.{kind}: {needs}; add some or set pairing: {WITHIN_TYPE}")
            names = (one.name for one in chain.from_iterable(members.values()))
            _check_unique("name", names, "characters who meet in a story need different names")
        return self


@cache
def _built_in(name: str) -> Grid:
    return read_record(_HOME / f"{name}.yaml", "grid", Grid)


class Grid(Record):
    """All categories, and the locations where their stories play."""

    categories: dict[Annotated[str, AfterValidator(_lower_case)], Category] = Field(default_factory=dict)
    language: Line = BUILT_IN_LANGUAGE
    """Of the descriptors, the locations and the wording."""
    locations: Annotated[dict[Line, Annotated[list[Line], Field(min_length=1)]], Field(min_length=1)] = Field(
        default_factory=lambda: _built_in("locations").locations
    )
    """location category -> locations."""
    wording: Annotated[dict[str, str], Field(min_length=1)] | None = None
    """Templates of the grid's own, by setting (see `design`); None: the built-in wordings."""
    _place: str = PrivateAttr("the built-in grid")

    @property
    def place(self) -> str:
        """The file, for messages."""
        return self._place

    def category(self, name: str) -> Category:
        """The category of that name; raises InputError for an unknown one."""
        check_known(name, self.categories, f"{self.place} has no category {name!r}")
        return self.categories[name]

    @model_validator(mode="after")
    def _check_locations(self) -> Grid:
        _check_unique("location", chain.from_iterable(self.locations.values()))
        return self


def load_grid(path: str | Path | None = None) -> Grid:
    """The built-in grid, or one of a user's own.

    Parameters
    ----------
    path
        A YAML file of the shape of those in `grids/`: `categories`, and optionally `language`, `locations` (without them, the built-in
        ones) and `wording` (templates by setting).

    Raises
    ------
    InputError
        The file cannot be read or used; the message names the file, the key and what to do.
    """
    if path is None:
        return Grid(categories={name: _built_in(name).categories[name] for name in _CATEGORIES})
    grid = read_record(Path(path), "grid", Grid)
    if not grid.categories:
        raise InputError(f"{path}: it has no categories; give at least one, with identities and their descriptors")
    grid._place = str(path)
    return grid
