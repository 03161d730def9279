"""Access to vendors without an OpenAI-compatible endpoint through the optional package any-llm: `any/PROVIDER:MODEL`."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any, Self

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models.base import Completion, Message, ModelError, NamedModel, Sampling, check_options, request_parameters
from tiltmeter.models.endpoints import Complaint, checked_url, clean, model_error
from tiltmeter.models.http import AnswerError, read_chat_answer
from tiltmeter.models.served import with_served

OPTIONS: frozenset[str] = frozenset()
"""Options of `create`; all others are vendor extras."""

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
"""HTTP status for error classes of any-llm that come without one."""


def create(provider: str, model: str, *, base_url: str | None, options: Mapping[str, str]) -> AnyModel:
    """Create a model accessed through any-llm, which reads the key from the vendor's standard environment variable.

    Raises
    ------
    InputError
        The model is not of the form `PROVIDER:MODEL`, any-llm does not support the provider, the base URL is not valid, or an option was
        given.
    ProviderError
        any-llm or the vendor's package is not installed, or the vendor's key is missing.
    """
    check_options(provider, options)
    vendor, _, name = model.partition(":")
    if not (vendor and name):
        raise InputError(
            f"the model {provider}/{model} should be written {provider}/PROVIDER:MODEL, for instance {provider}/mistral:mistral-small"
        )
    made = AnyModel(f"{provider}/{vendor}", vendor, name, None if base_url is None else checked_url(base_url))
    made.connect()  # raises errors before any request
    return made


class AnyModel(NamedModel):
    """One model of a vendor that any-llm supports."""

    def __init__(self, place: str, vendor: str, model: str, base_url: str | None) -> None:
        name = f"{place}:{model}"
        super().__init__(name, f"{name}@{base_url}" if base_url else name, base_url or place)
        self._vendor, self._model, self._base = vendor, model, base_url
        self._client: Any = None

    def connect(self) -> Any:
        """Return a client of any-llm; raise errors as `create` does."""
        try:
            from any_llm import AnyLLM
            from any_llm.exceptions import MissingApiKeyError, UnsupportedParameterError, UnsupportedProviderError
        except ImportError:
            raise ProviderError(f'{self.name} needs the package any-llm: pip install "tiltmeter[providers]"') from None
        create = partial(AnyLLM.create, self._vendor, api_base=self._base, unified_exceptions=True)
        try:
            with suppress(UnsupportedParameterError):  # only the engine may retry, because it counts attempts
                return create(max_retries=0)
            return create()
        except UnsupportedProviderError:
            known = ", ".join(AnyLLM.get_supported_providers())
            raise InputError(f"any-llm does not support the provider {self._vendor!r}; it supports {known}") from None
        except MissingApiKeyError as error:
            raise ProviderError(f"{self.name} needs a key: set the environment variable {error.env_var_name}") from None
        except ImportError:
            raise ProviderError(f'{self.name} needs the vendor\'s package: pip install "any-llm-sdk[{self._vendor}]"') from None

    async def __aenter__(self) -> Self:
        self._client = self.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        client, self._client = self._client, None
        close = getattr(getattr(client, "client", None), "close", None)  # any-llm itself has no method to close
        if inspect.iscoroutinefunction(close):
            await close()

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Answer `messages` with one request through the vendor's package."""
        if self._client is None:
            raise RuntimeError(f"{self!r} must be entered first: async with model")
        parameters = request_parameters(sampling, sample) | dict(sampling.extra)
        started = perf_counter()
        try:
            made = await self._client.acompletion(model=self._model, messages=[turn._asdict() for turn in messages], **parameters)
            answer = made.model_dump(warnings=False)
            return with_served(read_chat_answer(answer, perf_counter() - started), answer, clean)
        except AnswerError as error:
            raise ModelError("bad_response", f"{self._vendor} answered with {error}") from None
        except ModelError:
            raise
        except Exception as error:  # raised by any of about forty packages
            if type(error).__name__ == "ContentFilterError":
                return Completion(None, "content_filter", refusal=self._clean(error), latency=perf_counter() - started)
            raise self._translated(error) from None

    def _clean(self, error: Exception) -> str:
        secret = os.environ.get(str(getattr(self._client, "ENV_API_KEY_NAME", "")), "")
        return clean(str(getattr(error, "message", None) or error), (secret,))

    def _translated(self, error: Exception) -> ModelError:
        message, kind = self._clean(error), type(error).__name__
        detail, status = f"{self._vendor}: {message}", getattr(error, "status_code", None) or _STATUS_OF.get(kind)
        if kind == "UnsupportedParameterError":
            return ModelError("bad_request", detail, scope="fatal")
        if kind == "ContextLengthExceededError":
            return ModelError("context_length", detail, scope="permanent", status=status)
        origin = getattr(error, "original_exception", None) or error
        if status is not None and not isinstance(origin, (UnicodeError, json.JSONDecodeError)):
            codes = f"{getattr(error, 'code', None) or ''} {getattr(error, 'error_type', None) or ''}"
            return model_error(status, {"retry-after": str(getattr(error, "retry_after", ""))}, Complaint(message, codes), detail)
        cause = type(origin).__name__.lower()
        return ModelError("connection" if "connect" in cause or "timeout" in cause else "bad_response", detail)
