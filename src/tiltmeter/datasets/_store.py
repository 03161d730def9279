"""Files on disk: checksums, and a cache folder that never holds half a file."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.datasets._catalogue import Entry

__all__ = ["data_folders", "file_flaw", "flaw", "time_limit", "write_atomically"]

_LEAST_LIMIT = 120.0
_LEAST_RATE = 200_000


def data_folders() -> list[Path]:
    """The folders named by TILTMETER_DATA (several are separated as in PATH).

    Raises
    ------
    InputError
        One of them is not a folder.
    """
    folders = [Path(part).expanduser() for part in os.environ.get("TILTMETER_DATA", "").split(os.pathsep) if part.strip()]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(
                f"TILTMETER_DATA names {folder}, which is not a folder; name the folder that holds your copies of the data, or unset it"
            )
    return folders


def flaw(data: bytes, size: int, sha256: str) -> str | None:
    """What is wrong with `data`, in a few words; None when it is what was expected."""
    if len(data) != size:
        return f"is {len(data)} bytes long, expected {size}"
    found = hashlib.sha256(data).hexdigest()
    return None if found == sha256 else f"has sha256 {found}, expected {sha256}"


def file_flaw(path: Path, entry: Entry) -> str | None:
    """What is wrong with the file at `path`, in a few words; None when it is the file `entry` describes."""
    try:
        return flaw(path.read_bytes(), entry.size, entry.sha256)
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def time_limit(size: int) -> float:
    """Seconds a download of so many bytes may take in all, however slowly it trickles."""
    return max(_LEAST_LIMIT, size / _LEAST_RATE)


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader, or another process writing the same file, only ever sees a whole file.

    Raises
    ------
    OSError
        The folder cannot be made or written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
