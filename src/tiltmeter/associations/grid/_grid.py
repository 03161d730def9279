"""The grid: identities with the descriptors that stand for them, which of these meet in a story, and where.

The built-in grid is the data in `grids/`; a user's own file has the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["ALIGNED", "BUILT_IN_LANGUAGE", "WITHIN_TYPE", "Category", "Descriptor", "Grid", "Pair", "builtin_categories", "load_grid"]

ALIGNED = "aligned"
"""The first descriptor of an identity meets the first of each other one, the second the second, ..."""
WITHIN_TYPE = "within type"
"""Every descriptor of a type meets every one of another identity in the same type."""

BUILT_IN_LANGUAGE = "en"
"""The language of the built-in wordings."""

_HOME = Path(__file__).with_name("grids")
_LOCATIONS = "locations"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Somebody a story can be about."""

    name: str
    """What the story calls them: "Zhang"."""
    text: str
    """What stands in the prompt: "Zhang, an Asian (male)"; it holds the name."""
    identity: str
    """The identity they stand for."""
    type: str
    """The group of descriptors they are paired in."""


class Pair(NamedTuple):
    """Two descriptors of one type and of different identities, in the order of the grid."""

    first: Descriptor
    second: Descriptor

    @property
    def name(self) -> str:
        """ "Emily-John"; unique within the type."""
        return f"{self.first.name}-{self.second.name}"


@dataclass(frozen=True, slots=True)
class Category:
    """Identities that are compared with each other."""

    name: str
    title: str
    pairing: str
    """ALIGNED or WITHIN_TYPE."""
    stories: int
    """Stories for each pair and location."""
    types: Mapping[str, Mapping[str, tuple[Descriptor, ...]]]
    """type -> identity -> descriptors."""

    @property
    def identities(self) -> tuple[str, ...]:
        """Names of the identities, in the order of the grid."""
        return tuple(dict.fromkeys(identity for members in self.types.values() for identity in members))

    @property
    def descriptors(self) -> tuple[Descriptor, ...]:
        """Every descriptor, in the order of the grid."""
        return tuple(one for members in self.types.values() for these in members.values() for one in these)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every pair that meets at every location, in the order of the grid."""
        found: list[Pair] = []
        for members in self.types.values():
            if self.pairing == ALIGNED:
                found += [Pair(*pair) for row in zip(*members.values(), strict=True) for pair in combinations(row, 2)]
            else:
                found += [Pair(a, b) for these, those in combinations(members.values(), 2) for a in these for b in those]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Grid:
    """All categories, and the locations where their stories play."""

    categories: tuple[Category, ...]
    locations: Mapping[str, tuple[str, ...]]
    """location category -> locations."""
    language: str = BUILT_IN_LANGUAGE
    """Of the descriptors, the locations and the wording."""
    wording: Mapping[str, str] = field(default_factory=dict)
    """Templates of the grid's own, by setting (see `design`); empty: the built-in wordings."""
    place: str = "the built-in grid"
    """The file, for messages."""

    def category(self, name: str) -> Category:
        """The category of that name; raises InputError for an unknown one."""
        known = {category.name: category for category in self.categories}
        if name not in known:
            raise InputError(f"{self.place} has no category {name!r}: {did_you_mean(name, list(known))}")
        return known[name]


def builtin_categories() -> tuple[str, ...]:
    """Names of the built-in categories. Reads no file."""
    return tuple(sorted(path.stem for path in _HOME.glob("*.yaml") if path.stem != _LOCATIONS))


def load_grid(path: str | Path | None = None) -> Grid:
    """The built-in grid, or one of a user's own.

    Parameters
    ----------
    path
        A YAML file of the shape of those in `grids/`: `categories`, and optionally `language`, `locations` (the built-in ones, where it
        names none) and `wording` (templates by setting).

    Raises
    ------
    InputError
        The file cannot be read or cannot be used; the message names the file, the key and how to mend it.
    """
    from tiltmeter.associations.grid import _document as document

    if path is not None:
        own = document.read(Path(path))
        return own.grid(str(path), None if own.locations else load_grid().locations)
    locations = document.read(_HOME / f"{_LOCATIONS}.yaml", needs_categories=False).places()
    grids = [document.read(_HOME / f"{name}.yaml").grid(name, locations) for name in builtin_categories()]
    return Grid(tuple(category for grid in grids for category in grid.categories), locations)
