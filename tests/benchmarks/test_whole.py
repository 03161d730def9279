"""Benchmarks as a user runs them: asked, measured, diagnosed; with one's own benchmark, answers and values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.runs import load
from tiltmeter.study import metric_name

RUN = ("run", "benchmarks/g20", "-m", "sim/biased", "--display", "none", "--out", "run")


def number(run: tm.Run, metric: str, context: str | None = None, group: str | None = None) -> dict[str, Any]:
    found = run.findings.filter(
        metric_name() == metric, pl.col("context").eq_missing(pl.lit(context)), pl.col("group").eq_missing(pl.lit(group))
    )
    assert found.height == 1
    row: dict[str, Any] = found.row(0, named=True)
    return row


def test_the_country_study_is_run_and_diagnosed(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter(*RUN, "--limit", "15")
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    assert run.design.height == 15 * 21 * 5
    assert run.design.group_by("concept").len()["len"].to_list() == [75] * 21
    assert run.about["complete"]
    found = number(run, "range_mean_vader_compound", "none")
    means = [number(run, "mean_vader_compound", "none", concept)["estimate"] for concept in run.design["concept"].unique()]
    assert found["estimate"] == pytest.approx(max(means) - min(means))
    assert "impact ratio" in done.stdout
    assert number(run, "range_mean_vader_compound", "baseline")["attempts"] == 15 * 21
    assert {"statistics", "disparities", "groups"} <= {path.stem for path in (tmp_path / "run" / "stages").iterdir()}


def test_the_plan_says_how_small_a_difference_would_show(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    planned = json.loads(tiltmeter("plan", "benchmarks/g20", "-m", "sim/fair", "-P", "roles=none,diplomat", "-f", "json").stdout)
    widths = {row["metric"]: row["half_width"] for row in planned["metrics"]}
    assert list(widths) == ["selection rate, none", "selection rate, diplomat"]
    selected = np.random.default_rng(0).random((20_000, 21, 75)) < 0.5
    apart = selected[:, 0].mean(axis=1) - selected[:, 1:].mean(axis=(1, 2))
    assert list(widths.values()) == pytest.approx([1.96 * apart.std()] * 2, rel=0.03)


@pytest.mark.verify
def test_the_same_again_asks_nothing_and_gives_the_same(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    tables = []
    for _ in range(2):
        assert tiltmeter(*RUN, "--limit", "3", "-P", "roles=none").returncode == 0
        tables.append(load(tmp_path / "run").about)
    assert tables[0]["tables"] == tables[1]["tables"]
    assert tables[1]["models"][0]["tally"]["answered"] == 0


@pytest.mark.verify
def test_a_number_is_opened_down_to_its_answers(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    assert tiltmeter(*RUN, "--limit", "4").returncode == 0
    run = load(tmp_path / "run")
    behind = run.evidence("mean_vader_compound", group="Japan", context="diplomat")
    assert behind.height == 4
    assert set(behind["role"]) == {"diplomat"}
    assert behind["prompt"].str.contains("Japan").all()
    assert behind["value:vader_compound"].mean() == pytest.approx(number(run, "mean_vader_compound", "diplomat", "Japan")["estimate"])
    shown = tiltmeter("show", "run", "--metric", "mean_vader_compound", "--group", "Japan", "--context", "diplomat")
    assert shown.returncode == 0, shown.stderr
    assert "Japan" in shown.stdout


def test_answers_that_decline_are_missing_and_not_neutral(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    assert tiltmeter(*RUN, "--limit", "4", "-P", "roles=none", "-M", "refusal=0.5").returncode == 0
    run = load(tmp_path / "run")
    refused = run.measures.filter(pl.col("outcome") == "refused")
    assert 20 < refused.height < 64
    assert refused["value:vader_compound"].null_count() == refused.height
    found = number(run, "range_mean_vader_compound", "none")
    assert found["refused"] == refused.height


OWN = "concept,prompt,baseline\n" + "".join(
    f"{who},What is told of {who} and the {thing}?,The {thing} of {who} is fine.\n"
    for thing in ("sea", "hill", "town", "road", "well")
    for who in ("Aland", "Borduria")
)


def test_a_benchmark_of_ones_own(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(OWN, encoding="utf-8")
    (tmp_path / "roles.yaml").write_text("none:\nsailor: You are an old sailor.\n", encoding="utf-8")
    own = ("-P", "benchmark=mine.csv", "-P", "roles=roles.yaml")
    done = tiltmeter("run", "benchmarks", "-m", "sim/biased", *own, "--display", "none", "--out", "run")
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    assert run.design.height == 20
    assert run.design.filter(pl.col("role") == "sailor")["system"].unique().to_list() == ["You are an old sailor."]
    assert set(run.findings["context"].drop_nulls()) == {"none", "sailor", "baseline"}


def test_values_measured_elsewhere_go_straight_to_disparity(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    """Figure 6 of the paper."""
    (tmp_path / "fig6.csv").write_text("fruit,score\nApple,0.5\nApple,0.75\nPear,0.25\nPear,0.2\n", encoding="utf-8")
    done = tiltmeter("analyse", "fig6.csv", "--study", "benchmark", "--group", "fruit", "--feature", "score", "--out", "run")
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    assert number(run, "mean_score", group="Apple")["estimate"] == pytest.approx(0.625)
    assert number(run, "mean_score", group="Pear")["estimate"] == pytest.approx(0.225)
    assert number(run, "range_mean_score")["estimate"] == pytest.approx(0.4)
    assert number(run, "selection_rate_score", group="Apple")["estimate"] == 1.0
    assert number(run, "ratio_selection_rate_score")["estimate"] == 0.0


def test_texts_of_ones_own_in_pairs(tiltmeter: Tiltmeter, tmp_path: Path, shared: Path) -> None:
    letters = str(shared / "data" / "letters" / "clg_letters.csv")
    flags = ("--group", "gender", "--pair", "age", "--pair", "occupation", "--text", "chatgpt_gen", "--out", "run")
    done = tiltmeter("analyse", letters, "--study", "benchmarks", *flags)
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    found = number(run, "range_mean_vader_compound")
    assert found["method"] == "bootstrap percentile; resampled: prompts with all their branches"
    assert found["items"] == 60


MISTAKES = [
    (("-P", "features=sentimnt"), "did you mean sentiment"),
    (("-P", "group=cuntry"), "-P group=cuntry"),
    (("-P", "group=branched_from,branched_from"), "is in it twice"),
    (("-P", "roles=diplomatt"), "did you mean diplomat"),
    (("-P", "roles=nowhere.yaml"), "there is no such file"),
    (("-P", "statistics=meen"), "meen"),
    (("-P", "benchmark=mine.csv"), "give the study benchmarks"),
    (("-P", "group=domain"), "at least two groups are needed"),
    (("-P", "clusters=1"), "a number of clusters from 2"),
    (("-P", "also=toxicty"), "did you mean toxicity"),
    (("-P", "also=toxicity"), "give -P features=toxicity"),
    (("--definition", "genderbench"), "known: default, saged"),
]


@pytest.mark.parametrize(("flags", "told"), MISTAKES)
def test_mistakes_are_told_before_anything_is_asked(tiltmeter: Tiltmeter, tmp_path: Path, flags: tuple[str, ...], told: str) -> None:
    done = tiltmeter(*RUN, "--limit", "2", *flags)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr.replace("\n", " ")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("table", "told"), [("concept,prompt\nA,one\nA,two\n", "at least two groups"), ("concept,text\nA,one\nB,two\n", "prompt")]
)
def test_benchmarks_that_cannot_be_used(tiltmeter: Tiltmeter, tmp_path: Path, table: str, told: str) -> None:
    (tmp_path / "mine.csv").write_text(table, encoding="utf-8")
    done = tiltmeter("run", "benchmarks", "-m", "sim/fair", "-P", "benchmark=mine.csv", "--out", "run")
    assert done.returncode == 2
    assert told in done.stderr.replace("\n", " ")
    assert not (tmp_path / "run").exists()


def test_a_role_cannot_be_called_as_the_baselines_are(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "roles.yaml").write_text("baseline: You are a baseline.\n", encoding="utf-8")
    done = tiltmeter(*RUN, "-P", "roles=roles.yaml")
    assert done.returncode == 2
    assert "cannot be called 'baseline'" in done.stderr


def test_a_benchmark_without_baselines_cannot_be_compared_with_them(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("concept,prompt\nA,one?\nB,one?\n", encoding="utf-8")
    command = ("run", "benchmarks", "-m", "sim/fair", "-P", "benchmark=mine.csv", "--display", "none", "--out", "run")
    done = tiltmeter(*command, "-P", "features=distance")
    assert done.returncode == 2
    assert "has none" in done.stderr
    assert tiltmeter(*command).returncode == 0
    assert not load(tmp_path / "run").findings["calibrated"].any()


def test_further_measures_of_the_same_answers(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    own = ("-P", "roles=none", "-P", "also=parity,overlap,words")
    done = tiltmeter("run", "benchmarks/parties", "-m", "sim/biased", "--display", "none", "--out", "run", "--limit", "6", *own)
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    found = run.findings.filter(metric_name() == "sentiment_strict_vader_compound")
    assert found.height == 15  # pairs of six ideologies
    assert found["low"].null_count() == 0
    assert found["p"].null_count() == 0
    assert set(found["unit"]) == {"score"}
    assert set(run.findings.filter(metric="sentiment_weak")["unit"]) == {"difference"}
    assert run.findings.filter(pl.col("metric") == "bleu").height == 15
    assert run.findings.filter(pl.col("metric") == "cooccurrence_bias").height == 1
    assert run.stage("further").filter(pl.col("target").is_not_null()).height > 10
    assert "Further measures" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.verify
def test_clusters_of_like_answers(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter(*RUN, "--limit", "3", "-P", "roles=none", "-P", "clusters=2")
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    members = [name for name in run.measures.columns if name.startswith("value:cluster_")]
    assert len(members) == 2
    assert run.measures.select(pl.sum_horizontal(members)).to_series().to_list() == [1.0] * run.measures.height
    assert (run.stage("clusters")["theme"].list.len() >= 1).all()


@pytest.mark.verify
def test_toxicity_by_a_function_of_ones_own_and_cosine_by_an_encoder(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def toxic(text):\n    return min(1.0, len(text) % 7 / 6)\n")
    own = ("-P", "roles=none", "-P", "features=toxicity=mine:toxic", "-P", "also=toxicity,cosine", "--repeats", "5")
    done = tiltmeter("run", "benchmarks/parties", "-m", "sim/biased", "--display", "none", "--out", "run", "--limit", "3", *own)
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    scores = run.measures.join(run.responses.select("prompt_id", "repetition", "answer"), on=["prompt_id", "repetition"])
    scores = scores.with_columns(scored=pl.col("answer").str.len_chars() % 7 / 6)
    assert scores["value:toxicity"].to_list() == pytest.approx(scores["scored"].to_list())
    fractions = run.findings.filter(pl.col("metric") == "toxic_fraction").select("group", "estimate")
    expected = scores.group_by("subject").agg((pl.col("scored") >= 0.5).mean())
    assert dict(fractions.iter_rows()) == pytest.approx(dict(expected.iter_rows()))
    assert run.findings.filter(pl.col("metric") == "cosine")["estimate"].is_between(0, 1).all()
