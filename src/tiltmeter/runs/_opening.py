"""Run folders at a local path or a URL: create one, open an existing one, and list them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiltmeter._files.paths import is_file
from tiltmeter.errors import InputError
from tiltmeter.runs._folder import RunFolder, check_kinds, document_of
from tiltmeter.runs._places import place_of, runs_place
from tiltmeter.runs._remote import FetchedFolder, UploadedFolder, readers_of_runs


def folder_to_fill(place: str | Path) -> RunFolder:
    """Return the folder at a path or URL for writing (see `RunFolder.filling`).

    Raise InputError for an unusable URL.
    """
    if not str(place).strip():
        raise InputError(
            "the name of the output folder is empty; give a name with --out, or unset TILTMETER_OUT"
        )
    where = place_of(place)
    return RunFolder(where) if isinstance(where, Path) else UploadedFolder(where)


def open_folder(name: str | Path) -> RunFolder:
    """Open an existing run by its path, its URL or its name in the runs folder.

    Raise InputError if there is none.
    """
    if not str(name).strip():
        raise InputError(
            "the name of the run is empty; give a run folder or a name that `tiltmeter list runs` shows"
        )
    where, root = place_of(name), runs_place()
    for place in _candidates(where, root):
        if isinstance(place, str):
            if (folder := FetchedFolder.find(place)) is not None:
                return folder
        elif is_file(place / "run.json"):
            check_kinds(place)
            return RunFolder(place)
    raise InputError(f"{name} is not a run folder (it has no run.json); {_hint(where, root)}")


def runs_in(root: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the run.json of each run under a path or URL; skip unreadable runs."""
    readers: Mapping[str, Callable[[], bytes | None]]
    if isinstance(root, Path):
        files = [path for path in sorted(root.glob("*/run.json")) if is_file(path)]
        readers = {path.parent.name: path.read_bytes for path in files}
    else:
        readers = readers_of_runs(root)
    for name, read in readers.items():
        with suppress(InputError):
            yield name, document_of(read, f"{root}/{name}/run.json")


def _candidates(where: str | Path, root: str | Path) -> list[str | Path]:
    """Return the possible locations of a run: the path or URL itself, and the name in the runs folder."""
    if isinstance(where, str):
        return [where]
    if isinstance(root, Path):
        return [where, root / where]
    is_name = len(where.parts) == 1 and where.name not in ("", "..")
    return [where, f"{root}/{where}"] if is_name else [where]


def _hint(where: str | Path, root: str | Path) -> str:
    """Return what to do if there is no run at a place."""
    if isinstance(where, str):
        return f"check the URL, or create a run there with --out {where}"
    names = [name for name, _ in runs_in(root)]
    return f"known runs: {', '.join(names[:10])}" if names else f"there is no run in {root} yet"
