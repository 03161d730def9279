"""Answers in every shape that endpoints use: refused, cut off, never generated, not readable.

One server answers each prompt in the shape that the prompt names.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from support import misbehaving as mis
from support.misbehaving import Behaviour, MisbehavingServer, prompt_of
from tiltmeter.engine import Journal, Keys, Limits, Request, generate, open_journal
from tiltmeter.engine.upkeep._holdings import stats
from tiltmeter.models import Completion, Message, ModelError, Sampling, create_model
from tiltmeter.models._answer_shapes import AnswerError
from tiltmeter.models._event_streams import joined_stream
from tiltmeter.models._http import read_chat_answer

Outcome = Completion | ModelError
PAID = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
NOTHING = {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}


def chat(
    content: Any,
    finish: Any = "stop",
    status: int = 200,
    *,
    usage: Any = PAID,
    options: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Behaviour:
    """An answer of an OpenAI-compatible endpoint.

    `own` are fields of the choice, and `fields` of the message.
    """
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": content, **fields},
        **(options or {}),
    }
    return mis.status(status, body={"model": "m", "choices": [choice], "usage": usage})


def error(status: int, message: str, **fields: Any) -> Behaviour:
    return mis.status(status, body={"error": {"message": message, **fields}})


def block(content: Any, reason: str | None = "end_turn", tokens: int = 2, **fields: Any) -> Behaviour:
    """An answer of Anthropic."""
    usage = {"input_tokens": 5, "output_tokens": tokens}
    return mis.status(
        200, body={"type": "message", "content": content, "stop_reason": reason, "usage": usage, **fields}
    )


def events(
    *pieces: Any, end: str = "data: [DONE]\n\n", prefix: str = "data: ", status: int = 200
) -> Behaviour:
    text = "".join(f"{prefix}{json.dumps(piece)}\n\n" for piece in pieces) + end
    return mis.status(status, body=text)


async def _outcomes(shapes: Mapping[str, Behaviour], spec: str, **sampling: Any) -> dict[str, Outcome]:
    """Return what one request with each shape gives."""
    with MisbehavingServer(lambda request, nth: shapes[prompt_of(request)]) as server:
        async with create_model(spec, base_url=server.url) as model:
            requests = [model.complete([Message("user", name)], Sampling(**sampling), 0) for name in shapes]
            answers = await asyncio.gather(*requests, return_exceptions=True)
    unexpected = [
        answer
        for answer in answers
        if isinstance(answer, BaseException) and not isinstance(answer, ModelError)
    ]
    assert unexpected == []
    return dict(zip(shapes, answers, strict=True))  # type: ignore[arg-type]


def outcomes(
    shapes: Mapping[str, Behaviour], spec: str = "compatible/m", **sampling: Any
) -> dict[str, Outcome]:
    return asyncio.run(_outcomes(shapes, spec, **sampling))


DECLINED = {
    "Foundry": chat("", "refusal"),
    "Azure": chat(None, "content_filter"),
    "Azure, 400": chat(
        "",
        "content_filter",
        status=400,
        own={"content_filter_results": {"error": {"code": "content_filter"}}},
    ),
    "a gateway, 422": chat(None, "refusal", status=422),
    "Gemini": chat(None, "content_filter: PROHIBITED_CONTENT", usage=NOTHING),
    "Gemini, native words": chat("", "SAFETY", usage=NOTHING),
    "Bedrock": chat("", "guardrail_intervened"),
    "GLM": chat("", "sensitive"),
    "the field": chat(None, refusal="I can't."),
    "a part": chat([{"type": "refusal", "refusal": "I can't."}]),
    "a choice without message": mis.status(
        200, body={"choices": [{"index": 0, "finish_reason": "content_filter"}]}
    ),
    "a blocked prompt": mis.status(
        200, body={"choices": [], "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    ),
    "a filtered prompt": mis.status(
        200,
        body={
            "choices": [],
            "prompt_filter_results": [
                {"content_filter_results": {"hate": {"filtered": True, "severity": "high"}}}
            ],
        },
    ),
    "an error in a 200": mis.status(
        200, body={"error": {"message": "no", "code": "content_filter", "status": 400}}
    ),
    "Anthropic's filter, 400": error(
        400, "Output blocked by content filtering policy", type="invalid_request_error"
    ),
    "OpenAI's policy, 400": error(
        400, "Your prompt was flagged as potentially violating our usage policy.", code="invalid_prompt"
    ),
    "DashScope, 400": error(
        400, "Input data may contain inappropriate content.", code="data_inspection_failed"
    ),
    "DeepSeek, 400": error(400, "Content Exists Risk", type="invalid_request_error"),
    "xAI, 403": mis.status(
        403,
        body={"code": "x", "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"},
    ),
}


def test_what_was_declined_is_a_refusal_in_every_shape() -> None:
    answers = outcomes(DECLINED)
    assert {
        name: answer
        for name, answer in answers.items()
        if not isinstance(answer, Completion) or not answer.refusal
    } == {}


def test_what_anthropic_declined_is_a_refusal() -> None:
    shapes = {
        "a reason": block([], "refusal", 0),
        "no content": block(None, "refusal", 0),
        "half a text": block([{"type": "text", "text": "Well"}], "refusal"),
        "a gateway": block([], "guardrail_intervened", 0),
        "400": error(400, "Output blocked by content filtering policy", type="invalid_request_error"),
    }
    answers = outcomes(shapes, "anthropic/m")
    assert {
        name: answer
        for name, answer in answers.items()
        if not isinstance(answer, Completion) or not answer.refusal
    } == {}


NOT_DECLINED = {
    "an account": error(403, "Your account was suspended because it violates our usage policies."),
    "a wrong value, with a completion": chat("No", "stop", status=400),
    "a broken provider": chat("", "error"),
    "an error that does not stream": events({"error": {"message": "lorem"}}, status=401),
    "an unknown parameter": error(400, "Unknown field.", type="invalid_request_error"),
}


def test_other_failures_are_no_refusals() -> None:
    answers = outcomes(NOT_DECLINED)
    assert {name: answer.kind for name, answer in answers.items() if isinstance(answer, ModelError)} == {
        "an account": "auth",
        "a wrong value, with a completion": "bad_request",
        "a broken provider": "server",
        "an error that does not stream": "auth",
        "an unknown parameter": "bad_request",
    }
    assert "answered 200 with an error: generation failed (finish reason error)" in str(
        answers["a broken provider"]
    )


THOUGHT = "Let me think about"
GEMINI_USAGE = {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 305}
CUT_OFF = {
    "in a field": (chat("", "length", reasoning_content=THOUGHT), "", THOUGHT),
    "in another field": (chat(None, "length", reasoning=THOUGHT), None, THOUGHT),
    "in details": (
        chat(None, "length", reasoning_details=[{"type": "reasoning.text", "text": THOUGHT}]),
        None,
        THOUGHT,
    ),
    "in a part": (
        chat([{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}], "length"),
        None,
        THOUGHT,
    ),
    "in tags": (chat(f"<think>{THOUGHT}", "length"), "", THOUGHT),
    "in the words of Gemini": (chat("No, b", "MAX_TOKENS"), "No, b", None),
    "in the words of Mistral": (chat("No, b", "model_length"), "No, b", None),
    "as an object of SGLang": (chat("No, b", {"type": "length", "length": 3}), "No, b", None),
    "a filled context": (chat("No, b", "model_context_window_exceeded"), "No, b", None),
    "said to be complete": (
        chat("", "stop", usage=PAID | {"completion_tokens": 300}, reasoning_content=THOUGHT),
        "",
        THOUGHT,
    ),
    "hidden thinking": (chat(None, "length", usage=GEMINI_USAGE), None, ""),
    "hidden thinking of xAI": (
        chat("", "length", usage=NOTHING | {"completion_tokens_details": {"reasoning_tokens": 300}}),
        "",
        "",
    ),
}


def test_what_was_cut_off_is_kept_with_its_reason_also_in_the_thinking() -> None:
    answers = outcomes({name: shape[0] for name, shape in CUT_OFF.items()}, max_tokens=300)
    expected = {name: (text, thinking, "length", None) for name, (_, text, thinking) in CUT_OFF.items()}
    assert {name: _parts(answer) for name, answer in answers.items()} == expected


def _parts(answer: Outcome) -> object:
    if isinstance(answer, ModelError):
        return answer
    return answer.text, answer.thinking, answer.finish_reason, answer.refusal


def test_a_text_only_in_the_thinking_is_not_taken_for_the_answer() -> None:
    shapes = {
        "a field": chat("", reasoning_content="The answer is No."),
        "Ollama's field": chat("", thinking="The answer is No."),
        "without a reason": chat(None, None, reasoning="The answer is No."),
    }
    answers = outcomes(shapes)
    assert {
        name: (not answer.text, answer.thinking)
        for name, answer in answers.items()
        if isinstance(answer, Completion)
    } == dict.fromkeys(shapes, (True, "The answer is No."))


CONTENTS: dict[str, tuple[Any, str]] = {
    "an object": ({"type": "text", "text": "No"}, "No"),
    "an object of OpenAI": ({"type": "text", "text": {"value": "No", "annotations": []}}, "No"),
    "an object of Gemini": (
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "No"}]},
        "No",
    ),
    "a number": (5, "5"),
    "a list of texts": (["N", "o"], "No"),
    "a list of numbers and texts": ([4, "2"], "42"),
    "parts of a response": ([{"type": "output_text", "text": "No"}], "No"),
    "parts and a picture": ([{"type": "image_url", "image_url": {}}, {"type": "text", "text": "No"}], "No"),
    "nested parts": ([{"type": "message", "content": [{"type": "output_text", "text": "No"}]}], "No"),
}


def test_contents_that_are_no_text_are_read() -> None:
    answers = outcomes({name: chat(content) for name, (content, _) in CONTENTS.items()})
    assert {name: getattr(answer, "text", answer) for name, answer in answers.items()} == {
        name: text for name, (_, text) in CONTENTS.items()
    }


UNREAD = {
    "true": chat(True),
    "an unknown object": chat({"kind": "table", "cells": "lorem"}),
    "an unknown part": chat([{"type": "hologram", "data": "lorem"}]),
    "a picture": chat([{"type": "image_url", "image_url": {"url": "lorem"}}]),
    "deep lists": mis.status(
        200,
        body=b'{"choices":[{"finish_reason":"stop","message":{"content":'
        + b"[" * 400
        + b"true"
        + b"]" * 400
        + b"}}]}",
    ),
    "a native answer": mis.status(
        200, body={"model": "m", "message": {"role": "assistant", "content": "lorem"}, "done": True}
    ),
    "a completion of texts": mis.status(
        200, body={"choices": [{"index": 0, "text": "lorem", "finish_reason": "stop"}]}
    ),
}


def test_contents_that_are_not_readable_fail_with_the_text_of_the_server() -> None:
    answers = outcomes(UNREAD)
    assert {name: getattr(answer, "kind", answer) for name, answer in answers.items()} == dict.fromkeys(
        UNREAD, "bad_response"
    )
    silent = [
        name
        for name, answer in answers.items()
        if isinstance(answer, ModelError) and "lorem" not in answer.detail
    ]
    assert silent == ["true", "deep lists"]


WORDS = st.sampled_from(["text", "content", "parts", "type", "thinking", "refusal", "value", "reasoning"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=100)
@given(JSON, JSON)
def test_whatever_a_server_puts_into_a_message_is_text_or_rejected(content: Any, reasoning: Any) -> None:
    message = {"content": content, "reasoning": reasoning}
    try:
        completion = read_chat_answer({"choices": [{"finish_reason": "stop", "message": message}]}, 0.0)
    except AnswerError:
        return
    texts = (completion.text, completion.thinking, completion.refusal)
    assert all(text is None or isinstance(text, str) for text in texts)


NEVER_GENERATED = {
    "Ollama": chat("", "load", usage=NOTHING),
    "Ollama without usage": chat("", "load", usage=None),
    "zero tokens": chat("", "stop", usage=NOTHING),
    "zero tokens, null": chat(None, "stop", usage={"prompt_tokens": 5, "completion_tokens": 0}),
    "zero tokens, blank": chat(" \n", "stop", usage=NOTHING),
    "zero tokens, cut": chat("", "length", usage=NOTHING),
    "aborted": chat("", "abort", usage=NOTHING),
    "aborted by SGLang": chat("", {"type": "abort", "message": "queue full"}, usage=NOTHING),
}


def test_what_was_never_generated_is_a_failure_to_be_asked_again() -> None:
    answers = outcomes(NEVER_GENERATED)
    assert {name: getattr(answer, "scope", answer) for name, answer in answers.items()} == dict.fromkeys(
        NEVER_GENERATED, "transient"
    )
    from_anthropic = outcomes(
        {"no block": block([], tokens=0), "no text": block([{"type": "text", "text": ""}], tokens=0)},
        "anthropic/m",
    )
    assert [getattr(answer, "scope", answer) for answer in from_anthropic.values()] == [
        "transient",
        "transient",
    ]


def test_an_empty_answer_of_some_tokens_is_an_answer() -> None:
    shapes = {
        "one token": chat("", "stop", usage=PAID | {"completion_tokens": 1}),
        "unknown": chat("", "stop", usage=None),
    }
    assert {name: _parts(answer) for name, answer in outcomes(shapes).items()} == dict.fromkeys(
        shapes, ("", None, "stop", None)
    )


@pytest.mark.parametrize("spec", ["compatible/m", "anthropic/m"])
def test_what_was_never_generated_is_not_in_the_journal_and_the_next_run_asks_again(
    journal: Journal, spec: str
) -> None:
    empty = block([], tokens=0) if spec == "anthropic/m" else chat("", "load", usage=NOTHING)
    requests = [Request((Message("user", name),)) for name in ("Who?", "Why?")]

    def run(answer: Behaviour | str) -> tuple[Any, int]:
        with MisbehavingServer(
            lambda request, nth: answer if prompt_of(request) == "Who?" else "ok", port=port
        ) as server:
            model = create_model(spec, base_url=server.url)
            generate(model, requests, Sampling(), journal=journal, limits=Limits(retries=0))
            keys = [Keys(model.fingerprint, Sampling())(*request) for request in requests]
            return journal.fetch(keys)["status"].to_list(), server.asked["Who?"]

    with MisbehavingServer() as free:
        port = free._port
    assert run(empty) == (["failed", "ok"], 1)
    assert run("ok") == (["ok", "ok"], 1)


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


HALVES = (
    b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'
    b'data: {"choices":[{"delta":{"content":"\\ude00"},"finish_reason":"stop"}]}\n\n'
)
STREAMS: dict[str, tuple[Behaviour, tuple[Any, ...]]] = {
    "pieces": (events(chunk(content="N"), chunk(content="o"), chunk("stop")), ("No", None, "stop", None)),
    "thinking in tags": (
        events(chunk(content="<think>hm</th"), chunk(content="ink>No"), chunk("stop")),
        ("No", "hm", "stop", None),
    ),
    "thinking in a field": (
        events(chunk(reasoning_content="h"), chunk(reasoning_content="m"), chunk("length")),
        (None, "hm", "length", None),
    ),
    "without an end mark": (events(chunk(content="No"), chunk("stop"), end=""), ("No", None, "stop", None)),
    "without a reason": (events(chunk(content="No")), ("No", None, None, None)),
    "a refusal": (
        events(chunk(refusal="I "), chunk(refusal="can't."), chunk("stop")),
        (None, None, "stop", "I can't."),
    ),
    "comments": (
        mis.status(200, body=b": PROCESSING\n\n: PROCESSING\n\n" + (chat("No").body or b"")),
        ("No", None, "stop", None),
    ),
    "one object a line": (
        events(chunk(content="N"), chunk(content="o"), chunk("stop"), prefix="", end=""),
        ("No", None, "stop", None),
    ),
    "a whole answer": (
        mis.status(200, body=b"data: " + (chat("No").body or b"") + b"\n\n"),
        ("No", None, "stop", None),
    ),
    "halves of a character": (mis.status(200, body=HALVES), ("\U0001f600", None, "stop", None)),
}


def test_an_event_stream_that_was_not_requested_is_read() -> None:
    answers = outcomes({name: behaviour for name, (behaviour, _) in STREAMS.items()})
    assert {name: _parts(answer) for name, answer in answers.items()} == {
        name: expected for name, (_, expected) in STREAMS.items()
    }


ANTHROPIC_EVENTS = (
    {
        "type": "message_start",
        "message": {
            "type": "message",
            "model": "m",
            "content": [],
            "usage": {"input_tokens": 5, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "No"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
)


def test_an_event_stream_of_anthropic_is_read_and_its_error_shown() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "lorem"}}
    shapes = {
        "whole": events(*ANTHROPIC_EVENTS, end=""),
        "cut": events(*ANTHROPIC_EVENTS[:-1], end=""),
        "error": events(overloaded, end=""),
    }
    answers = outcomes(shapes, "anthropic/m")
    complete, cut, failed = answers.values()
    assert isinstance(complete, Completion)
    assert (_parts(complete), complete.input_tokens, complete.output_tokens) == (
        ("No", "hm", "stop", None),
        5,
        9,
    )
    assert [getattr(answer, "kind", answer) for answer in (cut, failed)] == ["bad_response", "overloaded"]
    assert "lorem" in str(failed)


def test_a_stream_that_breaks_off_or_reports_an_error_is_a_failure() -> None:
    failed_choice = {
        "index": 0,
        "delta": {"content": ""},
        "finish_reason": "error",
        "error": {"code": 502, "message": "lorem"},
    }
    broken = {"choices": [failed_choice]}
    shapes = {
        "cut": events(chunk(content="lorem"), end=""),
        "an error": events(chunk(content="N"), {"error": {"code": 429, "message": "lorem"}}),
        "an error in a choice": events(chunk(content="N"), broken),
        "no JSON": mis.status(200, body=b"data: lorem\n\n"),
    }
    answers = outcomes(shapes)
    assert [getattr(answer, "kind", answer) for answer in answers.values()] == [
        "bad_response",
        "rate_limit",
        "server",
        "bad_response",
    ]
    assert all("lorem" in str(answer) for answer in answers.values())


def sse(*pieces: Any) -> Behaviour:
    """An event stream of objects, as UTF-8 without escapes, and of other lines as they are."""
    lines = [
        piece if isinstance(piece, str) else f"data: {json.dumps(piece, ensure_ascii=False)}"
        for piece in pieces
    ]
    return mis.status(200, body="\n\n".join([*lines, ""]))


SEPARATORS = "\u2028\u2029\u0085\x1c"
DONE = "data: [DONE]"
FIRST = chunk(content="I do ")
WHOLE_STREAMS: dict[str, tuple[Behaviour, str]] = {
    "separators in a text": (
        sse(FIRST, chunk(content=f"not{SEPARATORS} "), chunk(content="agree."), chunk("stop"), DONE),
        "I do not",
    ),
    "CR": (
        mis.status(
            200, body=f"data: {json.dumps(FIRST)}\r\rdata: {json.dumps(chunk('stop', content='not'))}\r\r"
        ),
        "I do not",
    ),
    "data in several lines": (
        sse('data: {"choices":\ndata: [{"delta": {"content": "I do not"}}]}', chunk("stop")),
        "I do not",
    ),
    "no blank lines": (
        mis.status(
            200, body=f"data: {json.dumps(FIRST)}\ndata: {json.dumps(chunk(content='not'))}\n{DONE}\n"
        ),
        "I do not",
    ),
    "events to keep alive": (
        sse("event: ping\ndata: lorem", FIRST, "event: ping\ndata:", chunk("stop", content="not"), DONE),
        "I do not",
    ),
    "JSON after comments": (
        mis.status(200, body=': WAIT\n\n{"choices":[{"message":{"content":"I do not\u2028"}}]}'),
        "I do not",
    ),
}


def test_only_carriage_returns_and_line_feeds_end_the_lines_of_a_stream() -> None:
    answers = outcomes({name: behaviour for name, (behaviour, _) in WHOLE_STREAMS.items()})
    beginnings = {name: str(getattr(answer, "text", answer))[:8] for name, answer in answers.items()}
    assert beginnings == {name: text for name, (_, text) in WHOLE_STREAMS.items()}
    assert getattr(answers["separators in a text"], "text", None) == f"I do not{SEPARATORS} agree."


PIECES = ("I do ", f"not{SEPARATORS} ", "agree.")
START = {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 5}}}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}


def piece_of_block(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


@pytest.mark.parametrize("begun", [True, False])
def test_no_piece_of_a_stream_of_anthropic_is_lost(begun: bool) -> None:
    block_start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": None}}
    (answer,) = outcomes(
        {"x": sse(START, *[block_start] * begun, *map(piece_of_block, PIECES), END)}, "anthropic/m"
    ).values()
    assert _parts(answer) == ("".join(PIECES), None, "stop", None)


@pytest.mark.parametrize("usage", [7, "x", None, [1]])
def test_a_usage_that_is_no_object_costs_no_answer(usage: Any) -> None:
    start = {"type": "message_start", "message": {"content": [], "usage": usage}}
    (answer,) = outcomes(
        {"x": sse(start, piece_of_block("Yes."), END | {"usage": usage})}, "anthropic/m"
    ).values()
    assert (_parts(answer), getattr(answer, "input_tokens", 0)) == (("Yes.", None, "stop", None), None)


BROKEN_STREAMS = {
    "half an object": sse(
        FIRST, 'data: {"choices":[{"index":0,"delta":{"content":"not', chunk("stop", content="agree."), DONE
    ),
    "a text": sse(FIRST, "data: lorem", chunk("stop", content="agree."), DONE),
    "a list": sse(FIRST, "data: [1]", chunk("stop", content="agree."), DONE),
    "a damaged field": sse(
        FIRST, f"ata: {json.dumps(chunk(content='not'))}", chunk("stop", content="agree."), DONE
    ),
    "a delta that is a text": sse(
        FIRST, {"choices": [{"index": 0, "delta": "not"}]}, chunk("stop", content="agree."), DONE
    ),
    "choices that are no list": sse(
        FIRST, {"choices": {"0": {"delta": {"content": "not"}}}}, chunk("stop"), DONE
    ),
    "texts of completions": sse(
        {"choices": [{"text": "I do "}]}, {"choices": [{"text": "not", "finish_reason": "stop"}]}, DONE
    ),
    "an end without a reason": sse(chunk("", content="I do "), chunk("", content="no")),
    "an end with null": sse(chunk("null", content="I do "), chunk("None", content="no")),
    "an end with a number": sse(FIRST, {"choices": [{"index": 0, "delta": {}, "finish_reason": 1}]}),
    "an event": sse(FIRST, 'event: error\ndata: {"message": "lorem"}', DONE),
    "an event with a text": sse(FIRST, "event: error\ndata: lorem", DONE),
    "an event without data": sse(FIRST, "event: error", DONE),
    "an event of another name": sse(FIRST, "event: response.failed\ndata: {}", chunk("stop"), DONE),
    "next to choices": sse(
        FIRST, chunk() | {"error": {"message": "lorem", "code": 502}}, chunk("stop"), DONE
    ),
    "vLLM": sse(FIRST, {"object": "error", "message": "lorem", "code": 500}, DONE),
    "FastChat": sse(FIRST, {"text": "lorem", "error_code": 50002}, DONE),
    "FastAPI": sse(FIRST, {"detail": "lorem"}, DONE),
    "a reason before the last one": sse(FIRST, chunk("error"), chunk("stop"), DONE),
}


def test_a_damaged_piece_an_error_or_a_missing_end_is_a_failure() -> None:
    answers = outcomes(BROKEN_STREAMS)
    assert {name: getattr(answer, "scope", answer) for name, answer in answers.items()} == dict.fromkeys(
        BROKEN_STREAMS, "transient"
    )


EVENTS = st.recursive(
    st.none()
    | st.integers()
    | st.sampled_from(["stop", "x", "message_start", "content_block_delta", "message_delta", "error"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "message",
                    "content",
                    "usage",
                    "type",
                    "index",
                    "error",
                    "stop_reason",
                    "content_block",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=50)
@given(st.lists(EVENTS | st.text(max_size=9), max_size=5))
def test_any_stream_is_an_answer_or_a_failure(pieces: list[Any]) -> None:
    text = "".join(f"data: {piece if isinstance(piece, str) else json.dumps(piece)}\n\n" for piece in pieces)
    joined = joined_stream(text)
    assert joined is None or isinstance(joined, dict)


BROKEN_OFF = (
    "insufficient_system_resource",
    "time_limit",
    "timeout",
    "preempted",
    "function_call_filter: MALFORMED_FUNCTION_CALL",
    "function_call_filter: UNEXPECTED_TOOL_CALL",
    "MALFORMED_RESPONSE",
)


@pytest.mark.parametrize("spec", ["compatible/m", "anthropic/m"])
def test_what_the_server_broke_off_is_a_failure_and_no_refusal(spec: str) -> None:
    text = [{"type": "text", "text": "Yes"}]
    shapes = {
        reason: block(text, reason) if spec == "anthropic/m" else chat("Yes", reason) for reason in BROKEN_OFF
    }
    answers = outcomes(shapes, spec)
    assert {name: getattr(answer, "kind", answer) for name, answer in answers.items()} == dict.fromkeys(
        BROKEN_OFF, "server"
    )


def test_an_imported_response_that_was_broken_off_is_not_read_as_a_whole_one() -> None:
    broken = {"choices": [{"finish_reason": "insufficient_system_resource", "message": {"content": "Yes"}}]}
    with pytest.raises(AnswerError, match="insufficient_system_resource"):
        read_chat_answer(broken, 0.0)


def test_an_error_next_to_a_whole_answer_is_a_failure() -> None:
    died = {"error": {"message": "lorem", "code": 502}}
    body = json.loads(chat("half").body or b"")
    declined = json.loads(chat("", "content_filter").body or b"")
    failed, refused = outcomes(
        {"x": mis.status(200, body=body | died), "y": mis.status(200, body=declined | died)}
    ).values()
    assert getattr(failed, "kind", failed) == "server"
    assert getattr(refused, "refusal", refused) == "content_filter"


TOKENS: dict[str, tuple[dict[str, Any], tuple[int | None, int | None]]] = {
    "OpenAI": (
        {
            "prompt_tokens": 10,
            "completion_tokens": 505,
            "total_tokens": 515,
            "completion_tokens_details": {"reasoning_tokens": 500},
        },
        (10, 505),
    ),
    "xAI": (
        {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 515,
            "completion_tokens_details": {"reasoning_tokens": 500},
        },
        (10, 505),
    ),
    "Gemini": ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 515}, (10, 505)),
    "without a total": (
        {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 500}},
        (10, 505),
    ),
    "beside the counts": ({"prompt_tokens": 10, "completion_tokens": 5, "reasoning_tokens": 500}, (10, 505)),
    "only a total": ({"prompt_tokens": 10, "total_tokens": 515}, (10, 505)),
    "thinking counted by another tokeniser": (
        {
            "prompt_tokens": 10,
            "completion_tokens": 300,
            "total_tokens": 310,
            "completion_tokens_details": {"reasoning_tokens": 320},
        },
        (10, 300),
    ),
    "a total that is too small": ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 1}, (10, 5)),
    "no input": ({"completion_tokens": 5, "total_tokens": 515}, (None, 5)),
    "nothing": ({}, (None, None)),
}


def test_tokens_of_thinking_are_counted_wherever_they_are_reported() -> None:
    answers = outcomes({name: chat("Yes.", usage=usage) for name, (usage, _) in TOKENS.items()})
    counts = {
        name: (answer.input_tokens, answer.output_tokens)
        for name, answer in answers.items()
        if isinstance(answer, Completion)
    }
    assert counts == {name: expected for name, (_, expected) in TOKENS.items()}


@pytest.mark.parametrize("usage", [{"completion_tokens": 5}, {"prompt_tokens": 5}])
def test_a_response_without_one_of_its_counts_is_unmetered(tmp_path: Path, usage: dict[str, int]) -> None:
    with MisbehavingServer(lambda request, nth: chat("Yes.", usage=usage)) as server:
        model = create_model("compatible/m", base_url=server.url)
        with open_journal(tmp_path / "journal.sqlite") as journal:
            tally = generate(
                model,
                [Request((Message("user", "Who?"),))],
                Sampling(),
                journal=journal,
                limits=Limits(retries=0),
            )
    assert (tally.answered, tally.unmetered) == (1, 1)
    assert [model.unmetered for model in stats(tmp_path / "journal.sqlite").models] == [1]
