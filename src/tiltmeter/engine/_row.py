"""What goes into the journal and comes out of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tiltmeter import _text

__all__ = ["Row", "Taken", "one_each", "storable"]


class Row(NamedTuple):
    """One finished request as the journal keeps it; the fields are the columns of the table `completions`."""

    key: bytes
    model: str
    sample: int
    status: str
    """"ok" or "failed"."""
    attempts: int
    created_at: float
    """Seconds since 1970, UTC."""
    text: str | None = None
    thinking: str | None = None
    finish_reason: str | None = None
    refusal: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency: float | None = None
    error_kind: str | None = None
    error_detail: str | None = None


class Taken(NamedTuple):
    """What came of asking for keys: every key is in exactly one of the three."""

    held: set[bytes]
    """Already answered."""
    mine: set[bytes]
    """Now claimed by the asker, who has to record or release them."""
    others: set[bytes]
    """Claimed by somebody else who lives: ask again later."""


def storable(text: str | None) -> str | None:
    """`text` as any database can keep it: lone surrogates and NUL, which UTF-8 or SQL cannot carry, become U+FFFD."""
    if text is None:
        return None
    return _text.storable(text).replace("\0", "\ufffd")


def _storable_row(row: Row) -> Row:
    probe = f"{row.text}{row.thinking}{row.finish_reason}{row.refusal}{row.error_detail}"
    if probe.isascii() and "\0" not in probe:
        return row
    text, thinking, finish_reason = storable(row.text), storable(row.thinking), storable(row.finish_reason)
    refusal, error_detail = storable(row.refusal), storable(row.error_detail)
    return row._replace(text=text, thinking=thinking, finish_reason=finish_reason, refusal=refusal, error_detail=error_detail)


def one_each(rows: Iterable[Row]) -> list[Row]:
    """One row a key, as if they had been kept one after the other: the first answer, else the last failure."""
    kept: dict[bytes, Row] = {}
    for row in rows:
        before = kept.get(row.key)
        if before is None or before.status != "ok":
            kept[row.key] = _storable_row(row)
    return list(kept.values())
