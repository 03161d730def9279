"""The words that the lexical extractor knows by meaning (lexicon.yaml)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

__all__ = ["gender_of_noun", "is_trait", "pronouns", "table", "words"]


@cache
def _data() -> Mapping[str, Any]:
    import yaml

    loaded: dict[str, Any] = yaml.safe_load(files("tiltmeter.associations.lexical").joinpath("lexicon.yaml").read_text(encoding="utf-8"))
    return loaded


@cache
def words(name: str) -> frozenset[str]:
    """The words of one list."""
    return frozenset(_data()[name])


@cache
def table(name: str) -> Mapping[str, Sequence[str]]:
    """Lists by word."""
    found: Mapping[str, Sequence[str]] = _data()[name]
    return found


@cache
def pronouns() -> Mapping[str, str]:
    """The class ("he", "she", "they", ...) of each personal, possessive and reflexive pronoun."""
    return {form: kind for kind, forms in table("pronouns").items() for form in forms}


@cache
def _people() -> Mapping[str, str]:
    return {noun: gender for gender, nouns in table("people").items() for noun in nouns}


def gender_of_noun(noun: str) -> str | None:
    """The pronoun class that takes up a noun for a person: "he", "she" or "either"; None for a noun that means no person."""
    return _people().get(noun)


_ABSTRACT = re.compile(r"[a-z]{3,}(?:ness|ity|ism|ship|hood)$")


@lru_cache(maxsize=1 << 14)
def is_trait(noun: str) -> bool:
    """Whether a noun is a quality that somebody can have."""
    return noun in words("traits") or (bool(_ABSTRACT.match(noun)) and noun not in words("no_traits"))
