"""Files appear whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

import polars as pl

from tiltmeter.errors import InputError

_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_REMEDY = "give the name of a file in a folder you may write to"


@contextmanager
def writable(path: Path, remedy: str = _REMEDY) -> Iterator[None]:
    """Turn what the file system says (read-only, full, not a folder) into one sentence naming the path and the remedy."""
    try:
        yield
    except (OSError, pl.exceptions.ComputeError) as error:
        number = _OS_ERROR.search(str(error))
        if number is None and not isinstance(error, OSError):
            raise
        reason = os.strerror(int(number[1])) if number else getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {path}: {reason}; {remedy}") from error


@contextmanager
def writing(path: Path, remedy: str = _REMEDY) -> Iterator[Path]:
    """A place beside `path` to write to; it becomes `path` when the block ends without error.

    Raises
    ------
    InputError
        `path` names a folder, or cannot be written.
    """
    if not path.name or path.name == "..":
        raise InputError(f"{path} is a folder; give the name of a file")
    aside = path.with_name(f".{path.name}.{token_hex(4)}")
    with writable(path, remedy):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield aside
            aside.replace(path)
        finally:
            with suppress(OSError):
                aside.unlink(missing_ok=True)


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a table as .csv, .jsonl or .parquet, whole or not at all; raises InputError for another suffix or an unwritable place."""
    writers: dict[str, Callable[[Path], object]] = {".csv": table.write_csv, ".jsonl": table.write_ndjson, ".parquet": table.write_parquet}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InputError(f"{path}: unknown kind of file {path.suffix!r}; give a name that ends in .csv, .jsonl or .parquet")
    with writing(path) as aside:
        writer(aside)
