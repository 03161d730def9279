"""Opening a journal that exists, to change it or only to read it, without making one by mistake."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import StaticPool

from tiltmeter.engine._database import connect, sentence_of, shown
from tiltmeter.engine._journal import open_journal
from tiltmeter.engine._schema import check_version, version_of
from tiltmeter.errors import InputError

__all__ = ["ALONE", "WITH_LOG", "Place", "file_of", "log_of", "opened", "opened_to_read", "read_only", "reading", "said", "writing"]

WITH_LOG: Final = "mode=ro"
ALONE: Final = "immutable=1"
"""How SQLite is to open a file of which nothing may change, with and without the log beside it."""


class Place(NamedTuple):
    """An open journal, for maintenance."""

    engine: Engine
    shown: str
    """Its path or URL, without a password."""
    file: Path | None
    """The SQLite file, None on a server."""


def file_of(where: str | Path) -> Path | None:
    """The SQLite file that `where` means, None when it is the URL of a server.

    Raises
    ------
    InputError
        It is a journal in memory, which nobody else can see.
    """
    if not (isinstance(where, str) and "://" in where):
        return Path(where).expanduser()
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        return None  # `connect` finds the words for it
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or ":memory:" in url.database:
        raise InputError("a journal in memory ends with its process: there is nothing to maintain; give a file or a server with --journal")
    return Path(url.database.removeprefix("file:")).expanduser()


@contextmanager
def opened(where: str | Path) -> Iterator[Place]:
    """The journal at `where`, brought to the present schema as a run would do, and closed at the end.

    Raises
    ------
    InputError
        There is no journal, or the database refuses, also inside the block.
    """
    with opened_to_read(where):  # a file that is no journal does not become one
        pass
    file, engine = file_of(where), connect(where)
    name = shown(engine) if file is None else str(file)
    try:
        with said(name):
            open_journal(where).close()
            yield Place(engine, name, file)
    finally:
        engine.dispose()


@contextmanager
def opened_to_read(where: str | Path) -> Iterator[Place]:
    """The journal at `where` as it is: nothing is made, changed or brought to another schema.

    Raises
    ------
    InputError
        There is no journal, it is of a newer Tiltmeter, an SQLite file was changed meanwhile, or the database refuses, also inside the
        block.
    """
    file = file_of(where)
    if file is not None and not file.exists():
        raise InputError(f"there is no journal {file}; name another with --journal")
    if file is not None and file.is_file() and file.stat().st_size == 0:
        raise InputError(f"{file} is an empty file, not a journal; name another with --journal")
    engine = connect(where) if file is None else read_only(file)
    name = shown(engine) if file is None else str(file)
    before = None if file is None or log_of(file).exists() else file.stat()
    try:
        with said(name):
            with reading(engine) as connection:
                if not all(engine.dialect.has_table(connection, table) for table in ("completions", "meta")):
                    raise InputError(
                        f"there is no journal in {name}; name another database with --journal"
                        if file is None
                        else f"{name} is a database, but no journal; name another with --journal"
                    )
                check_version(version_of(connection), name)
            yield Place(engine, name, file)
        if (
            before is not None
            and file is not None
            and (before.st_mtime_ns, before.st_size) != (file.stat().st_mtime_ns, file.stat().st_size)
        ):
            raise InputError(f"journal {name} was changed while it was read; run the same command again")
    finally:
        engine.dispose()


def read_only(file: Path) -> Engine:
    """An engine that cannot write to an SQLite file.

    Without a log beside it nobody has the file open: then SQLite needs to make neither a log nor locks.
    """
    mode = WITH_LOG if log_of(file).exists() else ALONE
    address = f"{file.absolute().as_uri()}?{mode}"

    def connection() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=30.0, check_same_thread=False)

    return create_engine("sqlite://", poolclass=StaticPool, creator=connection)


def log_of(file: Path) -> Path:
    """The write-ahead log of an SQLite file."""
    return file.with_name(f"{file.name}-wal")


@contextmanager
def said(name: str) -> Iterator[None]:
    """Say what a database refuses in one sentence."""
    try:
        yield
    except DBAPIError as error:
        raise InputError(sentence_of(error, name)) from None


@contextmanager
def reading(engine: Engine, *, batch: int | None = None) -> Iterator[Connection]:
    """A transaction that only reads, keeping nobody else from writing; with `batch` the rows come that many at a time."""
    options = {} if batch is None else {"stream_results": True, "yield_per": batch}
    with engine.connect().execution_options(reads=True, **options) as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes: all of it, or nothing."""
    with engine.begin() as connection:
        yield connection
