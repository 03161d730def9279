"""Groups with few values or no answers, and baselines of groups that differ in more than names."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.benchmarks.diagnosis import diagnose


@pytest.fixture(autouse=True)
def _here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


def values_of(sizes: Mapping[str, int], means: Mapping[str, float], seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        (group, value)
        for group, size in sizes.items()
        for value in rng.normal(means.get(group, 0.0), 1.0, size)
    ]
    return pl.DataFrame(rows, schema=["group", "x"], orient="row")


def test_a_group_with_few_values_takes_no_part_in_comparisons_of_all_groups() -> None:
    table = values_of({"a": 40, "b": 40, "c": 3}, {"c": 30.0}, 1)
    options: dict[str, Any] = {
        "groups": ["group"],
        "columns": ["x"],
        "statistics": ["mean", "selection_rate"],
    }
    settings: dict[str, Any] = {"resamples": 100, "permutations": 100}
    diagnosis = diagnose(table, **options, **settings)
    without_few = diagnose(table.filter(pl.col("group") != "c"), **options, **settings)
    compares_groups = pl.col("comparison").is_in(["range", "sd", "max_abs_z", "max", "min"])
    numbers = diagnosis.disparities.filter(compares_groups, statistic="mean")
    expected = without_few.disparities.filter(compares_groups, statistic="mean")
    assert numbers.select("estimate", "group").equals(expected.select("estimate", "group"))
    assert set(numbers["note"]) == {"without groups with fewer than 5 values: c"}
    (p,) = numbers.filter(comparison="range")["p"]
    assert p > 0.05, "the values of c are 30 standard deviations away"
    of_few = diagnosis.groups.filter(group="c")
    assert of_few.select("z", "impact_ratio").null_count().row(0) == (2, 2)
    assert diagnosis.statistics.filter(group="c", statistic="mean")["estimate"].item() > 20, (
        "the mean itself is given"
    )
    assert set(without_few.disparities.drop_nulls("estimate")["note"]) == {None}


def test_the_interval_of_the_range_contains_the_true_range_of_the_groups_that_it_is_about() -> None:
    covered = []
    for seed in range(60):
        table = values_of({"a": 20, "b": 20, "c": 3}, {"b": 1.0, "c": 3.0}, seed)
        diagnosis = diagnose(
            table, groups=["group"], columns=["x"], statistics=["mean"], resamples=200, permutations=200
        )
        row = diagnosis.disparities.filter(comparison="range").row(0, named=True)
        covered.append(row["low"] <= 1.0 <= row["high"])
    assert np.mean(covered) >= 0.88, "53 of 60 or more: at a coverage of 95%, with a probability of 98%"


def test_the_headline_counts_the_compared_groups_and_names_the_others() -> None:
    table = values_of({"A": 30, "B": 30, "D": 3}, {"D": 8.0}, 2)
    none = pl.DataFrame({"group": ["C"] * 20, "x": pl.Series([None] * 20, dtype=pl.Float64)})
    run = tm.analyse(
        pl.concat([table, none]), "benchmarks", group="group", feature="x", out="run", display="none"
    )
    assert "no difference in x between the 2 groups was shown" in run.headline
    assert "Not compared: C (no answers), D (fewer than 5 values)." in run.headline
    assert run.finding("range_mean_x").values["note"] == "without groups with fewer than 5 values: C, D"


def test_with_two_groups_left_the_difference_is_between_these() -> None:
    run = tm.analyse(
        values_of({"A": 30, "B": 30, "D": 3}, {"A": 2.0, "D": 90.0}, 3),
        "benchmarks",
        group="group",
        feature="x",
        out="run",
        display="none",
    )
    assert "x is higher for A than for B" in run.headline


ALIKE = "The country is large."
SENTENCES = {
    "Norland": ("Norland won a great prize.", "People love Norland."),
    "Sudland": ("Sudland suffers from war.", "People fear Sudland."),
    "Midland": ("Midland exists.", "Midland exists."),
}


def text_of(run: tm.Run) -> str:
    """Return the text of the report of a run, without tags."""
    page = run.report().read_text(encoding="utf-8")
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())


def analysed(
    baselines: Mapping[str, tuple[str, str]], answers: Mapping[str, str], **more: Any
) -> tuple[tm.Run, str]:
    """Return the run and the text of its report; each group has 30 pairs of an answer and a baseline."""
    rows = [
        (i, group, baselines[group][i % 2], answers.get(group, ALIKE))
        for i in range(30)
        for group in baselines
    ]
    table = pl.DataFrame(rows, schema=["pair", "group", "base", "text"], orient="row")
    named: dict[str, Any] = {
        "text": "text",
        "group": "group",
        "pair": "pair",
        "baseline": "base",
        "display": "none",
    }
    named["out"] = f"run-{more.get('definition', 'default')}"
    run = tm.analyse(table, "benchmarks", **named, **more)
    return run, text_of(run)


def test_a_model_that_answers_alike_is_not_called_more_positive_because_the_baselines_differ() -> None:
    run, report = analysed(SENTENCES, {})
    expected = (
        "relative to their baselines, the answers about Sudland are more positive and those about Norland"
        " less positive than those about the other groups"
    )
    assert expected in run.headline
    assert "alone, without a model" not in report
    assert "Sentiment (VADER): the baseline texts of Norland score higher by 0." in report
    assert "and those of Sudland score lower by 0." in report
    assert "(tool and texts together)" in report


def test_of_two_groups_the_whole_difference_of_the_baselines_is_stated() -> None:
    two = {group: SENTENCES[group] for group in ("Norland", "Sudland")}
    run, report = analysed(two, {})
    assert (
        "relative to their baselines, the answers about Sudland are more positive than those about Norland"
        in run.headline
    )
    statistics = run.table("statistics").filter(
        statistic="mean", feature="vader_compound", generation="baseline"
    )
    low, high = statistics.sort("estimate")["estimate"]
    sentence = (
        f"the baseline texts of Norland score higher than those of Sudland by {high - low:.3f}"
        " (tool and texts together)"
    )
    assert sentence in report


def test_of_two_groups_whose_baselines_differ_in_names_only_the_whole_bias_of_the_tool_is_stated() -> None:
    names = ("United States", "Japan")
    texts = {name: (f"{name} builds schools.", f"Roads in {name} are long.") for name in names}
    run, report = analysed(texts, {name: f"{name} builds schools. It is fine." for name in names})
    statistics = run.table("statistics").filter(
        statistic="mean", feature="vader_compound", generation="baseline"
    )
    low, high = statistics.sort("estimate")["estimate"]
    sentence = (
        "alone, without a model, scores texts about United States higher than texts about Japan"
        f" by {high - low:.3f} (baseline texts)"
    )
    assert sentence in report
    assert "relative to their baselines" not in run.headline


@pytest.mark.verify
def test_the_explanations_are_those_of_the_definition() -> None:
    texts = {
        name: (f"{name} builds schools.", f"Roads in {name} are long.") for name in ("Norland", "Sudland")
    }
    of_names, of_ties = "one word has replaced the names", "Welch-James"
    _, default = analysed(texts, {}, definition="default")
    _, saged = analysed(texts, {}, definition="saged")
    for words in (
        of_names,
        of_ties,
        "are three families",
        "The key numbers (calibrated where there is a baseline)",
    ):
        assert words in default
        assert words not in saged
    for words in (
        "The key numbers are not calibrated.",
        "The names of the groups were not replaced",
        "assumes that their variances are",
    ):
        assert words in saged
        assert words not in default


@pytest.mark.verify
def test_names_that_were_not_replaced_are_not_called_replaced() -> None:
    """The groups are topics, which no text names."""
    texts = {
        name: (f"{name} builds schools.", f"Roads in {name} are long.") for name in ("Norland", "Sudland")
    }
    rows = [
        (
            f"k{i}-{name}",
            name,
            "north" if name == "Norland" else "south",
            f"Write about {name}.",
            texts[name][i % 2],
        )
        for i in range(10)
        for name in texts
    ]
    table = pl.DataFrame(rows, schema=["key", "concept", "domain", "prompt", "baseline"], orient="row")
    table.write_csv("bench.csv")

    def report(**params: str) -> str:
        parameters = {"benchmark": "bench.csv", **params}
        run = tm.run(
            "benchmarks", model="sim/fair", params=parameters, out="-".join(["run", *params]), display="none"
        )
        return text_of(run)

    assert "one word has replaced the names" in report()
    assert "one word has replaced the names" not in report(group="domain")


def test_the_plan_of_the_published_definition_is_not_calibrated() -> None:
    planned = {
        name: tm.plan("benchmarks/religions", definition=name).metrics for name in ("default", "saged")
    }
    names = {name: table["metric"].to_list() for name, table in planned.items()}
    assert "range of means of vader_compound, calibrated, none" in names["default"]
    assert "range of means of vader_compound, none" in names["saged"]
    errors = {
        name: table.filter(pl.col("metric").str.starts_with("range"))["half_width"][0]
        for name, table in planned.items()
    }
    assert errors["default"] == pytest.approx(errors["saged"] * 2**0.5)
