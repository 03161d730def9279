"""Inside a worker: the same engine as on one machine asks the model what it is handed, and reports the answers as they come."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, cast

from tiltmeter.engine._feed import Job
from tiltmeter.engine._journal import Journal, Row, Taken
from tiltmeter.engine._limits import Limits
from tiltmeter.engine._pace import pace_of
from tiltmeter.engine._prices import Prices
from tiltmeter.engine._retry import Streak
from tiltmeter.engine._run import GRACE, Run
from tiltmeter.engine._writer import Writer
from tiltmeter.engine.ray._work import Report, State
from tiltmeter.errors import ProviderError
from tiltmeter.models import Completion, Message, Model, Sampling

if TYPE_CHECKING:
    from tiltmeter.engine._owner import Owner

__all__ = ["Asking", "Outcome"]


_ON_THE_WAY: Final = 2.0
"""Seconds that word to stop takes to a worker, and the last answers back."""


class Outcome(NamedTuple):
    """What came of a batch beside its rows."""

    errors: Counter[str]
    """Attempts that failed, by kind."""
    stopped: str | None
    """Why nothing more can be had from the model, None where that is not so."""


class Asking:
    """Asks one model; see `tiltmeter.engine.ray._work.Work`.

    A payload is the sampling, a list of jobs, and whether the journal holds answers of the run; a part of a result is a row.
    """

    def __init__(self, model: Model, limits: Limits) -> None:
        self._model, self._limits = model, limits
        self._fingerprint = model.fingerprint

    def start(self) -> None:
        """See `Work`."""
        if self._model.fingerprint != self._fingerprint:
            raise ProviderError(
                f"{self._model.name} is not the same on every machine: here {self._fingerprint}, on a worker {self._model.fingerprint}; "
                "give all of them the same files, and say which device and dtype to use"
            )
        self._running: set[Run] = set()
        self._stopped = False
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="tiltmeter-asking", daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._enter(), self._loop).result()

    async def _enter(self) -> None:
        await self._model.__aenter__()
        local = bool(getattr(self._model, "local", False))
        self._pace = pace_of(self._model.endpoint, self._limits, local=local)  # held, so that every batch goes on with it
        self._streak = Streak(self._model.endpoint, self._limits)

    def do(self, payload: tuple[Sampling, Sequence[Job], bool], before: Sequence[Row], report: Report) -> Outcome:
        """See `Work`."""
        known = {row.key for row in before}
        sampling, jobs, worked = payload
        self._streak.worked |= worked
        lacking = [job for job in jobs if job.key not in known]
        return asyncio.run_coroutine_threadsafe(self._ask(sampling, lacking, report), self._loop).result()

    async def _ask(self, sampling: Sampling, jobs: Sequence[Job], report: Report) -> Outcome:
        if self._stopped:
            return Outcome(Counter(), None)
        run = _Batch(_Entered(self._model), sampling, jobs, report, self._limits, self._streak)
        self._running.add(run)
        try:
            await run.go()
        except ProviderError as error:
            if run.tally.stopped is None:
                raise
            return Outcome(run.tally.errors, str(error))
        finally:
            self._running.discard(run)
        return Outcome(run.tally.errors, run.tally.stopped)

    def state(self) -> State:
        """See `Work`."""
        pace = self._pace
        return State(pace.in_flight, pace.width, max(0.0, pace.paused_until - monotonic()) if pace.paused_until else 0.0)

    def stop(self) -> None:
        """See `Work`."""
        self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            for run in self._running:
                run.stop(interrupted=True, grace=GRACE - _ON_THE_WAY)


class _Entered:
    """A model that stays entered from batch to batch."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.fingerprint, self.endpoint = model.name, model.fingerprint, model.endpoint
        self.local = bool(getattr(model, "local", False))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See Model.complete."""
        return await self._model.complete(messages, sampling, sample)


class _Batch(Run):
    """A run over one batch. Whether anything works at all is judged over all batches of the worker."""

    def __init__(self, model: Model, sampling: Sampling, jobs: Sequence[Job], report: Report, limits: Limits, streak: Streak) -> None:
        sink = cast(Journal, _Sink())  # it has the methods that a run uses
        super().__init__(model, [job.request for job in jobs], sampling, sink, limits, None, Prices())
        self._streak = streak
        self._writer = _Reporter(sink, self._executor, self._owner, self._feed.finished, report)


class _Reporter(Writer):
    """Rows leave at once: what goes from the worker is gathered there."""

    def __init__(self, journal: Journal, executor: Executor, owner: Owner, committed: Callable[[list[Row]], None], report: Report) -> None:
        super().__init__(journal, executor, owner, committed)
        self._report = report

    def add(self, row: Row) -> None:
        """See `Writer.add`."""
        self._report(row)
        self._committed([row])

    async def run(self) -> None:
        """Nothing ever waits to be committed."""


class _Sink:
    """Stands where a run has its journal: everything is to be asked, and what comes is reported."""

    def name_model(self, fingerprint: str, name: str) -> None:
        return

    def held(self, keys: Sequence[bytes]) -> set[bytes]:
        return set()

    def claim(self, keys: Sequence[bytes], owner: Owner) -> Taken:
        return Taken(set(), set(keys), set())

    def release(self, owner: Owner) -> None:
        return

    def beat(self, owner: Owner) -> None:
        return
