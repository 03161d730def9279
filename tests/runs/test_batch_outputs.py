"""Outputs of batches: each line has the id of a request, and its response or an error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.analysing import analyse, prompts
from tiltmeter.errors import InputError
from tiltmeter.importing._batch_outputs import read_batch_output

pytestmark = pytest.mark.usefixtures("workplace")

USAGE = {"prompt_tokens": 7, "completion_tokens": 2}


def chat(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **message}
    return {
        "model": "served-1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": USAGE,
    }


def openai(body: Any, status: int = 200, error: Any = None) -> dict[str, Any]:
    return {
        "id": "batch_req_1",
        "response": {"status_code": status, "request_id": "1", "body": body},
        "error": error,
    }


def anthropic(content: Sequence[dict[str, Any]], stop: str = "end_turn") -> dict[str, Any]:
    message = {
        "type": "message",
        "model": "claude",
        "content": list(content),
        "stop_reason": stop,
        "usage": {"input_tokens": 7, "output_tokens": 2},
    }
    return {"result": {"type": "succeeded", "message": message}}


def gemini(parts: Sequence[dict[str, Any]], finish: str = "STOP") -> dict[str, Any]:
    return {"response": {"candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}]}}


def bedrock(output: dict[str, Any]) -> dict[str, Any]:
    return {"modelInput": {}, "modelOutput": output}


TEXT = {"type": "text", "text": "yes"}
SHAPES: dict[str, tuple[str, dict[str, Any], tuple[Any, ...]]] = {
    "chat": ("custom_id", openai(chat("yes")), ("ok", "yes", None, "stop", None)),
    "thinking": (
        "custom_id",
        openai(chat("yes", reasoning_content="Let me see.")),
        ("ok", "yes", "Let me see.", "stop", None),
    ),
    "filtered": (
        "custom_id",
        openai(chat(None, "content_filter")),
        ("ok", None, None, "content_filter", "content_filter"),
    ),
    "completions": (
        "custom_id",
        openai({"choices": [{"text": "yes", "finish_reason": "length"}]}),
        ("ok", "yes", None, "length", None),
    ),
    "responses": (
        "custom_id",
        openai(
            {
                "status": "completed",
                "output": [
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Let me see."}]},
                    {"type": "message", "content": [{"type": "output_text", "text": "yes"}]},
                ],
            }
        ),
        ("ok", "yes", "Let me see.", "stop", None),
    ),
    "responses refused": (
        "custom_id",
        openai(
            {
                "status": "completed",
                "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}],
            }
        ),
        ("ok", None, None, "stop", "I will not."),
    ),
    "anthropic": (
        "custom_id",
        anthropic([{"type": "thinking", "thinking": "Hm."}, TEXT]),
        ("ok", "yes", "Hm.", "stop", None),
    ),
    "anthropic cut off": ("custom_id", anthropic([TEXT], "max_tokens"), ("ok", "yes", None, "length", None)),
    "anthropic refused": (
        "custom_id",
        anthropic([], "refusal"),
        ("ok", None, None, "content_filter", "content_filter"),
    ),
    "gemini": (
        "key",
        gemini([{"text": "Hm.", "thought": True}, {"text": "yes"}]),
        ("ok", "yes", "Hm.", "stop", None),
    ),
    "gemini blocked": (
        "key",
        {"response": {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}},
        ("ok", None, None, "content_filter", "content_filter"),
    ),
    "bedrock": (
        "recordId",
        {"modelInput": {}, "modelOutput": {"content": [TEXT], "stop_reason": "end_turn"}},
        ("ok", "yes", None, "stop", None),
    ),
    "body without status": ("custom_id", {"response": chat("yes")}, ("ok", "yes", None, "stop", None)),
}
OF_BEDROCK: dict[str, tuple[str, dict[str, Any], tuple[Any, ...]]] = {
    "nova": (
        "recordId",
        bedrock(
            {
                "output": {
                    "message": {
                        "content": [{"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"text": "yes"}]
                    }
                },
                "stopReason": "max_tokens",
            }
        ),
        ("ok", "yes", "Hm.", "length", None),
    ),
    "llama": (
        "recordId",
        bedrock({"generation": "yes", "stop_reason": "length"}),
        ("ok", "yes", None, "length", None),
    ),
    "titan": (
        "recordId",
        bedrock({"results": [{"outputText": "yes", "completionReason": "FINISH", "tokenCount": 1}]}),
        ("ok", "yes", None, "stop", None),
    ),
    "mistral": (
        "recordId",
        bedrock({"outputs": [{"text": "yes", "stop_reason": "stop"}]}),
        ("ok", "yes", None, "stop", None),
    ),
}
FAILURES: dict[str, tuple[str, dict[str, Any], str]] = {
    "status": (
        "custom_id",
        openai({"error": {"message": "Rate limit reached", "code": "rate_limit"}}, 429),
        "batch: Rate limit reached",
    ),
    "expired": (
        "custom_id",
        {"response": None, "error": {"code": "batch_expired", "message": "It expired."}},
        "batch: It expired.",
    ),
    "anthropic errored": (
        "custom_id",
        {
            "result": {
                "type": "errored",
                "error": {"type": "error", "error": {"type": "api_error", "message": "Overloaded"}},
            }
        },
        "batch: Overloaded",
    ),
    "anthropic expired": ("custom_id", {"result": {"type": "expired"}}, "batch: expired"),
    "nothing": ("custom_id", openai({}), "batch: a response of an unknown form, with no entries"),
}


def write(*lines: dict[str, Any], name: str = "batch.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(line) + "\n\n" for line in lines))
    return name


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_a_response_is_read(shape: str) -> None:
    key, line, wanted = SHAPES[shape]
    prompt_id = prompts()["prompt_id"][3]
    responses = analyse(write({key: prompt_id, **line})).responses
    assert responses["prompt_id"].to_list() == [prompt_id]
    assert responses.select("status", "answer", "thinking", "finish_reason", "refusal").rows() == [wanted]


@pytest.mark.parametrize("shape", FAILURES)
def test_every_failure_is_a_failed_attempt(shape: str) -> None:
    key, line, error = FAILURES[shape]
    first, second = prompts()["prompt_id"].head(2)
    run = analyse(write({key: first, **line}, {"custom_id": second, **openai(chat("no"))}))
    assert run.responses.select("status", "answer", "error").rows() == [
        ("failed", None, error),
        ("ok", "no", None),
    ]
    assert run.finding("fail_rate").values["failed"] == 1


def test_a_declined_request_is_a_refusal() -> None:
    body = {"error": {"message": "The response was filtered.", "code": "content_filter"}}
    run = analyse(write({"custom_id": prompts()["prompt_id"][0], **openai(body, 400)}))
    assert run.measures["outcome"].to_list() == ["refused"]


def test_ids_can_name_repetitions_and_models_are_separated() -> None:
    prompt_id = prompts()["prompt_id"][0]
    lines = [
        {"custom_id": f"{prompt_id}#{number}", **openai(chat(text))}
        for number, text in ((1, "no"), (0, "yes"))
    ]
    second_model = {"custom_id": prompt_id, **openai(chat("no") | {"model": "served-2"})}
    responses = analyse(write(*lines, second_model)).responses
    assert responses.select("model", "repetition", "answer").rows() == [
        ("served-1", 0, "yes"),
        ("served-1", 1, "no"),
        ("served-2", 0, "no"),
    ]
    assert responses["input_tokens"].to_list() == [7] * 3
    unnamed = {"custom_id": prompt_id, **openai(chat("no") | {"model": None})}
    assert analyse(write(unnamed), model="named").responses["model"].to_list() == ["named"]


def test_ids_of_other_studies_and_lines_of_another_kind_are_named() -> None:
    prompt_id = prompts()["prompt_id"][0]
    run = analyse(
        write(
            {"custom_id": prompt_id, **openai(chat("yes"))}, {"custom_id": "request-2", **openai(chat("no"))}
        )
    )
    assert any("batch.jsonl: 1 of 2 rows match no prompt" in problem for problem in run.problems)
    with pytest.raises(InputError, match=r"other\.jsonl: no prompt_id of the table matches a prompt"):
        analyse(write({"custom_id": "request-2", **openai(chat("no"))}, name="other.jsonl"))
    with pytest.raises(InputError, match=r"mixed\.jsonl, line 3 is not a response of a batch"):
        analyse(
            write(
                {"custom_id": prompt_id, **openai(chat("yes"))},
                {"prompt_id": prompt_id, "answer": "yes"},
                name="mixed.jsonl",
            )
        )


SEVERAL: dict[str, dict[str, Any]] = {
    "choices": openai(chat("yes") | {"choices": [*chat("yes")["choices"], *chat("no")["choices"]]}),
    "completions": openai(
        {"choices": [{"text": "yes", "finish_reason": "stop"}, {"text": "no", "finish_reason": "stop"}]}
    ),
    "candidates": {
        "response": {
            "candidates": gemini([{"text": "yes"}])["response"]["candidates"]
            + gemini([{"text": "no"}])["response"]["candidates"]
        }
    },
}


@pytest.mark.parametrize("shape", OF_BEDROCK)
def test_every_shape_of_bedrock_is_read(shape: str) -> None:
    key, line, wanted = OF_BEDROCK[shape]
    responses = read_batch_output(Path(write({key: "id", **line})))
    assert responses.select("status", "answer", "thinking", "finish_reason", "refusal").rows() == [wanted]


@pytest.mark.parametrize("shape", SEVERAL)
def test_every_answer_to_a_request_is_read(shape: str) -> None:
    responses = read_batch_output(Path(write({"custom_id": "id", **SEVERAL[shape]})))
    assert responses.select("prompt_id", "repetition", "answer", "output_tokens").rows() == [
        ("id", None, "yes", None),
        ("id", None, "no", None),
    ]
    with pytest.raises(
        InputError, match=r"batch\.jsonl, line 1 has 2 responses, and its id names one repetition"
    ):
        read_batch_output(Path(write({"custom_id": "id#1", **SEVERAL[shape]})))


@pytest.mark.verify
def test_several_answers_to_a_request_are_repetitions(capsys: pytest.CaptureFixture[str]) -> None:
    responses = analyse(write({"custom_id": prompts()["prompt_id"][0], **SEVERAL["choices"]})).responses
    assert responses.select("repetition", "answer").rows() == [(0, "yes"), (1, "no")]
    assert "more responses than the study asks for" in capsys.readouterr().err


@pytest.mark.parametrize("body", [{"embedding": [1.0]}, {}])
def test_responses_of_unknown_form_are_named(body: dict[str, Any]) -> None:
    failed = {"custom_id": "2", **openai({"error": {"message": "no"}}, 500)}
    message = "no response has a known form; the first is a response of an unknown form, with (embedding|no)"
    with pytest.raises(InputError, match=message):
        read_batch_output(Path(write({"recordId": "1", **bedrock(body)}, failed)))


def test_a_table_with_another_column_of_ids_is_no_batch() -> None:
    prompt_id = prompts()["prompt_id"][0]
    pl.DataFrame({"key": ["1"], "prompt_id": [prompt_id], "answer": ["yes"]}).write_ndjson("table.jsonl")
    assert analyse("table.jsonl").responses["answer"].to_list() == ["yes"]
