"""The rows of a journal as one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import polars as pl
from polars.io.plugins import register_io_source
from sqlalchemy import or_

from tiltmeter.engine.upkeep._open import opened_to_read, reading
from tiltmeter.engine.upkeep._prune import of_model
from tiltmeter.engine.upkeep._rows import BATCH, COLUMNS, batches, table
from tiltmeter.errors import InputError

__all__ = ["LINES", "PARQUET", "export_rows"]

PARQUET: Final = (".parquet",)
LINES: Final = (".jsonl", ".ndjson")
"""Endings of names of files, by kind."""


def export_rows(where: str | Path, file: str | Path | IO[bytes], *, models: Sequence[str] = ()) -> int:
    """Write the rows of a journal, all columns, to a file that appears whole or not at all; gives their number.

    Rows pass through in batches: the memory needed does not depend on their number. They are those of one moment, in no given order.

    Parameters
    ----------
    file
        NAME.parquet (compressed with zstd; the key as 32 bytes), NAME.jsonl (the key in hex), or an open binary file for JSON lines.
    models
        Only rows of these models (fingerprint, or `provider/name`); of all when empty.

    Raises
    ------
    InputError
        There is no journal or no such model, the file cannot be written, or its name ends otherwise.
    """
    if isinstance(file, str | Path) and Path(file).suffix.lower() not in PARQUET + LINES:
        raise InputError(f"{file}: unknown kind of file; give a name that ends in .parquet or .jsonl")
    with opened_to_read(where) as place, reading(place.engine, batch=BATCH) as connection:
        chosen = [or_(*(of_model(connection, model) for model in models))] if models else []
        counter = _Counter(lambda: (_table(rows, place.shown) for rows in batches(connection, chosen)))
        if not isinstance(file, str | Path):
            _write_lines(counter, file)
        else:
            with _whole(Path(file)) as aside:
                if Path(file).suffix.lower() in PARQUET:
                    _write_parquet(counter, aside)
                else:
                    with aside.open("wb") as lines:
                        _write_lines(counter, lines)
        return counter.rows


class _Counter:
    """Tables, counted as they pass."""

    def __init__(self, tables: Callable[[], Iterator[pl.DataFrame]]) -> None:
        self._tables, self.rows = tables, 0
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[pl.DataFrame]:
        try:
            for frame in self._tables():
                self.rows += frame.height
                yield frame
        except Exception as error:
            self.error = error  # Polars would give its text alone
            raise


def _table(rows: Sequence[Any], shown: str) -> pl.DataFrame:
    try:
        return table(rows)
    except (TypeError, pl.exceptions.PolarsError):
        raise InputError(f"journal {shown}: a row holds a value of the wrong kind; run tiltmeter journal check --repair first") from None


def _write_parquet(tables: _Counter, path: Path) -> None:
    def source(columns: list[str] | None, _predicate: object, _rows: object, _size: object) -> Iterator[pl.DataFrame]:
        for frame in tables:
            yield frame if columns is None else frame.select(columns)

    try:
        register_io_source(source, schema=COLUMNS).sink_parquet(path, compression="zstd", row_group_size=BATCH, maintain_order=True)
    except pl.exceptions.PolarsError:
        if tables.error is not None:
            raise tables.error from None
        raise


def _write_lines(tables: _Counter, file: IO[bytes]) -> None:
    for frame in tables:
        frame.with_columns(pl.col("key").bin.encode("hex")).write_ndjson(file)


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A place beside `path`, which becomes `path`, durably, when the block ends without error."""
    aside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield aside
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(path)
    except BaseException as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        if not isinstance(error, OSError | pl.exceptions.ComputeError):
            raise
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise InputError(f"cannot write {path}: {reason}; give the name of a file in a folder you may write to") from error
