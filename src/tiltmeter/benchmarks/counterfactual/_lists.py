"""Word lists: the default ones, and checks of a user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from tiltmeter.errors import InputError

__all__ = ["Lists", "checked_lists", "default_words"]


class Lists(NamedTuple):
    """Words in the form in which texts are searched for them: lower case, single blanks, each once."""

    groups: dict[str, tuple[str, ...]]
    targets: tuple[str, ...]


@cache
def default_words() -> Mapping[str, Any]:
    """The default lists: `groups` (words by group), `targets` and `stop` (words that are no context)."""
    import yaml

    loaded: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("words.yaml").read_text(encoding="utf-8"))
    return loaded


def checked_lists(groups: Mapping[str, Sequence[str]] | None, targets: Sequence[str] | None) -> Lists:
    """The user's lists, or the default ones where there are none.

    Raises
    ------
    InputError
        Fewer than two groups, an empty list or word, or a word in two lists.
    """
    groups = groups if groups is not None else default_words()["groups"]
    targets = targets if targets is not None else default_words()["targets"]
    if len(groups) < 2:
        raise InputError(f"groups names {len(groups)} group; at least two are needed, each with a list of its words")
    kept = Lists({name: _words(words, f"groups[{name!r}]") for name, words in groups.items()}, _words(targets, "targets"))
    seen: dict[str, str] = {}
    for place, words in [*((f"groups[{name!r}]", words) for name, words in kept.groups.items()), ("targets", kept.targets)]:
        for word in words:
            if word in seen:
                raise InputError(f"{word!r} stands in {seen[word]} and in {place}; a word may be in one list only")
            seen[word] = place
    return kept


def _words(words: Sequence[str], place: str) -> tuple[str, ...]:
    if isinstance(words, str) or not words or not all(str(word).strip() for word in words):
        raise InputError(f"{place} must be a list of words, none of them empty")
    return tuple(dict.fromkeys(" ".join(str(word).lower().replace("\u2019", "'").split()) for word in words))
