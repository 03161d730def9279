"""Saving what a damaged journal still holds."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from tiltmeter.engine._journal import open_journal
from tiltmeter.engine.upkeep._check import diagnose, integrity, log_of, open_pages
from tiltmeter.engine.upkeep._living import require_idle
from tiltmeter.engine.upkeep._open import file_of, opened, writing
from tiltmeter.engine.upkeep._pages import Pages
from tiltmeter.engine.upkeep._rows import BATCH
from tiltmeter.engine.upkeep._rules import remove_bad_rows, row_problems
from tiltmeter.engine.upkeep._salvage import claimed_rows, readable_rows
from tiltmeter.errors import InputError

__all__ = ["Repaired", "repair"]


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


def repair(where: str | Path, *, say: Callable[[str], None] = lambda line: None) -> Repaired:
    """Make a journal sound again, keeping every whole row.

    A damaged SQLite file is read page by page, its whole rows are written to a new file, which takes its place at once; the
    damaged one is kept beside it as NAME.damaged-DATE. A log of another file is put aside likewise. In a sound database the rows
    that no run can use, and claims of nobody, are removed. No journal on the same file may be open in this process.

    Raises
    ------
    InputError
        A run is alive on the journal, no row can be read, or the disk is full; nothing is changed then.
    """
    file = file_of(where)
    if file is None:
        return _remove(where, "sound", None, say)
    found = diagnose(file)
    if found.state == "sound":
        return _remove(where, "sound", None, say)
    names = _names(file)  # now: once SQLite closes the file, our hold on it ends
    with _held(file) as main:
        aside = _free_name(file)
        if found.state == "foreign log":
            _set_log_aside(file, aside)
            saved = None
        else:
            with open_pages(main, file, found.log) as pages:
                saved = _save(file, pages, names)
            _swap(file, aside)
    if saved is None:
        return _remove(where, "foreign log", log_of(aside), say)
    return Repaired(str(file), "damaged", saved[0], saved[1], 0, aside)


def _remove(where: str | Path, was: Literal["sound", "foreign log"], aside: Path | None, say: Callable[[str], None]) -> Repaired:
    """Remove what no run can use from a sound database."""
    with opened(where) as place:
        removed = 0
        with place.engine.connect() as connection:
            problems = row_problems(connection)
        if problems:
            require_idle(place.engine, place.shown, say)
            with writing(place.engine) as connection:
                removed = remove_bad_rows(connection)
    with open_journal(where) as journal:
        rows = sum(journal.counts().values())
    return Repaired(place.shown, "bad rows" if problems and aside is None else was, rows, None, removed, aside)


def _names(file: Path) -> dict[str, str]:
    """What users call the models, as far as that can be read."""
    try:
        mode = "mode=ro" if log_of(file).exists() else "immutable=1"
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?{mode}", uri=True)) as connection:
            return {str(one): str(name) for one, name in connection.execute("SELECT fingerprint, name FROM models")}
    except sqlite3.Error:
        return {}


def _save(file: Path, pages: Pages, names: dict[str, str]) -> tuple[int, int]:
    """Write the whole rows to the new file beside `file`; how many they are, and how many there should have been."""
    fresh = _fresh(file)
    for leftover in (fresh, log_of(fresh)):
        leftover.unlink(missing_ok=True)
    try:
        with open_journal(fresh) as journal:
            rows = readable_rows(pages)
            while batch := list(islice(rows, BATCH)):
                journal.record(batch)
            for fingerprint, name in names.items():
                journal.name_model(fingerprint, name)
            saved = sum(journal.counts().values())
        if not saved:
            raise InputError(
                f"journal {file}: no row can be read from it; it was left as it is: restore a copy, or choose another --journal"
            )
        if integrity(fresh):
            raise InputError(f"journal {file}: the disk does not keep what is written to it; the journal was left as it is")
        shutil.copymode(file, fresh)
    except BaseException:
        for leftover in (fresh, log_of(fresh)):
            leftover.unlink(missing_ok=True)
        raise
    return saved, claimed_rows(pages, saved)


def _swap(file: Path, aside: Path) -> None:
    """Put the new file in the place of the damaged one. The log goes first: beside the new file it would destroy that."""
    with suppress(OSError):  # a file system without links
        os.link(file, aside)
    _set_log_aside(file, aside)
    if not aside.exists():
        file.rename(aside)
    _fresh(file).replace(file)
    _sync(file.parent)


def _set_log_aside(file: Path, aside: Path) -> None:
    if log_of(file).exists():
        log_of(file).rename(log_of(aside))
    file.with_name(f"{file.name}-shm").unlink(missing_ok=True)
    _sync(file.parent)


def _sync(folder: Path) -> None:
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fresh(file: Path) -> Path:
    return file.with_name(f".{file.name}.repair")


def _free_name(file: Path) -> Path:
    name = f"{file.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    names = (file.with_name(f"{name}-{number}" if number else name) for number in range(1000))
    return next(path for path in names if not path.exists() and not log_of(path).exists())


_LOCKS_FROM = 0x40000000
_LOCKS = 512
"""The bytes that SQLite locks: every connection that is open in WAL mode holds some of them."""


@contextmanager
def _held(file: Path) -> Iterator[int]:
    """The open file, which nobody else has open, nor can open until the end."""
    try:
        handle = os.open(file, os.O_RDWR)
    except OSError as error:
        raise InputError(f"journal {file}: {error.strerror}; give write permission to the file and its folder") from None
    try:
        if sys.platform != "win32":  # there, an open file cannot be replaced
            import fcntl

            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKS, _LOCKS_FROM)
            except (BlockingIOError, PermissionError):
                raise InputError(f"journal {file}: another process has it open; wait for the end of runs on it, then try again") from None
        yield handle
    except OSError as error:
        raise InputError(f"journal {file}: cannot be repaired: {error.strerror}; what is there was kept") from None
    finally:
        os.close(handle)
