"""Models behind HTTP endpoints: OpenAI-compatible ones, and that of Anthropic.

They share the session, the policy of one request per answer, and the adaptation of requests to the parameters
that an endpoint accepts. One request takes about 0.15 ms of processor time, nearly all of it in aiohttp:
headers and URLs are prepared once, bodies are plain JSON, and answers are read as dictionaries, not validated
into objects. (A request of httpx takes about twenty times as long.)
"""

from __future__ import annotations

import json
import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, ClassVar, Final, Self

import aiohttp
from yarl import URL

from tiltmeter.errors import InputError
from tiltmeter.models._answer_shapes import (
    AnswerError,
    Reported,
    answer_object,
    common_reason,
    demand_generated,
    is_aborted,
    is_declined,
    read_content,
    read_reasoning,
    reported_failure,
)
from tiltmeter.models._base import (
    ALLOWED,
    Completion,
    Message,
    ModelError,
    NamedModel,
    Sampling,
    request_parameters,
    split_system,
    token_count,
)
from tiltmeter.models._connections import CONNECT_SECONDS, Proxy, connection_error, proxy_for
from tiltmeter.models._endpoints import (
    ENDPOINTS,
    Complaint,
    EndpointKey,
    SystemMessages,
    base_of,
    checked_url,
    clean,
    found_at,
    key_from_environment,
    model_error,
    read_complaint,
)
from tiltmeter.models._event_streams import reason_text
from tiltmeter.models._json_replies import object_schema
from tiltmeter.models._options import check_options
from tiltmeter.models._served import with_served

OPTIONS: Final[frozenset[str]] = frozenset()
"""Options of `create`; all others are vendor extras."""
LARGEST_BODY: Final = 64 << 20
"""Maximum size of an answer in bytes; the longest answers of models take some hundred kB."""
_KEEPALIVE_SECONDS = 30.0
_DNS_SECONDS = 300
_MOST_ADAPTATIONS = 10
"""Enough for every parameter that can be omitted, and a system message, to be rejected once."""
_REJECTED = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|deprecated"
    r"|cannot both",
    re.I,
)
"""Words of an endpoint that rejects a parameter."""
_NEUTRAL = {"temperature": 1, "top_p": 1}
"""Values of parameters that are the default of every endpoint, so that omitting them changes nothing."""
_CONSTRAINTS = ("response_format", "structured_outputs", "guided_choice")
"""Parameters that constrain an answer to a list: a JSON schema, and the choice of vLLM under its new and its
old name."""
_OF_SCHEMAS = re.compile(r"response.?format|schema|structured|guided|grammar", re.I)
_ANTHROPIC_MAX_TOKENS = 1024
_ANTHROPIC_STOP = ("end_turn", "stop_sequence")
"""Stop reasons that mean the same as "stop"."""
_ANTHROPIC_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Token counts whose sum is the length of the prompt."""
_FILTER_STATUSES = (200, 400, 403, 422, 451)
"""Statuses with which endpoints say that a filter rejected the prompt or the answer."""

_log = logging.getLogger("tiltmeter.models")


def create(provider: str, model: str, *, base_url: str | None, options: Mapping[str, str]) -> HttpModel:
    """Create a model at the endpoint of `provider`.

    Parameters
    ----------
    base_url
        Base URL in place of that of the environment or the default of the provider.

    Raises
    ------
    InputError
        There is no valid base URL, or an option was given (these providers have none; extras belong in
        `Sampling.extra`).
    ProviderError
        The key is missing from the environment.
    """
    check_options(provider, options)
    endpoint = ENDPOINTS[provider]
    variable = f"{endpoint.variables}_BASE_URL"
    chosen = base_of((base_url or os.environ.get(variable) or endpoint.base_url or "").strip())
    if not chosen:
        raise InputError(f"{provider}/{model} needs --base-url (or the environment variable {variable})")
    model_type: type[HttpModel] = OpenAIModel
    if provider == "anthropic":
        model_type = AnthropicModel
        chosen = chosen.removesuffix("/v1")
    key_needed = endpoint.key_needed and chosen == endpoint.base_url
    key = key_from_environment(endpoint.key_variable, provider, needed=key_needed)
    return model_type(provider, model, chosen, key)


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
        self._model = model
        self._base = checked_url(base_url)
        self._key = key
        self._url = URL(self._base + self.path)
        super().__init__(f"{provider}/{model}", f"{provider}/{model}@{self._base}", str(self._url.origin()))
        self._lengths = ENDPOINTS[provider].length_parameters
        self._session: aiohttp.ClientSession | None = None
        self._proxy: Proxy | None = None
        self._answered = False
        """Whether the endpoint has answered a request, with any status."""
        self._rejected: set[str] = set()
        """Parameters that the endpoint rejected, which later requests omit."""
        self._system = SystemMessages(self.name)

    async def __aenter__(self) -> Self:
        # The engine limits concurrency and the duration of a request; only connecting has a separate timeout
        # here. The proxy is looked up once, not for every request.
        self._proxy = proxy_for(self._url)
        common = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "tiltmeter"}
        connector = aiohttp.TCPConnector(
            limit=0, ttl_dns_cache=_DNS_SECONDS, keepalive_timeout=_KEEPALIVE_SECONDS
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=common | self._headers(),
            proxy=self._proxy.url if self._proxy else None,
        )
        return self

    async def __aexit__(self, *exception: object) -> None:
        session = self._session
        self._session = None
        if session is not None:
            await session.close()

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Answer `messages` with one request.

        If the endpoint rejects the request because of a parameter or a system message (not charged), the
        request is adapted and sent again; the adaptation is kept for later requests: see `_adapt` and
        `SystemMessages`.
        """
        for _ in range(_MOST_ADAPTATIONS):
            sent = self._system.sent(messages)
            payload = self._payload(sent, request_parameters(sampling, sample) | {"stream": False})
            payload = {name: value for name, value in payload.items() if name not in self._rejected}
            started = perf_counter()
            status, headers, raw = await self._post(json.dumps(payload | dict(sampling.extra)).encode())
            outcome = self._outcome(status, raw, perf_counter() - started)
            if isinstance(outcome, Completion):
                return _as_object(_with_limit_reached(outcome, sampling.max_tokens), payload)
            complaint = outcome.complaint
            code = outcome.status or (200 if _is_success(status) else status)
            if self._system.fold_if_rejected(sent, code, complaint):
                continue
            if code not in (400, 422) or not self._adapt(payload, complaint, code):
                raise self._error(status, headers, complaint, code)
        raise ModelError(
            "bad_request", f"{self.place} does not accept any form of this request", scope="fatal", status=400
        )

    @property
    def place(self) -> str:
        """Name of the host in messages, with the proxy through which it is reached."""
        host = str(self._url.host)
        return f"{host} (through the proxy {self._proxy})" if self._proxy else host

    def _outcome(self, status: int, raw: bytes, latency: float) -> Completion | Reported:
        """Return the completion in an answer, or the failure that it reports.

        The failure has the status of the answer or, in a 200, the status that its body names. Other statuses
        of success (201, the default of some gateways) mean the same as 200. A completion with any other
        status counts only if it was declined: this is how a filter reports its decision.

        Raises
        ------
        ModelError
            A 200 contains neither.
        """
        succeeded = _is_success(status)
        failure: Reported | None = None
        completion: Completion | None = None
        try:
            answer = answer_object(raw)
            failure = reported_failure(answer)
            if failure is None:
                completion = with_served(self._read(answer, latency), answer, self._clean)
        except (AnswerError, RecursionError) as error:
            if succeeded:
                raise self._unreadable(error, status) from None
        if completion is not None and (succeeded or completion.refusal is not None):
            return completion
        if failure is None or not succeeded:
            failure = Reported(failure.complaint if failure else read_complaint(raw), status)
        names_status = succeeded and failure.status is not None
        if failure.complaint.flagged and (names_status or failure.status in (None, *_FILTER_STATUSES)):
            refusal = self._clean(failure.complaint.message)
            return Completion(None, "content_filter", refusal=refusal, latency=latency)
        return failure

    def _unreadable(self, error: AnswerError | RecursionError, status: int) -> ModelError:
        """Return the error for an answer with a status of success that contains no completion."""
        content = str(error) if isinstance(error, AnswerError) else "something that is nested too deeply"
        detail = f"{self.place} answered {status} with {self._clean(content)}"
        return ModelError("bad_response", detail, status=status)

    @abstractmethod
    def _headers(self) -> dict[str, str]:
        """Return the headers specific to the endpoint, including the key."""

    @abstractmethod
    def _payload(self, messages: Sequence[Message], parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the body of the request, without vendor extras."""

    @abstractmethod
    def _read(self, answer: dict[str, Any], latency: float) -> Completion:
        """Return the completion in the body of an answer; raise AnswerError if there is none."""

    async def _post(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and return status, headers and decompressed body.

        The size of the body is limited, so that it fits into memory.
        """
        if self._session is None:
            raise RuntimeError(f"{self!r} must be entered first: async with model")
        content = bytearray()
        try:
            async with self._session.post(self._url, data=body, allow_redirects=False) as response:
                self._answered = True
                while block := await response.content.readany():
                    content += block
                    if len(content) > LARGEST_BODY:
                        size = f"{LARGEST_BODY >> 20} MiB"
                        raise ModelError("bad_response", f"{self.place} sent an answer of more than {size}")
                return response.status, response.headers, bytes(content)
        except (aiohttp.ClientError, OSError) as error:
            raise connection_error(error, self._url, self._proxy, answered=self._answered) from None

    def _clean(self, text: str) -> str:
        return clean(text, (self._key.secret,) if self._key else ())

    def _error(self, sent: int, headers: Mapping[str, str], complaint: Complaint, status: int) -> ModelError:
        """Return the error for a failure with a status, with advice.

        A success (`sent`) may report a failure with another status.
        """
        detail = f"{self.place} answered {status}"
        if _is_success(sent):
            detail = f"{self.place} answered {sent} with an error"
            if status != 200:
                detail += f" {status}"
        message = self._clean(complaint.message)
        if message:
            detail += f": {message}"
        advice = self._advice(headers, complaint, status)
        if advice:
            detail += f" ({advice})"
        return model_error(status, headers, complaint, detail)

    def _advice(self, headers: Mapping[str, str], complaint: Complaint, status: int) -> str:
        """Return what the user can check after a failure with this status; "" if there is no advice."""
        if status in (401, 403):
            return f"the key in {self._key.variable}" if self._key else "no key was sent"
        if 300 <= status < 400:
            return self._redirect(headers.get("Location", ""))
        if status != 404:
            return ""
        if "model" in complaint.message.lower():
            return f"model {self._model!r} at {self._base}"
        if self._url.path.endswith("/chat/completions") and not re.search(r"/v\d", self._base):
            root = re.sub(r"/api(?:/chat|/generate)?$", "", self._base)  # the API of Ollama itself
            return f"nothing at {self._url}; did you mean the base URL {root}/v1?"
        return f"nothing at {self._url}, or no model {self._model!r} there"

    def _redirect(self, location: str) -> str:
        """Return where the endpoint redirects to, with the base URL that leads there, if there is one."""
        if not location:
            return "it redirects, but does not say where"
        try:
            address = self._url.join(URL(location)).with_query(None).with_fragment(None).with_user(None)
        except ValueError:
            return self._clean(f"it redirects to {location.partition('?')[0]}")
        target = str(address)
        advice = f"it redirects to {self._clean(target)}"
        if target.endswith(self.path):
            advice += f": use {self._clean(target.removesuffix(self.path))} as base URL"
        return advice

    def _adapt(self, payload: Mapping[str, Any], complaint: Complaint, status: int) -> bool:
        """Record a parameter that the endpoint rejected, so that later requests omit it.

        The limit on the length of an answer is sent under its other name. A seed (best effort everywhere), a
        temperature or top_p of 1 (the default), a constraint and `stream` are omitted.

        Returns
        -------
        bool
            Whether the complaint names such a parameter, so that the request can be sent again.

        Raises
        ------
        ModelError
            The parameter has another value, so that omitting it would change what is measured (fatal).
        """
        rejected = self._rejected_parameters(payload, complaint)
        if not rejected or not (complaint.says(_REJECTED) or rejected[0] in _CONSTRAINTS):
            return False
        parameter = next((name for name in rejected if payload[name] == _NEUTRAL.get(name)), rejected[0])
        value = payload[parameter]
        if parameter in self._lengths:
            has_another_name = bool(set(self._lengths) - self._rejected - {parameter})
            if not has_another_name:
                return False
        elif value != _NEUTRAL.get(parameter, value):
            detail = (
                f"{self.name} does not accept {parameter} {value}: "
                f"use the default of the endpoint with -M {parameter}=default"
            )
            raise ModelError("bad_request", detail, scope="fatal", status=status)
        elif parameter not in self._rejected:
            omitted = "a list of allowed answers" if parameter in _CONSTRAINTS else value
            _log.warning("%s does not accept %s; it is omitted (it was %s)", self.name, parameter, omitted)
        self._rejected.add(parameter)
        return True

    def _rejected_parameters(self, payload: Mapping[str, Any], complaint: Complaint) -> list[str]:
        """Return the parameters of a request that a complaint names and that can be omitted.

        Constraints come first; `stream` is returned only if the complaint names no other parameter.
        """
        words = re.findall(r"\w+", complaint.parameter or complaint.message[:2000])
        sent = [word for word in words if word in payload]
        constraints = [name for name in _CONSTRAINTS if name in payload]
        rejected = [name for name in constraints if name in words]
        if not rejected and complaint.says(_OF_SCHEMAS):
            rejected = constraints
        omissible = (*self._lengths, *_NEUTRAL, "seed")
        omitted = [word for word in sent if word in omissible]
        return [*rejected, *omitted] or [word for word in sent if word == "stream"]


def _is_success(status: int) -> bool:
    return 200 <= status < 300


def _with_limit_reached(completion: Completion, max_tokens: int | None) -> Completion:
    """Return a completion with the finish reason "length" if its thinking used all tokens.

    Some endpoints report "stop" in this case.
    """
    is_silent = not completion.text and completion.thinking is not None and completion.refusal is None
    used_all = max_tokens is not None and (completion.output_tokens or 0) >= max_tokens
    return replace(completion, finish_reason="length") if is_silent and used_all else completion


def _as_object(completion: Completion, payload: Mapping[str, Any]) -> Completion:
    """Return a completion with its text as the object of the schema, if vLLM constrained it to a choice.

    With a choice the text is the bare answer, with a schema it is an object; the journal has one form.
    """
    choices = payload.get("guided_choice") or found_at(payload, "structured_outputs", "choice") or ()
    if completion.text not in choices:
        return completion
    return replace(completion, text=json.dumps({"answer": completion.text}))


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
            accepted = next(name for name in self._lengths if name not in self._rejected)
            parameters[accepted] = parameters.pop("max_tokens")
        turns: list[dict[str, str]] = []
        for message in messages:
            if message.role == ALLOWED:
                by_schema = _CONSTRAINTS[0] not in self._rejected
                parameters |= _constraint(json.loads(message.content), by_schema=by_schema)
            else:
                turns.append(message._asdict())
        return {"model": self._model, "messages": turns, **parameters}

    def _read(self, answer: dict[str, Any], latency: float) -> Completion:
        completion = read_chat_answer(answer, latency)
        return replace(completion, refusal=completion.refusal and self._clean(completion.refusal))


def _constraint(allowed: Sequence[str], *, by_schema: bool) -> dict[str, Any]:
    """Return the parameters that constrain an answer.

    A version of vLLM that knows one name of its choice ignores the other.
    """
    if not by_schema:
        return {"structured_outputs": {"choice": allowed}, "guided_choice": allowed}
    schema = object_schema(answer={"type": "string", "enum": allowed})
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": schema},
        }
    }


def read_chat_answer(answer: Mapping[str, Any], latency: float) -> Completion:
    """Return the completion in the answer of an OpenAI-compatible chat endpoint.

    Raises
    ------
    AnswerError
        There is no completion.
    """
    choice = found_at(answer, "choices", 0)
    message = found_at(choice, "message")
    finish = reason_text(found_at(choice, "finish_reason"))
    declined = finish if is_declined(finish) else None
    if is_aborted(finish):
        raise AnswerError(f"a generation that failed (finish reason {finish})")
    if not isinstance(message, dict):
        if declined is None:
            raise AnswerError(
                f"no choice in it, or one without a message: {json.dumps(answer, ensure_ascii=False)}"
            )
        message = {}
    content = read_content(message.get("content"))
    refusal = _text(message.get("refusal")) or content.refusal or declined
    thinking = "\n".join(filter(None, [read_reasoning(message), content.thinking])) or None
    usage = answer.get("usage")
    input_tokens = _tokens(usage, "prompt_tokens")
    output_tokens = _generated_tokens(usage)
    if refusal is None:
        generated = output_tokens
        if output_tokens == 0 and input_tokens is None:  # the thinking of Gemini is only in the total
            generated = _tokens(usage, "total_tokens") or 0
        demand_generated(finish, content.text, thinking, generated)
    if thinking is None and not (content.text or "").strip() and _counts_thinking(usage):
        thinking = ""
    return Completion(
        text=content.text,
        finish_reason=common_reason(finish),
        refusal=refusal,
        thinking=thinking,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        latency=latency,
    )


class AnthropicModel(HttpModel):
    """A model that answers `POST {base_url}/v1/messages`.

    The endpoint has no seed, so `Sampling.seed` is not sent; it requires `max_tokens`, which defaults to
    1024. Finish reasons are mapped to those of OpenAI-compatible endpoints: "stop", "length" and
    "content_filter" (a refusal); others are unchanged.
    """

    path = "/v1/messages"
    unsupported: ClassVar[tuple[str, ...]] = ("frequency_penalty",)
    """Vendor extras that a method may prescribe but this API rejects."""

    def _headers(self) -> dict[str, str]:
        headers = {"anthropic-version": "2023-06-01"}
        if self._key:
            headers["x-api-key"] = self._key.secret
        return headers

    def _payload(self, messages: Sequence[Message], parameters: dict[str, Any]) -> dict[str, Any]:
        system, turns = split_system(messages)
        parameters.pop("seed", None)
        stop = parameters.pop("stop", None)
        body: dict[str, Any] = {"model": self._model, "messages": [turn._asdict() for turn in turns]}
        body |= {"max_tokens": _ANTHROPIC_MAX_TOKENS, **parameters}
        if system:
            body["system"] = system
        if stop:
            body["stop_sequences"] = stop
        return body

    def _read(self, answer: dict[str, Any], latency: float) -> Completion:
        reason = reason_text(answer.get("stop_reason"))
        usage = answer.get("usage")
        if "content" not in answer or (not answer["content"] and reason is None):
            raise AnswerError(f"no content in it: {json.dumps(answer, ensure_ascii=False)}")
        text, thinking, declined = read_content(answer["content"])
        if is_declined(reason):
            declined = declined or _text(found_at(answer, "stop_details", "explanation")) or reason
        output_tokens = _tokens(usage, "output_tokens")
        if declined is None:
            demand_generated(reason, text, thinking, output_tokens)
        if thinking is None and not (text or "").strip() and _has_hidden_thinking(answer["content"]):
            thinking = ""
        return Completion(
            text=text,
            finish_reason="stop" if reason in _ANTHROPIC_STOP else common_reason(reason),
            refusal=self._clean(declined) if declined else None,
            thinking=thinking,
            input_tokens=_tokens(usage, *_ANTHROPIC_INPUT),
            output_tokens=output_tokens,
            latency=latency,
        )


def _has_hidden_thinking(content: object) -> bool:
    """Return whether a content has parts with thinking that the endpoint does not show."""
    return isinstance(content, list) and any(
        found_at(part, "type") in ("thinking", "redacted_thinking") for part in content
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _generated_tokens(usage: object) -> int | None:
    """Return the number of generated tokens, with those of the thinking; None if it is not known.

    Most endpoints count the thinking in `completion_tokens`. Gemini counts it only in the total, and xAI in
    `reasoning_tokens` and in the total. Thinking that is longer than the completion, and that no total
    contains, is counted beside it.
    """
    completion = _tokens(usage, "completion_tokens")
    total = _tokens(usage, "total_tokens")
    after_prompt = _tokens_after_prompt(usage)
    if completion is None:
        return after_prompt if after_prompt > 0 else None
    thinking = next((count for count in _thinking_counts(usage) if count > 0), 0)
    if thinking > completion and (total is None or completion == 0):
        completion += thinking
    return token_count(max(after_prompt, completion))


def _counts_thinking(usage: object) -> bool:
    """Return whether a usage counts tokens of thinking: by name, or only in the total, as Gemini does."""
    counts = _thinking_counts(usage)
    if counts:
        return any(counts)
    return _tokens_after_prompt(usage) > 0 and not _tokens(usage, "completion_tokens")


def _thinking_counts(usage: object) -> list[int]:
    """Return the numbers of tokens of thinking that a usage names, in two places at most."""
    places = (found_at(usage, "completion_tokens_details"), usage)
    counts = [_tokens(place, "reasoning_tokens") for place in places]
    return [count for count in counts if count is not None]


def _tokens_after_prompt(usage: object) -> int:
    """Return the number of tokens in the total of a usage without those of the prompt; 0 if not reported."""
    total = _tokens(usage, "total_tokens")
    prompt = _tokens(usage, "prompt_tokens")
    return 0 if total is None or prompt is None else total - prompt


def _tokens(usage: object, *names: str) -> int | None:
    """Return the sum of the token counts with these names.

    None if the first one is missing, or if one of them or the sum is not credible.
    """
    reported = [found_at(usage, name) for name in names]
    if reported[0] is None:
        return None
    counts = [token_count(count) for count in reported if count is not None]
    return None if None in counts else token_count(sum(filter(None, counts)))
