"""The engine on a Ray cluster.

Models and encoders run in workers, and the local engine sends requests to them. A worker is one actor. The
calling process keeps a pool of workers and opens sessions, in which each call goes to the worker with the
fewest calls. A worker keeps its model loaded between sessions, and loads another one if the work of a new
session differs. A call that is cancelled in the calling process, because of a timeout or the end of the
session, is also cancelled in its worker. A lost worker is replaced, and its calls go to another worker: calls
are answered at least once, and each result is used once. Ray's option `max_restarts` is not used, so that one
handle always refers to one process with one state.
"""

from __future__ import annotations

import asyncio
import gc
import math
import pickle
import platform
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, Self

from tiltmeter.engine._generation import outcome_of
from tiltmeter.engine._local_engine import Engine
from tiltmeter.engine._rate_limit import Limits
from tiltmeter.errors import InputError, ProviderError, TiltmeterError, check_known
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling
from tiltmeter.models._huggingface import BulkModel
from tiltmeter.models._memory import is_out_of_memory
from tiltmeter.models._text_models import CachedTextModel
from tiltmeter.models._weights import find_weights

BATCHES = 4
"""Maximum number of batches of texts per worker."""
MOST_LOSSES = 5
"""Consecutive losses of workers without any result after which a session fails, in addition to the number of
workers."""
START = 300
"""Seconds without any worker after which a session fails: an autoscaling cluster needs minutes."""
FIRST = 20.0
"""Seconds that a session waits for its first worker before it accepts calls, which then wait (and can be
interrupted)."""
IDLE = 15.0
"""Seconds after which an idle worker is stopped, if there are more than the minimum."""


_WHOLE = "[1-9][0-9]{0,5}"
_AMOUNT = "0?[.][0-9]*[1-9]|[1-9][0-9]{0,5}"
_WHOLE_WORDS = "a whole number of 1 or more"
_AMOUNT_WORDS = "a number above 0; above 1, Ray accepts only whole numbers"
_FORMS = {
    "workers": (f"{_WHOLE}(?:-{_WHOLE})?", f"{_WHOLE_WORDS}, or two as in 2-8"),
    "cpus": (_AMOUNT, _AMOUNT_WORDS),
    "gpus": (f"{_AMOUNT}|0", _AMOUNT_WORDS),
    "batch": (_WHOLE, _WHOLE_WORDS),
}
"""The allowed values of each option, as a pattern and as a description."""


@dataclass(frozen=True, slots=True)
class RayOptions:
    """The number of workers, the resources of each worker, and its maximum load."""

    workers: tuple[int, int] = (0, 0)
    """Minimum and maximum number of workers; 0: as many as fit into the cluster when it is opened."""
    cpus: float = 1.0
    """Cores per worker; may be a fraction."""
    gpus: float = 0.0
    """GPUs per worker; with a fraction, several workers share one."""
    batch: int | None = None
    """Maximum number of concurrent prompts per worker; None: the number of connections."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> RayOptions:
        """Parse the `-E` options; raise InputError for an unknown option or an invalid value."""
        values: dict[str, Any] = {}
        for name, value in options.items():
            check_known(name, sorted(_FORMS), f"-E {name}={value}: ray has no such option")
            form, wanted = _FORMS[name]
            if not re.fullmatch(form, value):
                raise InputError(f"-E {name}={value}: give {wanted}")
            numbers = [float(number) for number in value.split("-")]
            low, high = numbers[0], numbers[-1]
            if low > high:
                raise InputError(f"-E {name}={value}: the smaller number comes first, as in 2-8")
            if name == "workers":
                values[name] = (int(low), int(high))
            elif name == "batch":
                values[name] = int(low)
            else:
                values[name] = low
        return cls(**values)


def last_line(error: Exception) -> str:
    """Return the last line of a Ray error, without its traceback."""
    line = str(error).strip().rpartition("\n")[2]
    return f"{type(error).__name__}: {line}"


class ModelWork:
    """Completions of one model.

    A payload contains the arguments of `Model.complete`; a result is a Completion or a ModelError.
    """

    def __init__(self, model: Model) -> None:
        self.whose = model.name
        self._model = model
        self._fingerprint = model.fingerprint

    async def start(self) -> None:
        """Open the model."""
        if self._model.fingerprint != self._fingerprint:
            difference = f"{self._fingerprint} here, {self._model.fingerprint} on a worker"
            raise ProviderError(
                f"{self.whose} differs between machines: {difference}; "
                "use the same files on all machines, and set device and dtype"
            )
        await self._model.__aenter__()

    async def do(self, payload: tuple[Sequence[Message], Sampling, int]) -> Completion | ModelError:
        """Return the result of one call."""
        return await outcome_of(self._model, *payload)

    async def close(self) -> None:
        """Close the model."""
        await self._model.__aexit__(None, None, None)


class VectorWork:
    """Vectors of one encoder, or scores of one classifier.

    A payload contains what to compute, and a batch of texts.

    A result is an array, a MemoryError if the batch does not fit into the memory of the worker, or a
    TiltmeterError.
    """

    def __init__(self, kind: type[CachedTextModel], name: str, device: str, identity: str) -> None:
        self.whose = f"the {kind.kind} {name}"
        self._kind = kind
        self._name = name
        self._device = device
        self._identity = identity

    async def start(self) -> None:
        """Find the weights, which are loaded for the first batch."""
        self._model = self._kind(self._name, store=None, device=self._device)
        if self._model.identity != self._identity:
            raise ProviderError(f"{self.whose} differs between machines: use the same files on all machines")

    async def do(self, payload: tuple[str, Sequence[str]]) -> Any:
        """Return the result of one call."""
        try:
            return await asyncio.to_thread(self._model.compute, *payload)
        except Exception as error:
            return MemoryError() if is_out_of_memory(error) else _failure_of(error)

    async def close(self) -> None:
        """Do nothing: the weights are freed with the last reference to them."""


class RayWorker:
    """A worker of the pool: an asynchronous actor."""

    def __init__(self) -> None:
        self._pickled = b""
        self._work: Any = None
        self._beginning = asyncio.Lock()

    async def begin(self, pickled: bytes, release: str) -> TiltmeterError | None:
        """Load the work of a session (pickled by this release of Tiltmeter), unless it is already loaded."""
        async with self._beginning:
            if pickled != self._pickled:
                try:
                    await self._load(pickled, release)
                except Exception as error:
                    return _failure_of(error)
            return None

    async def do(self, payload: Any) -> Any:
        """Return the result of one call."""
        return await self._work.do(payload)

    async def _load(self, pickled: bytes, release: str) -> None:
        installed = version("tiltmeter")
        if installed != release:
            raise ProviderError(
                f"the worker has tiltmeter {installed}, not {release}: "
                "install the same version on every node of the cluster"
            )
        if self._work is not None:
            await self._work.close()
            self._work, self._pickled = None, b""
            gc.collect()
        try:
            work = pickle.loads(pickled)  # noqa: S301 - it comes from the calling process, through Ray
        except (ImportError, AttributeError, OSError) as error:
            raise ProviderError(
                f"a required package or file is missing: {error}; install it on every node of the cluster"
            ) from None
        await work.start()
        self._work, self._pickled = work, pickled


def _failure_of(error: Exception) -> TiltmeterError:
    if isinstance(error, TiltmeterError):
        return type(error)(f"{error} (on the worker {platform.node()})")
    # The message is not kept, because it might contain a key.
    return ProviderError(f"the worker {platform.node()} failed with {type(error).__name__}")


class WorkerPool:
    """The workers of a cluster, from the first session to `close`; `lock` permits one session at a time."""

    def __init__(self, options: RayOptions) -> None:
        self.options = options
        self.least, self.most = options.workers
        self.lock = threading.RLock()
        self.actors: list[Any] = []

    def hire(self) -> Any:
        """Create another worker, which starts when the cluster has room for it."""
        import ray

        actor = ray.remote(RayWorker).options(num_cpus=self.options.cpus, num_gpus=self.options.gpus).remote()
        self.actors.append(actor)
        return actor

    def dismiss(self, actor: Any) -> None:
        """Stop a worker."""
        import ray

        self.actors.remove(actor)
        ray.kill(actor)

    def cancel(self, call: Any) -> None:
        """Cancel a call in progress."""
        import ray

        ray.cancel(call)

    def close(self) -> None:
        """Stop all workers."""
        while self.actors:
            self.dismiss(self.actors[0])


class PoolSession:
    """One piece of work on the workers of a pool, inside one event loop.

    If the work cannot be done, `failure` contains the error: it is the result of all calls, and is raised at
    the end.

    Parameters
    ----------
    slots
        Maximum number of concurrent calls per worker; for more calls, workers are added.

    Raises
    ------
    InputError
        The work contains something that cannot be pickled.
    """

    def __init__(self, pool: WorkerPool, work: ModelWork | VectorWork, slots: int) -> None:
        import ray.cloudpickle

        self._pool = pool
        self._whose = work.whose
        self._slots = slots
        try:
            # Unlike pickle, it supports objects defined in a script.
            self._work = bytes(ray.cloudpickle.dumps(work))  # type: ignore[no-untyped-call]
        except Exception as error:
            problem = f"cannot be sent to the workers of a cluster ({last_line(error)})"
            raise InputError(f"{work.whose} {problem}; remove --engine ray") from None
        self.failure: TiltmeterError | None = None
        self._calls: dict[Any, int] = {}
        """Number of calls of each worker that is ready."""
        self._used: set[Any] = set()
        """Workers that got a call since the last check for idle workers."""
        self._free: asyncio.PriorityQueue[tuple[int, int, Any]] = asyncio.PriorityQueue()
        """Free slots: rank of the slot within its worker, serial number, worker. Slots of the least busy
        workers come first."""
        self._numbers = count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting = self._losses = 0

    async def __aenter__(self) -> Self:
        while len(self._pool.actors) < self._pool.least:
            self._pool.hire()
        begun = [asyncio.create_task(self._begin(actor)) for actor in self._pool.actors]
        self._tasks += [*begun, asyncio.create_task(self._dismiss_idle())]
        await asyncio.wait(begun, timeout=FIRST, return_when=asyncio.FIRST_COMPLETED)
        if self.failure:
            await self.__aexit__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        if self.failure:
            raise self.failure

    async def call(self, payload: Any) -> Any:
        """Return the result of a worker for this payload, or the TiltmeterError that prevents one."""
        while True:
            self._waiting += 1
            self._grow()
            try:
                place = await self._free.get()
            finally:
                self._waiting -= 1
            actor = place[2]
            if self.failure:
                self._free.put_nowait(place)  # for the next waiting call
                return self.failure
            if actor not in self._calls:
                continue  # it was lost or dismissed
            self._calls[actor] += 1
            self._used.add(actor)
            try:
                with self._noticing_losses(actor):
                    call = actor.do.remote(payload)
                    result = await call
                    self._losses = 0
                    return result
            except asyncio.CancelledError:
                self._pool.cancel(call)
                raise
            finally:
                if actor in self._calls:
                    self._calls[actor] -= 1
                    self._free.put_nowait(place)

    def _grow(self) -> None:
        """Add a worker if more calls are waiting than the ready workers can take."""
        all_ready = len(self._calls) == len(self._pool.actors)
        may_hire = len(self._pool.actors) < self._pool.most
        if all_ready and may_hire and self._waiting > self._free.qsize():
            self._hire()

    def _hire(self) -> None:
        self._tasks.append(asyncio.create_task(self._begin(self._pool.hire())))

    async def _begin(self, actor: Any) -> None:
        """Make a worker available for calls when it has started and loaded the work."""
        begun = asyncio.ensure_future(actor.begin.remote(self._work, version("tiltmeter")))
        with self._noticing_losses(actor):
            while not (await asyncio.wait([begun], timeout=START))[0]:
                if not self._calls:
                    options = self._pool.options
                    worker = f"a worker with {options.cpus:g} CPUs and {options.gpus:g} GPUs"
                    problem = f"the cluster has had no room for {worker} for {START} s"
                    self._fail(ProviderError(f"{problem}: check its resources with `ray status`"))
                    return
            failure = begun.result()
            if failure:
                self._fail(failure)
                return
            self._calls[actor] = 0
            self._used.add(actor)
            for before in range(self._slots):
                self._free.put_nowait((before, next(self._numbers), actor))
            self._grow()

    @contextmanager
    def _noticing_losses(self, actor: Any) -> Iterator[None]:
        """Replace the worker if it is lost during the block; end the session if the cluster is lost."""
        import ray

        try:
            yield
        except ray.exceptions.RayError as error:
            self._replace(actor, error)
        except Exception as error:
            self._fail(ProviderError(f"the connection to the cluster was lost ({type(error).__name__})"))

    async def _dismiss_idle(self) -> None:
        """Stop idle workers periodically, if there are more than the minimum."""
        while True:
            self._used.clear()
            await asyncio.sleep(IDLE)
            idle = [actor for actor, calls in self._calls.items() if not calls and actor not in self._used]
            for actor in idle:
                if len(self._pool.actors) > self._pool.least:
                    del self._calls[actor]
                    self._pool.dismiss(actor)

    def _fail(self, failure: TiltmeterError) -> None:
        """End the session; all calls return this error."""
        self.failure = self.failure or failure
        self._free.put_nowait((-1, 0, None))

    def _replace(self, actor: Any, error: Exception) -> None:
        """Replace a lost worker; its calls are repeated."""
        if actor not in self._pool.actors:  # already replaced by another of its calls
            return
        self._pool.dismiss(actor)
        self._calls.pop(actor, None)
        self._losses += 1
        if self._losses < MOST_LOSSES + len(self._pool.actors):
            self._hire()
        else:
            cause = f"workers of the cluster were lost {self._losses} times in a row ({last_line(error)})"
            self._fail(ProviderError(f"{self._whose}: {cause}; answers so far are kept"))


class RemoteModel(PoolSession):
    """A model whose completions come from the workers of a pool.

    The local engine treats it like any other model.

    Journal, retries, rate limits, timeouts and progress are those of the local engine, in the calling
    process.
    """

    def __init__(self, pool: WorkerPool, model: Model, slots: int, *, local: bool) -> None:
        super().__init__(pool, ModelWork(model), slots)
        self.name = model.name
        self.fingerprint = model.fingerprint
        self.endpoint = model.endpoint
        self.local = local

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See `Model.complete`."""
        result = await self.call((messages, sampling, sample))
        if isinstance(result, Completion):
            return result
        if isinstance(result, ModelError):
            raise result
        raise ModelError("internal", str(result), scope="fatal")


class RemoteVectors:
    """Computes batches of texts in the workers of a pool.

    It serves an encoder or a classifier of the calling process.
    """

    def __init__(self, pool: WorkerPool, work: VectorWork) -> None:
        self._pool = pool
        self._work = work
        self.workers = pool.most

    def __call__(self, what: str, batches: Sequence[Sequence[str]]) -> list[Any]:
        """Return one array per batch.

        Raise MemoryError if a batch does not fit into the memory of a worker.
        """
        # A thread, because this one may already run an event loop (a notebook).
        with self._pool.lock, ThreadPoolExecutor(1) as thread:
            results = thread.submit(asyncio.run, self._results(what, batches)).result()
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    async def _results(self, what: str, batches: Sequence[Sequence[str]]) -> list[Any]:
        async with PoolSession(self._pool, self._work, BATCHES) as session:
            return await asyncio.gather(*(session.call((what, batch)) for batch in batches))


class RayEngine(Engine):
    """The engine on a cluster. The workers do one kind of work at a time.

    For a remote endpoint, the limits apply to all workers together, which share the connections. For a model
    that runs in the workers, each worker may have `max_connections` requests in flight.
    """

    def __init__(self, name: str, options: RayOptions) -> None:
        self.name = name
        self._options = options
        self._device = "cuda" if options.gpus else "cpu"
        self._pool = WorkerPool(options)

    @contextmanager
    def _placed(self, model: Model, limits: Limits) -> Iterator[tuple[Model, Limits]]:
        workers = self._pool.most
        local = bool(getattr(model, "local", False))
        connections = limits.max_connections
        slots = self._options.batch or (connections if local else math.ceil(connections / workers))
        if isinstance(model, BulkModel):
            if self._options.gpus < 1:
                problem = "-M runner=vllm needs whole GPUs for each worker"
                advice = "give -E gpus=1 or more, or remove runner=vllm"
                raise ProviderError(f"{model.name}: {problem}: {advice}")
            model = copy(model)
            model.gpus = int(self._options.gpus)
        if local:
            limits = replace(limits, max_connections=slots * workers)
        with self._pool.lock:
            yield RemoteModel(self._pool, model, slots, local=local), limits

    def close(self) -> None:
        """Stop the workers; they are created again when needed."""
        self._pool.close()

    def _elsewhere(self, kind: type[CachedTextModel], name_or_path: str | Path) -> dict[str, Any]:
        """Return arguments that compute vectors in the workers.

        The store is read and written in the calling process.
        """
        place = Path(name_or_path).expanduser()
        name = str(place.absolute() if place.is_dir() else name_or_path)
        work = VectorWork(kind, name, self._device, find_weights(name).identity)
        return {"device": self._device, "elsewhere": RemoteVectors(self._pool, work)}
