"""Rows of the journal as tables, and what a row must be to be taken in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl
from sqlalchemy import Connection, Float, Integer, LargeBinary, select

from tiltmeter.engine._row import Row
from tiltmeter.engine._schema import completions

__all__ = ["BATCH", "COLUMNS", "LARGEST_NUMBER", "LONGEST_TEXT", "NEEDED", "batches", "first_flaw", "table"]

BATCH: Final = 10_000
"""Rows in memory at a time."""
LONGEST_TEXT: Final = 2**26
"""Bytes of one text; no model answers that much."""
LARGEST_NUMBER: Final = 2**31 - 1


def _dtype(kind: object) -> pl.DataType:
    if isinstance(kind, LargeBinary):
        return pl.Binary()
    if isinstance(kind, Float):
        return pl.Float64()
    return pl.Int64() if isinstance(kind, Integer) else pl.String()


COLUMNS: Final[dict[str, pl.DataType]] = {name: _dtype(completions.c[name].type) for name in Row._fields}
"""Names and types, in the order of `Row`."""
NEEDED: Final = [name for name in COLUMNS if not completions.c[name].nullable]


def batches(connection: Connection, where: Sequence[Any] = ()) -> Iterator[Sequence[Any]]:
    """The rows that fulfil every condition, `BATCH` at a time; the connection has to be one of `reading(..., batch=BATCH)`."""
    query = select(*(completions.c[name] for name in COLUMNS)).where(*where)
    yield from connection.execute(query).partitions(BATCH)


def table(rows: Sequence[Any]) -> pl.DataFrame:
    """Rows as a table of `COLUMNS`; what is no number (a latency of NaN) is empty."""
    values = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    frame = pl.DataFrame([pl.Series(name, column, dtype=dtype) for (name, dtype), column in zip(COLUMNS.items(), values, strict=True)])
    return frame.with_columns(pl.when(pl.col("latency").is_finite()).then("latency"))


def first_flaw(frame: pl.DataFrame) -> tuple[int, str] | None:
    """The number (from 0) of the first row that no journal can hold, and what is wrong with it.

    `frame` has `COLUMNS`; the rules are those of `tiltmeter journal check`, and the sizes that every database takes.
    """
    rules = dict(_rules())
    found = frame.select(rule.fill_null(True).arg_true().first().alias(said) for said, rule in rules.items()).row(0, named=True)
    first = [(number, said) for said, number in found.items() if number is not None]
    return min(first) if first else None


def _rules() -> Iterator[tuple[str, pl.Expr]]:
    """What can be wrong, and when it is."""
    col = pl.col
    yield "its key is not 32 bytes", col("key").bin.size() != 32
    for name in NEEDED:
        yield f"it has no {name}", col(name).is_null()
    yield "its model is empty", col("model") == ""
    yield 'its status is neither "ok" nor "failed"', ~col("status").is_in(["ok", "failed"])
    yield "its created_at is no time", ~col("created_at").is_finite() | (col("created_at") < 0)
    holds = [col(name).is_not_null() for name in ("text", "thinking", "refusal", "finish_reason")]
    yield 'it is "ok" but holds no answer', (col("status") == "ok") & ~pl.any_horizontal(holds)
    for name, dtype in COLUMNS.items():
        if dtype == pl.Int64():
            yield f"its {name} is not between 0 and {LARGEST_NUMBER}", ~col(name).is_between(0, LARGEST_NUMBER) & col(name).is_not_null()
        elif dtype == pl.String():
            yield (
                f"its {name} is longer than {LONGEST_TEXT >> 20} MiB",
                (col(name).str.len_bytes() > LONGEST_TEXT) & col(name).is_not_null(),
            )
    yield "its latency is negative", (col("latency") < 0) & col("latency").is_not_null()
