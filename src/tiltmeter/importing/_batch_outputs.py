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
from pathlib import Path
from typing import Any, Final, TypeGuard

from polars import DataFrame, lit

from tiltmeter._files.reading import json_of
from tiltmeter._sanitising import shortened
from tiltmeter.errors import InputError
from tiltmeter.importing._evaluation_logs import RESPONSE_ROWS, reading_log
from tiltmeter.importing._response_tables import REPETITIONS, Source
from tiltmeter.models import Completion
from tiltmeter.models._answer_shapes import AnswerError
from tiltmeter.models._base import ModelError
from tiltmeter.models._endpoints import clean, complaint_in, found_at
from tiltmeter.models._http import read_chat_answer

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
_STOPS: Final = ("end_turn", "stop_sequence", "STOP", "completed", "FINISH", "FINISHED")
_LENGTHS: Final = ("max_tokens", "model_context_window_exceeded", "MAX_TOKENS", "max_output_tokens", "LENGTH")
_FILTERS: Final = (
    *("guardrail_intervened", "content_filtered", "CONTENT_FILTERED"),
    *("refusal", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION", "IMAGE_SAFETY"),
)
_FINISH: Final[Mapping[str, str]] = {
    **dict.fromkeys(_STOPS, "stop"),
    **dict.fromkeys(_LENGTHS, "length"),
    **dict.fromkeys(_FILTERS, "content_filter"),
}
"""Reasons why a generation ended, in the words of chat endpoints; others are unchanged."""


class UnknownFormError(AnswerError):
    """A response of a batch that has none of the known forms."""


def is_batch_output(path: Source) -> TypeGuard[Path]:
    """Return whether the first line of a file is a response of a batch; False if the file cannot be read."""
    if not isinstance(path, Path) or path.suffix.lower() not in _SUFFIXES:
        return False
    try:
        return _is_response(json.loads(_first_line(path)))
    except (OSError, ValueError, RecursionError):
        return False


def _first_line(path: Path) -> str:
    """Return the first line of a file that is not blank, or its beginning if the line is too long."""
    with path.open("rb") as file:
        while line := file.readline(_LONGEST_LINE):
            if line.strip():
                return line.decode("utf-8-sig")
    return ""


def _is_response(line: object) -> bool:
    """Return whether a line has an id and a response or an error."""
    return (
        isinstance(line, dict) and not line.keys().isdisjoint(_IDS) and not line.keys().isdisjoint(_RESULTS)
    )


def read_batch_output(path: Path) -> DataFrame:
    """Return the responses of a batch, one row per response, with the id of the request as `prompt_id`.

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
    unknown_forms: list[str] = []
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
            rows += _rows_of_line(line, f"{path}, line {number}", unknown_forms)
        if unknown_forms and all(row["status"] == "failed" for row in rows):
            raise InputError(
                f"{path}: no response has a known form; the first is {unknown_forms[0]}; write the answers"
                " to a table with the columns prompt_id and answer"
            )
        table = DataFrame(rows, schema=RESPONSE_ROWS)
    models = table["model"].drop_nulls().unique()
    # A failed request does not say which model it was sent to.
    return table.with_columns(model=lit(models[0])) if len(models) == 1 else table


def _rows_of_line(line: Mapping[str, Any], place: str, unknown_forms: list[str]) -> list[dict[str, Any]]:
    """Return one row for each response in a line, or one for its error.

    Parameters
    ----------
    place
        File and line in messages.
    unknown_forms
        Descriptions of responses of unknown form, to which those of this line are added.
    """
    body, error = _body_and_error(line)
    request = _request_of(line, body)
    if error is not None:
        return [request | _failure(error)]
    answers = _answers_in(body)
    if len(answers) > 1 and "repetition" in request:
        raise InputError(
            f"{place} has {len(answers)} responses, and its id names one repetition;"
            " give requests with several responses ids without #"
        )
    rows = []
    for answer in answers:
        try:
            outcome = {"status": "ok", **_columns_of(read_chat_answer(_as_chat(answer), 0.0))}
        except (AnswerError, ModelError) as failure:
            reason = clean(str(failure))
            outcome = {"status": "failed", "error": f"batch: {reason}"}
            if isinstance(failure, UnknownFormError):
                unknown_forms.append(reason)
        rows.append(request | outcome)
    return rows


def _request_of(line: Mapping[str, Any], body: Any) -> dict[str, Any]:
    """Return the columns that identify the request of a line."""
    identifier = str(next(line[name] for name in _IDS if name in line))
    request: dict[str, Any] = {"prompt_id": identifier}
    numbered = _REPETITION.fullmatch(identifier)
    if numbered:
        request = {"prompt_id": numbered[1], "repetition": REPETITIONS.index(int(numbered[2]))}
    model = found_at(body, "model")
    if isinstance(model, str):
        request["model"] = model
    return request


def _failure(error: Any) -> dict[str, Any]:
    """Return the columns of a failed request, or of a request that the provider declined."""
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
            unmetered = {key: value for key, value in body.items() if key not in _USAGE}
            return [unmetered | {name: [answer]} for answer in answers]
    return [body]


def _columns_of(completion: Completion) -> dict[str, Any]:
    return {
        "answer": completion.text,
        "thinking": completion.thinking,
        "finish_reason": completion.finish_reason,
        "refusal": completion.refusal,
        "input_tokens": _plausible(completion.input_tokens),
        "output_tokens": _plausible(completion.output_tokens),
    }


def _plausible(count: int | None) -> int | None:
    """Return a number of tokens, or None if it is too large to be one."""
    return count if count is not None and count < _LARGEST_COUNT else None


def _body_and_error(line: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the response of a line, and its error in place of one."""
    result = line.get("result")
    if isinstance(result, dict):  # Anthropic
        if result.get("type") == "succeeded":
            return result.get("message"), None
        error = result.get("error")
        if isinstance(error, dict):
            return None, error.get("error", error)
        return None, str(result.get("type"))
    response = line.get("modelOutput", line.get("response"))
    if response is None:
        return None, line.get("error") or "no response"
    body = response.get("body", response) if isinstance(response, dict) else response
    status = found_at(response, "status_code")
    if isinstance(status, int) and status != 200:
        has_details = isinstance(body, dict) and body
        return body, body if has_details else f"status {status}"
    return body, line.get("error")


def _as_chat(body: Any) -> dict[str, Any]:
    """Return the body of a response in the form of a chat endpoint.

    Raise AnswerError if it has no known form.
    """
    if not isinstance(body, dict):
        raise AnswerError("no response")
    usage = body.get("usage")
    if isinstance(body.get("choices"), list):
        text = found_at(body, "choices", 0, "text")
        if isinstance(text, str) and found_at(body, "choices", 0, "message") is None:
            return _chat(text, found_at(body, "choices", 0, "finish_reason"), usage)
        return body
    if isinstance(body.get("content"), list):  # Anthropic
        return _chat(body["content"], body.get("stop_reason"), usage, "input_tokens", "output_tokens")
    if isinstance(body.get("output"), list):  # OpenAI's responses
        content = list(_items(body["output"]))
        reason = found_at(body, "incomplete_details", "reason") or body.get("status")
        return _chat(content, reason, usage, "input_tokens", "output_tokens")
    if "candidates" in body or "promptFeedback" in body:
        return _as_chat_of_gemini(body)
    return _as_chat_of_bedrock(body)


def _as_chat_of_gemini(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output of a model of Gemini in the form of a chat endpoint."""
    content = None
    parts = found_at(body, "candidates", 0, "content", "parts")
    if isinstance(parts, list):
        content = [_part(part) for part in parts if isinstance(part, dict)]
    reason = found_at(body, "candidates", 0, "finishReason")
    if not reason and found_at(body, "promptFeedback", "blockReason"):
        reason = "SAFETY"
    return _chat(content, reason, body.get("usageMetadata"), "promptTokenCount", "candidatesTokenCount")


def _as_chat_of_bedrock(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output of a model of Bedrock in the form of a chat endpoint.

    Nova, Llama, Titan and Mistral have different forms.
    """
    parts = found_at(body, "output", "message", "content")
    if isinstance(parts, list):  # Nova
        content = [_part_of_nova(part) for part in parts]
        return _chat(content, body.get("stopReason"), body.get("usage"), "inputTokens", "outputTokens")
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
    """Yield the parts of a message in the output of OpenAI's responses: texts, refusals and thinking."""
    for item in output:
        parts: list[Any] = []
        for name in ("summary", "content"):
            listed = found_at(item, name)
            if isinstance(listed, list):
                parts += listed
        for part in parts:
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
    """Return an answer in the form of a chat endpoint.

    Parameters
    ----------
    asked, generated
        Names of the numbers of tokens in `usage`.
    """
    parts = content if isinstance(content, list) else []
    refusals = [part.get("refusal") for part in parts if found_at(part, "type") == "refusal"]
    message = {"role": "assistant", "content": content, "refusal": refusals[0] if refusals else None}
    finish = _FINISH.get(reason, reason) if isinstance(reason, str) else None
    counts = {"prompt_tokens": found_at(usage, asked), "completion_tokens": found_at(usage, generated)}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": counts}
