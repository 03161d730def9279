"""The journal's tables."""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import Column, Connection, Float, Integer, LargeBinary, MetaData, String, Table, Text, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

from tiltmeter.engine._database import connect, sentence_of, shown
from tiltmeter.errors import InputError

__all__ = [
    "SCHEMA",
    "check_version",
    "claims",
    "completions",
    "connect",
    "meta",
    "models",
    "owners",
    "prepare",
    "sentence_of",
    "tables",
    "version_of",
]

SCHEMA: Final = 2
"""Version of these tables; kept in `meta`, raised with a new revision in `migrations/versions`."""

tables = MetaData()

meta = Table("meta", tables, Column("name", String(64), primary_key=True), Column("value", String(255), nullable=False))

completions = Table(
    "completions",
    tables,
    Column("key", LargeBinary(32), primary_key=True),
    Column("model", Text, nullable=False),  # fingerprint
    Column("sample", Integer, nullable=False),
    Column("status", String(8), nullable=False),  # "ok" or "failed"
    Column("attempts", Integer, nullable=False),
    Column("created_at", Float, nullable=False),  # seconds since 1970, UTC
    Column("text", Text),
    Column("thinking", Text),
    Column("finish_reason", Text),
    Column("refusal", Text),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("latency", Float),  # seconds
    Column("error_kind", Text),
    Column("error_detail", Text),
)

owners = Table(
    "owners",
    tables,
    Column("owner", String(32), primary_key=True),  # a random token
    Column("process", String(255), nullable=False),  # machine, process number and start
    Column("beat", Integer, nullable=False),  # raised while the owner lives: no clocks are compared between machines
)

# Only what is being asked right now stands here.
claims = Table(
    "claims",
    tables,
    Column("key", LargeBinary(32), primary_key=True),
    Column("owner", String(32), nullable=False),
    sqlite_with_rowid=False,
)

# So that statistics can name a model by what its users call it: fingerprints of weights are numbers.
models = Table(
    "models",
    tables,
    Column("fingerprint", Text, primary_key=True),
    Column("name", Text, nullable=False),  # as first written by a user
    Column("first_seen", Float, nullable=False),  # seconds since 1970, UTC
)


def prepare(connection: Connection) -> int:
    """Make the tables where they are missing, bring older ones up to date, and give the version found (possibly newer than ours).

    Runs in the caller's transaction, which has to be a writing one: all of it happens, or nothing. Of several processes one
    does the work while the others wait.

    Raises
    ------
    InputError
        The tables cannot be brought up to date, or their version cannot be read.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7423115)")
    found = version_of(connection)
    if found is None:
        for table in tables.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
        connection.execute(meta.insert().values(name="schema", value=str(SCHEMA)))
        return SCHEMA
    if found < SCHEMA:
        from tiltmeter.engine.migrations import migrate

        try:
            migrate(connection, found)
        except DBAPIError as error:
            left = f"{shown(connection.engine)}, left as it was because it cannot be brought from schema {found} to {SCHEMA}"
            raise InputError(sentence_of(error, left)) from None
    if found <= SCHEMA:  # a read-only journal is refused now, not after the first answers are paid for
        connection.execute(update(meta).where(meta.c.name == "schema").values(value=str(SCHEMA)))
    return found


def check_version(found: int | None, name: str) -> None:
    """Raises InputError for a journal whose tables this Tiltmeter cannot read."""
    if found is None:
        raise InputError(f"journal {name}: its table meta holds no version: restore a copy, or choose another --journal")
    if found > SCHEMA:
        raise InputError(f"journal {name} was written by a newer Tiltmeter (schema {found}, this one knows {SCHEMA}): upgrade tiltmeter")


def version_of(connection: Connection) -> int | None:
    """The version of a journal's tables, None where it has none; raises InputError for what is no version."""
    if not connection.dialect.has_table(connection, "meta"):
        return None
    found = connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar_one_or_none()
    if found is None:
        return None
    if not re.fullmatch("[1-9][0-9]{0,8}", str(found)):
        raise InputError(
            f"journal {shown(connection.engine)}: the version in its table meta is not a number that a journal has: restore a copy of it"
        )
    return int(found)
