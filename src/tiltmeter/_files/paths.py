"""Helpers for paths: safe tests of user input, file digests, and the cache folder."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path


def is_file(path: str | Path) -> bool:
    """Return True if the path is a file, and False if it is not or cannot be tested.

    A path cannot be tested if its name is too long or its folder inaccessible.
    """
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Return True if the path is a folder, and False if it is not or cannot be tested."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def sha256(path: str | Path) -> str:
    """Return the SHA-256 hex digest of a file's contents; raises OSError."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def default_cache() -> Path:
    """Return TILTMETER_CACHE, or the cache folder of the platform."""
    if chosen := os.environ.get("TILTMETER_CACHE"):
        return Path(chosen).expanduser()
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "tiltmeter"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "tiltmeter"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "tiltmeter"
