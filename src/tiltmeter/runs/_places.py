"""Locations of run folders: local paths or URLs."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tiltmeter._sanitising import redacted
from tiltmeter.errors import InputError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.:\-]+)://(.*)", re.DOTALL)
_URL_AS_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/(?!/)(.*)", re.DOTALL)
"""A URL after conversion by `pathlib`, which merges the slashes."""


def place_of(given: str | Path) -> str | Path:
    """Return a local path, or a remote URL without a trailing slash; `file://` URLs become local paths.

    Raises
    ------
    InputError
        The URL contains credentials or a query, which would appear in messages, or does not name a folder.
    """
    url = _URL.fullmatch(str(given))
    if url is None and isinstance(given, Path):
        url = _URL_AS_PATH.fullmatch(str(given))
    if url is None:
        return Path(given)
    protocol, path = url[1].lower(), url[2].rstrip("/")
    if protocol in ("file", "local"):
        return Path(f"/{path}" if isinstance(given, Path) else url[2])
    printed = redacted(f"{protocol}://{re.split('[?#]', path)[0]}")
    credentials = path.partition("/")[0].rpartition("@")[0]
    if ":" in credentials or "?" in path or "#" in path:
        raise InputError(
            f"{printed}: a URL must not contain keys or a query;"
            " set them in the configuration of the protocol's own tools"
        )
    is_chained = ":" in protocol or "::" in path
    is_relative = any(part in (".", "..") for part in path.split("/"))
    if is_chained or is_relative or not path.strip("/"):
        raise InputError(f"{printed} does not name a folder; give one such as {protocol}://bucket/folder")
    return f"{protocol}://{path}"


def runs_place() -> str | Path:
    """Return the location of run folders: `TILTMETER_RUNS` (a path or a URL), or `runs`.

    Raise InputError as `place_of` does.
    """
    return place_of(os.environ.get("TILTMETER_RUNS", "runs"))


def runs_root() -> Path:
    """Return the local folder of the default journal.

    It is also that of the run folders, unless these are remote. A database cannot be stored in an object
    store, and a journal does not belong in a cache folder, which may be emptied. If `TILTMETER_RUNS` is a
    URL, this is therefore the local folder `runs`, as it is without the variable.
    """
    place = runs_place()
    return Path("runs") if isinstance(place, str) else place


def journal_of_runs(given: str | None) -> str:
    """Return the given journal, or the default journal of all runs."""
    return given or str(runs_root() / "journal.sqlite")
