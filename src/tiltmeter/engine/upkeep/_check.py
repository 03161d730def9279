"""Whether a journal is sound."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from tiltmeter.engine._schema import completions, meta
from tiltmeter.engine.upkeep._open import ALONE, WITH_LOG, file_of, log_of, opened_to_read, read_only, reading
from tiltmeter.engine.upkeep._pages import MAGIC, Pages
from tiltmeter.engine.upkeep._rules import Problem, row_problems
from tiltmeter.engine.upkeep._salvage import claimed_rows, readable_rows
from tiltmeter.engine.upkeep._wal import Wal, read_wal
from tiltmeter.errors import InputError

__all__ = ["Health", "check", "diagnose", "integrity", "log_of", "open_pages"]

_MOST: Final = 20
"""Complaints of the database that are repeated."""


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
    """Whole rows of a damaged file; None for a sound one."""
    problems: list[Problem]
    notes: list[str]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return self.state == "sound"


class Diagnosis(NamedTuple):
    """What is wrong with an SQLite file as a file; its rows have not been looked at."""

    state: Literal["sound", "foreign log", "damaged"]
    log: Wal | None
    problems: list[Problem]
    notes: list[str]


def check(where: str | Path) -> Health:
    """Examine a journal and change nothing, neither the file nor the log beside it. Runs may be at work on it meanwhile.

    Of an SQLite file: `PRAGMA integrity_check` (which does all that `quick_check` does), the log beside it, and every row; of a
    damaged one, how many rows are whole. On a server: every row; its files are the server's own business.
    No journal on the same file may be open in this process: locks of SQLite end when any handle of the process is closed.

    Raises
    ------
    InputError
        There is no journal, or it cannot be opened at all.
    """
    file = file_of(where)
    if file is None:
        return _check_server(where)
    found = diagnose(file)
    if found.state == "sound":
        return _check_rows(file, found.notes)
    if found.state == "foreign log":
        return Health(str(file), found.state, None, None, None, found.problems, found.notes)
    main = os.open(file, os.O_RDONLY)
    try:
        with open_pages(main, file, found.log) as pages:
            readable = sum(1 for _ in readable_rows(pages))
            rows = claimed_rows(pages, readable)
    finally:
        os.close(main)
    return Health(str(file), "damaged" if readable else "unusable", None, rows, readable, found.problems, found.notes)


def diagnose(file: Path) -> Diagnosis:
    """Whether an SQLite file and the log beside it are sound and belong together; raises InputError when there is no file."""
    if not file.is_file():
        raise InputError(f"there is no journal {file}; name another with --journal")
    log = read_wal(log_of(file))
    notes = []
    if log is not None and log.unfinished:
        notes = [f"a transaction at the end of the log was never finished ({log.unfinished:,} bytes): SQLite leaves it out, and so do we"]
    complaints = _page_complaints(file, log) or integrity(file)
    with_log = log is not None and bool(log.pages)
    name = log_of(file).name
    if not complaints:
        if with_log and (lost := _rows_lost(file)):
            foreign = Problem(f"rows hidden by {name} beside it, the log of another file or of another time", lost)
            return Diagnosis("foreign log", log, [foreign], notes)
        return Diagnosis("sound", log, [], notes)
    if with_log and _sound_alone(file):
        foreign = Problem("logs of another file beside it, without which the journal is sound", 1, name)
        return Diagnosis("foreign log", log, [foreign], notes)
    if log is None:
        notes.append(f"if it was copied without the file {name}, put that beside it and check again")
    said = "; ".join(" ".join(one.split()) for one in complaints)[:500]
    return Diagnosis("damaged", log, [Problem("damaged places in the file", len(complaints), said)], notes)


@contextmanager
def open_pages(main: int, file: Path, log: Wal | None) -> Iterator[Pages]:
    """The pages of an open file, with those of the log beside it laid over them where one is given."""
    if log is None or not log.pages:
        yield Pages(main, None, None)
        return
    beside = os.open(log_of(file), os.O_RDONLY)
    try:
        yield Pages(main, log, beside)
    finally:
        os.close(beside)


def _check_server(where: str | Path) -> Health:
    with opened_to_read(where) as place, reading(place.engine) as connection:
        problems = row_problems(connection)
        schema = int(connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar_one())
        rows = connection.execute(select(func.count()).select_from(completions)).scalar_one()
    notes = ["only the rows were examined: the integrity of its files is the server's business (pg_amcheck, data checksums)"]
    return Health(place.shown, "bad rows" if problems else "sound", schema, int(rows), None, problems, notes)


def _page_complaints(file: Path, log: Wal | None) -> list[str]:
    """What can be seen without SQLite."""
    with file.open("rb") as main:
        head = main.read(100)
    if not head:
        return ["it is empty"]
    if head[:16] != MAGIC:
        return ["it does not begin as an SQLite database does"]
    size = int.from_bytes(head[16:18], "big") or 1
    size = 65536 if size == 1 else size
    if log is not None and log.pages:
        return [] if log.page_size == size else [f"the pages of its log have {log.page_size} bytes, its own {size}"]
    stored, held = int.from_bytes(head[28:32], "big") * size, file.stat().st_size
    return [f"it is torn: {held:,} bytes of {stored:,}"] if held < stored else []


def integrity(file: Path) -> list[str]:
    """What SQLite finds wrong with a file and the log beside it; nothing when it is sound."""
    if log_of(file).exists():
        return _complaints_of(file, WITH_LOG)
    found = _complaints_of(file, ALONE)  # nobody has it open, and SQLite need not make a log
    return _complaints_of(file, WITH_LOG) if found and log_of(file).exists() else found  # unless a run has begun meanwhile


def _complaints_of(file: Path, mode: str) -> list[str]:
    try:
        with closing(sqlite3.connect(_uri(file, mode), uri=True, timeout=30.0)) as connection:
            said = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_MOST})")]
            if said == ["ok"]:
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        if "unable to open" in str(error) or "locked" in str(error):
            raise InputError(f"journal {file}: {error}; check that you may read the file and write to its folder") from None
        return [str(error)]
    return [] if said == ["ok"] else said


def _uri(file: Path, mode: str) -> str:
    return f"{file.absolute().as_uri()}?{mode}"


def _sound_alone(file: Path) -> bool:
    """Whether a file is sound without the log beside it."""
    return not _page_complaints(file, None) and not _complaints_of(file, ALONE)


def _rows_lost(file: Path) -> int:
    """How many rows fewer there are with the log than without it; no run ever makes them fewer, and pruning leaves no log."""
    counts = []
    for mode in (ALONE, WITH_LOG):
        try:
            with closing(sqlite3.connect(_uri(file, mode), uri=True, timeout=30.0)) as connection:
                counts.append(int(connection.execute("SELECT count(*) FROM completions").fetchone()[0]))
        except sqlite3.Error:  # not whole without its log, which is what a log is for
            return 0
    return counts[0] - counts[1] if counts[0] > counts[1] and _sound_alone(file) else 0


def _check_rows(file: Path, notes: list[str]) -> Health:
    engine = read_only(file)
    try:
        with engine.connect() as connection:
            if not engine.dialect.has_table(connection, "completions"):
                raise InputError(f"{file} is a database, but no journal; name another with --journal")
            problems = row_problems(connection)
            schema = int(connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar_one())
            rows = int(connection.execute(select(func.count()).select_from(completions)).scalar_one())
    except DBAPIError as error:
        raise InputError(f"{file} is a database, but no journal of this Tiltmeter ({error.orig})") from None
    finally:
        engine.dispose()
    return Health(str(file), "bad rows" if problems else "sound", schema, rows, None, problems, notes)
