"""From the tables of an older Tiltmeter to ours, step by step.

Each file of `versions` is an Alembic revision whose number is the version of the schema that it makes; the first is what a
journal was before there were migrations. The version of a journal stands in its table `meta` and nowhere else.

A step has to be possible within a transaction, on SQLite as on PostgreSQL, so that a journal is migrated as a whole or left
exactly as it was; for that reason no copy is made before. Alembic is imported only when there is something to do.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

__all__ = ["migrate"]


def migrate(connection: Connection, found: int) -> None:
    """Bring a journal whose tables have version `found` up to date, in the caller's transaction; `meta` is the caller's to write."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(Path(__file__).parent))
    steps = list(scripts.iterate_revisions("heads", str(found)))
    with Operations.context(MigrationContext.configure(connection)):
        for step in reversed(steps):
            step.module.upgrade()
