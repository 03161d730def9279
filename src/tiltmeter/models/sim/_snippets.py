"""The texts of voice.yaml, checked and made ready for quick picking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Snippets", "load_yaml", "snippets"]

VERBOSITIES = ("terse", "natural", "wordy")


@dataclass(frozen=True, slots=True)
class Snippets:
    """What is said, and the words by which it is recognised what is asked."""

    forms: Mapping[str, tuple[tuple[str, ...], ...]]
    """Templates by kind and verbosity (0, 1, 2), each as often as its weight says, so that a uniform pick has the right odds."""
    refusals: tuple[str, ...]
    unreadable: Mapping[str, tuple[str, ...]]
    pronouns: Mapping[str, Mapping[str, str]]
    names: tuple[str, ...]
    letter_words: tuple[str, ...]
    phrases: tuple[str, str]
    rejecting: tuple[str, ...]
    accepting: tuple[str, ...]
    emotions: frozenset[str]
    section_words: frozenset[str]


def load_yaml(name: str) -> Any:
    """The data file `name` beside this module."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(Path(__file__).with_name(name).read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - both are safe loaders


def _repeated(weights: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(template for template, weight in weights.items() for _ in range(weight))


@cache
def snippets() -> Snippets:
    """The snippets, read once."""
    data = load_yaml("voice.yaml")
    return Snippets(
        forms={kind: tuple(_repeated(forms[name]) for name in VERBOSITIES) for kind, forms in data["forms"].items()},
        refusals=_repeated(data["refusals"]),
        unreadable={kind: _repeated(weights) for kind, weights in data["unreadable"].items()},
        pronouns={
            gender: dict(zip(("They", "they", "their", "them", "was"), words, strict=True)) | {"Their": words[2].capitalize()}
            for gender, words in data["pronouns"].items()
        },
        names=tuple(data["names"]),
        letter_words=tuple(data["letter_words"]),
        phrases=(data["phrases"][0], data["phrases"][1]),
        rejecting=tuple(data["rejecting"]),
        accepting=tuple(data["accepting"]),
        emotions=frozenset(data["emotions"]),
        section_words=frozenset(data["section_words"]),
    )
