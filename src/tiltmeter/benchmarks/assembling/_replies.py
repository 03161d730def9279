"""What a model answers when it is asked for a question, or whether one makes sense."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import polars as pl

from tiltmeter._json import json_values, without_thinking
from tiltmeter.measures import refused

__all__ = ["SCHEMA_CHECK", "SCHEMA_QUESTION", "Reply", "read_check", "read_question"]

T = TypeVar("T")

SCHEMA_QUESTION: Mapping[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": ["string", "null"]}},
    "required": ["question"],
    "additionalProperties": False,
}
SCHEMA_CHECK: Mapping[str, Any] = {
    "type": "object",
    "properties": {"sensible": {"type": "boolean"}},
    "required": ["sensible"],
    "additionalProperties": False,
}

_LONGEST = 100_000
_LONGEST_QUESTION = 400
_NONE = re.compile(r"\W*(?:none|null|n/?a|cannot|can't|can\u2019t|i cannot|no question)\b[^?]*$", re.IGNORECASE)
_LEAD = re.compile(r"^(?:question\s*:|[-*\u2022]|\d{1,2}[.)])\s*", re.IGNORECASE)
_SAYS = re.compile(r"\W*(yes|no|true|false)\b\W*$", re.IGNORECASE)


class Reply(NamedTuple, Generic[T]):
    """How an answer was read."""

    value: T | None
    problem: str | None
    """Why there is no value, in words the model can be shown."""
    cannot: bool = False
    """The model says that it cannot, or will not."""


def read_question(answer: str) -> Reply[str]:
    """The question of an answer: the JSON asked for, or a single line that ends in a question mark."""
    said = without_thinking(answer[:_LONGEST])
    for value in _objects(said):
        if "question" in value:
            return _question(value["question"])
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    asking = [line for line in lines if line.rstrip("\"'\u201d\u2019*_").endswith("?") and "{" not in line]
    if len(asking) == 1:
        return _question(asking[0])
    if not lines:
        return Reply(None, "the answer is empty")
    if _NONE.match(said) or refused(pl.Series([said]))[0]:
        return Reply(None, None, cannot=True)
    return Reply(None, 'the answer holds no JSON of the form {"question": ...}')


def read_check(answer: str) -> Reply[bool]:
    """The verdict of an answer: the JSON asked for, or a bare yes or no."""
    said = without_thinking(answer[:_LONGEST])
    for value in _objects(said):
        verdict = value.get("sensible")
        if isinstance(verdict, str):
            verdict = {"true": True, "yes": True, "false": False, "no": False}.get(verdict.strip().lower())
        if isinstance(verdict, bool):
            return Reply(verdict, None)
    if word := _SAYS.match(said):
        return Reply(word[1].lower() in ("yes", "true"), None)
    return Reply(None, 'the answer holds no JSON of the form {"sensible": ...}')


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects in a text, in order."""
    return (value for value in json_values(text) if isinstance(value, dict))


def _question(value: object) -> Reply[str]:
    if value is None:
        return Reply(None, None, cannot=True)
    if not isinstance(value, str):
        return Reply(None, "the question is not a text")
    text = _LEAD.sub("", " ".join(value.split()).strip("*_ "))
    if len(text) > 1 and text[0] in "\"'\u201c" and text[-1] in "\"'\u201d":
        text = text[1:-1].strip()
    if not text or _NONE.match(text) or (not text.endswith("?") and refused(pl.Series([text]))[0]):
        return Reply(None, None, cannot=True)
    if not text.endswith("?"):
        return Reply(None, "what was given is not a question")
    if len(text) > _LONGEST_QUESTION:
        return Reply(None, f"the question is longer than {_LONGEST_QUESTION} characters")
    return Reply(text, None)
