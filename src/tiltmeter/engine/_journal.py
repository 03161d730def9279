"""The journal (response cache): all answers in one SQL table.

All runs and processes that use the same database share it. A run claims a request before it sends it. Claims
of expired owners pass to the next owner that asks for them.
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
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from sqlalchemy import Connection, Engine, delete, func, select, update
from sqlalchemy.exc import DBAPIError

from tiltmeter._files.records import Filled
from tiltmeter._files.yaml import first_error
from tiltmeter._sanitising import storable
from tiltmeter.engine._database import (
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
from tiltmeter.models._base import SERVED

if TYPE_CHECKING:
    from polars import DataFrame

EXPIRY: float = 60.0
"""Seconds without a heartbeat after which an owner counts as expired."""
PATIENCE: float = 60.0
"""Seconds to wait for an unavailable server."""
LONGEST_TEXT: Final = 2**26
"""Maximum number of characters in a text; no model answers that much."""
LARGEST_NUMBER: Final = 2**31 - 1
"""Maximum of a whole number in a row, which is the largest that PostgreSQL and the tables of a run can store.
"""
_SHORT = 1.0
"""Seconds for which retries are not reported."""
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_TEXTS = ("text", "thinking", "finish_reason", "refusal")
_FETCHED = (*_TEXTS, "input_tokens", "output_tokens", "error_kind", "error_detail", "latency", *SERVED)
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
    answer = (row.text, row.thinking, row.refusal, row.finish_reason)
    if row.status == "ok" and all(part is None for part in answer):
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
    if isinstance(place, int) and place < len(Row._fields):
        name = Row._fields[place]
    else:
        name = str(place)[:100]
    match first["type"]:
        case "missing":
            return f"it has no {name}; only files written by tiltmeter journal export can be read"
        case "extra_forbidden":
            return f"a journal has no column {name}; was it written by a newer Tiltmeter?"
        case "value_error":
            return str(first["ctx"]["error"])
        case "json_invalid":
            return "it is not valid JSON; is the file complete?"
    subject = f"its {name} is not valid" if name else "it is not a row"
    message = first["msg"]
    return f"{subject}: {message[0].lower()}{message[1:]}"


class Taken(NamedTuple):
    """The outcome of a claim: every key is in exactly one of the three sets."""

    answered: set[bytes]
    """Already answered."""
    claimed: set[bytes]
    """Now claimed by the caller, which has to record or release them."""
    awaited: set[bytes]
    """Claimed by another live owner; check again later."""


class Owner(NamedTuple):
    """One run in one process, which may claim requests."""

    token: str
    process: str
    """Machine, process ID and start time of the process."""


def new_owner() -> Owner:
    """Return a new unique owner for this process."""
    pid = os.getpid()
    return Owner(uuid.uuid4().hex, f"{machine_name()}|{pid}|{_started(pid)}")


def machine_name() -> str:
    """Return a name for the space of process IDs: host, boot and process namespace.

    Containers may share a host name.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = space = ""
    return f"{platform.node()[:100]}/{boot}/{space}".replace("|", "_")


def _started(pid: int) -> str | None:
    """Return the start time of a process on this machine.

    "" if it is not available, None if there is no such process.
    """
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
    """Determines whether other owners are alive.

    An owner on this machine is recognised by its process, others by their heartbeat. The heartbeat is a
    counter, whose changes are timed with the local clock, so that clocks of different machines need not
    agree.
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
        if process is None:
            return "dead"
        machine, pid, started = process.groups()
        is_local = machine == self._machine
        if is_local and _started(int(pid)) != started:
            return "dead"
        before = self._seen.get(owner.token)
        if before is None:
            self._seen[owner.token] = (beat, monotonic())
            return "alive" if is_local else "elsewhere"
        previous_beat, observed_at = before
        if previous_beat != beat:
            self._seen[owner.token] = (beat, monotonic())
            return "alive"
        if monotonic() - observed_at > EXPIRY:
            return "dead"
        return "alive" if is_local else "elsewhere"


class Journal:
    """An open journal.

    It can be shared between threads; each call is atomic and is committed when it returns.

    Every method raises InputError, with one sentence, for an error of the database (disk full, read-only,
    locked, damaged). If a PostgreSQL server becomes unavailable, a call is retried for `PATIENCE` seconds;
    all operations are idempotent, so that repeating one whose result was lost does no harm.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._where = shown(engine.url)
        # An SQLite journal has one connection; those to a server come from a pool.
        self._lock = threading.RLock()
        self._alone = self._lock if engine.dialect.name == "sqlite" else nullcontext()
        self._closed = threading.Event()
        self._open = False
        self._liveness = Liveness()
        self._tokens: set[str] = set()
        """Tokens of owners that claim through this object."""
        self._released: set[str] = set()
        """Tokens of owners that released everything, even if the database does not show it yet."""
        look_up_by_keys(engine)
        try:
            self._do(prepare)
        except InputError:
            self.close()
            raise
        self._open = True

    def _do(self, work: Callable[..., _Result], *arguments: object, reads: bool = False) -> _Result:
        """Run `work(connection, *arguments)` in a transaction and retry while the server is unavailable.

        It must be idempotent.
        """
        began = 0.0  # when the first failure occurred
        pause = _FIRST_PAUSE
        warned = False
        while True:
            try:
                with (
                    self._alone,
                    self._engine.connect().execution_options(reads=reads) as connection,
                    connection.begin(),
                ):
                    outcome = work(connection, *arguments)
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
                    advice = f"retried for {tried:.0f} s; committed answers are kept, run again to resume"
                    raise InputError(f"{sentence} ({advice})") from None
                self._closed.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                with self._lock:
                    self._liveness.forget()
            else:
                if warned:
                    _log.warning("journal %s: the database is available again", self._where)
                return outcome

    def held(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return those of `keys` that have an answer."""
        return self._do(_answered, keys, reads=True)

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
        # One row per key, as if they were stored one by one: the first answer, or the last failure.
        by_key: dict[bytes, Row] = {}
        for row in rows:
            if row.key not in by_key or by_key[row.key].status != "ok":
                by_key[row.key] = _storable_row(row)
        self._do(self._record, list(by_key.values()))

    def _record(self, connection: Connection, rows: list[Row]) -> None:
        insert_rows(connection, completions, _REPLACE_FAILURES, rows)
        to_release = [row.key for row in rows if row.status == "ok"]
        failed = [row.key for row in rows if row.status != "ok"]
        if failed:
            # Another owner may have claimed them if this is a retry.
            tokens = _claimed(connection, failed)
            to_release += [key for key, token in tokens.items() if token in self._tokens]
        _unclaim(connection, to_release)

    def claim(self, keys: Sequence[bytes], owner: Owner) -> Taken:
        """Claim for `owner` those of `keys` that are neither answered nor claimed by another live owner.

        Claims of expired owners (see `Liveness`) pass to the next owner that asks for them.
        """
        self._tokens.add(owner.token)
        while True:
            outcome, expired = self._do(self._claim, keys, owner)
            if not expired:
                return outcome
            self._do(_release_expired, expired)

    def _claim(
        self, connection: Connection, keys: Sequence[bytes], owner: Owner
    ) -> tuple[Taken, dict[str, int]]:
        """Return the outcome of the claim, and the heartbeat counters of expired owners.

        Owners that have expired are returned whether they claimed these keys or others.
        """
        # A claim is a heartbeat. The row stays locked, so that an owner does not expire while it claims.
        insert_rows(connection, owners, "(owner) DO UPDATE SET beat = owners.beat + 1", [(*owner, 0)])
        insert_rows(connection, claims, "(key) DO NOTHING", [(key, owner.token) for key in keys])
        # Read the other owners only now: an owner that claimed one of our keys before us also registered
        # before us.
        beats = {Owner(token, process): beat for token, process, beat in connection.execute(select(owners))}
        with self._lock:
            expired = {
                registered.token: beat
                for registered, beat in beats.items()
                if registered.token != owner.token and self._is_gone(registered, beat)
            }
        tokens = _claimed(connection, keys)
        unregistered = set(tokens.values()) - {registered.token for registered in beats}
        claimed = {key for key, token in tokens.items() if token == owner.token}
        # Rows that another process recorded before it released its claim are visible from here on.
        answered = _answered(connection, keys)
        _unclaim(connection, list(answered & claimed))
        claimed -= answered
        outcome = Taken(answered, claimed, awaited=set(keys) - answered - claimed)
        return outcome, dict.fromkeys(unregistered, 0) | expired

    def _is_gone(self, owner: Owner, beat: int) -> bool:
        """Return whether an owner has released everything or has expired."""
        return owner.token in self._released or self._liveness.state(owner, beat) == "dead"

    def name_model(self, fingerprint: str, name: str) -> None:
        """Store the user-facing name of the model with this fingerprint; the first name is kept."""
        row = (_sql_text(fingerprint), _sql_text(name), time())
        self._do(insert_rows, models, "(fingerprint) DO NOTHING", [row])

    def beat(self, owner: Owner) -> None:
        """Send a heartbeat of `owner`; due well within `EXPIRY` seconds."""
        next_beat = update(owners).where(owners.c.owner == owner.token).values(beat=owners.c.beat + 1)
        self._do(Connection.execute, next_beat)

    def release(self, owner: Owner) -> None:
        """Release all claims of `owner`."""
        self._tokens.discard(owner.token)
        self._released.add(owner.token)
        self._do(release_owners, [owner.token])
        self._released.discard(owner.token)

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
    """Open the journal at a path or a database URL (sqlite or postgresql).

    A path is that of an SQLite file, which is created if it is missing.

    Raises
    ------
    InputError
        The journal cannot be opened for writing: no permission, not a database, a newer schema, no driver, no
        server.
    """
    return Journal(connect(where))


_REPLACED = ", ".join(f"{name} = excluded.{name}" for name in Row._fields if name != "key")
_REPLACE_FAILURES = f"(key) DO UPDATE SET {_REPLACED} WHERE completions.status <> 'ok'"


def _answered(connection: Connection, keys: Sequence[bytes]) -> set[bytes]:
    """Return those of `keys` that have an answer."""
    results = for_keys(connection, "SELECT key FROM completions WHERE status = 'ok' AND key", keys)
    return {row[0] for result in results for row in result}


def _claimed(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, str]:
    """Return the owners of those of `keys` that are claimed."""
    results = for_keys(connection, "SELECT key, owner FROM claims WHERE key", keys)
    return {key: token for result in results for key, token in result}


def _unclaim(connection: Connection, keys: Sequence[bytes]) -> None:
    """Release the claims on `keys`."""
    for _ in for_keys(connection, "DELETE FROM claims WHERE key", keys):
        pass


def release_owners(connection: Connection, tokens: Sequence[str]) -> None:
    """Release all claims of these owners, and remove the owners."""
    connection.execute(delete(claims).where(claims.c.owner.in_(tokens)))
    connection.execute(delete(owners).where(owners.c.owner.in_(tokens)))


ORPHANED: Final = claims.c.owner.not_in(select(owners.c.owner))
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
    columns = ", ".join(_FETCHED)
    query = f"SELECT key, status, {columns} FROM completions WHERE key"  # noqa: S608 - constant columns
    results = for_keys(connection, query, sorted(set(keys)))
    parts = [DataFrame(list(zip(*result, strict=True)), schema=schema, orient="col") for result in results]
    stored = pl.concat([DataFrame(schema=schema), *parts])
    wanted = DataFrame({"stored_key": Series(keys, dtype=pl.Binary)})
    rows = wanted.join(stored, on="stored_key", how="left", maintain_order="left")
    # Null for counts that earlier versions stored unchecked.
    token_counts = col("input_tokens", "output_tokens").cast(Int32, strict=False)
    error = pl.format("{}: {}", "error_kind", "error_detail").alias("error")
    return rows.select(
        col.stored_key.bin.encode("hex").alias("key"),
        col.status.fill_null("missing"),
        *_TEXTS,
        token_counts,
        error,
        "latency",
        *SERVED,
    )


def _sql_text(text: str) -> str:
    """Return `text` in a form that every database can store.

    Lone surrogates and NUL, which are invalid in UTF-8 or SQL, become U+FFFD.
    """
    if text.isascii() and "\0" not in text:
        return text
    return storable(text).replace("\0", "\ufffd")


def _storable_row(row: Row) -> Row:
    """Return a row in the form in which it is stored; if it is not valid, a failure in its place."""
    stored = _in_sql_text(row)
    flaw = _flaw_in(stored)
    if flaw is None:
        return stored
    return Row(
        key=row.key,
        model=stored.model,
        sample=row.sample,
        status="failed",
        attempts=row.attempts,
        created_at=row.created_at,
        error_kind="bad_response",
        error_detail=f"the answer cannot be stored: {flaw}",
    )


def flaw_in(row: Row) -> str | None:
    """Return why a row cannot be stored, as the end of a sentence; None if it can."""
    return _flaw_in(_in_sql_text(row))


def _in_sql_text(row: Row) -> Row:
    """Return a row whose texts every database can store."""
    return Row._make(_sql_text(value) if isinstance(value, str) else value for value in row)


def _flaw_in(stored: Row) -> str | None:
    """Return why a row in the form in which it is stored is not valid; None if it is."""
    try:
        USABLE_ROW.validate_python(stored)
    except ValidationError as error:
        return flaw_of(error)
    return None
