"""The journal: every answer paid for, in one SQL table, shared by all runs and processes that name the same database."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from sqlalchemy import Connection, Dialect, Engine, LargeBinary, bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from tiltmeter.engine._bulk import ForKeys, ManyRows
from tiltmeter.engine._owner import Liveness, Owner
from tiltmeter.engine._schema import SCHEMA, claims, completions, connect, owners, prepare, sentence_of
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Journal", "Row", "Taken", "open_journal"]

_CHUNK: Final = 900  # keys in one statement


class Row(NamedTuple):
    """One finished request as the journal keeps it; the fields are the columns of the table `completions`."""

    key: bytes
    model: str
    sample: int
    status: str
    """"ok" or "failed"."""
    attempts: int
    created_at: float
    """Seconds since 1970, UTC."""
    text: str | None = None
    thinking: str | None = None
    finish_reason: str | None = None
    refusal: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency: float | None = None
    error_kind: str | None = None
    error_detail: str | None = None


class Taken(NamedTuple):
    """What came of asking for keys: every key is in exactly one of the three."""

    held: set[bytes]
    """Already answered."""
    mine: set[bytes]
    """Now claimed by the asker, who has to record or release them."""
    others: set[bytes]
    """Claimed by somebody else who lives: ask again later."""


def _storable(text: str | None) -> str | None:
    """`text` as any database can keep it: lone surrogates and NUL, which UTF-8 or SQL cannot carry, become U+FFFD."""
    if text is None:
        return None
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


def _storable_row(row: Row) -> Row:
    probe = f"{row.text}{row.thinking}{row.finish_reason}{row.refusal}{row.error_detail}"
    if probe.isascii() and "\0" not in probe:
        return row
    text, thinking, finish_reason = _storable(row.text), _storable(row.thinking), _storable(row.finish_reason)
    refusal, error_detail = _storable(row.refusal), _storable(row.error_detail)
    return row._replace(text=text, thinking=thinking, finish_reason=finish_reason, refusal=refusal, error_detail=error_detail)


class _Statements:
    """What the journal says thousands of times a second, compiled for one kind of database."""

    def __init__(self, dialect: Dialect) -> None:
        insert = sqlite.insert if dialect.name == "sqlite" else postgresql.insert
        record = insert(completions)
        replaced = {name: record.excluded[name] for name in Row._fields if name != "key"}
        record = record.on_conflict_do_update(index_elements=["key"], set_=replaced, where=completions.c.status != literal_column("'ok'"))
        self.record = ManyRows(record, Row._fields, dialect)
        self.claim = ManyRows(insert(claims).on_conflict_do_nothing(index_elements=["key"]), claims.c.keys(), dialect)
        self.enrol = ManyRows(insert(owners).on_conflict_do_nothing(index_elements=["owner"]), owners.c.keys(), dialect)
        keys = bindparam("keys", type_=LargeBinary)
        answered = completions.c.status == literal_column("'ok'")
        self.held = ForKeys(select(completions.c.key).where(completions.c.key.in_([keys]), answered), dialect)
        self.claimed = ForKeys(select(claims.c.key, claims.c.owner).where(claims.c.key.in_([keys])), dialect)
        self.unclaim = ForKeys(delete(claims).where(claims.c.key.in_([keys])), dialect)


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
        if engine.dialect.name not in ("sqlite", "postgresql"):
            raise InputError(f"journal {self._where}: only sqlite and postgresql databases can be a journal, not {engine.dialect.name}")
        self._statements = _Statements(engine.dialect)
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
        rows = [_storable_row(row) for row in rows]
        with self._transaction() as connection:
            self._statements.record.run(connection, rows)
            self._unclaim(connection, [row.key for row in rows])

    def claim(self, keys: Sequence[bytes], owner: Owner) -> Taken:
        """Reserve for `owner` those of `keys` that are neither answered nor claimed by a living other owner.

        Claims of the dead (see `Liveness`) pass to whoever asks next.
        """
        if not keys:
            return Taken(set(), set(), set())
        wanted = [(key, owner.token) for key in keys]
        with self._transaction() as connection:
            self._statements.enrol.run(connection, [(*owner, 0)])
            self._statements.claim.run(connection, wanted)
            # Others are looked for only now: whoever claimed one of our keys before us has enrolled before us, too.
            others = [(Owner(*row[:2]), row[2]) for row in connection.execute(select(owners)) if row[0] != owner.token]
            dead = [other for other, beat in others if self._liveness.is_dead(other, beat)]
            for other in dead:
                self._dismiss(connection, other)
            if dead:
                self._statements.claim.run(connection, wanted)
            mine = self._owned(connection, keys, owner) if others else set(keys)
            # What another process recorded before it gave up its claim is visible from here on.
            held = self._held(connection, keys)
            self._unclaim(connection, list(held & mine))
        mine -= held
        return Taken(held, mine, set(keys) - held - mine)

    def beat(self, owner: Owner) -> None:
        """Show that `owner` lives; due well within `EXPIRY` seconds."""
        with self._transaction() as connection:
            connection.execute(update(owners).where(owners.c.owner == owner.token).values(beat=owners.c.beat + 1))

    def release(self, owner: Owner) -> None:
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
        return {row[0] for found in self._statements.held.run(connection, keys) for row in found}

    def _owned(self, connection: Connection, keys: Sequence[bytes], owner: Owner) -> set[bytes]:
        return {row[0] for found in self._statements.claimed.run(connection, keys) for row in found if row[1] == owner.token}

    def _unclaim(self, connection: Connection, keys: Sequence[bytes]) -> None:
        for _ in self._statements.unclaim.run(connection, keys):
            pass

    def _dismiss(self, connection: Connection, owner: Owner) -> None:
        connection.execute(delete(claims).where(claims.c.owner == owner.token))
        connection.execute(delete(owners).where(owners.c.owner == owner.token))


def open_journal(where: str | Path) -> Journal:
    """Open the journal at a path (an SQLite file, made when missing) or a database URL (sqlite or postgresql).

    Raises
    ------
    InputError
        It cannot be opened and written: no permission, not a database, a newer schema, no driver, no server.
    """
    return Journal(connect(where))
