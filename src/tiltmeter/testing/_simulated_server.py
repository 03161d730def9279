"""OpenAI-compatible server for the simulated model (`tiltmeter sim serve`) for tests of clients."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from tiltmeter._files.records import Filled
from tiltmeter._files.yaml import error_sentence
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.models import Message
from tiltmeter.models.sim import SimulatedModel
from tiltmeter.runs import resolve
from tiltmeter.study import NotRun

_MAX_BODY = 16 * 2**20


def learn_study(model: SimulatedModel, study: str, **params: str) -> list[str]:
    """Plant biased answers to all prompts of a study.

    Return one message for each part whose prompts are unavailable.
    """
    library = Library.default()
    resolved = resolve(study, settings={"params": params})
    problems = []
    for part in resolved.study.parts:
        try:
            design = part.design(library, resolved.settings.of_part(part.name))
            plans = part.simulate(design, model.dials.mapping())
        except NotRun as reason:
            problems.append(
                f"{part.name}: answers are unbiased, because its prompts are unavailable ({reason})"
            )
            continue
        if plans is not None:
            model.learn(plans)
    return problems


class ChatMessage(BaseModel):
    """One turn of the conversation."""

    role: str
    content: str


class ChatRequest(BaseModel):
    """The supported fields of a request; streaming and several choices are not supported."""

    messages: Filled[list[ChatMessage]]
    model: str | None = None
    seed: Annotated[int | None, Field(strict=True)] = None
    stream: Literal[False, None] = None
    n: Literal[1, None] = None


class SimulatedServer(ThreadingHTTPServer):
    """An HTTP server for a simulated model.

    It has POST /v1/chat/completions (for any model name) and GET /v1/models. The field `seed` of a request is
    its sample number. Without it, repeated requests for a conversation are numbered consecutively, so that
    they receive different answers.

    Raises
    ------
    InputError
        The server cannot listen on the address.
    """

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, model: SimulatedModel, host: str = "127.0.0.1", port: int = 0) -> None:
        self.model = model
        self._samples: Counter[str] = Counter()
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise InputError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --host or --port"
            ) from error

    @property
    def url(self) -> str:
        """Base URL, ending in /v1."""
        return f"http://{self.server_address[0]!s}:{self.server_port}/v1"

    def answer(self, body: bytes) -> dict[str, Any]:
        """Return the response body for a request; raises InputError if the request is invalid."""
        try:
            request = ChatRequest.model_validate_json(body)
        except ValidationError as error:
            raise InputError(error_sentence(error, ChatRequest).strip()) from None
        messages = [Message(message.role, message.content) for message in request.messages]
        sample = self._next_sample(messages) if request.seed is None else request.seed
        time.sleep(self.model.latency)
        completion = self.model.reply(messages, sample)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": completion.text},
            "finish_reason": completion.finish_reason,
        }
        input_tokens = completion.input_tokens or 0
        output_tokens = completion.output_tokens or 0
        usage = {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        }
        return {
            "id": "chatcmpl-sim",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": request.model or self.model.name,
            "choices": [choice],
            "usage": usage,
        }

    def _next_sample(self, messages: Sequence[Message]) -> int:
        """Return the number of requests for this conversation before this one."""
        conversation = json.dumps(messages)
        sample = self._samples[conversation]
        self._samples[conversation] += 1
        return sample


class _Handler(BaseHTTPRequestHandler):
    server: SimulatedServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Handle GET requests: return the list of models."""
        if self.path != "/v1/models":
            self._refuse(404, f"unknown path {self.path}")
            return
        entry = {"id": self.server.model.name, "object": "model", "created": 0, "owned_by": "tiltmeter"}
        self._send(200, {"object": "list", "data": [entry]})

    def do_POST(self) -> None:
        """Handle POST requests: return a chat completion."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MAX_BODY:
            self.close_connection = True
            self._refuse(413, f"the body has more than {_MAX_BODY:,} bytes")
            return
        body = self.rfile.read(length)
        if self.path != "/v1/chat/completions":
            self._refuse(404, f"unknown path {self.path}")
            return
        try:
            self._send(200, self.server.answer(body))
        except InputError as error:
            self._refuse(400, f"cannot answer this request: {error}")

    def _refuse(self, status: int, message: str) -> None:
        self._send(status, {"error": {"message": message, "type": "invalid_request_error"}})

    def _send(self, status: int, answer: Mapping[str, Any]) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Discard the log of requests."""
