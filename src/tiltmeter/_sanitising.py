"""Sanitising of external text: no terminal control characters, no lone surrogates, no credentials in URLs."""

from __future__ import annotations

import re
from typing import Final

_VISIBLE: Final = {
    **{code: 0x2400 + code for code in range(0x20)},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000)), 0xFFFD),
}
"""Visible symbols for control characters and lone surrogates, by code point."""
_VISIBLE_IN_LINES: Final = {code: symbol for code, symbol in _VISIBLE.items() if chr(code) not in "\n\t"}

_URL: Final = re.compile(r"(?<![a-z0-9+.\-])([0-9+.\-]*+)([a-z][a-z0-9+.\-]*)://(\S+)", re.IGNORECASE)
"""Matched once per sequence of scheme characters, so that matching takes linear time."""
_WHOLE_URL: Final = re.compile(r"((?:--?[\w-]+=)?[a-z][a-z0-9+.\-]*)://(.+)", re.IGNORECASE | re.DOTALL)
_WEB: Final = ("http", "https", "ws", "wss")
_USER_OF_DATABASE: Final = re.compile(r"([^/:@?#]*):.*@", re.DOTALL)
"""The password of a database may contain any character, so it extends to the last "@"."""


def printable(text: str, *, one_line: bool = False) -> str:
    """Replace control characters (C0, C1, DEL) and lone surrogates by visible symbols.

    Terminals would execute control characters. Line breaks and tabs are kept, unless `one_line` is True.
    """
    return text.translate(_VISIBLE if one_line else _VISIBLE_IN_LINES)


def shortened(text: str, most: int) -> str:
    """Return `text` on one line, `printable`, and truncated to at most `most` characters."""
    line = printable(text, one_line=True)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def storable(text: str) -> str:
    """Replace lone surrogates, which files cannot store, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def redacted(text: str) -> str:
    """Replace the credentials and query values of all URLs in `text` by `***`."""
    whole_url = _WHOLE_URL.fullmatch(text)
    if whole_url:
        scheme, address = whole_url.groups()
        return f"{scheme}://{_without_secrets(scheme, address)}"
    return _URL.sub(_redacted_url, text)


def _redacted_url(url: re.Match[str]) -> str:
    """Return a URL within a text, with the characters before it, without its secrets."""
    before, scheme, address = url.groups()
    return f"{before}{scheme}://{_without_secrets(scheme, address)}"


def _without_secrets(scheme: str, address: str) -> str:
    """Mask the credentials and the query values in the part of a URL after "://"."""
    is_web = scheme.rpartition("=")[2].lower() in _WEB
    if not is_web:
        return _without_query_values(_USER_OF_DATABASE.sub(r"\1:***@", address, count=1))
    host = re.split(r"[/?#]", address, maxsplit=1)[0]
    if "@" in host:
        address = f"***@{host.rpartition('@')[2]}{address[len(host) :]}"
    resource, hash_mark, fragment = address.partition("#")
    return _without_query_values(resource) + hash_mark + _masked(fragment)


def _without_query_values(resource: str) -> str:
    """Mask the values in the query of a URL, and a query that has no names of values."""
    path, question_mark, query = resource.partition("?")
    masked = []
    for pair in query.split("&"):
        name, equals, _ = pair.partition("=")
        masked.append(f"{name}=***" if equals else _masked(name))
    return path + question_mark + "&".join(masked)


def _masked(part: str) -> str:
    """Return `***` for a part of a URL.

    Punctuation alone is that of the sentence around the URL, as in "(did you mean http://host/v1?)".
    """
    return "***" if re.search(r"\w", part) else part


def not_utf8(content: bytes) -> str | None:
    """Return why bytes are not UTF-8 text, and the remedy; None if they are UTF-8 text.

    The reason is the end of a sentence.
    """
    beginning = content[:1000]
    has_utf16_mark = beginning.startswith((b"\xff\xfe", b"\xfe\xff"))
    if has_utf16_mark or beginning.count(0) > len(beginning) / 4:
        return "it is not UTF-8 text but UTF-16 or binary; save it as UTF-8"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return f"line {line} is not UTF-8 text (perhaps Latin-1 or Windows-1252); save it as UTF-8"
    return None
