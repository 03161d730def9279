"""Options of models (`-M key=value`): parsing, ranges, and the refusal of keys."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from tiltmeter.errors import InputError, did_you_mean

Range: TypeAlias = tuple[type[int] | type[float], float, float]
"""Type of a number, its minimum and its maximum."""

SECRET_NAME = re.compile(
    r"secret|passw(?:or)?d|passphrase|authori[sz]|credential|bearer|(?:key|keys|keyid|token)$|^x?auth$"
)
"""Matches a name without its separators: api_key, hf_token, X-Api-Key, but not max_tokens or stop_token_ids.
"""
_NO_SECRETS = frozenset(("prompt_cache_key",))


def check_options(spec: str, options: Iterable[str], known: Sequence[str] = ()) -> None:
    """Raise InputError if an option is not among the known ones."""
    for name in options:
        if name not in known:
            raise InputError(
                f"{spec} has no option {name}: {did_you_mean(name, known) if known else 'remove it from -M'}"
            )


def check_local(spec: str, base_url: str | None) -> None:
    """Raise InputError if a base URL was given for a model without one."""
    if base_url is not None:
        raise InputError(f"{spec} runs inside tiltmeter and has no base URL: remove --base-url")


def parse_number(name: str, value: str, allowed: Range) -> Any:
    """Parse the number of the option `-M NAME=VALUE`.

    Raise InputError if it is not a number or out of range.
    """
    kind, least, most = allowed
    try:
        number = kind(value)
    except ValueError:
        number = math.nan
    if not least <= number <= most or number == math.inf:
        what = "a whole number" if kind is int else "a number"
        raise InputError(
            f"-M {name}={value}: give {what} {f'of {least} or more' if most == math.inf else f'from {least} to {most}'}"
        )
    return number


def refuse_secrets(place: str, name: str, value: Any) -> None:
    """Raise InputError if the name of an option, or a name with a text in its JSON value, looks like that of a key.

    The message contains `place`, which is the option as the user wrote it, but never the value.
    """
    names, left = [name], [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            names += [inside for inside, inner in one.items() if isinstance(inner, str)]
            left += one.values()
        elif isinstance(one, list):
            left += one
    for found in names:
        if found not in _NO_SECRETS and SECRET_NAME.search(re.sub(r"[^a-z0-9]", "", found.lower())):
            shown = place if found == name else f"{found!r} in {place}"
            raise InputError(
                f"{shown} looks like a key or password, which would be written to the files of the run: "
                "set the provider's environment variable instead (see `tiltmeter list models`)"
            )


def parse_scalar(value: str) -> Any:
    """Return a value parsed as JSON (number, true, false, null, list, object), or the text itself if it is not JSON."""
    try:
        return json.loads(
            value, parse_constant=lambda name: name
        )  # NaN and Infinity are not JSON: they remain text
    except (ValueError, RecursionError):
        return value
