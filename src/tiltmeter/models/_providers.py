"""Providers of models, and the creation of models from user input."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from tiltmeter._plugins.registry import Registry
from tiltmeter.errors import InputError, check_known
from tiltmeter.models._base import Model
from tiltmeter.models._options import Range, parse_number, parse_scalar, refuse_secrets

_HTTP = "tiltmeter.models._http:create"
PROVIDERS: Final = Registry(
    "providers",
    "provider",
    {
        "openai": _HTTP,
        "anthropic": _HTTP,
        "ollama": _HTTP,
        "vllm": _HTTP,
        "llamacpp": _HTTP,
        "openrouter": _HTTP,
        "together": _HTTP,
        "deepinfra": _HTTP,
        "groq": _HTTP,
        "gemini": _HTTP,
        "compatible": _HTTP,
        "any": "tiltmeter.models._anyllm:create",
        "hf": "tiltmeter.models._catalogued:create",
        "python": "tiltmeter.models._function:create",
        "replay": "tiltmeter.models._replay:create",
        "sim": "tiltmeter.models.sim:create",
    },
    required="a function that creates a model",
)
"""Providers by name: those of Tiltmeter and of plugins (entry points in the group `tiltmeter.providers`)."""

_RESERVED = ("messages", "model", "n", "stream")
_UNSET = ("default", "none", "null", "")
_SAMPLING_RANGES: Mapping[str, Range] = {
    "temperature": (float, 0, math.inf),
    "top_p": (float, 0, 1),
    "max_tokens": (int, 1, math.inf),
    "seed": (int, 0, math.inf),
}


def create_model(
    spec: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None
) -> Model:
    """Create the model that `spec` names.

    Parameters
    ----------
    spec
        `provider/model`; the name of the model may contain further slashes. `compatible/NAME` is any
        OpenAI-compatible endpoint.
    base_url
        Base URL of the endpoint, in place of the provider's default.
    options
        Options of the provider: the second part of `sampling_from_options`.

    Raises
    ------
    InputError
        There is no such provider, the spec is not of the form `provider/model`, or the provider does not
        accept the base URL or an option.
    ProviderError
        The provider's key, or an optional package it needs, is missing.
    """
    provider, model = _parse_spec(spec)
    return provider_factory(provider)(provider, model, base_url=base_url, options=dict(options or {}))


def provider_factory(provider: str) -> Callable[..., Model]:
    """Return the function that creates the models of a provider.

    Raises
    ------
    InputError
        There is no such provider, or its plugin is not usable.
    """
    elsewhere = " (compatible/NAME with --base-url reaches any OpenAI-compatible endpoint)"
    check_known(provider, PROVIDERS.names(), f"unknown provider {provider!r}", elsewhere)
    factory: Callable[..., Model] = PROVIDERS.load(provider)
    return factory


def _parse_spec(spec: str) -> tuple[str, str]:
    provider, _, model = spec.partition("/")
    if not (provider and model):
        raise InputError(
            f"the model {spec!r} should be written provider/model, "
            "for instance openai/gpt-4o-mini or ollama/llama3.2"
        )
    return provider, model


def sampling_from_options(spec: str, options: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Split `-M key=value` for the model `spec`: fields for `Sampling`, and the options for `create_model`.

    The first part contains only the fields that were given, for use with `dataclasses.replace(study.sampling,
    **fields)`; the value `default` sets a field to None (not sent). If the module of a provider declares
    `OPTIONS`, the provider takes these options, and all other options are vendor extras (under `extra`),
    which are sent with each request. A provider that declares none (replay, sim, external packages) takes all
    other options and rejects unknown ones.

    Raises
    ------
    InputError
        There is no such provider, a value has the wrong type or range, a reserved part of the request was
        given, or an option looks like a key or password: options are written to the files of the run.
    """
    factory = provider_factory(_parse_spec(spec)[0])
    declared: frozenset[str] | None = getattr(sys.modules[factory.__module__], "OPTIONS", None)
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    provider_options: dict[str, str] = {}
    for name, value in options.items():
        refuse_secrets(f"-M {name}=", name, parse_scalar(value))
        is_unset = value.strip().lower() in _UNSET
        if name in _SAMPLING_RANGES:
            fields[name] = None if is_unset else parse_number(name, value, _SAMPLING_RANGES[name])
        elif name == "stop":
            fields[name] = () if is_unset else _parse_stop_texts(value)
        elif declared is None or name in declared:
            provider_options[name] = value
        elif name in _RESERVED:
            raise InputError(f"-M {name}={value}: {name} is part of every request and cannot be set")
        else:
            extra[name] = parse_scalar(value)
    if extra:
        fields["extra"] = extra
    return fields, provider_options


def _parse_stop_texts(value: str) -> tuple[str, ...]:
    r"""Parse stop texts: one text, or a JSON string or list of strings (such as `"\n"`)."""
    parsed = parse_scalar(value) if value[0] in '["' else value
    texts = [parsed] if isinstance(parsed, str) else parsed
    if not all(isinstance(text, str) and text for text in texts):
        raise InputError(f'-M stop={value}: give a text or a JSON list of texts such as ["\\n", "END"]')
    return tuple(texts)
