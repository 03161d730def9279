"""The folder of reference data, which not every machine has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

from tiltmeter.datasets import Library

ROOT = Path(__file__).parents[2]


def reference_folder() -> Path | None:
    """Return the folder of reference data, or None if it is missing; in CI its absence is a failure."""
    folder = _expected_folder()
    if (folder / "golden").is_dir():
        return folder
    if os.environ.get("CI"):
        pytest.fail(_missing())
    return None


def skip_without_reference_data() -> NoReturn:
    """Skip the test and say what is missing."""
    pytest.skip(_missing())


class WithoutFiles(Library):
    """A library where the reference data is missing: a test that needs a file is skipped."""

    def path(self, name: str) -> Path:
        """Skip the test."""
        skip_without_reference_data()


def _expected_folder() -> Path:
    return Path(os.environ.get("TILTMETER_SHARED", ROOT.parent / "shared"))


def _missing() -> str:
    return (
        f"reference data not found at {_expected_folder()}: set TILTMETER_SHARED to the folder that holds "
        "golden/ and data/"
    )
