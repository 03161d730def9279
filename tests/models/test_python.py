"""Functions of the user's as models."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from conftest import Tiltmeter
from tiltmeter.runs import load

BENCHMARK = "concept,prompt\nA,One?\nB,One?\nA,Two?\nB,Two?\n"
MODULE = """
import time

def answer(messages, sample=0, *, tone="good"):
    return f"{messages[-1]['content']} {tone} {sample}"

async def slow(messages):
    return "wonderful"

def breaks(messages):
    if "Two" in messages[-1]["content"]:
        raise ValueError("no idea")
    return "fine"

def numbers(messages):
    return 7

def nothing():
    return ""
"""


def run(tiltmeter: Tiltmeter, folder: Path, function: str, *flags: str) -> tuple[int, str]:
    (folder / "mine.csv").write_text(BENCHMARK, encoding="utf-8")
    if not (folder / "around_it.py").exists():
        (folder / "around_it.py").write_text(MODULE, encoding="utf-8")
    done = tiltmeter("run", "benchmarks", "-m", f"python/around_it:{function}", "-P", "benchmark=mine.csv", "--display", "none", *flags)
    return done.returncode, done.stderr


def test_a_function_answers(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    status, said = run(tiltmeter, tmp_path, "answer", "-M", "tone=bad", "--repeats", "2", "--out", "run")
    assert status == 0, said
    answers = load(tmp_path / "run").responses["answer"].to_list()
    assert sorted(answers)[:2] == ["One? bad 0", "One? bad 1"]
    status, said = run(tiltmeter, tmp_path, "slow", "--out", "waits")
    assert status == 0, said
    assert set(load(tmp_path / "waits").responses["answer"]) == {"wonderful"}


def test_an_edited_function_is_asked_again(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    assert run(tiltmeter, tmp_path, "answer", "--out", "first")[0] == 0
    assert run(tiltmeter, tmp_path, "answer", "--out", "second")[0] == 0
    assert load(tmp_path / "second").about["models"][0]["tally"]["answered"] == 0
    (tmp_path / "around_it.py").write_text(MODULE.replace("{tone}", "very {tone}"), encoding="utf-8")
    assert run(tiltmeter, tmp_path, "answer", "--out", "third")[0] == 0
    assert load(tmp_path / "third").responses["answer"].str.contains("very good").all()


def test_what_a_function_raises_is_a_failure_of_that_prompt(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    status, said = run(tiltmeter, tmp_path, "breaks", "--out", "run")
    assert status == 3, said
    responses = load(tmp_path / "run").responses
    failed = responses.filter(pl.col("status") == "failed")
    assert failed.height == 2
    assert failed["error"].str.contains("ValueError: no idea").all()


def test_mistakes(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    for function, flags, status, told in (
        ("anwser", (), 2, "has no function anwser"),
        ("nothing", (), 2, "takes no messages"),
        ("answer", ("-M", "tune=x"), 2, "did you mean tone"),
        ("answer", ("--base-url", "http://127.0.0.1:1/v1"), 2, "--base-url"),
        ("numbers", (), 4, "gave int, not a text"),
    ):
        code, said = run(tiltmeter, tmp_path, function, "--out", "run", *flags)
        assert code == status, said
        assert told in said.replace("\n", " "), said
        assert not (tmp_path / "run").exists()
