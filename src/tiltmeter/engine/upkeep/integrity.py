"""Integrity check of journals, and recovery of readable rows from damaged ones.

SQLite itself checks the file (`PRAGMA integrity_check`) and reads what is left of it: rows are queried by
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
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, delete, func, or_, select, update

from tiltmeter.engine.database import claims, completions, for_keys, refuse_another_program, shown, version_of
from tiltmeter.engine.journal import LARGEST_NUMBER, ORPHANED, USABLE_ROW, Row, flaw_of, open_journal
from tiltmeter.engine.upkeep.holdings import (
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
from tiltmeter.engine.upkeep.transfer import batches, stored_rows
from tiltmeter.errors import InputError

_MOST_COMPLAINTS = 20
"""Maximum number of errors reported by the database."""
_SMALLEST_ROW = 100
"""Minimum size of a row in bytes, including its entry in the index of keys."""
_MOST_FAILURES = 40_000
"""Consecutive unreadable ranges after which recovery stops: a damaged page hides at most some thousand rows.
"""
_LOCKED_BYTES = (512, 0x40000000)
"""Number and offset of the bytes that SQLite locks: every open connection in WAL mode holds some of them."""


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
    state, problems, notes = _examine_file(file)
    if file is None or state == "sound":
        with opened_to_read(where) as engine, reading(engine) as connection:
            problems, _ = _row_problems(connection)
            rows, schema = _count(connection), version_of(connection)
            return Health(
                shown(engine.url), "bad rows" if problems else "sound", schema, rows, None, problems, notes
            )
    if state == "foreign log":
        return Health(str(file), state, None, None, None, problems, notes)
    try:
        with _opened_damaged(file) as damaged:
            readable, claimed = _copy_readable(damaged, file, lambda rows: None)
    except sqlite3.DatabaseError:
        readable = claimed = 0
    return Health(str(file), "damaged" if readable else "unusable", None, claimed, readable, problems, notes)


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
    state = _examine_file(file)[0]
    if file is None or state == "sound":
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
            rows, claimed = _save_readable(damaged, file, fresh)
            _swap(file, fresh, aside)
    except sqlite3.DatabaseError:
        advice = "it was not changed: restore a copy, or choose another --journal"
        raise InputError(f"journal {file}: no row can be read from it; {advice}") from None
    return Repaired(str(file), "damaged", rows, claimed, 0, aside)


_Examined = tuple[Literal["sound", "foreign log", "damaged"], list[Problem], list[str]]
"""State of a file, its problems, and notes."""


def _count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(completions)).scalar_one())


def _row_problems(connection: Connection) -> tuple[list[Problem], list[Any]]:
    """Return the problems (invalid rows by cause, and claims without an owner), and the keys of the invalid rows."""
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
    if orphans := connection.execute(select(func.count()).select_from(claims).where(ORPHANED)).scalar_one():
        problems.append(Problem("claims without an owner", int(orphans)))
    return problems, [*chain.from_iterable(flaws.values())]


def _remove_unusable(where: str | Path, say: Say) -> Repaired:
    """Remove invalid rows, and claims without an owner, from a sound database.

    Invalid token counts become unknown.
    """
    corrected = 0
    with opened_to_read(where) as engine, reading(engine) as connection:
        (problems, keys), rows = _row_problems(connection), _count(connection)
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
        shown(engine.url), "bad rows" if problems else "sound", rows, None, len(keys), None, corrected
    )


def _forget_invalid_counts(connection: Connection) -> int:
    """Set invalid token counts to null, because a paid answer is worth more than its count.

    Return the number of rows with one.
    """
    counts = completions.c.input_tokens, completions.c.output_tokens
    wrong = [
        or_(count < 0, count > LARGEST_NUMBER) for count in counts
    ]  # in SQLite, texts and bytes are larger than any number
    rows = connection.execute(select(func.count()).select_from(completions).where(or_(*wrong))).scalar_one()
    for count, is_wrong in zip(counts, wrong, strict=True):
        connection.execute(update(completions).where(is_wrong).values({count: None}))
    return int(rows)


def _examine_file(file: Path | None) -> _Examined:
    """Check whether an SQLite file and its log are sound and belong together; the rows are not checked.

    None: a server.

    Raises
    ------
    InputError
        There is no such file, or it cannot be opened.
    """
    if file is None:
        return (
            "sound",
            [],
            [
                "only the rows were checked: use the tools of the server to check its files (pg_amcheck, data checksums)"
            ],
        )
    refuse_another_program(file)
    if not file.is_file():
        raise InputError(f"there is no journal {file}; name another with --journal")
    name = log_of(file).name
    with_log = log_of(file).exists() and log_of(file).stat().st_size > 0
    complaints = _complaints(file)
    if complaints and not with_log and log_of(file).exists():  # a run has started in the meantime
        complaints = _complaints(file)
    if not complaints:
        if with_log and (hidden := _rows_hidden_by_log(file)):
            return (
                "foreign log",
                [Problem(f"rows hidden by {name}, the log of another file or of another time", hidden)],
                [],
            )
        return "sound", [], []
    if with_log and not _complaints(file, ALONE):
        return (
            "foreign log",
            [Problem("logs of another file, without which the journal is sound", 1, name)],
            [],
        )
    notes = (
        []
        if with_log
        else [f"if it was copied without the file {name}, copy that to the same folder and check again"]
    )
    details = " ".join("; ".join(complaints).split())[:500]
    return "damaged", [Problem("damaged places in the file", len(complaints), details)], notes


def _complaints(file: Path, mode: str | None = None) -> list[str]:
    """Return the errors that SQLite finds in a file and its log; empty if it is sound."""
    try:
        with closing(open_file_to_read(file, mode)) as connection:
            found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_MOST_COMPLAINTS})")]
            (size,) = connection.execute(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            ).fetchone()
    except sqlite3.Error as error:
        if "unable to open" in str(error) or "locked" in str(error):
            raise InputError(
                f"journal {file}: {error}; check that you may read the file and write to its folder"
            ) from None
        return [str(error)]
    if found != ["ok"]:
        return found
    torn = file.stat().st_size < size and (mode == ALONE or not log_of(file).exists())
    return [f"it is truncated: {file.stat().st_size:,} bytes of {size:,}"] if torn else []


def _rows_hidden_by_log(file: Path) -> int:
    """Return how many fewer rows there are with the log than without it.

    Runs never remove rows, and pruning leaves no log.
    """
    counts = []
    for mode in (ALONE, WITH_LOG):
        try:
            with closing(open_file_to_read(file, mode)) as connection:
                counts.append(int(connection.execute("SELECT count(*) FROM completions").fetchone()[0]))
        except sqlite3.Error:  # incomplete without its log, which is normal
            return 0
    return counts[0] - counts[1] if counts[0] > counts[1] and not _complaints(file, ALONE) else 0


@contextmanager
def _opened_damaged(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection that reads as much of a damaged file as possible.

    Raise sqlite3.DatabaseError if nothing can be read.
    """
    with closing(open_file_to_read(file)) as connection:
        connection.execute(
            "PRAGMA writable_schema=ON"
        )  # read the file even if it is shorter than its header says
        connection.execute("PRAGMA cell_size_check=ON")
        connection.execute("BEGIN")
        if connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'completions'").fetchone() != (
            1,
        ):
            raise sqlite3.DatabaseError("no table of answers")
        yield connection


def _copy_readable(
    damaged: sqlite3.Connection, file: Path, keep: Callable[[list[Row]], None]
) -> tuple[int, int]:
    """Pass every readable and valid row to `keep` in batches.

    Return their number, and the number of rows expected.

    The index of keys lists every row. If it cannot be read completely, the highest row number is used
    instead: rows are numbered from 1 in the order of insertion, so that this number is too high if rows were
    pruned.
    """
    readable = highest = 0
    for batch in batches(_readable_rows(damaged)):
        rows = [row for _, *values in batch if (row := _usable(values))]
        keep(rows)
        readable += len(rows)
        highest = batch[-1][0]
    most = sum(one.stat().st_size for one in (file, log_of(file)) if one.exists()) // _SMALLEST_ROW
    for expected in (
        "count(*) FROM completions INDEXED BY sqlite_autoindex_completions_1",
        "coalesce(max(rowid), 0) FROM completions",
    ):
        with suppress(sqlite3.DatabaseError):
            (number,) = damaged.execute(f"SELECT {expected}").fetchone()
            if number <= most:
                return readable, max(readable, number)
    return readable, max(readable, highest) + 1  # at least one row at the end is lost


def _readable_rows(damaged: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the row number and the values of every row that can be read, in order."""
    present = {column[1] for column in damaged.execute("PRAGMA table_info(completions)")}
    columns = ", ".join(name if name in present else "NULL" for name in Row._fields)
    query = f"SELECT rowid, {columns} FROM completions WHERE rowid BETWEEN ? AND ? ORDER BY rowid"  # noqa: S608 - constant names
    ranges = [(1, 2**63 - 1)]
    failures = 0
    while ranges and failures < _MOST_FAILURES:
        low, high = ranges.pop()
        try:
            for row in damaged.execute(query, (low, high)):
                yield row
                low, failures = max(low, row[0] + 1), 0  # numbers in a damaged file need not ascend
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


def _save_readable(damaged: sqlite3.Connection, file: Path, fresh: Path) -> tuple[int, int]:
    """Write the readable rows to a new journal; return their number, and the number of rows expected."""
    with open_journal(fresh) as journal:
        _, claimed = _copy_readable(damaged, file, journal.record)
        with suppress(sqlite3.DatabaseError):
            for fingerprint, name in damaged.execute("SELECT fingerprint, name FROM models"):
                journal.name_model(str(fingerprint), str(name))
        saved = sum(journal.counts().values())
    if not saved:
        raise sqlite3.DatabaseError("no row")
    if _complaints(fresh):
        raise InputError(
            f"journal {file}: the disk does not store data correctly; the journal was not changed"
        )
    shutil.copymode(file, fresh)
    return saved, claimed


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
    _sync_folder(file.parent)


def _set_log_aside(file: Path, aside: Path) -> None:
    if log_of(file).exists():
        log_of(file).rename(log_of(aside))
    file.with_name(f"{file.name}-shm").unlink(missing_ok=True)
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
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
                    raise InputError(
                        f"journal {file}: another process has it open; wait until runs that use it have finished, then try again"
                    ) from None
            yield
    except OSError as error:
        advice = "it was not changed; give write permission to the file and its folder"
        raise InputError(f"journal {file}: cannot be repaired: {error.strerror}; {advice}") from None
