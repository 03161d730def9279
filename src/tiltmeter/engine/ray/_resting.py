"""Rest between two looks of Ray Data at its stages. Imported where Ray is, by the process that runs the stages."""

from __future__ import annotations

from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Final

from ray.data._internal.execution.execution_callback import ExecutionCallback

if TYPE_CHECKING:
    from ray.data._internal.execution.streaming_executor import StreamingExecutor

__all__ = ["Resting", "stir"]

REST: Final = 0.5
"""Seconds between two looks where nothing is told to have happened; Ray Data by itself takes ten looks a second of 2 to 3 ms each, which
is too much where the workers have all the cores, for batches that take seconds."""
AWAKE: Final = 0.4
"""Seconds without a rest after something has happened: where the cores are busy, it takes some looks to see all that follows."""
_stirred: Final = Event()
_latest = 0.0


def stir() -> None:
    """Something has happened that the stages should look at: a batch came, one is done, a worker is new."""
    global _latest
    _latest = monotonic()
    _stirred.set()


class Resting(ExecutionCallback):
    """Called after each look; Ray Data sends the class, not an object, to every process of the stages."""

    def on_execution_step(self, executor: StreamingExecutor) -> None:
        """Rest, until something stirs."""
        _stirred.clear()
        if monotonic() - _latest > AWAKE:
            _stirred.wait(REST)
