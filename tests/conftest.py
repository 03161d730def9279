"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


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
