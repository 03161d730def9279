"""JSON out of a model's answer, however it is wrapped: alone, fenced, in the middle of prose, or slightly misspelt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tiltmeter.thinking import CLOSES, OPENS

MAX_LENGTH = 1_000_000
"""Characters of an answer that is still looked at; nothing a judge is asked for comes near it."""

_TRIES = 100  # brackets in prose that are looked into

_THOUGHT = re.compile(rf"{OPENS}.*?(?:{CLOSES}|\Z)", re.DOTALL)
_ORPHAN_END = re.compile(CLOSES)  # endpoints that swallow the opening tag
_FENCED = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[^\n`~]*+\n(.*?)(?:\1|\Z)", re.DOTALL | re.MULTILINE)
# Strings are matched to their end, or to the end of the text where they have none, so that no text takes more than one pass.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.?)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.?)*+(?:"|\Z))|,(?=\s*+[\]}])', re.DOTALL)
_SINGLE = re.compile(r"(?<!\w)'((?:[^'\\\n]|(?<=\w)'(?=\w))*+)'(?=\s*+[,:\]}])")
_OPENS_JSON = re.compile(r"\{\s*+[\"'“‘]|\[\s*+[\"'“‘\[{]")  # other brackets in prose are just that
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_CLOSES = {"{": "}", "[": "]"}


def object_schema(**properties: Any) -> dict[str, Any]:
    """The JSON schema of an object that has these properties and no other."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def read_json(text: str) -> dict[str, Any] | list[Any]:
    """The JSON object or list that an answer holds.

    Looked for in the whole text, then in fenced blocks, then as the first balanced object or list in prose. Reasoning between
    <think> tags is left out. Trailing commas are corrected, and so are typographic or single quotes where every quotation mark of
    the JSON is of that kind; nothing else is guessed, and what breaks off in the middle is not read as if it were whole.
    The work grows with the length of the text, whatever it holds.

    Raises
    ------
    ValueError
        There is none; the message is a sentence that can be shown to the judge.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the answer is too long to be read ({len(text)} characters)")
    if (found := _parsed(text.strip())) is not None:
        return found
    if not (said := without_thinking(text)):
        raise ValueError("the answer is empty")
    for found in json_values(said):
        return found
    if _OPENS_JSON.search(said):
        raise ValueError("the JSON of the answer is not valid or breaks off")
    raise ValueError("the answer holds no JSON")


def json_values(text: str) -> Iterator[dict[str, Any] | list[Any]]:
    """Every JSON object or list that a text may be meant to hold, in the order in which `read_json` looks; some may stand there twice."""
    if len(text) > MAX_LENGTH:
        return
    for candidate in _candidates(without_thinking(text)):
        if (found := _parsed(candidate)) is not None:
            yield found


def without_thinking(text: str) -> str:
    """The text without thinking between marks, of which the opening or the closing one may be lacking."""
    said = _THOUGHT.sub(" ", text)
    return said[max((end.end() for end in _ORPHAN_END.finditer(said)), default=0) :].strip()


def _candidates(said: str) -> Iterator[str]:
    yield said
    for block in _FENCED.finditer(said):
        yield block.group(2).strip()
    for start, end in _balanced(said)[:_TRIES]:
        yield said[start:end]


def _balanced(text: str) -> list[tuple[int, int]]:
    """Outermost balanced brackets that look like JSON, in order; what is inside brackets that never close is but a part."""
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    place = 0
    while found := (_TOKEN if opened else _OPENS_JSON).search(text, place):
        mark = text[found.start()]
        place = found.end() if opened else found.start() + 1
        if mark in _CLOSES:
            opened.append(found.start())
        elif mark in "]}":
            start = opened.pop()
            if _CLOSES[text[start]] != mark:
                opened.clear()
            elif not opened:
                spans.append((start, place))
    return spans


def _parsed(text: str) -> dict[str, Any] | list[Any] | None:
    if text[:1] not in _CLOSES:
        return None
    for candidate in _spellings(text):
        try:
            value = json.loads(candidate, strict=False, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            continue
        if _SURROGATE.search(candidate):  # halves of characters cannot be kept in any table
            whole = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            value = json.loads(whole)
        return value if isinstance(value, dict | list) else None
    return None


def _spellings(text: str) -> Iterator[str]:
    yield text
    if '"' not in text:
        if "“" in text or "”" in text:
            text = text.translate({ord("“"): '"', ord("”"): '"'})
        elif "'" in text or "‘" in text:
            text = text.translate({ord("‘"): "'", ord("’"): "'"})
            text = _SINGLE.sub(lambda found: json.dumps(found.group(1), ensure_ascii=False), text)
    yield _TRAILING.sub(lambda found: found.group(1) or "", text)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
