"""Files appear whole or not at all; a folder has one writer at a time, by a lock that ends with the process that holds it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from filelock import FileLock, Timeout

from tiltmeter.errors import InputError

LOCK = ".lock"
"""File in a folder while it is being filled, or after its writer was killed; then it is not locked."""
IN_CACHE = "make room there, or set TILTMETER_CACHE to a folder you may write to"
"""What to do about a file that cannot be written to the cache."""
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_REMEDY = "give the name of a file in a folder you may write to"


@contextmanager
def writable(path: Path, remedy: str = _REMEDY) -> Iterator[None]:
    """Turn what the file system says (read-only, full, not a folder) into one sentence naming the path and the remedy."""
    from polars.exceptions import ComputeError  # imported only where something is written

    try:
        yield
    except (OSError, ComputeError) as error:
        number = _OS_ERROR.search(str(error))
        if number is None and not isinstance(error, OSError):
            raise
        reason = os.strerror(int(number[1])) if number else getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {path}: {reason}; {remedy}") from error


@contextmanager
def writing(path: Path, remedy: str = _REMEDY) -> Iterator[Path]:
    """A place beside `path` to write to; it becomes `path` when the block ends without error.

    Raises
    ------
    InputError
        `path` names a folder, or cannot be written.
    """
    if not path.name or path.name == "..":
        raise InputError(f"{path} is a folder; give the name of a file")
    aside = path.with_name(f".{path.name}.{token_hex(4)}")
    with writable(path, remedy):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield aside
            aside.replace(path)
        finally:
            with suppress(OSError):
                aside.unlink(missing_ok=True)


@contextmanager
def only_writer(folder: Path, shown: str | None = None) -> Iterator[None]:
    """Create the folder and be the only one to fill it; a folder created here and left empty is removed again.

    Parameters
    ----------
    shown
        What messages call the folder, where the user knows it by another name.

    Raises
    ------
    InputError
        Another process fills it.
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
            raise InputError(f"another process is filling {shown or folder}; wait for it or choose another folder with --out") from None
        except FileNotFoundError:  # a writer that failed has just removed the folder
            continue
        except OSError:  # the file system has no locks
            (folder / LOCK).unlink(missing_ok=True)
            if created:
                folder.rmdir()
            raise
    try:
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)  # while it is held: the file of the next holder must not be removed
        lock.release()
        if created:
            with suppress(OSError):  # not empty: there is a run in it
                folder.rmdir()
