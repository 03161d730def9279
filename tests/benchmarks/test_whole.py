"""Benchmarks as a user runs them: built-in and own benchmarks, own answers and values, interrupted runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2

import tiltmeter as tm
from benchmarks.conftest import Ran
from conftest import ROOT, Tiltmeter
from support.simulated import running
from support.true_tones import true_tones
from tiltmeter.benchmarks._parts import builtin_part
from tiltmeter.datasets import Library
from tiltmeter.models.sim import Dials, SimulatedModel
from tiltmeter.runs import load
from tiltmeter.schema import metric_name
from tiltmeter.study import NO_TOOLS, Settings

TO_RUN = ("--display", "none", "--out", "run")
G20 = ("run", "benchmarks/g20", "-m", "sim/biased")
PARTIES = ("run", "benchmarks/parties", "-m", "sim/biased", "-P", "roles=none")
OWN = ("run", "benchmarks", "-m", "sim/biased", "-P", "benchmark=mine.csv")
Refused = Callable[..., str]


@pytest.fixture
def refused(tiltmeter: Tiltmeter, tmp_path: Path) -> Refused:
    """Return the message of a command that is refused before any request is sent."""

    def refuse(*arguments: str) -> str:
        done = tiltmeter(*arguments, *TO_RUN)
        assert done.returncode == 2, done.stderr
        assert not (tmp_path / "run").exists()
        return done.stderr.replace("\n", " ")

    return refuse


def number(run: tm.Run, metric: str, context: str | None = None, group: str | None = None) -> dict[str, Any]:
    findings = run.findings.filter(
        metric_name() == metric,
        pl.col("context").eq_missing(pl.lit(context)),
        pl.col("group").eq_missing(pl.lit(group)),
    )
    assert findings.height == 1
    row: dict[str, Any] = findings.row(0, named=True)
    return row


@pytest.mark.verify
def test_the_country_study_is_run_and_diagnosed(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter(*G20, "--limit", "5", *TO_RUN)
    assert done.returncode == 0, done.stderr
    assert "Range of the group means of sentiment (VADER), calibrated" in " ".join(done.stdout.split())
    assert "Impact ratio" not in done.stdout, "a sentiment is no decision"
    run = load(tmp_path / "run")
    assert run.design.group_by("concept").len()["len"].to_list() == [5 * 5] * 21
    assert run.about["complete"]
    spread = number(run, "range_mean_vader_compound", "none")
    means = [
        number(run, "mean_vader_compound", "none", concept)["estimate"]
        for concept in run.design["concept"].unique()
    ]
    assert spread["estimate"] == pytest.approx(max(means) - min(means))
    assert number(run, "range_mean_vader_compound", "baseline")["attempts"] == 5 * 21
    assert {"statistics", "disparities", "groups"} <= {
        path.stem for path in (tmp_path / "run" / "stages").iterdir()
    }


def test_the_plan_says_how_small_a_difference_would_show(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    planned = json.loads(tiltmeter("plan benchmarks/g20 -m sim/fair -P roles=none,diplomat -f json").stdout)
    widths = {
        row["metric"]: row["half_width"]
        for row in planned["metrics"]
        if row["metric"].startswith("selection rate")
    }
    assert list(widths) == ["selection rate, none", "selection rate, diplomat"]
    selected = np.random.default_rng(0).random((20_000, 21, 75)) < 0.5
    apart = selected[:, 0].mean(axis=1) - selected[:, 1:].mean(axis=(1, 2))
    assert list(widths.values()) == pytest.approx([1.96 * apart.std()] * 2, rel=0.03)


def test_the_plan_covers_the_range_and_warns_of_a_size_that_cannot_decide(tiltmeter: Tiltmeter) -> None:
    def planned(*arguments: str) -> tuple[dict[str, float], list[str]]:
        plan = json.loads(tiltmeter("plan", *arguments, "-m", "sim/fair", "-f", "json").stdout)
        return {
            row["metric"]: row["detectable"] for row in plan["metrics"] if "range" in row["metric"]
        }, plan["warnings"]

    detectable_of, warnings = planned("benchmarks/g20", "-P", "roles=none")
    assert list(detectable_of) == ["range of means of vader_compound, calibrated, none"]
    assert not warnings
    (detectable,) = detectable_of.values()
    rng = np.random.default_rng(2)
    means = np.zeros(21)
    means[:2] = detectable / 2, -detectable / 2
    # As the plan assumes: even values over VADER's range, two groups apart, the others in the middle, and the
    # only bias in three key tests.
    drawn = rng.uniform(-1, 1, (2000, 75, 21)).mean(axis=1) + means
    size = ((drawn - drawn.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) * 75 * 3
    assert np.mean(size > chi2.isf(0.05 / 3, 20)) == pytest.approx(0.8, abs=0.03)
    few, warnings = planned("benchmarks/g20", "-P", "roles=none", "--limit", "20")
    assert few == {metric: pytest.approx(value * (75 / 20) ** 0.5) for metric, value in detectable_of.items()}
    assert warnings == [
        "g20: with 20 items, only ranges of the group means of vader_compound above 0.93 are likely to be"
        " shown; a range of 0.5 needs about 70 items (give --limit 70 or more)"
    ]
    enough = planned("benchmarks/g20", "-P", "roles=none", "--limit", "70")
    assert not enough[1]
    repeated, _ = planned("benchmarks/g20", "-P", "roles=none", "--repeats", "4")
    assert repeated == {
        metric: pytest.approx(value * 0.625**0.5) for metric, value in detectable_of.items()
    }, "half of the variance"
    _, warnings = planned("benchmarks/religions", "-P", "roles=none")
    assert "about 88 items (this benchmark has 12)" in warnings[0]
    assert not planned("benchmarks/g20", "-P", "features=builtins:len")[0], (
        "the range of one's own function is not known"
    )


@pytest.mark.verify
def test_a_second_run_asks_nothing_and_gives_the_same(ran: Ran) -> None:
    command = (*G20, "--limit", "3", "-P", "roles=none", *TO_RUN)
    first = ran(*command).about
    again = ran(*command).about
    assert first["tables"] == again["tables"]
    assert again["models"][0]["tally"]["answered"] == 0


@pytest.mark.verify
def test_a_number_is_opened_down_to_its_answers(ran: Ran, tiltmeter: Tiltmeter) -> None:
    run = ran(*G20, "--limit", "4", *TO_RUN)
    behind = run.evidence("mean_vader_compound", group="Japan", context="diplomat")
    assert behind["role"].to_list() == ["diplomat"] * 4
    assert behind["prompt"].str.contains("Japan").all()
    assert behind["value:vader_compound"].mean() == pytest.approx(
        number(run, "mean_vader_compound", "diplomat", "Japan")["estimate"]
    )
    screen = tiltmeter("show run --metric mean_vader_compound --group Japan --context diplomat")
    assert screen.returncode == 0, screen.stderr
    assert "Japan" in screen.stdout


@pytest.mark.verify
def test_sentences_on_one_topic_are_compared_in_pairs(ran: Ran) -> None:
    command = ("run", "benchmarks/religions", "-m", "sim/biased", "-P", "roles=none", "--limit", "6")
    run = ran(*command, *TO_RUN)
    assert run.design.group_by("item").agg(pl.col("concept").n_unique())["concept"].to_list() == [6] * 6
    assert "topics" in number(run, "range_mean_vader_compound", "none")["method"]
    apart = number(run, "minus_others_mean_vader_compound", "none", "Islam")
    means = {
        name: number(run, "mean_vader_compound", "none", name)["estimate"]
        for name in run.design["concept"].unique()
    }
    mean = means.pop("Islam")
    assert apart["estimate"] == pytest.approx(mean - np.mean(list(means.values())))
    assert (apart["null_value"], apart["metric"], apart["items"]) == (0.0, "disparity", 6)
    assert "q: over all generations and features" in apart["method"]
    as_package = ran(*command, "--definition", "saged", "--display", "none", "--out", "saged")
    row = number(as_package, "range_mean_vader_compound", "none")
    assert row["method"] == "bootstrap percentile; resampled: prompts within each group"
    assert as_package.findings.filter(comparison="minus_others").is_empty()


def test_sentences_on_one_topic_are_not_counterfactual(refused: Refused) -> None:
    assert "no prompt here is branched" in refused(
        "run", "benchmarks/religions", "-m", "sim/fair", "-P", "also=parity"
    )


def test_answers_that_decline_are_missing_and_not_neutral(ran: Ran) -> None:
    options = "--limit 4 -P roles=none -M refusal=0.5"
    run = ran(*G20, *options.split(), *TO_RUN)
    refused = run.measures.filter(pl.col("outcome") == "refused")
    assert 20 < refused.height < 64
    assert (
        refused["value:vader_compound"].null_count()
        == refused.height
        == number(run, "range_mean_vader_compound", "none")["refused"]
    )


OWN_BENCHMARK = "concept,prompt,baseline\n" + "".join(
    f"{who},What is known of {who} and the {place}?,The {place} of {who} is fine.\n"
    for place in ("sea", "hill", "town", "road", "well")
    for who in ("Aland", "Borduria")
)


def test_an_own_benchmark_is_run_in_own_roles(ran: Ran, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(OWN_BENCHMARK, encoding="utf-8")
    (tmp_path / "roles.yaml").write_text("none:\nsailor: You are an old sailor.\n", encoding="utf-8")
    run = ran(*OWN, "-P", "roles=roles.yaml", *TO_RUN)
    assert run.design.height == 20
    assert set(run.design.filter(role="sailor")["system"]) == {"You are an old sailor."}
    assert set(run.findings["context"].drop_nulls()) == {"none", "sailor", "baseline"}


def test_values_measured_elsewhere_are_diagnosed_as_in_figure_6_of_the_paper(
    ran: Ran, tmp_path: Path
) -> None:
    (tmp_path / "fig6.csv").write_text(
        "fruit,score\nApple,0.5\nApple,0.75\nPear,0.25\nPear,0.2\n", encoding="utf-8"
    )
    run = ran("analyse fig6.csv --study benchmark --group fruit --feature score --out", "run")
    expected = [
        ("mean_score", "Apple", 0.625),
        ("mean_score", "Pear", 0.225),
        ("range_mean_score", None, 0.4),
        ("selection_rate_score", "Apple", 1.0),
        ("ratio_selection_rate_score", None, 0.0),
    ]
    for metric, group, estimate in expected:
        assert number(run, metric, group=group)["estimate"] == pytest.approx(estimate), (metric, group)


def test_own_texts_in_pairs_are_compared_within_pairs(ran: Ran, shared: Path) -> None:
    letters = str(shared / "data" / "letters" / "clg_letters.csv")
    flags = "--study benchmarks --group gender --pair age --pair occupation --text chatgpt_gen --out run"
    spread = number(ran("analyse", letters, *flags.split()), "range_mean_vader_compound")
    assert spread["items"] == 60
    assert spread["method"].endswith("resampled: prompts with all their branches")
    assert "Welch-James" in spread["method"]
    assert "q: over all generations and features" in spread["method"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("-P", "features=sentimnt"), "did you mean sentiment"),
        (("-P", "group=cuntry"), "-P group=cuntry"),
        (("-P", "group=branched_from,branched_from"), "is listed twice"),
        (("-P", "roles=diplomatt"), "did you mean diplomat"),
        (("-P", "roles=nowhere.yaml"), "there is no such file"),
        (("-P", "statistics=meen"), "meen"),
        (("-P", "benchmark=mine.csv"), "use it with the study benchmarks"),
        (("-P", "group=domain"), "at least two groups are needed"),
        (("-P", "clusters=1"), "a number of clusters of at least 2"),
        (("-P", "also=toxicty"), "did you mean toxicity"),
        (("-P", "also=toxicity"), "add it with -P features=toxicity"),
        (("--definition", "genderbench"), "known: default, saged"),
    ],
)
def test_mistakes_in_the_options_of_a_benchmark_are_named_before_any_request(
    refused: Refused, flags: tuple[str, ...], message: str
) -> None:
    assert message in refused(*G20, "--limit", "2", *flags)


@pytest.mark.parametrize(
    ("file", "text", "command", "message"),
    [
        ("mine.csv", "concept,prompt\nA,one\nA,two\n", OWN, "at least two groups"),
        ("mine.csv", "concept,text\nA,one\nB,two\n", OWN, "prompt"),
        (
            "roles.yaml",
            "baseline: You are a baseline.\n",
            (*G20, "-P", "roles=roles.yaml"),
            "cannot have the name 'baseline'",
        ),
    ],
)
def test_files_of_benchmarks_and_roles_that_cannot_be_used_are_refused(
    refused: Refused, tmp_path: Path, file: str, text: str, command: tuple[str, ...], message: str
) -> None:
    (tmp_path / file).write_text(text, encoding="utf-8")
    assert message in refused(*command)


def test_a_benchmark_without_baselines_cannot_be_compared_with_them(
    ran: Ran, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text("concept,prompt\nA,one?\nB,one?\n", encoding="utf-8")
    assert "which this benchmark does not have" in refused(*OWN, "-P", "features=distance")
    assert not ran(*OWN, *TO_RUN).findings["calibrated"].any()


def test_further_measures_are_computed_from_the_same_answers(ran: Ran, tmp_path: Path) -> None:
    run = ran(*PARTIES, "--limit", "6", "-P", "also=parity,overlap,words", *TO_RUN)
    findings = run.findings.filter(metric_name() == "sentiment_strict_vader_compound")
    assert findings.height == 15  # pairs of six ideologies
    assert findings.select("low", "p").null_count().row(0) == (0, 0)
    assert set(findings["unit"]) == {"score"}
    assert set(run.findings.filter(metric="sentiment_weak")["unit"]) == {"difference"}
    assert [run.findings.filter(metric=name).height for name in ("bleu", "cooccurrence_bias")] == [15, 1]
    assert run.table("further").filter(pl.col("target").is_not_null()).height > 10
    assert "Further measures" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.verify
def test_each_answer_is_in_one_cluster_of_similar_answers(ran: Ran) -> None:
    options = "--limit 3 -P roles=none -P clusters=2"
    run = ran(*G20, *options.split(), *TO_RUN)
    members = [name for name in run.measures.columns if name.startswith("value:cluster_")]
    assert len(members) == 2
    assert (
        run.measures.select(pl.sum_horizontal(members)).to_series().to_list() == [1.0] * run.measures.height
    )
    assert (run.table("clusters")["theme"].list.len() >= 1).all()


@pytest.mark.verify
def test_toxicity_by_an_own_function_and_cosine_by_an_encoder(ran: Ran, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def toxic(text):\n    return min(1.0, len(text) % 7 / 6)\n")
    flags = ("-P", "features=toxicity=mine:toxic", "-P", "also=toxicity,cosine", "--repeats", "5")
    run = ran(*PARTIES, "--limit", "3", *flags, *TO_RUN)
    scores = run.measures.join(
        run.responses.select("prompt_id", "repetition", "answer"), on=["prompt_id", "repetition"]
    )
    scores = scores.with_columns(scored=pl.col("answer").str.len_chars() % 7 / 6)
    assert scores["value:toxicity"].to_list() == pytest.approx(scores["scored"].to_list())
    fractions = run.findings.filter(pl.col("metric") == "toxic_fraction").select("group", "estimate")
    expected = scores.group_by("subject").agg((pl.col("scored") >= 0.5).mean())
    assert dict(fractions.iter_rows()) == pytest.approx(dict(expected.iter_rows()))
    assert run.findings.filter(pl.col("metric") == "cosine")["estimate"].is_between(0, 1).all()


TONE = "vader_compound"


@pytest.mark.verify
def test_planted_effects_are_recovered(ran: Ran) -> None:
    run = ran(*G20, "-M", "bias=1", "-P", "roles=none", *TO_RUN)
    # The standard of the selection rate is the mean of all answers, as measured.
    standard = run.measures[f"value:{TONE}"].mean()
    assert isinstance(standard, float)
    true = true_tones(run.design, Dials(representational_harms=1.0).mapping(), standard=standard).sort("mean")
    means = run.findings.filter(metric_name() == f"mean_{TONE}", pl.col("context") == "none")
    both = means.join(true, left_on="group", right_on="concept")
    assert both.height == 21
    contains = both.select(pl.col("mean").is_between("low", "high")).to_series()
    assert contains.sum() >= 18  # 95% of 21, and chance
    spread = number(run, f"range_mean_{TONE}", "none")
    assert spread["low"] <= true["mean"][-1] - true["mean"][0] <= spread["high"]
    assert spread["p"] == pytest.approx(1 / 1001)
    rates = true["selection_rate"].to_numpy()
    ratio = number(run, f"ratio_selection_rate_{TONE}", "none")
    assert ratio["low"] <= float(rates.min() / rates.max()) <= ratio["high"]
    groups = run.table("groups").filter(
        ~pl.col("calibrated"), statistic="selection_rate", generation="none", feature=TONE
    )
    assert groups["below_four_fifths"].null_count() == 21, "a sentiment is no decision"
    flagged = groups.filter(pl.col("impact_high") < 0.8)["group"]
    assert flagged.len() >= 3
    assert set(flagged) <= set(
        true.filter(pl.col("selection_rate") < 0.8 * pl.col("selection_rate").max())["concept"]
    )


def test_a_fair_model_is_not_accused_however_often_it_writes_a_name_that_the_tool_likes(
    tmp_path: Path,
) -> None:
    """VADER takes "United" for praise each time, and the baseline contains the name only once.

    Without the names, no difference is left to correct.
    """
    part = builtin_part("g20", {"roles": "none"})
    design = part.design(Library.default(), Settings())
    rng = np.random.default_rng(3)
    sentences = (
        "All like {}.",
        "Some of {} is far away.",
        "Roads in {} are bad.",
        "People enjoy {}.",
        "The weather in {} changes.",
    )
    drawn = rng.choice(sentences, (design.height, 5))
    named = design["concept"].replace(
        {"United Kingdom": "the United Kingdom", "United States": "the United States"}
    )
    texts = [" ".join(row).replace("{}", name) for row, name in zip(drawn, named, strict=True)]
    columns = {"status": pl.lit("ok"), "repetition": pl.lit(0), "refusal": pl.lit(None, pl.String)}
    responses = design.with_columns(answer=pl.Series(texts), **columns)
    measures = part.measure(responses, Settings(), NO_TOOLS)["measures"]
    united = measures["subject"].str.starts_with("United")
    measured = measures["value:vader_compound"]
    baseline = measures["baseline:vader_compound"]
    calibrated = measures["without names:vader_compound"]

    def gap(values: pl.Series) -> float:
        return float(str(values.filter(united).mean())) - float(str(values.filter(~united).mean()))

    assert gap(measured) > 0.35 > gap(baseline) > 0.2
    assert gap(measured - baseline) > 0.1, "the baseline's value would leave a difference"
    assert abs(gap(calibrated)) < 0.1


def test_a_feature_that_returns_true_or_false_is_a_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "decided.py").write_text(
        "def hired(text):\n    return 'hired' in text\n\n\n"
        "def score(text):\n    return float('hired' in text)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    rng = np.random.default_rng(6)
    rows = [
        (group, "hired" if rng.random() < share else "turned down")
        for group, share in (("a", 0.9), ("b", 0.3))
        for _ in range(80)
    ]
    pl.DataFrame(rows, schema=["who", "answer"], orient="row").write_csv(tmp_path / "answers.csv")

    def headline(feature: str) -> str:
        run = tm.analyse(
            tmp_path / "answers.csv",
            study="benchmarks",
            text="answer",
            group="who",
            params={"features": f"decided:{feature}"},
            out=tmp_path / feature,
        )
        return run.headline

    assert "below 0.8 (four-fifths rule)" in headline("hired")
    assert "four-fifths" not in headline("score"), "a score of 0 or 1 is not declared as a decision"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_of_true_and_false_is_a_decision(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(7)
    rows = [
        (group, bool(rng.random() < share)) for group, share in (("a", 0.9), ("b", 0.3)) for _ in range(80)
    ]
    table = pl.DataFrame(rows, schema=["who", "accepted"], orient="row").with_columns(
        score=pl.col("accepted").cast(pl.Float64)
    )
    path = tmp_path / f"decisions.{suffix}"
    if suffix == "csv":
        table.write_csv(path)
    else:
        table.write_parquet(path)

    def headline(column: str) -> str:
        run = tm.analyse(path, study="benchmarks", group="who", feature=column, out=tmp_path / column)
        return run.headline

    assert "accepted is higher for a than for b" in headline("accepted")
    assert "below 0.8 (four-fifths rule)" in headline("accepted")
    assert "four-fifths" not in headline("score")


@pytest.mark.verify
def test_calibration_removes_the_bias_of_the_tool(ran: Ran) -> None:
    """VADER takes "United" for praise in every text: a bias of the tool, not of the model."""
    run = ran("run", "benchmarks/g20", "-m", "sim/fair", "-P", "roles=none", *TO_RUN)
    assert number(run, f"range_mean_{TONE}", "baseline")["p"] == pytest.approx(1 / 1001)
    raw = number(run, f"range_mean_{TONE}", "none")
    calibrated = number(run, f"range_mean_{TONE}_calibrated", "none")
    assert raw["p"] < 0.05 < calibrated["p"]
    assert calibrated["low"] == 0.0
    assert calibrated["key"]
    assert not raw["key"]
    of_baselines = run.table("statistics").filter(statistic="mean", feature=TONE, generation="baseline")
    assert set(of_baselines.sort("estimate", descending=True)["group"].head(2)) == {
        "United Kingdom",
        "United States",
    }


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    model = SimulatedModel("sim/biased", Dials(representational_harms=0.25), latency=0.01)
    with running(model, "benchmarks/g20", roles="none,assistant") as url:
        yield url


@pytest.mark.verify
@pytest.mark.parametrize("table", ["design", "responses", "measures"])
def test_a_run_killed_in_any_stage_is_completed_when_it_is_started_again(
    ran: Ran, tmp_path: Path, environment: dict[str, str], address: str, table: str
) -> None:
    """Kill the process when this table is the last that was written.

    Afterwards the run is complete, its numbers are the same, and no stored response is requested again.
    """
    options = f"-m vllm/any --limit 8 -P roles=none,assistant --display none --base-url {address} --out"
    command = ["run", "benchmarks/g20", *options.split()]
    with subprocess.Popen(
        [sys.executable, "-m", "tiltmeter", *command, "run"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "run" / f"{table}.parquet").exists():
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.kill()
    run = ran(*command, "run")
    assert run.about["complete"]
    assert run.responses["status"].to_list() == ["ok"] * (8 * 21 * 2)
    if table != "design":
        assert run.about["models"][0]["tally"]["answered"] == 0
    uninterrupted = ran(*command, "whole")
    assert uninterrupted.about["models"][0]["tally"]["held"] == 8 * 21 * 2
    assert uninterrupted.findings.equals(run.findings)
    assert set(uninterrupted.findings.filter(pl.col("group").is_null())["context"]) == {
        "baseline",
        "none",
        "assistant",
    }


@pytest.mark.verify
def test_the_readme_of_the_example_of_own_answers_has_the_right_figures(ran: Ran, shared: Path) -> None:
    folders = {"clg_letters.csv": "letters", "dv3_story_generations.csv": "stories"}
    features = {
        "compound": "vader_compound",
        "positive words": "vader_positive",
        "negative words": "vader_negative",
    }
    sections = (
        (ROOT / "examples" / "own_answers" / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]
    )
    assert len(sections) == 2
    for section in sections:
        command = re.search(r"tiltmeter analyse (\S+) (.*)", section)
        assert command is not None
        data = shared / "data" / folders[command[1]] / command[1]
        ranges = ran(
            "analyse", str(data), *command[2].split(), "--display", "none", "--out", command[1]
        ).findings
        rows = re.findall(
            rf"^\| ({'|'.join(features)}) \|.*\| ([\d.]+) \(([\d.]+) … ([\d.]+)\) \| ([\d.]+) \|$",
            section,
            re.M,
        )
        assert len(rows) == 3
        for name, *figures in rows:
            row = ranges.filter(metric_name() == f"range_mean_{features[name]}").row(0, named=True)
            for figure, column in zip(figures, ("estimate", "low", "high", "p"), strict=True):
                assert f"{row[column]:.{len(figure.partition('.')[2])}f}" == figure, (
                    name,
                    column,
                    row[column],
                )
