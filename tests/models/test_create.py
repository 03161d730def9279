"""From `provider/model` and `-M key=value` to a model and its sampling."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tiltmeter.errors import InputError
from tiltmeter.models import Sampling, create_model, sampling_from_options


@pytest.mark.parametrize("spec", ["", "gpt-4o", "/gpt", "openai/", "openai"])
def test_a_spec_is_provider_slash_model(spec: str) -> None:
    with pytest.raises(InputError, match="should be written provider/model"):
        create_model(spec)


def test_an_unknown_provider_is_told_what_was_meant() -> None:
    with pytest.raises(InputError, match=r"did you mean ollama.*compatible/NAME with --base-url"):
        create_model("olama/llama3.2", base_url="http://127.0.0.1:1/v1")


def test_the_name_is_as_the_user_wrote_it() -> None:
    for spec in ("ollama/llama3.2", "vllm/Qwen/Qwen3-0.6B", "compatible/a/b/c"):
        assert create_model(spec, base_url="http://127.0.0.1:1/v1").name == spec


@pytest.mark.parametrize("provider", ["ollama", "replay", "sim", "any"])
def test_an_option_that_is_none(provider: str) -> None:
    with pytest.raises(InputError, match="takes no option depth"):
        create_model(f"{provider}/fair", options={"depth": "3"})


@pytest.mark.parametrize("spec", ["hf/x", "python/module:function", "replay/nowhere.csv", "sim/fair"])
def test_what_runs_in_this_process_has_no_address(spec: str) -> None:
    with pytest.raises(InputError, match="remove --base-url"):
        create_model(spec, base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({}, {}),
        ({"temperature": "0.5", "top_p": "1"}, {"temperature": 0.5, "top_p": 1.0}),
        (
            {"temperature": "default", "max_tokens": "none", "seed": "null", "stop": ""},
            {"temperature": None, "max_tokens": None, "seed": None, "stop": ()},
        ),
        ({"max_tokens": "64", "seed": "0"}, {"max_tokens": 64, "seed": 0}),
        ({"stop": "END"}, {"stop": ("END",)}),
        ({"stop": "5"}, {"stop": ("5",)}),
        ({"stop": '["\\n", "END"]'}, {"stop": ("\n", "END")}),
        ({"stop": '"\\n"'}, {"stop": ("\n",)}),
        (
            {"top_k": "20", "reasoning_effort": "low", "stream_options": "null", "provider": '{"only": ["x"]}', "logprobs": "true"},
            {"extra": {"top_k": 20, "reasoning_effort": "low", "stream_options": None, "provider": {"only": ["x"]}, "logprobs": True}},
        ),
    ],
)
def test_options_become_sampling_and_extras(options: dict[str, str], fields: dict[str, Any]) -> None:
    for spec in ("openai/m", "anthropic/m", "ollama/m"):
        assert sampling_from_options(spec, options) == (fields, {})
    Sampling(**fields)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "hot"),
        ("temperature", "nan"),
        ("temperature", "-1"),
        ("temperature", "inf"),
        ("top_p", "1.1"),
        ("max_tokens", "0"),
        ("max_tokens", "1.5"),
        ("seed", "-1"),
        ("stop", "[1]"),
        ("stop", '[""]'),
        ("stream", "true"),
        ("n", "3"),
    ],
)
def test_values_that_are_none(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"-M {name}="):
        sampling_from_options("openai/m", {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_key", "sk-1"),
        ("APIKEY", "sk-1"),
        ("x-api-key", "sk-1"),
        ("hf_token", "sk-1"),
        ("access_token", "sk-1"),
        ("aws_access_key_id", "sk-1"),
        ("client_secret", "sk-1"),
        ("password", "sk-1"),
        ("Authorization", "sk-1"),
        ("credentials", "sk-1"),
        ("auth", "sk-1"),
        ("extra_headers", '{"Authorization": "sk-1"}'),
        ("metadata", '[{"deep": {"api_key": "sk-1"}}]'),
    ],
)
@pytest.mark.parametrize("spec", ["openai/m", "anthropic/m", "replay/x.csv", "sim/mild"])
def test_keys_are_refused_and_not_repeated(spec: str, name: str, value: str) -> None:
    with pytest.raises(InputError, match="environment variable") as caught:
        sampling_from_options(spec, {name: value})
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_completion_tokens", "5"),
        ("min_tokens", "5"),
        ("stop_token_ids", "[1]"),
        ("skip_special_tokens", "true"),
        ("prompt_cache_key", "a"),
        ("top_k", "5"),
        ("response_format", '{"schema": {"properties": {"key": {"type": "string"}}}}'),
        ("deep", "[" * 900 + "]" * 900),
    ],
)
def test_names_that_only_sound_like_keys(name: str, value: str) -> None:
    assert name in sampling_from_options("openai/m", {name: value})[0]["extra"]


def test_a_provider_that_declares_no_options_gets_the_rest_itself() -> None:
    assert sampling_from_options("replay/x.csv", {"temperature": "0", "whatever": "1"}) == ({"temperature": 0.0}, {"whatever": "1"})


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = """
import sys
import tiltmeter.models

tiltmeter.models.Model, tiltmeter.models.create_model, tiltmeter.models.ENDPOINTS
heavy = {"torch", "transformers", "sentence_transformers", "numpy", "huggingface_hub", "sqlalchemy"}
assert not (heavy | {"aiohttp", "polars", "pydantic_core", "any_llm"}) & set(sys.modules)
import tiltmeter.models.huggingface
assert not heavy & set(sys.modules)
import tiltmeter.models.text_models
assert not (heavy - {"numpy"}) & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
