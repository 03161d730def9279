"""Outputs of batches: files of a provider with one line for each request, its id and the response.

Read are the files of OpenAI (chat, completions and responses), Anthropic and Gemini, and of services and
servers that write the same (Azure, Groq, Mistral, Together, vLLM), and those of Bedrock for models of
Anthropic, Amazon, Meta and Mistral. The id of a request is the id of its prompt; "PROMPT_ID#2" is the
response to its repetition 2 (counted from 0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeGuard

from polars import DataFrame, lit

from tiltmeter.errors import InputError
from tiltmeter.files.reading import json_of
from tiltmeter.importing.evaluation_logs import RESPONSE_ROWS, reading_log
from tiltmeter.importing.response_tables import REPETITIONS, Source
from tiltmeter.models import Completion
from tiltmeter.models.answer_shapes import AnswerError
from tiltmeter.models.base import ModelError
from tiltmeter.models.endpoints import clean, complaint_in, found_at
from tiltmeter.models.http import read_chat_answer
from tiltmeter.sanitising import shortened

_IDS: Final = ("custom_id", "key", "recordId")
_RESULTS: Final = ("response", "result", "error", "modelOutput")
_SUFFIXES: Final = (".jsonl", ".ndjson", ".json", ".out")
_LONGEST_LINE: Final = 2**26
_REPETITION: Final = re.compile(r"(.+)#([0-9]{1,5})")
_LARGEST_COUNT: Final = 2**31
_ANSWERS: Final = ("choices", "candidates", "results", "outputs")
"""Names of the list of answers in a response."""
_USAGE: Final = ("usage", "usageMetadata", "inputTextTokenCount")
_LONGEST_NAMES: Final = 120
_FINISH: Final[Mapping[str, str]] = {
    **dict.fromkeys(("end_turn", "stop_sequence", "STOP", "completed", "FINISH", "FINISHED"), "stop"),
    **dict.fromkeys(
        ("max_tokens", "model_context_window_exceeded", "MAX_TOKENS", "max_output_tokens", "LENGTH"), "length"
    ),
    **dict.fromkeys(("guardrail_intervened", "content_filtered", "CONTENT_FILTERED"), "content_filter"),
    **dict.fromkeys(
        ("refusal", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION", "IMAGE_SAFETY"),
        "content_filter",
    ),
}
"""Reasons why a generation ended, in the words of chat endpoints; others are unchanged."""


class UnknownFormError(AnswerError):
    """A response of a batch that has none of the known forms."""


def is_batch_output(path: Source) -> TypeGuard[Path]:
    """Return whether the first line of a file is a response of a batch; False if the file cannot be read."""
    if not isinstance(path, Path) or path.suffix.lower() not in _SUFFIXES:
        return False
    try:
        with path.open("rb") as file:
            first = next(
                (line for line in iter(lambda: file.readline(_LONGEST_LINE), b"") if line.strip()), b""
            )
        return _is_response(json.loads(first.decode("utf-8-sig")))
    except (OSError, ValueError, RecursionError):
        return False


def _is_response(line: object) -> bool:
    return (
        isinstance(line, dict)
        and any(name in line for name in _IDS)
        and any(name in line for name in _RESULTS)
    )


def read_batch_output(path: Path) -> DataFrame:
    """Return the responses of a batch, one row per response: the columns of a response, with the id as `prompt_id`.

    A request may have several responses (the choices of n=2).

    A response that the provider declined is refused; a request that failed, expired or was cancelled is a
    failed attempt.

    Raises
    ------
    InputError
        A line is not a response of a batch, or has several responses for the id of one repetition; or no
        response has a known form.
    """
    rows: list[dict[str, Any]] = []
    unknown: list[str] = []
    with reading_log(path, "batch output"), path.open(encoding="utf-8-sig") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            line = json_of(text)
            if not _is_response(line):
                raise InputError(
                    f"{path}, line {number} is not a response of a batch: it needs an"
                    " id and a response or an error"
                )
            place, body, error = _request(line)
            if error is not None:
                rows.append(place | _failure(error))
                continue
            answers = _answers_in(body)
            if len(answers) > 1 and "repetition" in place:
                raise InputError(
                    f"{path}, line {number} has {len(answers)} responses, and its id names one repetition;"
                    " give requests with several responses ids without #"
                )
            for answer in answers:
                try:
                    rows.append(
                        place | {"status": "ok", **_columns_of(read_chat_answer(_as_chat(answer), 0.0))}
                    )
                except (AnswerError, ModelError) as failure:
                    rows.append(place | {"status": "failed", "error": f"batch: {clean(str(failure))}"})
                    if isinstance(failure, UnknownFormError):
                        unknown.append(clean(str(failure)))
        if unknown and all(row["status"] == "failed" for row in rows):
            raise InputError(
                f"{path}: no response has a known form; the first is {unknown[0]}; write the answers to a"
                " table with the columns prompt_id and answer"
            )
        table = DataFrame(rows, schema=RESPONSE_ROWS)
    models = table["model"].drop_nulls().unique()
    # A failed request does not say which model it was sent to.
    return table.with_columns(model=lit(models[0])) if len(models) == 1 else table


def _request(line: Mapping[str, Any]) -> tuple[dict[str, Any], Any, Any]:
    """Return the columns that identify the request of a line, its response, and its error in place of one."""
    name = str(next(line[key] for key in _IDS if key in line))
    numbered = _REPETITION.fullmatch(name)
    place = (
        {"prompt_id": numbered[1], "repetition": REPETITIONS.index(int(numbered[2]))}
        if numbered
        else {"prompt_id": name}
    )
    body, error = _body_and_error(line)
    model = found_at(body, "model")
    return place | ({"model": model} if isinstance(model, str) else {}), body, error


def _failure(error: Any) -> dict[str, Any]:
    complaint = complaint_in(error)
    message = clean(complaint.message)
    if complaint.flagged:
        return {"status": "ok", "finish_reason": "content_filter", "refusal": message}
    return {"status": "failed", "error": f"batch: {message}"}


def _answers_in(body: Any) -> list[Any]:
    """Return one body for each answer in a response.

    The numbers of tokens of several are unknown, because only their sum is given.
    """
    for name in _ANSWERS:
        answers = found_at(body, name)
        if isinstance(answers, list) and len(answers) > 1:
            rest = {key: value for key, value in body.items() if key not in _USAGE}
            return [rest | {name: [answer]} for answer in answers]
    return [body]


def _columns_of(completion: Completion) -> dict[str, Any]:
    counts = {"input_tokens": completion.input_tokens, "output_tokens": completion.output_tokens}
    return {
        "answer": completion.text,
        "thinking": completion.thinking,
        "finish_reason": completion.finish_reason,
        "refusal": completion.refusal,
        **{
            name: count if count is not None and count < _LARGEST_COUNT else None
            for name, count in counts.items()
        },
    }


def _body_and_error(line: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the response of a line, and its error in place of one."""
    if isinstance(result := line.get("result"), dict):  # Anthropic
        if result.get("type") == "succeeded":
            return result.get("message"), None
        error = result.get("error")
        return None, error.get("error", error) if isinstance(error, dict) else str(result.get("type"))
    response = line.get("modelOutput", line.get("response"))
    if response is None:
        return None, line.get("error") or "no response"
    body = response.get("body", response) if isinstance(response, dict) else response
    status = found_at(response, "status_code")
    if isinstance(status, int) and status != 200:
        return body, body if isinstance(body, dict) and body else f"status {status}"
    return body, line.get("error")


def _as_chat(body: Any) -> dict[str, Any]:
    """Return the body of a response in the form of a chat endpoint.

    Raise AnswerError if it has no known form.
    """
    if not isinstance(body, dict):
        raise AnswerError("no response")
    if isinstance(body.get("choices"), list):
        text = found_at(body, "choices", 0, "text")
        if isinstance(text, str) and found_at(body, "choices", 0, "message") is None:
            return _chat(text, found_at(body, "choices", 0, "finish_reason"), body.get("usage"))
        return body
    if isinstance(body.get("content"), list):  # Anthropic
        return _chat(
            body["content"], body.get("stop_reason"), body.get("usage"), "input_tokens", "output_tokens"
        )
    if isinstance(body.get("output"), list):  # OpenAI's responses
        reason = found_at(body, "incomplete_details", "reason") or body.get("status")
        return _chat(list(_items(body["output"])), reason, body.get("usage"), "input_tokens", "output_tokens")
    if "candidates" in body or "promptFeedback" in body:  # Gemini
        blocked = "SAFETY" if found_at(body, "promptFeedback", "blockReason") else None
        parts = found_at(body, "candidates", 0, "content", "parts")
        content = (
            [_part(part) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else None
        )
        reason = found_at(body, "candidates", 0, "finishReason") or blocked
        return _chat(content, reason, body.get("usageMetadata"), "promptTokenCount", "candidatesTokenCount")
    return _as_chat_of_bedrock(body)


def _as_chat_of_bedrock(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output of a model of Bedrock in the form of a chat endpoint: Nova, Llama, Titan and Mistral have forms of their own."""
    parts = found_at(body, "output", "message", "content")
    if isinstance(parts, list):  # Nova
        return _chat(
            [_part_of_nova(part) for part in parts],
            body.get("stopReason"),
            body.get("usage"),
            "inputTokens",
            "outputTokens",
        )
    if isinstance(body.get("generation"), str):  # Llama
        return _chat(
            body["generation"], body.get("stop_reason"), body, "prompt_token_count", "generation_token_count"
        )
    text = found_at(body, "results", 0, "outputText")
    if isinstance(text, str):  # Titan
        counts = {
            "prompt_tokens": body.get("inputTextTokenCount"),
            "completion_tokens": found_at(body, "results", 0, "tokenCount"),
        }
        return _chat(text, found_at(body, "results", 0, "completionReason"), counts)
    text = found_at(body, "outputs", 0, "text")
    if isinstance(text, str):  # Mistral
        return _chat(text, found_at(body, "outputs", 0, "stop_reason"), None)
    names = shortened(", ".join(map(str, body)), _LONGEST_NAMES)
    raise UnknownFormError(f"a response of an unknown form, with {names or 'no entries'}")


def _part_of_nova(part: Any) -> Any:
    thinking = found_at(part, "reasoningContent", "reasoningText", "text")
    return {"type": "thinking", "thinking": thinking} if isinstance(thinking, str) else part


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    kind = "thinking" if part.get("thought") is True else "text"
    return {"type": kind, kind: part.get("text")}


def _items(output: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a message in the output of OpenAI's responses: texts, refusals and summaries of thinking."""
    for item in output:
        lists = [found_at(item, name) for name in ("summary", "content")]
        for part in chain.from_iterable(parts for parts in lists if isinstance(parts, list)):
            text = found_at(part, "text")
            match found_at(part, "type"):
                case "output_text":
                    yield {"type": "text", "text": text}
                case "summary_text" | "reasoning_text":
                    yield {"type": "thinking", "thinking": text}
                case "refusal":
                    yield {"type": "refusal", "refusal": found_at(part, "refusal")}


def _chat(
    content: Any, reason: Any, usage: Any, asked: str = "prompt_tokens", generated: str = "completion_tokens"
) -> dict[str, Any]:
    refusals = (
        [part.get("refusal") for part in content if found_at(part, "type") == "refusal"]
        if isinstance(content, list)
        else []
    )
    message = {"role": "assistant", "content": content, "refusal": next(iter(refusals), None)}
    finish = _FINISH.get(reason, reason) if isinstance(reason, str) else None
    counts = {"prompt_tokens": found_at(usage, asked), "completion_tokens": found_at(usage, generated)}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": counts}
