"""How one text comes from one model: the protocol every provider fulfils, and what may go wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

__all__ = ["Completion", "Message", "Model", "ModelError", "Sampling"]


class Message(NamedTuple):
    """One turn of a conversation. `role` is "system", "user" or "assistant".

    Models that declare `patches` also take "source" (a prompt of its own) and "span" (the part of it whose hidden states replace
    the placeholders of the user turn).
    """

    role: str
    content: str


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
    `refusal` is the endpoint's own word that the model or its filter declined (a refusal field, a content filter),
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
        if scope not in ("transient", "permanent", "fatal"):
            raise ValueError(f"scope must be transient, permanent or fatal, not {scope!r}")
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail, self.scope, self.retry_after, self.status = kind, detail, scope, retry_after, status


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
