"""Messages of endpoints: they reach the user, and decide how the request is repeated."""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support import misbehaving as mis
from support.misbehaving import Behaviour, MisbehavingServer, prompt_of
from tiltmeter._sanitising import redacted
from tiltmeter.engine import Journal, Limits, Request, generate
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling, create_model
from tiltmeter.models._connections import is_loopback
from tiltmeter.models._endpoints import base_of, complaint_in, rejects_system_messages

ASKED = Message("user", "Who?")
SYSTEM = Message("system", "Be brief.")


@pytest.fixture(autouse=True)
def _no_proxy_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "TILTMETER_PROXY_LOOPBACK",
    ):
        monkeypatch.delenv(name, raising=False)


async def ask(model: Model, *messages: Message) -> Completion:
    async with model:
        return await model.complete(messages or (ASKED,), Sampling(), 0)


async def failure(model: Model, *messages: Message) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model, *messages)
    return caught.value


async def failures(shapes: Mapping[str, Behaviour], spec: str = "compatible/m") -> dict[str, ModelError]:
    """Return the failure that each behaviour causes; one server, asked with a prompt per behaviour."""
    with MisbehavingServer(lambda request, nth: shapes[prompt_of(request)]) as server:
        async with create_model(spec, base_url=server.url) as model:
            requests = [model.complete([Message("user", name)], Sampling(), 0) for name in shapes]
            answers = await asyncio.gather(*requests, return_exceptions=True)
    return {
        name: answer for name, answer in zip(shapes, answers, strict=True) if isinstance(answer, ModelError)
    }


UPSTREAM = {
    "message": "Provider returned error",
    "code": 400,
    "metadata": {"raw": "lorem ipsum", "provider_name": "P"},
}
IN_A_200: dict[str, tuple[dict[str, Any], str]] = {
    "a text": ({"error": "lorem ipsum"}, "bad_response"),
    "vLLM": (
        {"object": "error", "message": "lorem ipsum", "type": "invalid_request_error", "code": 400},
        "bad_request",
    ),
    "FastAPI": ({"detail": "lorem ipsum"}, "bad_response"),
    "FastAPI, a list": ({"detail": [{"loc": ["body", "x"], "msg": "lorem ipsum"}]}, "bad_response"),
    "a list of errors": (
        {"success": False, "errors": [{"code": 7, "message": "lorem ipsum"}], "choices": None},
        "bad_response",
    ),
    "a code as a text": ({"error": {"message": "lorem ipsum", "code": "429"}}, "rate_limit"),
    "a router": ({"error": UPSTREAM}, "bad_request"),
    "a choice": (
        {"choices": [{"finish_reason": "error", "error": {"message": "lorem ipsum", "code": 502}}]},
        "server",
    ),
    "a choice without a code": (
        {"choices": [{"error": "lorem ipsum", "message": {"content": ""}}]},
        "server",
    ),
    "a long context": ({"error": "lorem ipsum: the prompt is too long"}, "context_length"),
    "a gateway": ({"error_msg": "lorem ipsum", "error_code": 17}, "bad_response"),
    "a message": ({"message": "lorem ipsum", "choices": []}, "bad_response"),
}


async def test_the_text_of_an_error_in_a_200_is_shown() -> None:
    errors = await failures({name: mis.status(200, body=body) for name, (body, _) in IN_A_200.items()})
    assert {name: error.kind for name, error in errors.items()} == {
        name: kind for name, (_, kind) in IN_A_200.items()
    }
    assert [name for name, error in errors.items() if "lorem ipsum" not in error.detail] == []
    assert "answered 200 with an error 400: lorem ipsum" in errors["vLLM"].detail
    assert "answered 200 with an error: lorem ipsum" in errors["a text"].detail


async def test_the_text_of_an_error_in_a_200_of_anthropic_is_shown() -> None:
    shapes = {
        "its form": mis.status(
            200, body={"type": "error", "error": {"type": "overloaded_error", "message": "lorem ipsum"}}
        ),
        "a text": mis.status(200, body={"error": "lorem ipsum"}),
        "FastAPI": mis.status(200, body={"detail": "lorem ipsum"}),
    }
    errors = await failures(shapes, "anthropic/m")
    assert [error.kind for error in errors.values()] == ["overloaded", "bad_response", "bad_response"]
    assert all("lorem ipsum" in error.detail for error in errors.values())


CONTEXT = {
    "llama.cpp": "the request exceeds the available context size. "
    "try increasing the context size or enable context shift",
    "a template server": "Requested tokens (300) exceed context window of 128",
    "a gateway": "Input is too long for requested model.",
}


async def test_a_context_error_sent_as_500_is_not_retried() -> None:
    errors = await failures(
        {name: mis.status(500, body={"error": {"message": text}}) for name, text in CONTEXT.items()}
    )
    assert {name: (error.kind, error.scope) for name, error in errors.items()} == dict.fromkeys(
        CONTEXT, ("context_length", "permanent")
    )


REJECTIONS = {
    "Gemini with Gemma": (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
    "o1": (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
    "SGLang": (500, "System role not supported"),
    "a template": (500, "Conversation roles must alternate user/assistant/user/assistant/..."),
    "a gateway": (400, "Unsupported role: system"),
    "a validator": (422, "messages.0.role: Input should be 'user' or 'assistant'"),
    "a vendor": (400, "This model does not support system messages"),
    "another vendor": (400, "only 'user' and 'assistant' roles are supported"),
    "an error in a 200": (200, "System role not supported"),
}


@pytest.mark.parametrize("case", REJECTIONS)
async def test_a_rejected_system_message_is_put_before_the_prompt_with_a_note(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, text = REJECTIONS[case]

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        has_system = any(message["role"] == "system" for message in request["messages"])
        return mis.status(status, body={"error": {"message": text, "code": status}}) if has_system else "No"

    with MisbehavingServer(script) as server:
        async with create_model("compatible/m", base_url=server.url) as model:
            texts = [(await model.complete([SYSTEM, ASKED], Sampling(), sample)).text for sample in (0, 1)]
    assert texts == ["No", "No"]
    assert [body["messages"] for body in server.bodies][1:] == [
        [{"role": "user", "content": "Be brief.\n\nWho?"}]
    ] * 2
    assert caplog.text.count("does not accept a system message; its text is put before the prompt") == 1


async def test_only_the_first_prompt_of_a_conversation_receives_the_system_message_among_many_requests() -> (
    None
):
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return (
            mis.status(400, body={"error": {"message": "System role not supported"}})
            if request["messages"][0]["role"] == "system"
            else "No"
        )

    turns = [SYSTEM, ASKED, Message("assistant", "She."), Message("user", "Why?")]
    with MisbehavingServer(script) as server:
        async with create_model("compatible/m", base_url=server.url) as model:
            answers = await asyncio.gather(
                *(model.complete(turns, Sampling(), sample) for sample in range(20))
            )
    assert {answer.text for answer in answers} == {"No"}
    assert server.paid == {"Why?": 20}
    assert [turn["content"] for turn in server.bodies[-1]["messages"]] == [
        "Be brief.\n\nWho?",
        "She.",
        "Why?",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "The system is overloaded",
        "An unexpected system error occurred",
        "No operating system of this role was found",
        "Unsupported value: 'temperature' does not support 0.0 with this model.",
        "After the optional system message, conversation roles must alternate "
        "user/assistant/user/assistant/...",
        "Invalid system prompt: it contains a surrogate",
        "role 'tool' is not supported",
    ],
)
def test_other_complaints_are_not_about_system_messages(text: str) -> None:
    assert not any(
        rejects_system_messages(status, complaint_in({"error": {"message": text}})) for status in (400, 500)
    )


async def test_a_prompt_without_a_system_message_is_not_sent_again() -> None:
    with MisbehavingServer(
        lambda request, nth: mis.status(400, body={"error": {"message": "System role not supported"}})
    ) as server:
        error = await failure(create_model("compatible/m", base_url=server.url))
        assert (error.kind, server.requests) == ("bad_request", 1)
        again = await failure(create_model("compatible/m", base_url=server.url), SYSTEM, ASKED)
        assert (again.kind, server.requests) == ("bad_request", 3)


@pytest.mark.parametrize("spec", ["compatible/m", "anthropic/m"])
async def test_no_stream_is_asked_for_and_an_endpoint_that_does_not_know_the_word_is_asked_without(
    spec: str,
) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return (
            mis.status(
                422, body={"detail": [{"loc": ["body", "stream"], "msg": "Extra inputs are not permitted"}]}
            )
            if nth == 1
            else "No"
        )

    with MisbehavingServer(script) as server:
        assert (await ask(create_model(spec, base_url=server.url))).text == "No"
    assert [body.get("stream") for body in server.bodies] == [False, None]


BASES = {
    "http://h/v1": "http://h/v1",
    "http://h/v1/": "http://h/v1",
    "http://h/v1/chat/completions": "http://h/v1",
    "http://h/v1/chat/completions/": "http://h/v1",
    "http://h/v1/completions": "http://h/v1",
    "http://h/openai/v1/responses": "http://h/openai/v1",
    "http://h/v1/messages": "http://h/v1",
    "http://h/chat": "http://h/chat",
    "http://h/models": "http://h/models",
}


def test_the_path_of_requests_is_removed_from_a_base_url() -> None:
    assert {url: base_of(url) for url in BASES} == BASES


@pytest.mark.parametrize(
    ("spec", "path", "sent"),
    [
        ("compatible/m", "/v1/chat/completions", "/v1/chat/completions"),
        ("anthropic/m", "/v1/messages", "/v1/messages"),
        ("anthropic/m", "/proxy/v1/messages/", "/proxy/v1/messages"),
    ],
)
async def test_a_base_url_with_the_path_of_requests_is_the_same_place(
    spec: str, path: str, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MisbehavingServer() as server:
        model = create_model(spec, base_url=f"{server.root}{path}")
        assert (await ask(model)).text == "ok"
    assert server.paths[0] == sent
    plain = create_model(
        spec, base_url=f"{server.root}{sent.removesuffix('/chat/completions').removesuffix('/v1/messages')}"
    )
    assert plain.fingerprint == model.fingerprint


LONG = ".".join(["h" * 40] * 3)
REDIRECTS = {
    "relative": (
        "/other/v1/chat/completions",
        "it redirects to {root}/other/v1/chat/completions: use {root}/other/v1 as base URL)",
    ),
    "a long name": (
        f"https://{LONG}.example/v1/chat/completions",
        f": use https://{LONG}.example/v1 as base URL)",
    ),
    "absolute": (
        "https://h.example/v1/chat/completions?k=s",
        "https://h.example/v1/chat/completions: use https://h.example/v1 as base URL)",
    ),
    "a login page": ("https://h.example/login?next=x", "it redirects to https://h.example/login)"),
    "with a password": ("https://me:geheim@h.example/login", "it redirects to https://h.example/login)"),
    "nowhere": ("", "it redirects, but does not say where)"),
    "nonsense": ("http://[", "it redirects to http://[)"),
}


@pytest.mark.parametrize("case", REDIRECTS)
async def test_a_redirect_leads_to_a_base_url(case: str) -> None:
    location, message = REDIRECTS[case]
    with MisbehavingServer(
        lambda request, nth: mis.status(307, {"Location": location} if location else {})
    ) as server:
        error = await failure(create_model("compatible/m", base_url=server.url))
    assert error.detail.endswith(message.format(root=server.root))


async def test_a_hint_is_not_masked() -> None:
    with MisbehavingServer(lambda request, nth: mis.status(404, body="404: Not Found")) as server:
        error = await failure(create_model("compatible/m", base_url=f"{server.root}/ok"))
    hint = f"did you mean the base URL {server.root}/ok/v1?)"
    assert hint in error.detail
    assert hint in redacted(error.detail)


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/api/chat", "; did you mean the base URL {root}/v1?)"),
        ("/api", "; did you mean the base URL {root}/v1?)"),
        ("/v1/v1", "(nothing at {root}/v1/v1/chat/completions, or no model 'm' there)"),
    ],
)
async def test_a_404_does_not_blame_the_model_for_the_path(path: str, hint: str) -> None:
    with MisbehavingServer(lambda request, nth: mis.status(404, body="404 page not found")) as server:
        error = await failure(create_model("compatible/m", base_url=f"{server.root}{path}"))
    assert error.detail.endswith(hint.format(root=server.root))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(see http://h/v1?)", "(see http://h/v1?)"),
        ('"http://h/v1?", or http://h/#.', '"http://h/v1?", or http://h/#.'),
        ("(http://h/v1?key)", "(http://h/v1?***"),
        ("at http://h/v1?key=geheim) and", "at http://h/v1?key=*** and"),
        ("http://h/#geheim.", "http://h/#***"),
    ],
)
def test_only_values_are_masked_not_the_punctuation_of_the_sentence(text: str, expected: str) -> None:
    assert redacted(text) == expected


async def test_servers_of_this_machine_are_reached_without_a_proxy_unless_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        MisbehavingServer() as server,
        MisbehavingServer(lambda request, nth: mis.status(502, body="lorem")) as proxy,
    ):
        monkeypatch.setenv("http_proxy", f"http://me:geheim@{proxy.root.removeprefix('http://')}")
        port = server.root.rpartition(":")[2]
        assert (await ask(create_model("compatible/m", base_url=server.url))).text == "ok"
        assert (await ask(create_model("compatible/m", base_url=f"http://localhost:{port}/v1"))).text == "ok"
        assert proxy.requests == 0
        monkeypatch.setenv("TILTMETER_PROXY_LOOPBACK", "1")
        error = await failure(create_model("compatible/m", base_url=server.url))
    assert proxy.requests == 1
    place = proxy.root.removeprefix("http://")
    assert error.detail == f"127.0.0.1 (through the proxy {place} of http_proxy) answered 502: lorem"


async def test_a_proxy_that_fails_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with MisbehavingServer(lambda request, nth: mis.status(407, body="lorem")) as proxy:
        pass  # it is gone now
    place = proxy.root.removeprefix("http://")
    for variable in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(variable, f"http://me:geheim@{place}")
    for url in ("http://model.example/v1", "https://model.example/v1"):
        error = await failure(create_model("compatible/m", base_url=url))
        assert error.kind == "proxy"
        assert (
            f"cannot connect to the proxy {place} of {url.partition(':')[0]}_proxy, "
            "through which model.example:" in error.detail
        )
        assert "geheim" not in f"{error.detail} {error!r}"


async def test_a_proxy_that_rejects_the_request_is_named(
    monkeypatch: pytest.MonkeyPatch, journal: Journal
) -> None:
    with MisbehavingServer(lambda request, nth: "ok") as proxy:  # it knows no CONNECT
        place = proxy.root.removeprefix("http://")
        monkeypatch.setenv("https_proxy", proxy.root)
        model = create_model("compatible/m", base_url="https://model.example/v1")
        error = await failure(model)
        limits = Limits(retries=0, max_connections=1)
        requests = [Request((Message("user", str(number)),)) for number in range(20)]
        with pytest.raises(ProviderError) as caught:
            await asyncio.to_thread(generate, model, requests, Sampling(), journal=journal, limits=limits)
    assert error.detail.startswith(
        f"the proxy {place} of https_proxy answered 404 to the request for model.example:443"
    )
    assert str(caught.value).startswith(
        f"https://model.example cannot be reached: the proxy {place} of https_proxy answered 404 "
        "to the request"
    )


async def test_a_proxy_without_a_scheme_is_used_and_one_of_another_type_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with MisbehavingServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.root.removeprefix("http://"))
        assert (await ask(create_model("compatible/m", base_url="http://model.example/v1"))).text == "ok"
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:9")
    with pytest.raises(
        ProviderError,
        match=r"environment variable http_proxy, whose type socks5 is not supported: .*no_proxy",
    ):
        await ask(create_model("compatible/m", base_url="http://model.example/v1"))


async def test_a_body_that_cannot_be_decompressed_is_not_a_missing_server(journal: Journal) -> None:
    broken = Behaviour(body=b"not gzip", headers={"Content-Encoding": "gzip"})
    with MisbehavingServer(lambda request, nth: broken) as server:
        model = create_model("compatible/m", base_url=server.url)
        error = await failure(model)
        requests = [Request((Message("user", str(number)),)) for number in range(20)]
        with pytest.raises(ProviderError, match="answered none of the first 20 requests") as caught:
            await asyncio.to_thread(
                generate, model, requests, Sampling(), journal=journal, limits=Limits(retries=0)
            )
    assert error.kind == "bad_response"
    assert "sent a body that cannot be decompressed" in error.detail
    assert "no server answers" not in str(caught.value)


async def test_https_where_the_server_speaks_http_names_the_scheme() -> None:
    with MisbehavingServer() as server:
        error = await failure(
            create_model("compatible/m", base_url=server.url.replace("http://", "https://"))
        )
    assert "write http:// in the base URL" in error.detail


async def test_http_where_the_server_speaks_https_names_the_scheme(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    runner = web.AppRunner(web.Application())
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        error = await failure(
            create_model("compatible/m", base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
        )
    finally:
        await runner.cleanup()
    assert "write https:// in the base URL" in error.detail


@pytest.mark.parametrize("status", [201, 202, 203])
async def test_every_status_of_success_means_the_same(status: int) -> None:
    body = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}
    with MisbehavingServer(lambda request, nth: mis.status(status, body=body)) as server:
        assert (await ask(create_model("compatible/m", base_url=server.url))).text == "Yes."
        assert server.requests == 1
    shapes: dict[str, dict[str, Any]] = {
        "429 inside": {"error": {"message": "lorem", "code": 429}},
        "an error": {"error": "lorem"},
        "nothing": {},
    }
    errors = await failures({name: mis.status(status, body=body) for name, body in shapes.items()})
    assert [error.kind for error in errors.values()] == ["rate_limit", "bad_response", "bad_response"]
    assert f"answered {status} with an error 429: lorem" in errors["429 inside"].detail


DECLINED_PROMPTS: dict[str, dict[str, Any]] = {
    "GLM": {"contentFilter": [{"level": 1, "role": "user"}], "error": {"code": "1301", "message": "lorem"}},
    "GLM, Chinese": {
        "error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}
    },
    "GLM, English": {
        "error": {
            "message": "System detected potentially unsafe or sensitive content in input or generation."
        }
    },
    "Ark": {"error": {"code": "InputTextSensitiveContentDetected", "message": "lorem"}},
    "MiniMax": {"error": {"type": "bad_request_error", "message": "lorem", "code": "input new_sensitive"}},
}
OTHER_COMPLAINTS: dict[str, dict[str, Any]] = {
    "an account": {"error": {"message": "您的账户因违规内容被封禁"}},
    "a parameter": {"error": {"message": "contentFilter must be a list"}},
    "a type": {"error": {"message": "The field content is of an illegal type"}},
    "an encoding": {
        "error": {
            "message": "The request contains illegal UTF-8 content, or unsafe characters in its content"
        }
    },
}


async def test_prompts_that_other_filters_decline_are_refused() -> None:
    bodies = DECLINED_PROMPTS | OTHER_COMPLAINTS
    errors = await failures({name: mis.status(400, body=body) for name, body in bodies.items()})
    assert list(errors) == list(OTHER_COMPLAINTS)


LOCAL = [
    "localhost.",
    "LOCALHOST",
    "a.localhost.",
    "0.0.0.0",
    "127.1",
    "0",
    "0x7f000001",
    "2130706433",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
]


def test_every_notation_of_this_machine_is_recognised() -> None:
    assert [host for host in LOCAL if not is_loopback(host)] == []
    elsewhere = [
        "10.1",
        "128.0.0.1",
        "localhost.example",
        "127.0.0.1.example",
        "::2",
        "::ffff:10.0.0.1",
        "1",
        "127.x",
        "mylocalhost",
    ]
    assert [host for host in elsewhere if is_loopback(host)] == []


@pytest.mark.parametrize("host", ["127.1", "localhost.", "[::ffff:127.0.0.1]"])
async def test_no_notation_of_this_machine_is_reached_through_the_proxy(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MisbehavingServer() as server, MisbehavingServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.root)
        with suppress(ModelError):  # a server may not listen at each of its names
            await ask(
                create_model("compatible/m", base_url=f"http://{host}:{server.root.rpartition(':')[2]}/v1")
            )
    assert proxy.requests == 0


BAD_HOSTS = {
    "http://xn--a/v1": "'xn--a' is not the name of a host",
    "http://a..b/v1": "'a..b' is not the name of a host",
    "http://.a/v1": "'.a' is not the name of a host",
    f"http://{'h' * 64}.example/v1": "is not the name of a host",
    "http://a b/v1": "'a b' is not the name of a host",
    "http://[::1/v1": "its address in brackets is not an IPv6 address",
    "http://host:99999/v1": "its port is not a number from 1 to 65535",
    "http://@host/v1": "contains a user name, password, query or fragment",
    "http://host/v1?/x": "contains a user name, password, query or fragment",
}


@pytest.mark.parametrize("url", BAD_HOSTS)
def test_a_base_url_that_is_none_is_explained(url: str) -> None:
    with pytest.raises(InputError, match=re.escape(BAD_HOSTS[url])):
        create_model("compatible/m", base_url=url)


@pytest.mark.parametrize(
    "proxy", ["http://[::1", "http://me:geheim@h:99999", "http://xn--a:80", "http://a..b", "http://", "h:x"]
)
async def test_a_proxy_that_is_no_url_is_one_sentence_about_its_variable(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(
        ProviderError, match="environment variable http_proxy, which is not a URL such as"
    ) as caught:
        await ask(create_model("compatible/m", base_url="http://model.example/v1"))
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("end", ["?", "#", "/?", "?#", "/chat/completions?"])
async def test_an_empty_query_at_the_end_of_a_base_url_is_omitted(end: str) -> None:
    with MisbehavingServer() as server:
        await ask(create_model("compatible/m", base_url=f"{server.url}{end}"))
    assert list(server.paths) == ["/v1/chat/completions"]
