"""The judge of a run: it uses the journal, and a schema if the endpoint accepts one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.misbehaving import Behaviour, MisbehavingServer, server_error
from tiltmeter.engine import Limits
from tiltmeter.errors import InputError
from tiltmeter.models import Message, Sampling, create_model
from tiltmeter.runs import Asking, Judging, resolve
from tiltmeter.runs._asking import Asker, RunJudge
from tiltmeter.study import Study

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    with Asking(Limits(retries=0), str(tmp_path / "journal.sqlite")).open() as opened:
        yield opened


def judge(server: MisbehavingServer, asker: Asker) -> RunJudge:
    model = create_model("compatible/judge", base_url=server.url)
    return RunJudge(model, Sampling(temperature=0.7), asker)


def ask(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def test_a_schema_is_sent_to_an_endpoint_that_accepts_it(asker: Asker) -> None:
    requests: list[dict[str, Any]] = []

    def script(request: dict[str, Any], nth: int) -> str:
        requests.append(request)
        return "{}"

    with MisbehavingServer(script) as server:
        replies = judge(server, asker).ask([ask("one")], schema=SCHEMA, sampling={"temperature": 0.0})
    assert replies["answer"].to_list() == ["{}"]
    assert requests[0]["temperature"] == 0.0
    assert requests[0]["response_format"]["json_schema"]["schema"] == SCHEMA


REJECTIONS = {
    "400": (400, "response_format is not supported"),
    "404": (404, "No endpoints found that can handle the requested parameters."),
    "422": (422, "extra fields not permitted"),
    "500": (500, "failed to compile the grammar"),
}


@pytest.mark.parametrize("rejection", REJECTIONS)
@pytest.mark.parametrize("questions", [1, 19, 20, 200])
def test_an_endpoint_that_rejects_schemas_gets_one_request_with_a_schema(
    asker: Asker, rejection: str, questions: int
) -> None:
    status, message = REJECTIONS[rejection]

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        if "response_format" in request:
            return Behaviour(status=status, body=json.dumps({"error": {"message": message}}).encode())
        return f"answer to {request['messages'][-1]['content']}"

    with MisbehavingServer(script) as server:
        run_judge = judge(server, asker)
        replies = run_judge.ask([ask(f"question {i}") for i in range(questions)], schema=SCHEMA)
        assert replies["status"].to_list() == ["ok"] * questions
        assert replies["answer"].to_list() == [f"answer to question {i}" for i in range(questions)]
        again = run_judge.ask([ask(f"more {i}") for i in range(30)], schema=SCHEMA | {"title": "another"})
        assert again["status"].to_list() == ["ok"] * 30
        assert sum("response_format" in body for body in server.bodies) == 1
        assert not any(tally.failed for tally in run_judge.tallies)
        requests = server.requests
        assert judge(server, asker).ask([ask("question 0")], schema=SCHEMA)["answer"].to_list() == [
            "answer to question 0"
        ]
        assert server.requests == requests, "a later run finds in the journal how this judge was asked"


def test_conversations_rejected_with_a_schema_are_requested_without_it(asker: Asker) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        odd = int(request["messages"][-1]["content"].split()[1]) % 2
        if odd and "response_format" in request:
            return Behaviour(status=400, body=json.dumps({"error": {"message": "no"}}).encode())
        return "in words" if odd else "by schema"

    with MisbehavingServer(script) as server:
        run_judge = judge(server, asker)
        replies = run_judge.ask([ask(f"question {i}") for i in range(60)], schema=SCHEMA)
    assert replies["answer"].to_list() == ["by schema", "in words"] * 30
    assert not any(tally.failed for tally in run_judge.tallies)


def test_a_judge_requests_nothing_twice_and_failures_keep_their_place(asker: Asker) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        text = request["messages"][-1]["content"]
        return server_error() if text == "question 1" else f"re {text}"

    questions = [ask(f"question {i}") for i in range(3)]
    with MisbehavingServer(script) as server:
        run_judge = judge(server, asker)
        first = run_judge.ask(questions)
        assert first["status"].to_list() == ["ok", "failed", "ok"]
        assert first["answer"].to_list() == ["re question 0", None, "re question 2"]
        again = judge(server, asker).ask(questions)
        assert again["status"].to_list() == ["ok", "failed", "ok"]
        assert server.paid == {"question 0": 1, "question 2": 1}


def test_an_interrupted_judge_reads_only_the_journal(asker: Asker) -> None:
    with MisbehavingServer(lambda request, nth: "yes") as server:
        run_judge = judge(server, asker)
        run_judge.ask([ask("held")])
        run_judge.tallies[0].interrupted = True
        replies = run_judge.ask([ask("held"), ask("new")])
        assert replies["status"].to_list() == ["ok", "missing"]
        assert server.paid == {"held": 1}
        assert replies.schema == {
            "key": pl.String,
            "status": pl.String,
            "answer": pl.String,
            "error": pl.String,
        }


def test_a_judge_of_a_study_without_judge_is_refused() -> None:
    with pytest.raises(InputError, match="does not use a judge"):
        Judging("sim/fair").open(
            dataclasses.replace(resolve("genderbench/direct"), study=Study("mine", "Mine", []))
        )
    with pytest.raises(InputError, match="name it with --judge"):
        Judging(None, options={"temperature": "0"}).open(resolve("genderbench/direct"))
