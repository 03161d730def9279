"""Anthropic's messages endpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tiltmeter.models._base import Completion, Message, Sampling
from tiltmeter.models._http import HttpModel, Key, count, key_from_environment
from tiltmeter.models._options import no_options
from tiltmeter.models._thinking import split_thinking

__all__ = ["OPTIONS", "AnthropicModel", "create"]

OPTIONS: frozenset[str] = frozenset()
"""Options `create` takes itself; all others are vendor extras."""

_BASE_URL = "https://api.anthropic.com"
_VERSION = "2023-06-01"
_DEFAULT_MAX_TOKENS = 1024
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


def create(provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None) -> AnthropicModel:
    """A model behind `{base_url}/v1/messages`, at api.anthropic.com (or ANTHROPIC_BASE_URL) unless given.

    Raises
    ------
    InputError
        The base URL is none, or an option was given (this provider takes none, extras belong into `Sampling.extra`).
    ProviderError
        ANTHROPIC_API_KEY is missing from the environment.
    """
    no_options(provider, options)
    chosen = (base_url or os.environ.get("ANTHROPIC_BASE_URL") or _BASE_URL).rstrip("/").removesuffix("/v1")
    key = key_from_environment("ANTHROPIC_API_KEY", provider, needed=chosen == _BASE_URL)
    return AnthropicModel(provider, model, base_url=chosen, key=key)


class AnthropicModel(HttpModel):
    """A model that answers `POST {base_url}/v1/messages`.

    The endpoint has no seed, so `Sampling.seed` is not sent; it wants `max_tokens`, which is 1024 where none is given. Reasons to
    stop are given in the words of OpenAI-compatible endpoints: "stop", "length", "content_filter" (a refusal), else Anthropic's.
    """

    unsupported = ("frequency_penalty",)
    """Vendor extras a method may prescribe that this API refuses."""

    def __init__(self, provider: str, model: str, *, base_url: str, key: Key | None) -> None:
        headers = {"anthropic-version": _VERSION, **({"x-api-key": key.secret} if key else {})}
        super().__init__(provider, model, base_url=base_url, path="/v1/messages", key=key, headers=headers)

    def _payload(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> dict[str, Any]:
        system = "\n\n".join(content for role, content in messages if role == "system")
        payload: dict[str, Any] = {
            "model": self._model,
            "max_tokens": sampling.max_tokens or _DEFAULT_MAX_TOKENS,
            "messages": [{"role": role, "content": content} for role, content in messages if role != "system"],
        }
        if system:
            payload["system"] = system
        if sampling.temperature is not None:
            payload["temperature"] = sampling.temperature
        if sampling.top_p is not None:
            payload["top_p"] = sampling.top_p
        if sampling.stop:
            payload["stop_sequences"] = list(sampling.stop)
        for rejected in self._rejected:
            payload.pop(rejected, None)
        payload.update(sampling.extra)
        return payload

    def _read(self, answer: dict[str, Any], latency: float) -> Completion:
        blocks = answer.get("content")
        reason = answer.get("stop_reason")
        if not isinstance(blocks, list) or (not blocks and not isinstance(reason, str)):
            raise self._bad_response("no content in it")
        texts = _parts(blocks, "text")
        text, inline = split_thinking("".join(texts)) if texts else (None, None)
        thinking = "\n".join((*_parts(blocks, "thinking"), *([inline] if inline else ())))
        usage = answer.get("usage")
        tokens: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
        return Completion(
            text=text,
            finish_reason=_FINISH.get(reason, reason) if isinstance(reason, str) else None,
            refusal=self._refusal(answer) if reason == "refusal" else None,
            thinking=thinking or None,
            input_tokens=_input_tokens(tokens),
            output_tokens=count(tokens.get("output_tokens")),
            latency=latency,
        )

    def _refusal(self, answer: Mapping[str, Any]) -> str:
        details = answer.get("stop_details")
        explanation = details.get("explanation") if isinstance(details, dict) else None
        return self._clean(explanation) if isinstance(explanation, str) and explanation else "refusal"


def _parts(blocks: Sequence[object], kind: str) -> list[str]:
    """The texts of the blocks of one kind; a block of kind K keeps its text under the name K."""
    return [block[kind] for block in blocks if isinstance(block, dict) and block.get("type") == kind and isinstance(block.get(kind), str)]


def _input_tokens(tokens: Mapping[str, Any]) -> int | None:
    """All tokens read: those of the prompt and, counted apart, those written to or read from a cache."""
    if count(tokens.get("input_tokens")) is None:
        return None
    return sum(count(tokens.get(name)) or 0 for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"))
