"""Outside data: a catalogue of what may be read, and a library that finds, fetches, checks and reads it.

None of the data is shipped. A file is looked for in the folders named by TILTMETER_DATA, then in the cache (TILTMETER_CACHE),
then in the sources its catalogue entry lists: a published package, the Hugging Face hub, a URL. Nothing is used unless its
size and sha256 are those of the catalogue, and data published as code is parsed, never executed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tiltmeter.datasets._errors import DataUnavailable
from tiltmeter.datasets._library import Library

if TYPE_CHECKING:
    from tiltmeter.datasets._catalogue import Catalogue, Entry, load_catalogue
    from tiltmeter.datasets._inventory import Copy, Fetched, check, fetch_all, status
    from tiltmeter.datasets.licences import first_use_notice, notice

__all__ = [
    "Catalogue",
    "Copy",
    "DataUnavailable",
    "Entry",
    "Fetched",
    "Library",
    "check",
    "fetch_all",
    "first_use_notice",
    "load_catalogue",
    "notice",
    "status",
]

_LAZY = {
    **dict.fromkeys(("Catalogue", "Entry", "load_catalogue"), "_catalogue"),
    **dict.fromkeys(("Copy", "Fetched", "check", "fetch_all", "status"), "_inventory"),
    **dict.fromkeys(("first_use_notice", "notice"), "licences"),
}


def __getattr__(name: str) -> Any:
    # Pydantic (needed by the catalogue) is imported on first use only, so that importing this package stays quick.
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
