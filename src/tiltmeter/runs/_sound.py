"""Whether what lies in a run folder is what a run writes there: a folder may come from anybody, and pages are made of all of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, NamedTuple

import polars as pl

from tiltmeter.errors import InputError
from tiltmeter.study import DESIGN, EXAMPLES, FINDINGS, NAMED, RESPONSES

__all__ = ["check_findings", "sound_about", "sound_columns", "sound_findings"]

_AGAIN = "run the study again to make it anew"


class _Each(NamedTuple):
    """A mapping of names to values of one shape."""

    of: Any


class _Maybe(NamedTuple):
    """What may be lacking."""

    of: Any


_NAME = (str, NoneType)
_TALLY = {"answered": int, "held": int, "input_tokens": int, "output_tokens": int, "cost": (int, float, NoneType)}
_ABOUT: Mapping[str, Any] = {
    "packages": _Each(str),
    "command": _Maybe(_NAME),
    "limit": (int, float, str, NoneType),
    "repeats": (int, NoneType),
    "system_message": _NAME,
    "params": _Each(str),
    "parts": _Each(
        {
            "status": str,
            **dict.fromkeys(("title", "reason"), _Maybe(str)),
            "harms": _Maybe([str]),
            "responses": _Maybe(_Each({"found": int, "wanted": int, "unit": str})),
        }
    ),
    "data": [{"name": str, **dict.fromkeys(("title", "origin", "licence", "restricted", "citation"), _Maybe(_NAME))}],
    "tables": _Each({"rows": _Maybe(int), "sha256": str}),
    "problems": [str],
    "models": [{"name": str, "tally": _Maybe(_TALLY)}],
    "judged_by": _Maybe((NoneType, {"name": str, "sampling": _Each(object), "stages": [{"total": int}]})),
}
"""Shapes: a type, several of them, a list of one shape, a mapping with these keys, or `_Each`."""

_COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "design": DESIGN,
    "responses": RESPONSES,
    "measures": {"model": pl.String, "prompt_id": pl.String, "repetition": pl.Int16, "part": pl.String, "outcome": pl.String},
    "findings": FINDINGS,
    "definitional": {"part": pl.String, **FINDINGS, "reason": pl.String},
    "examples": {"model": pl.String, "part": pl.String, **EXAMPLES},
}
_COUNTS = ("n", "answered", "refused", "unreadable", "empty", "failed")
_FILLED = ("study", "model", "metric", "harm", "key", "description", "definition", "n", "answered")
"""Columns of findings that every number has."""


def sound_about(about: Mapping[str, Any], place: str) -> None:
    """Raise InputError, naming the file and the key, where a run.json holds a value no run writes there."""
    if wrong := next(_wrong(about, _ABOUT, ""), None):
        raise InputError(f"{place} is damaged: {wrong!r} is not as a run writes it; {_AGAIN}")
    if not 0 < about["level"] < 1:
        raise InputError(f"{place} is damaged: the level {about['level']} does not lie between 0 and 1; {_AGAIN}")


def _wrong(value: Any, shape: Any, key: str) -> Iterator[str]:
    """Keys, with those above them, of values that are not of their shape."""
    match shape:
        case _Maybe(of):
            yield from _wrong(value, of, key)
        case _Each(of):
            yield from _inside(value, dict, key, lambda: ((name, one, of) for name, one in value.items()))
        case [of]:
            yield from _inside(value, list, key, lambda: ((str(number), one, of) for number, one in enumerate(value, 1)))
        case dict():
            yield from _inside(value, dict, key, lambda: _of_keys(value, shape))
        case (*kinds,) if any(isinstance(one, dict) for one in kinds):
            if value is not None:
                yield from _wrong(value, next(one for one in kinds if isinstance(one, dict)), key)
        case _:
            if not isinstance(value, shape) or (isinstance(value, float) and not math.isfinite(value)):
                yield key


def _inside(value: Any, kind: type, key: str, members: Any) -> Iterator[str]:
    if not isinstance(value, kind):
        yield key
        return
    for name, one, shape in members():
        yield from _wrong(one, shape, f"{key}.{name}" if key else name)


def _of_keys(value: Mapping[str, Any], shape: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name, of in shape.items():
        if name in value or not isinstance(of, _Maybe):
            yield name, value.get(name, ...), of


def sound_columns(table: str, schema: Mapping[str, pl.DataType], place: str) -> None:
    """Raise InputError, naming file and column, where a column of a run's table is lacking or holds another kind of value than a run's."""
    for name, kind in _COLUMNS[table].items():
        if name not in schema and table in ("examples", "definitional"):
            raise InputError(f"{place} lacks the column {name!r} every such table has; {_AGAIN}")
        if name in schema and schema[name] != kind:
            raise InputError(f"{place} is damaged: its column {name!r} holds {schema[name]}, where a run writes {kind}; {_AGAIN}")


def sound_findings(findings: pl.DataFrame, place: str) -> None:
    """Raise InputError where a finding lacks what every number has, has a count below 0, or stands twice."""
    if fault := check_findings(findings):
        raise InputError(f"{place} is damaged: {fault}; {_AGAIN}")


def check_findings(findings: pl.DataFrame) -> str | None:
    """What is wrong with findings, in words; None where nothing is."""
    for name in _FILLED:
        if findings[name].null_count():
            return f"row {int(findings[name].is_null().arg_true()[0]) + 1} has no {name}"
    if not findings.select(pl.all_horizontal(pl.col(_COUNTS) >= 0).all()).item():
        return "a count in it is below 0"
    twice = findings.select(pl.struct("study", "model", *NAMED).is_duplicated().arg_true()).to_series()
    return f"row {int(twice[0]) + 1} stands there twice" if twice.len() else None
