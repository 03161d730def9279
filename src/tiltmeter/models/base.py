"""The `Model` protocol that every provider implements, and the creation of models from user input."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, SupportsIndex, TypeAlias, runtime_checkable

from tiltmeter import registry
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.arrays import Vectors

Range: TypeAlias = tuple[type[int] | type[float], float, float]
"""Type of a number, its minimum and its maximum."""


ALLOWED = "allowed_answers"
"""Role of a message that lists the allowed answers, and the column of a design with its content."""


class Message(NamedTuple):
    """One turn of a conversation. `role` is "system", "user" or "assistant".

    Models that declare `patches` also accept "source" (a separate prompt) and "span" (the part of it whose hidden states replace the
    placeholders of the user turn). Models that declare `constrains` also accept ALLOWED (a JSON list of the allowed answers).
    """

    role: str
    content: str


def split_system(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """Return the text of the system messages ("" if there are none), and the other messages."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    return system, [message for message in messages if message.role != "system"]


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the system messages put before the first user message, for models that accept no system message."""
    system, turns = split_system(messages)
    first = next((turn for turn in turns if turn.role == "user"), None)
    if not system.strip():
        return turns
    return [Message("user", f"{system.strip()}\n\n{turn.content}") if turn is first else turn for turn in turns]


@dataclass(frozen=True, slots=True)
class Sampling:
    """All parameters of a request that may change the answer, apart from its messages.

    None means that the parameter is not sent, so that the default of the endpoint applies. `seed` is sent as `seed + sample`, so that
    repetitions of one prompt differ. `extra` contains vendor extras (`top_k`, `reasoning_effort`, ...), which are sent unchanged.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a model.

    `text` is the answer without reasoning (None if there is none), and `thinking` is the separate reasoning: None if there is none, and
    empty if the endpoint counts the tokens of a reasoning that it does not show, and there is no answer. `refusal` is set if the
    endpoint itself reports a refusal of the model or its filter (a refusal field, a content filter), and None otherwise; refusals in the
    text are recognised later, by the measures. `served_model`, `served_fingerprint` and `served_provider` are what the endpoint says about
    who answered; None if it says nothing, as models in this process do.
    """

    text: str | None
    finish_reason: str | None = None
    refusal: str | None = None
    thinking: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency: float = 0.0
    """Seconds from sending the request to reading the end of the answer."""
    served_model: str | None = None
    served_fingerprint: str | None = None
    served_provider: str | None = None


SERVED = ("served_model", "served_fingerprint", "served_provider")
"""Fields of a completion with what the endpoint says about who answered; also columns of the journal and of responses."""
MOST_TOKENS = 10_000_000
"""Maximum number of tokens that is credible for one request or answer: the size of the largest context windows."""


def token_count(reported: object) -> int | None:
    """Return a number of tokens that an endpoint reported, or None if it is not a whole number from 0 to `MOST_TOKENS`."""
    if isinstance(reported, bool) or not isinstance(reported, SupportsIndex):  # the whole numbers of NumPy, too
        return None
    number = index(reported)
    return number if 0 <= number <= MOST_TOKENS else None


class ModelError(Exception):
    """A request that failed.

    Parameters
    ----------
    kind
        A short stable identifier, which is counted in the progress and stored with the failure: "rate_limit", "overloaded", "server",
        "timeout", "connection", "proxy", "bad_response", "bad_request", "context_length", "auth", "not_found", ...
    detail
        One human-readable sentence without secrets, of at most a few hundred characters.
    scope
        "transient": retry; "permanent": this request can never be answered, but others may;
        "fatal": no request to this model can be answered (wrong key, wrong model), so a run stops early unless some request succeeded.
    retry_after
        Seconds that the endpoint asked to wait; None if it did not specify any.
    status
        The HTTP status, if any.
    """

    def __init__(
        self, kind: str, detail: str, *, scope: str = "transient", retry_after: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(kind, detail)  # the arguments for unpickling in another process
        self.kind, self.detail, self.scope, self.retry_after, self.status = kind, detail, scope, retry_after, status

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


class Encoder(Protocol):
    """A sentence encoder, which turns texts into vectors and caches them."""

    @property
    def name(self) -> str:
        """The identity of its vectors."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 per text: shape (texts, dimensions)."""
        ...


class Classifier(Protocol):
    """A text classifier, which returns a score per label for each text and caches the scores."""

    @property
    def name(self) -> str:
        """The identity of its scores."""
        ...

    @property
    def labels(self) -> Sequence[str]:
        """Names of the labels, in the order of the scores."""
        ...

    def scores(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text and one column per label: shape (texts, labels)."""
        ...


@runtime_checkable
class Model(Protocol):
    """A model under test, or a judge.

    Contract: `complete` is called concurrently from one event loop, between `__aenter__` and `__aexit__`; it sends exactly one request
    (the engine retries), raises `ModelError` if there is no answer, and never includes a key in a message. The same object may be entered
    again after it was exited, in a new event loop.

    Optional attributes, absent from most models: `structured` (accepts a JSON schema as the vendor extra `response_format`), `unsupported`
    (names of vendor extras that a method may prescribe but the model rejects), `patches` (accepts the roles "source" and "span"),
    `constrains` (accepts the role ALLOWED: the text of an answer that was constrained to the list is `{"answer": ...}`, any other text
    counts as free), `recorded` (returns recorded answers, which cost nothing), `local` (answers in this process, in batches: the engine
    sends it the maximum number of requests at once, without a timeout).
    """

    @property
    def name(self) -> str:
        """The name `provider/model`, as the user wrote it."""
        ...

    @property
    def fingerprint(self) -> str:
        """The identity of the answers of this model in the journal: provider, model, base URL or dials; never a key."""
        ...

    @property
    def endpoint(self) -> str:
        """The endpoint, whose requests share one adaptive limit: scheme and host, or the name of the model."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Return an answer to `messages`; `sample` numbers independent answers to the same prompt."""
        ...


class NamedModel:
    """Base class for models: names, and no resources to open or close. Subclasses add `complete`.

    Parameters
    ----------
    name, fingerprint, endpoint
        See `Model`. Without an endpoint, the model does not share its adaptive limit.
    """

    def __init__(self, name: str, fingerprint: str, endpoint: str | None = None) -> None:
        self.name, self.fingerprint, self.endpoint = name, fingerprint, endpoint or name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        return None


def request_parameters(sampling: Sampling, sample: int) -> dict[str, Any]:
    """Return the parameters of one request with the names used by OpenAI-compatible endpoints; unset ones are omitted."""
    named = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": None if sampling.seed is None else sampling.seed + sample,
        "stop": list(sampling.stop) or None,
    }
    return {name: value for name, value in named.items() if value is not None}


# Creation of models from user input ---------------------------------------------------------------------------------------------------

_RESERVED = ("messages", "model", "n", "stream")
SECRET_NAME = re.compile(r"secret|passw(?:or)?d|passphrase|authori[sz]|credential|bearer|(?:key|keys|keyid|token)$|^x?auth$")
"""Matches a name without its separators: api_key, hf_token, X-Api-Key, but not max_tokens or stop_token_ids."""
_NO_SECRETS = frozenset(("prompt_cache_key",))
_UNSET = ("default", "none", "null", "")
_SAMPLING_RANGES: Mapping[str, Range] = {
    "temperature": (float, 0, math.inf),
    "top_p": (float, 0, 1),
    "max_tokens": (int, 1, math.inf),
    "seed": (int, 0, math.inf),
}


def create_model(spec: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None) -> Model:
    """Create the model that `spec` names.

    Parameters
    ----------
    spec
        `provider/model`; the name of the model may contain further slashes. `compatible/NAME` is any OpenAI-compatible endpoint.
    base_url
        Base URL of the endpoint, in place of the provider's default.
    options
        Options of the provider: the second part of `sampling_from_options`.

    Raises
    ------
    InputError
        There is no such provider, the spec is not of the form `provider/model`, or the provider does not accept the base URL or an option.
    ProviderError
        The provider's key, or an optional package it needs, is missing.
    """
    provider, model = _parse_spec(spec)
    return provider_factory(provider)(provider, model, base_url=base_url, options=dict(options or {}))


def provider_factory(provider: str) -> Callable[..., Model]:
    """Return the function that creates the models of a provider; raise InputError if there is none, or if a plugin is not usable."""
    elsewhere = " (compatible/NAME with --base-url reaches any OpenAI-compatible endpoint)"
    registry.check_known(provider, registry.names("providers"), f"unknown provider {provider!r}", elsewhere)
    factory: Callable[..., Model] = registry.load("providers", provider)
    return factory


def _parse_spec(spec: str) -> tuple[str, str]:
    provider, _, model = spec.partition("/")
    if not (provider and model):
        raise InputError(f"the model {spec!r} should be written provider/model, for instance openai/gpt-4o-mini or ollama/llama3.2")
    return provider, model


def check_options(spec: str, options: Iterable[str], known: Sequence[str] = ()) -> None:
    """Raise InputError if an option is not among the known ones."""
    for name in options:
        if name not in known:
            raise InputError(f"{spec} has no option {name}: {registry.did_you_mean(name, known) if known else 'remove it from -M'}")


def check_local(spec: str, base_url: str | None) -> None:
    """Raise InputError if a base URL was given for a model without one."""
    if base_url is not None:
        raise InputError(f"{spec} runs inside tiltmeter and has no base URL: remove --base-url")


def parse_number(name: str, value: str, allowed: Range) -> Any:
    """Parse the number of the option `-M NAME=VALUE`; raise InputError if it is not a number or out of range."""
    kind, least, most = allowed
    try:
        number = kind(value)
    except ValueError:
        number = math.nan
    if not least <= number <= most or number == math.inf:
        what = "a whole number" if kind is int else "a number"
        raise InputError(f"-M {name}={value}: give {what} {f'of {least} or more' if most == math.inf else f'from {least} to {most}'}")
    return number


def sampling_from_options(spec: str, options: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Split `-M key=value` for the model `spec`: fields for `Sampling`, and the options for `create_model`.

    The first part contains only the fields that were given, for use with `dataclasses.replace(study.sampling, **fields)`; the value
    `default` sets a field to None (not sent). If the module of a provider declares `OPTIONS`, the provider takes these options, and all
    other options are vendor extras (under `extra`), which are sent with each request. A provider that declares none (replay, sim, external
    packages) takes all other options and rejects unknown ones.

    Raises
    ------
    InputError
        There is no such provider, a value has the wrong type or range, a reserved part of the request was given, or an option looks like
        a key or password: options are written to the files of the run.
    """
    factory = provider_factory(_parse_spec(spec)[0])
    declared: frozenset[str] | None = getattr(sys.modules[factory.__module__], "OPTIONS", None)
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    leftover: dict[str, str] = {}
    for name, value in options.items():
        refuse_secrets(f"-M {name}=", name, _parse_scalar(value))
        is_unset = value.strip().lower() in _UNSET
        if name in _SAMPLING_RANGES:
            fields[name] = None if is_unset else parse_number(name, value, _SAMPLING_RANGES[name])
        elif name == "stop":
            fields[name] = () if is_unset else _parse_stop_texts(value)
        elif declared is None or name in declared:
            leftover[name] = value
        elif name in _RESERVED:
            raise InputError(f"-M {name}={value}: {name} is part of every request and cannot be set")
        else:
            extra[name] = _parse_scalar(value)
    return fields | ({"extra": extra} if extra else {}), leftover


def refuse_secrets(place: str, name: str, value: Any) -> None:
    """Raise InputError if the name of an option, or a name with a text in its JSON value, looks like that of a key.

    The message contains `place`, which is the option as the user wrote it, but never the value.
    """
    names, left = [name], [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            names += [inside for inside, inner in one.items() if isinstance(inner, str)]
            left += one.values()
        elif isinstance(one, list):
            left += one
    for found in names:
        if found not in _NO_SECRETS and SECRET_NAME.search(re.sub(r"[^a-z0-9]", "", found.lower())):
            shown = place if found == name else f"{found!r} in {place}"
            raise InputError(
                f"{shown} looks like a key or password, which would be written to the files of the run: "
                "set the provider's environment variable instead (see `tiltmeter list models`)"
            )


def _parse_scalar(value: str) -> Any:
    """Return a value parsed as JSON (number, true, false, null, list, object), or the text itself if it is not JSON."""
    try:
        return json.loads(value, parse_constant=lambda name: name)  # NaN and Infinity are not JSON: they remain text
    except (ValueError, RecursionError):
        return value


def _parse_stop_texts(value: str) -> tuple[str, ...]:
    r"""Parse stop texts: one text, or a JSON string or list of strings (such as `"\n"`)."""
    found = _parse_scalar(value) if value[0] in '["' else value
    texts = [found] if isinstance(found, str) else found
    if not all(isinstance(text, str) and text for text in texts):
        raise InputError(f'-M stop={value}: give a text or a JSON list of texts such as ["\\n", "END"]')
    return tuple(texts)
