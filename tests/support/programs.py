"""Programs of a few lines in their own interpreter; they can import the support of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

__all__ = ["TESTS", "go_on", "run_code", "start_code"]

TESTS = Path(__file__).parent.parent


def run_code(code: str, *arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; an exit status other than 0 is an error unless `check` is False.

    `more` goes to `subprocess.run`.
    """
    return subprocess.run(
        _command(code, arguments),
        env=_variables(),
        text=True,
        **{"capture_output": True, "check": True, **more},
    )


def start_code(code: str, *arguments: object, ready: str = "") -> subprocess.Popen[str]:
    """Start a program and wait for the line `ready`, if there is one."""
    piped = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = _command(code, arguments)
    started = subprocess.Popen(command, env=_variables(), text=True, **piped)  # type: ignore[call-overload]
    if ready:
        assert started.stdout.readline() == f"{ready}\n"
    return started  # type: ignore[no-any-return]


def go_on(process: subprocess.Popen[str]) -> None:
    """End the program's wait for a line."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _command(code: str, arguments: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]


def _variables() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
