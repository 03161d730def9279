"""`-M key=value`: what of it is sampling, what are vendor extras, what is the provider's own.

The rule. The fields of `Sampling` (temperature, top_p, max_tokens, seed, stop) are sampling with every provider. Of the
rest, a provider whose module declares `OPTIONS` takes the options named there itself and everything else is sent with
each request as a vendor extra (`Sampling.extra`); a provider that declares none (replay, sim, outside packages) takes
all the rest itself and refuses what it does not know.

Keys and passwords are refused wherever they stand: options are written into the run's files, keys are read from the
environment only.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tiltmeter.errors import InputError

__all__ = ["no_options", "split_options"]

_RESERVED = ("messages", "model", "n", "stream")
_SECRET = re.compile(r"secret|passw(?:or)?d|passphrase|authori[sz]|credential|bearer|(?:key|keys|keyid|token)$|^x?auth$")
"""Matched against a name without its separators: api_key, hf_token, X-Api-Key, but not max_tokens or stop_token_ids."""
_NO_SECRETS = frozenset(("prompt_cache_key",))
_UNSET = ("default", "none", "null", "")


def no_options(provider: str, options: Mapping[str, str] | None) -> None:
    """Refuse all options, for a provider that has none. Raises InputError."""
    if options:
        raise InputError(f"provider {provider} takes no option {', '.join(sorted(options))}: remove it from -M")


def split_options(factory: Callable[..., Any], options: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Fields for `Sampling` (only those that were given; `extra` among them when there are vendor extras), and the factory's own options.

    Raises
    ------
    InputError
        A value is not of its field's kind or range, a reserved part of the request was given, or a key or password.
    """
    own: frozenset[str] | None = getattr(sys.modules[factory.__module__], "OPTIONS", None)
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    leftover: dict[str, str] = {}
    for name, value in options.items():
        refuse_secrets(f"-M {name}=", name, _scalar(value))
        if name in _FIELDS:
            fields[name] = _FIELDS[name](name, value)
        elif own is None or name in own:
            leftover[name] = value
        elif name in _RESERVED:
            raise InputError(f"-M {name}={value}: {name} is part of every request and cannot be set")
        else:
            extra[name] = _scalar(value)
    if extra:
        fields["extra"] = extra
    return fields, leftover


def refuse_secrets(place: str, name: str, value: Any) -> None:
    """Raise InputError where an option, or a name within its JSON value that has a text, is called like a key; never shows the value.

    `place` is how the user wrote the option: it stands in the message.
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
        if found not in _NO_SECRETS and _SECRET.search(re.sub(r"[^a-z0-9]", "", found.lower())):
            shown = place if found == name else f"{found!r} in {place}"
            raise InputError(
                f"{shown} looks like a key or password, which would be written into the run's files: "
                "set the provider's environment variable instead (`tiltmeter list models` names it)"
            )


def _scalar(value: str) -> Any:
    """JSON where it is JSON (numbers, true, false, null, lists, objects), the text itself otherwise."""
    try:
        return json.loads(value, parse_constant=lambda name: name)  # NaN and Infinity are no JSON: they stay text
    except (ValueError, RecursionError):
        return value


def _number(name: str, value: str) -> float | None:
    if value.strip().lower() in _UNSET:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf or (name == "top_p" and number > 1):
        wanted = "from 0 to 1" if name == "top_p" else "of 0 or more"
        raise InputError(f"-M {name}={value}: give a number {wanted}, or default")
    return number


def _whole(name: str, value: str) -> int | None:
    if value.strip().lower() in _UNSET:
        return None
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < (1 if name == "max_tokens" else 0):
        raise InputError(f"-M {name}={value}: give a whole number of {1 if name == 'max_tokens' else 0} or more, or default")
    return number


def _texts(name: str, value: str) -> tuple[str, ...]:
    """One text, or a JSON text or list of texts (`"\\n"` and the like)."""
    if value.strip().lower() in _UNSET:
        return ()
    found = _scalar(value) if value[0] in '["' else value
    texts = (found,) if isinstance(found, str) else found
    if not all(isinstance(text, str) and text for text in texts):
        raise InputError(f'-M {name}={value}: give a text or a JSON list of texts such as ["\\n", "END"]')
    return tuple(texts)


_FIELDS: dict[str, Callable[[str, str], Any]] = {
    "temperature": _number,
    "top_p": _number,
    "max_tokens": _whole,
    "seed": _whole,
    "stop": _texts,
}
