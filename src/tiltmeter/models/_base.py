"""The `Model` protocol that every provider implements, and what models take and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from tiltmeter._arrays import Vectors

ALLOWED: Final = "allowed_answers"
"""Role of a message that lists the allowed answers, and the column of a design with its content."""


class Message(NamedTuple):
    """One turn of a conversation. `role` is "system", "user" or "assistant".

    Models that declare `patches` also accept "source" (a separate prompt) and "span" (the part of it whose
    hidden states replace the placeholders of the user turn). Models that declare `constrains` also accept
    ALLOWED (a JSON list of the allowed answers).
    """

    role: str
    content: str


def split_system(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """Return the text of the system messages ("" if there are none), and the other messages."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    return system, [message for message in messages if message.role != "system"]


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the text of the system messages put before the first user message.

    This is the form for models that accept no system message.
    """
    system, turns = split_system(messages)
    if not system.strip():
        return turns
    for position, turn in enumerate(turns):
        if turn.role == "user":
            turns[position] = Message("user", f"{system.strip()}\n\n{turn.content}")
            break
    return turns


@dataclass(frozen=True, slots=True)
class Sampling:
    """All parameters of a request that may change the answer, apart from its messages.

    None means that the parameter is not sent, so that the default of the endpoint applies. `seed` is sent as
    `seed + sample`, so that repetitions of one prompt differ. `extra` contains vendor extras (`top_k`,
    `reasoning_effort`, ...), which are sent unchanged.
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

    `text` is the answer without reasoning (None if there is none), and `thinking` is the separate reasoning:
    None if there is none, and empty if the endpoint counts the tokens of a reasoning that it does not show,
    and there is no answer. `refusal` is set if the endpoint itself reports a refusal of the model or its
    filter (a refusal field, a content filter), and None otherwise; refusals in the text are recognised later,
    by the measures. `served_model`, `served_fingerprint` and `served_provider` are what the endpoint says
    about who answered; None if it says nothing, as models in this process do.
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


SERVED: Final = ("served_model", "served_fingerprint", "served_provider")
"""Fields of a completion with what the endpoint says about who answered; also columns of the journal and of
responses."""
MOST_TOKENS: Final = 10_000_000
"""Maximum number of tokens that is credible for one request or answer: the size of the largest context
windows."""


def token_count(reported: Any) -> int | None:
    """Return a number of tokens that an endpoint reported.

    None if it is not a whole number from 0 to `MOST_TOKENS`.
    """
    if isinstance(reported, bool):
        return None
    try:
        number = index(reported)  # also the whole numbers of NumPy
    except TypeError:
        return None
    return number if 0 <= number <= MOST_TOKENS else None


class ModelError(Exception):
    """A request that failed.

    Parameters
    ----------
    kind
        A short stable identifier, which is counted in the progress and stored with the failure: "rate_limit",
        "overloaded", "server", "timeout", "connection", "proxy", "bad_response", "bad_request",
        "context_length", "auth", "not_found", ...
    detail
        One human-readable sentence without secrets, of at most a few hundred characters.
    scope
        "transient": retry; "permanent": this request can never be answered, but others may; "fatal": no
        request to this model can be answered (wrong key, wrong model), so a run stops early unless some
        request succeeded.
    retry_after
        Seconds that the endpoint asked to wait; None if it did not specify any.
    status
        The HTTP status, if any.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        scope: str = "transient",
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(kind, detail)  # the arguments for unpickling in another process
        self.kind = kind
        self.detail = detail
        self.scope = scope
        self.retry_after = retry_after
        self.status = status

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

    Contract: `complete` is called concurrently from one event loop, between `__aenter__` and `__aexit__`; it
    sends exactly one request (the engine retries), raises `ModelError` if there is no answer, and never
    includes a key in a message. The same object may be entered again after it was exited, in a new event
    loop.

    Optional attributes, absent from most models: `structured` (accepts a JSON schema as the vendor extra
    `response_format`), `unsupported` (names of vendor extras that a method may prescribe but the model
    rejects), `patches` (accepts the roles "source" and "span"), `constrains` (accepts the role ALLOWED: the
    text of an answer that was constrained to the list is `{"answer": ...}`, any other text counts as free),
    `recorded` (returns recorded answers, which cost nothing), `local` (answers in this process, in batches:
    the engine sends it the maximum number of requests at once, without a timeout).
    """

    @property
    def name(self) -> str:
        """The name `provider/model`, as the user wrote it."""
        ...

    @property
    def fingerprint(self) -> str:
        """The identity of the answers of this model in the journal: provider, model, base URL or dials.

        Never a key.
        """
        ...

    @property
    def endpoint(self) -> str:
        """Scheme and host of the endpoint, or the name of the model.

        All requests to one endpoint share one adaptive limit.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

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
        self.name = name
        self.fingerprint = fingerprint
        self.endpoint: str = endpoint or name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        return None


def request_parameters(sampling: Sampling, sample: int) -> dict[str, Any]:
    """Return the parameters of one request with the names used by OpenAI-compatible endpoints.

    Unset ones are omitted.
    """
    seed = None if sampling.seed is None else sampling.seed + sample
    parameters = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": seed,
        "stop": list(sampling.stop) or None,
    }
    return {name: value for name, value in parameters.items() if value is not None}
