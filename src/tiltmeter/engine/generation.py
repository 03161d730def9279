"""Very many answers from one model, each asked and paid for once.

A run is one event loop with a work queue, workers, a writer and a display. `run_to_end` starts one and ends it in
order when a signal comes.
"""

from __future__ import annotations

import asyncio
import gc
import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from tiltmeter.engine.journal import Journal, Row, new_owner
from tiltmeter.engine.prices import Prices
from tiltmeter.engine.progress import Display, Snapshot, Tally
from tiltmeter.engine.rate_limit import Limits, Streak, is_overload, rate_limit_of, retry_delay, within_open_files
from tiltmeter.engine.work_queue import ClaimedRequest, Keys, Request, WorkQueue, Writer
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Completion, Model, ModelError, Sampling
from tiltmeter.models.base import outcome_of

if TYPE_CHECKING:
    from tiltmeter.models.text_models import CachedTextModel, SentenceEncoder, TextClassifier

GRACE = 10.0
"""Seconds that requests in flight get to finish when a run is asked to stop."""
MOST_BACKLOG = 20_000
"""Uncommitted rows beyond which no further requests are fed (the disk is slower than the model)."""
MOST_CLAIMED = 4000
TICK = 0.25
LOOK_AHEAD = 0.02
"""Seconds between two looks whether the workers need more requests; there are as many left as are claimed at a time."""
_OF_AN_ANSWER = tuple(field.name for field in fields(Completion))
_YOUNG_OBJECTS = 50_000
"""Threshold of the garbage collector during a run. Each request makes some hundred short-lived objects: the usual threshold costs 8%."""


class Generation:
    """One run: asks every request the journal lacks. `go` runs it once; `stop` may be called meanwhile, from the loop's thread."""

    def __init__(
        self,
        model: Model,
        requests: Iterable[Request],
        sampling: Sampling,
        journal: Journal,
        limits: Limits,
        display: Display,
        prices: Prices,
    ) -> None:
        self._model, self._sampling, self._journal, self._display, self._prices = model, sampling, journal, display, prices
        self._local = bool(getattr(model, "local", False))
        self._limits = limits = limits if self._local else within_open_files(limits)
        self.tally = Tally(model.name)
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that `interrupt` speaks to."""
        self._owner = new_owner()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="tiltmeter-journal")
        keys = Keys(model.fingerprint, sampling)
        self._feed = WorkQueue(requests, keys, journal, self._executor, self._owner, max(32, 2 * limits.max_connections), self.tally)
        self._writer = Writer(journal, self._executor, self._owner, self._feed.finished)
        self._streak = Streak(model.endpoint, limits)
        self._queue: asyncio.Queue[ClaimedRequest | None] = asyncio.Queue()
        self._sending = [0.0] * limits.max_connections
        """When each worker's request was sent (monotonic), 0 while it waits for none."""
        self._overdue = bytearray(limits.max_connections)
        self._crew: list[asyncio.Task[None]] = []
        self._stopping = False
        self._error: BaseException | None = None
        self._finished_at: deque[tuple[float, int]] = deque(maxlen=41)

    async def go(self) -> Tally:
        """Run to the end, committing as it goes.

        Raises
        ------
        ProviderError
            Nothing was answered and nothing will be.
        InputError
            The journal refused to be written.
        """
        begun = monotonic()
        self._pace = rate_limit_of(self._model.endpoint, self._limits, local=self._local)
        try:
            with _rarer_collections():
                async with self._model:
                    await self._ask_all()
        finally:
            self._executor.shutdown(wait=False)
            self.tally.seconds = monotonic() - begun
            self._display.update(self._snapshot())
        if self._error is not None:
            raise self._error
        if self.tally.stopped is not None and not self._streak.worked:
            raise ProviderError(self.tally.stopped)
        return self.tally

    def stop(self, *, sentence: str | None = None, interrupted: bool = False, grace: float = GRACE) -> None:
        """Ask nothing more; requests in flight get `grace` seconds to finish. A second call ends those at once."""
        if self._stopping:
            self._cancel_crew()
            return
        self._stopping = True
        self.tally.stopped = sentence
        self.tally.interrupted = interrupted
        for number, task in enumerate(self._crew):
            # The last of the crew is the feeder; the others are workers, of which those that wait for an answer are spared.
            if grace <= 0 or number == len(self._sending) or not self._sending[number]:
                task.cancel()
        asyncio.get_running_loop().call_later(grace, self._cancel_crew)

    def interrupt(self, *_signal: object) -> None:
        """Stop as after a signal; may be called from any thread."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(partial(self.stop, interrupted=True))

    async def _ask_all(self) -> None:
        model = self._model
        await asyncio.get_running_loop().run_in_executor(self._executor, self._journal.name_model, model.fingerprint, model.name)
        workers = [self._guarded(self._work, number) for number in range(self._limits.max_connections)]
        self._crew = [asyncio.create_task(part) for part in (*workers, self._guarded(self._deal))]
        background = [asyncio.create_task(self._guarded(part)) for part in (self._writer.run, self._watch, self._time_out)]
        try:
            await asyncio.wait(self._crew)
        finally:
            self._stopping = True  # also where the run itself was cancelled: a task that drops its cancellation ends by itself
            self._cancel_crew()
            for task in background:
                task.cancel()
            await asyncio.wait([*self._crew, *background])
            await self._settle()

    async def _settle(self) -> None:
        """Commit the rest and release what is claimed but was not asked."""
        loop = asyncio.get_running_loop()
        try:
            try:
                await self._writer.flush()
            finally:
                # Also when nothing more could be written: otherwise the next run here would wait for these claims to expire.
                await loop.run_in_executor(self._executor, self._journal.release, self._owner)
        except InputError as error:
            lost = f"; {self._writer.backlog} answers could not be kept" if self._writer.backlog else ""
            self._error = InputError(f"{error}{lost}")

    async def _guarded(self, part: Callable[..., Coroutine[Any, Any, None]], *given: int) -> None:
        """Run one task; if it fails, stop the run, which raises the error at its end."""
        try:
            await part(*given)
        except Exception as error:
            self._error = self._error or error
            self.stop(grace=0.0)

    def _cancel_crew(self) -> None:
        for task in self._crew:
            task.cancel()

    async def _deal(self) -> None:
        """Keep the workers' queue filled, a little ahead of them."""
        feed, dealt = self._feed, 0
        async for jobs in feed.batches():
            if self._stopping:
                return
            if dealt and self._queue.empty():
                feed.claim_size = min(2 * feed.claim_size, MOST_CLAIMED)  # the workers ran dry: be further ahead
            dealt += len(jobs)
            for job in jobs:
                self._queue.put_nowait(job)
            while self._is_ahead():
                await asyncio.sleep(LOOK_AHEAD)
        for _ in range(self._limits.max_connections):
            self._queue.put_nowait(None)

    def _is_ahead(self) -> bool:
        """Whether the feeder has to wait for the workers or the disk; never where the run is stopping."""
        return not self._stopping and (self._queue.qsize() > self._feed.claim_size or self._writer.backlog > MOST_BACKLOG)

    async def _work(self, number: int) -> None:
        queue = self._queue
        while not self._stopping:
            job = await queue.get() if queue.empty() else queue.get_nowait()
            if job is None:
                return
            await self._answer(number, job)

    async def _answer(self, number: int, job: ClaimedRequest) -> None:
        """Ask one request until it is answered or given up."""
        request, limits, pace = job.request, self._limits, self._pace
        attempts = counted = 0
        begun = 0.0
        tokens = pace.estimate(request.messages, self._sampling.max_tokens)
        while True:
            await pace.enter(tokens)
            attempts += 1
            self._overdue[number] = 0
            sent_at = self._sending[number] = monotonic()
            begun = begun or sent_at
            try:
                answer = await self._send(number, request)
            finally:
                self._sending[number] = 0.0
                pace.leave()
            if isinstance(answer, Completion):
                pace.succeeded(tokens, answer.input_tokens, answer.output_tokens)
                self._keep(job, answer, attempts)
                return
            overload = is_overload(answer)
            counted += answer.kind != "rate_limit"
            now = monotonic()
            self.tally.errors[answer.kind] += 1
            hopeless = self._streak.attempt_failed(answer, now)
            delay = None if hopeless else retry_delay(answer, counted, now - begun, limits)
            if overload and delay is not None:
                pace.overloaded(sent_at, answer.retry_after)
            if delay is None:
                self._give_up(job, answer, attempts, hopeless)
                return
            if self._stopping:
                return
            await asyncio.sleep(delay)

    async def _send(self, number: int, request: Request) -> Completion | ModelError:
        try:
            return await outcome_of(self._model, request.messages, self._sampling, request.sample)
        except asyncio.CancelledError:
            task = self._crew[number]
            if not self._overdue[number] or task.uncancel() > 0:
                raise
            self._overdue[number] = 0
            return ModelError("timeout", f"no answer within {self._limits.timeout:g} s")

    def _keep(self, job: ClaimedRequest, answer: Completion, attempts: int) -> None:
        tally = self.tally
        tally.answered += 1
        self._streak.answered()
        if answer.output_tokens is None:
            tally.unmetered += 1
        tally.input_tokens += answer.input_tokens or 0
        tally.output_tokens += answer.output_tokens or 0
        self._write(job, "ok", attempts, **{name: getattr(answer, name) for name in _OF_AN_ANSWER})

    def _give_up(self, job: ClaimedRequest, error: ModelError, attempts: int, hopeless: str | None) -> None:
        self.tally.failed[error.kind] += 1
        self._write(job, "failed", attempts, error_kind=error.kind, error_detail=error.detail)
        if self.tally.held:
            self._streak.worked = True
        sentence = hopeless or self._streak.given_up(error)
        if sentence is not None and not self._stopping:
            # Where nothing has ever worked there is nothing to wait for.
            self.stop(sentence=sentence, grace=GRACE if self._streak.worked else 0.0)

    def _write(self, job: ClaimedRequest, status: Literal["ok", "failed"], attempts: int, **columns: Any) -> None:
        self._writer.add(Row(job.key, self._model.fingerprint, job.request.sample, status, attempts, time.time(), **columns))

    async def _time_out(self) -> None:
        """Cancel requests that take too long: one look at all of them now and then, where a timer each would cost a tenth of the speed.

        A model of this process is never late: it is at work, and its requests wait for their turn.
        """
        while not self._local:
            await asyncio.sleep(min(TICK, self._limits.timeout / 8))
            limit = monotonic() - self._limits.timeout
            for number, sent_at in enumerate(self._sending):
                if 0.0 < sent_at < limit and not self._overdue[number]:
                    self._overdue[number] = 1
                    self._crew[number].cancel()

    async def _watch(self) -> None:
        while True:
            self._display.update(self._snapshot())
            await asyncio.sleep(TICK)

    def _snapshot(self) -> Snapshot:
        """The state of the moment, with what was spent so far."""
        self.tally.cost = self._prices.cost(self.tally.model, self.tally.input_tokens, self.tally.output_tokens)
        now, finished = monotonic(), self.tally.answered + self.tally.failures
        self._finished_at.append((now, finished))
        since, before = self._finished_at[0]
        rate = (finished - before) / (now - since) if now > since else math.nan
        return Snapshot(self.tally, self._pace.in_flight, self._pace.width, rate, max(0.0, self._pace.paused_until - now))


def run_to_end(run: Generation) -> Tally:
    """Carry out a run, also inside a running event loop (of a notebook): then in a thread of its own, where Ctrl-C acts like SIGINT."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_carry_out(run))
    with ThreadPoolExecutor(1, thread_name_prefix="tiltmeter-generate") as executor:
        outcome = executor.submit(asyncio.run, _carry_out(run))
        while True:
            try:
                return outcome.result()
            except KeyboardInterrupt:
                if outcome.done():
                    raise
                run.interrupt()


async def _carry_out(run: Generation) -> Tally:
    """Run in this event loop; ended in order by signals."""
    run.loop = asyncio.get_running_loop()
    with _stop_on_signal(run):
        return await run.go()


@contextmanager
def _rarer_collections() -> Iterator[None]:
    """Raise the collector's first threshold during a run; a higher one (of the user, or of a run under way) or 0 (off) stays."""
    before = gc.get_threshold()
    if not 0 < before[0] < _YOUNG_OBJECTS:
        yield
        return
    gc.set_threshold(_YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _stop_on_signal(run: Generation) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) into an orderly end of `run`.

    Handlers can be set in the main thread only; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, run.interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


class Engine:
    """Carries out what costs: answers of models and judges, vectors of encoders, scores of classifiers.

    This one does everything in the calling process. What comes out does not depend on the engine. The journal is read and written by
    the calling process alone.
    """

    name = "local"
    """As the user wrote it, without credentials; kept in run.json."""

    def generate(
        self,
        model: Model,
        requests: Iterable[Request],
        sampling: Sampling,
        *,
        journal: Journal,
        limits: Limits | None = None,
        progress: Display | None = None,
        prices: Prices | None = None,
    ) -> Tally:
        """Ask `model` every request that `journal` does not yet hold an answer to, and keep each answer there.

        `requests` is read lazily, a thousand or so at a time, in the thread of the run. Answers are committed at least twice a
        second. Requests another process is asking through the same journal are awaited, not asked again. Failures that pass are
        retried, with the whole endpoint slowed down when it says so; a request given up becomes a row with status "failed".

        SIGINT, SIGTERM and SIGHUP (in the main thread) end the run in order: requests in flight finish, for ten seconds at most, and are
        committed; a second signal does not wait for them. May be called inside a running event loop (a notebook), where it
        runs in a thread of its own and Ctrl-C acts like SIGINT.

        Raises
        ------
        ProviderError
            Nothing was answered in this run nor held before it, and nothing will be: wrong key, wrong model, no server.
        InputError
            The journal cannot be written (disk full, read-only, locked), or the price file cannot be used.
        """
        with self._placed(model, limits or Limits()) as (placed, bounds):
            return run_to_end(Generation(placed, requests, sampling, journal, bounds, progress or Display(), prices or Prices.load()))

    def _placed(self, model: Model, limits: Limits) -> AbstractContextManager[tuple[Model, Limits]]:
        """The model as this engine asks it, and the limits under which it does."""
        return nullcontext((model, limits))

    def encoder(self, name_or_path: str | Path, *, store: Path | None) -> SentenceEncoder:
        """See `tiltmeter.models.text_models.SentenceEncoder`."""
        from tiltmeter.models.text_models import SentenceEncoder

        return SentenceEncoder(name_or_path, store=store, **self._elsewhere(SentenceEncoder, name_or_path))

    def classifier(self, name_or_path: str | Path, *, store: Path | None) -> TextClassifier:
        """See `tiltmeter.models.text_models.TextClassifier`."""
        from tiltmeter.models.text_models import TextClassifier

        return TextClassifier(name_or_path, store=store, **self._elsewhere(TextClassifier, name_or_path))

    def _elsewhere(self, kind: type[CachedTextModel], name_or_path: str | Path) -> dict[str, Any]:
        """Further arguments of an encoder or classifier: on which machines it computes."""
        return {}


generate = Engine().generate
"""As the local engine does it."""
