"""Recorded responses of all three methods, replayed: every number is the one that was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.recorded import MODELS, STUDIES, answers_of, carry_out, recorded_findings

ABSOLUTE, RELATIVE = 1e-12, 1e-9
"""A number is the same where it differs by no more than the larger of both."""


@pytest.mark.parametrize("name", STUDIES)
def test_recorded_responses_give_the_recorded_findings(name: str, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    recorded, answers = recorded_findings(name), answers_of(name)
    run, asked = carry_out(name, tmp_path, answers)
    assert run.about["problems"] == []
    assert asked.sort("model", "digest").equals(answers.sort("model", "digest"))
    assert set(recorded["model"]) == set(MODELS)
    found = run.findings.select(recorded.columns)
    numbers = [column for column, kind in recorded.schema.items() if kind.is_float()]
    assert {"estimate", "low", "high", "p", "q"} <= set(numbers)
    assert found.drop(numbers).equals(recorded.drop(numbers))
    for column in numbers:
        assert found[column].is_null().equals(recorded[column].is_null()), column
        was, now = (table[column].drop_nulls().to_numpy() for table in (recorded, found))
        assert now == pytest.approx(was, abs=ABSOLUTE, rel=RELATIVE, nan_ok=True), column
