"""The journal (response cache): all answers in one SQL table, shared by all runs and processes that use the same database.

A run claims a request before it sends it. Claims of expired owners pass to the next owner that asks for them.
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

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
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
from tiltmeter.files.records import Filled
from tiltmeter.files.yaml import first_error
from tiltmeter.models.base import SERVED
from tiltmeter.sanitising import storable

if TYPE_CHECKING:
    from polars import DataFrame

EXPIRY = 60.0
"""Seconds without a heartbeat after which an owner counts as expired."""
PATIENCE = 60.0
"""Seconds to wait for an unavailable server."""
LONGEST_TEXT = 2**26
"""Maximum number of characters in a text; no model answers that much."""
LARGEST_NUMBER = 2**31 - 1
"""Maximum of a whole number in a row, which is the largest that PostgreSQL and the tables of a run can store.
"""
_SHORT = 1.0
"""Seconds for which retries are not reported."""
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_FETCHED = (
    *(
        "text",
        "thinking",
        "finish_reason",
        "refusal",
        "input_tokens",
        "output_tokens",
        "error_kind",
        "error_detail",
        "latency",
    ),
    *SERVED,
)
"""Columns that `Journal.fetch` reads in addition to key and status."""
_PROCESS = re.compile(r"([^|]*)\|(\d{1,18})\|([^|]*)", re.ASCII)
"""Machine, process ID and start time, as written by `new_owner`."""

_Result = TypeVar("_Result")
_Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
_Number = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]
_Seconds = Annotated[float, Field(ge=0)]
_log = logging.getLogger("tiltmeter.engine")


def _none_for_nan(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Row(NamedTuple):
    """One finished request as stored in the journal.

    The fields are the columns of the table `completions`.
    """

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
    served_model: _Text | None = None
    served_fingerprint: _Text | None = None
    served_provider: _Text | None = None


def _holds_an_answer(row: Row) -> Row:
    if (
        row.status == "ok"
        and row.text is None
        and row.thinking is None
        and row.refusal is None
        and row.finish_reason is None
    ):
        raise ValueError('its status is "ok" but it has no answer')
    return row


USABLE_ROW: TypeAdapter[Row] = TypeAdapter(
    Annotated[Row, AfterValidator(_holds_an_answer)],
    config=ConfigDict(strict=True, val_json_bytes="hex", allow_inf_nan=False),
)
"""Validates a row from a tuple, a dictionary or JSON: when it is written, imported, exported or checked."""


def flaw_of(error: ValidationError) -> str:
    """Return why a row is not valid, as the end of a sentence."""
    first = first_error(error)
    place = first["loc"][-1] if first["loc"] else ""
    name = Row._fields[place] if isinstance(place, int) and place < len(Row._fields) else str(place)[:100]
    match first["type"]:
        case "missing":
            return f"it has no {name}; only files written by tiltmeter journal export can be read"
        case "extra_forbidden":
            return f"a journal has no column {name}; was it written by a newer Tiltmeter?"
        case "value_error":
            return str(first["ctx"]["error"])
        case "json_invalid":
            return "it is not valid JSON; is the file complete?"
    return f"{f'its {name} is not valid' if name else 'it is not a row'}: {first['msg'][0].lower()}{first['msg'][1:]}"


class Taken(NamedTuple):
    """The outcome of a claim: every key is in exactly one of the three sets."""

    held: set[bytes]
    """Already answered."""
    mine: set[bytes]
    """Now claimed by the caller, which has to record or release them."""
    others: set[bytes]
    """Claimed by another live owner; check again later."""


class Owner(NamedTuple):
    """One run in one process, which may claim requests."""

    token: str
    process: str
    """Machine, process ID and start time of the process."""


def new_owner() -> Owner:
    """Return a new unique owner for this process."""
    return Owner(uuid.uuid4().hex, f"{machine_name()}|{os.getpid()}|{_started(os.getpid())}")


def machine_name() -> str:
    """Return a name for the space of process IDs: host, boot and process namespace (containers may share a host name)."""
    try:
        boot, space = (
            Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            str(Path("/proc/self/ns/pid").readlink()),
        )
    except OSError:
        boot = space = ""
    return f"{platform.node()[:100]}/{boot}/{space}".replace("|", "_")


def _started(pid: int) -> str | None:
    """Return the start time of a process on this machine, "" if it is not available, or None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        pass
    if sys.platform == "win32":  # where signal 0 would end the process instead of testing for it
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""


class Liveness:
    """Determines whether other owners are alive: by their process if it is on this machine, otherwise by their heartbeat.

    The heartbeat is a counter, whose changes are timed with the local clock, so that clocks of different
    machines need not agree.
    """

    def __init__(self) -> None:
        self._machine = machine_name()
        self._seen: dict[str, tuple[int, float]] = {}

    def forget(self) -> None:
        """Reset: heartbeats may have been missed during an outage."""
        self._seen.clear()

    def state(self, owner: Owner, beat: int) -> Literal["alive", "dead", "elsewhere"]:
        """Return the state of `owner`, whose counter is at `beat`.

        "dead" means that it will never finish what it claimed, and "elsewhere" that its heartbeat must be
        observed for longer.
        """
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
    """An open journal.

    It can be shared between threads; each call is atomic and is committed when it returns.

    Every method raises InputError, with one sentence, for an error of the database (disk full, read-only,
    locked, damaged). If a PostgreSQL server becomes unavailable, a call is retried for `PATIENCE` seconds;
    all operations are idempotent, so that repeating one whose result was lost does no harm.
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
        """Tokens of owners that claim through this object."""
        self._left: set[str] = set()
        """Tokens of owners that released everything, even if the database does not show it yet."""
        look_up_by_keys(engine)
        try:
            self._do(prepare)
        except InputError:
            self.close()
            raise
        self._open = True

    def _do(self, work: Callable[..., _Result], *given: object, reads: bool = False) -> _Result:
        """Run `work(connection, *given)` in a transaction and retry while the server is unavailable.

        It must be idempotent.
        """
        began, pause, warned = 0.0, _FIRST_PAUSE, False
        while True:
            try:
                with (
                    self._alone,
                    self._engine.connect().execution_options(reads=reads) as connection,
                    connection.begin(),
                ):
                    done = work(connection, *given)
            except (UnicodeDecodeError, TypeError):  # a column of SQLite can hold anything
                remedy = (
                    "recover readable rows with tiltmeter journal check --repair, or choose another --journal"
                )
                raise InputError(f"journal {self._where} is damaged: {remedy}") from None
            except DBAPIError as error:
                sentence = sentence_of(error, self._where)
                # When a journal is opened, a wrong address must be reported immediately; a server that is
                # starting reports this itself.
                if not passes(error) or not (self._open or "database system is" in str(error.orig)):
                    raise InputError(sentence) from None
                began = began or monotonic()
                tried = monotonic() - began
                if not warned and tried > _SHORT:
                    warned = True
                    _log.warning(
                        "journal %s: the database is unavailable; retrying for %g s", self._where, PATIENCE
                    )
                if tried + pause > PATIENCE or self._closed.is_set():
                    kept = f"retried for {tried:.0f} s; committed answers are kept, run again to resume"
                    raise InputError(f"{sentence} ({kept})") from None
                self._closed.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                with self._lock:
                    self._liveness.forget()
            else:
                if warned:
                    _log.warning("journal %s: the database is available again", self._where)
                return done

    def held(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return those of `keys` that have an answer."""
        return self._do(_held, keys, reads=True)

    def fetch(self, keys: Sequence[bytes]) -> DataFrame:
        """Return one row for each of `keys`, in this order.

        Returns
        -------
        DataFrame
            Columns key (hex), status ("ok", "failed" or "missing"), text, thinking, finish_reason, refusal,
            input_tokens, output_tokens, error ("kind: detail", null unless failed), latency (seconds),
            served_model, served_fingerprint, served_provider (null if the endpoint did not say).
        """
        return self._do(_fetch, keys, reads=True)

    def record(self, rows: Sequence[Row]) -> None:
        """Store finished requests and release the claims on them.

        Existing answers are never replaced; failures are.

        A row that is not valid (see `USABLE_ROW`) is stored as a failure of the kind "bad_response", so that
        it spoils no other row.
        """
        kept: dict[bytes, Row] = {}
        for row in (
            rows
        ):  # one row per key, as if they were stored one by one: the first answer, or the last failure
            if row.key not in kept or kept[row.key].status != "ok":
                kept[row.key] = _storable_row(row)
        self._do(self._record, list(kept.values()))

    def _record(self, connection: Connection, rows: list[Row]) -> None:
        insert_rows(connection, completions, _REPLACE_FAILURES, rows)
        done = [row.key for row in rows if row.status == "ok"]
        if failed := [row.key for row in rows if row.status != "ok"]:
            # Another owner may have claimed them if this is a retry.
            done += [key for key, token in _claimed(connection, failed).items() if token in self._tokens]
        _unclaim(connection, done)

    def claim(self, keys: Sequence[bytes], owner: Owner) -> Taken:
        """Claim for `owner` those of `keys` that are neither answered nor claimed by another live owner.

        Claims of expired owners (see `Liveness`) pass to the next owner that asks for them.
        """
        self._tokens.add(owner.token)
        while True:
            taken, expired = self._do(self._claim, keys, owner)
            if not expired:
                return taken
            self._do(_release_expired, expired)

    def _claim(
        self, connection: Connection, keys: Sequence[bytes], owner: Owner
    ) -> tuple[Taken, dict[str, int]]:
        """Return the outcome of the claim and the heartbeat counters of expired owners, including those with other keys."""
        # A claim is a heartbeat. The row stays locked, so that an owner does not expire while it claims.
        insert_rows(connection, owners, "(owner) DO UPDATE SET beat = owners.beat + 1", [(*owner, 0)])
        insert_rows(connection, claims, "(key) DO NOTHING", [(key, owner.token) for key in keys])
        # Read the other owners only now: an owner that claimed one of our keys before us also registered
        # before us.
        others = [
            (Owner(*row[:2]), row[2]) for row in connection.execute(select(owners)) if row[0] != owner.token
        ]
        with self._lock:
            expired = {
                one.token: beat
                for one, beat in others
                if one.token in self._left or self._liveness.state(one, beat) == "dead"
            }
        claimed = _claimed(connection, keys)
        unknown = set(claimed.values()) - {owner.token} - {other.token for other, _ in others}
        mine = {key for key, token in claimed.items() if token == owner.token}
        # Rows that another process recorded before it released its claim are visible from here on.
        held = _held(connection, keys)
        _unclaim(connection, list(held & mine))
        mine -= held
        return Taken(held, mine, set(keys) - held - mine), dict.fromkeys(unknown, 0) | expired

    def name_model(self, fingerprint: str, name: str) -> None:
        """Store the user-facing name of the model with this fingerprint; the first name is kept."""
        self._do(
            insert_rows,
            models,
            "(fingerprint) DO NOTHING",
            [(_sql_text(fingerprint), _sql_text(name), time())],
        )

    def beat(self, owner: Owner) -> None:
        """Send a heartbeat of `owner`; due well within `EXPIRY` seconds."""
        self._do(
            Connection.execute,
            update(owners).where(owners.c.owner == owner.token).values(beat=owners.c.beat + 1),
        )

    def release(self, owner: Owner) -> None:
        """Release all claims of `owner`."""
        self._tokens.discard(owner.token)
        self._left.add(owner.token)
        self._do(release_owners, [owner.token])
        self._left.discard(owner.token)

    def counts(self) -> dict[str, int]:
        """Return the number of rows by status ("ok", "failed") in the whole journal."""

        def count(connection: Connection) -> dict[str, int]:
            query = select(completions.c.status, func.count().label("rows")).group_by(completions.c.status)
            return {"ok": 0, "failed": 0, **{row.status: row.rows for row in connection.execute(query)}}

        return self._do(count, reads=True)

    def close(self) -> None:
        """Close the database; everything recorded is already committed."""
        self._closed.set()
        with self._lock:
            self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_journal(where: str | Path) -> Journal:
    """Open the journal at a path (an SQLite file, created if missing) or a database URL (sqlite or postgresql).

    Raises
    ------
    InputError
        The journal cannot be opened for writing: no permission, not a database, a newer schema, no driver, no
        server.
    """
    return Journal(connect(where))


_REPLACED = ", ".join(f"{name} = excluded.{name}" for name in Row._fields if name != "key")
_REPLACE_FAILURES = f"(key) DO UPDATE SET {_REPLACED} WHERE completions.status <> 'ok'"


def _held(connection: Connection, keys: Sequence[bytes]) -> set[bytes]:
    """Return those of `keys` that have an answer."""
    results = for_keys(connection, "SELECT key FROM completions WHERE status = 'ok' AND key", keys)
    return {row[0] for result in results for row in result}


def _claimed(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, str]:
    """Return the owners of those of `keys` that are claimed."""
    return {
        row[0]: row[1]
        for result in for_keys(connection, "SELECT key, owner FROM claims WHERE key", keys)
        for row in result
    }


def _unclaim(connection: Connection, keys: Sequence[bytes]) -> None:
    for _ in for_keys(connection, "DELETE FROM claims WHERE key", keys):
        pass


def release_owners(connection: Connection, tokens: Sequence[str]) -> None:
    """Release all claims of these owners, and remove the owners."""
    connection.execute(delete(claims).where(claims.c.owner.in_(tokens)))
    connection.execute(delete(owners).where(owners.c.owner.in_(tokens)))


ORPHANED = claims.c.owner.not_in(select(owners.c.owner))
"""SQL condition for claims without an owner."""


def _release_expired(connection: Connection, expired: dict[str, int]) -> None:
    """Release claims of expired owners unless they sent a heartbeat meanwhile."""
    for token, beat in sorted(expired.items()):
        connection.execute(delete(owners).where(owners.c.owner == token, owners.c.beat == beat))
    connection.execute(delete(claims).where(claims.c.owner.in_(list(expired)), ORPHANED))


def _fetch(connection: Connection, keys: Sequence[bytes]) -> DataFrame:
    """Return the table described in `Journal.fetch`."""
    import polars as pl
    from polars import DataFrame, Float64, Int32, Int64, Series, String, col

    schema: dict[str, Any] = {"stored_key": pl.Binary, "status": String, **dict.fromkeys(_FETCHED, String)}
    schema |= {"input_tokens": Int64, "output_tokens": Int64, "latency": Float64}
    query = f"SELECT key, status, {', '.join(_FETCHED)} FROM completions WHERE key"  # noqa: S608 - constant columns
    results = for_keys(connection, query, sorted(set(keys)))
    parts = (DataFrame(list(zip(*result, strict=True)), schema=schema, orient="col") for result in results)
    wanted = DataFrame({"stored_key": Series(keys, dtype=pl.Binary)})
    found = pl.concat([DataFrame(schema=schema), *parts])
    return wanted.join(found, on="stored_key", how="left", maintain_order="left").select(
        col.stored_key.bin.encode("hex").alias("key"),
        col.status.fill_null("missing"),
        *_FETCHED[:4],
        col("input_tokens", "output_tokens").cast(
            Int32, strict=False
        ),  # null for counts that earlier versions stored unchecked
        pl.format("{}: {}", "error_kind", "error_detail").alias("error"),
        "latency",
        *SERVED,
    )


def _sql_text(text: str) -> str:
    """Return `text` in a form that every database can store: lone surrogates and NUL, invalid in UTF-8 or SQL, become U+FFFD."""
    return text if text.isascii() and "\0" not in text else storable(text).replace("\0", "\ufffd")


def _storable_row(row: Row) -> Row:
    """Return a row in the form in which it is stored: the row itself, or a failure in its place if it is not valid."""
    stored = _in_sql_text(row)
    flaw = _flaw_in(stored)
    if flaw is None:
        return stored
    detail = f"the answer cannot be stored: {flaw}"
    return Row(
        row.key,
        stored.model,
        row.sample,
        "failed",
        row.attempts,
        row.created_at,
        error_kind="bad_response",
        error_detail=detail,
    )


def flaw_in(row: Row) -> str | None:
    """Return why a row cannot be stored, as the end of a sentence; None if it can."""
    return _flaw_in(_in_sql_text(row))


def _in_sql_text(row: Row) -> Row:
    return Row._make(_sql_text(value) if isinstance(value, str) else value for value in row)


def _flaw_in(stored: Row) -> str | None:
    try:
        USABLE_ROW.validate_python(stored)
    except ValidationError as error:
        return flaw_of(error)
    return None
