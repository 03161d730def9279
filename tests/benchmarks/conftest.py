"""What several tests of benchmarks begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tiltmeter.engine import Journal, open_journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(str(tmp_path / "journal.sqlite")) as opened:
        yield opened
