"""Where run folders are: a path of this machine, or a URL."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tiltmeter.errors import InputError
from tiltmeter.sanitising import redacted

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.:\-]+)://(.*)", re.DOTALL)
_URL_AS_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/(?!/)(.*)", re.DOTALL)
"""What `pathlib` makes of a URL: it joins the slashes."""


def place_of(given: str | Path) -> str | Path:
    """A path of this machine, or the URL of a place elsewhere, without a slash at its end; `file://` is a path of this machine.

    Raises
    ------
    InputError
        The URL holds credentials or a query, which would be repeated in messages, or names no place.
    """
    found = _URL.fullmatch(str(given)) or (_URL_AS_PATH.fullmatch(str(given)) if isinstance(given, Path) else None)
    if found is None:
        return Path(given)
    protocol, rest = found[1].lower(), found[2].rstrip("/")
    if protocol in ("file", "local"):
        return Path(f"/{rest}" if isinstance(given, Path) else found[2])
    shown = redacted(f"{protocol}://{re.split('[?#]', rest)[0]}")
    if ":" in rest.partition("/")[0].rpartition("@")[0] or any(mark in rest for mark in "?#"):
        raise InputError(f"{shown}: keys and queries have no place in a URL; set them as the protocol's own tools expect them")
    if ":" in protocol or "::" in rest or not rest.strip("/") or any(part in (".", "..") for part in rest.split("/")):
        raise InputError(f"{shown} names no folder; give one such as {protocol}://bucket/folder")
    return f"{protocol}://{rest}"


def runs_place() -> str | Path:
    """Where run folders are kept: `TILTMETER_RUNS`, a path or a URL, else `runs` here. Raises InputError as `place_of` does."""
    return place_of(os.environ.get("TILTMETER_RUNS", "runs"))


def runs_root() -> Path:
    """The folder of this machine that holds the default journal, and the run folders where they are not kept elsewhere.

    A database cannot live in an object store, and a cache may be emptied while a journal may not: where `TILTMETER_RUNS` is a URL,
    this is `runs` here, as it is where nothing is set.
    """
    place = runs_place()
    return Path("runs") if isinstance(place, str) else place


def journal_of_runs(given: str | None) -> str:
    """The journal a user means: the one given, or that of all runs."""
    return given or str(runs_root() / "journal.sqlite")
