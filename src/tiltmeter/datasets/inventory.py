"""What is on this machine, what is missing, fetching all of it, and under which restrictions the data may be used."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from tiltmeter.datasets.library import DataUnavailable, file_flaw
from tiltmeter.errors import InputError
from tiltmeter.safe_writing import writing

if TYPE_CHECKING:
    from tiltmeter.datasets.catalogue import Entry
    from tiltmeter.datasets.library import Library

_HEADING = "Some of the data may not be used freely. Whether you may use it for your purpose is for you to judge:"


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


def _copies(library: Library, entry: Entry) -> Iterator[Copy]:
    """Every copy of a file, verified; one row that says "missing" where there is none."""
    about = entry.size, entry.licence, entry.restricted
    places = library.places(entry.name)
    for where, path in places:
        problem = file_flaw(path, entry)
        yield Copy(entry.name, where, path, *about, problem is None, problem)
    if not places:
        yield Copy(entry.name, "missing", None, *about, None, None)


def _entries(library: Library, names: Sequence[str]) -> list[Entry]:
    """The entries of these names; the name of a folder means all entries in it."""
    inside = {name: [entry for entry in library.entries if entry.name.startswith(f"{name.rstrip('/')}/")] for name in names}
    return list({entry.name: entry for name in names for entry in inside[name] or [library.entry(name)]}.values())


def status(library: Library) -> list[Copy]:
    """For every catalogued file the copy that would be used, verified, without any download."""
    return [next(_copies(library, entry)) for entry in library.entries]


def check(library: Library, names: Sequence[str] | None = None) -> list[Copy]:
    """Every copy of the named files (None: all), in every folder and in the cache, verified; a file without copies gives one row.

    Raises
    ------
    InputError
        A name is not in the catalogue.
    """
    entries = library.entries if names is None else _entries(library, names)
    return [copy for entry in entries for copy in _copies(library, entry)]


def fetch_all(library: Library, names: Sequence[str] | None = None) -> list[Fetched]:
    """Have the named files on this machine; what cannot be had does not stop the others.

    None: all that some probe reads, without what is fetched on demand. A folder (`all-MiniLM-L6-v2`) means all files in it.

    Sources that failed before are tried again, once.

    Raises
    ------
    InputError
        A name is not in the catalogue, a local copy is not the catalogued file, or the cache folder cannot be written to.
    """
    library.retry_sources()
    if names is None:
        names = [entry.name for entry in library.entries if not (entry.unused or entry.on_demand)]
    found = []
    for entry in _entries(library, names):
        try:
            found.append(Fetched(entry.name, library.path(entry.name), None, None))
        except DataUnavailable as error:
            found.append(Fetched(entry.name, None, error.reason, error.remedy))
    return found


def notice(entries: Iterable[Entry]) -> str | None:
    """What a user must know about the restricted ones among `entries`, as plain text; None when there are none.

    Files under the same terms share one paragraph.
    """
    paragraphs: dict[str, list[str]] = {}
    for entry in entries:
        if entry.restricted is not None:
            terms = f"{entry.restricted} (licence: {entry.licence}). {entry.licence_note}"
            paragraphs.setdefault(terms, [terms]).append(f"  {entry.name}: {entry.title}, {entry.upstream}")
    return "\n\n".join([_HEADING, *map("\n".join, paragraphs.values())]) if paragraphs else None


def first_use_notice(library: Library, entries: Iterable[Entry]) -> str | None:
    """The notice for those of `entries` it was never given for on this machine; None when there is nothing new to say.

    What was given is remembered in the library's cache folder. Where that cannot be read or written the notice comes again.
    """
    memory = library.cache / "notices.json"
    try:
        shown = {token for token in json.loads(memory.read_bytes()) if isinstance(token, str)}
    except (OSError, ValueError, TypeError, RecursionError):
        shown = set()
    # A token changes with the terms, so that changed terms are shown again.
    terms = {entry: "\0".join((entry.name, entry.restricted or "", entry.licence, entry.licence_note)) for entry in entries}
    tokens = {entry: hashlib.sha256(said.encode()).hexdigest()[:20] for entry, said in terms.items() if entry.restricted}
    text = notice(entry for entry, token in tokens.items() if token not in shown)
    if text is not None:
        with contextlib.suppress(InputError), writing(memory) as aside:
            aside.write_text(json.dumps(sorted(shown | set(tokens.values()))))
    return text
