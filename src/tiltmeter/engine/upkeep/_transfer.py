"""Export and import of journal rows, to and from files or other journals, and the validation of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar

import polars as pl
from polars import DataFrame, Float64, Int64, String, col
from polars.io.plugins import register_io_source
from pydantic import ValidationError
from sqlalchemy import Connection, literal_column, or_, select

from tiltmeter._files.paths import is_file
from tiltmeter._files.writing import writing
from tiltmeter._sanitising import redacted
from tiltmeter.engine._database import completions, parse_url, shown, stored_columns
from tiltmeter.engine._journal import LONGEST_TEXT, USABLE_ROW, Row, flaw_of, open_journal
from tiltmeter.engine.upkeep._holdings import journal_file, model_names, of_model, opened_to_read, reading
from tiltmeter.errors import InputError

BATCH: int = 10_000
"""Rows in memory at a time."""
_Item = TypeVar("_Item")
_KINDS = (".parquet", ".jsonl", ".ndjson")
_SQLITE = b"SQLite format 3\0"
_TYPES = {"BLOB": pl.Binary(), "FLOAT": Float64(), "INTEGER": Int64()}
COLUMNS: Final = {name: _TYPES.get(str(completions.c[name].type), String()) for name in Row._fields}
"""Names and types of the columns of a file, in the order of `Row`."""


class Imported(NamedTuple):
    """The outcome of an import."""

    rows: int
    """Rows read."""
    answers: int
    """Increase in the number of answers in the journal (including those of a concurrent run)."""
    failed: int
    """Increase in the number of failures; negative if answers replaced failures."""


_Source = tuple[Callable[[], Iterator[Row]], dict[str, str]]
"""A function that iterates over the validated rows from the beginning, and the names of the models by
fingerprint."""


def export_rows(where: str | Path, file: str | Path | IO[bytes], *, models: Sequence[str] = ()) -> int:
    """Write the rows of a journal with all columns to a file, atomically, and return their number.

    Rows are processed in batches, so that memory does not depend on their number. They are a consistent
    snapshot, in no particular order.

    Parameters
    ----------
    file
        NAME.parquet (compressed with zstd; the key as 32 bytes), NAME.jsonl (the key in hex), or an open
        binary file for JSON lines.
    models
        Only rows of these models (fingerprint, or `provider/name`); all models if empty.

    Raises
    ------
    InputError
        There is no journal or no such model, a row is not valid, the file cannot be written, or its name has
        another ending.
    """
    if isinstance(file, str | Path) and Path(file).suffix.lower() not in _KINDS:
        raise InputError(f"{file}: unknown kind of file; give a name that ends in .parquet or .jsonl")
    with _opened_journal(where, models) as (read, _):
        rows = sum(1 for _ in read())  # validates all rows before anything is written

        def frames() -> Iterator[DataFrame]:
            return (DataFrame(batch, schema=COLUMNS, orient="row") for batch in batches(read()))

        if not isinstance(file, str | Path):
            _write_lines(frames(), file)
            return rows
        with writing(Path(file)) as aside:
            if Path(file).suffix.lower() == ".parquet":
                table = register_io_source(lambda *_: frames(), schema=COLUMNS)
                table.sink_parquet(aside, compression="zstd", row_group_size=BATCH, maintain_order=True)
            else:
                with aside.open("wb") as lines:
                    _write_lines(frames(), lines)
            with aside.open("rb") as written:
                os.fsync(written.fileno())
    return rows


def import_rows(source: str | Path, journal: str | Path) -> Imported:
    """Import the rows of `source` into a journal, which is created if it is missing.

    Existing answers are kept; only failures are overwritten. Every row is validated before the first one is
    imported. Rows are imported in batches, each in one transaction, so that a run may use the journal at the
    same time; an interrupted import can be repeated. Memory does not depend on the number of rows.

    Parameters
    ----------
    source
        NAME.parquet or NAME.jsonl as written by `export_rows`, an SQLite journal, or the URL of a journal.

    Raises
    ------
    InputError
        The source cannot be read or contains an invalid row (the message names it), or the journal cannot be
        written.
    """
    is_journal = "://" in str(source) or _is_sqlite(Path(source))
    if is_journal and _is_same_journal(source, journal):
        raise InputError(
            "the journal to import from is also the one to import into; name another with --journal"
        )
    with (_opened_journal if is_journal else _opened_file)(source) as (read, names):
        rows = sum(1 for _ in read())  # validates all rows before anything is written
        with open_journal(journal) as target:
            before = target.counts()
            for batch in batches(read()):
                target.record(batch)
            for fingerprint, name in names.items():
                target.name_model(fingerprint, name)
            after = target.counts()
    return Imported(rows, after["ok"] - before["ok"], after["failed"] - before["failed"])


def stored_rows(connection: Connection, *conditions: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a journal that satisfy all conditions.

    They are not yet validated: a column of SQLite can contain any type.
    """
    expressions = stored_columns(connection, Row._fields)
    columns: list[Any] = [literal_column(sql).label(field) for field, sql in expressions.items()]
    query: Any = select(*columns).select_from(completions).where(*conditions)
    for row in connection.execute(query, execution_options={"yield_per": BATCH}):
        yield tuple(row)


@contextmanager
def _opened_journal(where: str | Path, models: Sequence[str] = ()) -> Iterator[_Source]:
    """Open a journal as a source of rows, restricted to these models if any are given."""
    with opened_to_read(where) as engine, reading(engine) as connection:
        conditions: list[Any] = []
        if models:
            conditions.append(or_(*(of_model(connection, model) for model in models)))

        def rows() -> Iterator[Row]:
            for values in stored_rows(connection, *conditions):
                try:
                    yield USABLE_ROW.validate_python(values)
                except ValidationError as error:
                    message = f"journal {shown(engine.url)}: it contains an invalid row ({flaw_of(error)})"
                    raise InputError(f"{message}; run tiltmeter journal check --repair on it first") from None

        yield rows, model_names(connection)


@contextmanager
def _opened_file(source: str | Path) -> Iterator[_Source]:
    """Open a file as a source of rows."""
    path = Path(source)
    if not is_file(path):
        kind = "it is not a file" if path.exists() and not path.is_dir() else "there is no such file"
        raise InputError(f"cannot import {redacted(str(source))}: {kind}")
    if path.suffix.lower() not in _KINDS:
        raise InputError(f"{path}: neither a journal nor a file that ends in .parquet or .jsonl")
    is_parquet = path.suffix.lower() == ".parquet"
    unit = "row" if is_parquet else "line"
    records: Callable[[Path], Iterator[Any]] = _parquet_records if is_parquet else _lines
    validate: Callable[[Any], Row] = USABLE_ROW.validate_python if is_parquet else USABLE_ROW.validate_json

    def rows() -> Iterator[Row]:
        for number, record in enumerate(records(path), 1):
            try:
                if record:
                    yield validate(record)
            except ValidationError as error:
                problem = f"{path}, {unit} {number}: {flaw_of(error)}"
                raise InputError(f"{problem}; nothing was imported") from None

    yield rows, {}


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while line := file.readline(4 * LONGEST_TEXT):
                yield line.strip()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _parquet_records(path: Path) -> Iterator[dict[str, Any]]:
    for start in count(0, BATCH):
        try:
            records = pl.scan_parquet(path, glob=False).slice(start, BATCH).collect().to_dicts()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from None
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            message = str(error).splitlines()[0][:200]
            raise InputError(f"cannot read {path}: {message}; is the file complete?") from None
        if not records:
            return
        yield from records


def batches(rows: Iterator[_Item]) -> Iterator[list[_Item]]:
    """Yield the rows in lists of at most `BATCH`."""
    while batch := list(islice(rows, BATCH)):
        yield batch


def _write_lines(frames: Iterator[DataFrame], file: IO[bytes]) -> None:
    for frame in frames:
        frame.with_columns(col.key.bin.encode("hex")).write_ndjson(file)


def _is_sqlite(path: Path) -> bool:
    if not is_file(path):  # opening a named pipe would wait for ever
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _is_same_journal(source: str | Path, journal: str | Path) -> bool:
    source_file, target_file = journal_file(source), journal_file(journal)
    if source_file and target_file and source_file.exists() and target_file.exists():
        return source_file.samefile(target_file)
    return parse_url(source) == parse_url(journal)
