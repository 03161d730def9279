"""The replacement table: which words of a root become which words of a target."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiltmeter._text import not_utf8
from tiltmeter._yaml import read_yaml
from tiltmeter.errors import InputError

__all__ = ["Replacements", "inverse", "read_table"]

Replacements = dict[str, dict[str, dict[str, str]]]
"""`{root: {target: {old: new}}}`; roots and targets are concepts."""

_SHAPE = "write '{root: {target: {old: new}}}', for instance 'Argentina: {Brazil: {Argentina: Brazil, Argentine: Brazilian}}'"
_IN_A_WORD = re.compile(r"\w")


def read_table(table: str | Path | Mapping[str, Any]) -> Replacements:
    """The replacement table of a YAML or JSON file (or of a mapping), checked.

    The table is the whole of what is replaced: a root's own name stands in it like any other word. A word that maps to itself is kept
    as it is, which protects it from a shorter or differently written entry ("turkey: turkey" beside "Turkey: Brazil").

    Raises
    ------
    InputError
        The file cannot be read, or an entry cannot be used; the message names file and key.
    """
    if isinstance(table, Mapping):
        return _checked(table, "the replacement table")
    path = Path(table)
    return _checked(_loaded(path), str(path))


def inverse(words: Mapping[str, str], place: str) -> dict[str, str]:
    """`{new: old}`.

    Raises
    ------
    InputError
        Two words have the same replacement, so that the way back is not known.
    """
    back: dict[str, tuple[str, str]] = {}
    for old, new in words.items():
        other = back.setdefault(new.casefold(), (new, old))
        if other[1] != old:
            raise InputError(
                f"{place}: {other[1]!r} and {old!r} both become {new!r}, so the table does not say what {new!r} is to become on the way "
                "back; write a table for the other direction too"
            )
    return dict(back.values())


def _loaded(path: Path) -> object:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file of replacements") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read the replacements in {path}: {getattr(error, 'strerror', None) or not_utf8(path.read_bytes())}"
        ) from None
    if path.suffix.lower() == ".json":
        try:
            return json.loads(text, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not valid JSON: {error}") from None
    return read_yaml(path, "replacements in")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"the key {key!r} stands twice in one object")
        made[key] = value
    return made


def _checked(table: object, place: str) -> Replacements:
    made: Replacements = {}
    for root, targets in _entries(table, place):
        mine = made.setdefault(root, {})
        for target, words in _entries(targets, f"{place}: {root}"):
            at = f"{place}: {root}.{target}"
            if target == root:
                raise InputError(f"{at}: a concept cannot be branched to itself; name another target")
            mine[target] = _words(words, at)
    return made


def _entries(table: object, place: str) -> list[tuple[str, object]]:
    if not isinstance(table, Mapping) or not table:
        raise InputError(f"{place}: expected a mapping with at least one entry; {_SHAPE}")
    return [(_text(key, place), value) for key, value in table.items()]


def _words(words: object, place: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for old, new in _entries(words, place):
        if not _IN_A_WORD.search(old):
            raise InputError(f"{place}: {old!r} holds no letter or digit, so it is no word that could be replaced")
        if old in made:
            raise InputError(f"{place}: {old!r} stands twice; remove one")
        made[old] = _text(new, f"{place}.{old}")
    return made


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        hint = "put it in quotes" if isinstance(value, bool | int | float) else "write a text"
        raise InputError(f"{place}: {value!r} is not a text; {hint}")
    if not (text := " ".join(value.split())):
        raise InputError(f"{place}: a text is empty; write a word or remove the entry")
    return text
