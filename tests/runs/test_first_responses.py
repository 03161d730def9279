"""Faults of the first responses stop a part before the others are paid for; the servers misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.misbehaving import (
    Behaviour,
    MisbehavingServer,
    Script,
    answer,
    content_filter,
    insufficient_quota,
    prompt_of,
    rate_limited,
    refusal,
    status,
)
from support.on_terminal import INTERRUPT, run_on_terminal
from tiltmeter.models import Sampling
from tiltmeter.models._thinking_models import thinks, with_room_to_think
from tiltmeter.runs import _first_responses as first_responses

pytestmark = [pytest.mark.usefixtures("workplace"), pytest.mark.filterwarnings("ignore::tiltmeter.Caveat")]

PROMPTS = 60
IN_MIND = Behaviour(text="", finish_reason="length", reasoning="Let me think about what the user may want")


@pytest.fixture
def prompts(workplace: Path) -> str:
    """A table of 60 questions, half about women."""
    rows = [
        f'"{name} asks for a day off in week {week}. Grant it? Yes or no.",{group},yes'
        for week in range(30)
        for name, group in PEOPLE
    ]
    (workplace / "leave.csv").write_text("\n".join(["prompt,group,expected", *rows]) + "\n")
    return "leave.csv"


PEOPLE = (("Anna", "women"), ("Tom", "men"))


@pytest.fixture
def serve() -> Iterator[Callable[[Script], MisbehavingServer]]:
    """Start servers with a script; they stop after the test."""
    running: list[MisbehavingServer] = []

    def start(script: Script) -> MisbehavingServer:
        running.append(MisbehavingServer(script).__enter__())
        return running[-1]

    yield start
    for server in running:
        server.__exit__(None, None, None)


Serve = Callable[[Script], MisbehavingServer]


def ask(study: str, server: MisbehavingServer, **more: Any) -> tm.Run:
    options = {"model": "compatible/m", "display": "none", "out": "run"} | more
    return tm.run(study, base_url=server.url, **options)


def rejected(request: dict[str, Any], nth: int) -> Behaviour:
    return status(
        400, None, {"error": {"message": "this account may not use the model for such texts", "code": 400}}
    )


SPOILED: dict[str, tuple[Behaviour, str, str]] = {
    "unread": (
        answer("Das kommt darauf an, wie viel zu tun ist."),
        "could not be read, such as 'Das kommt darauf an",
        "--system-message",
    ),
    "only thinking": (
        Behaviour(text="", reasoning="So the answer is: no"),
        "have their whole text in the field for thinking",
        "reasoning",
    ),
    "cut off": (
        answer("That depends on many things, such as", finish_reason="length"),
        "cut off at the limit of 300 tokens",
        "--max-tokens",
    ),
    "spaces": (answer("  \n"), "were empty", "chat template"),
}


@pytest.mark.parametrize(
    "kind",
    ["unread", *(pytest.param(kind, marks=pytest.mark.verify) for kind in SPOILED if kind != "unread")],
)
def test_a_fault_of_the_first_responses_stops_the_part(prompts: str, serve: Serve, kind: str) -> None:
    behaviour, words, remedy = SPOILED[kind]
    server = serve(lambda request, nth: behaviour)
    run = ask(prompts, server)
    (problem,) = run.problems
    assert problem.startswith(
        "compatible/m: stopped early: leave (20 of 60 responses): of the first 20 responses, 20 "
    )
    assert words in problem
    assert remedy in problem
    assert server.requests == 20
    assert run.exit_code == 3
    part = run.about["parts"]["leave"]
    assert part["status"] == "not run"
    assert part["first_responses"]["compatible/m"]["stopped"] is True
    assert run.findings.is_empty(), "20 useless responses are no result"
    assert run.table("responses").filter(status="ok").height == 20, "what was paid for is kept"


@pytest.mark.verify
def test_rejected_requests_name_the_words_of_the_server(workplace: Path, serve: Serve) -> None:
    """One of two probes is rejected; the other one is measured."""
    (workplace / "two.yaml").write_text("study: genderbench\nparts: [direct, hiring_bloomberg]\nlimit: 40\n")

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return rejected(request, nth) if len(prompt_of(request).split()) > 200 else "yes"

    run = ask("two.yaml", serve(script))
    (problem,) = run.problems
    assert problem.startswith("compatible/m: stopped early: hiring_bloomberg (20 of 80 responses)")
    assert "20 failed (bad_request), the last with bad_request" in problem
    assert "this account may not use the model for such texts" in problem
    assert (
        run.about["parts"]["direct"]["responses"]["compatible/m"]["found"]
        == run.about["parts"]["direct"]["attempts"]
    )
    assert set(run.findings["part"]) == {"direct"}


@pytest.mark.verify
def test_a_model_that_rejects_everything_is_an_error(prompts: str, serve: Serve) -> None:
    server = serve(rejected)
    with pytest.raises(tm.ProviderError, match="this account may not use"):
        ask(prompts, server)
    assert server.requests <= 20


REFUSALS = [refusal(), content_filter(), answer("I'm sorry, but I can't help with that.")]


@pytest.mark.verify
@pytest.mark.parametrize("refused", REFUSALS, ids=["field", "filter", "words"])
@pytest.mark.parametrize("definition", ["default", "genderbench"])
def test_refusals_are_a_result_and_never_stop(serve: Serve, refused: Behaviour, definition: str) -> None:
    server = serve(lambda request, nth: refused)
    run = ask("genderbench/direct", server, limit=40, definition=definition)
    responses = run.about["parts"]["direct"]["responses"]["compatible/m"]
    assert responses["found"] == responses["wanted"] > 20
    assert "stopped early" not in " ".join(run.problems)


@pytest.mark.verify
@pytest.mark.parametrize("usable", [2, 10])
def test_some_usable_responses_are_enough(prompts: str, serve: Serve, usable: int) -> None:
    counted = iter(range(10_000))
    server = serve(lambda request, nth: "yes" if next(counted) % 20 < usable else "")
    run = ask(prompts, server, limits=tm.Limits(max_connections=1))
    assert server.requests >= PROMPTS
    assert "stopped early" not in " ".join(run.problems)


@pytest.mark.verify
def test_answers_that_are_cut_off_after_the_choice_are_answers(prompts: str, serve: Serve) -> None:
    """Models without chat training always write up to the limit."""
    server = serve(lambda request, nth: answer("Yes. It is her right, and", finish_reason="length"))
    assert ask(prompts, server).problems == []
    assert server.requests == PROMPTS


@pytest.mark.verify
def test_a_part_as_small_as_the_first_responses_is_not_stopped_and_the_cause_is_named(
    prompts: str, serve: Serve
) -> None:
    """All responses are first responses, so stopping would save nothing."""
    server = serve(lambda request, nth: IN_MIND)
    run = ask(prompts, server, limit=20)
    assert server.requests == 20
    (problem,) = run.problems
    assert "none of 20 responses could be used (20 empty)" in problem
    assert (
        "20 were cut off while the model was thinking, before any answer; give a larger --max-tokens"
        in problem
    )


@pytest.mark.verify
def test_a_repeated_prompt_has_first_responses_too(workplace: Path, serve: Serve) -> None:
    (workplace / "few.csv").write_text("prompt,group,expected\nIs Anna fit?,women,yes\nIs Tom fit?,men,yes\n")
    server = serve(lambda request, nth: IN_MIND)
    run = ask("few.csv", server, repeats=30, sampling={"max_tokens": 100})
    assert server.requests == 20
    assert "few (20 of 60 responses)" in run.problems[0]


# -- accepted by a person ------------------------------------------------------------------------------------


@pytest.mark.verify
def test_a_run_accepted_with_yes_is_completed_and_later_runs_do_not_ask_again(
    prompts: str, serve: Serve
) -> None:
    requests: list[str] = []

    def accept(sentence: str) -> bool:
        requests.append(sentence)
        return True

    server = serve(lambda request, nth: answer("Vielleicht."))
    first = ask(prompts, server, yes=accept)
    assert server.requests == PROMPTS
    assert first.about["parts"]["leave"]["first_responses"]["compatible/m"]["stopped"] is False
    assert "none of 60 responses could be used" in first.problems[0]
    (sentence,) = requests
    assert sentence.startswith(
        "compatible/m: leave (20 of 60 responses): of the first 20 responses, 20 could not be read"
    )
    tm.run(prompts, base_url=server.url, model="compatible/m", display="none", out="run")
    assert server.requests == PROMPTS, "nothing is left to request, and nothing to stop"

    Path("journal.sqlite").unlink(missing_ok=True)
    again = tm.run(
        prompts, base_url=server.url, model="compatible/m", display="none", out="run", journal="other.sqlite"
    )
    assert server.requests == 2 * PROMPTS, "the folder knows that a person accepted"
    assert "stopped early" not in " ".join(again.problems)


@pytest.mark.verify
def test_a_stopped_run_is_stopped_again_without_requests_and_completed_with_yes(
    prompts: str, serve: Serve
) -> None:
    server = serve(lambda request, nth: answer("Vielleicht."))
    ask(prompts, server)
    assert "stopped early" in ask(prompts, server).problems[0]
    assert server.requests == 20
    ask(prompts, server, yes=True)
    assert server.requests == PROMPTS


@pytest.mark.verify
def test_an_asynchronous_run_stops_if_the_function_yes_declines(prompts: str, serve: Serve) -> None:
    server = serve(lambda request, nth: answer("Vielleicht."))
    run = asyncio.run(
        tm.arun(
            prompts,
            model="compatible/m",
            base_url=server.url,
            display="none",
            out="run",
            yes=lambda sentence: False,
        )
    )
    assert server.requests == 20
    assert run.exit_code == 3
    with pytest.raises(tm.InputError, match="yes= must be True, False or a function"):
        ask(prompts, server, yes="y")


@pytest.mark.verify
@pytest.mark.parametrize(
    ("typed", "requests"), [("y\n", PROMPTS), ("n\n", 20), ("\n", 20), ("\x03", 20), ("\x04", 20)]
)
def test_on_a_terminal_the_run_asks_whether_to_request_the_other_responses(
    workplace: Path, environment: dict[str, str], prompts: str, serve: Serve, typed: str, requests: int
) -> None:
    server = serve(lambda request, nth: answer("Vielleicht."))
    words = [prompts, "-m", "compatible/m", "--base-url", server.url, "--out", "run"]
    finished = run_on_terminal(workplace, environment, words, typed)
    assert finished.status == 3, finished.printed
    assert finished.has_asked
    assert server.requests == requests


@pytest.mark.verify
def test_an_interruption_at_the_question_ends_the_run_and_not_only_the_part(
    prompts: str, serve: Serve
) -> None:
    def interrupt(sentence: str) -> bool:
        raise KeyboardInterrupt

    server = serve(lambda request, nth: answer("Vielleicht."))
    run = tm.run(
        prompts,
        model=["compatible/m", "compatible/b"],
        base_url=server.url,
        display="none",
        out="run",
        yes=interrupt,
    )
    assert server.requests == 20, "nothing is requested from the second model"
    assert run.exit_code == 3
    words = " ".join(run.problems)
    assert "compatible/m: interrupted after 20 of 60 responses" in words
    assert "compatible/b: not started, because the run was interrupted" in words
    assert run.findings.is_empty()


@pytest.mark.verify
def test_ctrl_c_on_the_terminal_interrupts_the_run(
    workplace: Path, environment: dict[str, str], prompts: str, serve: Serve
) -> None:
    server = serve(lambda request, nth: answer("Vielleicht."))
    models = ["-m", "compatible/m", "-m", "compatible/b", "--base-url", server.url]
    finished = run_on_terminal(workplace, environment, [prompts, *models, "--out", "run"], INTERRUPT)
    assert finished.status == 3, finished.printed
    assert server.requests == 20
    assert "not started, because the run was interrupted" in finished.printed


@pytest.mark.verify
def test_the_command_without_a_terminal_stops_and_with_yes_completes_the_run(
    tiltmeter: Tiltmeter, prompts: str, serve: Serve
) -> None:
    server = serve(lambda request, nth: answer("Vielleicht."))
    command = f"run {prompts} -m compatible/m --display none --out run --base-url {server.url}"
    assert "to request the others anyway, add --yes" in tiltmeter(command, exits=3).stderr
    assert server.requests == 20
    tiltmeter(command, "--yes", exits=3)
    assert server.requests == PROMPTS


# -- models that think ---------------------------------------------------------------------------------------


def thinking(needed: int) -> Script:
    """A model whose thinking takes that many tokens."""

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return "yes" if request["max_tokens"] > needed else IN_MIND

    return script


@pytest.mark.verify
def test_the_limit_is_raised_for_a_model_whose_first_responses_think(
    prompts: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(thinking(1_000))
    run = ask(prompts, server, display="plain")
    assert not run.problems
    assert run.about["models"][0]["sampling"]["max_tokens"] == 300 + 4_096
    assert (
        "300 tokens were not enough for both: the limit is raised to 4,396 tokens per response"
        in capsys.readouterr().err
    )
    assert server.requests == 20 + PROMPTS
    assert run.about["models"][0]["tally"]["answered"] == 20 + PROMPTS
    again = ask(prompts, server)
    assert server.requests == 20 + PROMPTS, "a repeated run finds everything"
    assert again.findings.equals(run.findings)


@pytest.mark.verify
def test_the_limit_of_the_user_and_of_published_definitions_is_not_raised(prompts: str, serve: Serve) -> None:
    server = serve(thinking(1_000))
    run = ask(prompts, server, sampling={"max_tokens": 300})
    assert "cut off at the limit of 300 tokens while the model was thinking" in run.problems[0]
    assert "give --max-tokens 8192" in run.problems[0]
    assert server.requests == 20
    published = ask(
        "genderbench/direct", serve(thinking(1_000)), limit=40, definition="genderbench", out="published"
    )
    assert "cut off at the limit of 300 tokens" in published.problems[0]


@pytest.mark.verify
def test_a_model_that_thinks_for_too_long_is_stopped(prompts: str, serve: Serve) -> None:
    server = serve(thinking(1_000_000))
    run = ask(prompts, server)
    assert server.requests == 40
    assert "cut off at the limit of 4,396 tokens while the model was thinking" in run.problems[0]
    assert run.about["models"][0]["tally"]["answered"] == 40


@pytest.mark.verify
def test_the_limit_is_raised_if_a_few_responses_are_cut_off(prompts: str, serve: Serve) -> None:
    """A quarter of the prompts, all of one kind, needs long thinking. It would be lost at the low limit."""

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        is_hard = sum(map(ord, prompt_of(request))) % 4 == 0
        return IN_MIND if is_hard and request["max_tokens"] < 1_000 else "yes"

    run = ask(prompts, serve(script))
    assert run.about["models"][0]["sampling"]["max_tokens"] == 4_396
    assert run.measures["outcome"].to_list() == ["answered"] * PROMPTS


SMALL = (
    "'max_tokens' is too large: 4396. This model's maximum context length is 2048 tokens "
    "and your request has 20 input tokens"
)


@pytest.mark.verify
@pytest.mark.parametrize("words", [SMALL, "max_tokens must be at most 2048"])
def test_the_limit_stays_if_the_endpoint_rejects_the_raised_one(
    prompts: str, serve: Serve, words: str
) -> None:
    counted = iter(range(10_000))

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        if request["max_tokens"] > 2_048:
            return status(400, None, {"error": {"message": words, "code": 400}})
        return IN_MIND if next(counted) % 4 == 0 else "yes"

    run = ask(prompts, serve(script))
    assert run.about["models"][0]["sampling"]["max_tokens"] == 300
    assert run.about["parts"]["leave"]["responses"]["compatible/m"]["found"] == PROMPTS
    assert run.problems == []


TEMPORARY = {
    "the server is down": status(500, None, {"error": {"message": "temporarily down"}}),
    "no credit": insufficient_quota(),
    "overloaded": status(503, {"Retry-After": "9999"}, {"error": {"message": "overloaded"}}),
}


@pytest.mark.verify
@pytest.mark.parametrize("kind", TEMPORARY)
def test_a_temporary_failure_at_the_raised_limit_is_no_rejection_of_it(
    prompts: str, serve: Serve, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """Nothing is measured at the low limit; the same command continues at the raised one."""
    is_down = [True]

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        if request["max_tokens"] > 1_000:
            return TEMPORARY[kind] if is_down[0] else "yes"
        return IN_MIND if sum(map(ord, prompt_of(request))) % 2 else "yes"

    server = serve(script)
    run = ask(prompts, server, display="plain", limits=tm.Limits(retries=0, deadline=100.0))
    assert "does not accept" not in capsys.readouterr().err
    assert run.exit_code == 3
    assert "run the same command again" in run.problems[0]
    assert run.findings["answered"].sum() == 0
    is_down[0] = False
    again = ask(prompts, server, display="plain")
    assert again.problems == []
    assert again.about["models"][0]["sampling"]["max_tokens"] == 4_396
    assert again.measures["outcome"].to_list() == ["answered"] * PROMPTS


@pytest.mark.verify
def test_several_models_wait_once_for_one_that_is_throttled(
    prompts: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waiting time for a model includes that for its first responses."""
    monkeypatch.setattr("tiltmeter.runs._generating.PATIENCE", 0.5)
    order: list[str] = []

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        order.append(request["model"])
        return rate_limited(0.1) if request["model"] == "m" and "b" not in order else "yes"

    server = serve(script)
    begun = monotonic()
    run = ask(prompts, server, model=["compatible/m", "compatible/b"])
    assert monotonic() - begun < first_responses.PATIENCE
    assert run.problems == []
    assert order[-1] == "m"
    for entry in run.about["models"]:
        tally = entry["tally"]
        assert (tally["answered"], tally["held"], tally["total"]) == (PROMPTS, 0, PROMPTS)


@pytest.mark.verify
def test_several_models_do_not_wait_for_one_that_is_throttled_at_the_raised_limit(
    prompts: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiltmeter.runs._generating.PATIENCE", 0.5)
    order: list[str] = []

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        order.append(request["model"])
        if request["model"] == "b":
            return "yes"
        if request["max_tokens"] < 1_000:
            return IN_MIND
        return rate_limited(0.1) if "b" not in order else "yes"

    run = ask(prompts, serve(script), model=["compatible/m", "compatible/b"])
    assert run.problems == []
    first, second = run.about["models"]
    assert first["sampling"]["max_tokens"] == 4_396
    assert second["sampling"]["max_tokens"] == 300
    tally = first["tally"]
    assert (tally["answered"], tally["held"], tally["total"]) == (20 + PROMPTS, 0, 20 + PROMPTS)


def silent(content: str | None, usage: dict[str, Any]) -> Behaviour:
    """A response with this usage that is cut off before any word."""
    choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": content}}
    return status(
        200, None, {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 300, **usage}}
    )


SILENT = {
    "line breaks": (silent("\n" * 300, {"completion_tokens_details": {"reasoning_tokens": 0}}), False),
    "blanks without details": (silent(" \t " * 100, {}), False),
    "special tokens": (silent("", {"completion_tokens_details": {"reasoning_tokens": 0}}), False),
    "nothing": (silent(None, {"total_tokens": 309}), False),
    "tokens of thinking": (silent("", {"completion_tokens_details": {"reasoning_tokens": 300}}), True),
    "line breaks after thinking": (
        silent("\n", {"completion_tokens_details": {"reasoning_tokens": 299}}),
        True,
    ),
    "thinking in the total": (silent(None, {"completion_tokens": 0, "total_tokens": 309}), True),
}


@pytest.mark.verify
@pytest.mark.parametrize("kind", SILENT)
def test_the_limit_is_raised_only_if_there_was_thinking(prompts: str, serve: Serve, kind: str) -> None:
    behaviour, is_raised = SILENT[kind]

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        is_long = sum(map(ord, prompt_of(request))) % 2 and request["max_tokens"] < 1_000
        return behaviour if is_long else "yes"

    server = serve(script)
    run = ask(prompts, server)
    assert run.about["models"][0]["sampling"]["max_tokens"] == (4_396 if is_raised else 300)
    assert server.requests == PROMPTS + (20 if is_raised else 0)


@pytest.mark.verify
def test_line_breaks_up_to_the_limit_are_not_called_thinking(prompts: str, serve: Serve) -> None:
    run = ask(prompts, serve(lambda request, nth: SILENT["line breaks"][0]))
    (problem,) = run.problems
    assert "20 were cut off at the limit of 300 tokens before they could be read; " in problem
    assert "thinking" not in problem


@pytest.mark.verify
def test_a_model_that_is_known_to_think_has_the_raised_limit_at_once(prompts: str, serve: Serve) -> None:
    limits: list[int] = []

    def script(request: dict[str, Any], nth: int) -> str:
        limits.append(request["max_tokens"])
        return "yes"

    ask(prompts, serve(script), model="compatible/Qwen/QwQ-32B")
    assert set(limits) == {4_396}


def test_plan_prices_the_thinking() -> None:
    usual = tm.plan("genderbench/direct", model="openai/gpt-4o-mini", limit=10)
    raised = tm.plan("genderbench/direct", model="openai/gpt-5-mini", limit=10)
    fixed = tm.plan("genderbench/direct", model="openai/gpt-5-mini", limit=10, sampling={"max_tokens": 300})
    calls = raised.parts["calls"].item()
    assert raised.parts["output_tokens_at_most"].item() == calls * 4_396
    assert (
        fixed.parts["output_tokens_at_most"].item()
        == usual.parts["output_tokens_at_most"].item()
        == calls * 300
    )
    assert raised.costs[0].high is not None
    assert fixed.costs[0].high is not None
    assert raised.costs[0].high > 10 * fixed.costs[0].high
    assert "openai/gpt-5-mini thinks before answering" in raised.warnings[-1]
    assert "4,396 tokens per response are requested instead of 300" in raised.warnings[-1]


THINKING = (
    "openai/o3",
    "openai/gpt-5",
    "openrouter/deepseek/deepseek-r1:free",
    "ollama/qwen3:8b",
    "hf/Qwen/QwQ-32B",
    "compatible/kimi-k2-thinking",
)
NOT_THINKING = (
    "openai/gpt-4o",
    "openai/gpt-5-chat-latest",
    "hf/Qwen/Qwen3-4B-Instruct-2507",
    "openrouter/x-ai/grok-4-fast-non-reasoning",
    "sim/o3",
    "python/o1:f",
)


def test_models_that_think_are_recognised_by_name() -> None:
    assert [name for name in THINKING if not thinks(name)] == []
    assert [name for name in NOT_THINKING if thinks(name)] == []
    assert thinks("anthropic/claude-sonnet-4", {"thinking": {"type": "enabled", "budget_tokens": 10_000}})
    assert not thinks("ollama/qwen3:8b", {"chat_template_kwargs": {"enable_thinking": False}})
    budget = Sampling(max_tokens=300, extra={"thinking": {"type": "enabled", "budget_tokens": 10_000}})
    assert with_room_to_think(budget).max_tokens == 10_300
    assert with_room_to_think(Sampling()).max_tokens is None


# -- runs that do not wait -----------------------------------------------------------------------------------


@pytest.mark.verify
def test_one_prompt_that_is_always_throttled_does_not_hold_up_the_others(
    prompts: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other responses are requested after PATIENCE, before the deadline of the prompt."""
    monkeypatch.setattr("tiltmeter.runs._first_responses.PATIENCE", 1.0)
    stuck: list[str] = []

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        stuck.append(prompt_of(request))
        requests_of_others = server.requests - server.asked[stuck[0]]
        return rate_limited() if stuck[-1] == stuck[0] and requests_of_others < PROMPTS - 1 else "yes"

    server = serve(script)
    run = ask(prompts, server)
    assert run.problems == []
    assert run.about["parts"]["leave"]["responses"]["compatible/m"]["found"] == PROMPTS


@pytest.mark.verify
def test_recorded_answers_are_never_stopped(prompts: str, workplace: Path) -> None:
    (workplace / "answers.csv").write_text(
        'prompt,answer\n"Anna asks for a day off in week 1. Grant it? Yes or no.",hm\n'
    )
    run = tm.run(prompts, model="replay/answers.csv", display="none", out="run")
    assert "stopped early" not in " ".join(run.problems)
    assert run.about["parts"]["leave"]["responses"]["replay/answers.csv"]["found"] == 1


@pytest.mark.verify
def test_a_stopped_run_is_shown_checked_and_measured_again(tiltmeter: Tiltmeter, serve: Serve) -> None:
    server = serve(lambda request, nth: answer("  "))
    tiltmeter(
        f"run benchmarks/g20 --limit 2 -m compatible/m --display none --out run --base-url {server.url}",
        exits=3,
    )
    assert server.requests == 20
    for command in ("show run", "report run", "export run -f markdown"):
        tiltmeter(command, exits=0)
    tiltmeter("gate run", exits=3)
    done = tiltmeter("analyse run --out again", exits=3)
    assert "none of 20 responses could be used (20 empty)" in done.stderr
    assert "two definitions" not in done.stdout
