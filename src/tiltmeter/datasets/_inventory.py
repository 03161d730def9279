"""Inventory of the data files: status of local copies, download of missing files, and licence notices."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from tiltmeter._files.writing import writing
from tiltmeter.datasets._library import DataUnavailable, file_flaw
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.datasets._catalogue import Entry
    from tiltmeter.datasets._library import Library

_HEADING = "The use of some of the data is restricted. Check whether your use is permitted:"


class Copy(NamedTuple):
    """One local copy of a catalogued file, or a row that reports the file as missing."""

    name: str
    where: Literal["local", "cache", "missing"]
    path: Path | None
    size: int | None
    """Size in bytes according to the catalogue; None if it is not known."""
    licence: str
    restricted: str | None
    ok: bool | None
    """Whether size and checksum match the catalogue; None if the file is missing."""
    problem: str | None
    """Short description of the mismatch; None if there is none."""


class Fetched(NamedTuple):
    """Result of fetching one file. Either `path` is None, or `problem` and `remedy` are."""

    name: str
    path: Path | None
    problem: str | None
    remedy: str | None


def _copies(library: Library, entry: Entry) -> Iterator[Copy]:
    """Verify and yield every local copy of a file, or one row with `where="missing"`."""
    missing = Copy(
        name=entry.name,
        where="missing",
        path=None,
        size=entry.size,
        licence=entry.licence,
        restricted=entry.restricted,
        ok=None,
        problem=None,
    )
    places = library.places(entry.name)
    if not places:
        yield missing
    for where, path in places:
        problem = file_flaw(path, entry)
        yield missing._replace(where=where, path=path, ok=problem is None, problem=problem)


def _entries(library: Library, names: Sequence[str]) -> list[Entry]:
    """Return the entries with these names, without duplicates.

    The name of a folder selects all entries in it.
    """
    selected: dict[str, Entry] = {}
    for name in names:
        folder = f"{name.rstrip('/')}/"
        in_folder = [entry for entry in library.entries if entry.name.startswith(folder)]
        for entry in in_folder or [library.entry(name)]:
            selected[entry.name] = entry
    return list(selected.values())


def status(library: Library) -> list[Copy]:
    """Return the copy of each catalogued file that would be used, after verifying it.

    Nothing is downloaded.
    """
    return [next(_copies(library, entry)) for entry in library.entries]


def check(library: Library, names: Sequence[str] | None = None) -> list[Copy]:
    """Verify every local copy of the named files (None: all), in the user's folders and in the cache.

    A file without a local copy is reported in one row with `where="missing"`.

    Raises
    ------
    InputError
        A name is not in the catalogue.
    """
    entries = library.entries if names is None else _entries(library, names)
    return [copy for entry in entries for copy in _copies(library, entry)]


def fetch_all(library: Library, names: Sequence[str] | None = None) -> list[Fetched]:
    """Download the named files that are not available locally, and return one result per file.

    None selects all files that a probe reads, except those fetched only on demand. The name of a folder
    (`all-MiniLM-L6-v2`) selects all files in it. If a file is not available, the others are fetched
    nevertheless. Sources that failed earlier are tried once more.

    Raises
    ------
    InputError
        A name is not in the catalogue, a local copy differs from the catalogued file, or the cache folder is
        not writable.
    """
    library.retry_sources()
    if names is None:
        names = [entry.name for entry in library.entries if not (entry.unused or entry.on_demand)]
    outcomes: list[Fetched] = []
    for entry in _entries(library, names):
        try:
            outcomes.append(Fetched(entry.name, library.path(entry.name), None, None))
        except DataUnavailable as error:
            outcomes.append(Fetched(entry.name, None, error.reason, error.remedy))
    return outcomes


def notice(entries: Iterable[Entry]) -> str | None:
    """Return the licence restrictions of `entries` as plain text, or None if no entry is restricted.

    Files under the same terms share a paragraph.
    """
    paragraphs: dict[str, list[str]] = {}
    for entry in entries:
        if entry.restricted is not None:
            terms = f"{entry.restricted} (licence: {entry.licence}). {entry.licence_note}"
            paragraphs.setdefault(terms, [terms]).append(f"  {entry.name}: {entry.title}, {entry.upstream}")
    if not paragraphs:
        return None
    return "\n\n".join([_HEADING, *("\n".join(lines) for lines in paragraphs.values())])


def first_use_notice(library: Library, entries: Iterable[Entry]) -> str | None:
    """Return the notice for the entries whose terms have not yet been displayed on this machine.

    None if all have been. The library's cache folder records which terms have been displayed. If the record
    cannot be read or written, the notice is displayed again.
    """
    record = library.cache / "notices.json"
    try:
        displayed = {token for token in json.loads(record.read_bytes()) if isinstance(token, str)}
    except (OSError, ValueError, TypeError, RecursionError):
        displayed = set()
    tokens = {entry: _token(entry) for entry in entries if entry.restricted}
    text = notice(entry for entry, token in tokens.items() if token not in displayed)
    if text is not None:
        with contextlib.suppress(InputError), writing(record) as temporary:
            temporary.write_text(json.dumps(sorted(displayed | set(tokens.values()))))
    return text


def _token(entry: Entry) -> str:
    """Return a token that depends on the terms of an entry, so that changed terms are displayed again."""
    terms = "\0".join((entry.name, entry.restricted or "", entry.licence, entry.licence_note))
    return hashlib.sha256(terms.encode()).hexdigest()[:20]
