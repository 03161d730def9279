"""Sanitising of external text for display and storage: no terminal control characters, no credentials in URLs."""

from __future__ import annotations

import re

_VISIBLE = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_VISIBLE |= dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000)), 0xFFFD)
_BLOCK = {code: shown for code, shown in _VISIBLE.items() if chr(code) not in "\n\t"}

_URL = re.compile(r"(?<![a-z0-9+.\-])([0-9+.\-]*+)([a-z][a-z0-9+.\-]*)://(\S+)", re.IGNORECASE)
"""Matched once per sequence of scheme characters, so that matching takes linear time."""
_WHOLE_URL = re.compile(r"((?:--?[\w-]+=)?[a-z][a-z0-9+.\-]*)://(.+)", re.IGNORECASE | re.DOTALL)
_WEB = ("http", "https", "ws", "wss")
_USER_OF_DATABASE = re.compile(r"([^/:@?#]*):.*@", re.DOTALL)
"""The password of a database may contain any character, so it extends to the last "@"."""


def printable(text: str, *, one_line: bool = False) -> str:
    """Replace control characters (C0, C1, DEL) and lone surrogates by visible symbols, so that terminals do not execute them.

    Line breaks and tabs are kept, unless `one_line` is True.
    """
    return text.translate(_VISIBLE if one_line else _BLOCK)


def shortened(text: str, most: int) -> str:
    """Return `text` on one line, `printable`, and truncated to at most `most` characters."""
    line = printable(text, one_line=True)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def storable(text: str) -> str:
    """Replace lone surrogates, which files cannot store, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def redacted(text: str) -> str:
    """Replace the credentials and query values of all URLs in `text` by `***`."""
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
    masked = "&".join(f"{name}=***" if equals else _masked(name) for name, equals, _ in values)
    return before + mark + masked + hash_mark + _masked(fragment)


def _masked(part: str) -> str:
    """Return `***` for a part of a URL.

    Punctuation alone is that of the sentence around the URL, as in "(did you mean http://host/v1?)".
    """
    return "***" if re.search(r"\w", part) else part


def not_utf8(content: bytes) -> str | None:
    """Return why bytes are not UTF-8 text and the remedy, as the end of a sentence; None if they are UTF-8."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff") or (content[:1000].count(0) > len(content[:1000]) / 4):
        return "it is not UTF-8 text but UTF-16 or binary; save it as UTF-8"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return f"line {line} is not UTF-8 text (perhaps Latin-1 or Windows-1252); save it as UTF-8"
    return None
