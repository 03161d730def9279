"""Vendors without an OpenAI-compatible endpoint, through the optional package any-llm: `any/PROVIDER:MODEL`."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping, Sequence
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models._base import Completion, Message, ModelError, Sampling
from tiltmeter.models._errors import Complaint, clean, model_error
from tiltmeter.models._options import no_options
from tiltmeter.models._thinking import split_thinking
from tiltmeter.models._urls import checked_url

__all__ = ["OPTIONS", "AnyModel", "create"]

OPTIONS: frozenset[str] = frozenset()
"""Options `create` takes itself; all others are vendor extras."""

# What an error class of any-llm stands for where no HTTP status came with it.
_STATUS_OF = {
    "AuthenticationError": 401,
    "MissingApiKeyError": 401,
    "InsufficientFundsError": 402,
    "ModelNotFoundError": 404,
    "UnsupportedProviderError": 404,
    "RateLimitError": 429,
    "InvalidRequestError": 400,
    "UpstreamProviderError": 502,
    "GatewayTimeoutError": 504,
}


def create(provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None) -> AnyModel:
    """A model reached through any-llm, which reads the vendor's key from the vendor's usual environment variable.

    Raises
    ------
    InputError
        The model is not written `PROVIDER:MODEL`, any-llm knows no such provider, the base URL is none, or an option was given.
    ProviderError
        any-llm, or the vendor's own package it needs, is not installed, or the vendor's key is missing.
    """
    no_options(provider, options)
    vendor, colon, name = model.partition(":")
    if not (vendor and colon and name):
        raise InputError(
            f"the model {provider}/{model} should be written {provider}/PROVIDER:MODEL, for instance {provider}/mistral:mistral-small"
        )
    made = AnyModel(provider, vendor, name, base_url=None if base_url is None else checked_url(base_url))
    made.check()
    return made


class AnyModel:
    """One model of one vendor any-llm knows."""

    def __init__(self, provider: str, vendor: str, model: str, *, base_url: str | None) -> None:
        self._provider, self._vendor, self._model, self._base = provider, vendor, model, base_url
        self._client: Any = None

    @property
    def name(self) -> str:
        """`any/PROVIDER:MODEL`."""
        return f"{self._provider}/{self._vendor}:{self._model}"

    @property
    def fingerprint(self) -> str:
        """Vendor, model, and the base URL where one was given."""
        return self.name + (f"@{self._base}" if self._base else "")

    @property
    def endpoint(self) -> str:
        """The vendor, or the base URL where one was given."""
        return self._base or f"{self._provider}/{self._vendor}"

    def __repr__(self) -> str:
        return f"<AnyModel {self.fingerprint}>"

    def check(self) -> None:
        """Raise what stands in the way of using the vendor (see `create`), before anything is asked."""
        self._connect()

    def _connect(self) -> Any:
        try:
            from any_llm import AnyLLM
            from any_llm.exceptions import MissingApiKeyError, UnsupportedParameterError, UnsupportedProviderError
        except ImportError:
            raise ProviderError(f'{self.name} needs the package any-llm: pip install "tiltmeter[providers]"') from None
        try:
            try:  # the engine retries, and counts what it retries: the vendors' packages must not
                return AnyLLM.create(self._vendor, api_base=self._base, unified_exceptions=True, max_retries=0)
            except UnsupportedParameterError:
                return AnyLLM.create(self._vendor, api_base=self._base, unified_exceptions=True)
        except UnsupportedProviderError:
            known = ", ".join(AnyLLM.get_supported_providers())
            raise InputError(f"any-llm knows no provider {self._vendor!r}; it knows {known}") from None
        except MissingApiKeyError as error:
            raise ProviderError(f"{self.name} needs a key: set the environment variable {error.env_var_name}") from None
        except ImportError:
            raise ProviderError(f'{self.name} needs the vendor\'s own package: pip install "any-llm-sdk[{self._vendor}]"') from None

    async def __aenter__(self) -> Self:
        self._client = self._connect()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        held, self._client = self._client, None
        close = getattr(getattr(held, "client", None), "close", None)  # any-llm itself has no way to close
        if inspect.iscoroutinefunction(close):
            await close()

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Answer `messages` with one request through the vendor's package."""
        if self._client is None:
            raise RuntimeError(f"{self!r} must be entered first: async with model")
        asked: dict[str, Any] = {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": sampling.max_tokens}
        if sampling.seed is not None:
            asked["seed"] = sampling.seed + sample
        if sampling.stop:
            asked["stop"] = list(sampling.stop)
        asked = {name: value for name, value in asked.items() if value is not None} | dict(sampling.extra)
        started = perf_counter()
        try:
            answer = await self._client.acompletion(
                model=self._model, messages=[{"role": role, "content": content} for role, content in messages], **asked
            )
            return _read(answer, perf_counter() - started)
        except ModelError:
            raise
        except Exception as error:  # any of some forty packages may have raised it
            if type(error).__name__ == "ContentFilterError":
                return Completion(None, "content_filter", refusal=self._clean(error), latency=perf_counter() - started)
            raise self._translated(error) from None

    def _clean(self, error: Exception) -> str:
        secret = os.environ.get(str(getattr(self._client, "ENV_API_KEY_NAME", "")), "")
        return clean(str(getattr(error, "message", None) or error), (secret,) if secret else ())

    def _translated(self, error: Exception) -> ModelError:
        said, kind = self._clean(error), type(error).__name__
        detail = f"{self._vendor}: {said}"
        if kind == "UnsupportedParameterError":
            return ModelError("bad_request", detail, scope="fatal")
        if kind == "ContextLengthExceededError":
            return ModelError("context_length", detail, scope="permanent", status=getattr(error, "status_code", None))
        origin = getattr(error, "original_exception", None) or error
        if isinstance(origin, (UnicodeError, json.JSONDecodeError)):
            return ModelError("bad_response", detail)
        status = getattr(error, "status_code", None) or _STATUS_OF.get(kind)
        if status is not None:
            wait = getattr(error, "retry_after", None)
            codes = f"{getattr(error, 'code', None) or ''} {getattr(error, 'error_type', None) or ''}"
            complaint = Complaint(said, codes, None, flagged=False)
            return model_error(status, {"retry-after": str(wait)} if wait is not None else {}, complaint, detail)
        below = type(origin).__name__.lower()
        lost = "connect" in below or "timeout" in below
        return ModelError("connection" if lost else "bad_response", detail)


def _read(answer: Any, latency: float) -> Completion:
    if not getattr(answer, "choices", None):
        raise ModelError("bad_response", "an answer with no choice in it")
    choice = answer.choices[0]
    message = choice.message
    text, thinking = split_thinking(message.content) if isinstance(message.content, str) else (None, None)
    beside = getattr(getattr(message, "reasoning", None), "content", None)
    if beside:
        thinking = beside if thinking is None else f"{beside}\n{thinking}"
    finish = choice.finish_reason
    refusal = getattr(message, "refusal", None) or ("content_filter" if finish == "content_filter" else None)
    if not text and finish is None and refusal is None:
        raise ModelError("bad_response", "a choice that has neither text nor a reason why it has none")
    usage = answer.usage
    return Completion(
        text, finish, refusal, thinking, getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None), latency
    )
