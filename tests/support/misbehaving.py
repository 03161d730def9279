"""A real HTTP server that answers like an OpenAI-compatible or Anthropic endpoint, or misbehaves.

A script decides on each answer, and the server counts requests and paid answers:

    def script(request, nth):
        # request: the JSON body; nth: 1 for the first time this prompt is asked
        return rate_limited(0.1) if nth == 1 else "Yes."

    with MisbehavingServer(script) as server:
        create_model("compatible/m", base_url=server.url)   # http://127.0.0.1:PORT/v1
    assert server.paid == {"the prompt": 1}

`delivered` is called in the server's thread with the body and the prompt of each usable answer that was
completely handed to the socket, for a ledger elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from support.threaded_server import ThreadedServer


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the server does with one request.

    With `body` None it answers 200 in the asked dialect, built from the other fields.
    """

    text: str | list[Any] | None = "ok"
    finish_reason: str = "stop"
    refusal: str | None = None
    reasoning: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    delay: float = 0.0
    """Seconds before anything is sent."""
    cut: float | None = None
    """Share of the body after which the socket is reset; 0 resets before a single byte."""

    @property
    def usable(self) -> bool:
        """Whether, once delivered, this is an answer that was paid for."""
        return self.status == 200 and self.body is None and self.cut is None and bool(self.text)


Script = Callable[[dict[str, Any], int], "Behaviour | str"]


def answer(text: str, **more: Any) -> Behaviour:
    """A complete answer, with any other field of Behaviour."""
    return Behaviour(text=text, **more)


def status(
    code: int, headers: Mapping[str, str] | None = None, body: bytes | str | Mapping[str, Any] = b""
) -> Behaviour:
    raw = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return Behaviour(status=code, headers=headers or {}, body=raw)


def _error(
    code: int,
    message: str,
    kind: str,
    name: str | None,
    headers: Mapping[str, str] | None = None,
    param: str | None = None,
) -> Behaviour:
    return status(code, headers, {"error": {"message": message, "type": kind, "code": name, "param": param}})


def rate_limited(retry_after: float | str | None = None) -> Behaviour:
    """429, with a Retry-After header (seconds or an HTTP date) when given."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return _error(429, "Rate limit reached, slow down.", "rate_limit_error", "rate_limit_exceeded", headers)


def insufficient_quota() -> Behaviour:
    """429 because no credit is left: waiting does not help."""
    return _error(
        429, "You exceeded your current quota, check your plan.", "insufficient_quota", "insufficient_quota"
    )


def server_error(code: int = 500) -> Behaviour:
    return _error(code, "The server had an error.", "server_error", None)


def reset(cut: float = 0.0) -> Behaviour:
    """Reset the connection: without any answer (0), or after this share of a proper body."""
    return Behaviour(cut=cut)


def hang(seconds: float = 3600.0) -> Behaviour:
    """Send nothing for `seconds`, then reset the connection."""
    return Behaviour(delay=seconds, cut=0.0)


def slow(seconds: float, text: str = "ok") -> Behaviour:
    return Behaviour(text=text, delay=seconds)


def truncated_json() -> Behaviour:
    """200 with a body that ends in the middle of the JSON, at HTTP level complete."""
    return Behaviour(
        body=b'{"choices": [{"index": 0, "finish_reason": "stop", '
        b'"message": {"role": "assistant", "content": "half an ans'
    )


def invalid_json() -> Behaviour:
    return Behaviour(body=b"upstream said: nothing useful")


def empty_choices() -> Behaviour:
    """200 with no choice (OpenAI) and no content list (Anthropic)."""
    return status(200, None, {"id": "x", "object": "chat.completion", "choices": [], "usage": None})


def null_content(finish_reason: str = "stop") -> Behaviour:
    return Behaviour(text=None, finish_reason=finish_reason)


def content_filter(text: str | None = None) -> Behaviour:
    """200 with finish_reason content_filter (Anthropic: stop_reason refusal)."""
    return Behaviour(text=text, finish_reason="content_filter")


def filtered_request() -> Behaviour:
    """400 with code content_filter, as Azure says that the prompt itself was filtered."""
    message = "The response was filtered due to the prompt triggering a content policy."
    return _error(400, message, "invalid_request_error", "content_filter")


def refusal(words: str = "I can't help with that.") -> Behaviour:
    return Behaviour(text=None, refusal=words)


def html_error_page(code: int = 502) -> Behaviour:
    """A proxy's HTML page with this status (200 too)."""
    head = f"<head><title>{code} Bad Gateway</title></head>"
    page = f"<html>{head}<body><h1>Oops</h1>{'<p>lorem</p>' * 200}</body></html>"
    return Behaviour(status=code, body=page.encode(), content_type="text/html; charset=utf-8")


def huge_body(megabytes: float = 4.0) -> Behaviour:
    return Behaviour(body=b"<p>lorem ipsum</p>\n" * int(megabytes * 2**20 / 19), content_type="text/html")


def wrong_content_type(text: str = "ok") -> Behaviour:
    return Behaviour(text=text, content_type="text/plain")


def wrong_charset(
    text: str = "Zoë drank a café crème", declared: str = "ascii", *, undecodable: bool = False
) -> Behaviour:
    """Proper JSON in UTF-8 that is declared as something else.

    Or, undecodable, with bytes that are not UTF-8 at all.
    """
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    raw = json.dumps({"choices": [choice]}, ensure_ascii=False).encode()
    if undecodable:
        raw = raw.replace(text.encode(), b"Zo\xff\xfe")
    return Behaviour(body=raw, content_type=f"application/json; charset={declared}")


def wrong_key(echo: str = "sk-***") -> Behaviour:
    """401; `echo` is the part of the key in the answer, to test that it is masked."""
    return _error(401, f"Incorrect API key provided: {echo}.", "invalid_request_error", "invalid_api_key")


def unknown_model(name: str = "m") -> Behaviour:
    return _error(404, f"The model `{name}` does not exist.", "invalid_request_error", "model_not_found")


def context_too_long() -> Behaviour:
    return _error(
        400,
        "This model's maximum context length is 8 tokens.",
        "invalid_request_error",
        "context_length_exceeded",
    )


def unsupported(parameter: str, instead: str | None = None) -> Behaviour:
    """400 that names a parameter the model does not take."""
    hint = f" Use '{instead}' instead." if instead else ""
    message = f"Unsupported parameter: '{parameter}' is not supported with this model.{hint}"
    return _error(400, message, "invalid_request_error", "unsupported_parameter", param=parameter)


def length(text: str = "an answer that was cut") -> Behaviour:
    return Behaviour(text=text, finish_reason="length")


def think(thinking: str, text: str) -> Behaviour:
    """Thinking inside the content, between <think> and </think>."""
    return Behaviour(text=f"<think>\n{thinking}\n</think>\n\n{text}")


def reasoning(thinking: str, text: str) -> Behaviour:
    """Thinking beside the content: reasoning_content (OpenAI-compatible), a thinking block (Anthropic)."""
    return Behaviour(text=text, reasoning=thinking)


def prompt_of(request: Mapping[str, Any]) -> str:
    """The text of the last user message, by which the ledger counts."""
    for message in reversed(request.get("messages", ())):
        if message.get("role") == "user":
            content = message["content"]
            return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return ""


class MisbehavingServer(ThreadedServer):
    """A server that answers by a script; see the docstring of the module.

    Everything in the ledger may be read at any time, also after the server stopped.
    """

    method = "POST"

    def __init__(
        self,
        script: Script | None = None,
        *,
        port: int = 0,
        delivered: Callable[[Mapping[str, Any], str], None] | None = None,
    ) -> None:
        super().__init__(port)
        self._script: Script = script or (lambda request, nth: "ok")
        self._delivered = delivered or (lambda body, prompt: None)
        self._asked: Counter[str] = Counter()
        self._paid: Counter[str] = Counter()
        self.requests = 0
        """How many requests came in."""
        self.headers: deque[dict[str, str]] = deque(maxlen=1000)
        """Headers of the latest requests, names in lower case."""
        self.bodies: deque[dict[str, Any]] = deque(maxlen=1000)
        """Bodies of the latest requests."""
        self.paths: deque[str] = deque(maxlen=1000)
        """Paths of the latest requests."""

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT/v1`, the base URL for OpenAI-compatible clients."""
        return f"{self.root}/v1"

    @property
    def asked(self) -> Counter[str]:
        """How often each prompt came in."""
        with self._lock:
            return self._asked.copy()

    @property
    def paid(self) -> Counter[str]:
        """How many usable answers to each prompt were completely handed to the socket."""
        with self._lock:
            return self._paid.copy()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        prompt = prompt_of(body)
        with self._lock:
            self.requests += 1
            self._asked[prompt] += 1
            nth = self._asked[prompt]
            self.headers.append({name.lower(): value for name, value in request.headers.items()})
            self.bodies.append(body)
            self.paths.append(request.path)
        answer = self._script(body, nth)
        behaviour = Behaviour(text=answer) if isinstance(answer, str) else answer
        if behaviour.delay:
            await self.sleep(behaviour.delay)
        raw = behaviour.body
        if raw is None:
            shape = _anthropic if request.path.endswith("/messages") else _openai
            raw = json.dumps(shape(behaviour, body, prompt)).encode()
        headers = {"Content-Type": behaviour.content_type, **behaviour.headers}
        if behaviour.cut is not None:
            return await _cut(request, headers, raw, behaviour.cut)
        response = web.Response(status=behaviour.status, headers=headers, body=raw)
        await response.prepare(request)
        await response.write_eof()
        if behaviour.usable and request.transport is not None and not request.transport.is_closing():
            with self._lock:
                self._paid[prompt] += 1
            self._delivered(body, prompt)
        return response


async def _cut(
    request: web.Request, headers: Mapping[str, str], raw: bytes, share: float
) -> web.StreamResponse:
    response = web.StreamResponse(headers={**headers, "Content-Length": str(len(raw))})
    transport = request.transport
    if transport is None:
        return response
    if share > 0:
        await response.prepare(request)
        await response.write(raw[: max(1, int(len(raw) * share))])
        await asyncio.sleep(0.02)  # the client sees the beginning before the reset
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with RST
    transport.abort()
    return response


def _openai(behaviour: Behaviour, body: Mapping[str, Any], prompt: str) -> dict[str, Any]:
    fields = {"refusal": behaviour.refusal, "reasoning_content": behaviour.reasoning}
    message = {"role": "assistant", "content": behaviour.text} | {
        key: text for key, text in fields.items() if text is not None
    }
    text = behaviour.text or ""
    words = len(text.split() if isinstance(text, str) else text)
    usage = {
        "prompt_tokens": len(prompt.split()),
        "completion_tokens": max(1, words),
    }  # an empty answer is one token, which ends it
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model"),
        "choices": [
            {"index": 0, "finish_reason": behaviour.finish_reason, "message": message, "logprobs": None}
        ],
        "usage": {**usage, "total_tokens": sum(usage.values())},
    }


_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic(behaviour: Behaviour, body: Mapping[str, Any], prompt: str) -> dict[str, Any]:
    refused = behaviour.refusal is not None
    behaviour = (
        replace(behaviour, finish_reason="content_filter", text=behaviour.text or behaviour.refusal)
        if refused
        else behaviour
    )
    content: list[dict[str, Any]] = []
    if behaviour.reasoning is not None:
        content.append({"type": "thinking", "thinking": behaviour.reasoning, "signature": "s"})
    if isinstance(behaviour.text, str):
        content.append({"type": "text", "text": behaviour.text})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": content,
        "stop_reason": _STOP_REASONS.get(behaviour.finish_reason, behaviour.finish_reason),
        "stop_sequence": None,
        "usage": {"input_tokens": len(prompt.split()), "output_tokens": 3},
    }
