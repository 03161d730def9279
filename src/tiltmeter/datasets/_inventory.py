"""What is on this machine, what is missing, and fetching all of it: the work behind `tiltmeter data`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from tiltmeter.datasets._errors import DataUnavailable
from tiltmeter.datasets._store import file_flaw

if TYPE_CHECKING:
    from tiltmeter.datasets._library import Library, Place

__all__ = ["Copy", "Fetched", "check", "fetch_all", "status"]


class Copy(NamedTuple):
    """One copy of a catalogued file on this machine, or the fact that there is none."""

    name: str
    where: Literal["local", "cache", "missing"]
    path: Path | None
    size: int
    """Bytes, by the catalogue."""
    licence: str
    restricted: str | None
    ok: bool | None
    """Size and checksum are as catalogued; None when missing."""
    problem: str | None
    """What is wrong with it, in a few words."""


class Fetched(NamedTuple):
    """How fetching one file ended: either `path` or `problem` (with its `remedy`) is None."""

    name: str
    path: Path | None
    problem: str | None
    remedy: str | None


def _copy(library: Library, name: str, place: Place | None) -> Copy:
    entry = library.entry(name)
    fixed = entry.size, entry.licence, entry.restricted
    if place is None:
        return Copy(name, "missing", None, *fixed, None, None)
    problem = file_flaw(place.path, entry)
    return Copy(name, place.where, place.path, *fixed, problem is None, problem)


def _names(library: Library, names: Sequence[str] | None) -> list[str]:
    """The entries of these names; the name of a folder stands for all entries in it."""
    known = [entry.name for entry in library.entries]
    if names is None:
        return known
    inside = {name: [entry for entry in known if entry.startswith(f"{name.rstrip('/')}/")] for name in names}
    return list(dict.fromkeys(entry for name in names for entry in inside[name] or [library.entry(name).name]))


def status(library: Library) -> list[Copy]:
    """For every catalogued file the copy that would be used, verified, without any download."""
    return [_copy(library, entry.name, next(iter(library.places(entry.name)), None)) for entry in library.entries]


def check(library: Library, names: Sequence[str] | None = None) -> list[Copy]:
    """Every copy of the named files (None: all), in every folder and in the cache, verified anew; a file without copies gives one row.

    Raises
    ------
    InputError
        A name is not in the catalogue.
    """
    places: dict[str, Sequence[Place | None]] = {name: library.places(name) or [None] for name in _names(library, names)}
    return [_copy(library, name, place) for name, found in places.items() for place in found]


def fetch_all(library: Library, names: Sequence[str] | None = None) -> list[Fetched]:
    """Have the named files on this machine; what cannot be had does not stop the others.

    None: all that some probe reads, without what is fetched on demand. A folder (`all-MiniLM-L6-v2`) stands for all files in it.

    Sources that failed before are tried again, once.

    Raises
    ------
    InputError
        A name is not in the catalogue, a local copy is not the catalogued file, or the cache folder cannot be written to.
    """
    library.retry_sources()
    if names is None:
        names = [entry.name for entry in library.entries if not (entry.unused or entry.on_demand)]
    return [_fetch(library, name) for name in _names(library, names)]


def _fetch(library: Library, name: str) -> Fetched:
    try:
        return Fetched(name, library.path(name), None, None)
    except DataUnavailable as error:
        return Fetched(name, None, error.reason, error.remedy)
