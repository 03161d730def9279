"""Endpoints of HTTP providers: base URLs, environment variables of keys, and interpretation of errors.

Texts from a server are included in messages only after `clean`: short, printable, without secrets.
"""

from __future__ import annotations

import email.utils
import json
import logging
import math
import os
import re
import time
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from yarl import URL

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models._base import Message, ModelError, fold_system
from tiltmeter.models._key_masking import without_keys

_log = logging.getLogger("tiltmeter.models")


class Endpoint(NamedTuple):
    """One endpoint, with the environment variables `VARIABLES_API_KEY` and `VARIABLES_BASE_URL`."""

    base_url: str | None
    """The base URL if the environment variable is not set.

    None: there is no default, so the user must set it.
    """
    variables: str
    """Prefix of the environment variables."""
    key_needed: bool = False
    """Whether the default base URL requires a key."""
    length_parameters: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    """Names of the limit on the length of an answer: the second is used if the endpoint rejects the first."""

    @property
    def key_variable(self) -> str:
        """The environment variable that contains the key."""
        return f"{self.variables}_API_KEY"


_OPENAI_LENGTHS = ("max_completion_tokens", "max_tokens")
ENDPOINTS: Final[dict[str, Endpoint]] = {
    "openai": Endpoint("https://api.openai.com/v1", "OPENAI", True, _OPENAI_LENGTHS),
    "anthropic": Endpoint("https://api.anthropic.com", "ANTHROPIC", True),
    "ollama": Endpoint("http://127.0.0.1:11434/v1", "OLLAMA"),
    "vllm": Endpoint("http://127.0.0.1:8000/v1", "VLLM"),
    "llamacpp": Endpoint("http://127.0.0.1:8080/v1", "LLAMACPP"),
    "openrouter": Endpoint("https://openrouter.ai/api/v1", "OPENROUTER", True),
    "together": Endpoint("https://api.together.xyz/v1", "TOGETHER", True),
    "deepinfra": Endpoint("https://api.deepinfra.com/v1/openai", "DEEPINFRA", True),
    "groq": Endpoint("https://api.groq.com/openai/v1", "GROQ", True),
    "gemini": Endpoint("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI", True),
    "compatible": Endpoint(None, "TILTMETER"),
}
"""Endpoints by provider; all except that of Anthropic are OpenAI-compatible."""


class EndpointKey(NamedTuple):
    """A secret and its environment variable; the representation shows only the variable."""

    variable: str
    secret: str

    def __repr__(self) -> str:
        return f"EndpointKey({self.variable})"


def key_from_environment(variable: str, provider: str, *, needed: bool) -> EndpointKey | None:
    """Return the key in the environment variable `variable`, or None if there is none and none is needed.

    Raises
    ------
    ProviderError
        A required variable is unset or empty, or contains characters that are not allowed in a header.
    """
    secret = os.environ.get(variable, "").strip()
    if not secret and needed:
        raise ProviderError(f"{provider} needs a key: set the environment variable {variable}")
    if not (secret.isascii() and secret.isprintable()):
        raise ProviderError(
            f"the key in the environment variable {variable} contains invalid characters: copy it again"
        )
    return EndpointKey(variable, secret) if secret else None


def base_of(url: str) -> str:
    """Return the base URL in the URL of an endpoint, without the path of its requests (/chat/completions).

    Slashes at the end, and the marks of an empty query or fragment, are removed as well.
    """
    without_marks = url.rstrip("/?#")
    return re.sub(r"/(?:chat/completions|completions|responses|messages)$", "", without_marks).rstrip("/")


def host_of(url: str) -> str | None:
    """Return the host of a URL; None if it has none, or one that cannot be looked up.

    A host cannot be looked up if it has an empty or too long label, or invalid punycode.
    """
    try:
        host = URL(url).host
        (host or "").encode("idna")
    except ValueError:
        return None
    return host if host and not re.search(r"\s", host) else None


def checked_url(base_url: str) -> str:
    """Return a base URL without a trailing slash.

    Raises
    ------
    InputError
        It is not an http(s) URL, or contains a user name, password, query or fragment, which could include
        keys.
    """
    try:
        parts = urlsplit(base_url)
        if "@" in parts.netloc or "?" in base_url or "#" in base_url:
            raise InputError(
                f"the base URL at {parts.scheme}://{parts.hostname} contains a user name, password, "
                "query or fragment: give only scheme, host, port and path"
            )
    except ValueError:
        raise InputError(
            f"{clean(base_url)!r} is not a base URL: its address in brackets is not an IPv6 address"
        ) from None
    flaw = _flaw_of_url(base_url, parts)
    if flaw is not None:
        raise InputError(f"{clean(base_url)!r} is not a base URL: {flaw}")
    return base_url.rstrip("/")


def _flaw_of_url(url: str, parts: SplitResult) -> str | None:
    """Return why a URL with these parts is not that of an endpoint, or None if it is."""
    try:
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return "its port is not a number from 1 to 65535"
    if is_address and host_of(url) is not None:
        return None
    if "://" not in url:
        address = re.sub(r"^https?:?(?=/)|^/+", "", url).strip("/")
        if address:
            scheme = "https" if url.startswith("https") else "http"
            return f"did you mean {scheme}://{clean(address)}?"
    if is_address:
        return f"{clean(str(parts.hostname))!r} is not the name of a host"
    return "it should look like http://127.0.0.1:8000/v1"


_LONGEST_TEXT = 20_000
"""Maximum number of characters of a text from a server that are searched for its message."""
_LONGEST_DETAIL = 200
_SHORTEST_SECRET = 4
_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:(?:sk|pk|gsk|xai|hf|nvapi|tgp)[-_][\w*.\-]{4,}|AIza[\w\-]{10,})|(?<=bearer )\S+", re.IGNORECASE
)
_PAGE = re.compile(r"<html|<!doctype", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,100}>([^<]{0,500})", re.IGNORECASE)
_MARKUP = re.compile(r"<[^<>]{0,500}>")


def clean(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Return text from a server as one short printable line, with secrets masked.

    An HTML page is reduced to its title.
    """
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    # Keys are masked before the text is cut: a part of a key would not be recognised.
    text = without_keys(text)[:_LONGEST_TEXT]
    if _PAGE.search(text, 0, 1000):
        title = _TITLE.search(text)
        if title:
            text = f"an HTML page titled {title[1].strip()!r}"
        else:
            text = f"an HTML page: {_MARKUP.sub(' ', text)}"
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    text = " ".join(printable.split())
    text = _LOOKS_LIKE_A_KEY.sub("***", text)
    return text if len(text) <= _LONGEST_DETAIL else text[: _LONGEST_DETAIL - 1] + "…"


_FILTERED = re.compile(
    r"content.?filter|content_policy_violation|responsibleaipolicy|data_?inspection_?failed|safety_check"
    r"|moderation_blocked|sensitive_?content|new_sensitive|prompt_?blocked",
    re.IGNORECASE,
)
"""Codes of a filter."""
_FILTERED_WORDS = re.compile(
    r"content (?:filtering|management|usage|safety) (?:policy|policies|guidelines)"
    r"|violat\w+ (?:our |the |your )?(?:usage|content|safety) \w+"
    r"|rejected (?:as a result of|by) (?:our|the) (?:safety|moderation) system"
    r"|content exists risk|considered high risk|(?:may|might) contain inappropriate content"
    r"|blocked by (?:the |our )?(?:safety|content|moderation|prompt)"
    r"|(?:detect|contain)\w* [^.]{0,40}(?:unsafe|sensitive|harmful)(?: or \w+)? content"
    r"|(?:不安全|敏感|违规|违法|不当)(?:或敏感|或违规)?(?:内容|信息|词)",
    re.IGNORECASE,
)
"""Sentences of filters without a code of their own: Anthropic, OpenAI, xAI, DeepSeek, Moonshot, DashScope,
GLM."""
_OF_AN_ACCOUNT = re.compile(r"account|organi[sz]ation|suspend|banned|api.?key|账号|账户|密钥", re.IGNORECASE)
"""Words of messages about a customer, who may be said to violate a policy as well: these are no refusals."""


def _is_filtered(message: str) -> bool:
    """Return whether a message says that a filter rejected the prompt or the answer."""
    beginning = message[:2000]
    return bool(_FILTERED_WORDS.search(beginning)) and not _OF_AN_ACCOUNT.search(beginning)


class Complaint(NamedTuple):
    """The content of an error response."""

    message: str
    codes: str = ""
    """Its type and code words, used only for classification."""
    parameter: str | None = None
    """The request parameter that caused the error."""
    flagged: bool = False
    """Whether a moderation filter rejected the prompt."""

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Return whether `pattern` occurs in the codes or the message."""
        return bool(pattern.search(f"{self.codes}\n{self.message[:2000]}"))


def read_complaint(raw: bytes) -> Complaint:
    """Parse the body of an error in any of the formats that endpoints use; never raise."""
    try:
        return complaint_in(json.loads(raw))
    except (ValueError, RecursionError):
        return Complaint(raw.decode("utf-8", errors="replace"))


def found_at(value: Any, *path: str | int) -> Any:
    """Return the value at a path in untrusted JSON, or None if there is none."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def complaint_in(body: Any) -> Complaint:
    """Parse the body of an error, already decoded from JSON; see `read_complaint`."""
    if isinstance(body, list) and body:  # Gemini wraps its error in a list
        body = body[0]
    inner = (body.get("error") or body) if isinstance(body, dict) else body
    if not isinstance(inner, dict):
        return Complaint(str(inner), flagged=_is_filtered(str(inner)))
    codes = [inner.get("type"), inner.get("code"), inner.get("status"), found_at(inner, "innererror", "code")]
    words = " ".join(str(code) for code in codes if code is not None)
    fields = ("message", "detail", "msg", "errors")
    message = str(next((inner[field] for field in fields if inner.get(field)), inner))
    flagged = _is_moderated(body, inner) or bool(_FILTERED.search(words)) or _is_filtered(message)
    upstream = found_at(inner, "metadata", "raw")  # the message of the provider behind OpenRouter
    if isinstance(upstream, str) and upstream:
        message = f"{message}: {upstream}"
    parameter = inner.get("param")
    return Complaint(message, words, parameter if isinstance(parameter, str) else None, flagged)


def _is_moderated(body: Any, inner: dict[str, Any]) -> bool:
    """Return whether the body of an error has a field of a filter.

    GLM reports its filter beside the error, because its code 1301 is only a number. OpenRouter reports its
    moderation with status 403 and the input that was flagged.
    """
    if isinstance(body, dict) and body.get("contentFilter"):
        return True
    return found_at(inner, "metadata", "flagged_input") is not None


_QUOTA = re.compile(
    r"insufficient_quota|billing_hard_limit|credit balance|insufficient (?:credits|balance|funds)",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"context_length_exceeded|exceed_context_size|context (?:length|window|size)"
    r"|(?:maximum|max|exceeds?|exceeded|available) (?:the )?(?:model'?s? )?context"
    r"|(?:context|prompt|input) (?:is )?too long|input token count|too many input tokens"
    r"|`max_new_tokens` must be <=",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"api[ _]key (?:not valid|invalid|not found|expired)|(?:invalid|incorrect)[ _]api[ _]key", re.IGNORECASE
)
_NO_MODEL = re.compile(r"model_not_found", re.IGNORECASE)

_ROLE = r"(?:system|developer)['\"`]?[ _-]?(?:role|message|prompt|instruction)s?"
_NO_SYSTEM = re.compile(
    rf"{_ROLE}\b.{{0,40}}?"
    r"(?:not (?:supported|enabled|allowed|permitted|available|accepted)|unsupported|disallowed)"
    r"|(?:not (?:support|accept|allow)\w*|unsupported|unknown|invalid|unexpected|unrecogni[sz]ed|no)\b"
    r"[^.]{0,40}?(?:\b(?:system|developer)[ _-]roles?\b|role:? ?['\"`]?(?:system|developer)\b"
    r"|['\"`](?:system|developer)['\"`])"
    rf"|not (?:support|accept|allow)\w*\b[^.]{{0,20}}?{_ROLE}"
    r"|(?:only|be|of|from)\b[^.]{0,30}?['\"`]?user['\"`]?(?:,| and| or)+ ['\"`]?(?:assistant|model)\b(?!/)"
    r"|(?<!system message, )conversation roles must alternate",
    re.IGNORECASE,
)


def rejects_system_messages(status: int, complaint: Complaint) -> bool:
    """Return whether an endpoint says that it accepts no system message.

    It says so with status 400 or 422, with 500 if its template fails, or in a 200.
    """
    parameter = complaint.parameter or ""
    is_role = parameter.startswith("messages") and parameter.endswith("role")
    names_role = parameter == "system" or is_role
    return status in (200, 400, 422, 500) and (names_role or complaint.says(_NO_SYSTEM))


class SystemMessages:
    """The system messages of one model, which are put before the prompt after the endpoint rejected one."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._folded = False

    def sent(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages as the endpoint accepts them."""
        return fold_system(messages) if self._folded else messages

    def fold_if_rejected(self, sent: Sequence[Message], status: int, complaint: Complaint) -> bool:
        """Return whether a request failed because of its system message.

        All further requests then have the text of the system message before the prompt.
        """
        has_system = any(message.role == "system" for message in sent)
        if not has_system or not rejects_system_messages(status, complaint):
            return False
        if not self._folded:
            _log.warning(
                "%s does not accept a system message; its text is put before the prompt", self._model
            )
        self._folded = True
        return True


GENERATION_FAILED: Final = "generation_failed"
"""Code of a failure that an answer reports next to its first choice."""

_ERROR_KINDS: tuple[tuple[Container[int], re.Pattern[str] | None, str, str], ...] = (
    ((402,), None, "quota", "fatal"),
    ((200, 400, 403, 429), _QUOTA, "quota", "fatal"),
    ((429,), None, "rate_limit", "transient"),
    ((500, 501), _CONTEXT, "context_length", "permanent"),
    ((503, 529), None, "overloaded", "transient"),
    ((408, 409, 425, *range(500, 1000)), None, "server", "transient"),
    ((401, 403), None, "auth", "fatal"),
    ((400,), _BAD_KEY, "auth", "fatal"),
    ((404, 405, *range(300, 400)), None, "not_found", "fatal"),
    ((400,), _NO_MODEL, "not_found", "fatal"),
    ((200, 400, 413, 422), _CONTEXT, "context_length", "permanent"),
    ((200,), re.compile(GENERATION_FAILED), "server", "transient"),
    (range(400, 500), None, "bad_request", "permanent"),
)
"""Classification of failures: status codes, pattern of the complaint, kind and scope; the first matching line
is used.

Status 200 is that of a failure that an answer with status 200 reports without a code.
"""


def model_error(status: int, headers: Mapping[str, str], complaint: Complaint, detail: str) -> ModelError:
    """Return the error for a failure with this status; `detail` is its message, already cleaned."""
    for statuses, pattern, kind, scope in _ERROR_KINDS:
        if status in statuses and (pattern is None or complaint.says(pattern)):
            wait = retry_after(headers) if scope == "transient" else None
            return ModelError(kind, detail, scope=scope, retry_after=wait, status=status)
    return ModelError("bad_response", detail, retry_after=retry_after(headers), status=status)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait from `retry-after-ms` or `Retry-After` (seconds or an HTTP date).

    None if both headers are absent or not valid.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * unit
        except ValueError:
            seconds = _seconds_until(value)
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _seconds_until(date: str) -> float:
    """Return the seconds until an HTTP date; NaN if it is not valid."""
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan
