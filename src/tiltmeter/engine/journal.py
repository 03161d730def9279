"""The journal: every answer paid for, in one SQL table, shared by all runs and processes that name the same database.

A run claims a prompt before it asks for it. Claims of an owner that has expired pass to the next that asks.
"""

from __future__ import annotations

import logging
import math
import os
import platform
import re
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import BeforeValidator, Field
from sqlalchemy import Connection, Engine, delete, func, select, update
from sqlalchemy.exc import DBAPIError

from tiltmeter.engine.database import (
    claims,
    completions,
    connect,
    for_keys,
    insert_rows,
    look_up_by_keys,
    models,
    owners,
    passes,
    prepare,
    sentence_of,
    shown,
)
from tiltmeter.errors import InputError
from tiltmeter.records import Filled
from tiltmeter.sanitising import storable

if TYPE_CHECKING:
    from polars import DataFrame

EXPIRY = 60.0
"""Seconds without a heartbeat after which an owner counts as expired."""
PATIENCE = 60.0
"""Seconds a journal waits for a server that has gone away."""
LONGEST_TEXT = 2**26
"""Characters of one text; no model answers that much."""
_SHORT = 1.0
"""Seconds of trouble that are not reported."""
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_FETCHED = ("text", "thinking", "finish_reason", "refusal", "input_tokens", "output_tokens", "error_kind", "error_detail", "latency")
"""Columns that `Journal.fetch` reads beside key and status."""
_FREE_TEXTS = ("text", "thinking", "finish_reason", "refusal", "error_detail")
_PROCESS = re.compile(r"([^|]*)\|(\d{1,18})\|([^|]*)", re.ASCII)
"""Machine, process number and start, as `new_owner` writes them."""

_Result = TypeVar("_Result")
_Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
_Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Seconds = Annotated[float, Field(ge=0)]
_log = logging.getLogger("tiltmeter.engine")


def _none_for_nan(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Row(NamedTuple):
    """One finished request as the journal keeps it; the fields are the columns of the table `completions`."""

    key: Annotated[bytes, Field(min_length=32, max_length=32)]
    model: Filled[_Text]
    sample: _Number
    status: Literal["ok", "failed"]
    attempts: _Number
    created_at: _Seconds
    """Seconds since 1970, UTC."""
    text: _Text | None = None
    thinking: _Text | None = None
    finish_reason: _Text | None = None
    refusal: _Text | None = None
    input_tokens: _Number | None = None
    output_tokens: _Number | None = None
    latency: Annotated[_Seconds | None, BeforeValidator(_none_for_nan)] = None
    error_kind: _Text | None = None
    error_detail: _Text | None = None


class Taken(NamedTuple):
    """The outcome of a claim: every key is in exactly one of the three."""

    held: set[bytes]
    """Already answered."""
    mine: set[bytes]
    """Now claimed by the asker, who has to record or release them."""
    others: set[bytes]
    """Claimed by another owner that is alive: ask again later."""


class Owner(NamedTuple):
    """One run of one process, which may claim prompts."""

    token: str
    process: str
    """Machine, process number and start of the process."""


def new_owner() -> Owner:
    """Return an owner of this process, unlike any other."""
    return Owner(uuid.uuid4().hex, f"{machine_name()}|{os.getpid()}|{_started(os.getpid())}")


def machine_name() -> str:
    """Name the set of process numbers we can see: host, boot and process namespace (containers may share a host name)."""
    try:
        boot, space = Path("/proc/sys/kernel/random/boot_id").read_text().strip(), str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = space = ""
    return f"{platform.node()[:100]}/{boot}/{space}".replace("|", "_")


def _started(pid: int) -> str | None:
    """When a process of this machine started, "" where the system does not say, None when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        pass
    if sys.platform == "win32":  # there, signal 0 would end the process instead of asking after it
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""


class Liveness:
    """Judges other owners: by their process where it is on this machine, otherwise by watching their heartbeat.

    The heartbeat is a counter and is timed by the watcher's own clock, so clocks of different machines need not agree.
    """

    def __init__(self) -> None:
        self._machine = machine_name()
        self._seen: dict[str, tuple[int, float]] = {}

    def forget(self) -> None:
        """Reset: heartbeats may have been missed during an outage."""
        self._seen.clear()

    def state(self, owner: Owner, beat: int) -> Literal["alive", "dead", "elsewhere"]:
        """Judge `owner`, whose counter is at `beat`; "dead": it will never finish what it claimed, "elsewhere": it has to be watched."""
        process = _PROCESS.fullmatch(owner.process)
        here = process is not None and process[1] == self._machine
        if process is None or (here and _started(int(process[2])) != process[3]):
            return "dead"
        before = self._seen.get(owner.token)
        if before is None or before[0] != beat:
            self._seen[owner.token] = (beat, monotonic())
        elif monotonic() - before[1] > EXPIRY:
            return "dead"
        return "alive" if here or (before is not None and before[0] != beat) else "elsewhere"


class Journal:
    """An open journal. Safe to share between threads; each call is done as a whole and committed when it returns, or not at all.

    Every method raises InputError, in one sentence, when the database refuses (disk full, read-only, locked, damaged). A
    PostgreSQL server that goes away is waited for, for `PATIENCE` seconds, and asked again: what was done just before its
    answer was lost does no harm when it is done twice.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._where = engine, shown(engine.url)
        # An SQLite journal has one connection; those to a server come from a pool.
        self._lock = threading.RLock()
        self._alone = self._lock if engine.dialect.name == "sqlite" else nullcontext()
        self._closed = threading.Event()
        self._open = False
        self._liveness = Liveness()
        self._tokens: set[str] = set()
        """Of owners that claim through this object."""
        self._left: set[str] = set()
        """Of owners that released everything, though the database may not know it."""
        look_up_by_keys(engine)
        try:
            self._do(prepare)
        except InputError:
            self.close()
            raise
        self._open = True

    def _do(self, work: Callable[..., _Result], *given: object, reads: bool = False) -> _Result:
        """`work(connection, *given)` in a transaction, again and again while the server is away; it has to bear being done twice."""
        began, pause, warned = 0.0, _FIRST_PAUSE, False
        while True:
            try:
                with self._alone, self._engine.connect().execution_options(reads=reads) as connection, connection.begin():
                    done = work(connection, *given)
            except (UnicodeDecodeError, TypeError):  # a column of SQLite can hold anything
                remedy = "tiltmeter journal check --repair saves what can be read; or choose another --journal"
                raise InputError(f"journal {self._where} is damaged: {remedy}") from None
            except DBAPIError as error:
                sentence = sentence_of(error, self._where)
                # When a journal is opened a wrong address has to be said at once; a server that is starting says so itself.
                if not passes(error) or not (self._open or "database system is" in str(error.orig)):
                    raise InputError(sentence) from None
                began = began or monotonic()
                tried = monotonic() - began
                if not warned and tried > _SHORT:
                    warned = True
                    _log.warning("journal %s: the database does not answer as it should; trying again for %g s", self._where, PATIENCE)
                if tried + pause > PATIENCE or self._closed.is_set():
                    kept = f"tried for {tried:.0f} s; what was committed before is kept, run again to go on"
                    raise InputError(f"{sentence} ({kept})") from None
                self._closed.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                with self._lock:
                    self._liveness.forget()
            else:
                if warned:
                    _log.warning("journal %s: the database is back", self._where)
                return done

    def held(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of `keys` that have an answer."""
        return self._do(_held, keys, reads=True)

    def fetch(self, keys: Sequence[bytes]) -> DataFrame:
        """The rows of `keys`, one each and in this order.

        Returns
        -------
        Columns key (hex), status ("ok", "failed" or "missing"), text, thinking, finish_reason, refusal, input_tokens,
        output_tokens, error ("kind: detail", null unless failed), latency (seconds).
        """
        return self._do(_fetch, keys, reads=True)

    def record(self, rows: Sequence[Row]) -> None:
        """Keep finished requests and give up the claims on them. An answer already kept is never replaced; a failure is."""
        if not rows:
            return
        kept: dict[bytes, Row] = {}
        for row in rows:  # one row a key, as if they were kept one after the other: the first answer, else the last failure
            before = kept.get(row.key)
            if before is None or before.status != "ok":
                kept[row.key] = _storable_row(row)
        self._do(self._record, list(kept.values()))

    def _record(self, connection: Connection, rows: list[Row]) -> None:
        insert_rows(connection, completions, _REPLACE_FAILURES, rows)
        done = [row.key for row in rows if row.status == "ok"]
        if failed := [row.key for row in rows if row.status != "ok"]:
            # Another owner may have claimed them, if this is done a second time.
            done += [key for key, token in _claimed(connection, failed).items() if token in self._tokens]
        _unclaim(connection, done)

    def claim(self, keys: Sequence[bytes], owner: Owner) -> Taken:
        """Reserve for `owner` those of `keys` that are neither answered nor claimed by a living other owner.

        Claims of expired owners (see `Liveness`) pass to the next that asks.
        """
        if not keys:
            return Taken(set(), set(), set())
        self._tokens.add(owner.token)
        while True:
            taken, expired = self._do(self._claim, keys, owner)
            if not expired:
                return taken
            self._do(_release_expired, expired)

    def _claim(self, connection: Connection, keys: Sequence[bytes], owner: Owner) -> tuple[Taken, dict[str, int]]:
        """What was taken, and the heartbeat counters of expired owners, also those that held other keys."""
        # A claim is a heartbeat. The row stays locked meanwhile, so that an owner is not expired while it claims.
        insert_rows(connection, owners, "(owner) DO UPDATE SET beat = owners.beat + 1", [(*owner, 0)])
        insert_rows(connection, claims, "(key) DO NOTHING", [(key, owner.token) for key in keys])
        # Others are looked for only now: an owner that claimed one of our keys before us has enrolled before us, too.
        others = [(Owner(*row[:2]), row[2]) for row in connection.execute(select(owners)) if row[0] != owner.token]
        with self._lock:
            expired = {one.token: beat for one, beat in others if one.token in self._left or self._liveness.state(one, beat) == "dead"}
        claimed = _claimed(connection, keys)
        unknown = set(claimed.values()) - {owner.token} - {other.token for other, _ in others}
        mine = {key for key, token in claimed.items() if token == owner.token}
        # What another process recorded before it gave up its claim is visible from here on.
        held = _held(connection, keys)
        _unclaim(connection, list(held & mine))
        mine -= held
        return Taken(held, mine, set(keys) - held - mine), dict.fromkeys(unknown, 0) | expired

    def name_model(self, fingerprint: str, name: str) -> None:
        """Note what users call the model of this fingerprint; the first name stays."""
        self._do(insert_rows, models, "(fingerprint) DO NOTHING", [(_sql_text(fingerprint), _sql_text(name), time())])

    def beat(self, owner: Owner) -> None:
        """Show that `owner` is alive; due well within `EXPIRY` seconds."""
        self._do(Connection.execute, update(owners).where(owners.c.owner == owner.token).values(beat=owners.c.beat + 1))

    def release(self, owner: Owner) -> None:
        """Give up every claim of `owner`."""
        self._tokens.discard(owner.token)
        self._left.add(owner.token)
        self._do(release_owners, [owner.token])
        self._left.discard(owner.token)

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

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_journal(where: str | Path) -> Journal:
    """Open the journal at a path (an SQLite file, made when missing) or a database URL (sqlite or postgresql).

    Raises
    ------
    InputError
        It cannot be opened and written: no permission, not a database, a newer schema, no driver, no server.
    """
    return Journal(connect(where))


_REPLACED = ", ".join(f"{name} = excluded.{name}" for name in Row._fields if name != "key")
_REPLACE_FAILURES = f"(key) DO UPDATE SET {_REPLACED} WHERE completions.status <> 'ok'"


def _held(connection: Connection, keys: Sequence[bytes]) -> set[bytes]:
    """Those of `keys` that have an answer."""
    results = for_keys(connection, "SELECT key FROM completions WHERE status = 'ok' AND key", keys)
    return {row[0] for result in results for row in result}


def _claimed(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, str]:
    """The owners of those of `keys` that are claimed."""
    return {row[0]: row[1] for result in for_keys(connection, "SELECT key, owner FROM claims WHERE key", keys) for row in result}


def _unclaim(connection: Connection, keys: Sequence[bytes]) -> None:
    for _ in for_keys(connection, "DELETE FROM claims WHERE key", keys):
        pass


def release_owners(connection: Connection, tokens: Sequence[str]) -> None:
    """Give up every claim of these owners, and forget them."""
    connection.execute(delete(claims).where(claims.c.owner.in_(tokens)))
    connection.execute(delete(owners).where(owners.c.owner.in_(tokens)))


def _release_expired(connection: Connection, expired: dict[str, int]) -> None:
    """Release claims of expired owners unless they sent a heartbeat meanwhile."""
    for token, beat in sorted(expired.items()):
        connection.execute(delete(owners).where(owners.c.owner == token, owners.c.beat == beat))
        lives = select(owners.c.owner).where(owners.c.owner == token).exists()
        connection.execute(delete(claims).where(claims.c.owner == token, ~lives))


def _fetch(connection: Connection, keys: Sequence[bytes]) -> DataFrame:
    """The table that `Journal.fetch` promises."""
    import polars as pl
    from polars import DataFrame, Float64, Int32, Series, String, col

    schema: dict[str, Any] = {"stored_key": pl.Binary, "status": String, **dict.fromkeys(_FETCHED, String)}
    schema |= {"input_tokens": Int32, "output_tokens": Int32, "latency": Float64}
    results = for_keys(connection, f"SELECT key, status, {', '.join(_FETCHED)} FROM completions WHERE key", sorted(set(keys)))  # noqa: S608
    parts = (DataFrame(list(zip(*result, strict=True)), schema=schema, orient="col") for result in results)
    wanted = DataFrame({"stored_key": Series(keys, dtype=pl.Binary)})
    found = pl.concat([DataFrame(schema=schema), *parts])
    return wanted.join(found, on="stored_key", how="left", maintain_order="left").select(
        col.stored_key.bin.encode("hex").alias("key"),
        col.status.fill_null("missing"),
        *_FETCHED[:6],
        pl.format("{}: {}", "error_kind", "error_detail").alias("error"),
        "latency",
    )


def _sql_text(text: str | None) -> str | None:
    """`text` as any database can keep it: lone surrogates and NUL, which UTF-8 or SQL cannot carry, become U+FFFD."""
    return text if text is None or (text.isascii() and "\0" not in text) else storable(text).replace("\0", "\ufffd")


def _storable_row(row: Row) -> Row:
    kept: dict[str, Any] = {name: _sql_text(getattr(row, name)) for name in _FREE_TEXTS}
    return row._replace(**kept)
