"""The OpenAI-compatible server that clients are measured against, as fast as Python or with a given latency.

It answers one of three lettered options, chosen by the prompt alone, so that all clients with the same
prompts must read the same labels. It runs as a separate process: `python -m perf._server [SECONDS OF
LATENCY]` prints its port.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from perf._tools import ROOT

__all__ = ["LETTERS", "answer_of", "serving"]

LETTERS: Final = "abc"
_WORDS: Final = (
    "An answer of the usual length: some forty words, no more, so that neither reading nor writing it "
    "is what is measured here. "
) * 2


def answer_of(prompt: str) -> str:
    """Return the answer of the server to a prompt."""
    return f"({LETTERS[zlib.crc32(prompt.encode()) % 3]}) {_WORDS}"


def _response(answer: str) -> bytes:
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
            ],
            "usage": {"prompt_tokens": 30, "completion_tokens": 50, "total_tokens": 80},
        }
    ).encode()
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )


class Posts(asyncio.Protocol):
    """Pass the body of every POST to `answer`; requests of one connection come one after the other."""

    _transport: asyncio.WriteTransport
    _received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, received: bytes) -> None:
        self._received += received
        while (head := self._received.find(b"\r\n\r\n")) >= 0:
            length = int(self._received[:head].lower().split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._received) < head + 4 + length:
                return
            body = self._received[head + 4 : head + 4 + length]
            self._received = self._received[head + 4 + length :]
            self.answer(body)

    def answer(self, body: bytes) -> None:
        raise NotImplementedError


class _Server(Posts):
    """Answer every POST, immediately or after `latency` seconds."""

    responses = tuple(_response(f"({letter}) {_WORDS}") for letter in LETTERS)

    def __init__(self, latency: float) -> None:
        self._latency = latency

    def answer(self, body: bytes) -> None:
        response = self.responses[zlib.crc32(json.loads(body)["messages"][-1]["content"].encode()) % 3]
        if self._latency:
            asyncio.get_running_loop().call_later(self._latency, self._transport.write, response)
        else:
            self._transport.write(response)


async def _serve(latency: float) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: _Server(latency), "127.0.0.1", 0, backlog=4096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def serving(latency: float = 0.0) -> Iterator[str]:
    """Run a server for the time of the block; yield its URL (with /v1)."""
    command = [sys.executable, "-m", "perf._server", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.terminate()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0))
