"""The journal's tables, and the connection to whichever database holds them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    select,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateTable

from tiltmeter.errors import InputError

__all__ = ["SCHEMA", "claims", "completions", "connect", "meta", "owners", "prepare"]

SCHEMA: Final = 1
"""Version of these tables; kept in `meta`, raised when an older program could no longer read or write them."""

_tables = MetaData()

meta = Table("meta", _tables, Column("name", String(64), primary_key=True), Column("value", String(255), nullable=False))

completions = Table(
    "completions",
    _tables,
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
    _tables,
    Column("owner", String(32), primary_key=True),  # a random token
    Column("process", String(255), nullable=False),  # machine, process number and start
    Column("beat", Integer, nullable=False),  # raised while the owner lives: no clocks are compared between machines
)

# Only what is being asked right now stands here.
claims = Table(
    "claims",
    _tables,
    Column("key", LargeBinary(32), primary_key=True),
    Column("owner", String(32), nullable=False),
    sqlite_with_rowid=False,
)

_BUSY_SECONDS: Final = 30.0


def connect(where: str | Path) -> Engine:
    """An engine for a database URL or for the path of an SQLite file, whose folder is made when it is missing.

    Raises
    ------
    InputError
        The URL cannot be understood, its driver is not installed, or the folder cannot be made.
    """
    url = _url(where)
    local = url.get_backend_name() == "sqlite"
    if local and url.database and url.database != ":memory:" and not url.database.startswith("file:"):
        folder = Path(url.database).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            said = f"cannot make its folder {folder}: {error.strerror}; choose another --journal"
            raise InputError(f"journal {url.database}: {said}") from None
    try:
        if not local:
            return create_engine(url, pool_pre_ping=True)
        # One connection, used by one thread at a time under the journal's lock.
        engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False, "timeout": _BUSY_SECONDS})
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        hint = "pip install 'tiltmeter[postgres]'" if url.get_backend_name() == "postgresql" else "use sqlite or postgresql+psycopg"
        raise InputError(f"journal {url.render_as_string()}: no driver for this kind of database ({error}); {hint}") from None
    event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_sqlite_begin)
    return engine


def _url(where: str | Path) -> URL:
    if isinstance(where, str) and "://" in where:
        try:
            return make_url(where)
        except (ArgumentError, ValueError):
            raise InputError("journal URL cannot be understood: write sqlite:///file.db or postgresql+psycopg://user@host/name") from None
    return URL.create("sqlite", database=str(Path(where).expanduser()))


def _on_sqlite_connect(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions behind our back
    cursor = connection.cursor()
    for attempt in range(50):
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            break
        except Exception as error:  # another process is switching the same new file; the busy timeout does not cover this
            if "locked" not in str(error) or attempt == 49:
                raise
            time.sleep(0.1)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA temp_store=MEMORY")  # inserting some dozens of rows by one statement keeps notes, which must not become files
    cursor.close()


def _on_sqlite_begin(connection: Connection) -> None:
    # A transaction that will write takes the lock at once: an upgrade later could fail without waiting.
    connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get("reads") else "BEGIN IMMEDIATE")


def prepare(connection: Connection) -> int:
    """Make the tables where they are missing and give the version of the schema found (possibly newer than ours).

    Runs in the caller's transaction, which has to be a writing one.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7423115)")  # two processes may open a new journal at once
    if connection.dialect.has_table(connection, "meta"):
        found = connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar_one_or_none()
        if found is not None:
            if int(found) <= SCHEMA:  # a read-only journal is refused now, not after the first answers are paid for
                connection.execute(update(meta).where(meta.c.name == "schema").values(value=found))
            return int(found)
    for table in _tables.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
    connection.execute(meta.insert().values(name="schema", value=str(SCHEMA)))
    return SCHEMA


def sentence_of(error: DBAPIError, where: str) -> str:
    """What went wrong in the database, as one sentence with a remedy; holds no data and no password."""
    said = str(error.orig).splitlines()[0].strip() if error.orig is not None and str(error.orig).strip() else type(error).__name__
    for sign, remedy in (
        ("disk is full", "the disk (or a quota) is full: free some space and run again, what was committed before is kept"),
        (
            "disk I/O error",
            "the disk refused to write: it may be full or failing; mend that and run again, what was committed before is kept",
        ),
        ("readonly", "it is read-only: give write permission to the file and its folder, or choose another --journal"),
        ("unable to open", "it cannot be opened: check that the folder exists and is writable and that the path is a file"),
        ("not a database", "this file is not a journal (not an SQLite database): choose another --journal"),
        ("malformed", "the database is damaged: restore a copy, or choose another --journal"),
        ("locked", f"another program has kept it locked for {_BUSY_SECONDS:g} s: end that program or choose another --journal"),
    ):
        if sign in said:
            return f"journal {where}: {remedy}"
    return f"journal {where}: the database refused: {said[:300]}"
