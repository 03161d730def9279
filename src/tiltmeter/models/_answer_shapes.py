"""Shapes of answers: what endpoints send as finish reason, content and failure, brought into one form.

The words of the endpoints differ, and so do their types: a content is a text, a list of parts, an object or a
number; a filter reports itself as a finish reason, as a part of the content, as status 400 with a completion,
or as a prompt without any choice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tiltmeter._files.reading import json_of
from tiltmeter.models._endpoints import GENERATION_FAILED, Complaint, complaint_in, found_at
from tiltmeter.models._event_streams import is_event_stream, joined_stream, reason_text, without_comments
from tiltmeter.models._thinking import split_thinking

_DECLINED = re.compile(
    r"filter|refus|safety|prohibited|blocked|blocklist|recitation|spii|sensitive|guardrail|toxic|moderat"
    r"|policy|violat",
    re.IGNORECASE,
)
"""Finish reasons of a declined answer: OpenAI, Azure, Anthropic, Gemini, Bedrock, Cohere, GLM, and gateways
before them."""
_CUT_OFF = re.compile(
    r"length"
    r"|(?:max|token|model|context)_(?:new_|output_|completion_|context_)?(?:tokens|limit|length|window)",
    re.IGNORECASE,
)
"""Finish reasons of an answer that was cut off; most endpoints say "length"."""
_ABORTED = re.compile(
    r"error|abort|cancel|fail|resource|overload|unavailable|time_?(?:limit|out)|timed|interrupt|preempt"
    r"|disconnect|shut_?down|malformed|(?:unexpected|too_many)_tool",
    re.IGNORECASE,
)
"""Finish reasons of a generation that the server broke off, or that it could not read: DeepSeek, watsonx,
SGLang, Gemini and gateways."""
_OF_A_FUNCTION = re.compile(r"function_?call|tool_?call", re.IGNORECASE)
"""Reasons about a call of a function that the model wrote wrongly, which Gemini reports as those of a filter.
"""
_NOTHING_YET = ("load", "unload")
"""Finish reasons of Ollama for a request that loaded the model without generating anything."""
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}
"""HTTP status by the type of an error of Anthropic, for errors in an event stream or in an answer with status
200."""
_THINKING_FIELDS = ("thinking", "reasoning", "reasoning_content", "reasoning_text", "thought")
_TEXT_FIELDS = ("text", "content", "parts", "value", "output_text")


class AnswerError(ValueError):
    """An answer contains no completion; the message describes its content."""


class Reported(NamedTuple):
    """A failure that the endpoint reports in the body of an answer."""

    complaint: Complaint
    status: int | None
    """The HTTP status that the body names; None if it names none."""


class Content(NamedTuple):
    """The content of a message."""

    text: str | None
    thinking: str | None
    refusal: str | None


def answer_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer, or the one that is joined from an event stream.

    The answer is decoded as UTF-8, whatever its headers say.

    Raises
    ------
    AnswerError
        There is none.
    """
    try:
        text = without_comments(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise AnswerError(f"something that is not JSON: {raw.decode('utf-8', errors='replace')}") from None
    try:
        value = json_of(text)
    except (ValueError, RecursionError):
        if not is_event_stream(text):
            raise AnswerError(f"something that is not JSON: {text}") from None
        # Half of a surrogate pair at the end of a piece meets the other half at the beginning of the next
        # one.
        value = json_of(json.dumps(joined_stream(text)))
        if value is None:
            raise AnswerError(f"an event stream with a damaged piece or without its end: {text}") from None
    if not isinstance(value, dict):
        raise AnswerError(f"JSON that is not an object: {text}")
    return value


def reported_failure(answer: Mapping[str, Any]) -> Reported | None:
    """Return the failure that an answer reports instead of a completion, or None.

    It is next to or inside the first choice, or it takes the place of the choices: an error as an object or
    as a text (also of FastAPI, vLLM and Anthropic), or a prompt that was filtered.
    """
    if found_at(answer, "choices", 0) is not None:
        return _failed_choice(answer)
    if isinstance(answer.get("content"), list) and answer.get("type") != "error":  # Anthropic
        reason = reason_text(answer.get("stop_reason"))
        if not is_aborted(reason):
            return None
        return Reported(Complaint(f"generation failed (stop reason {reason})", GENERATION_FAILED), None)
    if filtered := _filtered_prompt(answer):
        return Reported(Complaint(filtered, flagged=True), None)
    error = answer.get("error")
    messages = [answer.get(name) for name in ("message", "detail", "msg", "errors")]
    if error or any(isinstance(message, str | list) and message for message in messages):
        return Reported(complaint_in(answer), _status_in(error) or _status_in(answer))
    return None


def _failed_choice(answer: Mapping[str, Any]) -> Reported | None:
    """Return the failure that is next to or inside the first choice of an answer, or None."""
    finish = reason_text(found_at(answer, "choices", 0, "finish_reason"))
    error = found_at(answer, "choices", 0, "error")
    if not error and not is_declined(finish):
        error = answer.get("error")
    if not error and not is_aborted(finish):
        return None
    error = error or found_at(answer, "choices", 0, "finish_reason", "message") or ""
    complaint = Complaint(f"generation failed (finish reason {finish})")
    if error:
        complaint = complaint_in({"error": error})
    return Reported(complaint._replace(codes=f"{complaint.codes} {GENERATION_FAILED}"), _status_in(error))


def _filtered_prompt(answer: Mapping[str, Any]) -> str | None:
    """Return why a filter rejected the prompt, or None if it did not.

    Gemini reports it as `promptFeedback`, Azure as `prompt_filter_results`.
    """
    feedback = answer.get("promptFeedback") or answer.get("prompt_feedback")
    reason = found_at(feedback, "blockReason") or found_at(feedback, "block_reason")
    if reason:
        message = found_at(feedback, "blockReasonMessage") or found_at(feedback, "block_reason_message")
        return str(message or reason)
    categories = found_at(answer, "prompt_filter_results", 0, "content_filter_results")
    if not isinstance(categories, dict):
        return None
    filtered = [name for name, verdict in categories.items() if found_at(verdict, "filtered") is True]
    return f"the prompt was filtered: {', '.join(filtered)}" if filtered else None


def _status_in(error: object) -> int | None:
    """Return the HTTP status that an error has as its code, status or type; None if there is none."""
    for name in ("code", "status", "status_code", "http_status"):
        code = found_at(error, name)
        if isinstance(code, str) and re.fullmatch(r"[45]\d\d", code):
            code = int(code)
        if isinstance(code, int) and 400 <= code < 600:
            return code
    return _STATUS_OF_TYPE.get(str(found_at(error, "type")))


def is_declined(reason: str | None) -> bool:
    """Return whether a finish reason says that the model or a filter declined to answer."""
    return reason is not None and bool(_DECLINED.search(reason)) and not _OF_A_FUNCTION.search(reason)


def is_aborted(reason: str | None) -> bool:
    """Return whether a finish reason says that the server broke off the generation.

    An answer that was declined because of its content is not broken off.
    """
    return reason is not None and bool(_ABORTED.search(reason)) and not is_declined(reason)


def common_reason(reason: str | None) -> str | None:
    """Return a finish reason in the words of OpenAI if it says "content_filter" or "length" in other words.

    Others are unchanged.
    """
    if reason is None:
        return None
    if is_declined(reason):
        return "content_filter"
    return "length" if _CUT_OFF.match(reason) else reason


def read_content(content: object) -> Content:
    """Return the text, the thinking and the refusal in the content of a message.

    It is null, a text, a number, a part, or a list of these; a part is an object with a text, the thinking
    (which may again be a list of parts, as that of Mistral) or a refusal. Parts of other kinds are ignored
    beside these.

    Raises
    ------
    AnswerError
        It is of another shape, and contains neither a text nor a thinking.
    """
    if isinstance(content, str):
        return Content(*split_thinking(content), refusal=None)
    texts: list[str] = []
    thoughts: list[str] = []
    refusals: list[str] = []
    understood = _collect(content, texts, thoughts, refusals)
    if not understood and not (texts or thoughts or refusals):
        raise AnswerError(f"a content of unknown shape: {json.dumps(content, ensure_ascii=False)}")
    text: str | None = None
    if texts:
        text, inline = split_thinking("".join(texts))
        if inline:
            thoughts.append(inline)
    return Content(text, "\n".join(filter(None, thoughts)) or None, "\n".join(refusals) or None)


_WITHOUT_TEXT = ("redacted_thinking", "tool_use", "tool_call", "function_call")
"""Types of parts that contain no text."""


def _collect(content: object, texts: list[str], thoughts: list[str], refusals: list[str]) -> bool:
    """Add the texts of a content to the lists; return whether all of its parts are of a known kind."""
    if isinstance(content, str):
        texts.append(content)
        return True
    if isinstance(content, int | float) and not isinstance(content, bool):
        texts.append(json.dumps(content))  # an answer that the server took for JSON
        return True
    if isinstance(content, list):
        outcomes = [_collect(part, texts, thoughts, refusals) for part in content]
        return all(outcomes)
    if not isinstance(content, dict):
        return content is None
    return _collect_part(content, texts, thoughts, refusals)


def _collect_part(part: dict[str, Any], texts: list[str], thoughts: list[str], refusals: list[str]) -> bool:
    """Add the texts of one part, as `_collect` does."""
    if isinstance(part.get("refusal"), str):
        refusals.append(part["refusal"])
        return True
    kind = part.get("type")
    is_thinking = str(kind).startswith(("thinking", "reasoning", "thought")) or part.get("thought") is True
    names = (*_THINKING_FIELDS, *_TEXT_FIELDS, "summary") if is_thinking else _TEXT_FIELDS
    inner = next((part[name] for name in names if not isinstance(part.get(name), bool | None)), None)
    if inner is None:
        return kind in _WITHOUT_TEXT or is_thinking
    if not is_thinking:
        return _collect(inner, texts, thoughts, refusals)
    pieces: list[str] = []
    understood = _collect(inner, pieces, pieces, pieces)
    if thought := "".join(pieces):
        thoughts.append(thought)
    return understood


def read_reasoning(message: Mapping[str, Any]) -> str:
    """Return the thinking in the fields that endpoints put beside the content; "" if there is none."""
    for name in (*_THINKING_FIELDS, "reasoning_details", "thoughts"):
        pieces: list[str] = []
        _collect(message.get(name), pieces, pieces, pieces)
        if text := "".join(pieces).strip():
            return text
    return ""


def demand_generated(
    reason: str | None, text: str | None, thinking: str | None, generated: int | None
) -> None:
    """Raise AnswerError if an answer without text and thinking says that nothing was generated.

    Parameters
    ----------
    generated
        Number of generated tokens, including those of the thinking; None if it is not known.
    """
    if (text or "").strip() or thinking:
        return
    if generated == 0 or reason in _NOTHING_YET:
        raise AnswerError(f"no generated token (finish reason {reason})")
    if reason is None:
        raise AnswerError("a choice with neither text nor a finish reason")
