"""Files appear whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from tiltmeter.errors import InputError


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; it becomes `path` when the block ends without error.

    Raises
    ------
    InputError
        `path` names a folder, or cannot be written.
    """
    if not path.name or path.name == "..":
        raise InputError(f"{path} is a folder; give the name of a file")
    aside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield aside
        aside.replace(path)
    except BaseException as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        if not isinstance(error, (OSError, pl.exceptions.ComputeError)):
            raise
        if isinstance(error, pl.exceptions.ComputeError) and "os error" not in str(error).lower():
            raise
        reason = getattr(error, "strerror", None) or re.sub(r" \(os error \d+\).*", "", str(error).splitlines()[0])
        raise InputError(f"cannot write {path}: {reason}; give the name of a file in a folder you may write to") from error


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a table as .csv, .jsonl or .parquet, whole or not at all; raises InputError for another suffix or an unwritable place."""
    writers: dict[str, Callable[[Path], object]] = {".csv": table.write_csv, ".jsonl": table.write_ndjson, ".parquet": table.write_parquet}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InputError(f"{path}: unknown kind of file {path.suffix!r}; give a name that ends in .csv, .jsonl or .parquet")
    with writing(path) as aside:
        writer(aside)
