"""Benchmarks of a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from tiltmeter.benchmarks._tables import BENCHMARK

__all__ = ["benchmark"]


def benchmark(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Return a benchmark of these rows; missing columns are filled in as by the reader."""
    full = [
        {"key": str(i), "root": row.get("key", str(i)), "kind": "given"} | row
        for i, row in enumerate(rows, 1)
    ]
    return pl.DataFrame([{name: row.get(name) for name in BENCHMARK} for row in full], schema=BENCHMARK)
