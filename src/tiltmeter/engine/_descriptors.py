"""How many connections a process may have open: each is a file to the operating system, which allows a process only so many."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from tiltmeter.engine._limits import Limits

__all__ = ["within_open_files"]

RESERVE: Final = 32
"""Files a run may open beside what is open and its connections: journal, tables, libraries."""
_OPEN: Final = Path("/proc/self/fd")
_SOME: Final = 32

_log = logging.getLogger("tiltmeter.engine")


def within_open_files(limits: Limits) -> Limits:
    """`limits`, with fewer connections where the process may not open as many files; says so on the log.

    The process's own limit is raised first, as far as it may be.
    """
    if sys.platform == "win32":
        return limits
    import resource

    needed = _open_now() + RESERVE + limits.max_connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):  # some systems have a further limit of their own
            pass
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return limits
    fitting = max(1, limits.max_connections - (needed - soft))
    _log.warning(
        "this process may have %d files open, so that %d of %d connections are used at most; raise the limit with ulimit -n",
        soft, fitting, limits.max_connections,
    )  # fmt: skip
    return replace(limits, max_connections=fitting)


def _open_now() -> int:
    """Files this process has open; a guess where the system does not say."""
    try:
        return sum(1 for _ in _OPEN.iterdir())
    except OSError:
        return _SOME
