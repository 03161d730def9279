"""From what an endpoint complains about to a `ModelError`: kind, scope, how long to wait, and a sentence without secrets."""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from tiltmeter.models._base import ModelError

__all__ = ["Complaint", "clean", "complaint_in", "model_error", "read_complaint", "retry_after"]

_LONGEST_DETAIL = 200
_SHORTEST_SECRET = 4
_LOOKS_LIKE_A_KEY = re.compile(r"\b(?:(?:sk|pk|gsk|xai|hf|nvapi|tgp)[-_][\w*.\-]{4,}|AIza[\w\-]{10,})|(?<=bearer )\S+", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,100}>([^<]{0,500})", re.IGNORECASE)
_MARKUP = re.compile(r"<[^<>]{0,500}>")

_QUOTA = re.compile(r"insufficient_quota|billing_hard_limit|credit balance|insufficient (?:credits|balance|funds)", re.IGNORECASE)
_CONTEXT = re.compile(
    r"context_length_exceeded|(?:maximum|max|exceeds?|exceeded|available) (?:the )?(?:model'?s? )?context|context (?:length|window|size)"
    r"|prompt is too long|input is too long|input token count|too many input tokens",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content_filter|content_policy_violation|responsibleaipolicy", re.IGNORECASE)
_BAD_KEY = re.compile(r"api[ _]key (?:not valid|invalid|not found|expired)|(?:invalid|incorrect)[ _]api[ _]key", re.IGNORECASE)
_NO_MODEL = re.compile(r"model_not_found", re.IGNORECASE)
_RETRIED = frozenset((408, 409, 425))
_OVERLOADED = frozenset((503, 529))


class Complaint(NamedTuple):
    """What the body of an error says."""

    message: str
    codes: str
    """Its type and code words, for recognition only."""
    parameter: str | None
    """The request's parameter it blames."""
    flagged: bool
    """The prompt was declined by a moderation filter."""

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Whether `pattern` occurs in the codes or the message."""
        return bool(pattern.search(self.codes) or pattern.search(self.message[:2000]))


def clean(text: str, secrets: tuple[str, ...] = ()) -> str:
    """`text` of a server as one short printable line: secrets masked, an HTML page reduced to its title."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    text = text[:20_000]
    head = text[:1000].lower()
    if "<html" in head or "<!doctype" in head:
        title = _TITLE.search(text)
        text = f"an HTML page titled {title[1].strip()!r}" if title else f"an HTML page: {_MARKUP.sub(' ', text)}"
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    text = _LOOKS_LIKE_A_KEY.sub("***", text)
    return text if len(text) <= _LONGEST_DETAIL else text[: _LONGEST_DETAIL - 1] + "…"


def read_complaint(raw: bytes) -> Complaint:
    """What an error's body says, in any of the shapes endpoints use; never raises."""
    text = raw.decode("utf-8", errors="replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return Complaint(text, "", None, False)
    if isinstance(body, list) and body:  # Gemini wraps its error in a list
        body = body[0]
    if not isinstance(body, dict):
        return Complaint(text, "", None, False)
    return complaint_in(body)


def complaint_in(body: Mapping[str, Any]) -> Complaint:
    """As `read_complaint`, of a body that is read already."""
    inner = body.get("error", body)
    if not isinstance(inner, dict):
        return Complaint(str(inner), "", None, False)
    message = inner.get("message") or inner.get("detail") or inner
    nested = inner.get("innererror")
    codes = [inner.get("type"), inner.get("code"), inner.get("status"), nested.get("code") if isinstance(nested, dict) else None]
    metadata = inner.get("metadata")
    parameter = inner.get("param")
    flagged = isinstance(metadata, dict) and "flagged_input" in metadata  # OpenRouter's moderation, a 403
    words = " ".join(str(code) for code in codes if code is not None)
    return Complaint(str(message), words, parameter if isinstance(parameter, str) else None, flagged or bool(_FILTERED.search(words)))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by `retry-after-ms` or `Retry-After` (seconds or an HTTP date), None when absent or nonsense."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        said = headers.get(name)
        if said is None:
            continue
        try:
            seconds = float(said) * unit
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(said).timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def model_error(status: int, headers: Mapping[str, str], complaint: Complaint, detail: str) -> ModelError:
    """The error an answer with this status (not 200) stands for; `detail` is its sentence, already clean."""
    kind, scope = _judge(status, complaint)
    wait = retry_after(headers) if scope == "transient" else None
    return ModelError(kind, detail, scope=scope, retry_after=wait, status=status)


def _judge(status: int, complaint: Complaint) -> tuple[str, str]:
    if status == 402 or (status in (400, 403, 429) and complaint.says(_QUOTA)):
        return "quota", "fatal"
    if status == 429:
        return "rate_limit", "transient"
    if status in _OVERLOADED:
        return "overloaded", "transient"
    if status >= 500 or status in _RETRIED:
        return "server", "transient"
    if status in (401, 403) or (status == 400 and complaint.says(_BAD_KEY)):
        return "auth", "fatal"
    if status in (404, 405) or 300 <= status < 400 or (status == 400 and _NO_MODEL.search(complaint.codes)):
        return "not_found", "fatal"
    if status in (400, 413, 422) and complaint.says(_CONTEXT):
        return "context_length", "permanent"
    if 400 <= status < 500:
        return "bad_request", "permanent"
    return "bad_response", "transient"
