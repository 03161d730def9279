"""A new kind of part in its own package: its entry point is found, and every command accepts it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT, Tiltmeter
from support.installed import install, points_of, python_path
from tiltmeter.runs import load

EXAMPLE = ROOT / "examples" / "new_part"
TRUTH = 7 * 0.25
"""The long reference has seven words more; `sim/biased` writes it about men more often by 0.25."""
BOTH = ("-m", "sim/biased", "-m", "sim/fair", "-M", "refusal=0.1", "--display", "none", "--out", "run")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The Python path with the package and its entry point."""
    return python_path(install(tmp_path / "site", "answer_length", points_of(EXAMPLE)), EXAMPLE)


def test_a_new_part_is_one_module_that_imports_no_renderer_and_no_run() -> None:
    assert sorted(file.name for file in EXAMPLE.iterdir() if file.name != "__pycache__") == [
        "answer_length.py",
        "pyproject.toml",
    ]
    source = (EXAMPLE / "answer_length.py").read_text(encoding="utf-8")
    assert not any(
        f"tiltmeter.{package}" in source
        for package in ("reports", "exports", "runs", "_cli", "comparing", "gating")
    )


@pytest.mark.verify
def test_every_command_accepts_a_new_part(tiltmeter: Tiltmeter, tmp_path: Path, path: str) -> None:
    def output(*words: str, status: int = 0) -> str:
        done = tiltmeter(*words, PYTHONPATH=path, exits=status)
        return done.stdout

    assert "answer_length" in output("list", "studies")
    assert "reference_length" in output("plan", "answer_length", "-m", "sim/biased")
    printed = output("run", "answer_length", *BOTH)
    assert "sim/biased writes longer references about men." in printed, "what its own `present` gives"
    run = load(tmp_path / "run")
    findings = run.findings.filter("key", pl.col("model") == "sim/biased").row(0, named=True)
    assert findings["low"] <= TRUTH <= findings["high"]
    assert findings["p"] == findings["q"] < 0.05, "q is computed for every method alike"
    assert findings["answered"] + findings["refused"] == findings["attempts"] == 400
    assert findings["refused"] > 0

    assert "sim/biased writes longer references about men." in output("show", "run")
    about_women = "show run --group female --model sim/biased"
    rows = json.loads(output(f"{about_women} -f json"))
    assert [row["name"] for row in rows] == ["mean_words"]
    assert "She works here as" in output(f"{about_women} --metric mean_words")
    output("report", "run", "-o", "page.html", "--figures", "figures")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "sim/biased writes longer references about men" in page
    assert "<svg" in page, "its intervals are drawn"
    assert list((tmp_path / "figures").glob("*.svg"))

    for format_ in ("csv", "json", "markdown", "latex", "huggingface"):
        output("export", "run", "--format", format_, "-o", f"export_{format_}")
    assert "difference_of_words" in (tmp_path / "export_csv").read_text(encoding="utf-8")
    compared = json.loads(output("compare run --model-a sim/fair --model-b sim/biased -f json"))
    (difference,) = compared["differences"]
    assert difference["metric"] == "difference_of_words"
    assert difference["low"] < difference["difference"] < difference["high"]
    output("gate", "run", "--max", "difference_of_words=7", "--min", "difference_of_words=-7")
    output("gate", "run", "--max", "difference_of_words[model=sim/biased]=0.1", status=1)


@pytest.mark.verify
def test_answers_to_a_new_part_from_elsewhere_are_analysed(
    tiltmeter: Tiltmeter, tmp_path: Path, path: str
) -> None:
    assert tiltmeter("plan answer_length --prompts prompts.csv --limit 20", PYTHONPATH=path).returncode == 0
    prompts = pl.read_csv(tmp_path / "prompts.csv")
    he = pl.col("prompt").str.starts_with("He")
    prompts.with_columns(
        answer=pl.when(he).then(pl.lit("one two three")).otherwise(pl.lit("one two"))
    ).write_csv(tmp_path / "answers.csv")
    command = (
        "analyse",
        "answers.csv",
        "--study",
        "answer_length",
        "--limit",
        "20",
        "--display",
        "none",
        "--out",
        "run",
    )
    tiltmeter(*command, PYTHONPATH=path, exits=0)
    assert load(tmp_path / "run").finding("difference_of_words").estimate == 1


def test_an_unknown_definition_of_a_new_part_is_refused(tiltmeter: Tiltmeter, path: str) -> None:
    refused = tiltmeter("run answer_length -m sim/fair --definition other", PYTHONPATH=path)
    assert (refused.returncode, refused.stderr) == (
        2,
        "tiltmeter: unknown definition 'other' of answer_length: known: default\n",
    )
