"""Demographic terms, cues of negation and opposites: our lists, or a user's."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tiltmeter._yaml import read_yaml
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["Term", "Terms", "load_terms", "plain_words", "plain_words_of"]

HOME = Path(__file__).with_name("terms.yaml")
_TOP = ("identities", "negation", "opposites", "further_opposites", "opposed_prefixes", "numbers")
_NEGATION = ("cues", "ignored", "prefixes", "without")
_IDENTITY = ("called", "letters", "terms", "related")
_PLAIN = (("[’‘`´]", "'"), (r"n't\b", " not"), (r"[-‐‑–—/_\s]+", " "))


class Term(NamedTuple):
    """One term with its forms, in plain words."""

    category: str
    identity: str
    forms: tuple[str, ...]
    exclusive: bool
    """Belongs to the identity by definition or universal fact; otherwise it only keeps phrases apart."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What `terms.yaml` says, with every word in the form `plain_words` gives."""

    terms: tuple[Term, ...]
    called: Mapping[str, tuple[str, str]]
    """(category, identity) by each name an identity has; the first category that knows a name has it."""
    letters: Mapping[str, tuple[str, str]]
    """Likewise by each letter that stands for an identity where a study calls all of them by letters ("W", "M")."""
    cues: tuple[str, ...]
    ignored: tuple[str, ...]
    prefixes: tuple[str, ...]
    without: tuple[str, ...]
    opposites: tuple[tuple[str, str], ...]
    further_opposites: tuple[tuple[str, str], ...]
    """These, and what follows, keep phrases apart by the default definition only."""
    opposed_prefixes: tuple[tuple[str, str], ...]
    numbers: Mapping[str, str]
    """The number that each word means, as `_numbers` takes it: "5U" a unit, "4T" tens, anything else as it is."""

    def names_of(self, entry: tuple[str, str]) -> list[str]:
        """What an identity (category, identity) may be called."""
        return [name for name, other in self.called.items() if other == entry]


def plain_words(text: pl.Expr) -> pl.Expr:
    """Lower-case words: hyphens, slashes and underscores part words, and a negation that was drawn together is spelt out."""
    text = text.str.normalize("NFKC").str.to_lowercase()
    for pattern, instead in _PLAIN:
        text = text.str.replace_all(pattern, instead)
    return text.str.strip_chars()


def plain_words_of(text: str) -> str:
    """`plain_words` of one text."""
    text = unicodedata.normalize("NFKC", text).lower()
    for pattern, instead in _PLAIN:
        text = re.sub(pattern, instead, text)
    return text.strip()


def load_terms(path: str | None = None) -> Terms:
    """Our terms, with what a user's YAML file gives in the place of ours.

    Raises
    ------
    InputError
        The file cannot be read or is not of the shape of `terms.yaml`; the message names the key.
    """
    return _ours() if path is None else _made(_read(Path(path)), path)


@cache
def _ours() -> Terms:
    return _made({}, HOME.name)


def _made(given: dict[str, Any], place: str) -> Terms:
    """The terms of our file with those keys in their place."""
    ours = _read(HOME)
    _known(given, _TOP, place, place)
    identities = {**ours["identities"], **_mapping(given.get("identities", {}), f"{place}: identities")}
    negation = {**ours["negation"], **_mapping(given.get("negation", {}), f"{place}: negation")}
    _known(negation, _NEGATION, f"{place}: negation", place)
    words = {key: _words(negation[key], f"{place}: negation.{key}") for key in _NEGATION}
    opposites = _entries(given.get("opposites", ours["opposites"]), f"{place}: opposites")
    for entry in opposites:
        if len(entry) != 2:
            raise InputError(f'{place}: opposites: {", ".join(entry)!r} is not a pair; write "calm, anxious"')
    return Terms(
        terms=tuple(_terms(identities, place)),
        called=_called(identities, place, "called"),
        letters=_called(identities, place, "letters"),
        cues=words["cues"],
        ignored=words["ignored"],
        prefixes=words["prefixes"],
        without=words["without"],
        opposites=tuple((first, second) for first, second in opposites),
        further_opposites=_opposed(given.get("further_opposites", ours["further_opposites"]), f"{place}: further_opposites"),
        opposed_prefixes=_opposed(given.get("opposed_prefixes", ours["opposed_prefixes"]), f"{place}: opposed_prefixes"),
        numbers=_numbers(given.get("numbers", ours["numbers"]), f"{place}: numbers"),
    )


def _read(path: Path) -> dict[str, Any]:
    return _mapping(read_yaml(path, "terms in"), str(path))


def _terms(identities: Mapping[str, Any], place: str) -> Iterator[Term]:
    for category, identity, fields, where in _identities(identities, place):
        for key in ("terms", "related"):
            for forms in _entries(fields.get(key, []), f"{where}.{key}"):
                yield Term(category, identity, forms, key == "terms")


def _called(identities: Mapping[str, Any], place: str, key: str) -> dict[str, tuple[str, str]]:
    names: dict[str, tuple[str, str]] = {}
    for category, identity, fields, where in _identities(identities, place):
        own = (plain_words_of(identity),) if key == "called" else ()
        for name in (*own, *_words(fields.get(key, []), f"{where}.{key}")):
            names.setdefault(name, (category, identity))
    return names


def _identities(identities: Mapping[str, Any], place: str) -> Iterator[tuple[str, str, Mapping[str, Any], str]]:
    for category, entries in identities.items():
        for identity, fields in _mapping(entries, f"{place}: identities.{category}").items():
            where = f"{place}: identities.{category}.{identity}"
            yield category, identity, _known(_mapping(fields, where), _IDENTITY, where, place), where


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InputError(f"{where}: expected a mapping with names as keys")
    return value


def _known(value: dict[str, Any], keys: Sequence[str], where: str, place: str) -> dict[str, Any]:
    for key in value:
        if key not in keys:
            raise InputError(f"{where}: unknown key {key!r} in {place}: {did_you_mean(key, keys)}")
    return value


def _entries(value: Any, where: str) -> list[tuple[str, ...]]:
    if not isinstance(value, list) or not all(isinstance(entry, str) and entry.strip() for entry in value):
        raise InputError(f"{where}: expected a list of texts (put words that YAML reads otherwise, such as no, in quotes)")
    return [tuple(dict.fromkeys(plain_words_of(form) for form in entry.split(",") if form.strip())) for entry in value]


def _opposed(value: Any, where: str) -> tuple[tuple[str, str], ...]:
    """Every word of one side with every word of another; sides are parted by "|"."""
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise InputError(f'{where}: expected a list of texts such as "rich, wealthy | poor"')
    pairs: dict[tuple[str, str], None] = {}
    for entry in value:
        sides = [[plain_words_of(word) for word in side.split(",") if word.strip()] for side in entry.split("|")]
        if len(sides) < 2 or not all(sides):
            raise InputError(f'{where}: {entry!r} has not two sides; write "rich, wealthy | poor"')
        pairs |= dict.fromkeys(pair for one, other in combinations(sides, 2) for pair in product(one, other))
    return tuple(pairs)


def _numbers(value: Any, where: str) -> dict[str, str]:
    numbers = _mapping(value, where)
    return {plain_words_of(word): str(number) for number, forms in numbers.items() for word in _words([forms], f"{where}.{number}")}


def _words(value: Any, where: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for entry in _entries(value, where) for word in entry))
