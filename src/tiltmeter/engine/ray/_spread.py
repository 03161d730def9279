"""A run whose requests are asked by workers of a cluster: feed, journal, tally and display stay here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from tiltmeter.engine._feed import Job
from tiltmeter.engine._journal import Journal, Row
from tiltmeter.engine._limits import Limits
from tiltmeter.engine._prices import Prices
from tiltmeter.engine._request import Request
from tiltmeter.engine._run import GRACE, Run
from tiltmeter.engine._tally import Snapshot
from tiltmeter.engine.ray._team import Team
from tiltmeter.models import Completion, Model, Sampling

if TYPE_CHECKING:
    from tiltmeter.engine._display import Display

__all__ = ["SpreadRun"]

SHORT: Final = 12.0
LONG: Final = 32.0
"""Seconds that a batch may be out; shorter, and the next ones are larger, longer, and they are smaller."""
GROWTH: Final = 4
"""Times that batches become larger at once, where they are out for much too short."""
FEWEST: Final = 16
"""Requests in one of the last batches of a run, at least."""


class SpreadRun(Run):
    """Its own workers each carry a batch to the cluster and wait for what comes of it.

    Parameters
    ----------
    limits
        The user's own; what the endpoint may be asked is bounded by the workers of the cluster.
    carriers
        Batches out at once.
    batch
        Requests in a batch: the fewest and the most. In between, batches grow until one is out for some seconds; the last ones of a run
        become smaller again, so that all workers end at about the same time.
    """

    def __init__(
        self,
        model: Model,
        requests: Iterable[Request],
        sampling: Sampling,
        journal: Journal,
        limits: Limits,
        display: Display | None,
        prices: Prices,
        *,
        team: Team,
        carriers: int,
        batch: tuple[int, int],
    ) -> None:
        bounded = Limits(max_connections=carriers, timeout=limits.timeout, retries=limits.retries, deadline=limits.deadline)
        super().__init__(_Elsewhere(model), requests, sampling, journal, bounded, display, prices)
        self._team, (self._least, self._most) = team, batch
        self._size = self._least
        self._waiting = carriers
        """Carriers that have yet to be told that there is nothing more: once all is dealt, the last entries of the queue."""
        self._all_dealt = False
        self._feed.claim_size = max(self._feed.claim_size, 2 * self._least)
        self._look_ahead()
        self._outstanding: set[bytes] = set()

    def stop(self, *, sentence: str | None = None, interrupted: bool = False, grace: float = GRACE) -> None:
        """See `Run.stop`; the cluster's workers, too, begin nothing more."""
        if not self._stopping:
            self._team.stop()
        super().stop(sentence=sentence, interrupted=interrupted, grace=grace)

    async def _work(self, number: int) -> None:
        last = False
        while not self._stopping and not last:
            jobs: list[Job] = []
            size = self._fitting()
            while len(jobs) < size and not last and not (jobs and self._queue.empty()):
                job = await self._queue.get()
                if job is None:
                    last = True
                    self._waiting -= 1
                else:
                    jobs.append(job)
            if self._queue.qsize() <= self._feed.claim_size:
                self._hungry.set()
            if jobs:
                await self._carry(number, jobs)

    async def _deal(self) -> None:
        await super()._deal()
        self._all_dealt = True

    def _fitting(self) -> int:
        """Requests for the next batch: where all that is left is known, no more than each carrier could have of it."""
        unclaimed = self._feed.left
        if unclaimed is None:
            return self._size
        left = unclaimed + self._queue.qsize() - (self._waiting if self._all_dealt else 0)
        return max(min(self._size, left // self._limits.max_connections), min(self._least, FEWEST))

    def _look_ahead(self) -> None:
        """As far as all carriers may have batches out the next time these grow: what follows then evens out by how much they differ."""
        self._feed.ahead = self._limits.max_connections * min(GROWTH * self._size, self._most)

    async def _carry(self, number: int, jobs: list[Job]) -> None:
        """Have a batch asked, and asked again where a worker gave back less than all of it."""
        report = self._reporter(asyncio.get_running_loop())
        self._outstanding.update(job.key for job in jobs)
        while jobs and not self._stopping:
            begun = self._sending[number] = monotonic()
            try:
                future = self._team.submit((self._sampling, jobs, self.tally.held > 0), report)
                outcome = await asyncio.wrap_future(future)
            finally:
                self._sending[number] = 0.0
            self._fit(len(jobs), monotonic() - begun)
            self.tally.errors.update(outcome.errors)
            if outcome.stopped is not None and not self._stopping:
                self.stop(sentence=outcome.stopped, grace=GRACE if self._streak.worked else 0.0)
            jobs = [job for job in jobs if job.key in self._outstanding]

    def _fit(self, size: int, seconds: float) -> None:
        """What each batch costs by itself (some hundredths of a second) must be small beside it, and so must the time it is held by one.

        A worker has several at once, so that a batch is out for that much longer than the worker is busy with it.
        """
        if size != self._size:
            return
        if seconds < SHORT:
            self._size = min((GROWTH if seconds < SHORT / 4 else 2) * self._size, self._most)
        elif seconds > LONG:
            self._size = max(self._size // 2, self._least)
        self._look_ahead()

    def _reporter(self, loop: asyncio.AbstractEventLoop) -> Callable[[list[Row]], None]:
        def report(rows: list[Row]) -> None:
            with suppress(RuntimeError):  # the run has ended, and its loop is closed: it waits for nothing any more
                loop.call_soon_threadsafe(self._receive, rows)

        return report

    def _receive(self, rows: list[Row]) -> None:
        """Keep answers as they come; what comes a second time, from a worker that took over a batch, is left out."""
        for row in rows:
            if row.key not in self._outstanding:
                continue
            self._outstanding.discard(row.key)
            self._writer.add(row)
            if row.status == "ok":
                self._count(row)
            else:
                self.tally.failed[str(row.error_kind)] += 1

    def _count(self, row: Row) -> None:
        tally = self.tally
        tally.answered += 1
        self._streak.answered()
        if row.output_tokens is None:
            tally.unmetered += 1
        tally.input_tokens += row.input_tokens or 0
        tally.output_tokens += row.output_tokens or 0

    def _snapshot(self) -> Snapshot:
        states = self._team.states.values()
        shown = super()._snapshot()
        return shown._replace(
            in_flight=sum(state.in_flight for state in states),
            width=sum(state.width for state in states),
            paused=max((state.paused for state in states), default=0.0),
        )


class _Elsewhere:
    """The model as this process knows it: by its name."""

    local = True

    def __init__(self, model: Model) -> None:
        self.name, self.fingerprint, self.endpoint = model.name, model.fingerprint, model.endpoint

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    async def complete(self, messages: Any, sampling: Sampling, sample: int) -> Completion:
        """Is not called: requests leave in batches."""
        raise NotImplementedError
