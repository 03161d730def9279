"""Access to existing journals: opening, statistics by model, active runs, and pruning."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import Connection, Engine, LargeBinary, cast, create_engine, delete, func, or_, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from tiltmeter._sanitising import redacted
from tiltmeter.engine import _journal as journals
from tiltmeter.engine._database import (
    claims,
    completions,
    connect,
    models,
    owners,
    parse_url,
    refuse_another_program,
    sentence_of,
    shown,
    sqlite_file,
    tables,
    version_of,
)
from tiltmeter.engine._journal import Liveness, Owner, open_journal, release_owners
from tiltmeter.errors import InputError, did_you_mean

WITH_LOG: Final = "mode=ro"
ALONE: Final = "immutable=1"
"""Modes in which SQLite opens a file without changing it, with and without its log."""
_LOOK = 1.0
"""Seconds between checks of the heartbeats of runs on other machines."""

Say = Callable[[str], None]


class Claimant(NamedTuple):
    """One run that is registered in the journal."""

    owner: str
    """Its token."""
    process: str
    """`HOST, process NUMBER`."""
    state: Literal["alive", "dead", "elsewhere"]
    """"elsewhere": on another machine, where only its heartbeat shows whether it is alive."""
    claims: int
    """Number of requests it is sending."""


class ModelStats(NamedTuple):
    """Statistics of one model in the journal."""

    model: str
    """Its fingerprint, which is part of the keys of its answers."""
    name: str | None
    """Its user-facing name, if the journal contains it."""
    answers: int
    failed: dict[str, int]
    """Failures by kind, the most frequent first."""
    input_tokens: int
    output_tokens: int
    unmetered: int
    """Answers without known token counts."""
    text_bytes: int
    """Size of answers and thinking, in bytes of UTF-8."""
    first: float
    """Times of the oldest and the newest row, in seconds since 1970, UTC."""
    last: float

    @property
    def failures(self) -> int:
        """Number of failures of all kinds."""
        return sum(self.failed.values())


class Stats(NamedTuple):
    """Statistics of a journal."""

    journal: str
    schema: int
    answers: int
    failed: int
    size: int
    """Bytes on disk, including indexes and free space; for an SQLite file also its -wal and -shm."""
    models: list[ModelStats]
    """Models, the one with the most rows first."""
    claimants: list[Claimant]


class Pruned(NamedTuple):
    """Counts of rows that were removed, or would be removed."""

    answers: int
    """Paid answers, which must be paid for again if a run needs them."""
    failed: int
    input_tokens: int
    """Tokens of the answers, if known."""
    output_tokens: int
    claims: int
    """Claims of dead runs."""
    size_before: int
    """Bytes on disk."""
    size_after: int | None = None
    """Bytes on disk afterwards; None if nothing was removed yet."""
    note: str | None = None
    """A note on disk space that could not be freed."""


def stats(where: str | Path) -> Stats:
    """Return statistics of the journal at a path or URL, computed in the database.

    Raises
    ------
    InputError
        There is no journal, or the database reports an error.
    """
    with opened_to_read(where) as engine, reading(engine) as connection:
        of_models = list(_model_stats(connection))
        of_models.sort(key=lambda model: (-model.answers - model.failures, model.model))
        answers = sum(model.answers for model in of_models)
        failed = sum(model.failures for model in of_models)
        return Stats(
            journal=shown(engine.url),
            schema=version_of(connection) or 0,
            answers=answers,
            failed=failed,
            size=_size_on_disk(connection),
            models=of_models,
            claimants=_claimants(connection, Liveness()),
        )


def prune(
    where: str | Path,
    *,
    failed: bool = False,
    before: datetime | None = None,
    model: str | None = None,
    apply: bool = False,
    say: Say = lambda line: None,
) -> Pruned:
    """Remove the rows that satisfy all given conditions, and the claims of dead runs.

    Without conditions, no rows are removed.

    Parameters
    ----------
    failed
        Only failures.
    before
        Only rows recorded before this time (UTC if it has no time zone).
    model
        Only rows of this model, see `of_model`.
    apply
        Whether to remove the rows; if False, they are only counted.
    say
        Called with a sentence if the function has to wait.

    Raises
    ------
    InputError
        There is no journal or no such model, a run is using the journal, or the database reports an error;
        nothing is removed then.
    """
    with (opened if apply else opened_to_read)(where) as engine:
        with reading(engine) as connection:
            conditions: list[Any] = []
            if failed:
                conditions.append(completions.c.status == "failed")
            if before is not None:
                moment = before if before.tzinfo else before.replace(tzinfo=UTC)
                conditions.append(completions.c.created_at < moment.timestamp())
            if model is not None:
                conditions.append(of_model(connection, model))
            of_models = list(_model_stats(connection, *conditions)) if conditions else []
            size = _size_on_disk(connection)
        dead = require_idle(engine, say)
        counts = _counts_to_prune(of_models, dead, size)
        if not apply:
            return counts
        with closing(engine.raw_connection()) as driver:
            if engine.dialect.name == "sqlite":
                # The undo data of a statement that removes most rows can be as large as the journal.
                driver.cursor().execute("PRAGMA temp_store=FILE")
        with engine.begin() as connection:
            if conditions:
                connection.execute(delete(completions).where(*conditions))
            release_owners(connection, [run.owner for run in dead])
        note = _give_space_back(engine)
        with reading(engine) as connection:
            return counts._replace(size_after=_size_on_disk(connection), note=note)


def _counts_to_prune(of_models: list[ModelStats], dead: list[Claimant], size: int) -> Pruned:
    """Return what removing these rows and claims would remove from a journal of this size."""
    answers = sum(model.answers for model in of_models)
    failed = sum(model.failures for model in of_models)
    input_tokens = sum(model.input_tokens for model in of_models)
    output_tokens = sum(model.output_tokens for model in of_models)
    return Pruned(
        answers=answers,
        failed=failed,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        claims=sum(run.claims for run in dead),
        size_before=size,
    )


def journal_file(where: str | Path) -> Path | None:
    """Return the SQLite file of the journal `where`, or None for the URL of a server.

    Raises
    ------
    InputError
        It is a journal in memory, which no other process can access, or not a valid journal path or URL.
    """
    url = parse_url(where)
    file = sqlite_file(url)
    if file is None and url.get_backend_name() == "sqlite":
        raise InputError(
            "a journal in memory ends with its process and cannot be maintained; "
            "name a file or a server with --journal"
        )
    return file


def log_of(file: Path) -> Path:
    """Return the path of the write-ahead log of an SQLite file."""
    return file.with_name(f"{file.name}-wal")


def open_file_to_read(file: Path, mode: str | None = None) -> sqlite3.Connection:
    """Open an SQLite file without any possibility of changing it.

    If there is no log, no process has the file open, and SQLite needs to create neither a log nor locks.
    """
    mode = mode or (WITH_LOG if log_of(file).exists() else ALONE)
    address = f"{file.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(
        address, uri=True, timeout=30.0, check_same_thread=False, isolation_level=None
    )
    # Invalid UTF-8 fails validation of the value, not reading.
    connection.text_factory = lambda text: text.decode(errors="surrogateescape")
    return connection


@contextmanager
def opened(where: str | Path) -> Iterator[Engine]:
    """Open the existing journal `where` within the block, and migrate it to the current schema as a run does.

    Raises
    ------
    InputError
        There is no journal, or the database reports an error, also inside the block.
    """
    with opened_to_read(where):  # a file that is not a journal must not become one
        pass
    open_journal(where).close()
    with _closed_after(connect(where)) as engine:
        yield engine


@contextmanager
def opened_to_read(where: str | Path) -> Iterator[Engine]:
    """Open the journal `where` read-only within the block, without creating, changing or migrating anything.

    Raises
    ------
    InputError
        There is no journal, it is from a newer Tiltmeter, an SQLite file changed during the block, or the
        database reports an error, also inside the block.
    """
    file = journal_file(where)
    if file is None:
        engine = connect(where)
        missing = f"there is no journal in {shown(engine.url)}; name another database with --journal"
    else:
        refuse_another_program(file)
        if not file.exists():
            raise InputError(f"there is no journal {file}; name another with --journal")
        if file.is_file() and file.stat().st_size == 0:
            raise InputError(f"{file} is an empty file, not a journal; name another with --journal")
        url = URL.create("sqlite", database=str(file))
        engine = create_engine(url, poolclass=StaticPool, creator=lambda: open_file_to_read(file))
        missing = f"{file} is a database, but not a journal; name another with --journal"
    before = None if file is None or log_of(file).exists() else _last_change(file)
    with _closed_after(engine):
        with reading(engine) as connection:
            if version_of(connection) is None:
                raise InputError(missing)
        yield engine
        if file is not None and before is not None and before != _last_change(file):
            raise InputError(f"journal {file} changed while it was read; run the same command again")


def _last_change(file: Path) -> tuple[int, int]:
    """Return the time of the last change of a file, and its size."""
    status = file.stat()
    return status.st_mtime_ns, status.st_size


@contextmanager
def _closed_after(engine: Engine) -> Iterator[Engine]:
    """Convert database errors of the block to an InputError with one sentence; close the engine after it."""
    try:
        yield engine
    except DBAPIError as error:
        raise InputError(sentence_of(error, shown(engine.url))) from None
    finally:
        engine.dispose()


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Open a read-only transaction, which does not block writers."""
    with engine.connect().execution_options(reads=True) as connection, connection.begin():
        yield connection


def require_idle(engine: Engine, say: Say) -> list[Claimant]:
    """Return the registered runs, which are all dead.

    Wait for the heartbeat timeout of runs on other machines.

    Raises
    ------
    InputError
        A run is using the journal.
    """
    liveness, start = Liveness(), monotonic()
    announced = False
    while True:
        with reading(engine) as connection:
            runs = _claimants(connection, liveness)
        alive = [run.process for run in runs if run.state == "alive"]
        if alive:
            message = f"a run is using it ({alive[0]}); wait for its end or stop it, then try again"
            raise InputError(f"journal {shown(engine.url)}: {message}")
        if all(run.state == "dead" for run in runs):
            return runs
        if not announced:
            announced = True
            say(f"checking for up to {journals.EXPIRY:.0f} s whether runs on other machines are alive")
        until_expiry = journals.EXPIRY - (monotonic() - start)
        sleep(min(_LOOK, max(0.01, until_expiry)))


def _claimants(connection: Connection, liveness: Liveness) -> list[Claimant]:
    """Return the registered runs.

    The state of those on other machines depends on earlier observations in `liveness`.
    """
    number = func.count(claims.c.key).label("claims")
    query = select(*owners.c, number).join_from(
        owners, claims, owners.c.owner == claims.c.owner, isouter=True
    )
    runs = []
    for row in connection.execute(query.group_by(*owners.c).order_by(owners.c.owner)):
        state = liveness.state(Owner(row.owner, row.process), row.beat)
        runs.append(Claimant(row.owner, _process_words(row.process), state, row.claims))
    return runs


def _process_words(process: str) -> str:
    """Return `HOST, process NUMBER` for the process of an owner."""
    machine, _, number_and_start = process.partition("|")
    if not number_and_start:
        return process
    host, _, _ = machine.partition("/")
    number, _, _ = number_and_start.partition("|")
    return f"{host}, process {number}"


def of_model(connection: Connection, model: str) -> Any:
    """Return the SQL condition for rows of `model`.

    `model` is a fingerprint, or a name (`provider/name`) at any base URL.

    Raises
    ------
    InputError
        The journal has no row of the model.
    """
    column = completions.c.model
    names = model_names(connection)
    named = [fingerprint for fingerprint, name in names.items() if name == model]
    with_address = column.startswith(f"{model}@", autoescape=True)
    with_options = column.startswith(f"{model} ", autoescape=True)
    condition = or_(column == model, column.in_(named), with_address, with_options)
    if connection.execute(select(completions.c.key).where(condition).limit(1)).first() is None:
        present = {*connection.execute(select(column).distinct()).scalars(), *names.values()}
        hint = f"; {did_you_mean(model, sorted(present))}" if present else ""
        raise InputError(f"--model {redacted(model)}: the journal has no rows of this model{hint}")
    return condition


def model_names(connection: Connection) -> dict[str, str]:
    """Return the user-facing names of the models by fingerprint.

    Empty if the journal predates the table of names.
    """
    if not connection.dialect.has_table(connection, models.name):
        return {}
    names = connection.execute(select(models.c.fingerprint, models.c.name))
    return {row.fingerprint: row.name for row in names}


def _model_stats(connection: Connection, *conditions: Any) -> Iterator[ModelStats]:
    """Yield the statistics of each model, of the rows that satisfy all conditions."""
    stored = completions.c
    size = _octets(connection, stored.text) + _octets(connection, stored.thinking)
    columns = (
        stored.model,
        stored.status,
        stored.input_tokens,
        stored.output_tokens,
        stored.created_at,
        size.label("bytes"),
    )
    # OFFSET prevents the database from flattening the subquery: SQLite would otherwise sort complete texts.
    row = select(*columns).where(*conditions).offset(0).subquery().c
    answered = row.status == "ok"
    without_counts = row.input_tokens.is_(None) | row.output_tokens.is_(None)
    numbers = {
        "answers": func.count().filter(answered),
        "input_tokens": func.sum(row.input_tokens),
        "output_tokens": func.sum(row.output_tokens),
        "unmetered": func.count().filter(answered, without_counts),
        "text_bytes": func.sum(row.bytes),
    }
    first, last = func.min(row.created_at), func.max(row.created_at)
    query = select(row.model, first, last, *numbers.values()).group_by(row.model)
    failed = _failures_by_kind(connection, *conditions)
    names = model_names(connection)
    for model, oldest, newest, *sums in connection.execute(query):
        counts = {name: int(total or 0) for name, total in zip(numbers, sums, strict=True)}
        yield ModelStats(
            model=model,
            name=names.get(model),
            failed=failed[model],
            first=oldest,
            last=newest,
            **counts,
        )


def _octets(connection: Connection, text: Any) -> Any:
    """Return the SQL expression for the size of a text column in bytes of UTF-8; 0 for null."""
    if connection.dialect.name == "sqlite":
        return func.coalesce(func.length(cast(text, LargeBinary)), 0)
    return func.coalesce(func.octet_length(text), 0)


def _failures_by_kind(connection: Connection, *conditions: Any) -> dict[str, dict[str, int]]:
    """Return the number of failures by model and kind, the most frequent kind first."""
    stored = completions.c
    query = (
        select(stored.model, stored.error_kind, func.count())
        .where(stored.status != "ok", *conditions)
        .group_by(stored.model, stored.error_kind)
        .order_by(func.count().desc())
    )
    failures: dict[str, dict[str, int]] = defaultdict(dict)
    for model, kind, number in connection.execute(query):
        failures[model][kind or "unknown"] = number
    return failures


def _size_on_disk(connection: Connection) -> int:
    """Return the size of a journal in bytes, including free space."""
    file = sqlite_file(connection.engine.url)
    if file is None:
        return sum(_relation_size(connection, table.name) for table in tables.sorted_tables)
    files = (file, log_of(file), file.with_name(f"{file.name}-shm"))
    return sum(path.stat().st_size for path in files if path.exists())


def _relation_size(connection: Connection, table: str) -> int:
    """Return the size of a table on a server in bytes, with its indexes; 0 if there is no such table."""
    if not connection.dialect.has_table(connection, table):
        return 0
    return int(connection.execute(select(func.pg_total_relation_size(table))).scalar_one())


def _give_space_back(engine: Engine) -> str | None:
    """Return free space to the system; return a sentence if that is not possible."""
    file = sqlite_file(engine.url)
    if file is None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for table in (completions, claims):
                connection.exec_driver_sql(f"VACUUM (ANALYZE) {table.name}")
        return (
            "the server reuses the space for new answers; "
            "its administrator can return it to the disk with VACUUM FULL"
        )
    engine.dispose()
    # A separate connection: that of the engine keeps temporary tables in memory, and VACUUM rebuilds the
    # whole file as one.
    with closing(sqlite3.connect(file, isolation_level=None, timeout=30.0)) as separate:
        try:
            separate.execute("VACUUM")
            separate.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            return (
                "the rows are removed, and new answers will reuse their space, "
                f"but the file was not made smaller ({error}): "
                "this needs free space of up to twice its new size; prune again when there is enough"
            )
    return None
