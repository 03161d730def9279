"""From `provider/model` and `-M key=value` to a model and its sampling."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import pytest

from support.programs import run_code
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Sampling, create_model, sampling_from_options

with_any_llm = pytest.mark.skipif(find_spec("any_llm") is None, reason="any-llm is not installed")
URL = {"base_url": "http://127.0.0.1:1/v1"}
DEPTH = {"options": {"depth": "3"}}


@pytest.mark.parametrize(
    ("specs", "more", "message"),
    [
        (["", "gpt-4o", "/gpt", "openai/", "openai"], {}, "should be written provider/model"),
        (["olama/llama3.2"], URL, "did you mean ollama.*compatible/NAME with --base-url"),
        (["ollama/fair", "replay/fair", "sim/fair", "any/fair"], DEPTH, "has no option depth"),
        (["hf/x", "python/module:function", "replay/nowhere.csv", "sim/fair"], URL, "remove --base-url"),
        (
            ["any/mistral", "any/:small", "any/mistral:", "any/mistral/small"],
            {},
            "should be written any/PROVIDER:MODEL",
        ),
    ],
)
def test_mistakes_in_the_name_of_a_model_are_explained(
    specs: list[str], more: dict[str, Any], message: str
) -> None:
    for spec in specs:
        with pytest.raises(InputError, match=message):
            create_model(spec, **more)


def test_the_name_is_as_the_user_wrote_it() -> None:
    for spec in ("ollama/llama3.2", "vllm/Qwen/Qwen3-0.6B", "compatible/a/b/c"):
        assert create_model(spec, base_url=URL["base_url"]).name == spec


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({}, {}),
        ({"temperature": "0.5", "top_p": "1"}, {"temperature": 0.5, "top_p": 1.0}),
        ({"temperature": "default", "max_tokens": "none"}, {"temperature": None, "max_tokens": None}),
        ({"seed": "null", "stop": ""}, {"seed": None, "stop": ()}),
        ({"max_tokens": "64", "seed": "0"}, {"max_tokens": 64, "seed": 0}),
        ({"stop": "END"}, {"stop": ("END",)}),
        ({"stop": "5"}, {"stop": ("5",)}),
        ({"stop": '["\\n", "END"]'}, {"stop": ("\n", "END")}),
        ({"stop": '"\\n"'}, {"stop": ("\n",)}),
        ({"top_k": "20", "reasoning_effort": "low"}, {"extra": {"top_k": 20, "reasoning_effort": "low"}}),
        (
            {"stream_options": "null", "logprobs": "true"},
            {"extra": {"stream_options": None, "logprobs": True}},
        ),
        ({"provider": '{"only": ["x"]}'}, {"extra": {"provider": {"only": ["x"]}}}),
    ],
)
def test_options_become_sampling_and_extras(options: dict[str, str], fields: dict[str, Any]) -> None:
    for spec in ("openai/m", "anthropic/m", "ollama/m"):
        assert sampling_from_options(spec, options) == (fields, {})
    Sampling(**fields)


NO_VALUES = [
    "temperature=hot",
    "temperature=nan",
    "temperature=-1",
    "temperature=inf",
    "top_p=1.1",
    "max_tokens=0",
    "max_tokens=1.5",
]


@pytest.mark.parametrize("option", [*NO_VALUES, "seed=-1", "stop=[1]", 'stop=[""]', "stream=true", "n=3"])
def test_options_with_invalid_values_are_refused(option: str) -> None:
    name, _, value = option.partition("=")
    with pytest.raises(InputError, match=f"-M {name}="):
        sampling_from_options("openai/m", {name: value})


KEYS = [
    "api_key",
    "APIKEY",
    "x-api-key",
    "hf_token",
    "access_token",
    "aws_access_key_id",
    "client_secret",
    "password",
]
SECRETS = dict.fromkeys([*KEYS, "Authorization", "credentials", "auth"], "sk-1")
SECRETS |= {"extra_headers": '{"Authorization": "sk-1"}', "metadata": '[{"deep": {"api_key": "sk-1"}}]'}


@pytest.mark.parametrize(("name", "value"), SECRETS.items())
@pytest.mark.parametrize("spec", ["openai/m", "anthropic/m", "replay/x.csv", "sim/mild"])
def test_keys_are_refused_and_not_repeated(spec: str, name: str, value: str) -> None:
    with pytest.raises(InputError, match="environment variable") as caught:
        sampling_from_options(spec, {name: value})
    assert "sk-1" not in str(caught.value)


def test_options_whose_names_only_resemble_keys_are_accepted() -> None:
    options = dict.fromkeys(
        ("max_completion_tokens", "min_tokens", "top_k", "skip_special_tokens", "prompt_cache_key"), "5"
    )
    options |= {"stop_token_ids": "[1]", "deep": "[" * 900 + "]" * 900}
    options |= {"response_format": '{"schema": {"properties": {"key": {"type": "string"}}}}'}
    assert sampling_from_options("openai/m", options)[0]["extra"].keys() == options.keys()


def test_a_provider_that_declares_no_options_gets_the_rest_itself() -> None:
    assert sampling_from_options("replay/x.csv", {"temperature": "0", "whatever": "1"}) == (
        {"temperature": 0.0},
        {"whatever": "1"},
    )


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = """
import sys
import tiltmeter.models
tiltmeter.models.Model, tiltmeter.models.create_model, tiltmeter.models.ENDPOINTS
heavy = {"torch", "transformers", "sentence_transformers", "numpy", "huggingface_hub", "sqlalchemy"}
assert not (heavy | {"aiohttp", "polars", "pydantic_core", "any_llm"}) & set(sys.modules)
import tiltmeter.models._huggingface
assert not heavy & set(sys.modules)
import tiltmeter.models._text_models
assert not (heavy - {"numpy"}) & set(sys.modules)
"""
    run_code(code)


def test_without_any_llm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "any_llm", None)
    with pytest.raises(ProviderError, match=r'pip install "tiltmeter\[providers\]"'):
        create_model("any/mistral:small")


@pytest.mark.verify
@with_any_llm
def test_an_unknown_vendor_is_named() -> None:
    with pytest.raises(
        InputError, match=r"any-llm does not support the provider 'unheard'; it supports .*mistral"
    ):
        create_model("any/unheard:m")


@with_any_llm
@pytest.mark.skipif(find_spec("cohere") is not None, reason="the vendor's package is installed")
def test_a_missing_package_of_the_vendor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", "geheim")
    with pytest.raises(ProviderError, match=r'pip install "any-llm-sdk\[cohere\]"'):
        create_model("any/cohere:m")
