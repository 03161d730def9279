"""Killed in each stage over HTTP and run again: complete, the same numbers, nothing that was kept is asked for twice."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from conftest import Tiltmeter
from support.simulated import running
from tiltmeter.models.sim import Dials, SimulatedModel
from tiltmeter.runs import load

pytestmark = pytest.mark.verify

STUDY = ("run", "benchmarks/g20", "-m", "vllm/any", "--limit", "8", "-P", "roles=none,assistant", "--display", "none")
ANSWERS = 8 * 21 * 2
TABLES = ("design", "responses", "measures")
"""The last table that stands when the process is killed: while it asks, while it measures, while it analyses."""


@pytest.fixture(scope="module")
def address() -> object:
    model = SimulatedModel("sim/biased", Dials(representational_harms=0.25), latency=0.01)
    with running(model, "benchmarks/g20", roles="none,assistant") as url:
        yield url


@pytest.mark.parametrize("table", TABLES)
def test_killed_in_a_stage_and_run_again(
    tiltmeter: Tiltmeter, tmp_path: Path, environment: dict[str, str], address: str, table: str
) -> None:
    command = [*STUDY, "--base-url", address, "--out", "run"]
    with subprocess.Popen(
        [sys.executable, "-m", "tiltmeter.cli", *command], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "run" / f"{table}.parquet").exists():
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.kill()
    done = tiltmeter(*command)
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    assert run.about["complete"]
    assert (run.responses["status"] == "ok").all()
    assert run.responses.height == ANSWERS
    if table != "design":
        assert run.about["models"][0]["tally"]["answered"] == 0
    undisturbed = tiltmeter(*command[:-1], "whole")
    assert undisturbed.returncode == 0, undisturbed.stderr
    whole = load(tmp_path / "whole")
    assert whole.about["models"][0]["tally"]["held"] == ANSWERS
    assert whole.findings.equals(run.findings)
    assert set(whole.findings.filter(pl.col("group").is_null())["context"]) == {"baseline", "none", "assistant"}
