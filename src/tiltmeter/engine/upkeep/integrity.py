"""Whether a journal is sound, and saving what can be read of a damaged one.

SQLite itself examines the file (`PRAGMA integrity_check`) and reads what is left of it: rows are asked for by ranges of their
numbers, and a range that cannot be read is halved until only the unreadable rows are left out.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, delete, func, select

from tiltmeter.engine.database import claims, completions, for_keys, owners, shown, version_of
from tiltmeter.engine.journal import Row, open_journal
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
from tiltmeter.engine.upkeep.transfer import BATCH, USABLE_ROW, flaw_of, stored_rows
from tiltmeter.errors import InputError

_MOST_COMPLAINTS = 20
"""Complaints of the database that are repeated."""
_SMALLEST_ROW = 100
"""Bytes in the file, with its entry in the index of keys."""
_SAMPLE = 20
"""Rows listed in what is left of the index from which the number of all can be judged."""
_MOST_FAILURES = 40_000
"""Ranges that cannot be read, one after the other, before the rest is given up: a damaged page hides some thousand rows at most."""
_LOCKED_BYTES = (512, 0x40000000)
"""How many bytes SQLite locks, and from where: every connection that is open in WAL mode holds some of them."""


class Problem(NamedTuple):
    """One thing that is wrong with a journal."""

    what: str
    number: int
    """Of rows, or of places in the file."""
    example: str | None = None
    """The key (hex) of one such row, or what the database said."""


class Health(NamedTuple):
    """What `check` found."""

    journal: str
    state: Literal["sound", "bad rows", "foreign log", "damaged", "unusable"]
    """"bad rows": the database is sound, some rows are not; "foreign log": the -wal file is not of this file;
    "damaged": rows can be saved; "unusable": none can."""
    schema: int | None
    rows: int | None
    """In the journal; of a damaged file what its index lists, as far as that can be read."""
    readable: int | None
    """Rows of a damaged file that can be saved; None for a sound one."""
    problems: list[Problem]
    notes: list[str]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return self.state == "sound"


class Repaired(NamedTuple):
    """What `repair` did."""

    journal: str
    was: Literal["sound", "bad rows", "foreign log", "damaged"]
    rows: int
    """In the journal now."""
    claimed: int | None
    """Rows that the damaged file should have had, as far as its index can be read; None where the file was not damaged."""
    removed: int
    """Rows that no run could use."""
    aside: Path | None
    """Where the damaged file (with its log), or the log that was not its own, lies now."""

    @property
    def lost(self) -> int:
        """Rows that are known to be missing."""
        return max(0, (self.claimed or 0) - self.rows - self.removed)


def check(where: str | Path) -> Health:
    """Examine a journal and change nothing, neither the file nor the log beside it. Runs may be at work on it meanwhile.

    Of an SQLite file: `PRAGMA integrity_check`, the log beside it, and every row; of a damaged one, how many rows can be saved.
    On a server: every row; its files are the server's own business.
    No journal on the same file may be open in this process: locks of SQLite end when any handle of the process is closed.

    Raises
    ------
    InputError
        There is no journal, or it cannot be opened at all.
    """
    file = journal_file(where)
    state, problems, notes = _ON_A_SERVER if file is None else _examine_file(file)
    if file is None or state == "sound":
        with opened_to_read(where) as engine, reading(engine) as connection:
            problems, _ = _row_problems(connection)
            rows, schema = _count(connection), version_of(connection)
            return Health(shown(engine.url), "bad rows" if problems else "sound", schema, rows, None, problems, notes)
    if state == "foreign log":
        return Health(str(file), state, None, None, None, problems, notes)
    try:
        with closing(_open_damaged(file)) as damaged:
            readable, claimed = _copy_readable(damaged, file, lambda rows: None)
    except sqlite3.DatabaseError:
        readable = claimed = 0
    return Health(str(file), "damaged" if readable else "unusable", None, claimed, readable, problems, notes)


def repair(where: str | Path, *, say: Say = lambda line: None) -> Repaired:
    """Make a journal sound again, keeping every row that can be read.

    What SQLite can read of a damaged file is written to a new one, which takes its place at once; the damaged one is kept beside
    it as NAME.damaged-DATE. A log of another file is put aside likewise. In a sound database the rows that no run can use, and
    claims that belong to no run, are removed. No journal on the same file may be open in this process.

    Raises
    ------
    InputError
        A run is alive on the journal, no row can be read, or the disk is full; nothing is changed then.
    """
    file = journal_file(where)
    state = "sound" if file is None else _examine_file(file)[0]
    if file is None or state == "sound":
        return _remove_unusable(where, say)
    aside = file.with_name(f"{file.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
    if state == "foreign log":
        with _held_alone(file):
            _set_log_aside(file, aside)
        return _remove_unusable(where, say)._replace(was="foreign log", aside=log_of(aside))
    try:
        # Opened before the file is held and closed after it: when SQLite opens or closes a file, other locks of the process on it end.
        with closing(_open_damaged(file)) as damaged, _held_alone(file), TemporaryDirectory(prefix=".repair-", dir=file.parent) as folder:
            fresh = Path(folder) / file.name
            rows, claimed = _save_readable(damaged, file, fresh)
            _swap(file, fresh, aside)
    except sqlite3.DatabaseError:
        left = "it was left as it is: restore a copy, or choose another --journal"
        raise InputError(f"journal {file}: no row can be read from it; {left}") from None
    return Repaired(str(file), "damaged", rows, claimed, 0, aside)


_Examined = tuple[Literal["sound", "foreign log", "damaged"], list[Problem], list[str]]
"""State of a file, what is wrong with it, and notes."""
_ON_A_SERVER: _Examined = (
    "sound",
    [],
    ["only the rows were examined: the integrity of its files is the server's business (pg_amcheck, data checksums)"],
)


def _count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(completions)).scalar_one())


def _row_problems(connection: Connection) -> tuple[list[Problem], list[Any]]:
    """Rows that no run can use, by what is wrong with them, and claims that belong to no run; and the keys of those rows."""
    flaws: dict[str, list[Any]] = defaultdict(list)
    for values in stored_rows(connection):
        try:
            USABLE_ROW.validate_python(values)
        except ValidationError as error:
            flaws[flaw_of(error)].append(values[0])
    examples = {flaw: keys[0].hex() if isinstance(keys[0], bytes) else repr(keys[0]) for flaw, keys in flaws.items()}
    problems = [Problem(f"rows that no run can use ({flaw})", len(keys), examples[flaw]) for flaw, keys in flaws.items()]
    if orphans := connection.execute(select(func.count()).select_from(claims).where(_is_orphan())).scalar_one():
        problems.append(Problem("claims that belong to no run", int(orphans)))
    return problems, [*chain.from_iterable(flaws.values())]


def _is_orphan() -> Any:
    return claims.c.owner.not_in(select(owners.c.owner))


def _remove_unusable(where: str | Path, say: Say) -> Repaired:
    """Remove what no run can use from a sound database."""
    with opened_to_read(where) as engine, reading(engine) as connection:
        (problems, keys), rows = _row_problems(connection), _count(connection)
    if problems:
        with opened(where) as engine:
            require_idle(engine, say)
            with engine.begin() as connection:
                connection.execute(delete(claims).where(_is_orphan()))
                for _ in for_keys(connection, "DELETE FROM completions WHERE key", keys):
                    pass
                rows = _count(connection)
    return Repaired(shown(engine.url), "bad rows" if problems else "sound", rows, None, len(keys), None)


def _examine_file(file: Path) -> _Examined:
    """Whether an SQLite file and the log beside it are sound and belong together, with a note; its rows are not looked at.

    Raises
    ------
    InputError
        There is no such file, or it cannot be opened.
    """
    if not file.is_file():
        raise InputError(f"there is no journal {file}; name another with --journal")
    name = log_of(file).name
    with_log = log_of(file).exists() and log_of(file).stat().st_size > 0
    complaints = _complaints(file)
    if complaints and not with_log and log_of(file).exists():  # a run has begun meanwhile
        complaints = _complaints(file)
    if not complaints:
        if with_log and (hidden := _rows_hidden_by_log(file)):
            return "foreign log", [Problem(f"rows hidden by {name} beside it, the log of another file or of another time", hidden)], []
        return "sound", [], []
    if with_log and not _complaints(file, ALONE):
        return "foreign log", [Problem("logs of another file beside it, without which the journal is sound", 1, name)], []
    notes = [] if with_log else [f"if it was copied without the file {name}, put that beside it and check again"]
    said = " ".join("; ".join(complaints).split())[:500]
    return "damaged", [Problem("damaged places in the file", len(complaints), said)], notes


def _complaints(file: Path, mode: str | None = None) -> list[str]:
    """What SQLite finds wrong with a file and the log beside it; nothing when it is sound."""
    try:
        with closing(open_file_to_read(file, mode)) as connection:
            found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_MOST_COMPLAINTS})")]
            (size,) = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()
    except sqlite3.Error as error:
        if "unable to open" in str(error) or "locked" in str(error):
            raise InputError(f"journal {file}: {error}; check that you may read the file and write to its folder") from None
        return [str(error)]
    if found != ["ok"]:
        return found
    torn = file.stat().st_size < size and (mode == ALONE or not log_of(file).exists())
    return [f"it is torn: {file.stat().st_size:,} bytes of {size:,}"] if torn else []


def _rows_hidden_by_log(file: Path) -> int:
    """How many rows fewer there are with the log than without it; no run ever makes them fewer, and pruning leaves no log."""
    counts = []
    for mode in (ALONE, WITH_LOG):
        try:
            with closing(open_file_to_read(file, mode)) as connection:
                counts.append(int(connection.execute("SELECT count(*) FROM completions").fetchone()[0]))
        except sqlite3.Error:  # not whole without its log, which is what a log is for
            return 0
    return counts[0] - counts[1] if counts[0] > counts[1] and not _complaints(file, ALONE) else 0


def _open_damaged(file: Path) -> sqlite3.Connection:
    """A connection that reads as much of a damaged file as SQLite can; raises sqlite3.DatabaseError where that is nothing."""
    connection = open_file_to_read(file)
    try:
        connection.execute("PRAGMA writable_schema=ON")  # a file that is shorter than its header says is read all the same
        connection.execute("PRAGMA cell_size_check=ON")
        connection.execute("BEGIN")
        if connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'completions'").fetchone() != (1,):
            raise sqlite3.DatabaseError("no table of answers")
    except BaseException:
        connection.close()
        raise
    return connection


def _copy_readable(damaged: sqlite3.Connection, file: Path, keep: Callable[[list[Row]], None]) -> tuple[int, int]:
    """Give `keep` every row that SQLite can read and a run can use, in batches; their number, and that of the rows there should be.

    The index of keys lists every row. Where a part of it cannot be read, the highest number seen has to do: rows are numbered
    from 1 in the order in which they came, so that it is too high where rows were pruned.
    """
    most = sum(one.stat().st_size for one in (file, log_of(file)) if one.exists()) // _SMALLEST_ROW
    query = "SELECT rowid FROM completions INDEXED BY sqlite_autoindex_completions_1 WHERE key >= ? AND key < ?"
    listed: set[int] = set()
    complete, highest_lost = True, 0
    for first in range(256):
        try:
            listed.update(
                number for (number,) in damaged.execute(query, (bytes([first]), bytes([first + 1]) if first < 255 else b"\xff" * 33))
            )
        except sqlite3.DatabaseError:
            complete = False
    highest = max((number for number in listed if 0 < number <= most), default=0)
    expected = len(listed)
    if not complete:
        try:
            (last,) = damaged.execute("SELECT coalesce(max(rowid), 0) FROM completions").fetchone()
        except sqlite3.DatabaseError:
            last = -1
        if highest <= last <= most:
            expected = highest = last
        else:  # at least one row at the end is lost; keys are hashes, so that the numbers listed are a random sample
            expected, highest_lost = highest, 1
            highest = min(most, 2 * highest + BATCH) if len(listed) > _SAMPLE else most
    readable = 0
    for rows in _readable_rows(damaged, highest):
        keep(rows)
        readable += len(rows)
    return readable, max(readable + highest_lost, expected)


def _readable_rows(damaged: sqlite3.Connection, highest: int) -> Iterator[list[Row]]:
    """Every row up to this number that SQLite can read and a run can use, in batches."""
    query = f"SELECT {', '.join(Row._fields)} FROM completions WHERE rowid BETWEEN ? AND ?"  # noqa: S608 - names of our own
    ranges = [(low, min(low + BATCH - 1, highest)) for low in range(1, highest + 1, BATCH)][::-1]
    failures = 0
    while ranges and failures < _MOST_FAILURES:
        low, high = ranges.pop()
        try:
            yield [row for row in map(_usable, damaged.execute(query, (low, high)).fetchall()) if row]
            failures = 0
        except sqlite3.DatabaseError:
            failures += 1
            if low < high:
                middle = (low + high) // 2
                ranges += [(middle + 1, high), (low, middle)]


def _usable(values: tuple[Any, ...]) -> Row | None:
    """A row as it was written, or None."""
    with suppress(ValidationError):
        row = USABLE_ROW.validate_python(values)
        # Where a disk lost what was written there are zeros, which no hash and no text of ours holds.
        if bytes(8) not in row.key and not any("\0" in value for value in row if isinstance(value, str)):
            return row
    return None


def _save_readable(damaged: sqlite3.Connection, file: Path, fresh: Path) -> tuple[int, int]:
    """Write the readable rows to a new journal; how many they are, and how many there should have been."""
    with open_journal(fresh) as journal:
        _, claimed = _copy_readable(damaged, file, journal.record)
        with suppress(sqlite3.DatabaseError):
            for fingerprint, name in damaged.execute("SELECT fingerprint, name FROM models"):
                journal.name_model(str(fingerprint), str(name))
        saved = sum(journal.counts().values())
    if not saved:
        raise sqlite3.DatabaseError("no row")
    if _complaints(fresh):
        raise InputError(f"journal {file}: the disk does not keep what is written to it; the journal was left as it is")
    shutil.copymode(file, fresh)
    return saved, claimed


def _swap(file: Path, fresh: Path, aside: Path) -> None:
    """Put the new file in the place of the damaged one. The log goes first: beside the new file it would destroy that."""
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
    """Hold a file that no other process has open, nor can open until the end."""
    try:
        with file.open("r+b") as handle:
            if sys.platform != "win32":  # there, an open file cannot be replaced
                import fcntl

                try:
                    fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, *_LOCKED_BYTES)
                except (BlockingIOError, PermissionError):
                    raise InputError(
                        f"journal {file}: another process has it open; wait for the end of runs on it, then try again"
                    ) from None
            yield
    except OSError as error:
        kept = "what is there was kept; give write permission to the file and its folder"
        raise InputError(f"journal {file}: cannot be repaired: {error.strerror}; {kept}") from None
