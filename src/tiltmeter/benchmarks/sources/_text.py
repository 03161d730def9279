"""Text made plain: one kind of white space, no reference marks, paragraphs parted by an empty line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

__all__ = ["decoded", "paragraphs", "plain", "tidy"]

# A run of white space is tried once, at its beginning, so that none takes long.
_MARK = re.compile(
    r"(?<!\s)\s*+\[(?:\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*|(?:note|nb|n\.b\.)\s?\d{1,3}"
    r"|(?:additional |better )?(?:citations?|sources?|references?|page|clarification|quotation|attribution) needed"
    r"|citation required|dead link|edit|by whom\??|who\??|when\??|where\??|verify|sic)\]",
    re.IGNORECASE,
)
_HOLLOW = re.compile(r"(?<!\s)\s*+\(\s*+(?:[;,:]\s*+)?\)")  # what a dropped pronunciation leaves behind
_INVISIBLE = dict.fromkeys((*range(0x09), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0), 0xAD, 0x200B, 0x2060, 0xFEFF))
_EMPTY_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-‐\u00ad]\n(?=[^\W\d_])")


def tidy(text: str) -> str:
    """One paragraph on one line: composed characters, single spaces, without reference marks and invisible characters."""
    text = unicodedata.normalize("NFC", text).translate(_INVISIBLE)
    text = _HOLLOW.sub("", _MARK.sub("", text))
    return " ".join(text.encode("utf-8", errors="replace").decode("utf-8").split())


def paragraphs(pieces: Iterable[str]) -> str:
    """The pieces that hold something, each a paragraph."""
    return "\n\n".join(filter(None, map(tidy, pieces)))


def plain(text: str, *, hyphenated: bool = False) -> str:
    """Text with hard line breaks: lines are joined, empty lines part paragraphs.

    With `hyphenated`, words broken at the end of a line are put together again (pages of print).
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n").replace("\u2029", "\n\n")
    if hyphenated:
        text = _HYPHENATED.sub("", text)
    return paragraphs(_EMPTY_LINE.split(text))


def decoded(data: bytes, declared: str | None = None) -> str:
    """Bytes of text as text: by their mark, as UTF-8, as declared, or else as Windows-1252; never fails."""
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    for likely in ("utf-8", declared or "utf-8"):
        try:
            return data.decode(likely)
        except (UnicodeDecodeError, LookupError):
            continue
    return data.decode("windows-1252", errors="replace")
