"""A small run, and the same run with untrusted texts that contain markup, formulas and commands."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.commands import call
from tiltmeter.exports import export


def exported(run: Path, format: str, *arguments: Any, **more: Any) -> Path:
    """Export a run and return the one path that was written."""
    (place,) = export(run, format, *arguments, **more)
    return Path(place)


WORD = "a" * 1_000_000
EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><b>x",
    "=cmd|' /C calc'!A0",
    "\u202etfel ot thgir\u202c",
    "| a | [link](javascript:alert(1)) `code` $x$ \\input{/etc/passwd}\n\n# heading",
    WORD,
)
"""Texts for names of models, answers and groups."""
MODELS = {"sim/mild": EVIL[0], "sim/fair": EVIL[3]}


@pytest.fixture(scope="session")
def original_run(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """A run of two models and two probes."""
    home = tmp_path_factory.mktemp("exports")
    (home / "study.yaml").write_text(
        "study: genderbench\nparts: [direct, jobs_lum]\nlimit: 12\nresamples: 50\n"
    )
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TILTMETER_")}
    arguments = ("run", "study.yaml", "-m", "sim/mild", "-m", "sim/fair", "--out", "run", "--display", "none")
    done = call(
        arguments,
        home,
        inherited | {"TILTMETER_DATA": str(shared / "data"), "TILTMETER_RUNS": str(home / "runs")},
    )
    assert done.returncode == 0, done.stderr
    return home / "run"


@pytest.fixture
def run(original_run: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(original_run, tmp_path / "run"))


@pytest.fixture
def evil(run: Path) -> Path:
    """The run with names, answers, groups, notes and a title that contain markup, formulas or commands."""
    cycle = pl.Series(EVIL).gather(pl.int_range(10_000, eager=True) % len(EVIL))
    columns = {"findings": ("group", "context", "note"), "responses": ("answer",), "measures": ("label",)}
    for table, names in columns.items():
        frame = pl.read_parquet(run / f"{table}.parquet").with_columns(pl.col("model").replace(MODELS))
        frame = frame.with_columns(cycle.head(frame.height).alias(name) for name in names)
        frame.write_parquet(run / f"{table}.parquet")
    about = json.loads((run / "run.json").read_text())
    for model in about["models"]:
        model["name"] = MODELS[model["name"]]
    about |= {
        "title": EVIL[1],
        "problems": [EVIL[5], EVIL[4]],
        "command": f"tiltmeter run x -m '{EVIL[0]}' ``` # {EVIL[4]}",
    }
    for entry in about["data"]:
        entry |= {"title": EVIL[5], "citation": EVIL[1], "restricted": EVIL[2]}
    (run / "run.json").write_text(json.dumps(about))
    return run
