"""Journals to maintain, on both kinds of database."""

from __future__ import annotations

import pytest


@pytest.fixture
def where(journal_at: str) -> str:
    """Where a journal of this test may be made."""
    return journal_at
