"""Programs of a few lines in an interpreter of their own; they can import what the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

__all__ = ["TESTS", "go_on", "run_code", "start_code"]

TESTS = Path(__file__).parent.parent


def run_code(code: str, *value: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run it to its end, which must be a good one unless `check` is False.

    `more` goes to `subprocess.run`.
    """
    return subprocess.run(
        _command(code, value), env=_variables(), text=True, **{"capture_output": True, "check": True, **more}
    )


def start_code(code: str, *value: object, ready: str = "") -> subprocess.Popen[str]:
    """Start it, and wait for the line that says that it is ready."""
    piped = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = _command(code, value)
    started = subprocess.Popen(command, env=_variables(), text=True, **piped)  # type: ignore[call-overload]
    if ready:
        assert started.stdout.readline() == f"{ready}\n"
    return started  # type: ignore[no-any-return]


def go_on(process: subprocess.Popen[str]) -> None:
    """End the program's wait for a line."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _command(code: str, value: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code), *map(str, value)]


def _variables() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
