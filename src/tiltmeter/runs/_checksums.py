"""Checksums of a run: of its tables, compared with run.json, and of the code that creates them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tiltmeter._files.paths import is_file, sha256
from tiltmeter.models._function import digest_of
from tiltmeter.runs._folder import STAGES, TABLES, RunFolder, json_digest
from tiltmeter.study import Part


def unmatched_tables(folder: RunFolder) -> list[str]:
    """Return the names of the tables of a run that do not match its run.json.

    These are tables that were changed, are missing, or are not listed there. Tables of a run at a URL are
    checked when they are downloaded, and not here.
    """
    if folder.place != str(folder.path):
        return []
    recorded = {name: str(entry["sha256"]) for name, entry in folder.read_json()["tables"].items()}
    stages = sorted(path.stem for path in (folder.path / STAGES).glob("*.parquet"))
    names = dict.fromkeys([*TABLES, *recorded, *(f"{STAGES}/{stage}" for stage in stages)])
    return [name for name in names if _checksum(folder, name) != recorded.get(name)]


def _checksum(folder: RunFolder, name: str) -> str | None:
    path = folder.table_path(name)
    return sha256(path) if is_file(path) else None


def unmatched_sentence(folder: RunFolder) -> str | None:
    """Return a sentence about the tables of a run that do not match its run.json; None if all do."""
    names = unmatched_tables(folder)
    if not names:
        return None
    files = ", ".join(f"{name}.parquet" for name in names)
    verb = "does" if len(names) == 1 else "do"
    return (
        f"{files} {verb} not match run.json of {folder.place}: the numbers may have been changed after the"
        f" run. `tiltmeter verify {folder.place}` computes them again; to recreate the tables, run the study"
        " again"
    )


def code_checksum(parts: Sequence[Part]) -> str:
    """Return a checksum of the code that creates the tables: this package and the modules of the parts."""
    files = {part: _source_of(type(part)) for part in parts}
    states = [_state_of(path) for path in sorted({path for path in files.values() if path is not None})]
    digests = [digest_of(type(part)) for part, path in files.items() if path is None]
    return json_digest([_package_checksum(), [*states, *digests]])


@cache
def _package_checksum() -> str:
    """Return a checksum of the code of this package and of the versions that it computes with.

    The code is that of the first call in this process, which is the code that runs.
    """
    package = Path(__file__).parents[1]
    states = [_state_of(path) for path in sorted(package.rglob("*.py"))]
    return json_digest([version("tiltmeter"), version("polars"), version("numpy"), states])


def _state_of(path: Path) -> list[Any]:
    """Return what tells whether a file has changed: path, size and time of modification."""
    state = path.stat()
    return [str(path), state.st_size, state.st_mtime_ns]


def _source_of(kind: type) -> Path | None:
    """Return the file that defines a class, or None for a class defined in an interactive session."""
    try:
        path = inspect.getsourcefile(kind)
    except (TypeError, OSError):
        return None
    return Path(path) if path is not None and is_file(path) else None
