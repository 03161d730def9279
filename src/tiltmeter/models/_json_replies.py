"""Extraction of JSON from a model's answer: alone, in a fenced block, within prose, or slightly malformed.

`clean_item` cleans an item of a list in such an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from tiltmeter.models._thinking import CLOSES, OPENS

MAX_LENGTH: Final = 1_000_000
"""Maximum length of an answer in characters; answers of judges are far shorter."""

_MAX_CANDIDATES = 100
"""Maximum number of bracketed texts in prose that are tried."""

_THOUGHT = re.compile(rf"{OPENS}.*?(?:{CLOSES}|\Z)", re.DOTALL)
_ORPHAN_END = re.compile(CLOSES)  # some endpoints omit the opening tag
_FENCED = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[^\n`~]*+\n(.*?)(?:\1|\Z)", re.DOTALL | re.MULTILINE)
# Strings are matched to their end, or to the end of the text if they are unterminated, so that one pass is
# enough.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.?)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.?)*+(?:"|\Z))|,(?=\s*+[\]}])', re.DOTALL)
_SINGLE = re.compile(r"(?<!\w)'((?:[^'\\\n]|(?<=\w)'(?=\w))*+)'(?=\s*+[,:\]}])")
_OPENS_JSON = re.compile(r"\{\s*+[\"'“‘]|\[\s*+[\"'“‘\[{]")  # other brackets are part of the prose
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_CLOSES = {"{": "}", "[": "]"}
_LEAD = re.compile(r"^(?:[-+•·*–—>]+\s+|\d{1,2}[.)]\s+)+")
_CONTROL = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " ")
_QUOTES = {'"': '"', "“": "”", "‘": "’", "'": "'", "`": "`", "«": "»"}


def object_schema(**properties: Any) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def read_json(text: str) -> dict[str, Any] | list[Any]:
    """Return the JSON object or list in an answer.

    The whole text is tried first, then fenced blocks, then the balanced objects and lists within prose.
    Reasoning between <think> tags is removed. Trailing commas are corrected, and so are typographic or single
    quotes if all quotation marks of the JSON are of that kind. Nothing else is repaired; truncated JSON is
    rejected. The running time is linear in the length of the text.

    Raises
    ------
    ValueError
        The answer contains no valid JSON object or list; the message is suitable for the judge.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the answer is too long to be read ({len(text)} characters)")
    value = _parsed(text.strip())
    if value is not None:
        return value
    answer = without_thinking(text)
    if not answer:
        raise ValueError("the answer is empty")
    value = next(json_values(answer), None)
    if value is not None:
        return value
    if _OPENS_JSON.search(answer):
        raise ValueError("the JSON of the answer is not valid or breaks off")
    raise ValueError("the answer holds no JSON")


def json_values(text: str) -> Iterator[dict[str, Any] | list[Any]]:
    """Yield the JSON objects and lists in a text, in the order in which `read_json` tries them.

    Duplicates are possible.
    """
    if len(text) > MAX_LENGTH:
        return
    for candidate in _candidates(without_thinking(text)):
        value = _parsed(candidate)
        if value is not None:
            yield value


def without_thinking(text: str) -> str:
    """Remove marked thinking from a text; the opening or the closing mark may be missing."""
    answer = _THOUGHT.sub(" ", text)
    start = max((mark.end() for mark in _ORPHAN_END.finditer(answer)), default=0)
    return answer[start:].strip()


def _candidates(answer: str) -> Iterator[str]:
    """Yield the texts in an answer that may be JSON: all of it, its fenced blocks, its balanced brackets."""
    yield answer
    for block in _FENCED.finditer(answer):
        yield block.group(2).strip()
    for start, end in _balanced(answer)[:_MAX_CANDIDATES]:
        yield answer[start:end]


def _balanced(text: str) -> list[tuple[int, int]]:
    """Return the spans of outermost balanced brackets that look like JSON, in order.

    Unclosed brackets are skipped.
    """
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    position = 0
    while match := (_TOKEN if opened else _OPENS_JSON).search(text, position):
        mark = text[match.start()]
        position = match.end() if opened else match.start() + 1
        if mark in _CLOSES:
            opened.append(match.start())
        elif mark in "]}":
            start = opened.pop()
            if _CLOSES[text[start]] != mark:
                opened.clear()
            elif not opened:
                spans.append((start, position))
    return spans


def _parsed(text: str) -> dict[str, Any] | list[Any] | None:
    if text[:1] not in _CLOSES:
        return None
    for candidate in _spellings(text):
        try:
            value = json.loads(candidate, strict=False, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            continue
        if _SURROGATE.search(candidate):  # tables cannot store lone surrogates
            with_surrogates = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
            value = json.loads(with_surrogates.decode("utf-16", "replace"))
        return value if isinstance(value, dict | list) else None
    return None


def _spellings(text: str) -> Iterator[str]:
    """Yield a text, and the same text with its quotation marks and trailing commas corrected."""
    yield text
    if '"' not in text:
        if "“" in text or "”" in text:
            text = text.translate({ord("“"): '"', ord("”"): '"'})
        elif "'" in text or "‘" in text:
            text = text.translate({ord("‘"): "'", ord("’"): "'"})
            text = _SINGLE.sub(lambda match: json.dumps(match[1], ensure_ascii=False), text)
    yield _TRAILING.sub(lambda match: match[1] or "", text)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def clean_item(item: str) -> str:
    """Return the item on one line, without marks around it.

    These are bullets, numbering, bold marks, quotation marks, and punctuation at its end.
    """
    text = " ".join(item.translate(_CONTROL).split())
    while True:
        before = text
        text = _LEAD.sub("", text).strip("*_ ").rstrip(" .,;:!").lstrip(" ,;:")
        if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
            text = text[1:-1]
        if text == before:
            return text
