"""How fast one endpoint is asked: an adaptive bound on concurrency, a shared pause, and rate caps.

Additive increase, multiplicative decrease, as TCP does it: the bound starts low and doubles every round trip until the
endpoint first says "too much" (429, 503, 529); then it halves and grows by one a round trip. Only a request that was sent
*after* the last cut may cut again: one burst of refusals is one piece of news. A pause holds for every request to the endpoint.
Rejected: latency as a signal (answers of very different length look like congestion); a fixed cool-down between cuts (its
right length depends on the endpoint's latency).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from tiltmeter.engine._limits import Limits
from tiltmeter.models import Message, ModelError

__all__ = ["Pace", "is_overload", "pace_of"]

START: Final = 8
LONGEST_PAUSE: Final = 30.0
_OVERLOAD_KINDS: Final = frozenset({"rate_limit", "overloaded"})
_OVERLOAD_STATUS: Final = frozenset({429, 503, 529})


def is_overload(error: ModelError) -> bool:
    """Whether the endpoint said that it is asked too much, rather than that something broke."""
    return error.scope == "transient" and (error.status in _OVERLOAD_STATUS or error.kind in _OVERLOAD_KINDS)


class _Rate:
    """Evenly spaced use of a budget per minute: each use reserves the next free moment."""

    def __init__(self, per_minute: float) -> None:
        self._seconds_each = 60.0 / per_minute
        self._free_at = 0.0

    def reserve(self, amount: float, now: float) -> float:
        """The moment from which `amount` may be used."""
        moment = max(self._free_at, now)
        self._free_at = moment + amount * self._seconds_each
        return moment

    def correct(self, surplus: float) -> None:
        """Account for `surplus` more (or, negative, fewer) than was reserved."""
        self._free_at += surplus * self._seconds_each


class Pace:
    """The gate all requests to one endpoint pass; lives in one event loop.

    `enter` before a request, `leave` after it, and one of `succeeded`, `overloaded` as its outcome tells.
    A `local` model (of this process) gets all requests it may have from the start: it answers them in batches.
    """

    def __init__(self, limits: Limits, *, local: bool = False) -> None:
        self._ceiling = limits.max_connections
        self._width = float(self._ceiling if local else min(START, self._ceiling))
        self._slow_start = True
        self._cut_at = 0.0
        self._cuts_in_a_row = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._requests = _Rate(limits.requests_per_minute) if limits.requests_per_minute else None
        self._tokens = _Rate(limits.tokens_per_minute) if limits.tokens_per_minute else None
        self._mean_output = 256.0
        self.in_flight = 0
        self.paused_until = 0.0

    @property
    def width(self) -> int:
        """Requests that may be in flight now."""
        return int(self._width)

    def estimate(self, messages: Sequence[Message], max_tokens: int | None) -> float:
        """Tokens a request will probably use (0 without a token cap): a quarter of its characters and an answer of usual length."""
        if self._tokens is None:
            return 0.0
        output = self._mean_output if max_tokens is None else min(self._mean_output, max_tokens)
        return sum(len(message.content) for message in messages) / 4 + output

    async def enter(self, tokens: float) -> None:
        """Wait until one more request may be sent, then count it as in flight."""
        if self._requests is not None or self._tokens is not None:
            await self._wait_for_rate(tokens)
        while True:
            wait = self.paused_until - monotonic() if self.paused_until else 0.0
            if wait > 0:
                await asyncio.sleep(wait)
            elif self.in_flight < int(self._width):
                self.in_flight += 1
                return
            else:
                await self._wait_for_slot()

    def leave(self) -> None:
        """The request is over, however it ended."""
        self.in_flight -= 1
        if self._waiting:
            self._wake()

    def succeeded(self, reserved: float, input_tokens: int | None, output_tokens: int | None) -> None:
        """An answer came: widen, and correct the token budget by what it really used."""
        self._cuts_in_a_row = 0
        if self._width < self._ceiling:
            self._width = min(self._width + (1.0 if self._slow_start else 1.0 / self._width), float(self._ceiling))
            if self._waiting:
                self._wake()
        if self._tokens is not None and output_tokens is not None:
            self._mean_output += 0.05 * (output_tokens - self._mean_output)
            self._tokens.correct((input_tokens or 0) + output_tokens - reserved)

    def overloaded(self, sent_at: float, retry_after: float | None) -> None:
        """The endpoint refused a request sent at `sent_at` (monotonic) as too much: halve once per burst, pause everybody."""
        now = monotonic()
        if sent_at > self._cut_at:
            self._slow_start = False
            self._width = max(1.0, self._width / 2)
            self._cut_at = now
            self._cuts_in_a_row += 1
            if retry_after is None:
                retry_after = random.uniform(0.5, 1.0) * min(LONGEST_PAUSE, 0.5 * 2 ** min(self._cuts_in_a_row, 10))
        if retry_after is not None:
            self.paused_until = max(self.paused_until, now + retry_after)

    async def _wait_for_rate(self, tokens: float) -> None:
        now = monotonic()
        moment = now
        if self._requests is not None:
            moment = self._requests.reserve(1.0, now)
        if self._tokens is not None:
            moment = max(moment, self._tokens.reserve(tokens, now))
        if moment > now:
            await asyncio.sleep(moment - now)

    async def _wait_for_slot(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._waiting.remove(turn)
            if turn.done() and not turn.cancelled():
                self._wake()  # the turn was given to us just now: pass it on
            raise

    def _wake(self) -> None:
        free = int(self._width) - self.in_flight
        while free > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1


_PACES: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[tuple[str, Limits], Pace]] = WeakKeyDictionary()


def pace_of(endpoint: str, limits: Limits, *, local: bool = False) -> Pace:
    """The pace of an endpoint in the running event loop: shared by everything that asks it under the same limits at the same time."""
    paces = _PACES.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    pace = paces.get((endpoint, limits))
    if pace is None:
        pace = paces[endpoint, limits] = Pace(limits, local=local)
    return pace
