"""One writer per folder, by a lock that the operating system frees when its holder ends, however it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tiltmeter.errors import InputError

__all__ = ["LOCK", "only_writer"]

LOCK = ".lock"
"""Stands in a folder only while it is being filled (or after its writer was killed; then nobody holds it)."""


@contextmanager
def only_writer(folder: Path, shown: str | None = None) -> Iterator[bool]:
    """Make the folder and be the only one to fill it; a folder made here and left empty is removed again.

    Gives whether the lock is really held: there are systems without such locks, and a run there is better unguarded than impossible.
    `shown` is what messages call the folder, where the user knows it by another name.

    Raises
    ------
    InputError
        Another process fills it.
    OSError
        The folder cannot be made or written.
    """
    made = not folder.exists()
    handle, held = _open(folder, shown or str(folder))
    try:
        yield held
    finally:
        if handle is not None:
            (folder / LOCK).unlink(missing_ok=True)  # before it is freed: the file of the next holder must not be removed
            os.close(handle)
        if made:
            with suppress(OSError):  # not empty: there is a run in it
                folder.rmdir()


def _open(folder: Path, shown: str) -> tuple[int | None, bool]:
    """The open lock file, and whether the lock on it is held."""
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        return None, False
    import fcntl

    while True:
        try:
            handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:  # a writer that failed has just removed the folder
            folder.mkdir(parents=True, exist_ok=True)
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise InputError(f"another process is filling {shown}; wait for it or choose another folder with --out") from None
        except OSError:  # a file system without locks
            return handle, False
        if _is_at(handle, folder / LOCK):
            return handle, True
        os.close(handle)  # its holder removed it between our opening and locking it


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
