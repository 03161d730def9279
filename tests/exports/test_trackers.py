"""Experiment trackers, the real ones, each into a folder."""

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
from tiltmeter.exports.trackers import tracked
from tiltmeter.runs import load

pytestmark = pytest.mark.verify


MLFLOW = """
import json, sys, mlflow
from tiltmeter.exports import export
with mlflow.start_run(run_name="the user's own"):
    places = export(sys.argv[1], "mlflow")
found = []
for place in places:
    run = mlflow.get_run(place.removeprefix("runs:/"))
    files = [one.path for one in mlflow.MlflowClient().list_artifacts(run.info.run_id)]
    table = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/findings.csv")
    data = {"params": run.data.params, "metrics": run.data.metrics, "tags": run.data.tags, "status": run.info.status}
    found.append(data | {"files": files, "lines": table.count("\\n")})
print(json.dumps(found))
"""

WANDB = """
import json, struct, sys
from pathlib import Path
from wandb.proto import wandb_internal_pb2
from tiltmeter.exports import export

def records(data):
    # The log format of LevelDB: blocks of 32 KiB with pieces of records, each after checksum, length and kind.
    place, held = 7, b""
    while place < len(data):
        if (left := -place % 32768) and left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        held += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield held
            held = b""

(place,) = export(sys.argv[1], "wandb", model="sim/mild")
told = {"place": place, "summary": {}, "config": {}, "artifacts": []}
for data in records(next(Path(place).parent.glob("*.wandb")).read_bytes()):
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    told["summary"] |= {one.key or ".".join(one.nested_key): one.value_json for one in record.summary.update}
    told["config"] |= {one.key: one.value_json for one in record.run.config.update}
    told["artifacts"].append([one.path for one in record.artifact.manifest.contents])
print(json.dumps(told))
"""


def called(script: str, run: Path, environment: dict[str, str], **variables: str) -> Any:
    """What the script prints last, as JSON."""
    known: dict[str, Any] = {
        "cwd": run.parent,
        "env": environment | variables,
        "timeout": 240,
        "check": False,
    }
    done = subprocess.run([sys.executable, "-c", script, str(run)], capture_output=True, text=True, **known)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def of(run: Path, model: str) -> pl.DataFrame:
    return load(run).findings.filter("key", model=model)


def test_mlflow(run: Path, environment: dict[str, str]) -> None:
    uri = (run.parent / "tracked").as_uri()
    quiet = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"}
    found = called(MLFLOW, run, environment, MLFLOW_TRACKING_URI=uri, **quiet)
    assert [one["tags"]["model"] for one in found] == ["sim/mild", "sim/fair"]
    for one in found:
        findings = of(run, one["tags"]["model"])
        expected = {
            f"{row['part']}.{row['metric']}{end}": row[name]
            for row in findings.iter_rows(named=True)
            for end, name in (("", "estimate"), ("_low", "low"), ("_high", "high"))
        }
        assert one["metrics"] == pytest.approx(expected)
        assert (one["params"]["study"], one["params"]["seed"], one["status"]) == (
            "genderbench",
            "123",
            "FINISHED",
        )
        marks = {name: mark for name, mark in one["tags"].items() if name.startswith("mark.")}
        assert sorted(marks.values()) == sorted(findings["mark"])
        assert sorted(one["files"]) == ["findings.csv", "report.html", "run.json", "study.yaml"]
        assert one["lines"] > findings.height


def test_a_part_of_mlflow_names_what_is_missing(run: Path, environment: dict[str, str]) -> None:
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


def test_wandb(run: Path, environment: dict[str, str]) -> None:
    home = run.parent / "kept"
    home.mkdir()
    variables = {"WANDB_MODE": "offline", "WANDB_DIR": str(home), "WANDB_SILENT": "true", "HOME": str(home)}
    told = called(WANDB, run, environment, **variables)
    assert home in Path(told["place"]).parents
    for row in of(run, "sim/mild").iter_rows(named=True):
        name = f"{row['part']}.{row['metric']}"
        values = [json.loads(told["summary"][f"{name}{end}"]) for end in ("", "_low", "_high")]
        assert values == pytest.approx([row["estimate"], row["low"], row["high"]])
        assert json.loads(told["summary"][f"mark.{name}"]) == row["mark"]
    assert json.loads(told["config"]["seed"]) == "123"
    assert {"findings.csv", "report.html", "run.json", "study.yaml"} in [
        set(files) for files in told["artifacts"]
    ]
    (table,) = Path(told["place"]).rglob("findings*.table.json")
    assert len(json.loads(table.read_text())["data"]) == load(run).findings.filter(model="sim/mild").height


def test_names_that_become_the_same_are_told_apart(run: Path) -> None:
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
        (one,) = models
    assert sorted(one.metrics.values()) == [0.0] * 4 + [0.1, 0.2, 0.3, 0.4] + [1.0] * 4
    assert len([name for name in one.tags if name.startswith("mark.")]) == 4


def test_untrusted_names_are_names_a_tracker_takes(evil: Path) -> None:
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
def test_without_the_library(run: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere:
        def find_spec(self, wanted: str, *_: object) -> None:
            if wanted == name:
                raise ModuleNotFoundError(f"No module named {wanted!r}", name=wanted)

    for module in [one for one in sys.modules if one.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Nowhere(), *sys.meta_path])
    with pytest.raises(InputError, match=rf'pip install "tiltmeter\[{name}\]"'):
        export(run, name)
