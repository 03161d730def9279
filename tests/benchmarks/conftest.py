"""Fixtures of several tests of benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.engine import Journal, open_journal
from tiltmeter.runs import load

Ran = Callable[..., tm.Run]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(str(tmp_path / "journal.sqlite")) as opened:
        yield opened


@pytest.fixture
def ran(tiltmeter: Tiltmeter, tmp_path: Path) -> Ran:
    """Carry out a command and load the run that its last word names."""

    def carry_out(*arguments: str) -> tm.Run:
        done = tiltmeter(*arguments)
        assert done.returncode == 0, done.stderr
        return load(tmp_path / arguments[-1])

    return carry_out
