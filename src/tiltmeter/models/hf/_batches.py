"""Requests that come one by one in an event loop, answered in batches on a thread of their own.

The thread does everything that touches the tokenizer and the model (neither is safe to use from two threads), the loop
forms the batches: whatever waits when the thread is free, those of like length together, the request that has waited
longest among them. A batch that does not fit into memory is halved, and so are all later ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, TypeVar

from tiltmeter.models._base import Completion, Message, ModelError, Sampling

__all__ = ["Batches", "DoesNotFitError", "Job"]

_Result = TypeVar("_Result")

LINGER: Final = 0.005
"""Seconds without a new request after which a batch that is not full sets off: a run hands its requests over one after the other."""


class DoesNotFitError(Exception):
    """The batch does not fit into memory."""


@dataclass(eq=False, slots=True)
class Job:
    """One request on its way."""

    messages: Sequence[Message]
    sampling: Sampling
    sample: int
    future: asyncio.Future[Completion]
    begun: float = field(default_factory=perf_counter)
    group: Hashable = None
    """Jobs of the same group can be answered together; set when it is made ready, as are the next two."""
    length: int = 0
    """Tokens of its prompt."""
    ready: Any = None
    """What else the model keeps of it."""

    def given_up(self) -> bool:
        """Whether nobody waits for it any more; may be asked from any thread."""
        return self.future.cancelled()


Outcome = Completion | ModelError


class Batches:
    """Lives in one event loop, until `close`.

    Parameters
    ----------
    size
        Jobs in a batch at most.
    prepare
        Makes one job ready (its group and length); raises ModelError where it cannot be answered.
    answer
        The outcomes of a batch, in order; raises DoesNotFitError.
    executor
        One thread, on which both run.
    """

    def __init__(
        self,
        size: int,
        prepare: Callable[[Job], None],
        answer: Callable[[Sequence[Job]], Sequence[Outcome]],
        executor: ThreadPoolExecutor,
    ) -> None:
        self.size = size
        self._prepare, self._answer, self._executor = prepare, answer, executor
        self._open: set[Job] = set()
        self._fresh: list[Job] = []
        self._waiting: list[Job] = []
        self._worker: asyncio.Task[None] | None = None

    async def ask(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """One answer. Raises ModelError where there is none."""
        job = Job(messages, sampling, sample, asyncio.get_running_loop().create_future())
        self._open.add(job)
        self._fresh.append(job)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        try:
            return await job.future
        finally:
            self._open.discard(job)

    async def close(self) -> None:
        """Give up what waits, end the batch under way at its next token, and wait for that."""
        for job in self._open:
            job.future.cancel()
        if self._worker is not None:
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        while self._fresh or self._waiting:
            await self._gather()
            fresh, self._fresh = self._fresh, []
            if fresh:
                problems = await self._in_thread(self._make_ready, fresh)
                _settle(list(problems), list(problems.values()))
                self._waiting += fresh
            self._waiting = [job for job in self._waiting if not job.future.done()]
            if self._waiting:
                await self._run(self._take())

    async def _gather(self) -> None:
        """Wait for the requests that are being handed over just now."""
        seen = -1
        while seen < (now := len(self._fresh) + len(self._waiting)) < self.size:
            seen = now
            await asyncio.sleep(LINGER)

    def _take(self) -> list[Job]:
        """The job that has waited longest, with those of its group that leave the least difference in length."""
        oldest = self._waiting[0]
        alike = sorted((job for job in self._waiting if job.group == oldest.group), key=lambda job: job.length)
        count, place = min(self.size, len(alike)), alike.index(oldest)
        starts = range(max(0, place - count + 1), min(place, len(alike) - count) + 1)
        start = min(starts, key=lambda first: alike[first + count - 1].length - alike[first].length)
        batch = alike[start : start + count]
        taken = set(batch)
        self._waiting = [job for job in self._waiting if job not in taken]
        return batch

    async def _run(self, batch: list[Job]) -> None:
        try:
            outcomes = await self._in_thread(self._answer, batch)
        except DoesNotFitError:
            if len(batch) > 1:
                self.size = len(batch) // 2
                self._waiting = batch + self._waiting
            else:
                detail = f"a prompt of {batch[0].length:,} tokens and its answer do not fit into memory: use a smaller model, a narrower "
                detail += "-M dtype or fewer --max-tokens"
                _settle(batch, [ModelError("out_of_memory", detail, scope="permanent")])
        except Exception as error:
            said = next(iter(str(error).splitlines()), "")
            failure = ModelError("internal", f"the model failed with {type(error).__name__}: {said[:200]}", scope="permanent")
            _settle(batch, [failure] * len(batch))
        else:
            _settle(batch, outcomes)

    def _make_ready(self, jobs: Sequence[Job]) -> dict[Job, ModelError]:
        """Those that cannot be answered, and why."""
        problems: dict[Job, ModelError] = {}
        for job in jobs:
            try:
                self._prepare(job)
            except ModelError as error:
                problems[job] = error
            except Exception as error:
                problems[job] = ModelError("bad_request", f"the prompt cannot be read: {type(error).__name__}", scope="permanent")
        return problems

    async def _in_thread(self, function: Callable[[Sequence[Job]], _Result], jobs: list[Job]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, jobs)


def _settle(batch: Sequence[Job], outcomes: Sequence[Outcome]) -> None:
    for job, outcome in zip(batch, outcomes, strict=True):
        if job.future.done():
            continue
        if isinstance(outcome, Completion):
            job.future.set_result(outcome)
        else:
            job.future.set_exception(outcome)
