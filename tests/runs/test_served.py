"""Models that endpoints served: stored with responses and in run.json, and a caveat if unexpected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from support.misbehaving import Behaviour, MisbehavingServer, prompt_of, status
from tiltmeter.errors import InputError
from tiltmeter.models import Message, Sampling, create_model
from tiltmeter.models._base import SERVED
from tiltmeter.models._served import is_another_model
from tiltmeter.runs._asking import Asking, RunJudge
from tiltmeter.runs._served import served_sentences

pytestmark = [pytest.mark.usefixtures("workplace"), pytest.mark.filterwarnings("ignore::tiltmeter.Caveat")]

PROMPTS = [
    {
        "prompt": f"{name} asks for a day off in week {week}. Grant it? Yes or no.",
        "group": group,
        "expected": "yes",
        "item": week,
    }
    for week in range(1, 4)
    for name, group in (("Anna", "women"), ("Tom", "men"))
]


def body(message: dict[str, Any]) -> Behaviour:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes"}}
    return status(
        200,
        None,
        json.dumps({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 1}} | message),
    )


def message(message: dict[str, Any]) -> Behaviour:
    return status(
        200,
        None,
        json.dumps({"content": [{"type": "text", "text": "Yes"}], "stop_reason": "end_turn"} | message),
    )


def run_with(
    script: Callable[[dict[str, Any]], Behaviour], name: str = "compatible/org/m:free", **options: Any
) -> tm.Run:
    pl.DataFrame(PROMPTS).write_csv("prompts.csv")
    options |= {"model": name, "display": "none", "journal": "j.sqlite"}
    with MisbehavingServer(lambda request, nth: script(request)) as server:
        return tm.run("prompts.csv", base_url=server.url, **options)


def of_tom(request: dict[str, Any]) -> bool:
    return prompt_of(request).startswith("Tom")


# The model, its responses, what is stored with the first response, and sentences of the caveat, if any.
CASES: dict[str, tuple[str, Callable[[dict[str, Any]], Behaviour], tuple[Any, ...], list[str]]] = {
    "another model": (
        "compatible/org/m:free",
        lambda request: body({"model": "some-other-model-2025"}),
        ("some-other-model-2025", None, None),
        ["says that it served some-other-model-2025 (6 responses) instead of org/m:free"],
    ),
    "another model for one group": (
        "compatible/org/m:free",
        lambda request: body({"model": "org/small" if of_tom(request) else "org/m"}),
        ("org/m", None, None),
        [
            "served org/small (3 responses) instead",
            "come from 2 models: org/m (3 responses), org/small (3 responses)",
        ],
    ),
    "two providers of a router": (
        "compatible/org/m",
        lambda request: body({"model": "org/m", "provider": "Alpha" if of_tom(request) else "Beta"}),
        ("org/m", None, "Beta"),
        ["come from 2 providers: Alpha (3 responses), Beta (3 responses)"],
    ),
    "two versions of the system": (
        "openai/m",
        lambda request: body(
            {"model": "m-2025-01-01", "system_fingerprint": f"fp_{prompt_of(request).split()[-6]}"}
        ),
        ("m-2025-01-01", "fp_1.", None),
        ["come from 3 system fingerprints: fp_1. (2 responses)"],
    ),
    "two dates of one model": (
        "anthropic/claude-4-latest",
        lambda request: message({"model": "claude-4-20250514" if of_tom(request) else "claude-4-20250801"}),
        ("claude-4-20250801", None, None),
        ["come from 2 models"],
    ),
    "the dated name of the model": (
        "compatible/m",
        lambda request: body(
            {"model": "m-2024-07-18", "system_fingerprint": "fp_1", "provider": {"name": "Alpha"}}
        ),
        ("m-2024-07-18", "fp_1", "Alpha"),
        [],
    ),
    "nothing": ("compatible/m", lambda request: body({}), (None, None, None), []),
    "nonsense": (
        "compatible/m",
        lambda request: body({"model": ["m"], "system_fingerprint": 7, "provider": " "}),
        (None, None, None),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_served_models_are_stored_and_unexpected_ones_are_a_caveat(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, script, first, message = CASES[case]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-0123456789")
    monkeypatch.setenv("OPENAI_API_KEY", "k-0123456789")
    run = run_with(script, name)
    responses = run.responses
    assert responses.select(SERVED).row(0) == first
    entries = run.about["models"][0].get("served", [])
    assert sum(entry["responses"] for entry in entries) == (6 if any(first) else 0)
    assert all(str(value) in json.dumps(entries) for value in first if value)
    rows = tm.caveats(run).filter(code="served-models")
    assert rows["model"].to_list() == ([name] if message else [])
    for sentence in message:
        assert sentence in rows["sentence"][0]
    page = run.report().read_text()
    assert (f"{name}, as served" in page) == any(first)
    assert ("says that it served" in page or "responses come from" in page) == bool(message)


@pytest.mark.verify
def test_a_resumed_run_and_a_new_analysis_keep_the_served_models() -> None:
    script = CASES["another model"][1]
    pl.DataFrame(PROMPTS).write_csv("prompts.csv")
    with MisbehavingServer(lambda request, nth: script(request)) as server:
        options: dict[str, Any] = {
            "model": "compatible/m",
            "base_url": server.url,
            "display": "none",
            "journal": "j.sqlite",
        }
        first = tm.run("prompts.csv", **options, seed=1)
        again = tm.run("prompts.csv", **options, seed=2)
        assert server.requests == 6
    entries = [{"model": "some-other-model-2025", "fingerprint": None, "provider": None, "responses": 6}]
    analysed = tm.analyse(first, seed=3, display="none")
    assert [run.about["models"][0]["served"] for run in (first, again, analysed)] == [entries] * 3


def test_a_key_in_the_name_of_a_served_model_is_masked_and_a_long_name_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILTMETER_API_KEY", "k-0123456789")
    run = run_with(
        lambda request: body(
            {
                "model": f"m k-0123456789\x1b[2J {'x' * 9000}",
                "system_fingerprint": "<script>alert(1)</script>",
            }
        )
    )
    served = run.responses["served_model"][0]
    assert "0123456789" not in served
    assert served.isprintable()
    assert len(served) <= 200
    assert "<script>alert(1)" not in run.report().read_text()


def test_many_served_models_are_counted_and_not_all_listed() -> None:
    run = run_with(
        lambda request: body({"model": "m", "system_fingerprint": f"fp {prompt_of(request)}"}),
        "compatible/m",
        repeats=1,
    )
    assert len(run.about["models"][0]["served"]) == 6
    assert "and 3 more" in tm.caveats(run).filter(code="served-models")["sentence"][0]


def test_responses_of_an_earlier_version_are_refused_with_the_remedy() -> None:
    run = run_with(CASES["another model"][1])
    path = Path(run.place) / "responses.parquet"
    pl.read_parquet(path).drop(SERVED).write_parquet(path)
    with pytest.raises(InputError, match="lacks the required column 'served_model'; run the study again"):
        _ = tm.load(run.place).responses


def test_a_run_json_without_served_models_has_no_caveat_about_them() -> None:
    run = run_with(CASES["another model"][1])
    path = Path(run.place) / "run.json"
    about = json.loads(path.read_text())
    for entry in about["models"]:
        del entry["served"]
    path.write_text(json.dumps(about))
    assert tm.caveats(tm.load(run.place)).filter(code="served-models").is_empty()


SAME = [
    ("gpt-4o", "gpt-4o-2024-08-06"),
    ("gpt-4", "gpt-4-0613"),
    ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
    ("openai/gpt-4o-mini:free", "openai/gpt-4o-mini"),
    ("llama3", "llama3:latest"),
    ("gpt-3.5-turbo", "gpt-35-turbo"),
    ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"),
    ("qwen2-7b", "/models/qwen2-7b.gguf"),
    ("gemini-2.0-flash", "models/gemini-2.0-flash-001"),
]
OTHER = [
    ("gpt-4o", "gpt-4o-mini"),
    ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
    ("llama3:8b", "llama3:70b"),
    ("gpt-4", "gpt-4-32k"),
    ("claude-3-opus", "claude-3-haiku"),
    ("m", "some-other-model-2025"),
]


@pytest.mark.parametrize(("prompt", "served"), SAME)
def test_a_more_specific_name_is_the_same_model(prompt: str, served: str) -> None:
    assert not is_another_model(prompt, served)


@pytest.mark.parametrize(("prompt", "served"), OTHER)
def test_another_name_is_another_model(prompt: str, served: str) -> None:
    assert is_another_model(prompt, served)


def test_served_models_of_a_judge_are_stored_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = CASES["two providers of a router"][1]
    with (
        MisbehavingServer(lambda request, nth: judge(request)) as server,
        Asking(journal="j.sqlite").open() as asker,
    ):
        run_judge = RunJudge(create_model("compatible/org/m", base_url=server.url), Sampling(), asker)
        run_judge.ask([(Message("user", f"{name} was late."),) for name in ("Anna", "Tom", "Maria")])
        served = run_judge.served
    assert [(entry["provider"], entry["responses"]) for entry in served] == [("Beta", 2), ("Alpha", 1)]
    about = {"models": [], "judged_by": {"name": "compatible/org/m", "served": served}}
    sentence = (
        "judge compatible/org/m: the responses come from 2 providers: Beta (2 responses), Alpha (1 response)"
    )
    assert list(served_sentences(about)) == [("compatible/org/m", sentence)]
