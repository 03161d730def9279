"""A command on a terminal whose question is answered."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

INTERRUPT = "\x03"
"""What Ctrl-C types."""
SILENCE = 1.0
"""Seconds without a printed character after which the question is answered.

A signal between the printed question and the system call that reads the answer would not end that call.
"""
QUESTION = "Request the responses anyway? [y/N]"


class Finished(NamedTuple):
    """The end of a command: its exit status, what it printed, and whether it asked."""

    status: int
    printed: str
    has_asked: bool


def run_on_terminal(
    workplace: Path, environment: Mapping[str, str], words: Sequence[str], typed: str
) -> Finished:
    """Run `tiltmeter run` with these words on a terminal, and type an answer to its first question."""
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tiltmeter", "run", *words],
        cwd=workplace,
        env=environment,
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        start_new_session=True,
    )
    os.close(secondary)
    printed = b""
    has_asked = False
    while True:
        is_printing, _, _ = select.select([primary], [], [], SILENCE)
        if is_printing:
            try:
                printed += os.read(primary, 4096)
            except OSError:  # the end of the process
                break
        elif QUESTION.encode() in printed and not has_asked:
            has_asked = True
            if typed == INTERRUPT:
                process.send_signal(signal.SIGINT)
            else:
                os.write(primary, typed.encode())
    status = process.wait(timeout=60)
    os.close(primary)
    return Finished(status, printed.decode(), has_asked)
