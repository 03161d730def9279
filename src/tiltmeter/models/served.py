"""What an endpoint says about who answered: the model, its version and the provider behind a router."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tiltmeter.models.base import Completion
from tiltmeter.models.endpoints import found_at

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
    """Return a completion with what the body of its answer says about who answered; None for what it does not say.

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


def is_another_model(asked: str, served: str) -> bool:
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
    name, version, tag = _parts_of(asked)
    other_name, other_version, other_tag = _parts_of(served)
    if name != other_name:
        return True
    return _contradict(version, other_version) or _contradict(tag, other_tag)


def _contradict(one: str, other: str) -> bool:
    return bool(one and other and one != other)


def _parts_of(model: str) -> tuple[str, str, str]:
    """Return the name of a model without organisation and punctuation, its version and its tag; "" for those it does not have."""
    whole = _FILE.sub("", re.split(r"[/\\]", model.strip().lower())[-1])
    whole, _, tag = whole.partition(":")
    version = _VERSION.search(whole)
    name = whole[: version.start()] if version else whole
    dated = "" if version is None or version[0].endswith("latest") else re.sub(r"\D", "", version[0])
    return re.sub(r"[._ ]", "", name), dated, "" if tag == "latest" else tag
