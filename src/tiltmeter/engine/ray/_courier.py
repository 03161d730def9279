"""Parts of results, from a worker to the foreman."""

from __future__ import annotations

import threading
from typing import Any, Final

__all__ = ["GATHER", "Courier"]

GATHER: Final = 0.25
"""Seconds in which parts are gathered: each call costs time of all processes on its way, which the workers of a busy machine lack."""


class Courier:
    """Takes along what all threads of a worker have to report, a few times a second. Lives as long as the worker.

    Parameters
    ----------
    foreman
        Handle of the actor; its `parts` is called.
    """

    def __init__(self, foreman: Any) -> None:
        self._foreman = foreman
        self._changed = threading.Condition()
        self._gathered: dict[int, list[Any]] = {}
        self._given = self._arrived = 0
        self._hurry = threading.Event()
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="tiltmeter-courier", daemon=True).start()

    def give(self, batch: int, part: Any) -> None:
        """Have a part of the result of a batch sent."""
        with self._changed:
            self._gathered.setdefault(batch, []).append(part)
            self._given += 1
            self._changed.notify_all()

    def settle(self) -> None:
        """Return when all that was given so far has arrived. Raises the error that keeps it from arriving."""
        with self._changed:
            given = self._given
            if self._arrived < given:
                self._hurry.set()
            self._changed.wait_for(lambda: self._arrived >= given or self._error is not None)
            if self._arrived < given and self._error is not None:
                raise self._error

    def _run(self) -> None:
        import ray

        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._gathered))
            self._hurry.wait(GATHER)
            with self._changed:
                self._hurry.clear()
                gathered, self._gathered = self._gathered, {}
            try:
                ray.get(self._foreman.parts.remote(gathered))
            except Exception as error:
                with self._changed:
                    self._error = error  # most likely the foreman is gone, and this worker soon will be; who waits must not wait for ever
                    self._changed.notify_all()
                return
            with self._changed:
                self._arrived += sum(len(parts) for parts in gathered.values())
                self._changed.notify_all()
