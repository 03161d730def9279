"""Large numbers of requests to one model, each sent and paid for only once.

A run is one event loop. A work queue looks up requests in the journal and claims the missing ones, workers
send them, a writer commits finished rows in batches, and a display shows the progress.
"""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import count
from time import monotonic
from typing import Any, Final, Literal

from tiltmeter.engine._journal import Journal, Row, flaw_in, new_owner
from tiltmeter.engine._prices import Prices
from tiltmeter.engine._progress import Display, Snapshot, Tally
from tiltmeter.engine._rate_limit import (
    Limits,
    Streak,
    is_overload,
    rate_limit_of,
    retry_delay,
    within_open_files,
)
from tiltmeter.engine._requests import Keys, Request
from tiltmeter.engine._work_queue import ClaimedRequest, WorkQueue, Writer, in_thread
from tiltmeter.errors import InputError, ProviderError, UnanswerableError
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling
from tiltmeter.models._base import token_count
from tiltmeter.models._key_masking import keys_masked

GRACE: Final = 10.0
"""Seconds that requests in flight have to finish when a run is stopped."""
MOST_BACKLOG: Final = 20_000
"""Number of uncommitted rows above which no further requests are queued (the disk is slower than the model).
"""
MOST_CLAIMED: Final = 4000
"""Largest number of requests claimed at a time."""
MOST_SET_ASIDE: Final = 1000
"""Number of requests that wait for an overloaded endpoint without a worker; further ones keep theirs, so that
no more are sent."""
TICK: Final = 0.25
"""Seconds between checks for requests that exceed their time."""
CHARACTERS_PER_TOKEN: Final = 4.0
"""Assumed length of a token whose number the endpoint does not report."""
LOOK_AHEAD: Final = 0.02
"""Seconds between checks whether the workers need more requests; the queue then still has up to one claim of
requests."""
_COLUMNS_OF_ANSWER: Final = tuple(field.name for field in fields(Completion))
_YOUNG_OBJECTS: Final = 50_000
"""Threshold of the garbage collector during a run. Each request creates about 100 short-lived objects: the
default threshold costs 8%."""


@dataclass(slots=True)
class Job:
    """A claimed request and its attempts so far."""

    claimed: ClaimedRequest
    attempts: int = 0
    counted: int = 0
    """Failed attempts that were not rate limits."""
    begun: float = 0.0
    """When it was first sent (monotonic clock)."""
    error: ModelError | None = None
    """Why its latest attempt failed."""
    answered_before: int | None = None
    """Number of answers of the run when it was last rejected because of overload; None if it never was."""


class Generation:
    """One run, which sends every request that is not in the journal.

    `go` runs it once; `stop` may be called at the same time from the thread of the event loop. For the
    parameters, see `tiltmeter.engine._local_engine.Engine.generate`.
    """

    def __init__(
        self,
        model: Model,
        requests: Iterable[Request],
        sampling: Sampling,
        journal: Journal,
        limits: Limits,
        display: Display,
        prices: Prices,
        patience: float | None = None,
        budget: float | None = None,
    ) -> None:
        self._model = model
        self._sampling = sampling
        self._journal = journal
        self._display = display
        self._prices = prices
        self._patience = patience
        self._budget = budget
        self._local = bool(getattr(model, "local", False))
        self._limits = limits = limits if self._local else within_open_files(limits)
        self.tally = Tally(model.name)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner = new_owner()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="tiltmeter-journal")
        self._feed = WorkQueue(
            requests=requests,
            keys=Keys(model.fingerprint, sampling),
            journal=journal,
            executor=self._executor,
            owner=self._owner,
            claim_size=max(32, 2 * limits.max_connections),
            tally=self.tally,
        )
        self._writer = Writer(journal, self._executor, self._owner, self._feed.finished)
        self._streak = Streak(model.endpoint, limits)
        self._queue: asyncio.PriorityQueue[tuple[int, int, Job | None]] = asyncio.PriorityQueue()
        """Jobs with their place and number, by which they are ordered; None ends a worker."""
        self._numbers = count()
        self._latest_started = 0
        """Place of the latest job that a worker took."""
        self._latest_put_back = 0
        """Place of the latest job that was put back."""
        self._set_aside = 0
        """Number of jobs that wait for an overloaded endpoint without a worker."""
        self._moved_at = monotonic()
        """When a request was last answered or given up."""
        self._throttled_at = 0.0
        """When the endpoint last reported an overload; 0 if it never did."""
        self._crew: list[asyncio.Task[None]] = []
        """The workers, and the feeder."""
        self._sending = [0.0] * (limits.max_connections + 1)
        """When each of them sent its request (monotonic clock); 0 if it has none in flight, infinity once it
        has timed out."""
        self._allowed = [limits.timeout] * (limits.max_connections + 1)
        """Seconds that each of them waits for an answer: the timeout, or what is left until the deadline of
        its request."""
        self._stopping = False
        self._error: BaseException | None = None
        self._finished_at: deque[tuple[float, int]] = deque(maxlen=41)

    async def go(self) -> Tally:
        """Run to the end and commit answers continuously.

        Raises
        ------
        ProviderError
            There was no answer, and none can be expected.
        InputError
            The journal could not be written.
        """
        begun = monotonic()
        self._loop = asyncio.get_running_loop()
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
            kind = UnanswerableError if self.tally.only_permanent else ProviderError
            raise kind(self.tally.stopped)
        return self.tally

    def stop(self, *, sentence: str | None = None, interrupted: bool = False, grace: float = GRACE) -> None:
        """Stop sending requests; those in flight have `grace` seconds to finish.

        A second call cancels them immediately.
        """
        if self._stopping:
            self._cancel_crew()
            return
        self._stopping = True
        self.tally.stopped = sentence
        self.tally.interrupted = interrupted
        if interrupted:
            sent = sum(map(bool, self._sending))
            waiting = f"waiting up to {grace:g} s for {sent} requests in flight" if sent else "stopping"
            self._display.note(
                f"interrupted: {waiting}; press Ctrl-C again to stop at once. All responses so far are kept."
            )
        if self._crew:  # there is none while the model is being opened
            for task, sent_at in zip(self._crew, self._sending, strict=True):
                if grace <= 0 or not sent_at:
                    task.cancel()
        asyncio.get_running_loop().call_later(grace, self._cancel_crew)

    def interrupt(self, *_signal: object) -> None:
        """Stop as a signal would; may be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(partial(self.stop, interrupted=True))

    async def _ask_all(self) -> None:
        model = self._model
        await in_thread(self._executor, self._journal.name_model, model.fingerprint, model.name)
        crew = [self._guarded(self._work, number) for number in range(self._limits.max_connections)]
        crew.append(self._guarded(self._deal))
        self._crew = [asyncio.create_task(part) for part in crew]
        background = [asyncio.create_task(self._guarded(part)) for part in (self._writer.run, self._watch)]
        try:
            await asyncio.wait(self._crew)
        finally:
            # Also if the run itself was cancelled: a task that swallows its cancellation then ends by itself.
            self._stopping = True
            self._cancel_crew()
            for task in background:
                task.cancel()
            await asyncio.wait([*self._crew, *background])
            await self._settle()

    async def _settle(self) -> None:
        """Commit the remaining rows and release claims on requests that were not sent."""
        try:
            try:
                await self._writer.flush()
            finally:
                # Even if the rows could not be written: otherwise the next run would wait for these claims to
                # expire.
                await in_thread(self._executor, self._journal.release, self._owner)
        except InputError as error:
            lost = len(self._writer.backlog)
            message = f"{error}; {lost} answers could not be stored" if lost else str(error)
            self._error = InputError(message)

    async def _guarded(self, part: Callable[..., Coroutine[Any, Any, None]], *numbers: int) -> None:
        """Run one task; if it fails, stop the run, which raises the error at its end."""
        try:
            await part(*numbers)
        except Exception as error:
            self._error = self._error or error
            self.stop(grace=0.0)

    def _cancel_crew(self) -> None:
        for task in self._crew:
            task.cancel()

    async def _deal(self) -> None:
        """Keep the queue of the workers filled, slightly ahead of them."""
        feed, dealt = self._feed, 0
        async for jobs in feed.batches():
            if self._stopping:
                return
            if jobs and self._is_spent():
                self._stop_at_budget()
                return
            if dealt and self._queue.empty():  # the workers ran out of requests: claim more at a time
                feed.claim_size = min(2 * feed.claim_size, MOST_CLAIMED)
            dealt += len(jobs)
            for claimed in jobs:
                self._put(Job(claimed))
            while self._is_ahead():
                await asyncio.sleep(LOOK_AHEAD)
        await self._queue.join()
        for _ in range(self._limits.max_connections):
            self._put(None)

    def _is_ahead(self) -> bool:
        """Return whether the feeder has to wait for the workers or the disk.

        Never while the run is stopping.
        """
        if self._stopping:
            return False
        return self._queue.qsize() > self._feed.claim_size or len(self._writer.backlog) > MOST_BACKLOG

    async def _work(self, number: int) -> None:
        """Answer one request after another, as worker `number`."""
        queue = self._queue
        while not self._stopping:
            place, _, job = await queue.get() if queue.empty() else queue.get_nowait()
            if job is None:
                return
            self._latest_started = max(self._latest_started, place)
            if await self._answer(number, job):
                queue.task_done()

    async def _answer(self, number: int, job: Job) -> bool:
        """Send one request until it is answered, given up or set aside; return whether it is finished."""
        limits, pace = self._limits, self._pace
        tokens = pace.estimate(job.claimed.request.messages, self._sampling.max_tokens)
        while True:
            await pace.enter(tokens)
            sent_at = monotonic()
            job.begun = job.begun or sent_at
            remaining = job.begun + limits.deadline - sent_at
            if remaining <= 0.0 and job.error is not None:
                pace.leave()
                self._give_up(job, job.error, None)
                return True
            job.attempts += 1
            self._allowed[number] = min(limits.timeout, remaining)
            self._sending[number] = sent_at
            try:
                answer = await self._send(number, job)
            finally:
                self._sending[number] = 0.0
                pace.leave()
            if isinstance(answer, Completion):
                pace.succeeded(tokens, answer.input_tokens, answer.output_tokens, sent_at)
                self._keep(job, answer)
                return True
            delay = self._delay_after(job, answer)
            if delay is None:
                return True
            if is_overload(answer):
                self._throttled_at = monotonic()
                self._slow_down(job, sent_at, answer.retry_after)
                if self._set_aside < MOST_SET_ASIDE:
                    self._wait_aside(job, delay)
                    return False
            if self._stopping:
                return True
            await asyncio.sleep(delay)

    def _delay_after(self, job: Job, error: ModelError) -> float | None:
        """Count a failed attempt; return the seconds to wait before the next, or None after giving up."""
        job.error = error
        job.counted += error.kind != "rate_limit"
        now = monotonic()
        self.tally.errors[error.kind] += 1
        hopeless = self._streak.attempt_failed(error, now)
        delay = None if hopeless else retry_delay(error, job.counted, now - job.begun, self._limits)
        if delay is None:
            self._give_up(job, error, hopeless)
        return delay

    def _slow_down(self, job: Job, sent_at: float, retry_after: float | None) -> None:
        """Slow all requests down because one was rejected, unless the endpoint rejects only this one.

        That is so if it was rejected before, and others have been answered since then: its rejections say
        nothing about the others.
        """
        alone = job.answered_before is not None and self.tally.answered > job.answered_before
        job.answered_before = self.tally.answered
        if not alone:
            self._pace.overloaded(sent_at, retry_after)

    def _wait_aside(self, job: Job, delay: float) -> None:
        """Put a job back into the queue after a delay; its worker goes on with other requests meanwhile."""
        self._set_aside += 1

        def put_back() -> None:
            self._set_aside -= 1
            # Two others come first: if the endpoint answers them, the overload was about this request only.
            self._latest_put_back = max(self._latest_put_back, self._latest_started) + 2
            self._put(job, self._latest_put_back)
            self._queue.task_done()  # after it was put back, so that it counts as unfinished all the time

        asyncio.get_running_loop().call_later(delay, put_back)

    def _put(self, job: Job | None, place: int | None = None) -> None:
        """Put a job into the queue, by default at the end."""
        number = next(self._numbers)
        self._queue.put_nowait((number if place is None else place, number, job))

    async def _send(self, number: int, job: Job) -> Completion | ModelError:
        """Send a request once, as worker `number`; return its answer, if that can be stored, or the error."""
        request = job.claimed.request
        try:
            answer = await outcome_of(self._model, request.messages, self._sampling, request.sample)
        except asyncio.CancelledError:
            timed_out = self._sending[number] == math.inf
            if not timed_out or self._crew[number].uncancel() > 0:
                raise
            return ModelError("timeout", f"no answer within {round(self._allowed[number], 1):g} s")
        if isinstance(answer, Completion):
            flaw = flaw_in(self._row_of(job, answer))
            if flaw:
                detail = f"{self._model.name} gave an answer that cannot be stored: {flaw}"
                return ModelError("bad_response", detail)
        return answer

    def _keep(self, job: Job, answer: Completion) -> None:
        tally = self.tally
        self._moved_at = monotonic()
        tally.answered += 1
        self._streak.answered()
        if answer.input_tokens is None or answer.output_tokens is None:
            tally.unmetered += 1
        tally.input_tokens += answer.input_tokens or 0
        tally.output_tokens += answer.output_tokens or 0
        self._writer.backlog.append(self._row_of(job, answer))
        if self._budget is not None:
            tally.charged += self._charge(job, answer)
            if self._is_spent():
                self._stop_at_budget()

    def _charge(self, job: Job, answer: Completion) -> float:
        """Return the cost of an answer; counts that the endpoint did not report are estimated.

        The output is then the limit of tokens, because thinking may be a part of it.
        """
        input_tokens: float | None = answer.input_tokens
        output_tokens: float | None = answer.output_tokens
        if input_tokens is None:
            texts = (message.content for message in job.claimed.request.messages)
            input_tokens = sum(len(text) for text in texts) / CHARACTERS_PER_TOKEN
        if output_tokens is None:
            length = len(answer.text or "") / CHARACTERS_PER_TOKEN
            output_tokens = self._sampling.max_tokens or length
        return self._prices.cost(self.tally.model, input_tokens, output_tokens) or 0.0

    def _is_spent(self) -> bool:
        """Return whether the answers of this call cost as much as the budget."""
        return self._budget is not None and self.tally.charged >= self._budget

    def _stop_at_budget(self) -> None:
        """Send no further request; those in flight may be paid for, so they are awaited."""
        if not self._stopping:
            self.tally.over_cost = True
            self.stop(grace=self._limits.timeout)

    def _give_up(self, job: Job, error: ModelError, hopeless: str | None) -> None:
        self._moved_at = monotonic()
        self.tally.failed[error.kind] += 1
        if error.scope != "transient":
            self.tally.permanent[error.kind] += 1
            if error.kind != "context_length":
                self.tally.permanent_example = self.tally.permanent_example or str(error)
        detail, deadline = error.detail, self._limits.deadline
        if error.retry_after is not None and error.retry_after > deadline:
            wait = f"it asks to wait {error.retry_after:.0f} s"
            detail += f" ({wait}, longer than the deadline of {deadline:g} s)"
        self._writer.backlog.append(self._row(job, "failed", error_kind=error.kind, error_detail=detail))
        if self.tally.held:
            self._streak.worked = True
        sentence = hopeless or self._streak.given_up(error)
        if sentence is not None and not self._stopping:
            # Where nothing answers, there is nothing to wait for; an endpoint that rejects a request may be
            # answering others.
            may_answer = self._streak.worked or error.scope == "fatal"
            self.stop(sentence=sentence, grace=GRACE if may_answer else 0.0)

    def _row_of(self, job: Job, answer: Completion) -> Row:
        return self._row(job, "ok", **{name: getattr(answer, name) for name in _COLUMNS_OF_ANSWER})

    def _row(self, job: Job, status: Literal["ok", "failed"], **columns: Any) -> Row:
        return Row(
            key=job.claimed.key,
            model=self._model.fingerprint,
            sample=job.claimed.request.sample,
            status=status,
            attempts=job.attempts,
            created_at=time.time(),
            **columns,
        )

    async def _watch(self) -> None:
        """Show the progress, and cancel requests that exceed their time.

        Requests to local models have no such time, because they wait for their turn.
        All requests are checked periodically: one timer each would cost a tenth of the speed.
        """
        shortest = min(self._limits.timeout, self._limits.deadline)
        while True:
            now = -math.inf if self._local else monotonic()
            for number, (sent_at, allowed) in enumerate(zip(self._sending, self._allowed, strict=True)):
                if sent_at > 0.0 and sent_at + allowed < now:
                    self._sending[number] = math.inf
                    self._crew[number].cancel()
            self._display.update(self._snapshot())
            self._postpone_if_throttled()
            await asyncio.sleep(min(TICK, shortest / 8))

    def _postpone_if_throttled(self) -> None:
        """Stop, to be continued later, if the endpoint has only reported overload for `patience` seconds."""
        if self._patience is None or self._stopping:
            return
        throttled = self._throttled_at > self._moved_at
        if not throttled or monotonic() - self._moved_at < self._patience:
            return
        self.tally.postponed = True
        self.stop(grace=self._limits.timeout)  # requests in flight may be paid for

    def _snapshot(self) -> Snapshot:
        """Return the current state, including the cost so far."""
        tally, pace = self.tally, self._pace
        tally.cost = self._prices.cost(tally.model, tally.input_tokens, tally.output_tokens)
        now, finished = monotonic(), tally.answered + tally.failures
        self._finished_at.append((now, finished))
        since, before = self._finished_at[0]
        return Snapshot(
            tally=tally,
            in_flight=pace.in_flight,
            width=pace.width,
            rate=(finished - before) / (now - since) if now > since else math.nan,
            paused=max(0.0, pace.paused_until - now),
        )


@contextmanager
def _rarer_collections() -> Iterator[None]:
    """Raise the first threshold of the garbage collector during a run.

    A threshold that is higher (set by the user or another run) or 0 (off) is not changed.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < _YOUNG_OBJECTS:
        yield
        return
    gc.set_threshold(_YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@keys_masked
async def outcome_of(
    model: Model, messages: Sequence[Message], sampling: Sampling, sample: int
) -> Completion | ModelError:
    """Send one request to a model and return the completion, or a ModelError for any exception.

    Numbers of the completion that are not credible become unknown: they are summed, and booked in the budget
    of tokens.
    """
    try:
        answer = await model.complete(messages, sampling, sample)
        return replace(
            answer,
            input_tokens=token_count(answer.input_tokens),
            output_tokens=token_count(answer.output_tokens),
            latency=float(answer.latency) if answer.latency >= 0 else math.nan,
        )
    except ModelError as error:
        return error
    except TimeoutError:
        return ModelError("timeout", "no answer in time")
    except Exception as error:
        # A provider's bug on one unusual answer must not end a study. The message is not kept, because it
        # might contain a key.
        return ModelError("internal", f"the provider failed with {type(error).__name__}", scope="permanent")
