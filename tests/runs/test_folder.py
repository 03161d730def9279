"""Run folders: one writer at a time, no incomplete files, and messages about damaged folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import tiltmeter
from tiltmeter._app.known_runs_page import list_runs
from tiltmeter.errors import InputError
from tiltmeter.runs import Run, RunFolder, known_runs, load

DOCUMENT = {"study": "genderbench"}


@pytest.fixture
def finished(workplace: Path) -> Run:
    return tiltmeter.run("genderbench/direct", model="sim/mild", limit=20)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def hold(folder: Path) -> subprocess.Popen[str]:
    """Start another process that fills the folder until it is killed."""
    code = (
        "import pathlib, sys, time\n"
        "from tiltmeter.runs import RunFolder\n"
        "folder = RunFolder(pathlib.Path(sys.argv[1]))\n"
        f"with folder.filling({DOCUMENT!r}), folder.table('responses', {{}}):\n"
        "    print('filling', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "filling\n"
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks the system frees")
def test_a_folder_has_one_writer_and_the_files_of_a_killed_one_are_removed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with hold(folder.path) as process:
        try:
            before = names(folder.path)
            with pytest.raises(
                InputError,
                match=r"another process is writing to .*; wait for it or choose another folder with --out",
            ):
                folder.filling(DOCUMENT).__enter__()
            assert names(folder.path) == before, "the folder of the other process is untouched"
        finally:
            os.kill(process.pid, signal.SIGKILL)
    assert any(name.startswith(".responses.") for name in names(folder.path))
    with folder.filling(DOCUMENT):
        assert names(folder.path) == [".lock", "study.yaml"]
    assert names(folder.path) == ["study.yaml"]


def fail(folder: Path) -> None:
    with RunFolder(folder).filling(DOCUMENT):
        RunFolder(folder).write_text("run.json", "{}")
        raise KeyboardInterrupt


def test_an_error_removes_only_what_the_run_wrote(tmp_path: Path) -> None:
    new = tmp_path / "new"
    existing = tmp_path / "existing"
    existing.mkdir()
    for folder in (new, existing):
        with pytest.raises(KeyboardInterrupt):
            fail(folder)
    assert not new.exists()
    assert names(existing) == []
    with RunFolder(new).filling(DOCUMENT):
        pass
    with pytest.raises(KeyboardInterrupt):
        fail(new)
    assert names(new) == ["run.json", "study.yaml"], "an earlier run is not removed"


def test_a_folder_whose_name_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTMETER_RUNS", str(tmp_path))
    with pytest.raises(InputError, match="cannot write"):
        RunFolder(tmp_path / ("x" * 300)).filling(DOCUMENT).__enter__()
    with pytest.raises(InputError, match="is not a run folder"):
        load("x" * 300)


def without(key: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        about = json.loads((folder / "run.json").read_text())
        del about[key]
        (folder / "run.json").write_text(json.dumps(about))

    return change


def test_damaged_run_json_files_are_named(finished: Run, tmp_path: Path) -> None:
    about = (finished.path / "run.json").read_text()
    assert [run["name"] for run in known_runs()] == [finished.path.name]
    for text in (
        "",
        "{}",
        "[]",
        "null",
        "[" * 100_000,
        about.replace('"status"', '"stat"'),
        about.replace('"name"', '"nam"'),
    ):
        (finished.path / "run.json").write_text(text)
        with pytest.raises(InputError, match=r"run\.json"):
            _ = load(finished.path).about
        assert known_runs() == [], "one damaged folder does not hide the list"
    (finished.path / "run.json").write_text(about)
    for key in ("problems", "models", "parts", "title", "level"):
        without(key)(finished.path)
        with pytest.raises(InputError, match=key):
            _ = load(finished.path).about
        (finished.path / "run.json").write_text(about)


@pytest.mark.parametrize("table", ["findings", "design", "responses", "measures"])
def test_damaged_tables_are_named(finished: Run, table: str) -> None:
    path = finished.path / f"{table}.parquet"
    original = path.read_bytes()
    for content in (
        b"",
        original[: len(original) // 2],
        original[:4] + bytes(len(original) - 300) + original[-296:],
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"{table}\.parquet"):
            getattr(load(finished.path), table)
    pl.DataFrame({"x": [1]}).write_parquet(path)
    with pytest.raises(InputError, match="lacks the required column"):
        getattr(load(finished.path), table)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
@pytest.mark.parametrize(
    "name", ["findings.parquet", "stages/grades.parquet", "labels.csv", "study.yaml", "stages/measures.json"]
)
def test_a_pipe_in_a_run_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "stages").mkdir()
    (tmp_path / "run.json").write_text("{}")
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match=rf"{name} is not a file but a pipe"):
        load(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_listings_skip_a_run_whose_description_is_a_pipe(workplace: Path) -> None:
    place = workplace / "runs" / "odd"
    place.mkdir(parents=True)
    os.mkfifo(place / "run.json")
    assert known_runs() == []
    assert [run.state for run in list_runs()] == ["damaged"]


def test_a_folder_name_with_brackets_is_no_pattern(tmp_path: Path) -> None:
    in_brackets, beside = tmp_path / "run[1]", tmp_path / "run1"
    tiltmeter.run("genderbench/direct", model="sim/fair", limit=6, display="none", out=str(beside))
    run = tiltmeter.run("genderbench/direct", model="sim/fair", limit=3, display="none", out=str(in_brackets))
    tables = json.loads((in_brackets / "run.json").read_text(encoding="utf-8"))["tables"]
    assert tables["responses"]["rows"] == run.responses.height == 3
    assert tables["findings"]["rows"] == run.findings.height
