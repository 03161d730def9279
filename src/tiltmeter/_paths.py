"""Paths a user wrote: probing them never fails, and files are known by their contents."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["is_file", "sha256"]


def is_file(path: str | Path) -> bool:
    """Whether this is a file; False too for what can be no path at all (a name too long, a folder that may not be entered)."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def sha256(path: str | Path) -> str:
    """The hex digest of a file's contents; raises OSError."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
