"""Tables to files, by suffix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from tiltmeter.errors import InputError

__all__ = ["write_table"]


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a table as .csv, .jsonl or .parquet, whole or not at all; raises InputError for another suffix or an unwritable place."""
    aside = path.with_name(f".{path.name}.part")
    writers: dict[str, Callable[[Path], None]] = {
        ".csv": table.write_csv,
        ".jsonl": table.write_ndjson,
        ".parquet": lambda place: table.write_parquet(place),
    }
    writer = writers.get(path.suffix)
    if writer is None:
        raise InputError(f"{path}: unknown kind of file {path.suffix!r}; give .csv, .jsonl or .parquet")
    try:
        writer(aside)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
