"""What was computed from texts, kept in one SQLite file: a key (hash) and a value (bytes) a row.

Any number of processes may share a file; a value once kept is never changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

from tiltmeter.errors import InputError

__all__ = ["TextStore", "text_keys"]

_APPLICATION: Final = 0x54_69_6C_74
"""Marks an SQLite file as one of these ("Tilt")."""
_CHUNK: Final = 900  # SQLite before 3.32 takes 999 parameters at most
_BUSY_SECONDS: Final = 60.0


def text_keys(model: str, texts: Sequence[str]) -> list[bytes]:
    """Keys (20 bytes) of what the model of this fingerprint makes of each text."""
    start = blake2b(model.encode() + b"\0", digest_size=20)
    keys = []
    for text in texts:
        digest = start.copy()
        digest.update(text.encode("utf-8", "surrogatepass"))
        keys.append(digest.digest())
    return keys


class TextStore:
    """The store in the file at `path`, which is made when something is first kept.

    Each use opens the file anew (a millisecond), so that a store may be used from any thread, and after a fork.

    Raises
    ------
    InputError
        By all of its methods: the file is something else, is damaged, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of those that are kept, in any order."""
        if not self._path.exists():
            return
        with self._opened() as connection:
            for start in range(0, len(keys), _CHUNK):
                chunk = keys[start : start + _CHUNK]
                slots = ",".join("?" * len(chunk))
                yield from connection.execute(f"SELECT key, value FROM entries WHERE key IN ({slots})", chunk).fetchall()  # noqa: S608

    def write(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep all rows (key, value) in one transaction."""
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", rows)
            connection.execute("COMMIT")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
                self._prepare(connection)
                yield connection
        except OSError as error:
            raise InputError(f"{self._path} cannot be used ({error.strerror}): choose a folder you may write to") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite quotes what it cannot read
            said = "it is locked by another program" if "locked" in str(error) else str(error)
            raise InputError(f"{self._path} cannot be used ({said}): remove the file, what it held is computed anew") from None

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if self._marked(connection):
            return
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN IMMEDIATE")
        if not self._marked(connection):  # another process may have made it meanwhile
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise InputError(f"{self._path} is a database of something else: remove or rename it")
            connection.execute("CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
        connection.execute("COMMIT")

    def _marked(self, connection: sqlite3.Connection) -> bool:
        return bool(connection.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION)
