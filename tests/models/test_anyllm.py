"""The way through any-llm: what is particular to it (the rest is in the conformance suite)."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import create_model

installed = pytest.mark.skipif(importlib.util.find_spec("any_llm") is None, reason="any-llm is not installed")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "any_llm", None)
    with pytest.raises(ProviderError, match=r'pip install "tiltmeter\[providers\]"'):
        create_model("any/mistral:small")


@pytest.mark.parametrize("model", ["mistral", ":small", "mistral:", "mistral/small"])
def test_the_vendor_stands_before_a_colon(model: str) -> None:
    with pytest.raises(InputError, match="should be written any/PROVIDER:MODEL"):
        create_model(f"any/{model}")


@pytest.mark.verify
@installed
def test_an_unknown_vendor() -> None:
    with pytest.raises(InputError, match=r"any-llm knows no provider 'nobody'; it knows .*mistral"):
        create_model("any/nobody:m")


@installed
def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ProviderError, match="set the environment variable OPENAI_API_KEY"):
        create_model("any/openai:m")


@installed
@pytest.mark.skipif(importlib.util.find_spec("cohere") is not None, reason="the vendor's package is installed")
def test_a_missing_package_of_the_vendor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", "geheim")
    with pytest.raises(ProviderError, match=r'pip install "any-llm-sdk\[cohere\]"'):
        create_model("any/cohere:m")
