"""Integrity check of journals, and recovery of readable rows from damaged ones.

SQLite itself checks the file (`PRAGMA integrity_check`) and reads what remains of it: rows are queried by
ranges of row numbers, and a range that cannot be read is halved until only the unreadable rows are excluded.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, delete, func, or_, select, update

from tiltmeter.engine._database import (
    claims,
    completions,
    for_keys,
    refuse_another_program,
    shown,
    version_of,
)
from tiltmeter.engine._journal import LARGEST_NUMBER, ORPHANED, USABLE_ROW, Row, flaw_of, open_journal
from tiltmeter.engine.upkeep._holdings import (
    ALONE,
    WITH_LOG,
    Say,
    journal_file,
    log_of,
    open_file_to_read,
    opened,
    opened_to_read,
    reading,
    require_idle,
)
from tiltmeter.engine.upkeep._transfer import batches, stored_rows
from tiltmeter.errors import InputError

_MOST_COMPLAINTS: Final = 20
"""Maximum number of errors reported by the database."""
_MOST_FAILURES: Final = 40_000
"""Consecutive unreadable ranges after which recovery stops: a damaged page hides at most some thousand rows.
"""
_LOCKED_BYTES: Final = (512, 0x40000000)
"""Number and offset of the bytes that SQLite locks: every open connection in WAL mode holds some of them."""


_ONLY_ROWS: Final = (
    "only the rows were checked: use the tools of the server to check its files (pg_amcheck, data checksums)"
)
"""Note on a journal on a server."""


class Problem(NamedTuple):
    """One kind of problem in a journal."""

    what: str
    number: int
    """Number of rows, or of places in the file."""
    example: str | None = None
    """The key (hex) of one such row, or the message of the database."""


class Health(NamedTuple):
    """The result of `check`."""

    journal: str
    state: Literal["sound", "bad rows", "foreign log", "damaged", "unusable"]
    """"bad rows": the database is sound, some rows are not; "foreign log": the -wal file belongs to another
    file; "damaged": some rows can be recovered; "unusable": none can."""
    schema: int | None
    rows: int | None
    """Number of rows in the journal; for a damaged file, an estimate from its index."""
    readable: int | None
    """Rows of a damaged file that can be recovered; None for a sound one."""
    problems: list[Problem]
    notes: list[str]

    @property
    def sound(self) -> bool:
        """Whether the journal has no problems."""
        return self.state == "sound"


class Repaired(NamedTuple):
    """The result of `repair`."""

    journal: str
    was: Literal["sound", "bad rows", "foreign log", "damaged"]
    rows: int
    """Number of rows in the journal now."""
    claimed: int | None
    """Number of rows in the damaged file according to its index; None if the file was not damaged."""
    removed: int
    """Number of invalid rows removed."""
    aside: Path | None
    """New path of the damaged file (with its log), or of the log of another file."""
    corrected: int = 0
    """Number of rows of a sound file that were kept without a token count that was not valid."""

    @property
    def lost(self) -> int:
        """Number of rows known to be lost."""
        return max(0, (self.claimed or 0) - self.rows - self.removed)


def check(where: str | Path) -> Health:
    """Check a journal without changing the file or its log. Runs may use the journal at the same time.

    For an SQLite file: `PRAGMA integrity_check`, its log and every row; for a damaged file also the number of
    rows that can be recovered. For a server: every row; the integrity of its files is up to the server. No
    journal on the same file may be open in this process: closing any handle of the process releases the locks
    of SQLite.

    Raises
    ------
    InputError
        There is no journal, or it cannot be opened.
    """
    file = journal_file(where)
    if file is None:
        return _check_rows(where, [_ONLY_ROWS])
    examined = _examine_file(file)
    if examined.state == "sound":
        return _check_rows(where, [])
    health = Health(
        journal=str(file),
        state=examined.state,
        schema=None,
        rows=None,
        readable=None,
        problems=examined.problems,
        notes=examined.notes,
    )
    if examined.state == "foreign log":
        return health
    try:
        with _opened_damaged(file) as damaged:
            readable, expected = _copy_readable(damaged, lambda rows: None)
    except sqlite3.DatabaseError:
        readable = expected = 0
    state: Literal["damaged", "unusable"] = "damaged" if readable else "unusable"
    return health._replace(state=state, rows=expected, readable=readable)


def _check_rows(where: str | Path, notes: list[str]) -> Health:
    """Check the rows of a database that is sound."""
    with opened_to_read(where) as engine, reading(engine) as connection:
        problems, _ = _row_problems(connection)
        return Health(
            journal=shown(engine.url),
            state="bad rows" if problems else "sound",
            schema=version_of(connection),
            rows=_count(connection),
            readable=None,
            problems=problems,
            notes=notes,
        )


def repair(where: str | Path, *, say: Say = lambda line: None) -> Repaired:
    """Repair a journal and keep every row that can be read.

    The readable rows of a damaged file are written to a new file, which replaces it atomically; the damaged
    file is renamed to NAME.damaged-DATE. The log of another file is renamed in the same way. In a sound
    database, invalid rows and claims without an owner are removed. No journal on the same file may be open in
    this process.

    Raises
    ------
    InputError
        A run is using the journal, no row can be read, or the disk is full; nothing is changed then.
    """
    file = journal_file(where)
    if file is None:
        return _remove_unusable(where, say)
    state = _examine_file(file).state
    if state == "sound":
        return _remove_unusable(where, say)
    aside = file.with_name(f"{file.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
    if state == "foreign log":
        with _held_alone(file):
            _set_log_aside(file, aside)
        return _remove_unusable(where, say)._replace(was="foreign log", aside=log_of(aside))
    try:
        # Opened before the file is locked and closed after it is released: opening or closing it in SQLite
        # ends other locks of the process.
        with (
            _opened_damaged(file) as damaged,
            _held_alone(file),
            TemporaryDirectory(prefix=".repair-", dir=file.parent) as folder,
        ):
            fresh = Path(folder) / file.name
            rows, expected = _save_readable(damaged, fresh)
            shutil.copymode(file, fresh)
            _swap(file, fresh, aside)
    except sqlite3.DatabaseError:
        advice = "it was not changed: restore a copy, or choose another --journal"
        raise InputError(f"journal {file}: no row can be read from it; {advice}") from None
    return Repaired(journal=str(file), was="damaged", rows=rows, claimed=expected, removed=0, aside=aside)


class _Examined(NamedTuple):
    """What SQLite says about a file and its log; its rows were not checked."""

    state: Literal["sound", "foreign log", "damaged"]
    problems: list[Problem]
    notes: list[str]


def _count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(completions)).scalar_one())


def _row_problems(connection: Connection) -> tuple[list[Problem], list[Any]]:
    """Return the problems, and the keys of the invalid rows.

    Problems are invalid rows by cause, and claims without an owner.
    """
    flaws: dict[str, list[Any]] = defaultdict(list)
    for values in stored_rows(connection):
        try:
            USABLE_ROW.validate_python(values)
        except ValidationError as error:
            flaws[flaw_of(error)].append(values[0])
    problems = []
    for flaw, keys in flaws.items():
        example = keys[0].hex() if isinstance(keys[0], bytes) else repr(keys[0])
        problems.append(Problem(f"invalid rows ({flaw})", len(keys), example))
    orphans = connection.execute(select(func.count()).select_from(claims).where(ORPHANED)).scalar_one()
    if orphans:
        problems.append(Problem("claims without an owner", int(orphans)))
    return problems, [*chain.from_iterable(flaws.values())]


def _remove_unusable(where: str | Path, say: Say) -> Repaired:
    """Remove invalid rows, and claims without an owner, from a sound database.

    Invalid token counts become unknown.
    """
    corrected = 0
    with opened_to_read(where) as engine, reading(engine) as connection:
        problems, keys = _row_problems(connection)
        rows = _count(connection)
    if problems:
        with opened(where) as engine:
            require_idle(engine, say)
            with engine.begin() as connection:
                connection.execute(delete(claims).where(ORPHANED))
                corrected = _forget_invalid_counts(connection)
                _, keys = _row_problems(connection)
                for _ in for_keys(connection, "DELETE FROM completions WHERE key", keys):
                    pass
                rows = _count(connection)
    return Repaired(
        journal=shown(engine.url),
        was="bad rows" if problems else "sound",
        rows=rows,
        claimed=None,
        removed=len(keys),
        aside=None,
        corrected=corrected,
    )


def _forget_invalid_counts(connection: Connection) -> int:
    """Set invalid token counts to null, because a paid answer is worth more than its count.

    Return the number of rows with one.
    """
    counts = completions.c.input_tokens, completions.c.output_tokens
    # In SQLite, texts and bytes are larger than any number.
    invalid = {count: or_(count < 0, count > LARGEST_NUMBER) for count in counts}
    either = or_(*invalid.values())
    rows = connection.execute(select(func.count()).select_from(completions).where(either)).scalar_one()
    for count, condition in invalid.items():
        connection.execute(update(completions).where(condition).values({count: None}))
    return int(rows)


def _examine_file(file: Path) -> _Examined:
    """Check whether an SQLite file and its log are sound and belong together; the rows are not checked.

    Raises
    ------
    InputError
        There is no such file, or it cannot be opened.
    """
    refuse_another_program(file)
    if not file.is_file():
        raise InputError(f"there is no journal {file}; name another with --journal")
    log = log_of(file)
    has_log = log.exists() and log.stat().st_size > 0
    complaints = _complaints(file)
    if complaints and not has_log and log.exists():  # a run has started in the meantime
        complaints = _complaints(file)
    foreign = _foreign_log(file, complaints) if has_log else None
    if foreign:
        return _Examined("foreign log", [foreign], [])
    if not complaints:
        return _Examined("sound", [], [])
    notes = []
    if not has_log:
        notes.append(
            f"if it was copied without the file {log.name}, copy that to the same folder and check again"
        )
    details = " ".join("; ".join(complaints).split())[:500]
    return _Examined("damaged", [Problem("damaged places in the file", len(complaints), details)], notes)


def _foreign_log(file: Path, complaints: list[str]) -> Problem | None:
    """Return the problem of a file whose log belongs to another file; None if the log is its own.

    Such a file is sound without the log, and with it damaged (`complaints`), or with fewer rows: runs never
    remove rows, and pruning leaves no log.
    """
    name = log_of(file).name
    if complaints:
        problem = Problem("logs of another file, without which the journal is sound", 1, name)
    else:
        try:
            hidden = _rows_in(file, ALONE) - _rows_in(file, WITH_LOG)
        except sqlite3.Error:  # incomplete without its log, which is normal
            return None
        if hidden <= 0:
            return None
        problem = Problem(f"rows hidden by {name}, the log of another file or of another time", hidden)
    return None if _complaints(file, ALONE) else problem


def _rows_in(file: Path, mode: str) -> int:
    """Return the number of rows in a file that is opened in this mode."""
    with closing(open_file_to_read(file, mode)) as connection:
        return int(connection.execute("SELECT count(*) FROM completions").fetchone()[0])


def _complaints(file: Path, mode: str | None = None) -> list[str]:
    """Return the errors that SQLite finds in a file and its log; empty if it is sound."""
    try:
        with closing(open_file_to_read(file, mode)) as connection:
            complaints = [
                str(complaint)
                for (complaint,) in connection.execute(f"PRAGMA integrity_check({_MOST_COMPLAINTS})")
            ]
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    except sqlite3.Error as error:
        if "unable to open" in str(error) or "locked" in str(error):
            raise InputError(
                f"journal {file}: {error}; check that you may read the file and write to its folder"
            ) from None
        return [str(error)]
    if complaints != ["ok"]:
        return complaints
    if mode != ALONE and log_of(file).exists():  # which may hold the last pages
        return []
    size, stored = pages * page_size, file.stat().st_size
    return [f"it is truncated: {stored:,} bytes of {size:,}"] if stored < size else []


@contextmanager
def _opened_damaged(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection that reads as much of a damaged file as possible.

    Raise sqlite3.DatabaseError if nothing can be read.
    """
    with closing(open_file_to_read(file)) as connection:
        # Read the file even if it is shorter than its header says.
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("PRAGMA cell_size_check=ON")
        connection.execute("BEGIN")
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE name = 'completions'").fetchall()
        if len(tables) != 1:
            raise sqlite3.DatabaseError("no table of answers")
        yield connection


def _copy_readable(damaged: sqlite3.Connection, keep: Callable[[list[Row]], None]) -> tuple[int, int]:
    """Pass every readable and valid row to `keep` in batches.

    Return their number, and the number of rows expected.
    """
    readable = highest = 0
    for batch in batches(_readable_rows(damaged)):
        numbered = [(number, row) for number, *values in batch if (row := _usable(values))]
        if numbered:
            keep([row for _, row in numbered])
            readable += len(numbered)
            highest = numbered[-1][0]
    return readable, max(readable, _expected_rows(damaged, highest))


def _expected_rows(damaged: sqlite3.Connection, highest: int) -> int:
    """Estimate how many rows a damaged file held.

    The index of keys lists every row. If it cannot be read completely, the highest row number is used
    instead: rows are numbered from 1 in the order of insertion, so that this number is too high if rows were
    pruned.
    """
    with suppress(sqlite3.DatabaseError):
        (listed,) = damaged.execute(
            "SELECT count(*) FROM completions INDEXED BY sqlite_autoindex_completions_1"
        ).fetchone()
        return int(listed)
    with suppress(sqlite3.DatabaseError):
        damaged.execute("SELECT max(rowid) FROM completions").fetchone()
        return highest
    return highest + 1  # at least one row at the end is lost


def _readable_rows(damaged: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the row number and the values of every row that can be read, in order."""
    present = {column[1] for column in damaged.execute("PRAGMA table_info(completions)")}
    columns = ", ".join(name if name in present else "NULL" for name in Row._fields)
    query = (
        f"SELECT rowid, {columns} FROM completions"  # noqa: S608 - constant names
        " WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
    )
    ranges = [(1, 2**63 - 1)]
    failures = 0
    while ranges and failures < _MOST_FAILURES:
        low, high = ranges.pop()
        try:
            for row in damaged.execute(query, (low, high)):
                yield row
                low = max(low, row[0] + 1)  # numbers in a damaged file need not ascend
                failures = 0
        except sqlite3.DatabaseError:
            failures += 1
            if low < high:
                middle = (low + high) // 2
                ranges += [(middle + 1, high), (low, middle)]


def _usable(values: Sequence[Any]) -> Row | None:
    """Return a valid row, or None."""
    with suppress(ValidationError):
        row = USABLE_ROW.validate_python(values)
        # Data that the disk lost reads as zeros, which no stored hash or text contains.
        if bytes(8) not in row.key and not any("\0" in value for value in row if isinstance(value, str)):
            return row
    return None


def _save_readable(damaged: sqlite3.Connection, fresh: Path) -> tuple[int, int]:
    """Write the readable rows to a new journal; return their number, and the number of rows expected."""
    with open_journal(fresh) as journal:
        _, expected = _copy_readable(damaged, journal.record)
        with suppress(sqlite3.DatabaseError):
            for fingerprint, name in damaged.execute("SELECT fingerprint, name FROM models"):
                journal.name_model(str(fingerprint), str(name))
        saved = sum(journal.counts().values())
    if not saved:
        raise sqlite3.DatabaseError("no row")
    return saved, expected


def _swap(file: Path, fresh: Path, aside: Path) -> None:
    """Replace the damaged file by the new one.

    The log is moved first, because it would destroy the new file.
    """
    with suppress(OSError):  # a file system without links
        os.link(file, aside)
    _set_log_aside(file, aside)
    if not aside.exists():
        file.rename(aside)
    fresh.replace(file)


def _set_log_aside(file: Path, aside: Path) -> None:
    """Rename the log, and make sure that it is no longer beside the file before anything else is changed."""
    if log_of(file).exists():
        log_of(file).rename(log_of(aside))
    file.with_name(f"{file.name}-shm").unlink(missing_ok=True)
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    """Write the names of the files in a folder to the disk."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _held_alone(file: Path) -> Iterator[None]:
    """Lock a file exclusively within the block; raise InputError if another process has it open."""
    try:
        with file.open("r+b") as handle:
            if sys.platform != "win32":  # where an open file cannot be replaced
                import fcntl

                try:
                    fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, *_LOCKED_BYTES)
                except (BlockingIOError, PermissionError):
                    advice = "wait until runs that use it have finished, then try again"
                    raise InputError(f"journal {file}: another process has it open; {advice}") from None
            yield
    except OSError as error:
        advice = "it was not changed; give write permission to the file and its folder"
        raise InputError(f"journal {file}: cannot be repaired: {error.strerror}; {advice}") from None
