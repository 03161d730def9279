"""The grid of descriptors and locations.

The built-in grid is stored in `grids/`; a user's file has the same format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain, combinations, product
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from tiltmeter._files.records import Filled, Line, Record, read_record
from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.designs.first_names import FIRST_NAMES
from tiltmeter.errors import check_known

ALIGNED: Final = "aligned"
"""Pair the first descriptor of an identity with the first of every other identity, the second with the
second, and so on."""
WITHIN_TYPE: Final = "within type"
"""Pair every descriptor with every descriptor of another identity in the same type."""

BUILT_IN_LANGUAGE: Final = "en"
"""The language of the built-in wordings."""

_GRIDS: Final = Path(__file__).with_name("grids")
_CATEGORIES: Final = ("gender", "race", "religions")


class Descriptor(NamedTuple):
    """A character of a story."""

    name: str
    """The name used in the story: "Zhang"."""
    text: str
    """The text used in the prompt: "Zhang, an Asian (male)"; it contains the name."""
    identity: str
    type: str
    """The group of descriptors within which pairs are formed."""


class Pair(NamedTuple):
    """Two descriptors of one type and of different identities, in grid order."""

    first: Descriptor
    second: Descriptor

    @property
    def name(self) -> str:
        """The name of the pair, such as "Emily-John"; unique within the type."""
        return f"{self.first.name}-{self.second.name}"


def _named_text(descriptor: Any) -> Any:
    """Return a descriptor as name and text; the name of a plain text is the part before the first comma."""
    if isinstance(descriptor, str):
        return {"name": descriptor.partition(",")[0], "text": descriptor}
    if isinstance(descriptor, dict) and descriptor.keys() == {"name", "text"}:
        return descriptor
    raise ValueError(
        "each descriptor must be a text such as 'Jim, white race', or a mapping with the keys name and text"
    )


def _by_context(locations: Any) -> Any:
    """Return locations by category; a plain list becomes one category."""
    return {"places": locations} if isinstance(locations, list) else locations


def _lower_case(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise ValueError(
            f"must consist of lower-case letters, digits, - and _, such as 'age_group', not {name!r}"
        )
    return name


def _check_unique(
    noun: str, values: Iterable[str], remedy: str = "remove one, or use different names"
) -> None:
    """Raise ValueError if a value is given twice, ignoring case."""
    previous: set[str] = set()
    for value in values:
        if value.casefold() in previous:
            raise ValueError(f"the {noun} {value!r} is given twice; {remedy}")
        previous.add(value.casefold())


class NamedText(Record):
    """A descriptor in a file."""

    name: Line
    text: Line

    @model_validator(mode="after")
    def _check_name(self) -> NamedText:
        if self.name not in self.text:
            raise ValueError(
                f"the name {self.name!r} is not part of the text {self.text!r}; the text must contain it"
            )
        return self


_NamedTexts = Filled[
    list[Annotated[NamedText, BeforeValidator(_named_text, json_schema_input_type=str | NamedText)]]
]


class DealtNames(Record):
    """First names to assign at random to an identity, and the template of the descriptor."""

    names: Line | Filled[list[Line]]
    """A list of names, or the name of a built-in list: "women" or "men"."""
    text: Line = "{name}"
    """Template of the descriptor; contains {name} once."""

    @property
    def resolved(self) -> list[str]:
        """The names, with a built-in list resolved."""
        return FIRST_NAMES[self.names] if isinstance(self.names, str) else self.names

    @model_validator(mode="after")
    def _check_names(self) -> DealtNames:
        if isinstance(self.names, str) and self.names not in FIRST_NAMES:
            raise ValueError(
                f"there is no built-in list of names {self.names!r}; use {' or '.join(FIRST_NAMES)}, "
                "or give the names themselves"
            )
        _check_unique("name", self.resolved)
        if self.text.count("{name}") != 1:
            raise ValueError(f"the text {self.text!r} must contain {{name}} exactly once")
        return self


class Category(Record):
    """A category: identities that are compared with each other."""

    title: Line | None = None
    pairing: Literal["aligned", "within type"] = "within type"
    stories: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Number of stories for each pair and location."""
    types: Filled[dict[Line, Filled[dict[Line, _NamedTexts]]]]
    """Descriptors by type and identity."""
    dealt: Filled[dict[Line, Filled[dict[Line, DealtNames]]]] | None = None
    """First names by type and identity, for the default definition; None: it uses the descriptors of `types`,
    like the others."""

    @property
    def identities(self) -> tuple[str, ...]:
        """Names of the identities, in grid order."""
        return tuple(dict.fromkeys(chain.from_iterable(self.types.values())))

    @property
    def descriptors(self) -> list[Descriptor]:
        """All descriptors, in grid order."""
        groups = chain.from_iterable(self._groups())
        return list(chain.from_iterable(groups))

    @property
    def pairs(self) -> list[Pair]:
        """All pairs, in grid order; each is combined with every location."""
        pairs: list[Pair] = []
        for groups in self._groups():
            if self.pairing == ALIGNED:
                for row in zip(*groups, strict=True):
                    pairs += [Pair(first, second) for first, second in combinations(row, 2)]
            else:
                for first_group, second_group in combinations(groups, 2):
                    pairs += [Pair(first, second) for first, second in product(first_group, second_group)]
        return pairs

    def _groups(self) -> list[list[list[Descriptor]]]:
        """Return descriptors grouped by type, then identity."""
        return [
            [_descriptors_of(texts, identity, kind) for identity, texts in members.items()]
            for kind, members in self.types.items()
        ]

    @model_validator(mode="after")
    def _check_types(self) -> Category:
        _check_unique("identity", self.identities)
        texts = [descriptor.text for descriptor in self.descriptors]
        _check_unique("descriptor", texts, "keep only one of them")
        if self.dealt is not None and _identities_by_type(self.dealt) != _identities_by_type(self.types):
            raise ValueError("dealt must have the same types and identities as types")
        for kind, members in self.types.items():
            self._check_members(kind, members)
        return self

    def _check_members(self, kind: str, members: Mapping[str, list[NamedText]]) -> None:
        """Raise ValueError if the identities of a type cannot be compared."""
        if len(members) < 2:
            raise ValueError(
                f"types.{kind} has only one identity ({next(iter(members))}); a comparison needs at least two"
            )
        counts = {identity: len(texts) for identity, texts in members.items()}
        if self.pairing == ALIGNED and len(set(counts.values())) > 1:
            listed = ", ".join(f"{identity} {count}" for identity, count in counts.items())
            raise ValueError(
                f"types.{kind}: aligned pairing needs the same number of descriptors for each identity "
                f"({listed}); add some or set pairing: {WITHIN_TYPE}"
            )
        names = [descriptor.name for descriptor in chain.from_iterable(members.values())]
        _check_unique("name", names, "the characters of a story need different names")


def _descriptors_of(texts: Iterable[NamedText], identity: str, kind: str) -> list[Descriptor]:
    return [Descriptor(text.name, text.text, identity, kind) for text in texts]


def _identities_by_type(types: Mapping[str, Mapping[str, Any]]) -> dict[str, set[str]]:
    return {kind: set(members) for kind, members in types.items()}


def _built_in(name: str, key: str) -> Any:
    return packaged_yaml(_GRIDS / f"{name}.yaml")[key]


class Grid(Record):
    """A grid: categories of identities, and the locations of their stories."""

    categories: Filled[dict[Annotated[str, AfterValidator(_lower_case)], Category]]
    language: Line = BUILT_IN_LANGUAGE
    """The language of the descriptors, the locations and the wording."""
    locations: Annotated[
        Filled[dict[Line, Filled[list[Line]]]],
        BeforeValidator(_by_context, json_schema_input_type=dict[str, list[str]] | list[str]),
    ] = Field(default_factory=lambda: _built_in("locations", "locations"))
    """Locations by location category; a plain list is one category."""
    wording: Filled[dict[str, str]] | None = None
    """Prompt templates by setting; None: the built-in wordings."""
    _place: str = PrivateAttr("the built-in grid")

    @property
    def place(self) -> str:
        """The source of the grid, for messages."""
        return self._place

    def category(self, name: str) -> Category:
        """Return a category by name; raise InputError for an unknown one."""
        check_known(name, self.categories, f"{self.place} has no category {name!r}")
        return self.categories[name]

    @model_validator(mode="after")
    def _check_locations(self) -> Grid:
        _check_unique("location", chain.from_iterable(self.locations.values()))
        return self


@cache
def _built_in_grid() -> Grid:
    categories = {name: _built_in(name, "categories")[name] for name in _CATEGORIES}
    return Grid.model_validate({"categories": categories})


def load_grid(path: str | Path | None = None) -> Grid:
    """Return the built-in grid, or read one from a file.

    Parameters
    ----------
    path
        A YAML file in the format of those in `grids/`: `categories`, and optionally `language`, `locations`
        (default: the built-in ones) and `wording` (templates by setting). None: the built-in grid.

    Raises
    ------
    InputError
        The file cannot be read or is invalid; the message names the file, the key and the remedy.
    """
    if path is None:
        return _built_in_grid()
    grid = read_record(Path(path), "grid", Grid)
    grid._place = str(path)
    return grid
