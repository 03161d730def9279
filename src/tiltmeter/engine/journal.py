"""The journal: every answer paid for, in one SQL table, shared by all runs and processes that name the same database."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from sqlalchemy import Connection, Engine, bindparam, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from tiltmeter.engine._owner import Liveness
from tiltmeter.engine._schema import SCHEMA, claims, completions, connect, owners, prepare, sentence_of
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Journal", "Row", "Taken", "open_journal"]

_CHUNK: Final = 1000  # keys in one statement


class Row(NamedTuple):
    """One finished request as the journal keeps it; the fields are the columns of the table `completions`."""

    key: bytes
    model: str
    sample: int
    status: str
    text: str | None
    thinking: str | None
    finish_reason: str | None
    refusal: str | None
    input_tokens: int | None
    output_tokens: int | None
    latency: float | None
    error_kind: str | None
    error_detail: str | None
    attempts: int
    created_at: float


class Taken(NamedTuple):
    """What came of asking for keys: every key is in exactly one of the three."""

    held: set[bytes]
    """Already answered."""
    mine: set[bytes]
    """Now claimed by the asker, who has to record or release them."""
    others: set[bytes]
    """Claimed by somebody else who lives: ask again later."""


def storable(text: str | None) -> str | None:
    """`text` as any database can keep it: lone surrogates and NUL, which UTF-8 or SQL cannot carry, become U+FFFD."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


class Journal:
    """An open journal. Safe to share between threads; each call is one transaction, committed when it returns.

    Every method raises InputError, in one sentence, when the database refuses (disk full, read-only, locked, damaged);
    the transaction is then undone as a whole.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._where = engine.url.database if engine.url.get_backend_name() == "sqlite" else engine.url.render_as_string()
        self._lock = threading.RLock()
        self._liveness = Liveness()
        insert = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}.get(engine.dialect.name)
        if insert is None:
            raise InputError(f"journal {self._where}: only sqlite and postgresql databases can be a journal, not {engine.dialect.name}")
        record = insert(completions)
        replaced = {name: record.excluded[name] for name in Row._fields if name != "key"}
        self._record = record.on_conflict_do_update(index_elements=["key"], set_=replaced, where=completions.c.status != "ok")
        self._claim = insert(claims).on_conflict_do_nothing(index_elements=["key"])
        self._enrol = insert(owners).on_conflict_do_nothing(index_elements=["owner"])
        with self._transaction() as connection:
            found = prepare(connection)
        if found > SCHEMA:
            self.close()
            raise InputError(
                f"journal {self._where} was written by a newer Tiltmeter (schema {found}, this one knows {SCHEMA}): upgrade tiltmeter"
            )

    @contextmanager
    def _transaction(self, *, reads: bool = False) -> Iterator[Connection]:
        try:
            with self._lock, self._engine.connect().execution_options(reads=reads) as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            raise InputError(sentence_of(error, str(self._where))) from None

    def held(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of `keys` that have an answer."""
        with self._transaction(reads=True) as connection:
            return self._held(connection, keys)

    def fetch(self, keys: Sequence[bytes]) -> pl.DataFrame:
        """The rows of `keys`, one each and in this order.

        Returns
        -------
        Columns key (hex), status ("ok", "failed" or "missing"), text, thinking, finish_reason, refusal, input_tokens,
        output_tokens, error ("kind: detail", null unless failed), latency (seconds).
        """
        from tiltmeter.engine._fetch import fetch_rows

        with self._transaction(reads=True) as connection:
            return fetch_rows(connection, keys, _CHUNK)

    def record(self, rows: Sequence[Row]) -> None:
        """Keep finished requests and give up the claims on them. An answer already kept is never replaced; a failure is."""
        if not rows:
            return
        values = [
            {
                **row._asdict(),
                "text": storable(row.text),
                "thinking": storable(row.thinking),
                "finish_reason": storable(row.finish_reason),
                "refusal": storable(row.refusal),
                "error_detail": storable(row.error_detail),
            }
            for row in rows
        ]
        with self._transaction() as connection:
            connection.execute(self._record, values)
            self._unclaim(connection, [row.key for row in rows])

    def claim(self, keys: Sequence[bytes], owner: str) -> Taken:
        """Reserve for `owner` those of `keys` that are neither answered nor claimed by a living other owner.

        Claims of the dead (see `Liveness`) pass to whoever asks next.
        """
        if not keys:
            return Taken(set(), set(), set())
        with self._transaction() as connection:
            self._bury_the_dead(connection, owner)
            connection.execute(self._enrol, {"owner": owner, "beat": 0})
            connection.execute(self._claim, [{"key": key, "owner": owner} for key in keys])
            # Only now look up: what another process recorded before it gave up its claim is visible from here on.
            held = self._held(connection, keys)
            mine: set[bytes] = set()
            for chunk in _chunks(keys):
                query = select(claims.c.key).where(claims.c.key.in_(chunk), claims.c.owner == owner)
                mine.update(key for (key,) in connection.execute(query))
            self._unclaim(connection, list(held & mine))
        mine -= held
        return Taken(held, mine, set(keys) - held - mine)

    def beat(self, owner: str) -> None:
        """Show that `owner` lives; due well within `EXPIRY` seconds."""
        with self._transaction() as connection:
            connection.execute(update(owners).where(owners.c.owner == owner).values(beat=owners.c.beat + 1))

    def release(self, owner: str) -> None:
        """Give up every claim of `owner`."""
        with self._transaction() as connection:
            self._dismiss(connection, owner)

    def counts(self) -> dict[str, int]:
        """Rows by status ("ok", "failed"), for the whole journal."""
        with self._transaction(reads=True) as connection:
            query = select(completions.c.status, func.count().label("rows")).group_by(completions.c.status)
            return {"ok": 0, "failed": 0, **{row.status: row.rows for row in connection.execute(query)}}

    def close(self) -> None:
        """Let go of the database; everything recorded is already committed."""
        with self._lock:
            self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _held(self, connection: Connection, keys: Sequence[bytes]) -> set[bytes]:
        found: set[bytes] = set()
        for chunk in _chunks(keys):
            query = select(completions.c.key).where(completions.c.key.in_(chunk), completions.c.status == "ok")
            found.update(key for (key,) in connection.execute(query))
        return found

    def _unclaim(self, connection: Connection, keys: Sequence[bytes]) -> None:
        if keys:
            connection.execute(delete(claims).where(claims.c.key == bindparam("claimed")), [{"claimed": key} for key in keys])

    def _bury_the_dead(self, connection: Connection, asker: str) -> None:
        others: list[Any] = list(connection.execute(select(owners.c.owner, owners.c.beat).where(owners.c.owner != asker)))
        for owner, beat in others:
            if self._liveness.is_dead(owner, beat):
                self._dismiss(connection, owner)

    def _dismiss(self, connection: Connection, owner: str) -> None:
        connection.execute(delete(claims).where(claims.c.owner == owner))
        connection.execute(delete(owners).where(owners.c.owner == owner))


def _chunks(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), _CHUNK):
        yield keys[start : start + _CHUNK]


def open_journal(where: str | Path) -> Journal:
    """Open the journal at a path (an SQLite file, made when missing) or a database URL (sqlite or postgresql).

    Raises
    ------
    InputError
        It cannot be opened and written: no permission, not a database, a newer schema, no driver, no server.
    """
    return Journal(connect(where))
