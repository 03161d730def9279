"""The tables of the first journals, which were made without migrations: nothing to do."""

from __future__ import annotations

revision = "1"
down_revision = None


def upgrade() -> None:
    """Every journal is at least this."""
