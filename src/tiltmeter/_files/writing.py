"""Atomic file writes, and locks that allow one writer per folder and are released when the process ends."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

from filelock import FileLock, Timeout

from tiltmeter.errors import InputError

LOCK: Final = ".lock"
"""Lock file in a folder that is being written. It remains, unlocked, if the writer is killed."""
IN_CACHE: Final = "set TILTMETER_CACHE to a writable folder"
"""Remedy for a file that cannot be written to the cache."""
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
_ELSEWHERE: Final = "name a file in a writable folder"
_FULL: Final = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def writable(path: Path, elsewhere: str = _ELSEWHERE) -> Iterator[None]:
    """Convert errors of the file system to an InputError that names the path and the remedy.

    Such errors are: read-only, full, not a folder, name too long.

    Parameters
    ----------
    elsewhere
        How to choose another place.
    """
    from polars.exceptions import ComputeError  # lazy import

    try:
        yield
    except (OSError, ComputeError) as error:
        reported = _OS_ERROR.search(str(error))
        if reported is None and not isinstance(error, OSError):
            raise
        number = int(reported[1]) if reported else getattr(error, "errno", None)
        reason = os.strerror(number) if number else error
        raise InputError(f"cannot write {path}: {reason}; {_remedy(number, elsewhere)}") from error


def _remedy(number: int | None, elsewhere: str) -> str:
    if number == errno.ENAMETOOLONG:
        return "choose a shorter name"
    if number in _FULL:
        return f"free some space there, or {elsewhere}"
    return elsewhere


@contextmanager
def writing(path: Path, elsewhere: str = _ELSEWHERE) -> Iterator[Path]:
    """Yield a temporary path next to `path`, which replaces `path` when the block ends without error.

    Raises
    ------
    InputError
        `path` is a folder or cannot be written.
    """
    if not path.name or path.name == "..":
        raise InputError(f"{path} is a folder; name a file")
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    with writable(path, elsewhere):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def check_suffix(path: Path, what: str, *suffixes: str) -> None:
    """Raise InputError if the name of a file to be written has another suffix.

    It could be a file of another kind.
    """
    if path.suffix not in ("", *suffixes):
        raise InputError(f"{path}: {what}; choose a name that ends in {suffixes[0]}")


@contextmanager
def only_writer(folder: Path, shown: str | None = None) -> Iterator[None]:
    """Create a folder and lock it against other writers.

    A folder created here and left empty is removed again.

    Parameters
    ----------
    shown
        Name of the folder in messages, if the user knows it by another name.

    Raises
    ------
    InputError
        Another process is writing to the folder.
    OSError
        The folder cannot be created or written.
    """
    created = not folder.exists()
    lock = FileLock(folder / LOCK, timeout=0)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
            break
        except Timeout:
            raise InputError(
                f"another process is writing to {shown or folder}; wait for it or"
                " choose another folder with --out"
            ) from None
        except FileNotFoundError:  # a failed writer has just removed the folder
            continue
        except OSError:  # the file system does not support locks
            (folder / LOCK).unlink(missing_ok=True)
            if created:
                folder.rmdir()
            raise
    try:
        yield
    finally:
        # before the release, so that the lock file of the next holder is not removed
        (folder / LOCK).unlink(missing_ok=True)
        lock.release()
        if created:
            with suppress(OSError):  # not empty, because it contains a run
                folder.rmdir()
