"""What an endpoint says about who answered: the model, its version and the provider behind a router."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tiltmeter.models._base import Completion
from tiltmeter.models._endpoints import found_at

_Places = tuple[tuple[str, ...], ...]
_MODEL: _Places = (("model",), ("modelVersion",), ("model_version",))
_FINGERPRINT: _Places = (("system_fingerprint",),)
_PROVIDER: _Places = (("provider",), ("provider", "name"), ("provider_name",))
"""Places in the answers of endpoints, in order of preference."""
_LONGEST = 200
_FILE = re.compile(r"\.(?:gguf|bin|safetensors)$")
_VERSION = re.compile(r"[-@](?:\d{3,8}|\d{4}-\d\d-\d\d|latest)$")
"""A version or date at the end of a name: "-0613", "-2024-07-18", "@20241022", "-latest"."""


def with_served(completion: Completion, answer: Mapping[str, Any], clean: Callable[[str], str]) -> Completion:
    """Return a completion with the model, fingerprint and provider that the body of its answer names.

    Those that it does not name are None.

    Parameters
    ----------
    clean
        Makes a text from the server short and printable, and masks keys.
    """
    return replace(
        completion,
        served_model=_first_text(answer, _MODEL, clean),
        served_fingerprint=_first_text(answer, _FINGERPRINT, clean),
        served_provider=_first_text(answer, _PROVIDER, clean),
    )


def _first_text(answer: Mapping[str, Any], places: _Places, clean: Callable[[str], str]) -> str | None:
    for place in places:
        value = found_at(answer, *place)
        if isinstance(value, str) and value.strip():
            return clean(value)[:_LONGEST]
    return None


def is_another_model(requested: str, served: str) -> bool:
    """Return whether an endpoint that was asked for one model names another one.

    A name that is more specific is not another model: a dated version ("gpt-4o" and "gpt-4o-2024-08-06"), an
    organisation, a path, or a tag that only one of the names has ("m:free"). Two different versions or tags
    are.

    Examples
    --------
    >>> is_another_model("gpt-4o", "gpt-4o-2024-08-06")
    False
    >>> is_another_model("gpt-4o", "gpt-4o-mini")
    True
    """
    expected = _parts_of(requested)
    actual = _parts_of(served)
    if expected.name != actual.name:
        return True
    return _contradict(expected.version, actual.version) or _contradict(expected.tag, actual.tag)


def _contradict(expected: str, actual: str) -> bool:
    return bool(expected and actual and expected != actual)


class _ModelName(NamedTuple):
    """The parts of the name of a model; "" for those that it does not have, or that are "latest"."""

    name: str
    """Without organisation, file suffix and punctuation."""
    version: str
    """Digits."""
    tag: str


def _parts_of(model: str) -> _ModelName:
    last = re.split(r"[/\\]", model.strip().lower())[-1]
    name, _, tag = _FILE.sub("", last).partition(":")
    suffix = _VERSION.search(name)
    version = ""
    if suffix:
        name = name[: suffix.start()]
        version = re.sub(r"\D", "", suffix[0])
    return _ModelName(re.sub(r"[._ ]", "", name), version, "" if tag == "latest" else tag)
