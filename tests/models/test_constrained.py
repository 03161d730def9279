"""Lists of allowed answers at OpenAI-compatible endpoints: the forms of requests, and their rejection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from support import misbehaving as mis
from support.choosing import FORMS, FREE, choosing
from support.misbehaving import Behaviour, MisbehavingServer
from tiltmeter.models import Message, ModelError, Sampling, create_model
from tiltmeter.models._base import ALLOWED

LIST = ["no", "yes", "refuse"]


def asked(prompt: str) -> list[Message]:
    return [Message("user", prompt), Message(ALLOWED, json.dumps(LIST))]


async def answers(server: MisbehavingServer, *prompts: str, **sampling: Any) -> list[str | None]:
    async with create_model("compatible/m", base_url=server.url) as model:
        return [(await model.complete(asked(prompt), Sampling(**sampling), 0)).text for prompt in prompts]


def forms(server: MisbehavingServer) -> list[tuple[str, ...]]:
    """The forms of the requests, in order."""
    return [tuple(name for name in FORMS if name in body) for body in server.bodies]


def is_choice(text: str | None) -> bool:
    return text is not None and json.loads(text)["answer"] in LIST


async def test_the_answers_are_sent_as_a_schema_and_not_as_a_message() -> None:
    with choosing("response_format") as server:
        texts = await answers(server, "Who?", "Why?")
    assert all(map(is_choice, texts))
    assert forms(server) == [("response_format",)] * 2
    assert all([turn["role"] for turn in body["messages"]] == ["user"] for body in server.bodies)
    schema = server.bodies[0]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["answer"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    "accepted", [("structured_outputs", "guided_choice"), ("guided_choice",), ("structured_outputs",)]
)
async def test_a_rejected_form_costs_one_request(
    accepted: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with choosing(*accepted) as server:
        texts = await answers(server, "Who?", "Why?", "When?")
    assert all(map(is_choice, texts))
    assert forms(server)[-3:] == [accepted] * 3
    assert server.requests == 3 + 1 + (len(accepted) == 1)
    assert set(server.paid.values()) == {1}
    assert all(f"compatible/m does not accept {form}" in caplog.text for form in set(FORMS) - set(accepted))


@pytest.mark.parametrize("ignored", ["guided_choice", "structured_outputs"])
async def test_every_version_of_a_choice_is_sent(ignored: str) -> None:
    accepted = "structured_outputs" if ignored == "guided_choice" else "guided_choice"
    with choosing(accepted, ignored=(ignored,)) as server:
        assert is_choice(*await answers(server, "Who?"))
    assert server.requests == 2


def bad(message: str, code: int = 400) -> Callable[[str], Behaviour]:
    return lambda name: mis.status(
        code, body={"error": {"message": message.format(name=name), "type": "invalid_request_error"}}
    )


REJECTIONS = {
    "unknown fields": bad(
        "[{{'type': 'extra_forbidden', 'loc': ('body', '{name}'), 'msg': 'Extra inputs are not permitted'}}]"
    ),
    "no schemas": bad("This model does not support json_schema"),
    "no grammar": bad("Failed to parse grammar", 422),
    "no constraints": lambda name: mis.status(
        422, body={"detail": [{"loc": ["body", name, "type"], "msg": "Input should be 'text'"}]}
    ),
}


@pytest.mark.parametrize("rejects", REJECTIONS.values(), ids=REJECTIONS)
async def test_an_endpoint_that_rejects_every_form_answers_freely(
    rejects: Callable[[str], Behaviour], caplog: pytest.LogCaptureFixture
) -> None:
    with choosing(rejects=rejects, free="yes") as server:
        assert await answers(server, "Who?", "Why?", max_tokens=5, seed=3) == ["yes", "yes"]
    assert forms(server)[-2:] == [(), ()]
    assert server.requests <= 2 + 3
    for form in FORMS:
        assert (
            caplog.text.count(
                f"compatible/m does not accept {form}; it is omitted (it was a list of allowed answers)"
            )
            == 1
        )


async def test_an_ignored_schema_gives_a_free_answer() -> None:
    with choosing(ignored=FORMS, free="yes") as server:
        assert await answers(server, "Who?") == ["yes"]
    assert server.requests == 1


async def test_many_at_once_find_the_form_without_paying_twice() -> None:
    with choosing("guided_choice") as server:
        async with create_model("compatible/m", base_url=server.url) as model:
            completions = await asyncio.gather(
                *(model.complete(asked(str(n)), Sampling(), 0) for n in range(40))
            )
    assert all(is_choice(completion.text) for completion in completions)
    assert (set(server.paid.values()), len(server.paid)) == ({1}, 40)


async def test_forms_and_parameters_are_rejected_independently() -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        declined = ("max_tokens", "temperature", "top_p", "seed", *FORMS)
        return next((mis.unsupported(name) for name in declined if name in request), FREE)

    with MisbehavingServer(script) as server:
        assert await answers(server, "Who?", temperature=1, top_p=1, seed=1, max_tokens=9) == [FREE]
    assert server.requests == 8


@pytest.mark.parametrize("behaviour", [mis.context_too_long(), mis.wrong_key(), mis.server_error(500)])
async def test_other_errors_are_not_taken_for_a_rejection(behaviour: Behaviour) -> None:
    with MisbehavingServer(lambda request, nth: behaviour) as server, pytest.raises(ModelError):
        await answers(server, "Who?")
    assert forms(server) == [("response_format",)]


async def test_a_filtered_prompt_is_a_refusal_and_not_a_rejection() -> None:
    with MisbehavingServer(lambda request, nth: mis.filtered_request()) as server:
        assert await answers(server, "Who?") == [None]
    assert server.requests == 1


async def test_a_schema_of_the_user_takes_precedence() -> None:
    schema = {"type": "json_object"}
    with MisbehavingServer(lambda request, nth: "{}") as server:
        await answers(server, "Who?", extra={"response_format": schema})
    assert server.bodies[0]["response_format"] == schema
