"""How one text comes from one model: the protocol every provider fulfils, and how a model is made from what a user writes."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from tiltmeter import registry
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.arrays import Vectors

Range: TypeAlias = tuple[type[int] | type[float], float, float]
"""Kind of a number, the least and the greatest it may be."""


class Message(NamedTuple):
    """One turn of a conversation. `role` is "system", "user" or "assistant".

    Models that declare `patches` also take "source" (a prompt of its own) and "span" (the part of it whose hidden states replace
    the placeholders of the user turn).
    """

    role: str
    content: str


def split_system(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """Return the text of the system messages ("" where there are none), and the other messages."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    return system, [message for message in messages if message.role != "system"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Everything about a request, apart from its messages, that may change the answer.

    `None` means "not sent: the endpoint's default". `seed` is sent as `seed + sample`, so that repetitions of one
    prompt differ. `extra` holds vendor extras (`top_k`, `reasoning_effort`, ...) passed on unchanged.
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

    `text` is the answer alone (None when the model gave none); `thinking` holds reasoning kept apart from it.
    `refusal` is set where the endpoint itself reports that the model or its filter declined (a refusal field, a content filter),
    None otherwise; refusals in plain words are recognised later, by the measures.
    """

    text: str | None
    finish_reason: str | None = None
    refusal: str | None = None
    thinking: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency: float = 0.0
    """Seconds from sending the request to having read the whole answer."""


class ModelError(Exception):
    """One request gave no answer.

    Parameters
    ----------
    kind
        A short stable word counted in progress and stored with the failure: "rate_limit", "overloaded", "server",
        "timeout", "connection", "bad_response", "bad_request", "context_length", "auth", "not_found", ...
    detail
        One sentence for people, without secrets, at most a few hundred characters.
    scope
        "transient": try again; "permanent": this request can never be answered, others may;
        "fatal": no request to this model can be answered (wrong key, wrong model), stop early when nothing has worked yet.
    retry_after
        Seconds the endpoint asked to wait, None when it did not say.
    status
        The HTTP status, where there was one.
    """

    def __init__(
        self, kind: str, detail: str, *, scope: str = "transient", retry_after: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(kind, detail)  # what it takes to make it again in another process
        self.kind, self.detail, self.scope, self.retry_after, self.status = kind, detail, scope, retry_after, status

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


class Encoder(Protocol):
    """Turns texts into vectors; what was encoded once is kept."""

    @property
    def name(self) -> str:
        """What identifies its vectors."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One row of length 1 per text: shape (texts, dimensions)."""
        ...


class Classifier(Protocol):
    """Gives texts a score per label; what was scored once is kept."""

    @property
    def name(self) -> str:
        """What identifies its scores."""
        ...

    @property
    def labels(self) -> Sequence[str]:
        """Names of the labels, in the order of the scores."""
        ...

    def scores(self, texts: Sequence[str]) -> Vectors:
        """One row per text, one column per label: shape (texts, labels)."""
        ...


@runtime_checkable
class Model(Protocol):
    """A model under test (or a judge).

    Contract: `complete` is called concurrently from one event loop, between `__aenter__` and `__aexit__`; it sends
    exactly one request (the engine retries), raises `ModelError` when no answer came, and never lets a key into
    a message. The same object may be entered again, in a new event loop, after it was left.

    Optional attributes, absent from most models: `structured` (takes a JSON schema as the vendor extra `response_format`),
    `unsupported` (names of vendor extras a method may prescribe that it refuses), `patches` (takes the roles "source" and "span"),
    `local` (answers in this process, in batches: the engine hands it all requests it may have at once, and sets it no time limit).
    """

    @property
    def name(self) -> str:
        """`provider/model`, as the user wrote it."""
        ...

    @property
    def fingerprint(self) -> str:
        """What identifies this model's answers in the journal: provider, model, base URL or dials; never a key."""
        ...

    @property
    def endpoint(self) -> str:
        """Requests to the same endpoint share one adaptive limit: scheme and host, or the model's own name."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Answer `messages`; `sample` numbers independent answers to the same prompt."""
        ...


class NamedModel:
    """What the models of this package have in common: their names, and nothing to open or close. Subclasses add `complete`.

    Parameters
    ----------
    name, fingerprint, endpoint
        See `Model`. Without an endpoint the model shares its limit with no other.
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
    """Parameters of one request, under the names of OpenAI-compatible endpoints; those that are not to be sent are left out."""
    named = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": None if sampling.seed is None else sampling.seed + sample,
        "stop": list(sampling.stop) or None,
    }
    return {name: value for name, value in named.items() if value is not None}


# From what a user writes to a model ---------------------------------------------------------------------------------------------------

_RESERVED = ("messages", "model", "n", "stream")
_SECRET = re.compile(r"secret|passw(?:or)?d|passphrase|authori[sz]|credential|bearer|(?:key|keys|keyid|token)$|^x?auth$")
"""Matched against a name without its separators: api_key, hf_token, X-Api-Key, but not max_tokens or stop_token_ids."""
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
        `provider/model`; the model's name may hold further slashes. `compatible/NAME` is any OpenAI-compatible endpoint.
    base_url
        Where the endpoint is, instead of the provider's usual place.
    options
        Options of the provider itself: the second part of `sampling_from_options`.

    Raises
    ------
    InputError
        There is no such provider, the spec is no `provider/model`, or the provider cannot use the base URL or an option.
    ProviderError
        The provider's key, or an optional package it needs, is missing.
    """
    provider, model = _parse_spec(spec)
    return provider_factory(provider)(provider, model, base_url=base_url, options=dict(options or {}))


def provider_factory(provider: str) -> Callable[..., Model]:
    """Return the function that makes a provider's models; raise InputError where there is none, or where a plugin cannot be used."""
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
    """Raise InputError where an option is none of those that a model knows."""
    for name in options:
        if name not in known:
            raise InputError(f"{spec} takes no option {name}: {registry.did_you_mean(name, known) if known else 'remove it from -M'}")


def check_local(spec: str, base_url: str | None) -> None:
    """Raise InputError where a base URL was given for a model that has none."""
    if base_url is not None:
        raise InputError(f"{spec} runs inside tiltmeter and has no address: remove --base-url")


def parse_number(name: str, value: str, allowed: Range) -> Any:
    """Return the number of the option `-M NAME=VALUE`; raise InputError where it is none, or out of its range."""
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

    Only fields that were given are there, so the first part suits `dataclasses.replace(study.sampling, **fields)`; the value
    `default` makes a field None (not sent). Of the options that are no fields, a provider whose module declares `OPTIONS` takes those
    itself, and everything else is a vendor extra (under `extra`), sent with each request; a provider that declares none (replay, sim,
    outside packages) takes all the rest itself and refuses what it does not know.

    Raises
    ------
    InputError
        There is no such provider, a value is not of its field's kind or range, a reserved part of the request was given, or a
        key or password: options are written into the run's files.
    """
    factory = provider_factory(_parse_spec(spec)[0])
    own: frozenset[str] | None = getattr(sys.modules[factory.__module__], "OPTIONS", None)
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
        elif own is None or name in own:
            leftover[name] = value
        elif name in _RESERVED:
            raise InputError(f"-M {name}={value}: {name} is part of every request and cannot be set")
        else:
            extra[name] = _parse_scalar(value)
    return fields | ({"extra": extra} if extra else {}), leftover


def refuse_secrets(place: str, name: str, value: Any) -> None:
    """Raise InputError where an option, or a name within its JSON value that has a text, is called like a key; never show the value.

    `place` is how the user wrote the option: it is part of the message.
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
        if found not in _NO_SECRETS and _SECRET.search(re.sub(r"[^a-z0-9]", "", found.lower())):
            shown = place if found == name else f"{found!r} in {place}"
            raise InputError(
                f"{shown} looks like a key or password, which would be written into the run's files: "
                "set the provider's environment variable instead (`tiltmeter list models` names it)"
            )


def _parse_scalar(value: str) -> Any:
    """JSON where it is JSON (numbers, true, false, null, lists, objects), the text itself otherwise."""
    try:
        return json.loads(value, parse_constant=lambda name: name)  # NaN and Infinity are no JSON: they stay text
    except (ValueError, RecursionError):
        return value


def _parse_stop_texts(value: str) -> tuple[str, ...]:
    """One text, or a JSON text or list of texts (`"\\n"` and the like)."""
    found = _parse_scalar(value) if value[0] in '["' else value
    texts = [found] if isinstance(found, str) else found
    if not all(isinstance(text, str) and text for text in texts):
        raise InputError(f'-M stop={value}: give a text or a JSON list of texts such as ["\\n", "END"]')
    return tuple(texts)
