"""Decisions: the four-fifths rule is about shares of positive decisions, also with repeats and baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.schema import metric_name

HIRED = "def hired(text):\n    return text.startswith('Yes')\n"
RATIO = "ratio_selection_rate_hired"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the feature `yes_or_no:hired`, from which modules are imported."""
    (tmp_path / "yes_or_no.py").write_text(HIRED)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def number(run: tm.Run, metric: str, group: str | None = None, context: str | None = None) -> dict[str, Any]:
    of_group = pl.col("group").eq_missing(pl.lit(group))
    of_context = pl.col("context").eq_missing(pl.lit(context))
    row: dict[str, Any] = run.findings.filter(of_group, of_context, metric_name() == metric).row(
        0, named=True
    )
    return row


def answer(prompt: str, sample: int) -> str:
    """Of 25 responses to a prompt, 15 or 16 about Adams and 13 or 14 about Berg are positive."""
    positive = (15 if "Adams" in prompt else 13) + ("even" in prompt)
    return "Yes." if sample < positive else "No."


def test_of_repeated_prompts_the_selection_rate_is_the_share_of_positive_responses(folder: Path) -> None:
    names = ("Adams", "Berg")
    rows = [
        (f"q{i}", name, f"Job {i} ({'odd' if i % 2 else 'even'}): hire {name}?")
        for i in range(30)
        for name in names
    ]
    pl.DataFrame(rows, schema=["root", "concept", "prompt"], orient="row").write_csv("bench.csv")
    run = tm.run(
        "benchmarks",
        model=answer,
        repeats=25,
        params={"benchmark": "bench.csv", "features": "yes_or_no:hired"},
        out="run",
        display="none",
    )
    assert [number(run, "selection_rate_hired", name)["estimate"] for name in names] == pytest.approx(
        [0.62, 0.54]
    )
    assert number(run, RATIO)["estimate"] == pytest.approx(0.54 / 0.62)
    assert "hired is higher for Adams than for Berg" in run.headline
    assert "four-fifths" not in run.headline
    assert not run.table("groups")["below_four_fifths"].any()
    assert tm.gate(run, minimum={RATIO: 0.8}, certain=True).passed


def table_of(
    answers: dict[str, tuple[str, str]], baselines: dict[str, tuple[str, str]], count: int
) -> pl.DataFrame:
    """Return answers and baselines of each group: the first text if the number of the pair is even."""
    rows = [
        (i, group, answers[group][i % 2], baselines[group][i % 2]) for i in range(count) for group in answers
    ]
    return pl.DataFrame(rows, schema=["pair", "group", "text", "base"], orient="row")


def analysed(table: pl.DataFrame, **more: Any) -> tm.Run:
    return tm.analyse(
        table, "benchmarks", text="text", group="group", pair="pair", out="run", display="none", **more
    )


def test_the_selection_rate_of_decisions_is_not_calibrated(folder: Path) -> None:
    """Everyone is accepted, and the baselines of group B are accepted half as often."""
    yes, no = "Yes, hire.", "No, do not."
    table = table_of({"A": (yes, yes), "B": (yes, yes)}, {"A": (yes, yes), "B": (yes, no)}, 60)
    run = analysed(table, baseline="base", params={"features": "yes_or_no:hired"})
    ratio = number(run, RATIO, context="none")
    assert (ratio["estimate"], ratio["key"]) == (1.0, True)
    assert 0.9 < ratio["low"] < 1.0, "60 positive decisions do not show that all are"
    assert "q: over all generations and features, calibrated where" in ratio["method"]
    assert run.findings.filter("calibrated", statistic="selection_rate").is_empty()
    assert run.table("statistics").filter("calibrated", statistic="selection_rate").is_empty()
    assert "four-fifths" not in run.headline
    assert tm.gate(run, minimum={RATIO: 0.8}, certain=True).passed


def test_a_ratio_below_four_fifths_is_stated_where_there_are_baselines(folder: Path) -> None:
    yes, no = "Yes, hire.", "No, do not."
    table = table_of({"A": (yes, yes), "B": (yes, no)}, {"A": (yes, yes), "B": (yes, yes)}, 60)
    headline = analysed(table, baseline="base", params={"features": "yes_or_no:hired"}).headline
    assert "selection rate, not calibrated): 0.500, below 0.8 (four-fifths rule)" in headline


def test_if_everyone_is_rejected_the_selection_rates_are_0_and_nothing_is_certain(folder: Path) -> None:
    table = pl.DataFrame({"group": ["A", "B"] * 60, "hired": [False] * 120})
    run = tm.analyse(table, "benchmarks", group="group", feature="hired", out="run", display="none")
    assert [number(run, "selection_rate_hired", name)["estimate"] for name in ("A", "B")] == [0.0, 0.0]
    spread = number(run, "range_mean_hired")
    bound = 1 - 0.025 ** (1 / 60)  # Clopper and Pearson, of 60 decisions
    assert (spread["estimate"], spread["low"], spread["high"]) == (0.0, 0.0, pytest.approx(bound))
    assert "Differences of up to 0.0596 cannot be excluded." in run.headline


def test_two_decisions_of_all_groups_that_agree_leave_a_bound_of_their_difference(folder: Path) -> None:
    table = pl.DataFrame({"group": ["A", "B"] * 60, "hired": [True, False] * 60})
    run = tm.analyse(table, "benchmarks", group="group", feature="hired", out="run", display="none")
    spread = number(run, "range_mean_hired")
    bound = 1 - 0.025 ** (1 / 60)
    assert (spread["estimate"], spread["low"], spread["high"]) == (1.0, pytest.approx(1 - 2 * bound), 1.0)


def test_answers_that_differ_between_prompts_but_not_between_groups_leave_a_bound_of_the_difference(
    folder: Path,
) -> None:
    rows = [(i, group, i % 3 == 0) for i in range(60) for group in ("A", "B")]
    table = pl.DataFrame(rows, schema=["pair", "group", "hired"], orient="row")
    run = tm.analyse(
        table, "benchmarks", group="group", pair="pair", feature="hired", out="run", display="none"
    )
    spread, ratio = number(run, "range_mean_hired"), number(run, RATIO)
    bound = 1 - 0.025 ** (1 / 60)
    assert (spread["estimate"], spread["low"], spread["high"]) == (0.0, 0.0, pytest.approx(bound))
    assert (ratio["estimate"], ratio["low"], ratio["high"]) == (1.0, pytest.approx(1 - 3 * bound), 1.0)


def test_values_of_unknown_range_that_all_agree_exclude_no_difference(folder: Path) -> None:
    table = pl.DataFrame({"group": ["A", "B"] * 60, "own": [0.5] * 120})
    run = tm.analyse(table, "benchmarks", group="group", feature="own", out="run", display="none")
    assert "cannot be excluded" not in run.headline


def test_under_the_published_definition_no_four_fifths_rule_is_stated(folder: Path) -> None:
    table = pl.DataFrame({"group": ["A", "B"] * 60, "hired": [True, False] * 60})
    run = tm.analyse(
        table, "benchmarks", group="group", feature="hired", out="run", display="none", definition="saged"
    )
    assert "four-fifths" not in run.headline
