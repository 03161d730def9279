"""OpenAI-compatible endpoints and their differences."""

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
    for name in (
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "TILTMETER_BASE_URL",
        "TILTMETER_API_KEY",
        "OLLAMA_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)


async def ask(
    server: MisbehavingServer, spec: str = "openai/m", times: int = 1, **sampling: Any
) -> Completion:
    """Ask `times` times and return the last answer."""
    async with create_model(spec, base_url=server.url) as model:
        return [
            await model.complete([Message("user", "Who?")], Sampling(**sampling), 0) for _ in range(times)
        ][-1]


async def failure_of(behaviour: Behaviour, **sampling: Any) -> ModelError:
    with MisbehavingServer(lambda request, nth: behaviour) as server, pytest.raises(ModelError) as caught:
        await ask(server, **sampling)
    return caught.value


def choice(message: dict[str, Any], finish_reason: str | None = "stop", **more: Any) -> Behaviour:
    return mis.status(200, body={"choices": [{"message": message, "finish_reason": finish_reason}], **more})


def picky(**declined: str | None) -> MisbehavingServer:
    """An endpoint that declines some parameters by name, in OpenAI's words."""

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return next(
            (mis.unsupported(name, instead) for name, instead in declined.items() if name in request), "ok"
        )

    return MisbehavingServer(script)


async def test_the_length_limit_is_sent_under_the_name_the_endpoint_takes_and_remembered() -> None:
    with picky(max_tokens="max_completion_tokens") as server:
        await ask(server, "compatible/m", times=3, max_tokens=9)
    sent = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in server.bodies]
    assert (sent, server.paid) == ([(9, None), (None, 9), (None, 9), (None, 9)], {"Who?": 3})


async def test_openai_itself_is_sent_the_new_name_first() -> None:
    with picky(max_completion_tokens="max_tokens") as server:
        await ask(server, max_tokens=9)
    assert [("max_completion_tokens" in body, "max_tokens" in body) for body in server.bodies] == [
        (True, False),
        (False, True),
    ]


async def test_an_endpoint_that_takes_neither_name_fails_once_and_for_all() -> None:
    with picky(max_completion_tokens=None, max_tokens=None) as server, pytest.raises(ModelError) as caught:
        await ask(server, max_tokens=9)
    assert (caught.value.kind, server.requests) == ("bad_request", 2)


async def test_defaults_and_seeds_a_model_does_not_take_are_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with picky(temperature=None, top_p=None, seed=None, max_completion_tokens="max_tokens") as server:
        assert (await ask(server, temperature=1.0, top_p=1.0, seed=5, max_tokens=3)).text == "ok"
    assert set(server.bodies[-1]) == {"model", "messages", "max_tokens", "stream"}
    assert server.paid == {"Who?": 1}
    assert "does not accept seed; it is omitted (it was 5)" in caplog.text


async def test_a_temperature_that_would_change_the_measurement_is_never_dropped_silently() -> None:
    with picky(temperature=None) as server, pytest.raises(ModelError) as caught:
        await ask(server, temperature=0.2)
    assert caught.value.scope == "fatal"
    assert "openai/m does not accept temperature 0.2" in caught.value.detail
    assert "-M temperature=default" in caught.value.detail


async def test_many_at_once_adapt_without_paying_twice() -> None:
    with picky(max_completion_tokens="max_tokens", temperature=None) as server:
        async with create_model("openai/m", base_url=server.url) as model:
            sampling = Sampling(max_tokens=9, temperature=1)
            await asyncio.gather(*(model.complete([Message("user", str(n))], sampling, 0) for n in range(40)))
    assert (set(server.paid.values()), len(server.paid)) == ({1}, 40)


async def test_repetitions_have_seeds_of_their_own() -> None:
    with MisbehavingServer() as server:
        async with create_model("openai/m", base_url=server.url) as model:
            for sample in (0, 3):
                await model.complete([Message("user", "Who?")], Sampling(seed=100), sample)
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
async def test_the_wait_that_an_endpoint_asks_for_is_read(
    headers: dict[str, str], low: float, high: float
) -> None:
    # Written now: the parameters are made when the tests are collected, minutes before this one runs.
    dates = {"in an hour": email.utils.formatdate(time.time() + 3600, usegmt=True)}
    headers = {name: dates.get(value, value) for name, value in headers.items()}
    error = await failure_of(mis.status(429, headers))
    assert error.retry_after is not None
    assert low <= error.retry_after <= high


@pytest.mark.parametrize("message", ["soon", "nan", "inf", ""])
async def test_a_wait_that_is_nonsense_is_none(message: str) -> None:
    assert (await failure_of(mis.status(503, {"Retry-After": message}))).retry_after is None


CUT_EMOJI = rb'{"choices":[{"finish_reason":"length","message":{"content":"ab\ud83d"}}]}'
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
FLAGGED = {
    "error": {
        "code": 403,
        "message": "Input was flagged",
        "metadata": {"reasons": ["hate"], "flagged_input": "Who?"},
    }
}
NONSENSE: list[Any] = [
    None,
    [],
    {"prompt_tokens": "3"},
    {"prompt_tokens": -1},
    {"prompt_tokens": 10**30},
    {"prompt_tokens": 1.5},
]
ANSWERS: dict[str, tuple[Behaviour, dict[str, Any]]] = {
    "a wrong charset": (mis.wrong_charset("Zoë", "ascii"), {"text": "Zoë"}),
    "an unknown charset": (mis.wrong_charset("Zoë", "no-such-charset"), {"text": "Zoë"}),
    "half of a surrogate pair": (mis.status(200, body=CUT_EMOJI), {"text": "ab\ufffd"}),
    "content in parts": (
        choice({"content": [THINKING, {"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}),
        {"text": "AB", "thinking": "hm"},
    ),
    "reasoning beside and inside": (
        choice({"content": "<think>two</think>A", "reasoning": "one"}),
        {"text": "A", "thinking": "one\ntwo"},
    ),
    "thinking that used up the tokens": (
        choice({"content": None, "reasoning_content": "and so on"}, "length"),
        {"text": None, "thinking": "and so on", "finish_reason": "length"},
    ),
    "thinking that is cut": (
        choice({"content": "<think>and so on"}, "length"),
        {"text": "", "thinking": "and so on"},
    ),
    "text without a reason": (choice({"content": "A"}, None), {"text": "A"}),
    "what a filter left": (mis.content_filter("So far"), {"text": "So far", "refusal": "content_filter"}),
    "a moderated prompt": (mis.status(403, body=FLAGGED), {"text": None, "refusal": "Input was flagged"}),
    **{
        f"tokens {usage}": (choice({"content": "A"}, usage=usage), {"text": "A", "input_tokens": None})
        for usage in NONSENSE
    },
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_fields_of_an_answer_are_kept(case: str) -> None:
    behaviour, expected = ANSWERS[case]
    with MisbehavingServer(lambda request, nth: behaviour) as server:
        completion = await ask(server)
    assert {name: getattr(completion, name) for name in expected} == expected


BAD_KEY = (
    b'[{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", '
    b'"status": "INVALID_ARGUMENT"}}]'
)
TOO_LARGE = {
    "error": {
        "message": "max_tokens is too large: 9",
        "code": "invalid_value",
        "param": "max_completion_tokens",
    }
}
FAILURES = {
    "deeply nested JSON": (mis.status(200, body=b"[" * 100_000), "bad_response", "transient", ""),
    "neither text nor reason": (choice({"content": None}, None), "bad_response", "transient", ""),
    "a limit inside a 200": (
        mis.status(200, body={"error": {"code": 429, "message": "later"}}),
        "rate_limit",
        "transient",
        "",
    ),
    "an error inside a 200": (
        mis.status(200, body={"error": {"message": "upstream"}}),
        "bad_response",
        "transient",
        "",
    ),
    "an answer that ends with an error": (choice({"content": "half"}, "error"), "server", "transient", ""),
    "a 400 about a value": (mis.status(400, body=TOO_LARGE), "bad_request", "permanent", ""),
    "Gemini's wrong key": (mis.status(400, body=BAD_KEY), "auth", "fatal", ""),
    "a redirect": (
        mis.status(308, {"Location": "https://elsewhere.example/v1/chat/completions?key=secret"}),
        "not_found",
        "fatal",
        "https://elsewhere.example/v1/chat/completions: use https://elsewhere.example/v1 as base URL",
    ),
    "an HTML page": (
        mis.html_error_page(502),
        "server",
        "transient",
        "an HTML page titled '502 Bad Gateway'",
    ),
    "an answer without end": (
        mis.huge_body(4.0),
        "bad_response",
        "transient",
        "sent an answer of more than 1 MiB",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_failure_has_kind_scope_and_message(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiltmeter.models._http.LARGEST_BODY", 1 << 20)
    behaviour, kind, scope, message = FAILURES[case]
    error = await failure_of(behaviour, max_tokens=9)
    assert (error.kind, error.scope) == (kind, scope)
    assert message in error.detail
    assert not any(words in error.detail for words in ("secret", "lorem"))


async def test_an_unknown_host_is_a_connection_error() -> None:
    async with create_model("compatible/m", base_url="http://no-such-host.invalid/v1") as model:
        with pytest.raises(ModelError) as caught:
            await model.complete([Message("user", "Who?")], Sampling(), 0)
    assert (caught.value.kind, caught.value.scope) == ("connection", "transient")


async def test_cookies_are_not_kept() -> None:
    with MisbehavingServer(lambda request, nth: mis.answer("ok", headers={"Set-Cookie": "who=me"})) as server:
        await ask(server, times=2)
    assert "cookie" not in server.headers[1]


def test_the_base_url_is_that_of_the_user_or_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    assert create_model("ollama/llama3.2").fingerprint == "ollama/llama3.2@http://127.0.0.1:11434/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")
    model = create_model("openai/org/m")
    assert (model.fingerprint, model.endpoint) == ("openai/org/m@http://127.0.0.1:9/v1", "http://127.0.0.1:9")
    assert create_model("openai/m", base_url="https://gate.example/x").endpoint == "https://gate.example"
    with pytest.raises(InputError, match=r"needs --base-url .*TILTMETER_BASE_URL"):
        create_model("compatible/m")


BAD_URLS = [
    "127.0.0.1:8000",
    "ftp://host/v1",
    "http://",
    "http://host:99999/v1",
    "http://me:geheim@host/v1",
    "nonsense",
]


@pytest.mark.parametrize("url", [*BAD_URLS, "http://host/v1?key=geheim"])
def test_texts_that_are_no_base_url_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="base URL") as caught:
        create_model("compatible/m", base_url=url)
    assert "geheim" not in str(caught.value)


async def test_a_proxy_from_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with MisbehavingServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.root)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with create_model("compatible/m", base_url="http://model.example/v1") as model:
            completion = await model.complete([Message("user", "Who?")], Sampling(), 0)
    assert (completion.text, proxy.headers[0]["host"]) == ("ok", "model.example")
