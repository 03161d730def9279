"""Fixtures every test may use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# One thread for each test process and each command it starts: the workers together already use every core, and OpenMP threads that wait
# for each other while spinning make matrix products many times slower. Set before anything reads it.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data; in CI its absence is a failure, elsewhere the test is skipped."""
    folder = Path(os.environ.get("TILTMETER_SHARED", ROOT.parent / "shared"))
    if not (folder / "golden").is_dir():
        message = f"reference data not found at {folder}: set TILTMETER_SHARED to the folder that holds golden/ and data/"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return folder


Tiltmeter = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(tmp_path: Path, shared: Path) -> dict[str, str]:
    """The environment of a user who has the data, with runs and journal in a folder of their own and no key of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY") and not name.startswith("TILTMETER_")}
    cache = {name: os.environ[name] for name in ("TILTMETER_CACHE",) if name in os.environ}
    return kept | cache | {"TILTMETER_DATA": str(shared / "data"), "TILTMETER_RUNS": str(tmp_path / "runs"), "COLUMNS": "200"}


@pytest.fixture
def tiltmeter(tmp_path: Path, environment: dict[str, str]) -> Tiltmeter:
    """Run the command as a user does; gives its exit status and what it printed."""

    def call(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tiltmeter.cli", *map(str, arguments)],
            cwd=tmp_path,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return call
