"""The database that holds a journal: its tables and their version, its connection, statements about many rows, and its refusals."""

from __future__ import annotations

import errno
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

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
from tiltmeter.sanitising import printable, redacted

_Item = TypeVar("_Item")

SCHEMA = 2
"""Version of these tables; kept in `meta`, raised with an entry in `_ADDED`."""

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

# Only what is being asked right now.
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

_ADDED = {2: (models,)}
"""The tables that each version of the schema added. A step happens within the caller's transaction, on SQLite as on PostgreSQL."""

_BUSY_SECONDS = 30.0
_PARAMETERS = 900
"""Parameters of a statement; SQLite before 3.32 takes 999 at most."""
_POSTGRES = "postgresql+psycopg"
_FORMS_OF_URL = f"sqlite:///file.db or {_POSTGRES}://user@host/name"

_NETWORK = {
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds: a cable that was pulled is noticed after a minute, not after two hours
    "application_name": "tiltmeter",
}
"""What a URL may set otherwise in its query; names of libpq."""

_PASSING = {"40001", "40P01", "53300", "57P01", "57P02", "57P03", "57P05"}
"""SQLSTATE of a transaction to be tried again: serialisation, deadlock, no free connection, the server ends or starts."""

_SQLITE = (
    ("disk is full", "the disk (or a quota) is full: free some space and run again, what was committed before is kept"),
    (
        "disk I/O error",
        "the disk refused to write: it may be full or failing; see to that and run again, what was committed before is kept",
    ),
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
_POSTGRESQL = (
    # A server that refuses a connection sends no code that the driver passes on, so its words have to do.
    ("password authentication failed", "the server refused the user or the password: correct the URL, PGPASSWORD or ~/.pgpass"),
    ("no password supplied", "the server wants a password: put it into ~/.pgpass, PGPASSWORD or the URL"),
    ("no pg_hba.conf entry", "the server refuses this user from this machine: add a line to its pg_hba.conf"),
    ("database system is", "the server is starting, stopping or recovering: run again in a moment"),
    ("too many", "the server has no free connection: raise its max_connections or start fewer processes at once"),
    ("Connection refused", "no server answers there: check the host and the port, and that PostgreSQL runs"),
    ("failed to resolve host|could not translate host", "there is no such host: check the name in the URL"),
    ("timeout expired|timed out", "no server answers there in time: check the host, the port and the firewalls between"),
    ("No such file or directory", "no server listens on that socket: check the host of the URL, and that PostgreSQL runs"),
    ("invalid connection option", "the query of the URL has an option that PostgreSQL does not know"),
    (r'database ".*" does not exist', "the server has no such database: make it (createdb NAME) or name another in the URL"),
    ("server closed the connection", "the server ended the connection: run again when it is back, what was committed before is kept"),
)
_CODES = {
    "25006": "the server takes no writes (a standby?): name the one that does, or run again when it is back",
    "42501": "the user may not make or write the tables there: GRANT it CREATE and USAGE on the schema, or name another user",
    "42703": "tables of another program have the same names there: give the journal a database of its own",
    "53100": "the disk of the server is full: free some space and run again, what was committed before is kept",
}


def connect(where: str | Path) -> Engine:
    """Return an engine for a database URL or for the path of an SQLite file, whose folder is made when it is missing.

    Nothing is sent to a server yet. `postgresql://` and `postgres://` mean `postgresql+psycopg://`.

    Raises
    ------
    InputError
        The URL cannot be understood, its driver is not installed, or the folder cannot be made.
    """
    url = parse_url(where)
    local = url.get_backend_name() == "sqlite"
    if file := sqlite_file(url):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"journal {file}: cannot make its folder {file.parent}: {error.strerror}; choose another --journal") from None
        _refuse_without_locks(file)
    try:
        if local:
            # One connection, used by one thread at a time under the journal's lock.
            arguments: dict[str, Any] = {"check_same_thread": False, "timeout": _BUSY_SECONDS}
            engine = create_engine(url, poolclass=StaticPool, connect_args=arguments)
            event.listen(engine, "connect", _on_sqlite_connect)
            event.listen(engine, "begin", _on_sqlite_begin)
            return engine
        # The claims count on seeing, statement by statement, what others have committed: whatever the server's default is.
        arguments = {name: value for name, value in _NETWORK.items() if name not in url.query}
        return create_engine(url, pool_size=4, max_overflow=12, isolation_level="READ COMMITTED", connect_args=arguments)
    except (NoSuchModuleError, ImportError) as error:
        hint = f"write {_FORMS_OF_URL}" if local else "pip install 'tiltmeter[postgres]'"
        raise InputError(f"journal {shown(url)}: no driver for this kind of database ({error}); {hint}") from None


def sqlite_file(url: URL) -> Path | None:
    """Return the SQLite file of a journal, None for a server or a journal in memory."""
    if url.get_backend_name() != "sqlite" or not url.database or ":memory:" in url.database:
        return None
    return Path(url.database.removeprefix("file:")).expanduser()


_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


def _refuse_without_locks(journal: Path) -> None:
    """Raise InputError where the file system of a journal has no locks (some network file systems): SQLite would wait endlessly.

    A file of its own is locked: closing the journal itself would give up the locks another connection of this process holds on it.
    It is locked as SQLite does it; filelock asks for another kind of lock. A folder that cannot be written is not refused here;
    opening the journal in it says why.
    """
    if sys.platform == "win32":
        return
    import fcntl

    try:
        with tempfile.TemporaryFile(dir=journal.parent) as probe:
            fcntl.lockf(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise InputError(
                f"journal {journal}: its file system has no locks, without which two runs would damage it; "
                "choose another --journal, on a disk of this machine or in PostgreSQL"
            ) from None


def shown(url: URL) -> str:
    """Return the path or URL of a journal as it may be shown: without its password and what its query holds."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return printable(redacted(url.set(query={}).render_as_string(hide_password=True)), one_line=True)


def parse_url(where: str | Path) -> URL:
    """Return the database URL of a journal given as a path or a URL; raises InputError where it can be none."""
    if not (isinstance(where, str) and "://" in where):
        return URL.create("sqlite", database=str(Path(where).expanduser()))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise InputError(f"journal URL cannot be understood: write {_FORMS_OF_URL}") from None
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername=_POSTGRES)
    if url.get_backend_name() != "sqlite" and url.drivername != _POSTGRES:
        raise InputError(f"journal {shown(url)}: only sqlite and {_POSTGRES} databases can be a journal, not {url.drivername}")
    return url


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


def look_up_by_keys(engine: Engine) -> None:
    """Tell PostgreSQL that rows are looked up by their keys: a plan made for an empty journal would read all of a full one."""

    def configure(connection: Any, _record: object) -> None:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET jit = off")
        connection.commit()

    if engine.dialect.name == "postgresql":
        event.listen(engine, "connect", configure)


def insert_rows(connection: Connection, table: Table, conflict: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows, each in the order of the table's columns; no key may come twice among them.

    The driver gets plain SQL, as SQLAlchemy's execution for each row would cost four times what SQLite does with it. SQLite takes
    some dozens of rows in one statement: the driver gives up the interpreter's lock once a statement, and getting it back from a
    busy event loop takes longer than the insertion. PostgreSQL gets whole columns, and inserts in the order of the keys, so that
    two writers never wait for each other in a circle.

    Parameters
    ----------
    conflict
        What follows ON CONFLICT.
    """
    names = ", ".join(table.columns.keys())
    if connection.dialect.name == "sqlite":
        one = f"({', '.join('?' * len(table.columns))})"
        for chunk in _chunks(rows, _PARAMETERS // len(table.columns)):
            values = ", ".join([one] * len(chunk))
            statement = f"INSERT INTO {table.name} ({names}) VALUES {values} ON CONFLICT {conflict}"  # noqa: S608 - names of our own
            connection.exec_driver_sql(statement, tuple(chain.from_iterable(chunk)))
        return
    arrays = ", ".join(f"%(c{number})b::{column.type.compile(connection.dialect)}[]" for number, column in enumerate(table.columns))
    given = f"SELECT * FROM unnest({arrays}) AS given ({names}) ORDER BY {', '.join(table.primary_key.columns.keys())}"  # noqa: S608
    for chunk in _chunks(rows, 1000):
        columns = {f"c{number}": list(column) for number, column in enumerate(zip(*chunk, strict=True))}
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) {given} ON CONFLICT {conflict}", columns)


def for_keys(connection: Connection, statement: str, keys: Sequence[bytes]) -> Iterator[Any]:
    """Run a statement that ends in a column of keys for the rows with these keys; one result for every some hundred or thousand."""
    if connection.dialect.name == "sqlite":
        for chunk in _chunks(keys, _PARAMETERS):
            yield connection.exec_driver_sql(f"{statement} IN ({', '.join('?' * len(chunk))})", tuple(chunk))
    else:
        for chunk in _chunks(keys, 10_000):
            yield connection.exec_driver_sql(f"{statement} = ANY(%(keys)b::bytea[])", {"keys": list(chunk)})


def _chunks(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))


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
    """Return what went wrong in the database, as one sentence with a remedy; holds no data and no password."""
    said = (str(error.orig or "").strip() or type(error).__name__).splitlines()[0]
    postgres = type(error.orig).__module__.startswith("psycopg")
    remedy = _CODES.get(getattr(error.orig, "sqlstate", None) or "")
    remedy = remedy or next((remedy for sign, remedy in (_POSTGRESQL if postgres else _SQLITE) if re.search(sign, said)), None)
    return f"journal {where}: {remedy or f'the database refused: {printable(redacted(said), one_line=True)[:300]}'}"


def prepare(connection: Connection) -> None:
    """Make the tables where they are missing and bring older ones up to date.

    Runs in the caller's transaction, which has to be a writing one: all of it happens, or nothing. Of several processes one
    does the work while the others wait.

    Raises
    ------
    InputError
        The tables cannot be brought up to date, or their version is not one that can be read.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7423115)")
    found = version_of(connection)
    if found is None:
        for table in tables.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
        connection.execute(meta.insert().values(name="schema", value=str(SCHEMA)))
        return
    try:
        for version in range(found + 1, SCHEMA + 1):
            for table in _ADDED[version]:
                connection.execute(CreateTable(table))
    except DBAPIError as error:
        left = f"{shown(connection.engine.url)}, left as it was because it cannot be brought from schema {found} to {SCHEMA}"
        raise InputError(sentence_of(error, left)) from None
    # Written even where nothing changes: a read-only journal is refused now, not after the first answers are paid for.
    connection.execute(update(meta).where(meta.c.name == "schema").values(value=str(SCHEMA)))


def version_of(connection: Connection) -> int | None:
    """Return the version of a journal's tables, None where there is no journal; raises InputError where it cannot be read or is newer."""
    if not connection.dialect.has_table(connection, "meta"):
        return None
    found = connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar_one_or_none()
    if found is None:
        return None
    journal = shown(connection.engine.url)
    if not re.fullmatch("[1-9][0-9]{0,8}", str(found)):
        raise InputError(f"journal {journal}: the version in its table meta is not a number that a journal has: restore a copy of it")
    if int(found) > SCHEMA:
        raise InputError(f"journal {journal} was written by a newer Tiltmeter (schema {found}, this one knows {SCHEMA}): upgrade tiltmeter")
    return int(found)
