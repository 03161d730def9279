"""One writer per folder, by a lock that the operating system releases when its holder ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from tiltmeter.errors import InputError

LOCK = ".lock"
"""File in a folder while it is being filled, or after its writer was killed; then it is not locked."""


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
