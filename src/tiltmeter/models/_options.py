"""Options of models (`-M key=value`): parsing, ranges, and the refusal of keys."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from tiltmeter.errors import InputError, did_you_mean

Range: TypeAlias = tuple[type[int] | type[float], float, float]
"""Type of a number, its minimum and its maximum."""

SECRET_NAME: Final = re.compile(
    r"secret|passw(?:or)?d|passphrase|authori[sz]|credential|bearer|(?:key|keys|keyid|token)$|^x?auth$"
)
"""Matches a name without its separators: api_key, hf_token, X-Api-Key, but not max_tokens or stop_token_ids.
"""
_NO_SECRETS = frozenset(("prompt_cache_key",))


def check_options(spec: str, options: Iterable[str], allowed: Sequence[str] = ()) -> None:
    """Raise InputError if an option is not among the allowed ones."""
    for name in options:
        if name not in allowed:
            hint = did_you_mean(name, allowed) if allowed else "remove it from -M"
            raise InputError(f"{spec} has no option {name}: {hint}")


def check_local(spec: str, base_url: str | None) -> None:
    """Raise InputError if a base URL was given for a model without one."""
    if base_url is not None:
        raise InputError(f"{spec} runs inside tiltmeter and has no base URL: remove --base-url")


def parse_number(name: str, value: str, allowed: Range) -> Any:
    """Parse the number of the option `-M NAME=VALUE`.

    Raise InputError if it is not a number or out of range.
    """
    kind, minimum, maximum = allowed
    try:
        number = kind(value)
    except ValueError:
        number = math.nan
    if not minimum <= number <= maximum or number == math.inf:
        noun = "a whole number" if kind is int else "a number"
        limits = f"of {minimum} or more" if maximum == math.inf else f"from {minimum} to {maximum}"
        raise InputError(f"-M {name}={value}: give {noun} {limits}")
    return number


def refuse_secrets(place: str, name: str, value: Any) -> None:
    """Raise InputError if the name of an option, or of a text in its JSON value, looks like that of a key.

    Parameters
    ----------
    place
        The option as the user wrote it. The message contains it, but never the value.
    name, value
        Name and value of the option.
    """
    for candidate in [name, *_names_of_texts(value)]:
        if candidate not in _NO_SECRETS and _looks_secret(candidate):
            subject = place if candidate == name else f"{candidate!r} in {place}"
            raise InputError(
                f"{subject} looks like a key or password, which would be written to the files of the run: "
                "set the provider's environment variable instead (see `tiltmeter list models`)"
            )


def _looks_secret(name: str) -> bool:
    return SECRET_NAME.search(re.sub(r"[^a-z0-9]", "", name.lower())) is not None


def _names_of_texts(value: Any) -> list[str]:
    """Return the names of all texts in a JSON value, at any depth."""
    names: list[str] = []
    pending = [value]
    while pending:
        inner = pending.pop()
        if isinstance(inner, dict):
            names += [name for name, text in inner.items() if isinstance(text, str)]
            pending += inner.values()
        elif isinstance(inner, list):
            pending += inner
    return names


def parse_scalar(value: str) -> Any:
    """Return a value parsed as JSON (number, true, false, null, list, object).

    A text that is not JSON is returned unchanged, and so are NaN and Infinity.
    """
    try:
        return json.loads(value, parse_constant=lambda name: name)
    except (ValueError, RecursionError):
        return value
