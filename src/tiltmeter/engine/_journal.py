"""The journal: every answer paid for, in one SQL table, shared by all runs and processes that name the same database."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from time import monotonic, time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from sqlalchemy import Connection, Dialect, Engine, LargeBinary, bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from tiltmeter.engine._bulk import ForKeys, by_keys, many_rows
from tiltmeter.engine._database import connect, passes, sentence_of, shown
from tiltmeter.engine._owner import Liveness, Owner
from tiltmeter.engine._row import Row, Taken, one_each, storable
from tiltmeter.engine._schema import check_version, claims, completions, models, owners, prepare
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Journal", "Row", "Taken", "open_journal"]

PATIENCE: Final = 60.0
"""Seconds a journal waits for a server that has gone away."""
_SHORT: Final = 1.0
"""Seconds of trouble that are not worth a word."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0

_Result = TypeVar("_Result")
_log = logging.getLogger("tiltmeter.engine")


class _Statements:
    """What the journal says thousands of times a second, compiled for one kind of database."""

    def __init__(self, dialect: Dialect) -> None:
        insert = sqlite.insert if dialect.name == "sqlite" else postgresql.insert
        record = insert(completions)
        replaced = {name: record.excluded[name] for name in Row._fields if name != "key"}
        record = record.on_conflict_do_update(index_elements=["key"], set_=replaced, where=completions.c.status != literal_column("'ok'"))
        self.record = many_rows(record, completions, dialect)
        self.claim = many_rows(insert(claims).on_conflict_do_nothing(index_elements=["key"]), claims, dialect)
        # Whoever claims lives. The row stays locked for as long, so that nobody buries an owner while it claims.
        lives = {"beat": owners.c.beat + literal_column("1")}
        self.enrol = many_rows(insert(owners).on_conflict_do_update(index_elements=["owner"], set_=lives), owners, dialect)
        self.name = many_rows(insert(models).on_conflict_do_nothing(index_elements=["fingerprint"]), models, dialect)
        self._dialect = dialect
        keys = bindparam("keys", type_=LargeBinary)
        answered = completions.c.status == literal_column("'ok'")
        self.held = ForKeys(select(completions.c.key).where(completions.c.key.in_([keys]), answered), dialect)
        self.claimed = ForKeys(select(claims.c.key, claims.c.owner).where(claims.c.key.in_([keys])), dialect)
        self.unclaim = ForKeys(delete(claims).where(claims.c.key.in_([keys])), dialect)

    @cached_property
    def fetch(self) -> ForKeys:
        from tiltmeter.engine._fetch import FETCHED

        return ForKeys(select(*FETCHED).where(completions.c.key.in_([bindparam("keys", type_=LargeBinary)])), self._dialect)


class Journal:
    """An open journal. Safe to share between threads; each call is done as a whole and committed when it returns, or not at all.

    Every method raises InputError, in one sentence, when the database refuses (disk full, read-only, locked, damaged). A
    PostgreSQL server that goes away is waited for, for `PATIENCE` seconds, and asked again: what was done just before its
    answer was lost does no harm when it is done twice.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._where = engine, shown(engine)
        # An SQLite journal has one connection; those to a server come from a pool.
        self._lock = threading.RLock()
        self._alone = self._lock if engine.dialect.name == "sqlite" else nullcontext()
        self._closed = threading.Event()
        self._open = False
        self._liveness = Liveness()
        self._tokens: set[str] = set()
        """Of those who claim through this object."""
        self._left: set[str] = set()
        """Of those who have left, though the database may not know it."""
        self._statements = _Statements(engine.dialect)
        by_keys(engine)
        try:
            check_version(self._do(prepare), self._where)
        except InputError:
            self.close()
            raise
        self._open = True

    def _do(self, work: Callable[..., _Result], *given: object, reads: bool = False) -> _Result:
        """`work(connection, *given)` in a transaction, again and again while the server is away; it has to bear being done twice."""
        began, pause, told = 0.0, _FIRST_PAUSE, False
        while True:
            try:
                with self._alone, self._engine.connect().execution_options(reads=reads) as connection, connection.begin():
                    done = work(connection, *given)
            except UnicodeDecodeError:  # SQLite quotes what it cannot read
                raise InputError(self._damaged) from None
            except DBAPIError as error:
                sentence = sentence_of(error, self._where)
                # When a journal is opened a wrong address has to be said at once; a server that is starting says so itself.
                if not passes(error) or not (self._open or "database system is" in str(error.orig)):
                    raise InputError(sentence) from None
                began = began or monotonic()
                if not told and monotonic() - began > _SHORT:
                    told = True
                    _log.warning("journal %s: the database does not answer as it should; trying again for %g s", self._where, PATIENCE)
                if monotonic() - began + pause > PATIENCE or self._closed.is_set():
                    tried = f"tried for {monotonic() - began:.0f} s; what was committed before is kept, run again to go on"
                    raise InputError(f"{sentence} ({tried})") from None
                self._closed.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                with self._lock:
                    self._liveness.forget()
            else:
                if told:
                    _log.warning("journal %s: the database is back", self._where)
                return done

    @property
    def _damaged(self) -> str:
        return f"journal {self._where} is damaged: tiltmeter journal check --repair saves what can be read; or choose another --journal"

    def held(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of `keys` that have an answer."""
        return self._do(self._held, keys, reads=True)

    def fetch(self, keys: Sequence[bytes]) -> pl.DataFrame:
        """The rows of `keys`, one each and in this order.

        Returns
        -------
        Columns key (hex), status ("ok", "failed" or "missing"), text, thinking, finish_reason, refusal, input_tokens,
        output_tokens, error ("kind: detail", null unless failed), latency (seconds).
        """
        from tiltmeter.engine._fetch import fetched

        def look_up(connection: Connection, asked: list[bytes]) -> pl.DataFrame:
            try:
                return fetched(keys, self._statements.fetch.run(connection, asked))
            except TypeError:  # a column of SQLite can hold anything
                raise InputError(self._damaged) from None

        return self._do(look_up, sorted(set(keys)), reads=True)

    def record(self, rows: Sequence[Row]) -> None:
        """Keep finished requests and give up the claims on them. An answer already kept is never replaced; a failure is."""
        if rows:
            self._do(self._record, one_each(rows))

    def _record(self, connection: Connection, rows: list[Row]) -> None:
        self._statements.record.run(connection, rows)
        done = [row.key for row in rows if row.status == "ok"]
        if failed := [row.key for row in rows if row.status != "ok"]:
            # Somebody else may have claimed them, if this is done a second time.
            done += [key for key, token in self._claimed(connection, failed).items() if token in self._tokens]
        self._unclaim(connection, done)

    def claim(self, keys: Sequence[bytes], owner: Owner) -> Taken:
        """Reserve for `owner` those of `keys` that are neither answered nor claimed by a living other owner.

        Claims of the dead (see `Liveness`) pass to whoever asks next.
        """
        if not keys:
            return Taken(set(), set(), set())
        self._tokens.add(owner.token)
        while True:
            taken, dead = self._do(self._claim, keys, owner)
            if not dead:
                return taken
            self._do(self._bury, dead)

    def _claim(self, connection: Connection, keys: Sequence[bytes], owner: Owner) -> tuple[Taken, dict[str, int]]:
        """What was taken, and the beats of the dead who held any of `keys`, or anything."""
        self._statements.enrol.run(connection, [(*owner, 0)])
        self._statements.claim.run(connection, [(key, owner.token) for key in keys])
        # Others are looked for only now: whoever claimed one of our keys before us has enrolled before us, too.
        others = [(Owner(*row[:2]), row[2]) for row in connection.execute(select(owners)) if row[0] != owner.token]
        with self._lock:
            dead = {other.token: beat for other, beat in others if other.token in self._left or self._liveness.is_dead(other, beat)}
        claimed = self._claimed(connection, keys)
        unknown = set(claimed.values()) - {owner.token} - {other.token for other, _ in others}
        mine = {key for key, token in claimed.items() if token == owner.token}
        # What another process recorded before it gave up its claim is visible from here on.
        held = self._held(connection, keys)
        self._unclaim(connection, list(held & mine))
        mine -= held
        return Taken(held, mine, set(keys) - held - mine), dict.fromkeys(unknown, 0) | dead

    def _bury(self, connection: Connection, dead: dict[str, int]) -> None:
        """Take their claims from the dead, save from those who have given a sign of life since."""
        for token, beat in sorted(dead.items()):
            connection.execute(delete(owners).where(owners.c.owner == token, owners.c.beat == beat))
            lives = select(owners.c.owner).where(owners.c.owner == token).exists()
            connection.execute(delete(claims).where(claims.c.owner == token, ~lives))

    def name_model(self, fingerprint: str, name: str) -> None:
        """Note what users call the model of this fingerprint; the first name stays."""
        self._do(self._statements.name.run, [(storable(fingerprint), storable(name), time())])

    def beat(self, owner: Owner) -> None:
        """Show that `owner` lives; due well within `EXPIRY` seconds."""
        self._do(Connection.execute, update(owners).where(owners.c.owner == owner.token).values(beat=owners.c.beat + 1))

    def release(self, owner: Owner) -> None:
        """Give up every claim of `owner`."""
        self._tokens.discard(owner.token)
        self._left.add(owner.token)
        self._do(self._release, owner.token)
        self._left.discard(owner.token)

    def _release(self, connection: Connection, token: str) -> None:
        connection.execute(delete(claims).where(claims.c.owner == token))
        connection.execute(delete(owners).where(owners.c.owner == token))

    def counts(self) -> dict[str, int]:
        """Rows by status ("ok", "failed"), for the whole journal."""

        def count(connection: Connection) -> dict[str, int]:
            query = select(completions.c.status, func.count().label("rows")).group_by(completions.c.status)
            return {"ok": 0, "failed": 0, **{row.status: row.rows for row in connection.execute(query)}}

        return self._do(count, reads=True)

    def close(self) -> None:
        """Let go of the database; everything recorded is already committed."""
        self._closed.set()
        with self._lock:
            self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _held(self, connection: Connection, keys: Sequence[bytes]) -> set[bytes]:
        return {row[0] for found in self._statements.held.run(connection, keys) for row in found}

    def _claimed(self, connection: Connection, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Who has claimed those of `keys` that are claimed."""
        return {row[0]: row[1] for found in self._statements.claimed.run(connection, keys) for row in found}

    def _unclaim(self, connection: Connection, keys: Sequence[bytes]) -> None:
        for _ in self._statements.unclaim.run(connection, keys):
            pass


def open_journal(where: str | Path) -> Journal:
    """Open the journal at a path (an SQLite file, made when missing) or a database URL (sqlite or postgresql).

    Raises
    ------
    InputError
        It cannot be opened and written: no permission, not a database, a newer schema, no driver, no server.
    """
    return Journal(connect(where))
