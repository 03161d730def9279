"""Whole runs: what comes out does not depend on the engine, nor on whether the calling process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.misbehaving import MisbehavingServer, slow


def test_findings_of_a_run_are_those_of_the_local_engine(
    cluster: Any, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTMETER_DATA", environment["TILTMETER_DATA"])
    made = {}
    for engine in ("local", "ray"):
        monkeypatch.setenv("TILTMETER_RUNS", str(tmp_path / engine))
        made[engine] = tm.run("genderbench", model=["sim/biased", "sim/fair"], limit=4, engine=engine, out=tmp_path / engine / "run")
    assert made["ray"].about["engine"] == "ray"
    for table in ("findings", "responses"):
        local, ray = (getattr(made[engine], table) for engine in ("local", "ray"))
        assert local.height > 100
        assert ray.drop("latency", strict=False).equals(local.drop("latency", strict=False))


def test_the_command_starts_a_cluster_of_its_own_and_ends_it(tmp_path: Path, tiltmeter: Tiltmeter) -> None:
    study = ["run", "associations/gender", "-m", "sim/biased", "--judge", "sim/fair", "--limit", "12", "-P", "encoder=none"]
    for engine in (["local"], ["ray", "-E", "workers=2"]):
        out, mine = engine[0], str(tmp_path / f"runs-{engine[0]}")
        done = tiltmeter(*study, "--display", "plain", "--engine", *engine, "--out", out, TILTMETER_RUNS=mine)
        assert done.returncode == 0, done.stderr
        assert "raylet" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    local, ray = (pl.read_parquet(tmp_path / name / "findings.parquet") for name in ("local", "ray"))
    assert local.height
    assert ray.equals(local)
    deadline = time.monotonic() + 15  # a worker looks once a second whether the cluster is still there; on a busy machine it may be later
    while left := [one for one in psutil.process_iter(["environ", "cmdline"]) if (one.info["environ"] or {}).get("TILTMETER_RUNS") == mine]:
        assert time.monotonic() < deadline, [one.info["cmdline"] for one in left]
        time.sleep(0.1)


_DRIVER = """
import sys
from tiltmeter.engine import Limits, Request, open_engine, open_journal
from tiltmeter.models import Message, Sampling, create_model

with open_engine("ray", {"workers": "2"}) as engine, open_journal(sys.argv[2]) as journal:
    asked = [Request((Message("user", f"killed {number}"),)) for number in range(1500)]
    model = create_model("compatible/m", base_url=sys.argv[1])
    tally = engine.generate(model, asked, Sampling(), journal=journal, limits=Limits(max_connections=8))
    print(tally.held, tally.answered)
"""


def test_a_killed_run_goes_on(cluster: Any, tmp_path: Path) -> None:
    with MisbehavingServer(lambda request, nth: slow(0.02)) as server:
        command = [sys.executable, "-c", _DRIVER, server.url, str(tmp_path / "journal.db")]
        variables = {**os.environ, "RAY_ADDRESS": cluster.address}
        first = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while len(server.paid) < 400:
            assert first.poll() is None
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=240)
        held, answered = map(int, done.stdout.split())
        assert held > 0
        assert held + answered == 1500
        # What was asked in the last half second before the kill, and until the cluster noticed it, was paid twice.
        assert 1500 <= server.paid.total() <= 1500 + 400
