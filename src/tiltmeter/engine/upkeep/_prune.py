"""Removing rows that are no longer wanted, and giving their space back."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete, func, or_, select

from tiltmeter._text import redacted
from tiltmeter.engine._schema import claims, completions, owners
from tiltmeter.engine.upkeep._living import Claimant, require_idle
from tiltmeter.engine.upkeep._open import Place, opened, opened_to_read, reading, writing
from tiltmeter.engine.upkeep._stats import model_names, size_on_disk
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["Pruned", "of_model", "prune"]


class Pruned(NamedTuple):
    """What was removed, or would be."""

    answers: int
    """Paid for, and to be paid for again when a run needs them."""
    failed: int
    input_tokens: int
    """Of the answers, where known."""
    output_tokens: int
    claims: int
    """Of runs that are dead."""
    size_before: int
    """Bytes on disk."""
    size_after: int | None = None
    """None when nothing was removed yet."""
    note: str | None = None
    """What became of the space, where it could not be given back."""


def prune(
    where: str | Path,
    *,
    failed: bool = False,
    before: datetime | None = None,
    model: str | None = None,
    apply: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Pruned:
    """Remove the rows that fulfil every condition given (none given: no rows), and the claims of dead runs.

    Parameters
    ----------
    failed
        Only failures.
    before
        Only rows recorded before this moment (without a time zone: UTC).
    model
        Only rows of this model, see `of_model`.
    apply
        False: only count.
    say
        Told, in a sentence, when there is something to wait for.

    Raises
    ------
    InputError
        There is no journal or no such model, a run is alive on the journal, or the database refuses; nothing is removed then.
    """
    with (opened if apply else opened_to_read)(where) as place:
        with reading(place.engine) as connection:
            chosen = _conditions(connection, failed, before, model)
            found = _counted(connection, chosen)._replace(size_before=size_on_disk(place, connection))
        dead = require_idle(place.engine, place.shown, say)
        found = found._replace(claims=sum(one.claims for one in dead))
        if not apply:
            return found
        if place.file is not None:
            _note_in_files(place.engine)
        with writing(place.engine) as connection:
            if chosen:
                connection.execute(delete(completions).where(*chosen))
            _dismiss(connection, dead)
        note = _give_back(place)
        with reading(place.engine) as connection:
            return found._replace(size_after=size_on_disk(place, connection), note=note)


def of_model(connection: Connection, model: str) -> Any:
    """The condition that a row is of `model`: its fingerprint, or its name (`provider/name`) wherever it was asked.

    Raises
    ------
    InputError
        The journal has no row of it.
    """
    column = completions.c.model
    named = [name for name, called in model_names(connection).items() if called == model]
    chosen = or_(column == model, column.in_(named), *(column.startswith(model + mark, autoescape=True) for mark in ("@", " ")))
    if connection.execute(select(completions.c.key).where(chosen).limit(1)).first() is None:
        known = sorted({*connection.execute(select(column).distinct()).scalars(), *model_names(connection).values()})
        hint = f"; {did_you_mean(model, known)}" if known else ""
        raise InputError(f"--model {redacted(model)}: the journal has no row of it{hint}")
    return chosen


def _conditions(connection: Connection, failed: bool, before: datetime | None, model: str | None) -> list[Any]:
    chosen = []
    if failed:
        chosen.append(completions.c.status == "failed")
    if before is not None:
        chosen.append(completions.c.created_at < (before if before.tzinfo else before.replace(tzinfo=UTC)).timestamp())
    if model is not None:
        chosen.append(of_model(connection, model))
    return chosen


def _counted(connection: Connection, chosen: list[Any]) -> Pruned:
    if not chosen:
        return Pruned(0, 0, 0, 0, 0, 0)
    row = completions.c
    query = select(row.status, func.count(), func.sum(row.input_tokens), func.sum(row.output_tokens)).where(*chosen).group_by(row.status)
    counts = {status: tuple(int(one or 0) for one in rest) for status, *rest in connection.execute(query)}
    answers, *tokens = counts.pop("ok", (0, 0, 0))
    return Pruned(answers, sum(one[0] for one in counts.values()), tokens[0], tokens[1], 0, 0)


def _dismiss(connection: Connection, dead: list[Claimant]) -> None:
    for one in dead:
        connection.execute(delete(claims).where(claims.c.owner == one.owner))
        connection.execute(delete(owners).where(owners.c.owner == one.owner))


def _note_in_files(engine: Engine) -> None:
    """Let SQLite keep in a file what it notes to undo a statement: for one that removes most rows that is most of the journal."""
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("PRAGMA temp_store=FILE")
    finally:
        connection.close()  # back to the engine, which has this one only


def _give_back(place: Place) -> str | None:
    """Give free space back to the system; a sentence when that is not possible."""
    if place.file is not None:
        return _vacuum_file(place.engine, place.file)
    with place.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in (completions, claims):
            connection.exec_driver_sql(f"VACUUM (ANALYZE) {table.name}")
    return "the server uses the space again for new answers; VACUUM FULL, run by its administrator, would give it back to the disk"


def _vacuum_file(engine: Engine, file: Path) -> str | None:
    engine.dispose()
    # A connection of our own: the engine's keeps temporary tables in memory, and SQLite rebuilds the whole file as one.
    with closing(sqlite3.connect(file, isolation_level=None, timeout=30.0)) as connection:
        one = {name: int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_size", "page_count", "freelist_count")}
        needed = (one["page_count"] - one["freelist_count"]) * one["page_size"]
        free = min(shutil.disk_usage(file.parent).free, shutil.disk_usage(tempfile.gettempdir()).free)
        kept = "the rows are removed, and new answers will use their space, but the file stays as large as it was:"
        if free < 2.1 * needed:
            return (
                f"{kept} making it smaller takes {2 * needed / 1e6:,.0f} MB of free space on the disk; prune again when there is that much"
            )
        try:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            return f"{kept} {error}; prune again later"
    return None
