"""From what a user writes (`provider/model`, `-M key=value`) to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tiltmeter import registry
from tiltmeter.errors import InputError
from tiltmeter.models._base import Model
from tiltmeter.models._options import split_options
from tiltmeter.registry import did_you_mean

__all__ = ["create_model", "provider_factory", "sampling_from_options"]


def create_model(spec: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None) -> Model:
    """The model `spec` names.

    Parameters
    ----------
    spec
        `provider/model`; the model's name may hold further slashes. `compatible/NAME` is any OpenAI-compatible endpoint.
    base_url
        Where the endpoint is, instead of the provider's usual place.
    options
        Options of the provider itself: the second part of `sampling_from_options`.

    Raises
    ------
    InputError
        There is no such provider, the spec is no `provider/model`, or the provider cannot use the base URL or an option.
    ProviderError
        The provider's key, or an optional package it needs, is missing.
    """
    provider, model = _parse(spec)
    made: Model = provider_factory(provider)(provider, model, base_url=base_url, options=dict(options or {}))
    return made


def sampling_from_options(spec: str, options: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Split `-M key=value` for the model `spec`: fields for `Sampling`, and the options for `create_model`.

    Only fields that were given are there, so the first part suits `dataclasses.replace(study.sampling, **fields)`; the value
    `default` makes a field None (not sent). Vendor extras are under `extra`. The rule is in `tiltmeter.models._options`.

    Raises
    ------
    InputError
        There is no such provider, or a value is not of its field's kind or range.
    """
    return split_options(provider_factory(_parse(spec)[0]), options)


def _parse(spec: str) -> tuple[str, str]:
    provider, slash, model = spec.partition("/")
    if not (provider and slash and model):
        known = registry.names("providers")
        example = f"{spec.rstrip('/')}/NAME" if spec.rstrip("/") in known else "openai/gpt-4o-mini or ollama/llama3.2"
        raise InputError(f"the model {spec!r} should be written provider/model, for instance {example}")
    return provider, model


def provider_factory(provider: str) -> Callable[..., Model]:
    """The function that makes a provider's models; raises InputError where there is none, or where a plugin cannot be used."""
    if provider not in registry.names("providers"):
        hint = did_you_mean(provider, registry.names("providers"))
        raise InputError(f"unknown provider {provider!r}: {hint} (compatible/NAME with --base-url reaches any OpenAI-compatible endpoint)")
    factory: Callable[..., Model] = registry.load("providers", provider)
    return factory
