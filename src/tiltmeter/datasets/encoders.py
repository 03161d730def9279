"""Sentence encoders among the outside data: the folder a model's files lie in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tiltmeter.datasets._store import file_flaw, write_atomically
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.datasets._library import Library

__all__ = ["ENCODERS", "encoder_folder"]

ENCODERS: Final = ("all-MiniLM-L6-v2",)
"""Encoders in the catalogue, the default first; their files are entries `ENCODER/FILE`."""


def encoder_folder(library: Library, name: str = ENCODERS[0]) -> Path:
    """A folder that holds all files of the encoder under their own names; fetched if need be (83 MB).

    Raises
    ------
    DataUnavailable
        No source gave a file.
    InputError
        There is no such encoder, a local copy is not the catalogued file, or the cache folder cannot be written to.
    """
    if name not in ENCODERS:
        raise InputError(f"unknown encoder {name!r}: the catalogue has {', '.join(ENCODERS)}")
    entries = [entry for entry in library.entries if entry.name.startswith(f"{name}/")]
    found = [(Path(entry.name).relative_to(name), library.path(entry.name), entry) for entry in entries]
    roots = {path.parents[len(inner.parts) - 1] if path.parts[-len(inner.parts) :] == inner.parts else None for inner, path, _ in found}
    root = roots.pop()
    if root is not None and not roots:
        return root
    # Some are the user's copies, some from the cache: bring them together.
    folder = library.cache / "encoders" / name
    try:
        for inner, path, entry in found:
            if file_flaw(folder / inner, entry) is not None:
                write_atomically(folder / inner, path.read_bytes())
    except OSError as error:
        raise InputError(
            f"the cache folder {library.cache} cannot be written to ({error.strerror}); set TILTMETER_CACHE to a folder you may write to"
        ) from error
    return folder
