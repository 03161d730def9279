"""Journal rows as one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import polars as pl

from tiltmeter.engine._schema import completions

__all__ = ["FETCHED", "fetched"]

_STORED: Final = {
    "stored_key": pl.Binary,
    "status": pl.String,
    "text": pl.String,
    "thinking": pl.String,
    "finish_reason": pl.String,
    "refusal": pl.String,
    "input_tokens": pl.Int32,
    "output_tokens": pl.Int32,
    "error_kind": pl.String,
    "error_detail": pl.String,
    "latency": pl.Float64,
}
FETCHED: Final = tuple(completions.c["key" if name == "stored_key" else name] for name in _STORED)
"""The columns that a query for `fetched` selects."""


def fetched(keys: Sequence[bytes], results: Iterable[Any]) -> pl.DataFrame:
    """The table `Journal.fetch` promises, of the rows of one or more query results."""
    parts = [pl.DataFrame(schema=_STORED)]
    for result in results:
        if rows := result.all():
            series = zip(_STORED.items(), zip(*rows, strict=True), strict=True)
            parts.append(pl.DataFrame([pl.Series(name, values, dtype=dtype) for (name, dtype), values in series]))
    wanted = pl.DataFrame({"stored_key": pl.Series(keys, dtype=pl.Binary)})
    return wanted.join(pl.concat(parts), on="stored_key", how="left", maintain_order="left").select(
        pl.col("stored_key").bin.encode("hex").alias("key"),
        pl.col("status").fill_null("missing"),
        "text",
        "thinking",
        "finish_reason",
        "refusal",
        "input_tokens",
        "output_tokens",
        pl.format("{}: {}", "error_kind", "error_detail").alias("error"),
        "latency",
    )
