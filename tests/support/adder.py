"""A model that adds, and sums to ask it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from tiltmeter.engine import Display, Journal, Limits, Prices, Request
from tiltmeter.engine._generation import Generation
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling

Script = Callable[[str, int], Completion | ModelError]


def add(prompt: str, _nth: int = 1) -> Completion:
    first, _, second = prompt.partition("+")
    text = str(int(first) + int(second))
    return Completion(text, "stop", input_tokens=len(prompt), output_tokens=len(text), latency=0.001)


class InProcess:
    """A model of this process; entering it does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Adder(InProcess):
    """Answers "2+3" with "5", after `delay` seconds.

    `script` may say otherwise for a prompt and the how-manieth time it is asked.
    """

    name = "sim/adder"
    fingerprint = "sim/adder@test"

    def __init__(self, script: Script = add, *, delay: float = 0.0, endpoint: str = "sim/adder") -> None:
        self._script = script
        self._delay = delay
        self.endpoint = endpoint
        self.asked: Counter[str] = Counter()
        self.now = self.most = 0

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        prompt = messages[-1].content
        self.asked[prompt] += 1
        nth = self.asked[prompt]
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self._delay)
        finally:
            self.now -= 1
        outcome = self._script(prompt, nth)
        if isinstance(outcome, ModelError):
            raise outcome
        return outcome


def sums(count: int, start: int = 0) -> list[Request]:
    return [Request((Message("user", f"{number}+1"),)) for number in range(start, start + count)]


def run_of(
    model: Model,
    requests: Iterable[Request],
    journal: Journal,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Generation:
    """A run that tests can inspect or end while it goes on."""
    return Generation(model, requests, Sampling(temperature=0.0), journal, limits, Display(), Prices.load())
