"""Text that came from outside, made fit to be shown or kept: no terminal controls, no credentials in URLs."""

from __future__ import annotations

import re

_VISIBLE = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_VISIBLE |= dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000)), 0xFFFD)
_BLOCK = {code: shown for code, shown in _VISIBLE.items() if chr(code) not in "\n\t"}

_URL = re.compile(r"(?<![a-z0-9+.\-])([0-9+.\-]*+)([a-z][a-z0-9+.\-]*)://(\S+)", re.IGNORECASE)
"""Looked for once in each run of the letters of a scheme, so that no text takes long."""
_WHOLE_URL = re.compile(r"((?:--?[\w-]+=)?[a-z][a-z0-9+.\-]*)://(.+)", re.IGNORECASE | re.DOTALL)
_WEB = ("http", "https", "ws", "wss")
_USER_OF_DATABASE = re.compile(r"([^/:@?#]*):.*@", re.DOTALL)
"""A database's password may hold any character, so it reaches to the last "@"."""


def printable(text: str, *, one_line: bool = False) -> str:
    """`text` with control characters (C0, C1, DEL) and lone surrogates replaced by visible symbols, so that no terminal obeys them.

    Line breaks and tabs are kept, or with `one_line` shown as symbols as well.
    """
    return text.translate(_VISIBLE if one_line else _BLOCK)


def shortened(text: str, most: int) -> str:
    """`text` on one line, `printable`, cut to at most so many characters."""
    shown = printable(text, one_line=True)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def storable(text: str) -> str:
    """The text with U+FFFD in the place of half surrogate pairs, which no file can keep."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def redacted(text: str) -> str:
    """`text` with the credentials and query values of every URL in it replaced by `***`; the rest stays as it was."""
    if whole := _WHOLE_URL.fullmatch(text):
        return f"{whole[1]}://{_without_secrets(whole[1], whole[2])}"
    return _URL.sub(lambda found: f"{found[1]}{found[2]}://{_without_secrets(found[2], found[3])}", text)


def _without_secrets(scheme: str, rest: str) -> str:
    web = scheme.rpartition("=")[2].lower() in _WEB
    if web:
        place = re.split(r"[/?#]", rest, maxsplit=1)[0]
        if "@" in place:
            rest = f"***@{place.rpartition('@')[2]}{rest[len(place) :]}"
    else:
        rest = _USER_OF_DATABASE.sub(r"\1:***@", rest, count=1)
    rest, hash_mark, fragment = rest.partition("#") if web else (rest, "", "")
    before, mark, query = rest.partition("?")
    values = (one.partition("=") for one in query.split("&"))
    shown = "&".join(f"{name}=***" if equals else "***" * bool(name) for name, equals, _ in values)
    return before + mark + shown + hash_mark + "***" * bool(fragment)


def not_utf8(content: bytes) -> str | None:
    """Why bytes are no UTF-8 text and what to do, as the end of a sentence about a file; None where they are."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff") or (content[:1000].count(0) > len(content[:1000]) / 4):
        return "it is not UTF-8 text but UTF-16 or binary; save it as UTF-8"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return f"line {line} is not UTF-8 text (perhaps Latin-1 or Windows-1252); save it as UTF-8"
    return None
