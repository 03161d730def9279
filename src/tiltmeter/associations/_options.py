"""The `-P key=value` of associations, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean
from tiltmeter.study import Settings

__all__ = ["DEFINITIONS", "STAGES", "Options", "options_of"]

DEFINITIONS = ("default", "paper", "badf-code")
STAGES = ("extract", "refine", "decompose", "polish")
WHOLE = "whole"
NO_ENCODER = "none"

Value = TypeVar("Value", int, float)


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may choose about extraction, unifying and testing; files are paths as the user wrote them."""

    definition: str
    judged: bool
    stages: tuple[str, ...]
    encoder: str | None
    threshold: float
    method: str
    minimum: int
    shuffle: str
    wording: str | None
    terms: str | None
    lists: str | None
    mentions: str | None
    concepts: str | None
    exclusive: str | None


def options_of(settings: Settings) -> Options:
    """The options of a study, with defaults.

    Raises
    ------
    InputError
        A value is not of its kind or range, or contradicts another; the message names the key.
    """
    given = settings.params
    if settings.definition not in DEFINITIONS:
        raise InputError(f"unknown definition {settings.definition!r} of associations; known: {', '.join(DEFINITIONS)}")
    if "lists" in given and "mentions" not in given:
        raise InputError("-P lists= goes with -P mentions=: give both tables of the run, edited or not")
    encoder = given.get("encoder", "all-MiniLM-L6-v2")
    return Options(
        definition=settings.definition,
        judged=_judged(settings),
        stages=_stages(given.get("stages", ",".join(STAGES))),
        encoder=None if encoder == NO_ENCODER else encoder,
        threshold=_number(given, "threshold", float, 0.63, lambda value: 0 < value < 1, "a similarity between 0 and 1, such as 0.63"),
        method=_one_of("method", given.get("method", "leader"), ("leader", "components", "average")),
        minimum=_number(given, "minimum", int, 5, lambda value: value >= 1, "a number of lists, such as 5"),
        shuffle=_one_of("shuffle", given.get("shuffle", "list"), ("list", "descriptor")),
        **{name: given.get(name) for name in ("wording", "terms", "lists", "mentions", "concepts", "exclusive")},
    )


def _judged(settings: Settings) -> bool:
    chosen = _one_of("extraction", settings.params.get("extraction", "judge" if settings.judge else "lexical"), ("judge", "lexical"))
    if chosen == "judge" and settings.judge is None:
        raise InputError("-P extraction=judge needs a model that extracts: give --judge PROVIDER/NAME, or -P extraction=lexical")
    return chosen == "judge"


def _stages(text: str) -> tuple[str, ...]:
    found = tuple(one.strip() for one in text.split(","))
    if found == (WHOLE,):
        return found
    for one in found:
        _one_of("stages", one, (*STAGES, WHOLE))
    if sorted(set(found), key=STAGES.index if WHOLE not in found else str) != list(found) or found[0] != STAGES[0]:
        raise InputError(f"-P stages={text}: give extract and, in this order, any of {', '.join(STAGES[1:])}; or {WHOLE} alone")
    return found


def _one_of(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise InputError(f"-P {name}={value}: {did_you_mean(value, known)}")
    return value


def _number(
    given: Mapping[str, str], name: str, kind: Callable[[str], Value], default: Value, fits: Callable[[Value], bool], wanted: str
) -> Value:
    text = given.get(name)
    if text is None:
        return default
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not fits(value):
        raise InputError(f"-P {name}={text}: give {wanted}")
    return value
