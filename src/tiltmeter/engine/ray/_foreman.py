"""The actor that runs the Ray Data stages, and stands between them and the calling process.

It lives in the cluster, so that the calling process need not be a part of it (Ray Data does not run through a Ray client).
Batches come in one by one, and workers keep their models loaded from the first to the last: the dataset's source is a task
that goes on asking the foreman for the next batch. Batches are numbered, and the foreman keeps each until it is done, so that a source
or a worker that Ray starts again finds the same batch under the same number.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tiltmeter.engine.ray._work import State, Worker, table

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Dataset

__all__ = ["CALLS", "Foreman", "News", "Stage", "quieten", "reason"]

CALLS: Final = 3
"""Batches a worker has under way at once, so that the end of one does not leave it idle."""
WAITING: Final = 1
"""Batches that lie ready at a worker beyond these."""
RETRIES: Final = 3
"""Times Ray itself gives a batch to another worker after the one that had it was lost."""
PATIENCE: Final = 10.0
"""Seconds without a sign of life after which a worker counts as gone."""


class Stage(NamedTuple):
    """The pool of workers."""

    workers: tuple[int, int]
    cpus: float
    gpus: float
    release: str
    """Version of tiltmeter that workers must have."""


class News(NamedTuple):
    """What happened since the foreman was last asked."""

    parts: list[tuple[int, list[Any]]]
    """Parts of results by batch, in order."""
    done: list[tuple[int, bytes]]
    """Pickled results by batch."""
    states: dict[str, State]
    """All workers that live."""
    broken: str | None
    """Why the stages ended before they should, None while they run."""


class Foreman:
    """An asynchronous actor; see the module's docstring."""

    def __init__(self, stage: Stage) -> None:
        from tiltmeter.engine.ray._resting import stir

        self._stage, self._stir = stage, stir
        self._work: list[Any] = []
        self._latest = -1
        self._open: dict[int, bytes] = {}
        self._blocks: list[int] = []
        """The batch in each block, as the source counts them: one that may be lost is put into a block more."""
        self._at: dict[int, str] = {}
        """Where each batch was begun last."""
        self._stopped = -1
        self._sent: dict[int, list[Any]] = {}
        self._news = News([], [], {}, None)
        self._seen: dict[str, float] = {}
        self._changed = asyncio.Condition()
        self._running: asyncio.Task[None] | None = None

    async def assign(self, number: int, work: list[Any]) -> None:
        """From here on this is the work; a list with a reference to its pickle, which stays a reference on the way."""
        self._latest, self._work = number, work

    async def work(self) -> list[Any]:
        """For a worker: see `assign`."""
        return self._work

    async def give(self, batch: int, payload: bytes, parts: list[Any]) -> None:
        """Take in a batch, and the parts of its result that a foreman before has told of."""
        self._open[batch] = payload
        self._sent[batch] = parts
        self._blocks.append(batch)
        self._stir()
        await self._tell()

    async def block(self, number: int) -> tuple[int, bytes]:
        """For the source: batch and payload of this block, as soon as it is there; the payload is empty where the batch is done."""
        async with self._changed:
            await self._changed.wait_for(lambda: number < len(self._blocks))
        return self._blocks[number], self._open.get(self._blocks[number], b"")

    async def begun(self, batch: int, worker: str) -> list[Any] | None:
        """For a worker that would begin with a batch: the parts of it that one before it sent, None where there is nothing to do."""
        if batch not in self._open or self._at.get(batch, worker) in self._seen.keys() - {worker}:
            return None
        self._at[batch] = worker
        return self._sent[batch]

    async def parts(self, gathered: dict[int, list[Any]]) -> None:
        """For a worker: parts of results by batch."""
        wanted = [(batch, parts) for batch, parts in gathered.items() if batch in self._open]
        for batch, parts in wanted:
            self._sent[batch] += parts
        self._news.parts.extend(wanted)
        await self._tell()

    async def ended(self) -> None:
        """For a worker: that the result of a batch is on its way."""
        self._stir()

    async def pulse(self, worker: str, state: State) -> tuple[int, int]:
        """For a worker: that it lives; gives the latest work, and the latest in which nothing is to be begun any more (-1: none)."""
        if worker not in self._seen:
            self._stir()
        self._seen[worker] = monotonic()
        self._news.states[worker] = state
        return self._latest, self._stopped

    async def _look_after(self) -> None:
        """Notice workers that are gone. What they had, or had lying ready, may never come back: Ray tries to start a lost worker anew, and
        keeps its batches for it, even where no machine is left for it."""
        gone = [name for name, at in self._seen.items() if monotonic() - at > PATIENCE]
        for name in gone:
            del self._seen[name], self._news.states[name]
        if gone:
            self._blocks += [batch for batch in self._open if self._at.get(batch) not in self._seen]
            self._stir()
            await self._tell()

    async def stop(self, work: int) -> None:
        """Have the workers begin nothing more of this work."""
        self._stopped = work

    async def take(self, seconds: float) -> News:
        """What is new, as soon as there is something, after `seconds` at the latest; the stages begin with the first asking."""
        import ray

        if self._running is None:
            self._running = asyncio.create_task(self._run(ray.get_runtime_context().current_actor))
        await self._look_after()
        async with self._changed:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait_for(self._is_new)
        told = self._news
        self._news = News([], [], dict(told.states), told.broken)
        return told

    def _is_new(self) -> bool:
        return bool(self._news.parts or self._news.done or self._news.broken)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _run(self, me: Any) -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.to_thread(self._stages, me, loop)
            said = "the stages ended"
        except Exception as error:
            said = reason(error)
        self._news = self._news._replace(broken=said)
        await self._tell()

    def _stages(self, me: Any, loop: asyncio.AbstractEventLoop) -> None:
        import ray

        from tiltmeter.engine.ray._resting import Resting

        quieten()
        context = ray.data.DataContext.get_current()
        context.custom_execution_callback_classes = [Resting]
        # There are no more batches than workers can have: the source gives them all, not two from one look to the next.
        context._max_num_blocks_in_streaming_gen_buffer = None  # type: ignore[assignment]
        blocks: Iterator[Any] = iter(_dataset(me, self._stage).iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0))
        for rows in blocks:
            for number, result in zip(rows["number"].to_pylist(), rows["payload"].to_pylist(), strict=True):
                asyncio.run_coroutine_threadsafe(self._finished(number, result), loop).result()

    async def _finished(self, batch: int, result: bytes) -> None:
        if result and self._open.pop(batch, None) is not None:
            del self._sent[batch]
            self._at.pop(batch, None)
            self._news.done.append((batch, result))
            await self._tell()


def _dataset(me: Any, stage: Stage) -> Dataset:
    import ray

    source = ray.data.read_datasource(_source(me), override_num_blocks=1, ray_remote_args={"num_cpus": 0})
    least, most = stage.workers
    made: Dataset = source.map_batches(
        Worker,
        batch_size=None,
        batch_format="pyarrow",
        zero_copy_batch=True,
        fn_constructor_args=(me, stage.release),
        compute=ray.data.ActorPoolStrategy(
            min_size=least,
            max_size=most,
            max_tasks_in_flight_per_actor=CALLS + WAITING,
            max_concurrent_calls_per_actor=CALLS,
            enable_true_multi_threading=True,
        ),
        num_cpus=stage.cpus,
        num_gpus=stage.gpus or None,
        max_restarts=-1,
        max_task_retries=RETRIES,
    )
    return made


def _source(me: Any) -> Any:
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class Batches(Datasource):
        """Every batch the foreman is given; there is no last one, the stages end with the foreman."""

        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None) -> list[ReadTask]:
            return [ReadTask(lambda: _batches(me), BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None))]

    make: Callable[[], Any] = Batches
    return make()


def _batches(foreman: Any) -> Iterator[pa.Table]:
    import ray

    for number in count():
        yield table(*ray.get(foreman.block.remote(number)))


def quieten() -> None:
    """Settings of Ray Data in this process: nothing is shown, each batch is a block of its own, nothing is given up early."""
    import ray

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.enable_auto_log_stats = context.verbose_stats_logs = False
    context.target_max_block_size = 1  # bytes: a row is never divided, and never waits for another to fill its block
    context.target_min_block_size = 1
    context.memory_usage_poll_interval_s = None  # nobody reads it
    context.execution_no_progress_timeout_s = -1  # an answer may take long, and the next batch longer
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def reason(error: Exception) -> str:
    """The last line of what Ray said, without its traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:300]}" if lines else type(error).__name__
