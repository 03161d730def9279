"""Models behind HTTP endpoints: OpenAI-compatible ones (OpenAI, Ollama, vLLM, OpenRouter, Gemini and others) and Anthropic's.

They share the session, the policy of one request per answer, and the adaptation of requests to the parameters that an endpoint accepts.
One request takes about 0.15 ms of processor time, nearly all of it in aiohttp: headers and URLs are prepared once, bodies are plain JSON,
and answers are read as dictionaries, not validated into objects.
"""

from __future__ import annotations

import json
import logging
import os
import re
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Self

import aiohttp
from yarl import URL

from tiltmeter.errors import InputError
from tiltmeter.llm_json import object_schema
from tiltmeter.models.base import (
    ALLOWED,
    Completion,
    Message,
    ModelError,
    NamedModel,
    Sampling,
    check_options,
    request_parameters,
    split_system,
    token_count,
)
from tiltmeter.models.endpoints import (
    ENDPOINTS,
    Complaint,
    EndpointKey,
    checked_url,
    clean,
    complaint_in,
    found_at,
    key_from_environment,
    model_error,
    read_complaint,
)
from tiltmeter.models.served import with_served
from tiltmeter.outside_files import json_of
from tiltmeter.thinking import split_thinking

OPTIONS: frozenset[str] = frozenset()
"""Options of `create`; all others are vendor extras."""
LARGEST_BODY = 64 << 20
"""Maximum size of an answer in bytes; the longest answers of models take some hundred kB."""
_CONNECT_SECONDS = 10.0
_KEEPALIVE_SECONDS = 30.0
_DNS_SECONDS = 300
_MOST_ADAPTATIONS = 8
"""Enough for every parameter that can be omitted to be rejected once."""
_REJECTED = re.compile(r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|deprecated|cannot both", re.I)
_NEUTRAL = {"temperature": 1, "top_p": 1}
_CONSTRAINTS = ("response_format", "structured_outputs", "guided_choice")
"""Parameters that constrain an answer to a list: a JSON schema, and the choice of vLLM under its new and its old name."""
_OF_SCHEMAS = re.compile(r"response.?format|schema|structured|guided|grammar", re.I)
_ANTHROPIC_MAX_TOKENS = 1024
_ANTHROPIC_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}

_log = logging.getLogger("tiltmeter.models")


def create(provider: str, model: str, *, base_url: str | None, options: Mapping[str, str]) -> HttpModel:
    """Create a model at the endpoint of `provider`, with `base_url` in place of its default URL if given.

    Raises
    ------
    InputError
        There is no valid base URL, or an option was given (these providers have none; extras belong in `Sampling.extra`).
    ProviderError
        The key is missing from the environment.
    """
    check_options(provider, options)
    endpoint = ENDPOINTS[provider]
    variable = f"{endpoint.variables}_BASE_URL"
    chosen = (base_url or os.environ.get(variable) or endpoint.base_url or "").rstrip("/")
    if not chosen:
        raise InputError(f"{provider}/{model} needs --base-url (or the environment variable {variable})")
    made: type[HttpModel] = OpenAIModel
    if provider == "anthropic":
        made, chosen = AnthropicModel, chosen.removesuffix("/v1")
    key = key_from_environment(endpoint.key_variable, provider, needed=endpoint.key_needed and chosen == endpoint.base_url)
    return made(provider, model, chosen, key)


class AnswerError(ValueError):
    """An answer contains no completion; the message describes its content."""


class HttpModel(NamedModel, ABC):
    """A model at an HTTP endpoint; subclasses define how to write a request and how to read an answer.

    Raises
    ------
    InputError
        The base URL is not valid, or contains a user name, password or query.
    """

    path: str
    """The path after the base URL."""

    def __init__(self, provider: str, model: str, base_url: str, key: EndpointKey | None) -> None:
        self._model, self._base, self._key = model, checked_url(base_url), key
        self._url = URL(self._base + self.path)
        super().__init__(f"{provider}/{model}", f"{provider}/{model}@{self._base}", str(self._url.origin()))
        self._lengths = ENDPOINTS[provider].length_parameters
        self._session: aiohttp.ClientSession | None = None
        self._rejected: set[str] = set()

    async def __aenter__(self) -> Self:
        # The engine limits concurrency and the duration of a request; only connecting has a separate timeout here. The proxy is looked up
        # once, not for every request.
        bypassed = urllib.request.proxy_bypass(self._url.host or "")
        common = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "tiltmeter"}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=_DNS_SECONDS, keepalive_timeout=_KEEPALIVE_SECONDS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=common | self._headers(),
            proxy=None if bypassed else urllib.request.getproxies().get(self._url.scheme),
        )
        return self

    async def __aexit__(self, *exception: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Answer `messages` with one request.

        If the endpoint rejects the request because of a parameter (status 400, not charged), the request is adapted and sent again; the
        adaptation is kept for later requests: see `_adapt`.
        """
        for _ in range(_MOST_ADAPTATIONS):
            payload = self._payload(messages, request_parameters(sampling, sample))
            payload = {name: value for name, value in payload.items() if name not in self._rejected}
            started = perf_counter()
            status, headers, raw = await self._post(json.dumps(payload | dict(sampling.extra)).encode())
            latency = perf_counter() - started
            if status == 200:
                try:
                    answer = _json_object(raw)
                    completion = with_served(self._read(answer, latency), answer, self._clean)
                except AnswerError as error:
                    raise ModelError("bad_response", f"{self._url.host} answered 200 with {self._clean(str(error))}", status=200) from None
                choices = payload.get("guided_choice") or found_at(payload, "structured_outputs", "choice") or ()
                return replace(completion, text=json.dumps({"answer": completion.text})) if completion.text in choices else completion
            complaint = read_complaint(raw)
            if status in (400, 422) and self._adapt(payload, complaint, status):
                continue
            if complaint.flagged and status in (400, 403):
                return Completion(None, "content_filter", refusal=self._clean(complaint.message), latency=latency)
            raise self._error(status, headers, complaint)
        raise ModelError("bad_request", f"{self._url.host} does not accept any form of this request", scope="fatal", status=400)

    @abstractmethod
    def _headers(self) -> dict[str, str]:
        """Return the headers specific to the endpoint, including the key."""

    @abstractmethod
    def _payload(self, messages: Sequence[Message], parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the body of the request, without vendor extras."""

    @abstractmethod
    def _read(self, answer: dict[str, Any], latency: float) -> Completion:
        """Return the completion in the body of a 200 answer; raise AnswerError or ModelError if there is none."""

    async def _post(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and return status, headers and decompressed body, whose size is limited to protect the memory."""
        if self._session is None:
            raise RuntimeError(f"{self!r} must be entered first: async with model")
        read = bytearray()
        try:
            async with self._session.post(self._url, data=body, allow_redirects=False) as response:
                while block := await response.content.readany():
                    read += block
                    if len(read) > LARGEST_BODY:
                        raise ModelError("bad_response", f"{self._url.host} sent an answer of more than {LARGEST_BODY >> 20} MiB")
                return response.status, response.headers, bytes(read)
        except (aiohttp.ClientError, OSError) as error:
            raise _connection_error(error, f"{self._url.host}:{self._url.port}") from None

    def _clean(self, text: str) -> str:
        return clean(text, (self._key.secret,) if self._key else ())

    def _error(self, status: int, headers: Mapping[str, str], complaint: Complaint) -> ModelError:
        """Return the error for an answer with a status other than 200, with advice."""
        message, advice = self._clean(complaint.message), ""
        if status in (401, 403):
            advice = f" (the key in {self._key.variable})" if self._key else " (no key was sent)"
        elif 300 <= status < 400:
            advice = f" (it redirects to {self._clean(headers.get('Location', '?').split('?')[0])}: use that as base URL)"
        elif status == 404:
            unversioned = self._url.path.endswith("/chat/completions") and not re.search(r"/v\d", self._base)
            if unversioned and "model" not in complaint.message.lower():
                advice = f" (nothing at {self._url}; did you mean the base URL {self._base}/v1?)"
            else:
                advice = f" (model {self._model!r} at {self._base})"
        return model_error(status, headers, complaint, f"{self._url.host} answered {status}{message and f': {message}'}{advice}")

    def _adapt(self, payload: Mapping[str, Any], complaint: Complaint, status: int) -> bool:
        """Note a parameter that the endpoint rejected, so that later requests omit it; return whether there is one.

        The limit on the length of an answer is sent under its other name. A seed (best effort everywhere), a temperature or top_p of 1 (the
        default) and a constraint are omitted. Omitting any other value would change what is measured, so that a fatal ModelError is raised.
        """
        words = re.findall(r"\w+", complaint.parameter or complaint.message[:2000])
        constraints = [name for name in _CONSTRAINTS if name in payload]
        named = [name for name in constraints if name in words] or [name for name in constraints if complaint.says(_OF_SCHEMAS)]
        named += [word for word in words if word in payload and word in (*self._lengths, *_NEUTRAL, "seed")]
        if not named or not (complaint.says(_REJECTED) or named[0] in _CONSTRAINTS):
            return False
        parameter = next((name for name in named if payload[name] == _NEUTRAL.get(name)), named[0])
        value = payload[parameter]
        if parameter in self._lengths:
            if not set(self._lengths) - self._rejected - {parameter}:
                return False
        elif value != _NEUTRAL.get(parameter, value):
            advice = f"use the default of the endpoint with -M {parameter}=default"
            raise ModelError("bad_request", f"{self.name} does not accept {parameter} {value}: {advice}", scope="fatal", status=status)
        elif parameter not in self._rejected:
            shown = "a list of allowed answers" if parameter in _CONSTRAINTS else value
            _log.warning("%s does not accept %s; it is omitted (it was %s)", self.name, parameter, shown)
        self._rejected.add(parameter)
        return True


def _json_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw`, decoded as UTF-8 whatever the headers say; raise AnswerError if there is none."""
    try:
        value = json_of(raw)
    except (ValueError, RecursionError):
        raise AnswerError(f"something that is not JSON: {raw.decode('utf-8', errors='replace')}") from None
    if not isinstance(value, dict):
        raise AnswerError("JSON that is not an object")
    return value


def _connection_error(error: Exception, place: str) -> ModelError:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return ModelError("connection", f"the certificate of {place} cannot be trusted", scope="fatal")
        case aiohttp.ClientConnectorError():
            reason = error.os_error.strerror or type(error.os_error).__name__
            return ModelError("connection", f"cannot connect to {place}: {clean(reason)}")
        case TimeoutError():
            return ModelError("connection", f"cannot connect to {place} within {_CONNECT_SECONDS:g} s")
        case aiohttp.ClientResponseError():
            return ModelError("bad_response", f"{place} sent an invalid HTTP response")
    return ModelError("connection", f"the connection to {place} was lost ({type(error).__name__})")


class OpenAIModel(HttpModel):
    """A model that answers `POST {base_url}/chat/completions`."""

    path = "/chat/completions"
    structured = True
    """Whether it accepts a JSON schema for its answers (`response_format`)."""
    constrains = True
    """Whether it accepts a list of allowed answers."""

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key.secret}"} if self._key else {}

    def _payload(self, messages: Sequence[Message], parameters: dict[str, Any]) -> dict[str, Any]:
        if "max_tokens" in parameters:
            parameters[next(name for name in self._lengths if name not in self._rejected)] = parameters.pop("max_tokens")
        for message in messages:
            if message.role == ALLOWED:
                parameters |= _constraint(json.loads(message.content), by_schema=_CONSTRAINTS[0] not in self._rejected)
        return {"model": self._model, "messages": [message._asdict() for message in messages if message.role != ALLOWED], **parameters}

    def _read(self, answer: dict[str, Any], latency: float) -> Completion:
        error = answer.get("error")
        if not answer.get("choices") and isinstance(error, dict):  # routers return an upstream error, with its status, in a 200
            complaint, code = complaint_in(answer), error.get("code")
            if isinstance(code, int) and 400 <= code < 600:
                raise self._error(code, {}, complaint)
            raise AnswerError(f"an error in it: {complaint.message}")
        return read_chat_answer(answer, latency)


def _constraint(allowed: Sequence[str], *, by_schema: bool) -> dict[str, Any]:
    """Return the parameters that constrain an answer; a version of vLLM that knows one name of its choice ignores the other."""
    if not by_schema:
        return {"structured_outputs": {"choice": allowed}, "guided_choice": allowed}
    schema = object_schema(answer={"type": "string", "enum": allowed})
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}}


def read_chat_answer(answer: Mapping[str, Any], latency: float) -> Completion:
    """Return the completion in the answer of an OpenAI-compatible chat endpoint.

    Raises
    ------
    AnswerError
        There is no completion.
    ModelError
        A router reports that generation failed (transient).
    """
    choice = found_at(answer, "choices", 0)
    message = found_at(choice, "message")
    if not isinstance(message, dict):
        raise AnswerError("no choice in it, or one without a message")
    finish, declined = _text(found_at(choice, "finish_reason")), _text(message.get("refusal"))
    if finish == "error":  # a router reports that its provider failed during generation
        raise ModelError("server", "the endpoint reports that generation failed", status=200)
    text, inline = _read_content(message.get("content"))
    refusal = declined or (finish if finish == "content_filter" else None)
    if not text and finish is None and refusal is None:
        raise AnswerError("a choice with neither text nor a finish reason")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    reasoning = _text(found_at(reasoning, "content") or reasoning) or ""  # an object in any-llm
    thinking = "\n".join(filter(None, [reasoning.strip(), inline])) or None
    usage = answer.get("usage")
    return Completion(text, finish, refusal, thinking, _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens"), latency)


class AnthropicModel(HttpModel):
    """A model that answers `POST {base_url}/v1/messages`.

    The endpoint has no seed, so `Sampling.seed` is not sent; it requires `max_tokens`, which defaults to 1024. Finish reasons are mapped to
    those of OpenAI-compatible endpoints: "stop", "length" and "content_filter" (a refusal); others are unchanged.
    """

    path = "/v1/messages"
    unsupported = ("frequency_penalty",)
    """Vendor extras that a method may prescribe but this API rejects."""

    def _headers(self) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01", **({"x-api-key": self._key.secret} if self._key else {})}

    def _payload(self, messages: Sequence[Message], parameters: dict[str, Any]) -> dict[str, Any]:
        system, turns = split_system(messages)
        parameters.pop("seed", None)
        stop = parameters.pop("stop", None)
        body: dict[str, Any] = {"model": self._model, "messages": [turn._asdict() for turn in turns]}
        body |= {"max_tokens": _ANTHROPIC_MAX_TOKENS, **parameters}
        return body | ({"system": system} if system else {}) | ({"stop_sequences": stop} if stop else {})

    def _read(self, answer: dict[str, Any], latency: float) -> Completion:
        blocks, reason = answer.get("content"), _text(answer.get("stop_reason"))
        usage = answer.get("usage")
        if not isinstance(blocks, list) or (not blocks and reason is None):
            raise AnswerError("no content in it")
        text, thinking = _read_content(blocks)
        explanation = _text(found_at(answer, "stop_details", "explanation"))
        return Completion(
            text=text,
            finish_reason=_ANTHROPIC_FINISH.get(reason, reason) if reason else reason,
            refusal=self._clean(explanation or "refusal") if reason == "refusal" else None,
            thinking=thinking,
            input_tokens=_tokens(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            output_tokens=_tokens(usage, "output_tokens"),
            latency=latency,
        )


def _read_content(content: object) -> tuple[str | None, str | None]:
    """Return the text and the thinking of a message: a string, null, or a list of parts (as is the thinking of Mistral)."""
    if isinstance(content, str):
        return split_thinking(content)
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    inner = [part.get("thinking") for part in parts if part.get("type") == "thinking"]
    thoughts = [one if isinstance(one, str) else _read_content(one)[0] for one in inner]
    text, inline = split_thinking("".join(texts)) if texts else (None, None)
    return text, "\n".join(filter(None, [*thoughts, inline])) or None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _tokens(usage: object, *names: str) -> int | None:
    """Return the sum of the token counts with these names; None if the first one is missing, or if one or the sum is not credible."""
    counts = [found_at(usage, name) for name in names]
    if counts[0] is None:
        return None
    given = [token_count(count) for count in counts if count is not None]
    return None if None in given else token_count(sum(filter(None, given)))
