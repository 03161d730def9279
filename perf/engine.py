"""The cost of the engine with its journal, compared with a bare aiohttp loop and the `openai` SDK.

    python -m perf.engine [--requests 15000] [--rounds 5] [--connections 256]

The local server is a separate process that answers immediately. The three clients take turns, so that a noisy
machine affects all of them; ratios are medians over the rounds.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

from perf._server import answer_of, serving
from perf._tools import options, table, tell
from tiltmeter.engine import Display, Limits, Prices, Request, open_journal
from tiltmeter.engine._generation import Generation
from tiltmeter.models import Message, Sampling, create_model

PROMPT = (
    "Prompt {}: a question of the usual length, which names a person, a place and a choice, and asks for "
    "one of two answers."
)
fresh = count()


async def in_turn(requests: int, connections: int, ask: Callable[[str], Awaitable[str | None]]) -> float:
    """Return the requests per second of `connections` coroutines, each with one request at a time."""
    prompts = iter([PROMPT.format(next(fresh)) for _ in range(requests)])

    async def work() -> None:
        for prompt in prompts:
            assert await ask(prompt) == answer_of(prompt)

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
            answer = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": prompt}], temperature=0.0
            )
            return answer.choices[0].message.content

        return await in_turn(requests, connections, ask)


async def engine(url: str, requests: int, connections: int) -> float:
    prompts = [Request((Message("user", PROMPT.format(next(fresh))),)) for _ in range(requests)]
    with tempfile.TemporaryDirectory() as folder, open_journal(Path(folder) / "journal.db") as journal:
        begun = time.perf_counter()
        model, limits = create_model("vllm/m", base_url=url), Limits(max_connections=connections)
        tally = await Generation(
            model, prompts, Sampling(temperature=0.0), journal, limits, Display(), Prices.load()
        ).go()
        seconds = time.perf_counter() - begun
        assert tally.answered == journal.counts()["ok"] == requests
    return requests / seconds


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--requests", type=int, default=15000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=256)
    arguments = parser.parse_args()
    requests, rounds = (500, 1) if arguments.quick else (arguments.requests, arguments.rounds)
    rates: dict[str, list[float]] = {"bare": [], "engine": [], "openai": []}
    with serving() as url:
        for client in (bare, engine, sdk):  # imports and first connections are not measured
            asyncio.run(client(url, 500, arguments.connections))
        for _ in range(rounds):
            rates["bare"].append(asyncio.run(bare(url, requests, arguments.connections)))
            rates["engine"].append(asyncio.run(engine(url, requests, arguments.connections)))
            rates["openai"].append(
                asyncio.run(sdk(url, max(arguments.connections, requests // 10), arguments.connections))
            )
    names = {
        "bare": "a bare aiohttp loop without storage",
        "engine": "the engine with its journal",
        "openai": "a loop with the openai SDK without storage",
    }
    rows = [
        {
            "client": names[name],
            "requests/s": statistics.median(values),
            "least": min(values),
            "most": max(values),
            "speedup of the engine": statistics.median(
                e / v for e, v in zip(rates["engine"], values, strict=True)
            ),
        }
        for name, values in rates.items()
    ]
    tell(
        [
            table(
                "Requests per second",
                rows,
                (
                    f"{arguments.connections} connections, {rounds} rounds; ratios are medians of the "
                    f"ratios within rounds."
                ),
            )
        ]
    )


if __name__ == "__main__":
    main()
