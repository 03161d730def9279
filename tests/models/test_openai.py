"""OpenAI-compatible endpoints: what differs from one to the next."""

from __future__ import annotations

import asyncio
import email.utils
import time
from typing import Any

import pytest

from support import misbehaving as mis
from support.misbehaving import Behaviour, MisbehavingServer
from tiltmeter.errors import InputError
from tiltmeter.models import Completion, Message, ModelError, Sampling, create_model


@pytest.fixture(autouse=True)
def _no_endpoints_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "TILTMETER_BASE_URL", "TILTMETER_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def ask(server: MisbehavingServer, sampling: Sampling | None = None, sample: int = 0, spec: str = "openai/m") -> Completion:
    async with create_model(spec, base_url=server.url) as model:
        return await model.complete([Message("user", "Who?")], sampling or Sampling(), sample)


async def answer_to(behaviour: Behaviour) -> Completion:
    with MisbehavingServer(lambda request, nth: behaviour) as server:
        return await ask(server)


async def failure_of(behaviour: Behaviour, sampling: Sampling | None = None) -> ModelError:
    with MisbehavingServer(lambda request, nth: behaviour) as server, pytest.raises(ModelError) as caught:
        await ask(server, sampling)
    return caught.value


def choice(message: dict[str, Any], finish_reason: str | None = "stop", **more: Any) -> Behaviour:
    return mis.status(200, body={"choices": [{"message": message, "finish_reason": finish_reason}], **more})


class Picky:
    """An endpoint that declines some parameters by name, in OpenAI's words."""

    def __init__(self, **declined: str | None) -> None:
        self.declined = declined

    def __call__(self, request: dict[str, Any], nth: int) -> Behaviour | str:
        for name, instead in self.declined.items():
            if name in request:
                return mis.unsupported(name, instead)
        return "ok"


async def test_the_length_limit_is_sent_under_the_name_the_endpoint_takes_and_remembered() -> None:
    with MisbehavingServer(Picky(max_tokens="max_completion_tokens")) as server:
        async with create_model("compatible/m", base_url=server.url) as model:
            for _ in range(3):
                await model.complete([Message("user", "Who?")], Sampling(max_tokens=9), 0)
    assert [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in server.bodies] == [
        (9, None),
        (None, 9),
        (None, 9),
        (None, 9),
    ]
    assert server.paid == {"Who?": 3}


async def test_openai_itself_is_sent_the_new_name_first() -> None:
    with MisbehavingServer(Picky(max_completion_tokens="max_tokens")) as server:
        await ask(server, Sampling(max_tokens=9))
    assert [("max_completion_tokens" in body, "max_tokens" in body) for body in server.bodies] == [(True, False), (False, True)]


async def test_an_endpoint_that_takes_neither_name_fails_once_and_for_all() -> None:
    with MisbehavingServer(Picky(max_completion_tokens=None, max_tokens=None)) as server, pytest.raises(ModelError) as caught:
        await ask(server, Sampling(max_tokens=9))
    assert caught.value.kind == "bad_request"
    assert server.requests == 2


async def test_defaults_and_seeds_a_model_does_not_take_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with MisbehavingServer(Picky(temperature=None, top_p=None, seed=None, max_completion_tokens="max_tokens")) as server:
        completion = await ask(server, Sampling(temperature=1.0, top_p=1.0, seed=5, max_tokens=3))
    assert completion.text == "ok"
    assert set(server.bodies[-1]) == {"model", "messages", "max_tokens"}
    assert server.paid == {"Who?": 1}
    assert "does not take seed; it is left out (it was 5)" in caplog.text


async def test_a_temperature_that_would_change_the_measurement_is_never_dropped_silently() -> None:
    with MisbehavingServer(Picky(temperature=None)) as server, pytest.raises(ModelError) as caught:
        await ask(server, Sampling(temperature=0.2))
    assert caught.value.scope == "fatal"
    assert "openai/m does not take temperature 0.2" in caught.value.detail
    assert "-M temperature=default" in caught.value.detail


async def test_many_at_once_adapt_without_paying_twice() -> None:
    with MisbehavingServer(Picky(max_completion_tokens="max_tokens", temperature=None)) as server:
        async with create_model("openai/m", base_url=server.url) as model:
            sampling = Sampling(max_tokens=9, temperature=1)
            await asyncio.gather(*(model.complete([Message("user", str(n))], sampling, 0) for n in range(40)))
    assert set(server.paid.values()) == {1}
    assert len(server.paid) == 40


async def test_a_400_about_a_value_is_not_adapted_to() -> None:
    said = {"error": {"message": "max_tokens is too large: 9", "code": "invalid_value", "param": "max_completion_tokens"}}
    error = await failure_of(mis.status(400, body=said), Sampling(max_tokens=9))
    assert (error.kind, error.scope) == ("bad_request", "permanent")


async def test_repetitions_have_seeds_of_their_own() -> None:
    with MisbehavingServer() as server:
        for sample in (0, 3):
            await ask(server, Sampling(seed=100), sample)
    assert [body["seed"] for body in server.bodies] == [100, 103]


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"Retry-After": "1.5"}, 1.5, 1.5),
        ({"Retry-After": "9", "retry-after-ms": "250"}, 0.25, 0.25),
        ({"Retry-After": "in an hour"}, 3500, 3600),
        ({"Retry-After": email.utils.formatdate(0, usegmt=True)}, 0, 0),
    ],
)
async def test_the_wait_an_endpoint_asks_for(headers: dict[str, str], low: float, high: float) -> None:
    # Written now: the parameters are made when the tests are collected, minutes before this one runs.
    dates = {"in an hour": email.utils.formatdate(time.time() + 3600, usegmt=True)}
    headers = {name: dates.get(value, value) for name, value in headers.items()}
    error = await failure_of(mis.status(429, headers))
    assert error.retry_after is not None
    assert low <= error.retry_after <= high


@pytest.mark.parametrize("said", ["soon", "nan", "inf", ""])
async def test_a_wait_that_is_nonsense_is_none(said: str) -> None:
    assert (await failure_of(mis.status(503, {"Retry-After": said}))).retry_after is None


async def test_charset_and_halves_of_surrogate_pairs() -> None:
    assert (await answer_to(mis.wrong_charset("Zoë", "ascii"))).text == "Zoë"
    assert (await answer_to(mis.wrong_charset("Zoë", "no-such-charset"))).text == "Zoë"
    cut_emoji = rb'{"choices":[{"finish_reason":"length","message":{"content":"ab\ud83d"}}]}'
    assert (await answer_to(mis.status(200, body=cut_emoji))).text == "ab\ufffd"


async def test_deeply_nested_json_is_a_bad_response() -> None:
    assert (await failure_of(mis.status(200, body=b"[" * 100_000))).kind == "bad_response"


async def test_content_in_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "A"},
        {"type": "text", "text": "B"},
    ]
    completion = await answer_to(choice({"content": parts}))
    assert (completion.text, completion.thinking) == ("AB", "hm")


async def test_reasoning_beside_and_inside_are_both_kept() -> None:
    completion = await answer_to(choice({"content": "<think>two</think>A", "reasoning": "one"}))
    assert (completion.text, completion.thinking) == ("A", "one\ntwo")


async def test_thinking_that_used_up_the_tokens_leaves_no_answer() -> None:
    completion = await answer_to(choice({"content": None, "reasoning_content": "and so on"}, "length"))
    assert (completion.text, completion.thinking, completion.finish_reason) == (None, "and so on", "length")
    completion = await answer_to(choice({"content": "<think>and so on"}, "length"))
    assert (completion.text, completion.thinking) == ("", "and so on")


async def test_neither_text_nor_reason_is_a_bad_response() -> None:
    assert (await failure_of(choice({"content": None}, None))).kind == "bad_response"
    assert (await answer_to(choice({"content": "A"}, None))).text == "A"


async def test_what_a_filter_left_of_an_answer_is_kept_with_the_refusal() -> None:
    completion = await answer_to(mis.content_filter("So far"))
    assert (completion.text, completion.refusal) == ("So far", "content_filter")


@pytest.mark.parametrize(
    "usage", [None, [], {"prompt_tokens": "3"}, {"prompt_tokens": -1}, {"prompt_tokens": 10**30}, {"prompt_tokens": 1.5}]
)
async def test_nonsense_about_tokens_is_no_count(usage: object) -> None:
    assert (await answer_to(choice({"content": "A"}, usage=usage))).input_tokens is None


async def test_errors_inside_a_200_are_errors() -> None:
    assert (await failure_of(mis.status(200, body={"error": {"code": 429, "message": "later"}}))).kind == "rate_limit"
    assert (await failure_of(mis.status(200, body={"error": {"message": "upstream"}}))).kind == "bad_response"
    assert (await failure_of(choice({"content": "half"}, "error"))).kind == "server"


async def test_a_moderated_prompt_is_a_refusal_not_a_wrong_key() -> None:
    said = {"error": {"code": 403, "message": "Input was flagged", "metadata": {"reasons": ["hate"], "flagged_input": "Who?"}}}
    completion = await answer_to(mis.status(403, body=said))
    assert (completion.text, completion.refusal) == (None, "Input was flagged")


async def test_gemini_says_wrong_key_with_400_in_a_list() -> None:
    said = b'[{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}]'
    error = await failure_of(mis.status(400, body=said))
    assert (error.kind, error.scope) == ("auth", "fatal")


async def test_a_redirect_is_named_and_not_followed() -> None:
    error = await failure_of(mis.status(308, {"Location": "https://elsewhere.example/v1/chat?key=secret"}))
    assert (error.kind, error.scope) == ("not_found", "fatal")
    assert "https://elsewhere.example/v1/chat: give that" in error.detail
    assert "secret" not in error.detail


async def test_an_html_page_is_reduced_to_its_title() -> None:
    detail = (await failure_of(mis.html_error_page(502))).detail
    assert "an HTML page titled '502 Bad Gateway'" in detail
    assert "lorem" not in detail


async def test_an_unknown_host_is_a_connection_error() -> None:
    async with create_model("compatible/m", base_url="http://no-such-host.invalid/v1") as model:
        with pytest.raises(ModelError) as caught:
            await model.complete([Message("user", "Who?")], Sampling(), 0)
    assert (caught.value.kind, caught.value.scope) == ("connection", "transient")


async def test_cookies_are_not_kept() -> None:
    with MisbehavingServer(lambda request, nth: mis.answer("ok", headers={"Set-Cookie": "who=me"})) as server:
        async with create_model("openai/m", base_url=server.url) as model:
            for _ in range(2):
                await model.complete([Message("user", "Who?")], Sampling(), 0)
    assert "cookie" not in server.headers[1]


def test_base_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    assert create_model("ollama/llama3.2").fingerprint == "ollama/llama3.2@http://127.0.0.1:11434/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")
    model = create_model("openai/org/m")
    assert (model.fingerprint, model.endpoint) == ("openai/org/m@http://127.0.0.1:9/v1", "http://127.0.0.1:9")
    assert create_model("openai/m", base_url="https://gate.example/x").endpoint == "https://gate.example"
    with pytest.raises(InputError, match=r"needs --base-url .*TILTMETER_BASE_URL"):
        create_model("compatible/m")


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "ftp://host/v1",
        "http://",
        "http://host:99999/v1",
        "http://me:geheim@host/v1",
        "http://host/v1?key=geheim",
        "nonsense",
    ],
)
def test_base_urls_that_are_none(url: str) -> None:
    with pytest.raises(InputError, match="base URL") as caught:
        create_model("compatible/m", base_url=url)
    assert "geheim" not in str(caught.value)


async def test_a_proxy_from_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with MisbehavingServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.root)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with create_model("compatible/m", base_url="http://model.example/v1") as model:
            completion = await model.complete([Message("user", "Who?")], Sampling(), 0)
    assert completion.text == "ok"
    assert proxy.headers[0]["host"] == "model.example"


async def test_an_answer_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiltmeter.models.http.LARGEST_BODY", 1 << 20)
    failure = await failure_of(mis.huge_body(4.0))
    assert (failure.kind, failure.scope) == ("bad_response", "transient")
    assert "sent an answer of more than 1 MiB" in failure.detail
