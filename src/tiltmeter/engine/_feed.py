"""From an iterable of requests to those that have to be asked: what the journal lacks and nobody else is asking."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor
from itertools import islice
from time import monotonic
from typing import Final, NamedTuple, TypeVar

from tiltmeter.engine._journal import Journal, Row
from tiltmeter.engine._owner import Owner
from tiltmeter.engine._request import Keys, Request
from tiltmeter.engine._tally import Tally

__all__ = ["Feed", "Job"]

_Result = TypeVar("_Result")

LOOK_UP: Final = 1000
POLL: Final = 0.25
MOST_AWAITED: Final = 2000


class Job(NamedTuple):
    """A request this run has claimed and will ask."""

    key: bytes
    request: Request


class Feed:
    """Reads requests lazily; only those looked up, claimed or awaited stand in memory.

    Parameters
    ----------
    claim_size
        Requests claimed at a time. Small enough that a second process on the same journal finds work, too.

    `ahead` may be set: how many requests to have looked up beyond those that are claimed; it gets there by one look-up for each claim.
    """

    def __init__(
        self, requests: Iterable[Request], keys: Keys, journal: Journal, executor: Executor, owner: Owner, claim_size: int, tally: Tally
    ) -> None:
        self._requests = iter(requests)
        self._keys, self._journal, self._executor = keys, journal, executor
        self._owner, self.claim_size, self._tally = owner, claim_size, tally
        self.ahead = 0
        self._exhausted = False
        self._lacking: OrderedDict[bytes, Request] = OrderedDict()
        self._awaited: dict[bytes, Request] = {}
        self._polled = 0.0
        self._open: set[bytes] = set()
        self._failed: set[bytes] = set()

    @property
    def left(self) -> int | None:
        """Requests that have yet to be claimed; None while there may be more than have been looked up."""
        return len(self._lacking) if self._exhausted else None

    def finished(self, rows: list[Row]) -> None:
        """The journal has committed `rows`."""
        self._open.difference_update([row.key for row in rows])
        self._failed.update([row.key for row in rows if row.status == "failed"])

    async def batches(self) -> AsyncIterator[list[Job]]:
        """Jobs to ask, in the order of the requests, at most `claim_size` at a time; ends when nothing is left to ask or to await."""
        while not self._exhausted or self._lacking or self._awaited:
            if len(self._lacking) <= self.ahead and not self._exhausted and len(self._awaited) < MOST_AWAITED:
                self._exhausted = not await self._look_up()
            if self._lacking:
                chunk = [Job(*self._lacking.popitem(last=False)) for _ in range(min(self.claim_size, len(self._lacking)))]
                yield await self._claim(chunk)
            if self._awaited:
                idle = self._exhausted or len(self._awaited) >= MOST_AWAITED
                if idle and not self._lacking:
                    await asyncio.sleep(max(0.0, self._polled + POLL - monotonic()))
                if monotonic() - self._polled >= POLL:
                    self._polled = monotonic()
                    yield await self._claim([Job(key, request) for key, request in self._awaited.items()])

    async def _look_up(self) -> bool:
        """Read and look up the next requests; False when there are no more."""
        fresh: dict[bytes, Request] = {}
        read = 0
        for request in islice(self._requests, LOOK_UP):
            read += 1
            key = self._keys(request.messages, request.sample)
            if key in fresh or key in self._lacking or key in self._open or key in self._failed or key in self._awaited:
                self._tally.repeated += 1
            else:
                fresh[key] = request
        self._tally.total += read
        if fresh:
            held = await self._call(self._journal.held, list(fresh))
            self._tally.held += len(held)
            self._lacking.update((key, request) for key, request in fresh.items() if key not in held)
        return read > 0

    async def _claim(self, jobs: list[Job]) -> list[Job]:
        taken = await self._call(lambda keys: self._journal.claim(keys, self._owner), [job.key for job in jobs])
        self._tally.held += len(taken.held)
        for job in jobs:
            if job.key in taken.others:
                self._awaited[job.key] = job.request
            else:
                self._awaited.pop(job.key, None)
        self._open |= taken.mine
        return [job for job in jobs if job.key in taken.mine]

    async def _call(self, function: Callable[[list[bytes]], _Result], keys: list[bytes]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, keys)
