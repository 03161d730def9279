"""From finished requests to the journal, at least twice a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from time import monotonic
from typing import Final

from tiltmeter.engine._journal import Journal, Row
from tiltmeter.engine._owner import Owner

__all__ = ["Writer"]

INTERVAL: Final = 0.25
HEARTBEAT: Final = 10.0


class Writer:
    """Gathers rows and commits them in batches, on the thread that owns the journal, so that no request waits for a disk.

    `committed` is called, in the event loop, with the rows of each commit.
    """

    def __init__(self, journal: Journal, executor: Executor, owner: Owner, committed: Callable[[list[Row]], None]) -> None:
        self._journal, self._executor, self._owner, self._committed = journal, executor, owner, committed
        self._rows: list[Row] = []
        self._writing: list[Row] = []
        self._beat = monotonic()

    @property
    def backlog(self) -> int:
        """Rows not yet committed."""
        return len(self._rows) + len(self._writing)

    def add(self, row: Row) -> None:
        """Queue a row for the next commit."""
        self._rows.append(row)

    async def run(self) -> None:
        """Commit every quarter of a second until cancelled; raises InputError when the journal refuses."""
        due = monotonic() + INTERVAL
        while True:
            await asyncio.sleep(max(0.0, due - monotonic()))
            due = monotonic() + INTERVAL  # from here and not from the end of the commit: a slow disk must not make commits rarer still
            await self.flush()

    async def flush(self) -> None:
        """Commit what is queued. When the journal refuses, the rows stay queued and its InputError is raised."""
        loop = asyncio.get_running_loop()
        if self._rows:
            self._writing, self._rows = self._rows, []
            # Shielded: a commit under way when the run is cancelled is waited for, and must not be done twice.
            commit = loop.run_in_executor(self._executor, self._journal.record, self._writing)
            try:
                await asyncio.shield(commit)
            except asyncio.CancelledError:
                await asyncio.wait([commit])
                self._settle(commit)
                raise
            except BaseException:
                self._settle(commit)
                raise
            self._settle(commit)
        if monotonic() - self._beat > HEARTBEAT:
            self._beat = monotonic()
            await loop.run_in_executor(self._executor, self._journal.beat, self._owner)

    def _settle(self, commit: asyncio.Future[None]) -> None:
        rows, self._writing = self._writing, []
        if commit.cancelled() or commit.exception() is not None:
            self._rows = rows + self._rows
        else:
            self._committed(rows)
