"""The simulated model as an OpenAI-compatible HTTP server, for trying out clients without spending anything.

POST /v1/chat/completions (any model name), GET /v1/models, GET /health. The field `seed` is taken as the sample number;
without it, every repetition of a conversation gets the next one, so that repeated requests differ as they do elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from aiohttp import web

from tiltmeter.errors import InputError
from tiltmeter.models._base import Completion, Message, Sampling
from tiltmeter.models.sim._key import digest
from tiltmeter.models.sim._model import SimulatedModel

__all__ = ["running", "serve"]

_MAX_BODY = 16 * 2**20
_HEADERS = {"Content-Type": "application/json"}


class _BadRequestError(Exception):
    """The request cannot be answered; the message says why."""


def _text(content: Any) -> str:
    """Message content as text; content in parts is joined. Raises _BadRequestError for anything else."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in content):
        return "".join(part["text"] for part in content)
    raise _BadRequestError("messages: content must be a text, or a list of parts of type text")


def _messages(body: Any) -> list[Message]:
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
        raise _BadRequestError("messages: expected a list with at least one message")
    if body.get("stream"):
        raise _BadRequestError("stream: answers are given whole here; send stream false or leave it out")
    if body.get("n") not in (None, 1):
        raise _BadRequestError("n: one answer is given for each request; send it again for another one")
    found = []
    for message in body["messages"]:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise _BadRequestError("messages: each needs a role and a content")
        found.append(Message(message["role"], _text(message.get("content"))))
    return found


class _Server:
    """The handlers, and how often each conversation was asked."""

    def __init__(self, model: SimulatedModel) -> None:
        self._model = model
        self._asked: dict[bytes, int] = {}
        self._count = 0

    def _sample(self, messages: list[Message], seed: Any) -> int:
        if isinstance(seed, int) and not isinstance(seed, bool):
            return seed
        if seed is not None:
            raise _BadRequestError("seed: expected a whole number")
        conversation = digest("\0".join(f"{role}\0{content}" for role, content in messages))
        sample = self._asked.get(conversation, 0)
        self._asked[conversation] = sample + 1
        return sample

    async def chat(self, request: web.Request) -> web.Response:
        """POST /v1/chat/completions."""
        try:
            body = json.loads(await request.read())
            messages = _messages(body)
            sample = self._sample(messages, body.get("seed"))
        except (ValueError, RecursionError):
            return _refused("the body is not valid JSON")
        except _BadRequestError as error:
            return _refused(str(error))
        done = await self._model.complete(messages, Sampling(), sample)
        self._count += 1
        named = body.get("model")
        answer = _completion(done, self._count, named if isinstance(named, str) else self._model.name)
        return web.Response(body=json.dumps(answer).encode(), headers=_HEADERS)

    async def models(self, request: web.Request) -> web.Response:
        """GET /v1/models."""
        listed = {"object": "list", "data": [{"id": self._model.name, "object": "model", "created": 0, "owned_by": "tiltmeter"}]}
        return web.json_response(listed)

    async def health(self, request: web.Request) -> web.Response:
        """GET /health."""
        return web.json_response({"status": "ok", "model": self._model.name, "fingerprint": self._model.fingerprint})


def _completion(done: Completion, number: int, model: str) -> dict[str, Any]:
    given, made = done.input_tokens or 0, done.output_tokens or 0
    return {
        "id": f"chatcmpl-sim-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": done.text}, "finish_reason": done.finish_reason}],
        "usage": {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made},
    }


def _refused(why: str) -> web.Response:
    return web.json_response({"error": {"message": why, "type": "invalid_request_error"}}, status=400)


async def _run(model: SimulatedModel, host: str, port: int, ready: Callable[[str], None] | None, stop: asyncio.Event) -> None:
    server = _Server(model)
    app = web.Application(client_max_size=_MAX_BODY)
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/health", server.health)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise InputError(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --host or --port") from error
        at = runner.addresses[0]
        shown = f"[{at[0]}]" if ":" in at[0] else at[0]
        if ready is not None:
            ready(f"http://{shown}:{at[1]}/v1")
        await stop.wait()
    finally:
        await runner.cleanup()


def serve(model: SimulatedModel, host: str = "127.0.0.1", port: int = 0, ready: Callable[[str], None] | None = None) -> None:
    """Serve until interrupted (Ctrl-C or SIGTERM).

    Parameters
    ----------
    model
        What answers.
    host, port
        Where to listen: this machine only unless told otherwise; port 0 takes a free one.
    ready
        Called with the base URL (".../v1") once requests are accepted.

    Raises
    ------
    InputError
        The address cannot be listened on.
    """

    async def until_stopped() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError, ValueError, RuntimeError):  # signals of the main thread on POSIX only
            loop.add_signal_handler(signal.SIGTERM, stop.set)
            loop.add_signal_handler(signal.SIGINT, stop.set)
        await _run(model, host, port, ready, stop)

    with suppress(KeyboardInterrupt):
        asyncio.run(until_stopped())


@contextmanager
def running(model: SimulatedModel, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The base URL of a server in a thread of its own, which ends with the `with` block.

    Raises
    ------
    InputError
        The address cannot be listened on.
    """
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    started = threading.Event()
    urls: list[str] = []
    failures: list[BaseException] = []

    def ready(url: str) -> None:
        urls.append(url)
        started.set()

    def work() -> None:
        try:
            loop.run_until_complete(_run(model, host, port, ready, stop))
        except BaseException as error:  # handed to the thread that waits
            failures.append(error)
        finally:
            loop.close()
            started.set()

    thread = threading.Thread(target=work, name="tiltmeter-sim", daemon=True)
    thread.start()
    started.wait()
    if failures:
        thread.join()
        raise failures[0]
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
