"""The time limit of a whole run of tests, also where no test runs any more.

`session_timeout` of pytest-timeout ends a run between two tests. It does not act where the main process waits
for a worker that no longer exists. This limit does: some time later it interrupts the main process, and if
that does not help, ends it with all workers.
"""

from __future__ import annotations

import _thread
import os
import threading
from typing import Any

import psutil
import pytest

GRACE = 120.0
"""Seconds between the limit of pytest-timeout and the interruption, and between the interruption and the
forced end."""
STATUS = 2
"""The exit status of an interrupted run."""


def limit_run(config: pytest.Config, grace: float = GRACE) -> None:
    """Start the clock, if a limit is set (`session_timeout` in the configuration or `--session-timeout`)."""
    limit: Any = config.getoption("session_timeout", None) or config.getini("session_timeout")
    if limit:
        _after(float(limit) + grace, lambda: _interrupt(config, float(limit), grace))


def _after(seconds: float, action: Any) -> None:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


def _interrupt(config: pytest.Config, limit: float, grace: float) -> None:
    _after(grace, _end)
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    reporter.write_line(
        f"\nThe run is interrupted: it takes longer than {limit:g} s (--session-timeout), and does not end."
    )
    _thread.interrupt_main()


def _end() -> None:
    for process in psutil.Process().children(recursive=True):
        process.kill()
    os._exit(STATUS)
