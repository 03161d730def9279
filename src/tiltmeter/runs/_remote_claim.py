"""One writer of a run folder elsewhere, with nothing but the put, list and remove that every store has.

Who wants to write puts an object with a name of its own (`.writing-ID`), then lists: alone, it may write; otherwise it takes its object
back. Of two that come at once, each lists after its own put, so at least one of them sees the other: two never go on, on any store whose
listing shows what was put before (S3, Google Cloud Storage and Azure promise that). A claim is put once and never again, so that removing
it is final; signs of life go to a second object (`.writing-ID.beat`).

Rejected: conditional puts (`If-None-Match`), which not all S3-compatible servers know and fsspec offers for some protocols only; and they
do not help with what is harder, taking over from a writer that died. A claim is dead if its writer cannot live (same working folder, whose
lock we hold), or if its sign of life does not change while we watch it for LEASE seconds of our own clock. Clocks of other machines decide
only that a claim is alive, never that it is dead.
"""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tiltmeter._text import printable
from tiltmeter.errors import InputError
from tiltmeter.runs._remote_store import Store

__all__ = ["Claim", "claimed", "is_claim"]

LEASE = 60.0
"""Seconds without a sign of life after which a writer counts as dead; one that was cut off for that long finds out before it goes on."""
BEAT = 10.0
"""Seconds between signs of life."""
TRIES = 5
"""How often to come back where another one asked at the same moment and gave way, too."""

_CLAIM = re.compile(r"\.writing-[0-9a-f]{16}")


def is_claim(name: str) -> bool:
    """Whether an object is a claim, or the sign of life of one."""
    return _CLAIM.fullmatch(name.removesuffix(".beat")) is not None


class Claim:
    """The right to write."""

    def __init__(self, store: Store, owner: str) -> None:
        self.name = f".writing-{secrets.token_hex(8)}"
        self._store, self._owner = store, owner
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="tiltmeter-claim", daemon=True)

    def check(self) -> None:
        """Raise InputError if another process took over, because this one gave no sign of life for too long."""
        if self._store.read(self.name) is None:
            raise InputError(
                f"{self._store.url} was taken over by another process, as this one could not be seen for {LEASE:.0f} s; "
                "wait for it, then run the same command again"
            )

    def put(self) -> None:
        self._store.write(self.name, self._sign())

    def hold(self) -> None:
        """Show from now on that the holder lives."""
        self._store.write(f"{self.name}.beat", self._sign())
        self._beating.start()

    def give_back(self) -> None:
        self._ended.set()
        if self._beating.is_alive():
            self._beating.join()
        with suppress(InputError):  # what went wrong before is the news; a claim that stays is taken over
            for name in (f"{self.name}.beat", self.name):
                self._store.remove(name)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            with suppress(InputError):  # the next one may reach the store; `check` finds out if none did
                self._store.write(f"{self.name}.beat", self._sign())

    def _sign(self) -> bytes:
        said = {"by": self._owner, "host": socket.gethostname(), "process": os.getpid(), "at": time.time()}
        return json.dumps(said).encode()


@contextmanager
def claimed(store: Store, owner: str, *, alone: bool) -> Iterator[Claim]:
    """Be the only one to write under the URL while the block lasts.

    Parameters
    ----------
    owner
        Names the working folder this process writes from.
    alone
        Whether this process holds the lock of that working folder, so that no other one can be writing from it.

    Raises
    ------
    InputError
        Another process writes there, or the store cannot be read and written.
    """
    for tried in range(TRIES):
        for name in _claims(store):
            if not _is_dead(store, name, owner if alone else None):
                raise _refusal(store, name)
            store.remove(name)
        claim = Claim(store, owner)
        try:
            claim.put()
            others = [name for name in _claims(store) if name != claim.name]
            if not others:
                _remove_signs(store)
                claim.hold()
                yield claim
                return
        finally:
            claim.give_back()
        if tried + 1 < TRIES:
            time.sleep(random.uniform(0.1, 1.0) * (tried + 1))
    raise InputError(f"other processes are about to fill {store.url}, too; choose another place with --out")


def _claims(store: Store) -> list[str]:
    return [name for name in store.names() if _CLAIM.fullmatch(name)]


def _remove_signs(store: Store) -> None:
    """Of claims that are gone; called by whoever has just found itself alone."""
    for name in store.names():
        if is_claim(name) and name.endswith(".beat"):
            store.remove(name)


def _sign_of(store: Store, name: str) -> dict[str, Any] | None:
    """The last sign of life of a claim; None if the claim is gone."""
    content = store.read(f"{name}.beat") or store.read(name)
    if content is None:
        return None
    try:
        said = json.loads(content)
    except ValueError:
        said = None
    return said if isinstance(said, dict) else {}


def _is_dead(store: Store, name: str, mine: str | None) -> bool:
    first = _sign_of(store, name)
    if first is None or (mine is not None and first.get("by") == mine):
        return True
    at = first.get("at")
    if isinstance(at, int | float) and abs(time.time() - at) < LEASE:
        return False
    print(f"{store.url} was being filled by {_who(first)}; watching for {LEASE:.0f} s whether it still is", file=sys.stderr)
    until = time.monotonic() + LEASE
    while time.monotonic() < until:
        time.sleep(min(2.0, LEASE / 10))
        now = _sign_of(store, name)
        if now != first:
            return now is None
    return True


def _refusal(store: Store, name: str) -> InputError:
    return InputError(
        f"another process is filling {store.url} ({_who(_sign_of(store, name) or {})}); wait for it or choose another place with --out"
    )


def _who(sign: dict[str, Any]) -> str:
    return printable(f"process {sign.get('process', '?')} on {sign.get('host', 'another machine')}"[:100], one_line=True)
