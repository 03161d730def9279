"""A benchmark to a file, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from tiltmeter.benchmarks._tables import BENCHMARK
from tiltmeter.errors import InputError

__all__ = ["write_benchmark", "writing"]


def write_benchmark(table: pl.DataFrame, path: str | Path) -> Path:
    """Write a benchmark (columns BENCHMARK) as .parquet, .csv or .jsonl; gives the path.

    Raises
    ------
    InputError
        Another suffix, or the place cannot be written; nothing is left half-written.
    """
    path = Path(path)
    rows = table.select(list(BENCHMARK))
    writers: dict[str, Callable[[Path], None]] = {
        ".csv": lambda place: rows.write_csv(place, quote_style="non_numeric"),
        ".jsonl": rows.write_ndjson,
        ".parquet": lambda place: rows.write_parquet(place),
    }
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InputError(f"{path}: unknown kind of file {path.suffix!r}; give a name that ends in .parquet, .csv or .jsonl")
    with writing(path) as aside:
        writer(aside)
    return path


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; it becomes `path` when the block ends without error, and is removed otherwise.

    Raises
    ------
    InputError
        `path` names a folder, or cannot be written.
    """
    aside: Path | None = None
    try:
        if path.is_dir() or not path.name:
            raise InputError(f"{path} is a folder; give the name of a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
        os.close(handle)
        aside = Path(name)
        yield aside
        aside.chmod(0o644)
        aside.replace(path)
    except (OSError, pl.exceptions.ComputeError) as error:
        if not isinstance(error, OSError) and "os error" not in str(error).lower():
            raise
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise InputError(f"cannot write {path}: {reason}; choose another place or make room there") from error
    finally:
        if aside is not None:
            aside.unlink(missing_ok=True)
