"""File systems for one test: small, without room for a file, read-only.

They go with the process that has them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest


@cache
def _namespace() -> tuple[str, ...] | None:
    """Return the command that runs another with its own mounts, or None where that is not allowed."""
    for command in (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount")):
        requests = [*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        if shutil.which("unshare") and subprocess.run(requests, capture_output=True).returncode == 0:
            return command
    return None


def within(
    place: Path, options: str, script: str, *arguments: object, variables: Mapping[str, str] | None = None
) -> list[str]:
    """Run a shell script in the folder `place`, where a tmpfs with these options is mounted.

    Its lines of output, errors among them.

    `"$1"` and so on are `given`, `$PYTHON` is the interpreter. Skips the test where mounting is not allowed.
    """
    command = _namespace()
    if command is None:
        pytest.skip("no file system may be mounted here")
    place.mkdir(exist_ok=True)
    commands = f'mount -t tmpfs -o {options} tmpfs "{place}" || exit 99\ncd "{place}"\n{script}'
    done = subprocess.run(
        [*command, "sh", "-c", commands, "sh", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**(variables or os.environ), "PYTHON": sys.executable},
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()
