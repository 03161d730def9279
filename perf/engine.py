"""How much the engine with its journal costs beside a bare aiohttp loop and the `openai` SDK, against one local server.

    python perf/engine.py [--requests 15000] [--rounds 5] [--connections 256]

The server is a separate process that answers at once. The three clients take turns, so that a noisy machine is noisy for all
of them; ratios are medians over the rounds. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

from tiltmeter.engine import Limits, Request, agenerate, open_journal
from tiltmeter.models import Message, Sampling, create_model

ANSWER = "An answer of the usual length: some forty words, no more, so that neither reading nor writing it is what is measured here. " * 2
PROMPT = "Prompt {}: a question of the usual length, which names a person, a place and a choice, and asks for one of two answers."
fresh = count()


class Server(asyncio.Protocol):
    """Answers every POST with the same completion, as fast as Python can."""

    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}],
            "usage": {"prompt_tokens": 30, "completion_tokens": 50, "total_tokens": 80},
        }
    ).encode()
    response = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._received = transport, b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (head := self._received.find(b"\r\n\r\n")) >= 0:
            length = int(self._received[:head].lower().split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._received) < head + 4 + length:
                return
            self._received = self._received[head + 4 + length :]
            assert isinstance(self._transport, asyncio.WriteTransport)
            self._transport.write(self.response)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def in_turn(requests: int, connections: int, ask: Callable[[str], Awaitable[str | None]]) -> float:
    """Requests a second of `connections` coroutines that ask one after the other."""
    prompts = iter([PROMPT.format(next(fresh)) for _ in range(requests)])

    async def work() -> None:
        for prompt in prompts:
            assert await ask(prompt) == ANSWER

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(connections)))
    return requests / (time.perf_counter() - begun)


async def bare(url: str, requests: int, connections: int) -> float:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(prompt: str) -> str | None:
            body = {"model": "m", "messages": [{"role": "user", "content": prompt}], "temperature": 0.0}
            async with session.post(f"{url}/chat/completions", json=body) as response:
                text: str = (await response.json())["choices"][0]["message"]["content"]
                return text

        return await in_turn(requests, connections, ask)


async def sdk(url: str, requests: int, connections: int) -> float:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def ask(prompt: str) -> str | None:
            answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}], temperature=0.0)
            return answer.choices[0].message.content

        return await in_turn(requests, connections, ask)


async def engine(url: str, requests: int, connections: int) -> float:
    prompts = [Request((Message("user", PROMPT.format(next(fresh))),)) for _ in range(requests)]
    with tempfile.TemporaryDirectory() as folder, open_journal(Path(folder) / "journal.db") as journal:
        begun = time.perf_counter()
        model, limits = create_model("vllm/m", base_url=url), Limits(max_connections=connections)
        tally = await agenerate(model, prompts, Sampling(temperature=0.0), journal=journal, limits=limits)
        seconds = time.perf_counter() - begun
        assert tally.answered == journal.counts()["ok"] == requests
    return requests / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=15000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve())
        return
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        rates: dict[str, list[float]] = {"bare": [], "engine": [], "openai": []}
        for client in (bare, engine, sdk):  # imports and first connections are not what is measured
            asyncio.run(client(url, 500, given.connections))
        for _ in range(given.rounds):
            rates["bare"].append(asyncio.run(bare(url, given.requests, given.connections)))
            rates["engine"].append(asyncio.run(engine(url, given.requests, given.connections)))
            rates["openai"].append(asyncio.run(sdk(url, max(given.connections, given.requests // 10), given.connections)))
    finally:
        server.terminate()
        server.wait()
    result = {
        "connections": given.connections,
        "requests_per_second": {name: round(statistics.median(values)) for name, values in rates.items()},
        "engine_to_bare": round(statistics.median(e / b for e, b in zip(rates["engine"], rates["bare"], strict=True)), 3),
        "engine_to_openai": round(statistics.median(e / s for e, s in zip(rates["engine"], rates["openai"], strict=True)), 2),
        "rounds": {name: [round(value) for value in values] for name, values in rates.items()},
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
