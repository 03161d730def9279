"""What runs inside a worker of the cluster: one object that does the work, and the Ray Data stage that hands it batches."""

from __future__ import annotations

import gc
import pickle
import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from tiltmeter.engine.ray._courier import Courier
from tiltmeter.errors import InputError, ProviderError, TiltmeterError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PULSE", "Failed", "Report", "State", "Work", "Worker", "table"]

PULSE: Final = 1.0
"""Seconds between two signs of life of a worker."""
Report = Callable[[Any], None]
"""Sends a part of a result ahead, so that it is kept even if the worker is lost before it has the rest."""


class State(NamedTuple):
    """How a worker stands, for the display."""

    in_flight: int = 0
    width: int = 0
    paused: float = 0.0


class Failed(NamedTuple):
    """Why work cannot be done: the sentence of a `TiltmeterError`, and whether it was the user's input."""

    sentence: str
    input: bool

    def error(self) -> TiltmeterError:
        """The error it was."""
        return (InputError if self.input else ProviderError)(self.sentence)


class Work(Protocol):
    """Travels to each worker as a pickle, and stays there until other work comes."""

    def start(self) -> None:
        """Make ready: read weights, open sessions. Called once, in the worker."""
        ...

    def do(self, payload: Any, before: Sequence[Any], report: Report) -> Any:
        """The result for one payload; called from several threads at once. Raises TiltmeterError where none can do it.

        `before` are the parts that a worker now lost has reported of it.
        """
        ...

    def state(self) -> State:
        """See `State`."""
        ...

    def stop(self) -> None:
        """Begin nothing more; what is under way is finished and given back."""
        ...


class _Held(NamedTuple):
    """The work a worker has at present; `work` is None where it could not be made ready."""

    number: int
    work: Work | None
    failed: Failed | None


class Worker:
    """The callable of the stage: gets a table of one row, the number and the pickled payload of a batch, and gives its result so."""

    def __init__(self, foreman: Any, release: str) -> None:
        import ray

        self._foreman, self._release = foreman, release
        self._courier = Courier(foreman)
        self._held = _Held(-1, None, None)
        self._lock = threading.Lock()
        self._name = ray.get_runtime_context().get_actor_id()
        threading.Thread(target=self._pulse, name="tiltmeter-pulse", daemon=True).start()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """One batch."""
        result = self._result(batch)
        self._foreman.ended.remote()
        return result

    def _result(self, batch: pa.Table) -> pa.Table:
        import ray

        (number,), (pickled,) = batch["number"].to_pylist(), batch["payload"].to_pylist()
        before = ray.get(self._foreman.begun.remote(number, self._name)) if pickled else None
        if before is None:
            return table(number, b"")
        wanted, payload = pickle.loads(pickled)  # noqa: S301 - it comes from the calling process, through Ray
        held = self._take_up(wanted)
        if held.number != wanted or held.work is None:
            return table(number, pickle.dumps(held.failed))
        try:
            result = held.work.do(payload, before, lambda part: self._courier.give(number, part))
        except TiltmeterError as error:
            result = Failed(str(error), isinstance(error, InputError))
        except Exception as error:
            result = _slip(error)
        self._courier.settle()  # what was sent ahead has arrived before the batch counts as done
        return table(number, pickle.dumps(result))

    def _take_up(self, wanted: int) -> _Held:
        """Have the work of this number ready, in place of an older one; an older one itself is done with."""
        import ray

        with self._lock:
            if wanted > self._held.number:
                self._held = _Held(wanted, None, None)
                _free_memory()
                try:
                    (work,) = ray.get(self._foreman.work.remote())
                    self._held = _Held(wanted, _ready(ray.get(work), self._release), None)
                except TiltmeterError as error:
                    failed = Failed(f"{error} (on the worker {platform.node()})", isinstance(error, InputError))
                    self._held = _Held(wanted, None, failed)
                except Exception as error:
                    self._held = _Held(wanted, None, _slip(error))
            return self._held

    def _pulse(self) -> None:
        import ray

        begun = -1
        while True:
            held = self._held
            state = State() if held.work is None else held.work.state()
            try:
                latest, stopped = ray.get(self._foreman.pulse.remote(self._name, state))
            except ray.exceptions.RayError:
                return  # the foreman is gone, and this worker soon will be
            if latest > max(begun, held.number, stopped):
                begun = latest  # before the first batch comes: all workers read their weights at the same time, none of them late
                threading.Thread(target=self._take_up, args=(latest,), name="tiltmeter-ready", daemon=True).start()
            if stopped >= held.number and held.work is not None:
                held.work.stop()
            time.sleep(PULSE)


def _ready(pickled: bytes, release: str) -> Work:
    if version("tiltmeter") != release:
        raise ProviderError(
            f"this has tiltmeter {version('tiltmeter')} and not {release}: install the same version on every node of the cluster"
        )
    try:
        work: Work = pickle.loads(pickled)  # noqa: S301 - it comes from the calling process, through Ray
    except (ImportError, AttributeError, OSError) as error:
        raise ProviderError(f"something the work needs is missing: {error}; install it on every node of the cluster") from None
    work.start()
    return work


def _free_memory() -> None:
    """Give back what the work before took of a GPU."""
    gc.collect()
    if "torch" in sys.modules:
        cuda = sys.modules["torch"].cuda
        if cuda.is_available():
            cuda.empty_cache()


def table(number: int, payload: bytes) -> pa.Table:
    """A block of the stages: one row. Texts are pickled, since Arrow's strings cannot hold every text a model may give."""
    import pyarrow as pa

    columns = [pa.array([number], pa.int64()), pa.array([payload], pa.large_binary())]
    return pa.Table.from_arrays(columns, names=["number", "payload"])


def _slip(error: Exception) -> Failed:
    # Its message is not given on, for it might hold a key.
    return Failed(f"the worker {platform.node()} failed with {type(error).__name__}", False)
