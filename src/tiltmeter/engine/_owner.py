"""Who has claimed a prompt, and whether they still live."""

from __future__ import annotations

import os
import platform
import sys
import uuid
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

__all__ = ["EXPIRY", "Liveness", "Owner", "new_owner"]

EXPIRY: Final = 60.0
"""Seconds without a heartbeat after which an owner counts as dead."""


def _machine() -> str:
    """Names the set of process numbers we can see: host, boot and process namespace (containers may share a host name)."""
    try:
        boot, space = Path("/proc/sys/kernel/random/boot_id").read_text().strip(), str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = space = ""
    return f"{platform.node()[:100]}/{boot}/{space}".replace("|", "_")


def _started(pid: int) -> str | None:
    """When a process of this machine started, "" where the system does not say, None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        pass
    if sys.platform == "win32":  # there, signal 0 would end the process instead of asking after it
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""


class Owner(NamedTuple):
    """One run of one process, which may claim prompts."""

    token: str
    process: str
    """Machine, process number and start of the process."""


def new_owner() -> Owner:
    """An owner of this process, unlike any other."""
    return Owner(uuid.uuid4().hex, f"{_machine()}|{os.getpid()}|{_started(os.getpid())}")


class Liveness:
    """Judges other owners: by their process where it is on this machine, otherwise by watching their heartbeat.

    The heartbeat is a counter and is timed by the watcher's own clock, so clocks of different machines need not agree.
    """

    def __init__(self) -> None:
        self._machine = _machine()
        self._seen: dict[str, tuple[int, float]] = {}

    def forget(self) -> None:
        """Begin watching anew: nobody's heart could be heard for a while."""
        self._seen.clear()

    def is_dead(self, owner: Owner, beat: int) -> bool:
        """Whether `owner`, whose counter stands at `beat`, will never finish what it claimed."""
        machine, pid, started = owner.process.rsplit("|", 2)
        if machine == self._machine and _started(int(pid)) != started:
            return True
        before = self._seen.get(owner.token)
        if before is None or before[0] != beat:
            self._seen[owner.token] = (beat, monotonic())
            return False
        return monotonic() - before[1] > EXPIRY
