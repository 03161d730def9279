"""Event streams: answers in pieces, which some endpoints send although `stream` is false.

A stream consists of lines `data: JSON`; lines that begin with a colon are comments (OpenRouter sends them while it waits). The pieces are
joined to the answer that the same endpoint sends without a stream, in the form of OpenAI (`choices`) or of Anthropic (`content`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tiltmeter.models.endpoints import found_at

_FIELD = re.compile(r"(?:data|event|id|retry)?:", re.ASCII)
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")


def without_comments(text: str) -> str:
    """Return a text without the comments that precede its content, if it begins with comments of an event stream."""
    if not text.lstrip().startswith(":"):
        return text
    return "\n".join(line for line in text.splitlines() if not line.startswith(":")).strip()


def is_event_stream(text: str) -> bool:
    """Return whether a text is an event stream (without the comments before it), or one JSON object per line."""
    lines = text.lstrip().splitlines()
    return bool(lines) and (_FIELD.match(lines[0]) is not None or (len(lines) > 1 and lines[0].startswith("{") and lines[0].endswith("}")))


def joined_stream(text: str) -> dict[str, Any] | None:
    """Return the answer in an event stream.

    Returns
    -------
    dict or None
        The answer as it would be without a stream; an event that reports an error is returned as it is. None if the stream ends before
        the answer does, or contains nothing that can be read.
    """
    events, is_complete = _events(text)
    for event in events:
        if event.get("error") and not event.get("choices"):
            return event
    if any(event.get("type") == "message_start" for event in events):
        return _anthropic_answer(events)
    answer = _openai_answer(events)
    ended = is_complete or found_at(answer, "choices", 0, "finish_reason") is not None
    return answer if ended else None


def _events(text: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the JSON objects of a stream, and whether the mark of its end was seen."""
    events: list[dict[str, Any]] = []
    is_complete = False
    for line in text.splitlines():
        content = line.removeprefix("data:").strip()
        is_complete = is_complete or content == "[DONE]"
        if not content.startswith("{"):
            continue
        try:
            event = json.loads(content)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            events.append(event)
    return events, is_complete


def _openai_answer(events: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Join chunks, whose first choice has a `delta`, or a whole `message`."""
    contents: list[Any] = []
    texts: dict[str, list[str]] = {name: [] for name in (*_REASONING_FIELDS, "refusal")}
    choice: dict[str, Any] = {"index": 0}
    answer: dict[str, Any] = {}
    for event in events:
        answer |= {name: value for name, value in event.items() if value is not None and name != "choices"}
        first = _first_choice(event)
        choice |= {name: value for name, value in first.items() if value is not None and name not in ("delta", "message")}
        delta = first.get("delta") or first.get("message") or {}
        if not isinstance(delta, dict):
            continue
        content = delta.get("content")
        contents += content if isinstance(content, list) else [content]
        for name, parts in texts.items():
            if isinstance(delta.get(name), str):
                parts.append(delta[name])
    if not any(_first_choice(event) for event in events):
        return answer or None
    contents = [content for content in contents if content is not None]
    content = "".join(contents) if all(isinstance(content, str) for content in contents) else contents
    message: dict[str, Any] = {name: "".join(parts) for name, parts in texts.items() if parts}
    message |= {"role": "assistant", "content": content if contents else None}
    return answer | {"choices": [choice | {"message": message}]}


def _first_choice(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choice number 0 of a chunk; empty if it has none."""
    choices = event.get("choices")
    choices = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
    return next((choice for choice in choices if choice.get("index") in (0, None)), {})


def _anthropic_answer(events: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Join the events of Anthropic: a message, blocks of content with their deltas, and a message_delta with the stop reason."""
    answer: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    blocks: dict[Any, dict[str, Any]] = {}
    for event in events:
        match event:
            case {"type": "message_start", "message": dict(message)}:
                answer = dict(message)
                usage |= message.get("usage") or {}
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                blocks[index] = dict(block)
            case {"type": "content_block_delta", "index": int(index), "delta": {"text": str(text)}} if index in blocks:
                blocks[index]["text"] = f"{blocks[index].get('text', '')}{text}"
            case {"type": "content_block_delta", "index": int(index), "delta": {"thinking": str(text)}} if index in blocks:
                blocks[index]["thinking"] = f"{blocks[index].get('thinking', '')}{text}"
            case {"type": "message_delta", "delta": dict(delta)}:
                answer |= delta
                usage |= event.get("usage") or {}
    if answer.get("stop_reason") is None:
        return None
    return answer | {"content": list(blocks.values()), "usage": usage}
