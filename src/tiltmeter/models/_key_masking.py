"""Masking of keys in everything that models return.

An endpoint may repeat the key of a request in its answer. Responses that were generated elsewhere are
searched as well when they are imported.

The keys are the values of environment variables whose names say so (OPENAI_API_KEY, HF_TOKEN). They are
masked in every text of an answer and in the message of a failure, whichever model returned them, before
anything is stored.
"""

from __future__ import annotations

import base64
import math
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import fields, replace
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec
from urllib.parse import quote

from tiltmeter.models._base import Completion, ModelError
from tiltmeter.models._options import SECRET_NAME

if TYPE_CHECKING:
    from polars import Series

MASK: Final = "***"
SHORTEST: Final = 8
SHORTEST_OF_LETTERS: Final = 16
"""Number of characters of the shortest masked key, and of one of letters only: a shorter one may be a word,
which an answer may contain."""

_URL_ALPHABET = str.maketrans("+/", "-_")
"""From the alphabet of Base64 to that of its form for URLs."""

_Parameters = ParamSpec("_Parameters")
_Outcome = Completion | ModelError


def keys_masked(
    answering: Callable[_Parameters, Awaitable[_Outcome]],
) -> Callable[_Parameters, Awaitable[_Outcome]]:
    """Decorate a function that returns a completion or an error: no text of either contains a key."""

    @wraps(answering)
    async def masked(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Outcome:
        outcome = await answering(*arguments, **named)
        if isinstance(outcome, Completion):
            return _with_masked_texts(outcome)
        detail = without_keys(outcome.detail)
        if detail == outcome.detail:
            return outcome
        return ModelError(
            outcome.kind, detail, scope=outcome.scope, retry_after=outcome.retry_after, status=outcome.status
        )

    return masked


def _with_masked_texts(completion: Completion) -> Completion:
    values = {field.name: getattr(completion, field.name) for field in fields(completion)}
    keys = _keys_of_environment()
    masked: dict[str, Any] = {
        name: _masked(value, keys) for name, value in values.items() if isinstance(value, str)
    }
    changed = {name: text for name, text in masked.items() if text != values[name]}
    return replace(completion, **changed) if changed else completion


def without_keys(text: str) -> str:
    """Return a text with every key masked, also if it is reversed, percent-encoded or part of Base64."""
    return _masked(text, _keys_of_environment())


def _masked(text: str, keys: tuple[str, ...]) -> str:
    for plain, escaped in _patterns(keys):
        for form in plain:
            if form in text:
                text = text.replace(form, MASK)
        if "%" in text:
            text = escaped.sub(MASK, text)
    return text


def column_without_keys(texts: Series) -> Series:
    """Return texts with every key masked as by `without_keys`."""
    forms = [form for plain, _ in _patterns(_keys_of_environment()) for form in plain]
    if not forms:
        return texts
    suspected = (texts.str.contains_any(forms) | texts.str.contains("%", literal=True)).fill_null(False)
    if not suspected.any():
        return texts
    masked = texts.filter(suspected).map_elements(without_keys, return_dtype=texts.dtype)
    return texts.clone().scatter(suspected.arg_true(), masked)


def _keys_of_environment() -> tuple[str, ...]:
    """Return the values of environment variables that hold keys.

    Short ones and words, such as a placeholder for a key, are omitted.
    """
    values = [value.strip() for name, value in os.environ.items() if _names_key(name)]  # as they are sent
    return tuple(value for value in values if len(value) >= _shortest(value))


def _shortest(value: str) -> int:
    """Return the number of characters from which a value like this one is masked."""
    return SHORTEST_OF_LETTERS if value.isalpha() else SHORTEST


@lru_cache(4096)
def _names_key(name: str) -> bool:
    return SECRET_NAME.search(re.sub(r"[\W_]", "", name.lower())) is not None


@lru_cache(16)
def _patterns(keys: tuple[str, ...]) -> list[tuple[tuple[str, ...], re.Pattern[str]]]:
    """Return the forms in which each key may be repeated.

    They are fixed texts, and a pattern of its percent-encoded forms.
    """
    longest_first = sorted(set(keys), key=len, reverse=True)
    return [
        ((key, key[::-1], quote(key, safe=""), *_in_base64(key)), _percent_encoded(key))
        for key in longest_first
    ]


def _in_base64(key: str) -> Iterable[str]:
    """Yield the characters of Base64 that depend only on a key, for each of its three possible positions.

    Three bytes are four characters of six bits, so that a key begins at one of three positions. The first and
    the last character may also depend on the text before or after the key; such characters are left out.
    """
    content = key.encode()
    for bytes_before in range(3):
        encoded = base64.b64encode(b"\0" * bytes_before + content).decode().rstrip("=")
        start = math.ceil(8 * bytes_before / 6)
        end = 8 * (bytes_before + len(content)) // 6
        characters = encoded[start:end]
        yield characters
        yield characters.translate(_URL_ALPHABET)


def _percent_encoded(key: str) -> re.Pattern[str]:
    """Return a pattern of a key in which any letters may be percent-encoded."""
    letters: list[str] = []
    for letter in key:
        encoded = "".join(f"%{byte:02x}" for byte in letter.encode())
        letters.append(f"(?:{re.escape(letter)}|{encoded})")
    return re.compile("".join(letters), re.IGNORECASE)
