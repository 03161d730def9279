"""Opening a journal that is already there, without making one by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from tiltmeter.engine._database import connect, sentence_of, shown
from tiltmeter.engine._journal import open_journal
from tiltmeter.errors import InputError

__all__ = ["Place", "file_of", "opened", "reading", "said", "writing"]


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
    file = file_of(where)
    if file is not None and not file.exists():
        raise InputError(f"there is no journal {file}; name another with --journal")
    engine = connect(where)
    name = shown(engine) if file is None else str(file)
    try:
        with said(name):
            if file is None:
                with engine.connect() as connection:
                    found = engine.dialect.has_table(connection, "completions")
                if not found:
                    raise InputError(f"there is no journal in {name}; name another database with --journal")
            open_journal(where).close()
            yield Place(engine, name, file)
    finally:
        engine.dispose()


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
