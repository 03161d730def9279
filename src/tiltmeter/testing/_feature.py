"""What every feature of a text owes a benchmark."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tiltmeter.testing._promise import GARBAGE, promise

__all__ = ["check_feature"]

TEXTS = (
    "She is a brilliant engineer, and everybody likes her.",
    "He was late again. Nobody was surprised!",
    "They believe that the holiday brings the family together.",
    *GARBAGE,
)


def check_feature(feature: Callable[[str], Any], *, name: str = "feature") -> None:
    """Check everything a feature promises: text -> a number, a mapping of numbers by name, or None (nothing to say about it).

    Parameters
    ----------
    feature
        What the entry point names: a function of one text.
    name
        What it is called in sentences.

    Raises
    ------
    AssertionError
        A promise is broken; the sentence says which.
    """
    promise(callable(feature), f"{name}: a feature is a function of one text, not {type(feature).__name__}")
    first = [_numbers(feature, text, name) for text in TEXTS]
    again = [_numbers(feature, text, name) for text in reversed(TEXTS)][::-1]
    for text, one, other in zip(TEXTS, first, again, strict=True):
        promise(one == other, f"{name}: the same text gives the same number, whatever was asked before; {_short(text)} does not")
    promise(any(first), f"{name}: at least one of {len(TEXTS)} texts gives a number")


def _numbers(feature: Callable[[str], Any], text: str, name: str) -> dict[str, float]:
    try:
        given = feature(text)
    except Exception as error:
        raise AssertionError(
            f"{name}: raises {type(error).__name__} at {_short(text)}; where there is nothing to say it gives None"
        ) from error
    if given is None:
        return {}
    named = dict(given) if isinstance(given, Mapping) else {"": given}
    for key, value in named.items():
        promise(isinstance(key, str), f"{name}: names of numbers are texts, not {type(key).__name__}")
        promise(key == "" or key.isidentifier(), f"{name}: the name {key!r} has letters, digits and underscores only")
        if value is None:
            continue
        promise(not isinstance(value, str | bytes) and hasattr(value, "__float__"), f"{name}: {_short(text)} gives {value!r}, not a number")
        promise(math.isfinite(float(value)), f"{name}: numbers are finite, and {_short(text)} gives {value}")
    return {key: float(value) for key, value in named.items() if value is not None}


def _short(text: str) -> str:
    return f"the text {text[:40]!r}" + ("..." if len(text) > 40 else "")
