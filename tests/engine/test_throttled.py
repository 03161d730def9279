"""A prompt or model that is always rejected because of overload does not delay the others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support import misbehaving as bad
from support.misbehaving import Behaviour, MisbehavingServer, prompt_of
from tiltmeter.engine import Journal, Keys, Limits, Request, Tally, generate
from tiltmeter.models import Message, Sampling, create_model

GREEDY = Sampling(temperature=0.0)
REQUESTS = [Request((Message("user", f"prompt {number}"),)) for number in range(30)]


def ask(
    script: Callable[[int, int], Behaviour | str], journal: Journal, **limits: Any
) -> tuple[Tally, list[int], list[str | None]]:
    """Ask 30 prompts.

    Return the tally, the numbers of the prompts in the order of their requests, and the errors.
    """
    order: list[int] = []

    def answer(request: dict[str, Any], nth: int) -> Behaviour | str:
        number = int(prompt_of(request).split()[1])
        order.append(number)
        return script(number, nth)

    with MisbehavingServer(answer) as server:
        model = create_model("vllm/m", base_url=server.url)
        tally = generate(model, REQUESTS, GREEDY, journal=journal, limits=Limits(**limits))
    return (
        tally,
        order,
        journal.fetch([Keys(model.fingerprint, GREEDY)(*request) for request in REQUESTS])["error"].to_list(),
    )


WAITS = {"no wait": None, "a wait": 0.2, "an HTTP date": "Thu, 01 Jan 1970 00:00:00 GMT"}


@pytest.mark.parametrize("wait", WAITS)
def test_one_prompt_that_is_always_throttled_is_asked_beside_the_others(wait: str, journal: Journal) -> None:
    tally, order, errors = ask(
        lambda n, nth: bad.rate_limited(WAITS[wait]) if n == 0 else "Yes",
        journal,
        max_connections=1,
        deadline=3.0,  # a busy machine needs a second for one attempt
    )
    assert (tally.answered, tally.failed) == (29, {"rate_limit": 1})
    assert str(errors[0]).startswith("rate_limit: ")
    assert errors[1:] == [None] * 29
    assert order[0] == 0
    assert order[-1] == 0 or order.index(1) < max(place for place, number in enumerate(order) if number == 0)
    assert order.count(0) > 1
    assert tally.stopped is None


@pytest.mark.verify
def test_as_many_throttled_prompts_as_connections_leave_room_for_the_others(journal: Journal) -> None:
    tally, order, _ = ask(
        lambda n, nth: bad.server_error(503) if n < 8 else "Yes",
        journal,
        max_connections=8,
        deadline=5.0,
        retries=2,
    )
    assert (tally.answered, tally.failed) == (22, {"overloaded": 8})
    last_of_others = max(place for place, number in enumerate(order) if number >= 8)
    assert last_of_others < max(place for place, number in enumerate(order) if number < 8)


@pytest.mark.parametrize("wait", ["1e18", "Fri, 31 Dec 9999 23:59:59 GMT", "3600"])
def test_a_wait_beyond_the_deadline_fails_one_prompt_and_not_the_others(wait: str, journal: Journal) -> None:
    tally, _, errors = ask(
        lambda n, nth: bad.rate_limited(wait) if n in (0, 20) else "Yes", journal, deadline=900.0
    )
    assert (tally.answered, tally.failed, tally.stopped) == (28, {"rate_limit": 2}, None)
    assert "it asks to wait" in str(errors[0])
    assert "longer than the deadline of 900 s" in str(errors[20])


@pytest.mark.verify
def test_a_long_wait_of_one_prompt_is_tested_with_another(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiltmeter.engine._rate_limit.LONGEST_PAUSE", 0.05)
    monkeypatch.setattr("tiltmeter.engine._rate_limit._LONGEST_SLEEP", 0.02)
    tally, order, _ = ask(
        lambda n, nth: bad.rate_limited(1) if (n, nth) == (0, 1) else "Yes", journal, max_connections=1
    )
    assert tally.answered == 30
    assert order == [0, *range(1, 30), 0]


def test_a_wait_that_is_meant_for_all_is_kept(journal: Journal) -> None:
    tally, _, _ = ask(
        lambda n, nth: bad.rate_limited(0.3) if (n, nth) == (0, 1) else "Yes", journal, max_connections=1
    )
    assert tally.answered == 30
    assert tally.seconds >= 0.3


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
QUIET = pytest.mark.filterwarnings("ignore::tiltmeter.Caveat")


@pytest.fixture
def prompts(workplace: Path) -> str:
    pl.DataFrame(PROMPTS).write_csv(workplace / "prompts.csv")
    return "prompts.csv"


def run_both(
    prompts: str, script: Callable[[str, int], Behaviour | str], **limits: Any
) -> tuple[tm.Run, list[str]]:
    """Run two models, `compatible/first` and `compatible/second`.

    Return the run and the models in the order of their requests.
    """
    order: list[str] = []

    def answer(request: dict[str, Any], nth: int) -> Behaviour | str:
        order.append(request["model"])
        return script(request["model"], nth)

    with MisbehavingServer(answer) as server:
        models = ["compatible/first", "compatible/second"]
        run = tm.run(
            prompts,
            model=models,
            base_url=server.url,
            display="none",
            journal="j.sqlite",
            limits=Limits(**limits),
        )
    return run, order


@QUIET
@pytest.mark.verify
def test_a_model_that_is_always_throttled_is_left_until_the_others_are_done(
    prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiltmeter.runs._generating.PATIENCE", 0.2)
    run, order = run_both(
        prompts, lambda model, nth: bad.rate_limited(0.05) if model == "first" else "Yes", deadline=1.0
    )
    assert "first" in order[: order.index("second")]
    assert "first" in order[order.index("second") :]
    assert run.responses.filter(model="compatible/second")["status"].to_list() == ["ok"] * 6
    (problem,) = run.problems
    assert problem.startswith("compatible/first: nothing measured: ")
    assert problem.endswith("run the same command again to retry")


@QUIET
def test_a_model_that_was_left_is_continued_and_its_counts_are_added(
    prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiltmeter.runs._generating.PATIENCE", 0.2)
    asked_models: list[str] = []

    def script(model: str, nth: int) -> Behaviour | str:
        asked_models.append(model)
        throttled = model == "first" and asked_models.count("first") > 3 and "second" not in asked_models
        return bad.rate_limited(0.05) if throttled else "Yes"

    run, order = run_both(prompts, script, max_connections=1)
    assert (run.problems, run.about["complete"]) == ([], True)
    assert order[:3] == ["first"] * 3
    assert order[-1] == "first"
    first, second = [entry["tally"] for entry in run.about["models"]]
    assert (first["answered"], first["held"], first["failed"]) == (6, 0, {})
    assert (second["answered"], second["held"], second["failed"]) == (6, 0, {})
    assert first["errors"]["rate_limit"] > 1


def of_error(status: int, message: str, code: str | None = None) -> Behaviour:
    return bad.status(status, None, {"error": {"message": message, "code": code}})


PERMANENT = {
    "a request that is wrong": of_error(400, "the word 'week' is not allowed"),
    "a path that is missing": of_error(404, "no such page"),
    "a key that is rejected": of_error(401, "this project may not"),
    "no credit": of_error(402, "add credit"),
}


@QUIET
@pytest.mark.parametrize("case", PERMANENT)
def test_a_permanent_failure_is_not_advised_to_be_repeated(case: str, prompts: str) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return (
            PERMANENT[case] if prompt_of(request).startswith("Anna asks for a day off in week 2") else "Yes"
        )

    with MisbehavingServer(script) as server:
        run = tm.run(prompts, model="compatible/m", base_url=server.url, display="none", journal="j.sqlite")
    (problem,) = run.problems
    assert "1 of them will fail again unless the cause is corrected (" in problem
    assert json.loads(PERMANENT[case].body or b"")["error"]["message"] in problem
    assert "run the same command again" not in problem


@QUIET
def test_failures_that_may_pass_are_advised_to_be_repeated(prompts: str) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        if prompt_of(request).startswith("Anna asks for a day off in week 2"):
            return of_error(400, "not allowed")
        return (
            bad.server_error(500)
            if prompt_of(request).startswith("Tom asks for a day off in week 3")
            else "Yes"
        )

    with MisbehavingServer(script) as server:
        run = tm.run(
            prompts,
            model="compatible/m",
            base_url=server.url,
            display="none",
            journal="j.sqlite",
            limits=Limits(retries=0),
        )
    (problem,) = run.problems
    assert (
        "1 of them will fail again unless the cause is corrected "
        "(bad_request: 127.0.0.1 answered 400: not allowed)" in problem
    )
    assert problem.endswith("; run the same command again to retry the others")


@QUIET
def test_a_model_without_a_valid_key_is_advised_to_be_corrected_first(prompts: str) -> None:
    run, _ = run_both(prompts, lambda model, nth: bad.wrong_key() if model == "first" else "Yes")
    (problem,) = run.problems
    assert problem.endswith("; correct this, then run the same command again to retry")


def test_the_deadline_is_an_option(prompts: str, tiltmeter: Tiltmeter) -> None:
    with MisbehavingServer(lambda request, nth: bad.rate_limited(0.1)) as server:
        common = ("run", prompts, "-m", "compatible/m", "--base-url", server.url, "--display", "none")
        done = tiltmeter(*common, "--deadline", "0.3", exits=4)
        assert "rate_limit" in done.stderr
        assert "deadline must be a positive number" in tiltmeter(*common, "--deadline", "0", exits=2).stderr


@pytest.mark.parametrize("first", [bad.server_error(), None], ids=["a repetition", "the first attempt"])
def test_the_deadline_bounds_a_request_in_flight(journal: Journal, first: Behaviour | None) -> None:
    """A server that says nothing holds a request until its deadline, not for the timeout of each attempt."""

    def script(number: int, nth: int) -> Behaviour | str:
        if number != 0:
            return "Yes"
        return first if first is not None and nth == 1 else bad.hang(25.0)

    began = time.monotonic()
    tally, _, errors = ask(
        script,
        journal,
        deadline=0.8,
        timeout=20.0,
    )
    assert time.monotonic() - began < 15.0, "less than the timeout"
    assert (tally.answered, tally.failures) == (29, 1)
    assert str(errors[0]).startswith(("timeout: no answer within 0.", "server"))
