"""Paths a user wrote: probing them never fails, and files are known by their contents; and where caches are kept."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path


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


def default_cache() -> Path:
    """TILTMETER_CACHE, or the folder this platform keeps caches in."""
    if chosen := os.environ.get("TILTMETER_CACHE"):
        return Path(chosen).expanduser()
    home = Path.home()
    bases = {"darwin": home / "Library" / "Caches", "win32": Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")}
    base = bases.get(sys.platform, Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache"))
    return base / "tiltmeter"
