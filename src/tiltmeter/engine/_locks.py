"""Whether a journal may lie where it is wanted: SQLite needs locks, and waits in vain where the file system has none."""

from __future__ import annotations

import errno
import sys
import tempfile
from pathlib import Path
from typing import Final

from tiltmeter.errors import InputError

__all__ = ["refuse_without_locks"]

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


def refuse_without_locks(journal: Path) -> None:
    """Raises InputError where the file system of a journal has no locks, as some network file systems have none.

    A file of its own is locked: closing the journal itself would give up the locks another connection of this process holds on it.
    A folder that cannot be written is not refused here; opening the journal in it says why.
    """
    if sys.platform == "win32":
        return
    import fcntl

    try:
        with tempfile.TemporaryFile(dir=journal.parent) as probe:
            fcntl.lockf(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise InputError(
                f"journal {journal}: its file system has no locks, without which two runs would damage it; "
                "choose another --journal, on a disk of this machine or in PostgreSQL"
            ) from None
