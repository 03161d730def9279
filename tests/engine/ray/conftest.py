"""A journal for each test of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tiltmeter.engine import Journal, Request, open_journal
from tiltmeter.models import Message

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(tmp_path / "journal.db") as opened:
        yield opened


def prompts(count: int, name: str) -> list[Request]:
    return [Request((Message("user", f"{name} {number}"),)) for number in range(count)]


def workers() -> list[psutil.Process]:
    """Processes of workers of any cluster on this machine, below the present process."""
    return [one for one in psutil.Process().children(recursive=True) if "RayWorker" in " ".join(one.cmdline()[:1])]
