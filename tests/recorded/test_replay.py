"""Recorded responses of all three methods, replayed: every number is the one that was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.recorded import MODELS, STUDIES, answers_of, carry_out, recorded_findings
from support.recorded_differences import described, differences

LONG = (
    "gender",
    "gender-judged",
    "race",
    "religions",
    "g20",
    "gender-badf-code",
    "parties",
    "probes-genderbench",
    "g20-saged",
)
"""Studies that take long and whose method has another one here."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.verify] * (name in LONG)) for name in STUDIES]
)
def test_recorded_responses_give_the_recorded_findings(
    name: str, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    recorded, answers = recorded_findings(name), answers_of(name)
    run, asked = carry_out(name, tmp_path, answers)
    assert run.about["problems"] == []
    assert asked.sort("model", "digest").equals(answers.sort("model", "digest"))
    assert set(recorded["model"]) == set(MODELS)
    changes = differences(recorded, run.findings)
    if not changes.is_empty():
        pytest.fail(described(changes), pytrace=False)
