"""Comparison of the tables of a run with the checksums in its run.json."""

from __future__ import annotations

from tiltmeter.files.paths import is_file, sha256
from tiltmeter.runs.folder import STAGES, TABLES, RunFolder


def unmatched_tables(folder: RunFolder) -> list[str]:
    """Return the names of the tables of a run that do not match its run.json: changed, missing, or not listed there.

    Tables of a run at a URL are checked when they are downloaded, and not here.
    """
    if folder.place != str(folder.path):
        return []
    noted = {name: str(entry["sha256"]) for name, entry in folder.read_json()["tables"].items()}
    stages = sorted(path.stem for path in (folder.path / STAGES).glob("*.parquet"))
    names = dict.fromkeys([*TABLES, *noted, *(f"{STAGES}/{stage}" for stage in stages)])
    return [name for name in names if _checksum(folder, name) != noted.get(name)]


def _checksum(folder: RunFolder, name: str) -> str | None:
    path = folder.table_path(name)
    return sha256(path) if is_file(path) else None


def unmatched_sentence(folder: RunFolder) -> str | None:
    """Return a sentence about the tables of a run that do not match its run.json; None if all do."""
    names = unmatched_tables(folder)
    if not names:
        return None
    files = ", ".join(f"{name}.parquet" for name in names)
    return (
        f"{files} {'does' if len(names) == 1 else 'do'} not match run.json of {folder.place}: the numbers may have been changed after the "
        f"run. `tiltmeter verify {folder.place}` computes them again; to recreate the tables, run the study again"
    )
