"""The contract of every provider that asks a server: one suite, run for each against a real server."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from support import misbehaving as mis
from support.misbehaving import Behaviour, MisbehavingServer
from tiltmeter.errors import ProviderError
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling, create_model

KEY = "sk-geheim-0123456789abcdef"
with_any_llm = pytest.mark.skipif(find_spec("any_llm") is None, reason="any-llm is not installed")
PROVIDERS = ["openai/m", "compatible/org/m", "anthropic/m", pytest.param("any/openai:m", marks=with_any_llm)]
KEY_VARIABLES = ("OPENAI_API_KEY", "TILTMETER_API_KEY", "ANTHROPIC_API_KEY")

Make = Callable[[MisbehavingServer], Model]


@pytest.fixture(params=PROVIDERS)
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    spec: str = request.param
    for variable in KEY_VARIABLES:
        monkeypatch.setenv(variable, KEY)
    return lambda server: create_model(spec, base_url=server.url)


async def ask(model: Model, prompt: str = "Who?", system: str | None = None, **sampling: Any) -> Completion:
    messages = [Message("system", system)] if system else []
    return await model.complete([*messages, Message("user", prompt)], Sampling(**sampling), 0)


async def outcome(make: Make, behaviour: Behaviour | str) -> Completion | ModelError:
    with MisbehavingServer(lambda request, nth: behaviour) as server:
        async with make(server) as model:
            try:
                return await ask(model)
            except ModelError as error:
                return error
            finally:
                assert server.requests == 1, "one request, the engine retries"


async def answer(make: Make, behaviour: Behaviour | str) -> Completion:
    completion = await outcome(make, behaviour)
    assert isinstance(completion, Completion), completion
    return completion


async def test_an_answer_and_what_it_cost(make: Make) -> None:
    with MisbehavingServer(lambda request, nth: "Unknown — \u2028 nïemand 🙂") as server:
        async with make(server) as model:
            assert isinstance(model, Model)
            completion = await ask(
                model, "Who is it?", "Be brief.", temperature=0.5, top_p=0.9, max_tokens=7, stop=("END",)
            )
    served = server.bodies[0]["model"]
    expected = Completion(
        text="Unknown — \u2028 nïemand 🙂",
        finish_reason="stop",
        refusal=None,
        thinking=None,
        input_tokens=3,
        output_tokens=completion.output_tokens,
        latency=completion.latency,
        served_model=served,
    )
    assert completion == expected
    assert completion.output_tokens is not None
    assert 0 < completion.latency < 10
    assert server.paid == {"Who is it?": 1}
    sent = server.bodies[0]
    assert (sent["model"], sent["temperature"], sent["top_p"]) == (
        model.name.rpartition(":")[2].partition("/")[2] or "m",
        0.5,
        0.9,
    )
    assert 7 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert ["END"] in (sent.get("stop"), sent.get("stop_sequences"))
    assert sent.get("system", sent["messages"][0]["content"]) == "Be brief."


async def test_nothing_is_sent_that_was_not_asked_for(make: Make) -> None:
    with MisbehavingServer() as server:
        async with make(server) as model:
            await ask(model)
    assert set(server.bodies[0]) - {"max_tokens", "stream"} == {"model", "messages"}


async def test_vendor_extras_are_passed_on(make: Make) -> None:
    with MisbehavingServer() as server:
        async with make(server) as model:
            extra = (
                {"reasoning_effort": "low"}
                if model.name.startswith("any/")
                else {"top_k": 20, "vendor": {"a": [1]}}
            )
            await ask(model, extra=extra)
    assert server.bodies[0].items() >= extra.items()


FAILURES = {
    "rate_limited": (mis.rate_limited(2), "rate_limit", "transient", 429),
    "quota": (mis.insufficient_quota(), "quota", "fatal", 429),
    "overloaded": (mis.server_error(503), "overloaded", "transient", 503),
    "overloaded529": (mis.server_error(529), "overloaded", "transient", 529),
    "server_error": (mis.server_error(), "server", "transient", 500),
    "html_502": (mis.html_error_page(502), "server", "transient", 502),
    "conflict": (mis.server_error(409), "server", "transient", 409),
    "wrong_key": (mis.wrong_key(), "auth", "fatal", 401),
    "forbidden": (mis.status(403, body={"error": {"message": "no"}}), "auth", "fatal", 403),
    "unknown_model": (mis.unknown_model(), "not_found", "fatal", 404),
    "bad_request": (
        mis.status(400, body={"error": {"message": "no such thing"}}),
        "bad_request",
        "permanent",
        400,
    ),
    "context_too_long": (mis.context_too_long(), "context_length", "permanent", 400),
    "no_credit": (
        mis.status(402, body={"error": {"message": "Insufficient credits"}}),
        "quota",
        "fatal",
        402,
    ),
    "reset": (mis.reset(), "connection", "transient", None),
    "reset_in_body": (mis.reset(0.5), "connection", "transient", None),
    "truncated_json": (mis.truncated_json(), "bad_response", "transient", 200),
    "invalid_json": (mis.invalid_json(), "bad_response", "transient", 200),
    "html_200": (mis.html_error_page(200), "bad_response", "transient", 200),
    "empty_choices": (mis.empty_choices(), "bad_response", "transient", 200),
    "not_an_object": (mis.status(200, body=b"[1]"), "bad_response", "transient", 200),
    "context_as_500": (
        mis.status(500, body={"error": {"message": "exceeds the available context size"}}),
        "context_length",
        "permanent",
        500,
    ),
    "nothing": (mis.status(200), "bad_response", "transient", 200),
    "undecodable": (mis.wrong_charset(undecodable=True), "bad_response", "transient", 200),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_failures_have_a_kind_and_a_scope(make: Make, case: str) -> None:
    behaviour, kind, scope, status = FAILURES[case]
    error = await outcome(make, behaviour)
    assert isinstance(error, ModelError), error
    assert (error.kind, error.scope) == (kind, scope), error
    assert error.status in (status, None)  # what comes through any-llm may have lost it
    assert error.retry_after == (2.0 if case == "rate_limited" else None)
    assert len(error.detail) < 400
    assert error.detail.isprintable()


async def test_a_refused_connection_is_transient(make: Make) -> None:
    with MisbehavingServer() as server:
        pass  # it is gone now
    async with make(server) as model:
        with pytest.raises(ModelError) as caught:
            await ask(model)
    assert (caught.value.kind, caught.value.scope, caught.value.status) == ("connection", "transient", None)


async def test_a_rejected_system_message_is_put_before_the_prompt(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        has_system = "system" in request or request["messages"][0]["role"] == "system"
        return (
            mis.status(400, body={"error": {"message": "System role not supported"}}) if has_system else "No"
        )

    with MisbehavingServer(script) as server:
        async with make(server) as model:
            assert [(await ask(model, system="Be brief.")).text for _ in range(2)] == ["No", "No"]
    assert [body["messages"] for body in server.bodies][1:] == [
        [{"role": "user", "content": "Be brief.\n\nWho?"}]
    ] * 2
    assert caplog.text.count("does not accept a system message; its text is put before the prompt") == 1


@pytest.mark.parametrize(
    "behaviour",
    [mis.refusal("I won't."), mis.content_filter(), mis.filtered_request()],
    ids=["field", "finish", "400"],
)
async def test_a_refusal_by_the_endpoint_is_an_answer(make: Make, behaviour: Behaviour) -> None:
    completion = await answer(make, behaviour)
    assert completion.refusal
    assert completion.finish_reason in ("content_filter", "stop")


@pytest.mark.parametrize(
    ("behaviour", "remaining"),
    [
        (mis.null_content("stop"), {"text": None, "finish_reason": "stop", "refusal": None}),
        ("", {"text": ""}),
        (mis.length("It was"), {"text": "It was", "finish_reason": "length"}),
        (mis.think("let me see", "A"), {"text": "A", "thinking": "let me see"}),
        (mis.reasoning("let me see", "A"), {"text": "A", "thinking": "let me see"}),
    ],
    ids=["null", "empty", "cut", "thinking in tags", "thinking beside"],
)
async def test_an_answer_is_kept_as_it_is_and_thinking_apart(
    make: Make, behaviour: Behaviour | str, remaining: dict[str, str | None]
) -> None:
    completion = await answer(make, behaviour)
    assert {name: getattr(completion, name) for name in remaining} == remaining


async def test_a_slow_answer_may_be_cancelled_and_the_model_used_on(make: Make) -> None:
    with MisbehavingServer(lambda request, nth: mis.hang() if nth == 1 else "late") as server:
        async with make(server) as model:
            first = asyncio.create_task(ask(model))
            while not server.requests:
                await asyncio.sleep(0.01)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert (await ask(model)).text == "late"


def test_a_model_may_be_entered_again_in_another_loop(make: Make) -> None:
    with MisbehavingServer() as server:
        model = make(server)

        async def once() -> str | None:
            async with model:
                return (await ask(model)).text

        assert [asyncio.run(once()), asyncio.run(once())] == ["ok", "ok"]


async def test_many_requests_at_once_have_their_own_answers(make: Make) -> None:
    with MisbehavingServer(lambda request, nth: mis.slow(0.3)) as server:
        async with make(server) as model:
            await asyncio.gather(*(ask(model, str(number)) for number in range(60)))
    assert (server.max_concurrent, set(server.paid.values())) == (60, {1})


async def test_the_key_goes_to_the_server_and_nowhere_else(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tiltmeter")
    header = mis.status(400, body={"error": {"message": f"bad header Bearer {KEY}"}})
    leaks = [mis.wrong_key(KEY), header, mis.status(500, body=f"<html>{KEY}</html>")]
    leaks += [mis.status(200, body=f"debug: {KEY}"), mis.reset(), mis.status(404, body={"detail": KEY})]
    with MisbehavingServer(lambda request, nth: leaks[nth - 1]) as server:
        async with make(server) as model:
            assert KEY not in f"{model!r} {model} {model.name} {model.fingerprint} {model.endpoint}"
            for _ in leaks:
                with pytest.raises(ModelError) as caught:
                    await ask(model)
                message = (
                    "".join(traceback.format_exception(caught.value))
                    + caught.value.detail
                    + repr(caught.value)
                )
                assert KEY not in message
    assert KEY not in caplog.text
    assert any(KEY in value for value in server.headers[0].values())


async def test_the_fingerprint_tells_models_and_places_apart(make: Make) -> None:
    with MisbehavingServer() as first, MisbehavingServer() as second:
        assert make(first).fingerprint == make(first).fingerprint != make(second).fingerprint
        assert make(first).endpoint != make(second).endpoint


async def test_asking_before_entering_is_a_mistake_in_the_program(make: Make) -> None:
    with MisbehavingServer() as server, pytest.raises(RuntimeError, match="entered"):
        await ask(make(server))


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        ("openai/m", "OPENAI_API_KEY"),
        ("anthropic/m", "ANTHROPIC_API_KEY"),
        ("groq/m", "GROQ_API_KEY"),
        pytest.param("any/openai:m", "OPENAI_API_KEY", marks=with_any_llm),
    ],
)
def test_a_missing_key_is_one_sentence_that_names_the_variable(
    spec: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ProviderError, match=f"set the environment variable {variable}"):
        create_model(spec)


def test_a_key_that_cannot_be_one_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-clé\nX: y")
    with pytest.raises(ProviderError, match="OPENAI_API_KEY contains invalid characters") as caught:
        create_model("openai/m")
    assert "clé" not in str(caught.value)
