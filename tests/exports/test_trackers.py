"""Experiment trackers: MLflow and Weights & Biases write into a folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tiltmeter.errors import InputError
from tiltmeter.exports import ExportRequest, export
from tiltmeter.exports._trackers import tracked
from tiltmeter.runs import load

pytestmark = pytest.mark.verify


MLFLOW = """
import json, sys, mlflow
from tiltmeter.exports import export
with mlflow.start_run(run_name="the user's own"):
    places = export(sys.argv[1], "mlflow")
records = []
for place in places:
    run = mlflow.get_run(place.removeprefix("runs:/"))
    table = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/findings.csv")
    records.append({
        "params": run.data.params,
        "metrics": run.data.metrics,
        "tags": run.data.tags,
        "status": run.info.status,
        "files": [artifact.path for artifact in mlflow.MlflowClient().list_artifacts(run.info.run_id)],
        "lines": table.count("\\n"),
    })
print(json.dumps(records))
"""

WANDB = """
import json, struct, sys
from pathlib import Path
from wandb.proto import wandb_internal_pb2
from tiltmeter.exports import export

def records(log):
    # The log format of LevelDB: blocks of 32 KiB with pieces of records.
    # A checksum, a length and a kind precede each piece.
    place, record = 7, b""
    while place < len(log):
        if (padding := -place % 32768) and padding < 7:
            place += padding
            continue
        _, length, kind = struct.unpack_from("<IHB", log, place)
        record += log[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield record
            record = b""

(place,) = export(sys.argv[1], "wandb", model="sim/mild")
contents = {"place": place, "summary": {}, "config": {}, "artifacts": []}
for content in records(next(Path(place).parent.glob("*.wandb")).read_bytes()):
    record = wandb_internal_pb2.Record()
    record.ParseFromString(content)
    for item in record.summary.update:
        contents["summary"][item.key or ".".join(item.nested_key)] = item.value_json
    for item in record.run.config.update:
        contents["config"][item.key] = item.value_json
    contents["artifacts"].append([entry.path for entry in record.artifact.manifest.contents])
print(json.dumps(contents))
"""


def called(script: str, run: Path, environment: dict[str, str], **variables: str) -> Any:
    """The last line that a script prints, read as JSON."""
    settings: dict[str, Any] = {
        "cwd": run.parent,
        "env": environment | variables,
        "timeout": 240,
        "check": False,
    }
    done = subprocess.run(
        [sys.executable, "-c", script, str(run)], capture_output=True, text=True, **settings
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def key_findings(run: Path, model: str) -> pl.DataFrame:
    return load(run).findings.filter("key", model=model)


def name_of(row: dict[str, Any]) -> str:
    """Return the name of a finding in a tracker."""
    return ".".join(filter(None, (row["part"], row["metric"], row["group"], row["group_2"])))


def test_mlflow_has_a_run_for_each_model(run: Path, environment: dict[str, str]) -> None:
    uri = (run.parent / "tracked").as_uri()
    quiet = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"}
    tracked_runs = called(MLFLOW, run, environment, MLFLOW_TRACKING_URI=uri, **quiet)
    assert [tracked_run["tags"]["model"] for tracked_run in tracked_runs] == ["sim/mild", "sim/fair"]
    for tracked_run in tracked_runs:
        findings = key_findings(run, tracked_run["tags"]["model"])
        expected = {
            f"{name_of(row)}{end}": row[name]
            for row in findings.iter_rows(named=True)
            for end, name in (("", "estimate"), ("_low", "low"), ("_high", "high"))
        }
        assert tracked_run["metrics"] == pytest.approx(expected)
        assert tracked_run["params"]["study"] == "genderbench"
        assert tracked_run["params"]["seed"] == "123"
        assert tracked_run["status"] == "FINISHED"
        marks = {name: mark for name, mark in tracked_run["tags"].items() if name.startswith("mark.")}
        assert sorted(marks.values()) == sorted(findings["mark"])
        assert sorted(tracked_run["files"]) == ["findings.csv", "report.html", "run.json", "study.yaml"]
        assert tracked_run["lines"] > findings.height


def test_an_export_to_mlflow_names_a_missing_package(run: Path, environment: dict[str, str]) -> None:
    """The tests have mlflow-skinny, which cannot write to a local database."""
    variables = environment | {
        "MLFLOW_TRACKING_URI": f"sqlite:///{run.parent}/mlflow.db",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = [sys.executable, "-m", "tiltmeter", "export", str(run), "--format", "mlflow"]
    done = subprocess.run(command, cwd=run.parent, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert re.search(r'needs the package \w+ .*: pip install "tiltmeter\[mlflow\]"', sentence)


def test_wandb_has_the_key_findings_of_one_model(run: Path, environment: dict[str, str]) -> None:
    home = run.parent / "kept"
    home.mkdir()
    variables = {"WANDB_MODE": "offline", "WANDB_DIR": str(home), "WANDB_SILENT": "true", "HOME": str(home)}
    record = called(WANDB, run, environment, **variables)
    assert home in Path(record["place"]).parents
    for row in key_findings(run, "sim/mild").iter_rows(named=True):
        name = name_of(row)
        values = [json.loads(record["summary"][f"{name}{end}"]) for end in ("", "_low", "_high")]
        assert values == pytest.approx([row["estimate"], row["low"], row["high"]])
        assert json.loads(record["summary"][f"mark.{name}"]) == row["mark"]
    assert json.loads(record["config"]["seed"]) == "123"
    assert {"findings.csv", "report.html", "run.json", "study.yaml"} in [
        set(files) for files in record["artifacts"]
    ]
    (table,) = Path(record["place"]).rglob("findings*.table.json")
    assert len(json.loads(table.read_text())["data"]) == load(run).findings.filter(model="sim/mild").height


def test_names_that_become_the_same_are_distinguished(run: Path) -> None:
    frame = pl.read_parquet(run / "findings.parquet").filter(pl.col("model") == "sim/mild").head(4)
    renamed = {
        "metric": pl.Series(["rate<", "rate>", "rate|", "rate__low"]),
        "estimate": pl.Series([0.1, 0.2, 0.3, 0.4]),
    }
    same = {"low": 0.0, "high": 1.0, "mark": "healthy", "key": True}
    frame.with_columns(**renamed, **{name: pl.lit(value) for name, value in same.items()}).write_parquet(
        run / "findings.parquet"
    )
    with tracked(ExportRequest(load(run), run, "findings", False, "sim/mild", "mlflow")) as models:
        (model,) = models
    assert sorted(model.metrics.values()) == [0.0] * 4 + [0.1, 0.2, 0.3, 0.4] + [1.0] * 4
    assert len([name for name in model.tags if name.startswith("mark.")]) == 4


def test_untrusted_names_become_names_that_trackers_accept(evil: Path) -> None:
    with tracked(ExportRequest(load(evil), evil, "findings", True, None, "mlflow")) as models:
        for model in models:
            for name in model.metrics:
                assert len(name.encode()) < 250
                assert not set(name) & set("<>\"'/\\|=\n\u202e")
            assert (
                max(len(value) for value in (*model.params.values(), *model.tags.values(), model.name)) <= 500
            )
            assert "<script>alert" not in model.files[1].read_text()


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_an_export_without_the_tracker_names_the_package_to_install(
    run: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nowhere:
        def find_spec(self, wanted: str, *_: object) -> None:
            if wanted == name:
                raise ModuleNotFoundError(f"No module named {wanted!r}", name=wanted)

    for module in [loaded for loaded in sys.modules if loaded.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Nowhere(), *sys.meta_path])
    with pytest.raises(InputError, match=rf'pip install "tiltmeter\[{name}\]"'):
        export(run, name)
