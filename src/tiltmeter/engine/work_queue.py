"""What a run does at the journal: requests are looked up and claimed before they are asked, finished rows are committed in batches."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Executor
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tiltmeter.errors import InputError
from tiltmeter.models import Message, Sampling
from tiltmeter.models.base import request_parameters

if TYPE_CHECKING:
    from tiltmeter.engine.journal import Journal, Owner, Row
    from tiltmeter.engine.progress import Tally

_Result = TypeVar("_Result")

LOOK_UP = 1000
"""Requests looked up at a time."""
POLL = 0.25
"""Seconds between two looks at requests that another process is asking."""
MOST_AWAITED = 2000
COMMIT_INTERVAL = 0.25
HEARTBEAT = 10.0
_KEY_VERSION = b"tiltmeter completion 1\n"


class Request(NamedTuple):
    """One prompt to be answered once; `sample` numbers independent answers to the same messages, from 0."""

    messages: tuple[Message, ...]
    sample: int = 0


class Keys:
    """Makes the journal keys of one model with one set of sampling parameters.

    What all requests share is hashed once, so that a key costs about two microseconds.

    Raises
    ------
    InputError
        A vendor extra is not a JSON value.
    """

    def __init__(self, fingerprint: str, sampling: Sampling) -> None:
        shared = json.dumps([fingerprint, _canonical_sampling(sampling)]).encode("ascii")
        self._shared = hashlib.sha256(_KEY_VERSION + b"%d\n" % len(shared) + shared)

    def __call__(self, messages: Sequence[Message], sample: int) -> bytes:
        """The 32-byte key: SHA-256 of an encoding in which every part is preceded by its length, so no two requests collide."""
        digest = self._shared.copy()
        parts = [b"%d" % sample]
        for role, content in messages:
            body = content.encode("utf-8", "surrogatepass")
            parts.append(b"%s %d\n%s" % (role.encode("utf-8", "surrogatepass"), len(body), body))
        digest.update(b"\n".join(parts))
        return digest.digest()


def _canonical_sampling(sampling: Sampling) -> str:
    """Sampling parameters as JSON that is equal exactly when the endpoint is sent the same; unset ones leave no trace."""
    values = request_parameters(sampling, 0)
    values |= {name: float(values[name]) for name in ("temperature", "top_p") if name in values}
    if sampling.extra:
        values["extra"] = dict(sampling.extra)
    try:
        return json.dumps(values, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"sampling parameters must be plain JSON values to be sent and kept: {error}") from None


class ClaimedRequest(NamedTuple):
    """A request this run has claimed and will ask."""

    key: bytes
    request: Request


class WorkQueue:
    """Requests that the journal lacks and no other process is asking, read lazily: only those looked up, claimed or awaited are in memory.

    Parameters
    ----------
    claim_size
        Requests claimed at a time. Small enough that a second process on the same journal finds work, too.
    """

    def __init__(
        self, requests: Iterable[Request], keys: Keys, journal: Journal, executor: Executor, owner: Owner, claim_size: int, tally: Tally
    ) -> None:
        self._requests = iter(requests)
        self._keys, self._journal, self._executor = keys, journal, executor
        self._owner, self.claim_size, self._tally = owner, claim_size, tally
        self._exhausted = False
        self._lacking: list[ClaimedRequest] = []
        """Looked up, and not yet claimed."""
        self._awaited: dict[bytes, ClaimedRequest] = {}
        """Asked by another process."""
        self._polled = 0.0
        self._pending: set[bytes] = set()
        """Keys of requests that were looked up and have no answer yet, or failed."""

    def finished(self, rows: list[Row]) -> None:
        """The journal has committed `rows`."""
        self._pending.difference_update([row.key for row in rows if row.status == "ok"])

    async def batches(self) -> AsyncIterator[list[ClaimedRequest]]:
        """Requests to ask, in their order, at most `claim_size` at a time; ends when nothing is left to ask or to await."""
        while not self._exhausted or self._lacking or self._awaited:
            idle = self._exhausted or len(self._awaited) >= MOST_AWAITED
            if not self._lacking and not idle:
                await self._look_up()
            if self._lacking:
                chunk, self._lacking = self._lacking[: self.claim_size], self._lacking[self.claim_size :]
                yield await self._claim(chunk)
            if self._awaited:
                if idle and not self._lacking:
                    await asyncio.sleep(max(0.0, self._polled + POLL - monotonic()))
                if monotonic() - self._polled >= POLL:
                    self._polled = monotonic()
                    yield await self._claim([*self._awaited.values()])

    async def _look_up(self) -> None:
        """Read and look up the next requests."""
        fresh: dict[bytes, Request] = {}
        read = 0
        for request in islice(self._requests, LOOK_UP):
            read += 1
            key = self._keys(request.messages, request.sample)
            if key in fresh or key in self._pending:
                self._tally.repeated += 1
            else:
                fresh[key] = request
        self._tally.total += read
        self._exhausted = read == 0
        if fresh:
            held = await self._call(self._journal.held, list(fresh))
            self._tally.held += len(held)
            self._lacking = [ClaimedRequest(*item) for item in fresh.items() if item[0] not in held]
            self._pending.update(one.key for one in self._lacking)

    async def _claim(self, wanted: list[ClaimedRequest]) -> list[ClaimedRequest]:
        taken = await self._call(lambda keys: self._journal.claim(keys, self._owner), [one.key for one in wanted])
        self._tally.held += len(taken.held)
        self._pending -= taken.held
        for one in wanted:
            self._awaited.pop(one.key, None)
        self._awaited |= {one.key: one for one in wanted if one.key in taken.others}
        return [one for one in wanted if one.key in taken.mine]

    async def _call(self, function: Callable[[list[bytes]], _Result], keys: list[bytes]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, keys)


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
        due = monotonic() + COMMIT_INTERVAL
        while True:
            await asyncio.sleep(max(0.0, due - monotonic()))
            due = monotonic() + COMMIT_INTERVAL  # from here and not from the end of the commit: a slow disk must not make commits rarer
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
                raise
            finally:
                if commit.done():
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
