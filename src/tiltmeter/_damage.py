"""What goes wrong when a file that came from outside is read, in whichever way Polars says it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import polars as pl

from tiltmeter._text import storable

__all__ = ["UNREADABLE", "json_of", "why"]

UNREADABLE: Final = (OSError, UnicodeError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What reading a table may raise. A panic is no `Exception`: nothing else would catch it."""

_LONGEST = 300
_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def why(error: BaseException) -> str:
    """What a library says is wrong, in one line."""
    if isinstance(error, pl.exceptions.PanicException):
        return "its contents contradict each other"
    return next(iter(str(error).splitlines()), type(error).__name__)[:_LONGEST]


def json_of(given: str | bytes) -> Any:
    """The value of JSON text, as tables and files can keep it: half a surrogate pair, which a cut emoji leaves behind, becomes U+FFFD.

    Raises
    ------
    ValueError, RecursionError
        It is no JSON, or no UTF-8.
    """
    text = given.decode("utf-8-sig") if isinstance(given, bytes) else given
    value = json.loads(text)
    return json.loads(storable(json.dumps(value, ensure_ascii=False))) if _HALF.search(text) else value
