"""The connection to whichever database holds a journal, and what its refusals mean."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from tiltmeter._text import printable, redacted
from tiltmeter.engine._locks import refuse_without_locks
from tiltmeter.errors import InputError

__all__ = ["connect", "passes", "sentence_of", "shown"]

_BUSY_SECONDS: Final = 30.0
_POSTGRES: Final = "postgresql+psycopg"
_CANNOT_BE_READ: Final = f"journal URL cannot be understood: write sqlite:///file.db or {_POSTGRES}://user@host/name"

_NETWORK: Final = {
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds: a cable that was pulled is noticed after a minute, not after two hours
    "application_name": "tiltmeter",
}
"""What a URL may set otherwise in its query; names of libpq."""

_PASSING: Final = {"40001", "40P01", "53300", "57P01", "57P02", "57P03", "57P05"}
"""SQLSTATE of a transaction to be tried again: serialisation, deadlock, no free connection, the server ends or starts."""

_SQLITE: Final = (
    ("disk is full", "the disk (or a quota) is full: free some space and run again, what was committed before is kept"),
    ("disk I/O error", "the disk refused to write: it may be full or failing; mend that and run again, what was committed before is kept"),
    ("readonly", "it is read-only: give write permission to the file and its folder, or choose another --journal"),
    ("unable to open", "it cannot be opened: check that the folder exists and is writable and that the path is a file"),
    (
        "not a database",
        "this file is not a journal (not an SQLite database): choose another --journal; "
        "if it was one, tiltmeter journal check --repair saves what can be read",
    ),
    ("malformed", "the database is damaged: tiltmeter journal check --repair saves what can be read; or choose another --journal"),
    ("locked", f"another program has kept it locked for {_BUSY_SECONDS:g} s: end that program or choose another --journal"),
)
_POSTGRESQL: Final = (
    # A server that refuses a connection sends no code that the driver passes on, so its words have to do.
    ("password authentication failed", "the server refused the user or the password: mend the URL, PGPASSWORD or ~/.pgpass"),
    ("no password supplied", "the server wants a password: put it into ~/.pgpass, PGPASSWORD or the URL"),
    ("no pg_hba.conf entry", "the server lets nobody in from this machine as this user: add a line to its pg_hba.conf"),
    ("database system is", "the server is starting, stopping or recovering: run again in a moment"),
    ("too many", "the server has no free connection: raise its max_connections or start fewer processes at once"),
    ("Connection refused", "no server answers there: check the host and the port, and that PostgreSQL runs"),
    ("failed to resolve host", "there is no such host: check the name in the URL"),
    ("could not translate host", "there is no such host: check the name in the URL"),
    ("timeout expired", "no server answers there in time: check the host, the port and the firewalls between"),
    ("timed out", "no server answers there in time: check the host, the port and the firewalls between"),
    ("No such file or directory", "no server listens on that socket: check the host of the URL, and that PostgreSQL runs"),
    ("invalid connection option", "the query of the URL has an option that PostgreSQL does not know"),
    ("server closed the connection", "the server ended the connection: run again when it is back, what was committed before is kept"),
)
_CODES: Final = {
    "25006": "the server takes no writes (a standby?): name the one that does, or run again when it is back",
    "42501": "the user may not make or write the tables there: GRANT it CREATE and USAGE on the schema, or name another user",
    "42703": "tables of another program have the same names there: give the journal a database of its own",
    "53100": "the disk of the server is full: free some space and run again, what was committed before is kept",
}


def connect(where: str | Path) -> Engine:
    """An engine for a database URL or for the path of an SQLite file, whose folder is made when it is missing.

    Nothing is sent to a server yet. `postgresql://` and `postgres://` mean `postgresql+psycopg://`.

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
        refuse_without_locks(Path(url.database))
    try:
        if not local:
            return _postgres(url)
        # One connection, used by one thread at a time under the journal's lock.
        engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False, "timeout": _BUSY_SECONDS})
    except (NoSuchModuleError, ImportError) as error:
        hint = f"write sqlite:///file.db or {_POSTGRES}://user@host/name" if local else "pip install 'tiltmeter[postgres]'"
        raise InputError(f"journal {_shown(url)}: no driver for this kind of database ({error}); {hint}") from None
    event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_sqlite_begin)
    return engine


def shown(engine: Engine) -> str:
    """The path or URL of a journal as it may be shown: without its password and what its query holds."""
    return _shown(engine.url)


def _shown(url: URL) -> str:
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return printable(redacted(url.set(query={}).render_as_string(hide_password=True)), one_line=True)


def _url(where: str | Path) -> URL:
    if not (isinstance(where, str) and "://" in where):
        return URL.create("sqlite", database=str(Path(where).expanduser()))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise InputError(_CANNOT_BE_READ) from None
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername=_POSTGRES)
    if url.get_backend_name() != "sqlite" and url.drivername != _POSTGRES:
        raise InputError(f"journal {_shown(url)}: only sqlite and {_POSTGRES} databases can be a journal, not {url.drivername}")
    return url


def _postgres(url: URL) -> Engine:
    options = {name: value for name, value in _NETWORK.items() if name not in url.query}
    # The claims count on seeing, statement by statement, what others have committed: whatever the server's default is.
    return create_engine(url, pool_size=4, max_overflow=12, isolation_level="READ COMMITTED", connect_args=options)


def _on_sqlite_connect(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions behind our back
    cursor = connection.cursor()
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            break
        except Exception as error:  # another process is switching the same new file; the busy timeout does not cover this
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA temp_store=MEMORY")  # inserting some dozens of rows by one statement keeps notes, which must not become files
    cursor.close()


def _on_sqlite_begin(connection: Connection) -> None:
    # A transaction that will write takes the lock at once: an upgrade later could fail without waiting.
    connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get("reads") else "BEGIN IMMEDIATE")


def passes(error: DBAPIError) -> bool:
    """Whether the same transaction may well succeed soon: the server is away or starting, or two transactions met.

    A commit that fails like this may nevertheless have been done.
    """
    cause = error.orig
    if cause is None or not type(cause).__module__.startswith("psycopg"):
        return False
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return state in _PASSING or state.startswith("08")
    # Connections that break, and those that are refused, carry no code.
    return error.connection_invalidated or type(cause).__name__ == "OperationalError"


def sentence_of(error: DBAPIError, where: str) -> str:
    """What went wrong in the database, as one sentence with a remedy; holds no data and no password."""
    said = str(error.orig).splitlines()[0].strip() if error.orig is not None and str(error.orig).strip() else type(error).__name__
    state = getattr(error.orig, "sqlstate", None)
    if state in _CODES:
        return f"journal {where}: {_CODES[state]}"
    postgres = type(error.orig).__module__.startswith("psycopg")
    for sign, remedy in _POSTGRESQL if postgres else _SQLITE:
        if sign in said:
            return f"journal {where}: {remedy}"
    if postgres and 'database "' in said and said.endswith("does not exist"):
        return f"journal {where}: the server has no such database: make it (createdb NAME) or name another in the URL"
    return f"journal {where}: the database refused: {printable(redacted(said), one_line=True)[:300]}"
