"""The calling process's side: batches in, results out, whatever the cluster loses meanwhile."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self

from tiltmeter.engine.ray._foreman import Foreman, News, Stage, reason
from tiltmeter.engine.ray._work import Failed, State, Work
from tiltmeter.errors import InputError, ProviderError, TiltmeterError

__all__ = ["MOST_LOSSES", "Team"]

MOST_LOSSES: Final = 5
"""Times in a row that a batch may be lost with all Ray does about it, before the run is given up."""
START: Final = 300.0
"""Seconds without any worker after which a run is given up: a cluster that grows by itself needs minutes."""
SILENCE: Final = 120.0
"""Seconds after which a foreman that says nothing counts as lost; to start one takes some seconds, on a busy machine more."""
_POLL: Final = 1.0
"""Seconds a foreman that has no news waits before it says so; each answer is a call, which costs a millisecond of some core."""


@dataclass(slots=True, eq=False)
class _Batch:
    payload: bytes
    report: Callable[[list[Any]], object]
    future: Future[Any] = field(default_factory=Future)
    parts: list[Any] = field(default_factory=list)
    """What was sent ahead: it is not done again where all begins again."""
    losses: int = 0


class Team:
    """The workers of the cluster, from entering to leaving: one work at a time, any number one after the other.

    `submit` may be called from any thread.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._lock = threading.Lock()
        self._open: dict[int, _Batch] = {}
        self._given = 0
        self._foreman: Any = None
        self._whose, self._digest, self._work, self._stopped = "", b"", -1, -1
        self._work_ref: Any = None
        self._left = threading.Event()
        self._error: TiltmeterError | None = None
        self._alive = 0.0
        """When a worker last showed that it lives (monotonic)."""
        self.states: dict[str, State] = {}
        """How each worker stands."""
        self._thread = threading.Thread(target=self._receive, name="tiltmeter-ray", daemon=True)

    def __enter__(self) -> Self:
        self._hire()
        self._alive = monotonic()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        import ray

        self._left.set()
        ray.kill(self._foreman)  # which ends the waiting of the thread, too
        self._thread.join()
        ray.kill(self._foreman)  # it may just have hired another one

    def assign(self, work: Work, whose: str) -> None:
        """From here on this is done, and what is left of the work before is dropped; workers that have the same already keep it.

        Raises
        ------
        InputError
            It cannot travel: it holds something that cannot be pickled.
        """
        import ray
        import ray.cloudpickle

        dumps: Callable[[Any], bytes] = ray.cloudpickle.dumps  # unlike pickle, it takes what a script defined itself
        try:
            pickled = dumps(work)
        except Exception as error:
            raise InputError(f"{whose} cannot be sent to the workers of a cluster ({reason(error)}); leave --engine ray out") from None
        digest = hashlib.sha256(pickled).digest()
        with self._lock:
            self._open = {}
            if digest != self._digest or self._stopped == self._work:
                self._whose, self._digest, self._work, self._work_ref = whose, digest, self._work + 1, ray.put(pickled)
                self._foreman.assign.remote(self._work, [self._work_ref])

    def submit(self, payload: Any, report: Callable[[list[Any]], object]) -> Future[Any]:
        """Hand out a batch; `report` is called, in a thread of the team, with the parts the worker sends ahead.

        The future ends with the result, or with the TiltmeterError for which there can be none.
        """
        batch = _Batch(pickle.dumps((self._work, payload)), report)
        batch.future.set_running_or_notify_cancel()  # from here on it ends by itself only
        with self._lock:
            if self._error is not None:
                batch.future.set_exception(self._error)
            else:
                self._give(batch)
        return batch.future

    def stop(self) -> None:
        """Have the workers begin nothing more of this work; batches under way come back with what was done."""
        with self._lock:
            self._stopped = self._work
            self._foreman.stop.remote(self._stopped)

    def _give(self, batch: _Batch) -> None:
        # Not waited for: if the foreman is lost, the thread that notices gives everything out again.
        self._open[self._given] = batch
        self._foreman.give.remote(self._given, batch.payload, batch.parts)
        self._given += 1

    def _hire(self) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Beside the calling process, where it is a part of the cluster: if that machine is lost, so is the run.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        actor = ray.remote(Foreman).options(num_cpus=0, max_concurrency=1000, scheduling_strategy=here)
        self._foreman = actor.remote(self._stage)
        self._given = 0
        if self._work_ref is not None:
            self._foreman.assign.remote(self._work, [self._work_ref])
            self._foreman.stop.remote(self._stopped)

    def _receive(self) -> None:
        import ray

        while not self._left.is_set():
            try:
                news = ray.get(self._foreman.take.remote(_POLL), timeout=SILENCE)
            except ray.exceptions.RayError as error:
                if self._left.is_set():
                    return
                news = News([], [], {}, reason(error))
            except Exception as error:
                self._fail(ProviderError(f"the connection to the cluster was lost ({type(error).__name__})"))
                return
            try:
                self._tell(news)
            except Exception as error:
                self._fail(ProviderError(f"the cluster cannot be used: {reason(error)}"))
                return

    def _tell(self, news: News) -> None:
        self.states = news.states
        if news.states:
            self._alive = monotonic()
        for number, parts in news.parts:
            with self._lock:
                batch = self._open.get(number)
            if batch is not None:
                batch.losses = 0
                batch.parts += parts
                batch.report(parts)
        for number, pickled in news.done:
            with self._lock:
                batch = self._open.pop(number, None)
            if batch is not None:
                _settle(batch.future, pickle.loads(pickled))  # noqa: S301 - our own workers' result, through Ray
        if news.broken is not None:
            self._begin_again(news.broken)
        elif monotonic() - self._alive > START:
            wanted = f"{self._stage.cpus:g} CPUs and {self._stage.gpus:g} GPUs"
            self._fail(
                ProviderError(f"the cluster has had no room for a worker of {wanted} for {START:.0f} s: see what it has with `ray status`")
            )

    def _begin_again(self, why: str) -> None:
        """Everything not yet done is given out anew, by a new foreman."""
        import ray

        ray.kill(self._foreman)
        with self._lock:
            batches = list(self._open.values())
            for batch in batches:
                batch.losses += 1
            lost = max((batch.losses for batch in batches), default=1)
            if lost <= MOST_LOSSES:
                self._open = {}
                self._hire()
                for batch in batches:
                    self._give(batch)
                return
        said = f"workers of the cluster were lost {MOST_LOSSES} times in a row ({why}); answers so far are kept"
        self._fail(ProviderError(f"{self._whose}: {said}"))

    def _fail(self, error: TiltmeterError) -> None:
        with self._lock:
            self._error = self._error or error
            batches, self._open = list(self._open.values()), {}
        for batch in batches:
            batch.future.set_exception(error)


def _settle(future: Future[Any], result: Any) -> None:
    if isinstance(result, Failed):
        future.set_exception(result.error())
    else:
        future.set_result(result)
