"""Anthropic's messages endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from support import misbehaving as mis
from support.misbehaving import Behaviour, MisbehavingServer
from tiltmeter.models import Completion, Message, Sampling, create_model


async def exchange(script: Any, *messages: Message, **sampling: Any) -> tuple[Completion, MisbehavingServer]:
    with MisbehavingServer(script if callable(script) else lambda request, nth: script) as server:
        async with create_model("anthropic/m", base_url=server.root) as model:
            return await model.complete(
                messages or [Message("user", "Who?")], Sampling(**sampling), 0
            ), server


def said(**fields: Any) -> Behaviour:
    return mis.status(
        200,
        body={
            "type": "message",
            "content": [{"type": "text", "text": "A"}],
            "stop_reason": "end_turn",
            **fields,
        },
    )


async def test_a_request_has_the_form_of_the_messages_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "geheim")
    turns = (
        Message("system", "Be brief."),
        Message("user", "Who?"),
        Message("assistant", "She."),
        Message("user", "Why?"),
    )
    _, server = await exchange(mis.answer("ok"), *turns, stop=("END",), seed=3, extra={"top_k": 5})
    assert server.bodies[0] == {
        "model": "m",
        "max_tokens": 1024,
        "system": "Be brief.",
        "messages": [{"role": role, "content": content} for role, content in turns[1:]],
        "stop_sequences": ["END"],
        "stream": False,
        "top_k": 5,
    }
    assert server.paths[0] == "/v1/messages"
    assert (server.headers[0]["x-api-key"], server.headers[0]["anthropic-version"]) == (
        "geheim",
        "2023-06-01",
    )


BLOCKS = [
    {"type": "thinking", "thinking": "one", "signature": "s"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "text", "text": "A"},
    {"type": "text", "text": "B"},
]
USAGE = {
    "input_tokens": 3,
    "cache_read_input_tokens": 40,
    "cache_creation_input_tokens": None,
    "output_tokens": 5,
}


@pytest.mark.parametrize(
    ("fields", "remaining"),
    [
        ({"stop_reason": "end_turn"}, {"finish_reason": "stop", "refusal": None}),
        ({"stop_reason": "stop_sequence"}, {"finish_reason": "stop", "refusal": None}),
        ({"stop_reason": "max_tokens"}, {"finish_reason": "length", "refusal": None}),
        ({"stop_reason": "refusal"}, {"finish_reason": "content_filter", "refusal": "refusal"}),
        ({"stop_reason": "pause_turn"}, {"finish_reason": "pause_turn", "refusal": None}),
        (
            {"stop_reason": "refusal", "content": [], "stop_details": {"explanation": "Not this."}},
            {"text": None, "refusal": "Not this."},
        ),
        ({"content": BLOCKS}, {"text": "AB", "thinking": "one"}),
        ({"usage": USAGE}, {"input_tokens": 43, "output_tokens": 5}),
    ],
)
async def test_an_answer_of_anthropic_is_stored_in_common_words(
    fields: dict[str, Any], remaining: dict[str, Any]
) -> None:
    completion, _ = await exchange(said(**fields))
    assert {name: getattr(completion, name) for name in remaining} == remaining


async def test_a_model_that_takes_no_temperature_is_asked_without_the_default() -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        message = "`temperature` and `top_p` cannot both be specified for this model."
        both = "temperature" in request and "top_p" in request
        return (
            mis.status(
                400, body={"type": "error", "error": {"type": "invalid_request_error", "message": message}}
            )
            if both
            else "ok"
        )

    _, server = await exchange(script, temperature=0.2, top_p=1.0)
    assert server.bodies[-1]["temperature"] == 0.2
    assert "top_p" not in server.bodies[-1]


def test_a_base_url_with_or_without_version_is_the_same_place() -> None:
    first = create_model("anthropic/m", base_url="http://host.example")
    second = create_model("anthropic/m", base_url="http://host.example/v1/")
    assert first.fingerprint == second.fingerprint == "anthropic/m@http://host.example"
