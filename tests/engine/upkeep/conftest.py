"""Journals to maintain, on both kinds of database."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.postgres import database, postgres, postgres_server

__all__ = ["database", "postgres", "postgres_server"]


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a journal of this test may be made."""
    if request.param == "sqlite":
        return str(tmp_path / "journal.sqlite")
    url = request.getfixturevalue("database")
    assert isinstance(url, str)
    return url
