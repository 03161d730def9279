"""Any OpenAI-compatible chat endpoint: OpenAI, Ollama, vLLM, llama.cpp, OpenRouter, Together, DeepInfra, Groq, Gemini and others."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tiltmeter.errors import InputError
from tiltmeter.models._base import Completion, Message, ModelError, Sampling
from tiltmeter.models._endpoints import ENDPOINTS, Endpoint
from tiltmeter.models._errors import complaint_in, model_error
from tiltmeter.models._http import HttpModel, Key, count, key_from_environment
from tiltmeter.models._options import no_options
from tiltmeter.models._thinking import split_thinking

__all__ = ["OPTIONS", "OpenAIModel", "create"]

OPTIONS: frozenset[str] = frozenset()
"""Options `create` takes itself; all others are vendor extras."""


def create(provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None) -> OpenAIModel:
    """A model behind the endpoint that `provider` names, at `base_url` instead of its usual place when given.

    Raises
    ------
    InputError
        There is no base URL, or it is none; an option was given (this provider takes none, extras belong into `Sampling.extra`).
    ProviderError
        The key is missing from the environment.
    """
    no_options(provider, options)
    endpoint = ENDPOINTS[provider]
    chosen = base_url or os.environ.get(endpoint.url_variable) or endpoint.base_url
    if chosen is None:
        raise InputError(f"{provider}/{model} needs --base-url (or the environment variable {endpoint.url_variable})")
    needed = endpoint.key_needed and chosen.rstrip("/") == endpoint.base_url
    return OpenAIModel(provider, model, endpoint, base_url=chosen, key=key_from_environment(endpoint.key_variable, provider, needed=needed))


class OpenAIModel(HttpModel):
    """A model that answers `POST {base_url}/chat/completions`."""

    structured = True
    """Takes a JSON schema for its answers (`response_format`)."""

    def __init__(self, provider: str, model: str, endpoint: Endpoint, *, base_url: str, key: Key | None) -> None:
        headers = {"Authorization": f"Bearer {key.secret}"} if key else {}
        super().__init__(provider, model, base_url=base_url, path="/chat/completions", key=key, headers=headers)
        self._lengths = endpoint.length_parameters

    def _payload(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": role, "content": content} for role, content in messages],
        }
        if sampling.temperature is not None:
            payload["temperature"] = sampling.temperature
        if sampling.top_p is not None:
            payload["top_p"] = sampling.top_p
        if sampling.max_tokens is not None:
            payload[next(name for name in self._lengths if name not in self._rejected)] = sampling.max_tokens
        if sampling.seed is not None:
            payload["seed"] = sampling.seed + sample
        if sampling.stop:
            payload["stop"] = list(sampling.stop)
        for rejected in self._rejected:
            payload.pop(rejected, None)
        payload.update(sampling.extra)
        return payload

    def _read(self, answer: dict[str, Any], latency: float) -> Completion:
        choices = answer.get("choices")
        if not choices or not isinstance(choices, list) or not isinstance(choices[0], dict):
            raise self._no_choice(answer)
        choice = choices[0]
        message = choice.get("message")
        if not isinstance(message, dict):
            raise self._bad_response("a choice without a message")
        reason = choice.get("finish_reason")
        finish = reason if isinstance(reason, str) else None
        if finish == "error":  # a router's word for a provider that failed half-way
            raise ModelError("server", f"{self._url.host} reports that the answer failed half-way", status=200)
        text, thinking = _content(message.get("content"))
        beside = message.get("reasoning_content") or message.get("reasoning")
        if isinstance(beside, str) and beside.strip():
            thinking = beside.strip() if thinking is None else f"{beside.strip()}\n{thinking}"
        declined = message.get("refusal")
        refusal = declined if isinstance(declined, str) and declined else ("content_filter" if finish == "content_filter" else None)
        if not text and finish is None and refusal is None:
            raise self._bad_response("a choice that has neither text nor a reason why it has none")
        usage = answer.get("usage")
        tokens: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
        return Completion(
            text, finish, refusal, thinking, count(tokens.get("prompt_tokens")), count(tokens.get("completion_tokens")), latency
        )

    def _no_choice(self, answer: dict[str, Any]) -> ModelError:
        """Routers put an upstream's error, with its status, into a 200."""
        error = answer.get("error")
        if not isinstance(error, dict):
            return self._bad_response("no choice in it")
        complaint = complaint_in(answer)
        code = error.get("code")
        if isinstance(code, int) and 400 <= code < 600:
            return model_error(code, {}, complaint, self._sentence(code, {}, complaint))
        return self._bad_response(f"an error in it: {self._clean(complaint.message)}")


def _content(content: object) -> tuple[str | None, str | None]:
    """Text and thinking of a message's `content`: a string, null, or a list of parts."""
    if isinstance(content, str):
        return split_thinking(content)
    if not isinstance(content, list):
        return None, None
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and part.get("type") == "thinking":  # Mistral: itself a string or a list of parts
            inner = part.get("thinking")
            thoughts.append(inner if isinstance(inner, str) else _content(inner)[0] or "")
    text, thinking = split_thinking("".join(texts))
    all_thoughts = "\n".join(thought for thought in (*thoughts, thinking or "") if thought)
    return text, all_thoughts or None
