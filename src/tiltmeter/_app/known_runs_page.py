"""Discovery of finished and unfinished runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tiltmeter._app.run_data import Stamp, file_stamp, stamp
from tiltmeter._files.writing import LOCK
from tiltmeter._files.yaml import yaml_of
from tiltmeter.blocks import Headline
from tiltmeter.errors import InputError
from tiltmeter.runs import Run, RunFolder, open_folder, runs_root
from tiltmeter.runs._folder import check_kinds

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
    title: str = ""
    """Title of the study; empty if the run has not ended."""

    @property
    def finished(self) -> bool:
        """Whether the run has findings to show."""
        return self.written != ""


def list_runs(elsewhere: Path | None = None) -> list[KnownRun]:
    """Return the runs under the runs folder, and optionally one elsewhere.

    Runs in progress first, then the most recent first.
    """
    root = runs_root()
    files = [*root.glob("*/run.json"), *root.glob("*/study.yaml")]
    folders = {file.parent.name: file.parent for file in files}
    if elsewhere is not None:
        resolved = {path.resolve() for path in folders.values()}
        if elsewhere.resolve() not in resolved:
            folders[str(elsewhere)] = elsewhere
    runs = [_read(name, path) for name, path in sorted(folders.items())]
    return sorted(runs, key=lambda run: (run.state == "in progress", run.written), reverse=True)


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
    """Return the entry of one run folder."""
    stamp = file_stamp(path / "run.json")
    try:
        check_kinds(path)
        if stamp is None:
            run = _unfinished_run(name, path, file_stamp(path / "study.yaml"))
        else:
            run = _finished_run(name, path, stamp)
    except InputError:
        return KnownRun(name, path, method="", study="", models=(), state="damaged", written="")
    # Not part of the cached entry, because the lock is another file.
    return run._replace(state="in progress") if (path / LOCK).exists() else run


@lru_cache(maxsize=4096)
def _finished_run(name: str, path: Path, stamp: tuple[int, int]) -> KnownRun:
    """Return the entry of a run with run.json, which has this stamp."""
    about = RunFolder(path).read_json()
    return KnownRun(
        name=name,
        path=path,
        method=_method_of(about["study"]),
        study=about["study"],
        models=tuple(model["name"] for model in about["models"]),
        state="complete" if about["complete"] else "incomplete",
        written=about["written"],
        title=about["title"],
    )


def result_of(run: KnownRun) -> str:
    """Return the headlines of a run on one line; empty if it has none, or cannot be read."""
    return _result(run.path, stamp(run.path)) if run.finished else ""


@lru_cache(maxsize=1024)
def _result(path: Path, tables: Stamp) -> str:
    """Return the headlines of a run whose tables have these stamps."""
    try:
        blocks = Run(RunFolder(path)).blocks()
    except InputError:
        return ""
    return "; ".join(block.text for block in blocks if isinstance(block, Headline))


@lru_cache(maxsize=256)
def _unfinished_run(name: str, path: Path, stamp: tuple[int, int] | None) -> KnownRun:
    """Return the entry of a run without run.json, whose study.yaml has this stamp."""
    document = read_document(path)
    return KnownRun(
        name=name,
        path=path,
        method=_method_of(document["study"]),
        study=document["study"],
        models=tuple(model["name"] for model in models_in(document)),
        state="in progress",
        written="",
    )


def _method_of(study: str) -> str:
    """Return the method of a study by its name: "benchmarks" of "benchmarks/g20"."""
    method = study.split("/")[0]
    return _METHODS.get(method, method)


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


def models_in(document: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the entries of the models under test in a study.yaml."""
    models = document.get("models")
    if not isinstance(models, list):
        return []
    return [model for model in models if isinstance(model, dict) and isinstance(model.get("name"), str)]
