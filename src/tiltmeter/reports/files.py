"""Export of tables to files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from polars import DataFrame

from tiltmeter.errors import InputError
from tiltmeter.safe_writing import writing as writing


def write_table(table: DataFrame, path: Path) -> None:
    """Write a table atomically as .csv, .jsonl or .parquet; raises InputError for another extension or an unwritable path."""
    writers: dict[str, Callable[[Path], object]] = {".csv": table.write_csv, ".jsonl": table.write_ndjson, ".parquet": table.write_parquet}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InputError(f"{path}: unknown file extension {path.suffix!r}; use .csv, .jsonl or .parquet")
    with writing(path) as temporary:
        writer(temporary)
