"""Fixtures of the tests of the Ray engine."""

from __future__ import annotations

import os

import psutil

from tiltmeter.engine import Request
from tiltmeter.models import Message

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


def prompts(count: int, name: str) -> list[Request]:
    return [Request((Message("user", f"{name} {number}"),)) for number in range(count)]


def workers() -> list[psutil.Process]:
    """Processes of workers of any cluster on this machine, below the present process."""
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "RayWorker" in " ".join(child.cmdline()[:1])
    ]
