"""Conformance checks for features."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tiltmeter.testing._requirements import GARBAGE, Requirement, raising_nothing, requirement_of

TEXTS: tuple[str, ...] = (
    "She is a brilliant engineer, and everybody likes her.",
    "He was late again. No one was surprised!",
    "They believe that the holiday brings the family together.",
    *GARBAGE,
)


def check_feature(feature: Callable[[str], Any], *, name: str = "feature") -> None:
    """Check that a feature maps texts to a number, a mapping of numbers by name, or None (not applicable).

    Parameters
    ----------
    feature
        The object of the entry point: a function of one text.
    name
        Name of the feature in messages.

    Raises
    ------
    AssertionError
        A requirement is not met; the message says which one.
    """
    require = requirement_of(name)
    require(callable(feature), f"a feature must be a function of one text, not {type(feature).__name__}")
    numbers = {text: _numbers(feature, require, text) for text in TEXTS}
    for text in reversed(TEXTS):
        is_same = numbers[text] == _numbers(feature, require, text)
        require(is_same, f"the same text must always give the same numbers, but {_short(text)} does not")
    require(any(numbers.values()), f"at least one of the {len(TEXTS)} test texts must give a number")


def _numbers(feature: Callable[[str], Any], require: Requirement, text: str) -> dict[str, float]:
    """Return the numbers of a text by name, after checking their names and types."""
    with raising_nothing(require, f"for {_short(text)}; return None if the feature is not applicable"):
        output = feature(text)
    if output is None:
        return {}
    values = dict(output) if isinstance(output, Mapping) else {"": output}
    numbers = {}
    for name, value in values.items():
        require(isinstance(name, str), f"names of numbers must be strings, not {type(name).__name__}")
        require(
            name == "" or name.isidentifier(),
            f"the name {name!r} must consist of letters, digits and underscores",
        )
        if value is None:
            continue
        require(
            not isinstance(value, str | bytes) and hasattr(value, "__float__"),
            f"values must be numbers, but {_short(text)} gives {value!r}",
        )
        require(math.isfinite(float(value)), f"numbers must be finite, but {_short(text)} gives {value}")
        numbers[name] = float(value)
    return numbers


def _short(text: str) -> str:
    ellipsis = "..." if len(text) > 40 else ""
    return f"the text {text[:40]!r}{ellipsis}"
