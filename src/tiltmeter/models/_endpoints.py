"""Endpoints known by name: where they are, where their key is kept, and what they call the limit of an answer's length."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ENDPOINTS", "Endpoint"]


class Endpoint(NamedTuple):
    """One OpenAI-compatible endpoint."""

    base_url: str | None
    """None: has no default, must be given."""
    url_variable: str
    """Environment variable that overrides the base URL."""
    key_variable: str
    """Environment variable that holds the key."""
    key_needed: bool
    """Whether the default base URL answers nobody without a key."""
    length_parameters: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    """What the limit of an answer's length is called: the first is tried, the second when the endpoint rejects it."""


ENDPOINTS: dict[str, Endpoint] = {
    "openai": Endpoint("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY", True, ("max_completion_tokens", "max_tokens")),
    "ollama": Endpoint("http://127.0.0.1:11434/v1", "OLLAMA_BASE_URL", "OLLAMA_API_KEY", False),
    "vllm": Endpoint("http://127.0.0.1:8000/v1", "VLLM_BASE_URL", "VLLM_API_KEY", False),
    "llamacpp": Endpoint("http://127.0.0.1:8080/v1", "LLAMACPP_BASE_URL", "LLAMACPP_API_KEY", False),
    "openrouter": Endpoint("https://openrouter.ai/api/v1", "OPENROUTER_BASE_URL", "OPENROUTER_API_KEY", True),
    "together": Endpoint("https://api.together.xyz/v1", "TOGETHER_BASE_URL", "TOGETHER_API_KEY", True),
    "deepinfra": Endpoint("https://api.deepinfra.com/v1/openai", "DEEPINFRA_BASE_URL", "DEEPINFRA_API_KEY", True),
    "groq": Endpoint("https://api.groq.com/openai/v1", "GROQ_BASE_URL", "GROQ_API_KEY", True),
    "gemini": Endpoint("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_BASE_URL", "GEMINI_API_KEY", True),
    "compatible": Endpoint(None, "TILTMETER_BASE_URL", "TILTMETER_API_KEY", False),
}
