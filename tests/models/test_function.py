"""Functions of a user as models."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Tiltmeter
from support.answering import answers
from tiltmeter.errors import InputError
from tiltmeter.models import Completion, Message, ModelError, Sampling, create_model

MODULE = """
def answer(messages, sample=0, *, tone="good"):
    return f"{messages[-1]['content']} {tone} {sample}"
async def slow(messages):
    return "<think>hm</think>wonderful"
def text(prompt: str):
    return prompt
def breaks(messages):
    raise ValueError("no idea")
def loses(messages):
    raise ConnectionResetError("gone")
def numbers(messages):
    return 7
def nothing():
    return ""
def needs(messages, place):
    return place
"""
TALK = (Message("system", "Be brief."), Message("user", "One?"))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "around_it.py"
    path.write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "around_it", raising=False)
    importlib.invalidate_caches()
    return path


def ask(function: str, sample: int = 0, **options: str) -> Completion:
    return answers(
        create_model(f"python/around_it:{function}", options=options), [TALK], Sampling(), [sample]
    )[0]


def test_a_function_is_a_model_that_answers(module: Path) -> None:
    assert ask("answer", 1, tone="bad").text == "One? bad 1"
    slow = ask("slow")
    assert (slow.text, slow.thinking) == ("wonderful", "hm")
    assert ask("text").text == "Be brief.\n\nOne?"


def test_a_function_may_be_named_by_its_file(module: Path) -> None:
    model = create_model("python/around_it.py:answer", options={"tone": "bad"})
    assert answers(model, [TALK], Sampling(), [1])[0].text == "One? bad 1"
    with pytest.raises(InputError, match=r"around_it.py does not define anwser: did you mean answer"):
        create_model("python/around_it.py:anwser")
    with pytest.raises(InputError, match=r"there is no file elsewhere.py"):
        create_model("python/elsewhere.py:answer")


def test_an_edited_function_is_another_model(module: Path) -> None:
    def fingerprint() -> str:
        return create_model("python/around_it:answer").fingerprint

    first = fingerprint()
    assert fingerprint() == first
    module.write_text(MODULE.replace("{tone}", "very {tone}"), encoding="utf-8")
    assert fingerprint() != first


@pytest.mark.parametrize(
    ("function", "kind", "scope", "message"),
    [
        ("breaks", "function", "permanent", "ValueError: no idea"),
        ("loses", "connection", "transient", "ConnectionResetError: gone"),
        ("numbers", "function", "fatal", "returned int, not a string"),
    ],
)
def test_what_a_function_raises_is_a_failure_of_that_prompt(
    module: Path, function: str, kind: str, scope: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        ask(function)
    assert (caught.value.kind, caught.value.scope) == (kind, scope)


@pytest.mark.parametrize(
    ("function", "more", "message"),
    [
        ("anwser", {}, "has no function anwser"),
        ("nothing", {}, "does not accept messages"),
        (
            "answer",
            {"options": {"tune": "x"}},
            "around_it:answer has no option tune: (known: tone|did you mean tone)",
        ),
        ("slow", {"options": {"tune": "x"}}, "slow has no option tune"),
        ("needs", {}, "python/around_it:needs needs -M place=VALUE"),
    ],
)
def test_mistakes_in_the_name_of_a_function_are_explained(
    module: Path, function: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        create_model(f"python/around_it:{function}", **more)


def test_a_function_is_asked_by_a_command(module: Path, tiltmeter: Tiltmeter) -> None:
    (module.parent / "mine.csv").write_text(
        "concept,prompt\nA,One?\nB,One?\nA,Two?\nB,Two?\n", encoding="utf-8"
    )
    command = ("run", "benchmarks", "-P", "benchmark=mine.csv", "--display", "none", "--out", "run")
    done = tiltmeter(*command, "-m", "python/around_it:answer", "-M", "tone=bad", "--repeats", "2")
    assert done.returncode == 0, done.stderr
