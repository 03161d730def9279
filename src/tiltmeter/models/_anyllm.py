"""Vendors without an OpenAI-compatible endpoint, through the package any-llm: `any/PROVIDER:MODEL`."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any, Final, Self

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models._answer_shapes import AnswerError, reported_failure
from tiltmeter.models._base import Completion, Message, ModelError, NamedModel, Sampling, request_parameters
from tiltmeter.models._endpoints import (
    Complaint,
    SystemMessages,
    base_of,
    checked_url,
    clean,
    complaint_in,
    model_error,
)
from tiltmeter.models._http import read_chat_answer
from tiltmeter.models._options import check_options
from tiltmeter.models._served import with_served

OPTIONS: Final[frozenset[str]] = frozenset()
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
    """Create a model accessed through any-llm.

    any-llm reads the key from the vendor's standard environment variable.

    Raises
    ------
    InputError
        The model is not of the form `PROVIDER:MODEL`, any-llm does not support the provider, the base URL is
        not valid, or an option was given.
    ProviderError
        any-llm or the vendor's package is not installed, or the vendor's key is missing.
    """
    check_options(provider, options)
    vendor, _, name = model.partition(":")
    if not (vendor and name):
        raise InputError(
            f"the model {provider}/{model} should be written {provider}/PROVIDER:MODEL, "
            f"for instance {provider}/mistral:mistral-small"
        )
    base = None if base_url is None else checked_url(base_of(base_url))
    any_model = AnyModel(f"{provider}/{vendor}", vendor, name, base)
    any_model.connect()  # raises errors before any request
    return any_model


class AnyModel(NamedModel):
    """One model of a vendor that any-llm supports."""

    def __init__(self, place: str, vendor: str, model: str, base_url: str | None) -> None:
        name = f"{place}:{model}"
        super().__init__(name, f"{name}@{base_url}" if base_url else name, base_url or place)
        self._vendor = vendor
        self._model = model
        self._base = base_url
        self._client: Any = None
        self._system = SystemMessages(self.name)

    def connect(self) -> Any:
        """Return a client of any-llm; raise errors as `create` does."""
        try:
            from any_llm import AnyLLM
            from any_llm.exceptions import (
                MissingApiKeyError,
                UnsupportedParameterError,
                UnsupportedProviderError,
            )
        except ImportError:
            raise ProviderError(
                f'{self.name} needs the package any-llm: pip install "tiltmeter[providers]"'
            ) from None
        create = partial(AnyLLM.create, self._vendor, api_base=self._base, unified_exceptions=True)
        try:
            with suppress(UnsupportedParameterError):  # only the engine may retry, because it counts attempts
                return create(max_retries=0)
            return create()
        except UnsupportedProviderError:
            supported = ", ".join(AnyLLM.get_supported_providers())
            raise InputError(
                f"any-llm does not support the provider {self._vendor!r}; it supports {supported}"
            ) from None
        except MissingApiKeyError as error:
            raise ProviderError(
                f"{self.name} needs a key: set the environment variable {error.env_var_name}"
            ) from None
        except ImportError:
            raise ProviderError(
                f'{self.name} needs the vendor\'s package: pip install "any-llm-sdk[{self._vendor}]"'
            ) from None

    async def __aenter__(self) -> Self:
        self._client = self.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        vendor_client = getattr(self._client, "client", None)
        self._client = None
        close = getattr(vendor_client, "close", None)  # any-llm itself has no method to close
        if inspect.iscoroutinefunction(close):
            await close()

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Answer `messages` with one request through the vendor's package."""
        if self._client is None:
            raise RuntimeError(f"{self!r} must be entered first: async with model")
        parameters = request_parameters(sampling, sample) | dict(sampling.extra)
        sent = self._system.sent(messages)
        turns = [turn._asdict() for turn in sent]
        started = perf_counter()
        try:
            response = await self._client.acompletion(model=self._model, messages=turns, **parameters)
            answer = response.model_dump(warnings=False)
            failure = reported_failure(answer)
            if failure is None:
                completion = read_chat_answer(answer, perf_counter() - started)
                return with_served(completion, answer, self._clean_text)
        except AnswerError as error:
            raise ModelError("bad_response", f"{self._vendor} answered with {self._clean(error)}") from None
        except Exception as error:  # raised by any of about forty packages
            complaint = self._complaint(error)
            if type(error).__name__ == "ContentFilterError" or complaint.flagged:
                return _filtered(self._clean(error), started)
            if not self._system.fold_if_rejected(sent, _status_of(error) or 500, complaint):
                raise self._translated(error) from None
        else:
            message = self._clean_text(failure.complaint.message)
            if failure.complaint.flagged:
                return _filtered(message, started)
            detail = f"{self._vendor} answered with an error: {message}"
            raise model_error(failure.status or 200, {}, failure.complaint, detail)
        return await self.complete(messages, sampling, sample)

    def _secret(self) -> str:
        return os.environ.get(str(getattr(self._client, "ENV_API_KEY_NAME", "")), "")

    def _clean(self, error: Exception) -> str:
        return self._clean_text(str(getattr(error, "message", None) or error))

    def _clean_text(self, text: str) -> str:
        return clean(text, (self._secret(),))

    def _complaint(self, error: Exception) -> Complaint:
        """Return the content of an error of any-llm, which has been reduced to a message and codes."""
        codes = {"code": getattr(error, "code", None), "type": getattr(error, "error_type", None)}
        return complaint_in({"error": {"message": self._clean(error), **codes}})

    def _translated(self, error: Exception) -> ModelError:
        detail = f"{self._vendor}: {self._clean(error)}"
        kind = type(error).__name__
        status = _status_of(error)
        if kind == "UnsupportedParameterError":
            return ModelError("bad_request", detail, scope="fatal")
        if kind == "ContextLengthExceededError":
            return ModelError("context_length", detail, scope="permanent", status=status)
        origin = getattr(error, "original_exception", None) or error
        if status is not None and not isinstance(origin, (UnicodeError, json.JSONDecodeError)):
            headers = {"retry-after": str(getattr(error, "retry_after", ""))}
            return model_error(status, headers, self._complaint(error), detail)
        cause = type(origin).__name__.lower()
        is_connection = "connect" in cause or "timeout" in cause
        return ModelError("connection" if is_connection else "bad_response", detail)


def _filtered(message: str, started: float) -> Completion:
    """Return the completion for a request that a filter rejected with this message."""
    return Completion(None, "content_filter", refusal=message, latency=perf_counter() - started)


def _status_of(error: Exception) -> int | None:
    """Return the HTTP status of an error of any-llm; None if it has none."""
    status = getattr(error, "status_code", None) or _STATUS_OF.get(type(error).__name__)
    return status if isinstance(status, int) else None
