"""The file a grid is written in, checked strictly. Import it only where a grid is loaded: Pydantic takes long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from tiltmeter._yaml import first_error, read_yaml
from tiltmeter.associations.grid._grid import ALIGNED, BUILT_IN_LANGUAGE, WITHIN_TYPE, Category, Descriptor, Grid
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["read"]

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\n]*$")]
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$")]

_IN_LIST = 6
"""Keys that lead to one descriptor: categories, its name, types, its name, the identity, the number in the list."""
_EXPECTED = {
    "missing": "is missing",
    "too_short": "is empty",
    "string_too_short": "is an empty text",
    "string_pattern_mismatch": "must be one line of text",
    "string_type": "must be a text",
    "int_type": "must be a whole number such as 10",
    "greater_than_equal": "must be at least 1",
    "less_than_equal": "must be at most 10,000",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list such as [Emily, Jessica]",
    "literal_error": f"must be '{ALIGNED}' or '{WITHIN_TYPE}'",
}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class DescriptorDocument(_Record):
    """Somebody whose name is not what stands before the first comma."""

    name: _Text
    text: _Text


_Descriptors = Annotated[list[_Text | DescriptorDocument], Field(min_length=1)]


class CategoryDocument(_Record):
    """Descriptors by type and identity."""

    title: _Text | None = None
    pairing: Literal["aligned", "within type"] = "within type"
    stories: Annotated[int, Field(ge=1, le=10_000)] = 10
    types: Annotated[dict[_Text, Annotated[dict[_Text, _Descriptors], Field(min_length=1)]], Field(min_length=1)]

    def category(self, name: str) -> Category:
        """As what a design is made of."""
        types = {
            kind: {identity: tuple(_descriptor(one, identity, kind) for one in given) for identity, given in members.items()}
            for kind, members in self.types.items()
        }
        return Category(name, self.title or name.replace("_", " ").capitalize(), self.pairing, self.stories, types)


class GridDocument(_Record):
    """The whole file."""

    language: _Text = BUILT_IN_LANGUAGE
    locations: Annotated[dict[_Text, Annotated[list[_Text], Field(min_length=1)]], Field(min_length=1)] | None = None
    categories: dict[_Name, CategoryDocument] = Field(default_factory=dict)
    wording: Annotated[dict[str, str], Field(min_length=1)] | None = None

    def places(self) -> dict[str, tuple[str, ...]]:
        """Locations by their category."""
        return {category: tuple(places) for category, places in (self.locations or {}).items()}

    def grid(self, place: str, locations: Mapping[str, tuple[str, ...]] | None) -> Grid:
        """As what a design is made of, with these locations (None: its own)."""
        categories = tuple(one.category(name) for name, one in self.categories.items())
        return Grid(categories, self.places() if locations is None else locations, self.language, self.wording or {}, place)


def read(path: Path, *, needs_categories: bool = True) -> GridDocument:
    """The content of a file, checked.

    Raises
    ------
    InputError
        One sentence about the first thing that is wrong, with file and key.
    """
    loaded = _load(path)
    try:
        document = GridDocument.model_validate(loaded)
    except ValidationError as error:
        raise InputError(f"{path}: {_sentence(error, loaded)}") from None
    problems = _problems(document, needs_categories=needs_categories)
    if problem := next(problems, None):
        raise InputError(f"{path}: {problem}")
    return document


def _load(path: Path) -> object:
    loaded: object = read_yaml(path, "grid")
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: expected the key 'categories' with identities and their descriptors")
    return loaded


def _descriptor(given: str | DescriptorDocument, identity: str, kind: str) -> Descriptor:
    if isinstance(given, str):
        return Descriptor(given.partition(",")[0].strip(), given, identity, kind)
    return Descriptor(given.name, given.text, identity, kind)


def _sentence(error: ValidationError, loaded: object) -> str:
    """About the first error."""
    first = first_error(error)
    where, kind = [str(key) for key in first["loc"]], first["type"]
    if where[-1] == "[key]" or kind == "invalid_key":
        return _of_key([key for key in where if key != "[key]"], kind)
    if len(where) > _IN_LIST and where[0] == "categories":  # a descriptor is a text or a mapping: Pydantic tells of both what is wrong
        where = where[: _IN_LIST - (kind == "string_type")]
        if kind == "string_type":
            return f"{'.'.join(where)}: each descriptor must be a text such as 'Jim, white race', or have the keys name and text"
    if kind == "extra_forbidden":
        return f"{_under(where[:-1])}unknown key {where[-1]!r}: {did_you_mean(where[-1], _known(where))}"
    shown = kind.endswith("_type") or kind == "literal_error"
    return f"{'.'.join(where)} {_EXPECTED.get(kind, first['msg'])}{_found(loaded, where) if shown else ''}"


def _of_key(where: Sequence[str], kind: str) -> str:
    if kind in ("string_type", "invalid_key"):
        return f"{_under(where[:-1])}a key must be a text: put numbers, dates and words such as yes and no in quotes"
    if where[0] == "categories" and len(where) == 2:
        return f"categories: {where[-1]!r} must be lower-case letters, digits, - and _, such as 'age_group'"
    return f"{_under(where[:-1])}a key {_EXPECTED.get(kind, 'cannot be used')}"


def _under(where: Sequence[str]) -> str:
    return f"{'.'.join(where)}: " if where else ""


def _known(where: Sequence[str]) -> list[str]:
    return list((GridDocument if len(where) == 1 else CategoryDocument).model_fields)


def _found(loaded: Any, where: Sequence[str]) -> str:
    for key in where:
        loaded = loaded[int(key)] if isinstance(loaded, list) else loaded.get(key)
    text = repr(loaded)
    return f", found {text if len(text) <= 60 else text[:59] + '…'}"


def _problems(document: GridDocument, *, needs_categories: bool) -> Iterator[str]:
    """What is wrong beyond the shape."""
    if not document.categories and needs_categories:
        yield "it has no categories; give at least one, with identities and their descriptors"
    if document.locations is not None:
        yield from _same(document.locations, "locations", "location category")
        places = [(place, f"locations.{category}") for category, these in document.locations.items() for place in these]
        yield from _twice(places, "location")
    for name, given in document.categories.items():
        yield from _problems_of(given.category(name), f"categories.{name}")


def _problems_of(category: Category, place: str) -> Iterator[str]:
    yield from _same(category.types, f"{place}.types", "type")
    yield from _same(category.identities, place, "identity")
    yield from _descriptor_problems(category, place)
    for kind, members in category.types.items():
        at = f"{place}.types.{kind}"
        if len(members) < 2:
            yield f"{at} has one identity only ({next(iter(members))}); comparing needs at least two"
        sizes = {identity: len(these) for identity, these in members.items()}
        if category.pairing == ALIGNED and len(set(sizes.values())) > 1:
            counts = ", ".join(f"{identity} {size}" for identity, size in sizes.items())
            yield f"{at}: aligned pairing needs as many descriptors for each identity ({counts}); add some or set pairing: {WITHIN_TYPE}"
        names = [(one.name, f"{at}.{one.identity}") for these in members.values() for one in these]
        yield from _twice(names, "name", "; characters who meet in a story need different names")


def _descriptor_problems(category: Category, place: str) -> Iterator[str]:
    owner: dict[str, Descriptor] = {}
    for one in category.descriptors:
        at = f"{place}.types.{one.type}.{one.identity}"
        if not one.name or one.name not in one.text:
            yield f"{at}: the name {one.name!r} does not stand in the text {one.text!r}, so a story cannot use it"
        other = owner.setdefault(one.text.casefold(), one)
        if other is not one:
            if other.identity != one.identity:
                yield f"{at}: the descriptor {one.text!r} stands under two identities, {other.identity} and {one.identity}; keep one"
            yield f"{at}: the descriptor {one.text!r} stands twice; remove one"


def _same(names: Iterable[str], place: str, what: str) -> Iterator[str]:
    """Names that differ in case only are the same to a reader."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.casefold(), name)) != name:
            yield f"{place}: {other!r} and {name!r} are the same {what}; merge them or use different names"


def _twice(found: Iterable[tuple[str, str]], what: str, why: str = "") -> Iterator[str]:
    """The same value at two places of the file."""
    seen: dict[str, str] = {}
    for value, place in found:
        if value.casefold() in seen:
            first = seen[value.casefold()]
            yield f"{place}: the {what} {value!r} stands twice{'' if first == place else f' (also in {first})'}{why or '; remove one'}"
        seen[value.casefold()] = place
