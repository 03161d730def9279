"""Responses that are missing more often for one group: findings, headline, caveat, gate and bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.blocks import Intervals
from tiltmeter.runs._shared_tables import with_q
from tiltmeter.schema import FINDINGS, conform

REFUSAL = "I'm sorry, but I can't help with that request."
pytestmark = pytest.mark.filterwarnings(
    "ignore::tiltmeter.UnequalMissing", "ignore::tiltmeter.Ungraded", "ignore::tiltmeter.IncompleteRun"
)


def prompts(
    path: Path, groups: tuple[str, ...] = ("W", "M"), items: int = 40, *, matched: bool = True
) -> str:
    """Write a table of prompts and return its path."""
    rows = [
        {"prompt": f"{group} number {item} asks for a loan. Yes or no.", "group": group, "expected": "yes"}
        | ({"item": item} if matched else {})
        for item in range(items)
        for group in groups
    ]
    pl.DataFrame(rows).write_csv(path)
    return str(path)


def refusing(group: str, *, every: int = 2) -> Callable[[str], str]:
    """Return a model that refuses one of `every` prompts about a group and says yes to all others."""

    def answer(prompt: str) -> str:
        who, _, number = prompt.split()[:3]
        return REFUSAL if who == group and int(number) % every == 0 else "yes"

    return answer


def study(tmp_path: Path, model: Callable[[str], str], **table: object) -> tm.Run:
    path = prompts(tmp_path / "loans.csv", **table)  # type: ignore[arg-type]
    return tm.run(path, model=model, display="none", out=tmp_path / "run", journal=tmp_path / "j.sqlite")


@pytest.mark.parametrize("matched", [True, False])
def test_refusals_of_one_group_are_a_finding(tmp_path: Path, matched: bool) -> None:
    run = study(tmp_path, refusing("W"), matched=matched)
    row = run.findings.filter(metric="refusal_rate_difference").row(0, named=True)
    assert (row["attribute"], row["group"], row["group_2"]) == ("group", "W", "M")
    assert row["estimate"] == 0.5
    assert 0.2 < row["low"] < row["high"] < 0.8
    assert row["q"] < 0.001
    rates = run.findings.filter(metric="refusal_rate").select("group", "estimate")
    assert dict(rates.iter_rows()) == {"W": 0.5, "M": 0.0}
    assert run.evidence("refusal_rate", group="W").height == 20


def test_the_headline_begins_with_the_refusals(tmp_path: Path) -> None:
    run = study(tmp_path, refusing("W"))
    assert "refuses 50% of requests about W, 0% of those about M" in run.headline
    assert "no bias shown" not in run.headline


def test_the_first_screen_says_between_which_values_the_metric_can_be(
    tmp_path: Path, tiltmeter: Tiltmeter
) -> None:
    study(tmp_path, refusing("W"))
    shown = tiltmeter("show", str(tmp_path / "run")).stdout
    assert "With all missing responses counted one way and the other" in shown
    assert "−50 to 0 points" in shown


def test_the_caveat_names_both_shares_and_the_bounds(tmp_path: Path) -> None:
    caveats = tm.caveats(study(tmp_path, refusing("W"))).filter(code="unequal-missing")
    first, second = caveats["sentence"].to_list()
    assert "refuses 50% of requests about W, 0% of those about M" in first
    assert "difference (loans) is -0.5 to 0.0" in second


def test_a_gate_fails_on_a_large_difference_only(tmp_path: Path) -> None:
    run = study(tmp_path, refusing("W"))
    assert [check.rule for check in tm.gate(run, allow_undecided=True).failures] == ["missing-gap 0.1"]
    assert tm.gate(run, missing_gap=0.6, allow_undecided=True).passed
    assert tm.gate(run, missing_gap=None, allow_undecided=True).passed


def test_a_gap_that_is_no_share_is_refused(tmp_path: Path, tiltmeter: Tiltmeter) -> None:
    study(tmp_path, refusing("W"))
    tiltmeter("gate", str(tmp_path / "run"), "--missing-gap", "10", exits=2, says="not a share from 0 to 1")
    tiltmeter("gate", str(tmp_path / "run"), "--missing-gap", "x", exits=2, says="not a share such as 0.1")


def test_equal_refusals_are_not_stated(tmp_path: Path) -> None:
    run = study(tmp_path, lambda prompt: REFUSAL if int(prompt.split()[2]) % 2 else "yes")
    row = run.findings.filter(metric="refusal_rate_difference").row(0, named=True)
    assert (row["estimate"], row["p"]) == (0.0, 1.0)
    assert "refuses" not in run.headline
    assert "unequal-missing" not in tm.caveats(run)["code"].to_list()


def test_without_missing_responses_there_is_no_such_finding(tmp_path: Path) -> None:
    run = study(tmp_path, lambda _: "yes")
    assert run.findings.filter(pl.col("metric").str.contains("refusal|unreadable|empty|failure")).is_empty()


def test_of_several_groups_the_largest_difference_is_tested_once(tmp_path: Path) -> None:
    run = study(tmp_path, refusing("c"), groups=("a", "b", "c", "d", "e"))
    tests = run.findings.filter(pl.col("metric").str.contains("^refusal"), pl.col("p").is_not_null())
    row = tests.row(0, named=True)
    assert tests.height == 1
    assert (row["metric"], row["group"]) == ("refusal_rate_largest_difference", "c")
    against_others = run.findings.filter(metric="refusal_rate_difference", group="c").row(0, named=True)
    assert against_others["group_2"] is None
    assert against_others["estimate"] == 0.5


def test_few_items_are_not_tested(tmp_path: Path) -> None:
    run = study(tmp_path, refusing("W", every=1), items=6)
    row = run.findings.filter(metric="refusal_rate_difference").row(0, named=True)
    assert row["p"] is None
    assert "a comparison needs at least 10 in each group" in row["note"]
    assert "refuses" not in run.headline


def test_rare_refusals_do_not_weaken_other_tests(tmp_path: Path) -> None:
    run = study(tmp_path, lambda prompt: REFUSAL if prompt.startswith("W number 3 ") else "yes")
    row = run.findings.filter(metric="refusal_rate_difference").row(0, named=True)
    assert row["p"] is None
    assert row["note"] == "refused too rarely for a test"


def test_unreadable_and_empty_answers_are_compared_too(tmp_path: Path) -> None:
    def answer(prompt: str) -> str:
        who, _, number = prompt.split()[:3]
        if who == "M" and int(number) % 2:
            return "Blue, I suppose, or perhaps green."
        return " " if who == "W" and int(number) % 2 else "yes"

    run = study(tmp_path, answer)
    tests = run.findings.filter(pl.col("metric").str.ends_with("_rate_difference"))
    estimates = dict(tests.select("metric", "estimate").iter_rows())
    assert estimates == {"unreadable_rate_difference": -0.5, "empty_rate_difference": 0.5}


def test_a_published_definition_keeps_its_findings(tmp_path: Path) -> None:
    path = prompts(tmp_path / "loans.csv")
    run = tm.run(
        path,
        model=refusing("W"),
        definition="genderbench",
        display="none",
        out=tmp_path / "run",
        journal=tmp_path / "j.sqlite",
    )
    assert run.findings.filter(pl.col("metric").str.contains("refusal")).is_empty()


def test_refusals_by_group_are_found_in_a_benchmark(tmp_path: Path) -> None:
    def answer(prompt: str) -> str:
        return REFUSAL if "Japan" in prompt else "It is a country with mountains and rivers."

    run = tm.run(
        "benchmarks/g20",
        model=answer,
        limit=12,
        display="none",
        out=tmp_path / "run",
        journal=tmp_path / "j.sqlite",
    )
    row = run.findings.filter(metric="refusal_rate_largest_difference").row(0, named=True)
    assert (row["attribute"], row["group"]) == ("countries", "Japan")
    assert "refuses 100% of requests about Japan" in run.headline


def test_refusals_of_stories_by_the_character_named_first_are_found(tmp_path: Path) -> None:
    story = "Anna and Tom meet. Tom is loud and Anna is kind. They laugh, and then they go home together."
    run_stories = partial(
        tm.run,
        "associations/gender",
        limit=15,
        repeats=2,
        params={"encoder": "none"},
        display="none",
        journal=tmp_path / "j.sqlite",
    )
    fair = run_stories(model="sim/fair", out=tmp_path / "fair")
    first = dict(fair.design.select("prompt", "identity_1").iter_rows())
    assert set(first.values()) == {"female", "male"}

    def answer(prompt: str) -> str:
        return "I'm sorry, but I can't write this story." if first[prompt] == "female" else story

    run = run_stories(model=answer, out=tmp_path / "run")
    row = run.findings.filter(metric="refusal_rate_difference", attribute="gender, named first").row(
        0, named=True
    )
    assert (row["group"], row["estimate"]) == ("female", 1.0)
    assert "refuses 100% of requests about stories that name a female character first" in run.headline


def test_the_page_draws_the_rates_of_the_groups_that_differ(tmp_path: Path, tiltmeter: Tiltmeter) -> None:
    run = study(tmp_path, refusing("W"))
    [chart] = [block for block in run.blocks() if getattr(block, "title", "") == "Refused, by group"]
    assert isinstance(chart, Intervals)
    assert [(row.label, row.estimate) for row in chart.rows] == [("W", 0.5), ("M", 0.0)]
    assert "Refused, by group" in tiltmeter("show", str(tmp_path / "run")).stdout


def test_equal_rates_are_not_drawn(tmp_path: Path) -> None:
    run = study(tmp_path, lambda prompt: REFUSAL if int(prompt.split()[2]) % 2 else "yes")
    assert "Refused, by group" not in [getattr(block, "title", "") for block in run.blocks()]


def test_beside_a_family_of_the_method_the_q_of_missing_responses_is_doubled() -> None:
    rows = [
        {"metric": "association", "p": 0.001, "q": 0.02, "key": True},
        {"metric": "refusal_rate_difference", "p": 0.02, "q": None, "key": False},
    ]
    findings = conform(pl.DataFrame(rows), FINDINGS)
    assert with_q(findings)["q"].to_list() == [0.02, 0.04]
    assert with_q(findings.filter(metric="refusal_rate_difference"))["q"].to_list() == [0.02]
