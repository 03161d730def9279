"""A journal for each test, of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.postgres import database, postgres, postgres_server  # noqa: F401 - fixtures
from tiltmeter.engine import Journal, open_journal


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where an empty journal can be opened, by several processes: a file, and a database."""
    return (
        str(tmp_path / "journal.db")
        if request.param == "sqlite"
        else str(request.getfixturevalue("database"))
    )


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An open journal, in a file."""
    with open_journal(tmp_path / "journal.db") as opened:
        yield opened


@pytest.fixture
def either_journal(where: str) -> Iterator[Journal]:
    """An open journal: once SQLite, once PostgreSQL."""
    with open_journal(where) as opened:
        yield opened
