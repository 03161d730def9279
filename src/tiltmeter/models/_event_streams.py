"""Event streams: answers in pieces, which some endpoints send although `stream` is false.

A stream consists of lines `data: JSON`; lines that begin with a colon are comments (OpenRouter sends them
while it waits). The pieces are joined to the answer that the same endpoint sends without a stream, in the
form of OpenAI (`choices`) or of Anthropic (`content`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiltmeter.models._endpoints import found_at

_LINE_END = re.compile(r"\r\n|\r|\n")
"""Ends of lines of an event stream; other separators, such as U+2028, are part of a text."""
_FIELD = re.compile(r"(data|event|id|retry|)(?::|$) ?", re.ASCII)
_FAILURE = re.compile(r"error|exception|fail", re.IGNORECASE)
"""Names of events that report a failure."""
_KEEP_ALIVE = re.compile(r"ping|heartbeat|keep-?_?alive", re.IGNORECASE)
"""Names of events without content."""
_END = "[DONE]"
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
_NO_REASON = re.compile(r"|null|none|(?:finish_reason_)?unspecified", re.IGNORECASE)
"""Values that mean that there is no finish reason yet; some gateways send them with each piece."""
_FAILURE_FIELDS = ("error", "errors", "error_code", "error_msg", "error_message")
"""Fields that report a failure, also next to choices."""
_MESSAGE_FIELDS = ("message", "detail", "msg")
"""Fields that report a failure in place of choices, if they contain a text or a list."""


def lines_of(text: str) -> list[str]:
    """Return the lines of an event stream, which end at CR, LF or both."""
    return _LINE_END.split(text)


def reason_text(reason: object) -> str | None:
    """Return a finish reason as a text; SGLang sends an object with a type.

    None if it says that there is none.
    """
    inner = found_at(reason, "type") if isinstance(reason, dict) else reason
    return inner if isinstance(inner, str) and not _NO_REASON.fullmatch(inner.strip()) else None


def without_comments(text: str) -> str:
    """Return a text without the comments of an event stream with which it begins."""
    if not text.lstrip().startswith(":"):
        return text
    return "\n".join(line for line in lines_of(text) if not line.startswith(":")).strip()


def is_event_stream(text: str) -> bool:
    """Return whether a text without comments is an event stream, or one JSON object per line."""
    first, *following = lines_of(text.strip())
    if first and _FIELD.match(first):
        return True
    return bool(following) and first.startswith("{") and first.endswith("}")


def joined_stream(text: str) -> dict[str, Any] | None:
    """Return the answer in an event stream.

    Returns
    -------
    dict or None
        The answer as it would be without a stream; an event that reports an error is returned as it is. None
        if a piece cannot be read, or if the stream ends before the answer does: a part of an answer is no
        answer.
    """
    try:
        events, is_complete = _events(text)
    except (ValueError, RecursionError):
        return None
    for event in events:
        if error := _error_in(event):
            return error
    if any(event.get("type") == "message_start" for event in events):
        return _anthropic_answer(events)
    try:
        answer = _openai_answer(events)
    except ValueError:
        return None
    ended = is_complete or reason_text(found_at(answer, "choices", 0, "finish_reason")) is not None
    return answer if ended else None


def _events(text: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the JSON objects of a stream, and whether the mark of its end was seen.

    Raise ValueError if a piece is not an object.
    """
    events: list[dict[str, Any]] = []
    is_complete = False
    for name, pieces in _named_pieces(text):
        is_complete = is_complete or _END in pieces
        if _FAILURE.search(name):
            events.append({"error": _error_of(pieces)})
        elif not _KEEP_ALIVE.fullmatch(name):
            events += _objects(pieces)
    return events, is_complete


def _named_pieces(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each event ("" if it has none) and the lines of its data.

    A line without a field counts as data.
    """
    name = ""
    pieces: list[str] = []
    for line in [*lines_of(text), ""]:
        field = _FIELD.match(line)
        content = (line[field.end() :] if field else line).strip()
        ends = not line.strip() or content == _END or (field is not None and field[1] == "event")
        if ends and (pieces or name):
            yield name, pieces
            name = ""
            pieces = []
        if content and (field is None or field[1] == "data"):
            pieces.append(content)
        elif field is not None and field[1] == "event":
            name = content


def _objects(pieces: Sequence[str]) -> list[dict[str, Any]]:
    """Return the objects in the data of an event: one in all of its lines, or one in each.

    Raise ValueError for anything else.
    """
    try:
        values = [json.loads("\n".join(pieces))] if pieces else []
    except ValueError:
        values = [json.loads(piece) for piece in pieces if piece != _END]
    values = [value for value in values if value is not None]
    if not all(isinstance(value, dict) for value in values):
        raise ValueError("a piece of an event stream is not an object")
    return values


def _error_of(pieces: Sequence[str]) -> Any:
    """Return the error in the data of an event whose name says that it reports one: an object, or a text."""
    text = "\n".join(pieces)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text or "an error without a text"
    return (found_at(value, "error") or value or text) if isinstance(value, dict) else text


def _error_in(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the failure that an event reports, in the form of an answer, or None."""
    failure = next((event[name] for name in _FAILURE_FIELDS if event.get(name)), None)
    if event.get("choices"):
        return None if failure is None else {"error": failure}
    messages = [event.get(name) for name in _MESSAGE_FIELDS]
    if failure is not None or "error" in (event.get("object"), event.get("type")):
        is_readable = event.get("error") or any(isinstance(message, str) for message in messages)
        return dict(event) if is_readable else {"error": event}
    if any(message and isinstance(message, str | list) for message in messages):
        return dict(event)
    return None


def _openai_answer(events: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Join chunks, whose first choice has a `delta`, or a whole `message`.

    Raise ValueError if one has another shape.
    """
    answer: dict[str, Any] = {}
    choice: dict[str, Any] = {"index": 0}
    deltas: list[dict[str, Any]] = []
    has_choice = False
    for event in events:
        answer |= _without_nulls(event, ("choices",))
        first = _first_choice(event)
        has_choice = has_choice or bool(first)
        choice |= _without_nulls(first, ("delta", "message", "finish_reason"))
        choice["finish_reason"] = _last_reason(choice.get("finish_reason"), first.get("finish_reason"))
        delta = first.get("delta") or first.get("message")
        if delta is None:
            continue
        is_object = isinstance(delta, dict)
        if not is_object:
            raise ValueError("a piece of an answer is not an object")
        deltas.append(delta)
    if not has_choice:
        return answer or None
    if deltas:
        choice["message"] = _joined_message(deltas)
    return answer | {"choices": [choice]}


def _without_nulls(fields: Mapping[str, Any], omitted: Sequence[str]) -> dict[str, Any]:
    """Return the fields that have a value, without the omitted ones."""
    return {name: value for name, value in fields.items() if value is not None and name not in omitted}


def _joined_message(deltas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the message whose pieces are the deltas. Its content is a text, or a list of parts."""
    message: dict[str, Any] = {}
    for name in (*_REASONING_FIELDS, "refusal"):
        pieces = [delta[name] for delta in deltas if isinstance(delta.get(name), str)]
        if pieces:
            message[name] = "".join(pieces)
    contents: list[Any] = []
    for delta in deltas:
        content = delta.get("content")
        contents += content if isinstance(content, list) else [content]
    contents = [content for content in contents if content is not None]
    message["role"] = "assistant"
    message["content"] = contents or None
    if contents and all(isinstance(content, str) for content in contents):
        message["content"] = "".join(contents)
    return message


def _last_reason(earlier: object, later: object) -> object:
    """Return the finish reason after another piece.

    "stop" does not replace an earlier reason, which may say that the answer is not complete.
    """
    if reason_text(later) is None or (later == "stop" and reason_text(earlier) is not None):
        return earlier
    return later


def _first_choice(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choice number 0 of a chunk; empty if it has none.

    Raise ValueError if its choices are no objects.
    """
    choices = event.get("choices") or []
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise ValueError("the choices of a piece are not a list of objects")
    return next((choice for choice in choices if choice.get("index") in (0, None)), {})


def _anthropic_answer(events: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Join the events of Anthropic.

    They are a message, blocks of content with their deltas, and a message_delta with the stop reason.
    """
    answer: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    blocks: dict[Any, dict[str, Any]] = {}
    for event in events:
        if isinstance(event.get("usage"), dict):
            usage |= event["usage"]
        match event:
            case {"type": "message_start", "message": dict(message)}:
                answer = dict(message)
                usage |= message["usage"] if isinstance(message.get("usage"), dict) else {}
            case {"type": "content_block_start", "content_block": dict(block)}:
                blocks[_place(event)] = dict(block)
            case {"type": "content_block_delta", "delta": {"text": str(text)}}:
                _extend(blocks.setdefault(_place(event), {"type": "text"}), "text", text)
            case {"type": "content_block_delta", "delta": {"thinking": str(text)}}:
                _extend(blocks.setdefault(_place(event), {"type": "thinking"}), "thinking", text)
            case {"type": "message_delta", "delta": dict(delta)}:
                answer |= delta
    if reason_text(answer.get("stop_reason")) is None:
        return None
    return answer | {"content": list(blocks.values()) or answer.get("content"), "usage": usage}


def _place(event: Mapping[str, Any]) -> str:
    """Return the place of a block in the content, as a key."""
    return str(event.get("index") or 0)


def _extend(block: dict[str, Any], name: str, text: str) -> None:
    """Add a text to a field of a block."""
    block[name] = f"{block.get(name) or ''}{text}"
