"""The two ends of a run at the journal: the queue of claimed requests, and the writer of finished rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor
from itertools import islice
from time import monotonic
from typing import Final, NamedTuple, TypeVar

from tiltmeter.engine._journal import Journal, Owner, Row
from tiltmeter.engine._progress import Tally
from tiltmeter.engine._requests import Keys, Request

_Result = TypeVar("_Result")

LOOK_UP: Final = 1000
"""Requests per look-up."""
POLL: Final = 0.25
"""Seconds between checks of requests that another process is sending."""
MOST_AWAITED: Final = 2000
"""Number of requests of other processes that a run waits for; it then reads no further ones."""
COMMIT_INTERVAL: Final = 0.25
"""Seconds between commits."""
HEARTBEAT: Final = 10.0
"""Seconds between heartbeats of a run."""


class ClaimedRequest(NamedTuple):
    """A request that this run has claimed and will send."""

    key: bytes
    request: Request


class WorkQueue:
    """Requests that are not in the journal and not being sent by another process.

    The requests are read lazily: only those looked up, claimed or awaited are in memory.

    Parameters
    ----------
    requests
        All requests of the run.
    keys
        Computes the keys of the requests.
    journal
        Where the requests are looked up and claimed.
    executor
        The thread that owns the journal.
    owner
        Who claims the requests.
    claim_size
        Number of requests claimed at a time; small enough to leave work for a second process on the same
        journal.
    tally
        The counts of the run.
    """

    def __init__(
        self,
        requests: Iterable[Request],
        keys: Keys,
        journal: Journal,
        executor: Executor,
        owner: Owner,
        claim_size: int,
        tally: Tally,
    ) -> None:
        self._requests = iter(requests)
        self._keys = keys
        self._journal = journal
        self._executor = executor
        self._owner = owner
        self.claim_size = claim_size
        self._tally = tally
        self._exhausted = False
        self._unclaimed: list[ClaimedRequest] = []
        """Looked up, and not yet claimed."""
        self._awaited: dict[bytes, ClaimedRequest] = {}
        """Being sent by another process."""
        self._polled = 0.0
        self._pending: set[bytes] = set()
        """Keys of requests that were looked up and have no answer yet, or have failed."""

    def finished(self, rows: list[Row]) -> None:
        """Note that the journal has committed `rows`."""
        self._pending.difference_update([row.key for row in rows if row.status == "ok"])

    async def batches(self) -> AsyncIterator[list[ClaimedRequest]]:
        """Yield the requests to send in order, at most `claim_size` at a time.

        It ends when no request remains to be sent or awaited.
        """
        while not self._exhausted or self._unclaimed or self._awaited:
            idle = self._exhausted or len(self._awaited) >= MOST_AWAITED
            if not self._unclaimed and not idle:
                await self._look_up()
            if self._unclaimed:
                chunk = self._unclaimed[: self.claim_size]
                self._unclaimed = self._unclaimed[self.claim_size :]
                yield await self._claim(chunk)
            if self._awaited:
                if idle and not self._unclaimed:
                    await asyncio.sleep(max(0.0, self._polled + POLL - monotonic()))
                if monotonic() - self._polled >= POLL:
                    self._polled = monotonic()
                    yield await self._claim([*self._awaited.values()])

    async def _look_up(self) -> None:
        """Read and look up the next requests."""
        fresh: dict[bytes, Request] = {}
        read = 0
        for request in islice(self._requests, LOOK_UP):
            read += 1
            key = self._keys(request.messages, request.sample)
            if key in fresh or key in self._pending:
                self._tally.repeated += 1
            else:
                fresh[key] = request
        self._tally.total += read
        self._exhausted = read == 0
        if fresh:
            answered = await in_thread(self._executor, self._journal.held, list(fresh))
            self._tally.held += len(answered)
            self._unclaimed = [
                ClaimedRequest(key, request) for key, request in fresh.items() if key not in answered
            ]
            self._pending.update(unclaimed.key for unclaimed in self._unclaimed)

    async def _claim(self, wanted: list[ClaimedRequest]) -> list[ClaimedRequest]:
        """Claim these requests; return those to send, and await those that another process is sending."""
        keys = [request.key for request in wanted]
        claim = await in_thread(self._executor, self._journal.claim, keys, self._owner)
        self._tally.held += len(claim.answered)
        self._pending -= claim.answered
        for request in wanted:
            if request.key in claim.awaited:
                self._awaited[request.key] = request
            else:
                self._awaited.pop(request.key, None)
        return [request for request in wanted if request.key in claim.claimed]


class Writer:
    """Collects rows and commits them in batches, so that no request waits for the disk.

    The thread that owns the journal commits them. `committed` is called in the event loop with the rows of
    each commit.
    """

    def __init__(
        self, journal: Journal, executor: Executor, owner: Owner, committed: Callable[[list[Row]], None]
    ) -> None:
        self._journal = journal
        self._executor = executor
        self._owner = owner
        self._committed = committed
        self.backlog: list[Row] = []
        """Rows not yet committed."""
        self._beat = monotonic()

    async def run(self) -> None:
        """Commit every quarter of a second until cancelled.

        Raise InputError if the journal cannot be written.
        """
        due = monotonic() + COMMIT_INTERVAL
        while True:
            await asyncio.sleep(max(0.0, due - monotonic()))
            # Not from the end of the commit: a slow disk must not make commits less frequent.
            due = monotonic() + COMMIT_INTERVAL
            await self.flush()

    async def flush(self) -> None:
        """Commit the queued rows.

        If the journal cannot be written, the rows stay queued and its InputError is raised.
        """
        rows = self.backlog.copy()
        if rows:
            # If the run is cancelled during a commit, its rows stay queued: the last flush records them
            # again, which does no harm.
            await in_thread(self._executor, self._journal.record, rows)
            del self.backlog[: len(rows)]
            self._committed(rows)
        if monotonic() - self._beat > HEARTBEAT:
            self._beat = monotonic()
            await in_thread(self._executor, self._journal.beat, self._owner)


async def in_thread(executor: Executor, function: Callable[..., _Result], *arguments: object) -> _Result:
    """Call a method of the journal on the thread that owns it."""
    return await asyncio.get_running_loop().run_in_executor(executor, function, *arguments)
