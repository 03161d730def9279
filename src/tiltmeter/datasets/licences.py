"""Restrictions on the use of data, told before the data is first used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tiltmeter.datasets._store import write_atomically

if TYPE_CHECKING:
    from tiltmeter.datasets._catalogue import Entry
    from tiltmeter.datasets._library import Library

__all__ = ["first_use_notice", "notice"]

_HEADING = "Some of the data may not be used freely. Whether you may use it for your purpose is for you to judge:"


def notice(entries: Iterable[Entry]) -> str | None:
    """What a user must know about the restricted ones among `entries`, as plain text; None when there are none.

    Files under the same terms share one paragraph.
    """
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        if entry.restricted is not None:
            groups.setdefault((entry.restricted, entry.licence, entry.licence_note), []).append(entry)
    if not groups:
        return None
    paragraphs = []
    for (restricted, licence, note), members in groups.items():
        files = [f"  {entry.name}: {entry.title}, {entry.upstream}" for entry in members]
        paragraphs.append("\n".join([f"{restricted} (licence: {licence}). {note}", *files]))
    return "\n\n".join([_HEADING, *paragraphs])


def _token(entry: Entry) -> str:
    """Changes with the terms, so that changed terms are shown again."""
    terms = "\0".join((entry.name, entry.restricted or "", entry.licence, entry.licence_note))
    return hashlib.sha256(terms.encode()).hexdigest()[:20]


def first_use_notice(library: Library, entries: Iterable[Entry]) -> str | None:
    """The notice for those of `entries` it was never given for on this machine; None when there is nothing new to say.

    What was given is remembered in the library's cache folder. Where that cannot be read or written the notice comes again.
    """
    memory = library.cache / "notices.json"
    try:
        stored = json.loads(memory.read_bytes())
        shown = {str(token) for token in stored} if isinstance(stored, list) else set()
    except (OSError, ValueError, RecursionError):
        shown = set()
    new = [entry for entry in entries if entry.restricted is not None and _token(entry) not in shown]
    text = notice(new)
    if text is not None:
        try:
            write_atomically(memory, json.dumps(sorted(shown | {_token(entry) for entry in new})).encode())
        except OSError:
            return text
    return text
