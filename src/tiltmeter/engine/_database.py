"""The database of a journal.

Tables and schema version, connection, statements for many rows, and error messages.
"""

from __future__ import annotations

import errno
import re
import sqlite3
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

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
    inspect,
    select,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateTable

from tiltmeter._sanitising import printable, redacted
from tiltmeter.errors import InputError

_Item = TypeVar("_Item")

SCHEMA: Final = 3
"""Version of these tables, stored in `meta`; to increase it, add an entry to `_ADDED`."""

tables: Final = MetaData()

meta: Final = Table(
    "meta",
    tables,
    Column("name", String(64), primary_key=True),
    Column("value", String(255), nullable=False),
)

completions: Final = Table(
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
    Column("served_model", Text),  # what the endpoint said it served
    Column("served_fingerprint", Text),
    Column("served_provider", Text),
)

owners: Final = Table(
    "owners",
    tables,
    Column("owner", String(32), primary_key=True),  # a random token
    Column("process", String(255), nullable=False),  # machine, process number and start
    # A counter of heartbeats, because the clocks of different machines are not compared.
    Column("beat", Integer, nullable=False),
)

# Requests that are being sent now.
claims: Final = Table(
    "claims",
    tables,
    Column("key", LargeBinary(32), primary_key=True),
    Column("owner", String(32), nullable=False),
    sqlite_with_rowid=False,
)

# User-facing names of models for statistics: fingerprints of weights are only hashes.
models: Final = Table(
    "models",
    tables,
    Column("fingerprint", Text, primary_key=True),
    Column("name", Text, nullable=False),  # as first written by a user
    Column("first_seen", Float, nullable=False),  # seconds since 1970, UTC
)

_ADDED: dict[int, tuple[Table | Column[Any], ...]] = {
    2: (models,),
    3: (completions.c.served_model, completions.c.served_fingerprint, completions.c.served_provider),
}
"""The tables and columns that each schema version added. Migrations run in the caller's transaction, on
SQLite and PostgreSQL."""

_COLUMNS_OF_EVERY_SCHEMA = {
    "meta": {"name", "value"},
    "completions": {"key", "model", "sample", "status", "attempts", "created_at", "text"},
}
"""Tables and columns of the journals of every schema version; a database without them is no journal."""

_BUSY_SECONDS = 30.0
_PARAMETERS = 900
"""Parameters per statement; SQLite before 3.32 accepts at most 999."""
_POSTGRES = "postgresql+psycopg"
_FORMS_OF_URL = f"sqlite:///file.db or {_POSTGRES}://user@host/name"

_NETWORK = {
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds until a broken connection is detected; by default two hours
    "application_name": "tiltmeter",
}
"""Default connection parameters (names of libpq), which the query of a URL may override."""

_PASSING = {"40001", "40P01", "53300", "57P01", "57P02", "57P03", "57P05"}
"""SQLSTATE codes of transactions to retry: serialisation failure, deadlock, no free connection, server
shutdown or start."""

_SQLITE = (
    (
        "disk is full",
        "the disk (or a quota) is full: free some space and run again; committed answers are kept",
    ),
    (
        "disk I/O error",
        "the disk reported an error: it may be full or failing; fix this and run again; "
        "committed answers are kept",
    ),
    (
        "readonly",
        "it is read-only: give write permission to the file and its folder, or choose another --journal",
    ),
    (
        "unable to open",
        "it cannot be opened: check that the folder exists and is writable and that the path is a file",
    ),
    (
        "not a database",
        "this file is not a journal (not an SQLite database): choose another --journal; "
        "if it was one, recover readable rows with tiltmeter journal check --repair",
    ),
    (
        "malformed",
        "the database is damaged: recover readable rows with tiltmeter journal check --repair, "
        "or choose another --journal",
    ),
    (
        "locked",
        f"another program has kept it locked for {_BUSY_SECONDS:g} s: "
        "end that program or choose another --journal",
    ),
)
_POSTGRESQL = (
    # When a server refuses a connection, the driver provides no error code, so the message is matched.
    (
        "password authentication failed",
        "the server rejected the user or the password: correct the URL, PGPASSWORD or ~/.pgpass",
    ),
    ("no password supplied", "the server requires a password: set it in ~/.pgpass, PGPASSWORD or the URL"),
    (
        "no pg_hba.conf entry",
        "the server does not allow this user from this machine: add a line to its pg_hba.conf",
    ),
    ("database system is", "the server is starting, stopping or recovering: run again in a moment"),
    (
        "too many",
        "the server has no free connection: raise its max_connections or start fewer processes at once",
    ),
    (
        "Connection refused",
        "no server answers there: check the host and the port, and that PostgreSQL is running",
    ),
    ("failed to resolve host|could not translate host", "there is no such host: check the name in the URL"),
    (
        "timeout expired|timed out",
        "no server answers there in time: check the host, the port and any firewalls",
    ),
    (
        "No such file or directory",
        "no server listens on that socket: check the host in the URL, and that PostgreSQL is running",
    ),
    ("invalid connection option", "the query of the URL has an option that PostgreSQL does not support"),
    (
        r'database ".*" does not exist',
        "the server has no such database: create it (createdb NAME) or name another in the URL",
    ),
    (
        "server closed the connection",
        "the server ended the connection: run again when it is available; committed answers are kept",
    ),
)
_CODES = {
    "25006": "the server is read-only (a standby?): name the primary server, or run again later",
    "42501": "the user may not create or write the tables there: "
    "GRANT it CREATE and USAGE on the schema, or name another user",
    "42703": "tables of another program have the same names there: use a separate database for the journal",
    "53100": "the disk of the server is full: free some space and run again; committed answers are kept",
}


def connect(where: str | Path) -> Engine:
    """Return an engine for a database URL or for the path of an SQLite file.

    The folder of a file is created if necessary. No connection to a server is opened yet. `postgresql://` and
    `postgres://` mean `postgresql+psycopg://`.

    Raises
    ------
    InputError
        The URL is not valid, its driver is not installed, the folder cannot be created, or the file is the
        database of another program.
    """
    url = parse_url(where)
    is_sqlite = url.get_backend_name() == "sqlite"
    file = sqlite_file(url)
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"cannot create the folder {file.parent}: {error.strerror}"
            raise InputError(f"journal {file}: {problem}; use another --journal") from None
        _refuse_without_locks(file)
        refuse_another_program(file)
    try:
        return _sqlite_engine(url) if is_sqlite else _postgres_engine(url)
    except (NoSuchModuleError, ImportError) as error:
        hint = f"write {_FORMS_OF_URL}" if is_sqlite else "pip install 'tiltmeter[postgres]'"
        raise InputError(
            f"journal {shown(url)}: no driver for this kind of database ({error}); {hint}"
        ) from None


def _sqlite_engine(url: URL) -> Engine:
    """Return an engine with one connection, used by one thread at a time under the journal's lock."""
    arguments = {"check_same_thread": False, "timeout": _BUSY_SECONDS}
    engine = create_engine(url, poolclass=StaticPool, connect_args=arguments)
    event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_sqlite_begin)
    return engine


def _postgres_engine(url: URL) -> Engine:
    """Return an engine with a pool of connections to a server.

    Claims rely on seeing, at each statement, what others have committed, whatever the default of the server.
    """
    arguments = {name: value for name, value in _NETWORK.items() if name not in url.query}
    return create_engine(
        url, pool_size=4, max_overflow=12, isolation_level="READ COMMITTED", connect_args=arguments
    )


def sqlite_file(url: URL) -> Path | None:
    """Return the SQLite file of a journal, or None for a server or a journal in memory."""
    if url.get_backend_name() != "sqlite" or not url.database or ":memory:" in url.database:
        return None
    return Path(url.database.removeprefix("file:")).expanduser()


_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


def _refuse_without_locks(journal: Path) -> None:
    """Raise InputError if the file system of a journal has no locks: SQLite would wait forever.

    Some network file systems have none. The test uses a separate file, because closing the journal would
    release the locks of other connections in this process. It uses the same kind of lock as SQLite, unlike
    filelock. A folder without write permission is not an error here; opening the journal reports it.
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
                f"journal {journal}: its file system does not support locks, so two runs would damage it; "
                "choose another --journal, on a disk of this machine or in PostgreSQL"
            ) from None


def refuse_another_program(file: Path) -> None:
    """Raise InputError if an SQLite file has tables and is no journal, or if it is no file.

    The file is only read, because opening a journal changes its mode.
    A damaged file is not an error here; opening the journal reports it.
    """
    try:
        status = file.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(
            f"journal {file} cannot be opened: {error.strerror}; choose another --journal"
        ) from None
    is_folder = stat.S_ISDIR(status.st_mode)
    if not (is_folder or stat.S_ISREG(status.st_mode)):  # reading a named pipe would wait for ever
        raise InputError(
            f"journal {file} is not a file, but a named pipe, a socket or a device: choose another --journal"
        )
    if is_folder or status.st_size == 0:
        return
    # A file without a log is read without locks, so that SQLite creates no files beside it.
    mode = "mode=ro" if file.with_name(f"{file.name}-wal").exists() else "mode=ro&immutable=1"
    address = f"{file.absolute().as_uri()}?{mode}"
    engine = create_engine(
        "sqlite://", poolclass=StaticPool, creator=lambda: sqlite3.connect(address, uri=True)
    )
    try:
        with engine.connect() as connection:
            _require_journal_or_empty(connection, str(file))
    except DBAPIError:
        return
    finally:
        engine.dispose()


def _require_journal_or_empty(connection: Connection, where: str) -> None:
    """Raise InputError if a database contains tables of another program where those of a journal would be.

    An SQLite file belongs to one program, so that any table counts; on a server, tables with other names do
    no harm.
    """
    if _is_journal(connection):
        return
    present = inspect(connection).get_table_names() + inspect(connection).get_view_names()
    foreign = set(present)
    if connection.dialect.name != "sqlite":
        foreign &= set(tables.tables)
    if foreign:
        owner = f"a database of another program (with the table {min(foreign)})"
        raise InputError(f"journal {where} is {owner}: choose another --journal")


def shown(url: URL) -> str:
    """Return the path or URL of a journal for display, without its password and query."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return printable(redacted(url.set(query={}).render_as_string(hide_password=True)), one_line=True)


def parse_url(where: str | Path) -> URL:
    """Return the database URL of a journal given as a path or a URL; raise InputError if it is not valid."""
    if not (isinstance(where, str) and "://" in where):
        return URL.create("sqlite", database=str(Path(where).expanduser()))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise InputError(f"journal URL is not valid: write {_FORMS_OF_URL}") from None
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername=_POSTGRES)
    if url.get_backend_name() != "sqlite" and url.drivername != _POSTGRES:
        supported = f"only sqlite and {_POSTGRES} databases can be a journal"
        raise InputError(f"journal {shown(url)}: {supported}, not {url.drivername}")
    return url


def _on_sqlite_connect(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions implicitly
    cursor = connection.cursor()
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            break
        except Exception as error:
            # Another process may be changing the mode of the same new file, which the busy timeout does not
            # cover.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    cursor.execute("PRAGMA synchronous=FULL")
    # Inserting dozens of rows in one statement needs temporary data, which must not use files.
    cursor.execute("PRAGMA temp_store=MEMORY")
    cursor.close()


def _on_sqlite_begin(connection: Connection) -> None:
    # A transaction that will write takes the lock immediately: a later upgrade could fail without waiting.
    reads = connection.get_execution_options().get("reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def look_up_by_keys(engine: Engine) -> None:
    """Configure PostgreSQL to look up rows by key: a plan for an empty journal would scan a full one."""

    def configure(connection: Any, _record: object) -> None:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET jit = off")
        connection.commit()

    if engine.dialect.name == "postgresql":
        event.listen(engine, "connect", configure)


def insert_rows(connection: Connection, table: Table, conflict: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows, each in the order of the table's columns; keys must be unique among them.

    The driver gets plain SQL, because executing each row through SQLAlchemy would take four times as long as
    SQLite itself.

    Parameters
    ----------
    conflict
        The SQL that follows ON CONFLICT.
    """
    if connection.dialect.name == "sqlite":
        _insert_into_sqlite(connection, table, conflict, rows)
    else:
        _insert_into_postgres(connection, table, conflict, rows)


def _insert_into_sqlite(
    connection: Connection, table: Table, conflict: str, rows: Sequence[Sequence[Any]]
) -> None:
    """Insert dozens of rows in one statement.

    The driver releases the interpreter lock once per statement, and getting it back from a busy event loop
    takes longer than the insertion.
    """
    columns = ", ".join(table.columns.keys())
    placeholders = ", ".join("?" * len(table.columns))
    for chunk in _chunks(rows, _PARAMETERS // len(table.columns)):
        values = ", ".join([f"({placeholders})"] * len(chunk))
        insertion = f"INSERT INTO {table.name} ({columns}) VALUES {values}"  # noqa: S608
        statement = f"{insertion} ON CONFLICT {conflict}"
        connection.exec_driver_sql(statement, tuple(chain.from_iterable(chunk)))


def _insert_into_postgres(
    connection: Connection, table: Table, conflict: str, rows: Sequence[Sequence[Any]]
) -> None:
    """Insert whole columns, in the order of the keys, so that two writers cannot deadlock."""
    columns = ", ".join(table.columns.keys())
    types = [column.type.compile(connection.dialect) for column in table.columns]
    arrays = ", ".join(f"%(c{number})b::{type_}[]" for number, type_ in enumerate(types))
    order = ", ".join(table.primary_key.columns.keys())
    rows_in_order = f"SELECT * FROM unnest({arrays}) AS given ({columns}) ORDER BY {order}"  # noqa: S608
    statement = f"INSERT INTO {table.name} ({columns}) {rows_in_order} ON CONFLICT {conflict}"
    for chunk in _chunks(rows, 1000):
        values = {f"c{number}": list(column) for number, column in enumerate(zip(*chunk, strict=True))}
        connection.exec_driver_sql(statement, values)


def for_keys(connection: Connection, statement: str, keys: Sequence[bytes]) -> Iterator[Any]:
    """Run a statement that ends with a key column for the rows with these keys.

    Yield one result per chunk of keys.
    """
    if connection.dialect.name == "sqlite":
        for chunk in _chunks(keys, _PARAMETERS):
            placeholders = ", ".join("?" * len(chunk))
            yield connection.exec_driver_sql(f"{statement} IN ({placeholders})", tuple(chunk))
    else:
        for chunk in _chunks(keys, 10_000):
            yield connection.exec_driver_sql(f"{statement} = ANY(%(keys)b::bytea[])", {"keys": list(chunk)})


def _chunks(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def passes(error: DBAPIError) -> bool:
    """Return whether the same transaction may succeed soon.

    It may if the server is unavailable or starting, or if two transactions conflicted. A commit that fails in
    this way may nevertheless have been carried out.
    """
    cause = error.orig
    if cause is None or not type(cause).__module__.startswith("psycopg"):
        return False
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return state in _PASSING or state.startswith("08")
    # Broken and refused connections have no error code.
    return error.connection_invalidated or type(cause).__name__ == "OperationalError"


def sentence_of(error: DBAPIError, where: str) -> str:
    """Return a database error as one sentence with a remedy, without data or passwords."""
    message = (str(error.orig or "").strip() or type(error).__name__).splitlines()[0]
    code = getattr(error.orig, "sqlstate", None)
    if code in _CODES:
        return f"journal {where}: {_CODES[code]}"
    is_postgres = type(error.orig).__module__.startswith("psycopg")
    for pattern, remedy in _POSTGRESQL if is_postgres else _SQLITE:
        if re.search(pattern, message):
            return f"journal {where}: {remedy}"
    quoted = printable(redacted(message), one_line=True)[:300]
    return f"journal {where}: the database reported: {quoted}"


def prepare(connection: Connection) -> None:
    """Create the tables if they are missing, and migrate older ones to the current schema.

    This runs atomically in the caller's transaction, which must be able to write. If several processes call
    it, one does the work while the others wait.

    Raises
    ------
    InputError
        The tables cannot be migrated, or their version is not supported.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7423115)")
    stored = version_of(connection)
    if stored is None:
        _require_journal_or_empty(connection, shown(connection.engine.url))
        for table in tables.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
        connection.execute(meta.insert().values(name="schema", value=str(SCHEMA)))
        return
    try:
        for version in range(stored + 1, SCHEMA + 1):
            for added in _ADDED[version]:
                _add(connection, added)
    except DBAPIError as error:
        reason = f"unchanged because it cannot be migrated from schema {stored} to {SCHEMA}"
        raise InputError(sentence_of(error, f"{shown(connection.engine.url)}, {reason}")) from None
    # Written even if nothing changes, so that a read-only journal fails now and not after the first paid
    # answers.
    connection.execute(update(meta).where(meta.c.name == "schema").values(value=str(SCHEMA)))


def _add(connection: Connection, added: Table | Column[Any]) -> None:
    """Create a table, or add a column to its table."""
    if isinstance(added, Table):
        connection.execute(CreateTable(added))
        return
    type_ = added.type.compile(connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {added.table.name} ADD COLUMN {added.name} {type_}")


def stored_columns(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """Return an SQL expression for each of these columns of `completions`.

    A column that an older schema does not have is null.
    """
    present = {column["name"] for column in inspect(connection).get_columns(completions.name)}
    return {name: name if name in present else "NULL" for name in names}


_STORED_VERSION = select(meta.c.value).where(meta.c.name == "schema")


def _is_journal(connection: Connection) -> bool:
    """Return whether a database has the tables of a journal, with their columns and a schema version."""
    for table, names in _COLUMNS_OF_EVERY_SCHEMA.items():
        if not connection.dialect.has_table(connection, table):
            return False
        present = {column["name"] for column in inspect(connection).get_columns(table)}
        if not names <= present:
            return False
    return connection.execute(_STORED_VERSION).first() is not None


def version_of(connection: Connection) -> int | None:
    """Return the schema version of a journal, or None if there is no journal.

    Raise InputError if it is not valid or is newer.
    """
    if not _is_journal(connection):
        return None
    stored = str(connection.execute(_STORED_VERSION).scalar_one())
    journal = f"journal {shown(connection.engine.url)}"
    if not re.fullmatch("[1-9][0-9]{0,8}", stored):
        problem = "the schema version in its table meta is not valid"
        raise InputError(f"{journal}: {problem}: restore a copy of the journal")
    version = int(stored)
    if version > SCHEMA:
        newer = f"was written by a newer Tiltmeter (schema {version}, this one knows {SCHEMA})"
        raise InputError(f"{journal} {newer}: upgrade tiltmeter")
    return version
