"""Rows of a journal to a file and back, and from journal to journal; and what makes a row one that a run can use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import polars as pl
from polars import DataFrame, Float64, Int64, String, col
from polars.io.plugins import register_io_source
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from sqlalchemy import Connection, literal_column, or_, select

from tiltmeter.engine.database import completions, parse_url, shown
from tiltmeter.engine.journal import LONGEST_TEXT, Row, open_journal
from tiltmeter.engine.upkeep.holdings import journal_file, model_names, of_model, opened_to_read, reading
from tiltmeter.errors import InputError
from tiltmeter.paths import is_file
from tiltmeter.safe_writing import writing
from tiltmeter.sanitising import redacted
from tiltmeter.yaml_files import first_error

BATCH = 10_000
"""Rows in memory at a time."""
_KINDS = (".parquet", ".jsonl", ".ndjson")
_SQLITE = b"SQLite format 3\0"
_TYPES = {"BLOB": pl.Binary(), "FLOAT": Float64(), "INTEGER": Int64()}
COLUMNS = {name: _TYPES.get(str(completions.c[name].type), String()) for name in Row._fields}
"""Names and types of the columns of a file, in the order of `Row`."""


def _holds_an_answer(row: Row) -> Row:
    if row.status == "ok" and row.text is None and row.thinking is None and row.refusal is None and row.finish_reason is None:
        raise ValueError('it is "ok" but holds no answer')
    return row


USABLE_ROW: TypeAdapter[Row] = TypeAdapter(
    Annotated[Row, AfterValidator(_holds_an_answer)], config=ConfigDict(strict=True, val_json_bytes="hex", allow_inf_nan=False)
)
"""Reads a row that a run can use, from a tuple, a dictionary or JSON."""


class Imported(NamedTuple):
    """The outcome of an import."""

    rows: int
    """Read."""
    answers: int
    """More in the journal than before (a run at work on it meanwhile adds its own)."""
    failed: int
    """More failures than before; fewer, where answers took their place."""


_Source = tuple[Callable[[], Iterator[Row]], dict[str, str]]
"""What gives the rows, from the beginning at each call, each checked on the way; and what users call the models, by fingerprint."""


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
        There is no journal or no such model, a row cannot be used, the file cannot be written, or its name ends otherwise.
    """
    if isinstance(file, str | Path) and Path(file).suffix.lower() not in _KINDS:
        raise InputError(f"{file}: unknown kind of file; give a name that ends in .parquet or .jsonl")
    with _opened_journal(where, models) as (read, _):
        rows = sum(1 for _ in read())  # all of them are checked before anything is written

        def frames() -> Iterator[DataFrame]:
            return (DataFrame(batch, schema=COLUMNS, orient="row") for batch in _batches(read()))

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
    """Take the rows of `source` into a journal, which is made when it is missing.

    Existing answers are kept; only failures are overwritten. Every row is checked before the first is taken in. Rows are taken in
    in batches, each of them a transaction: a run may be at work on the journal meanwhile, and what was cut off is done again to
    the same effect. The memory needed does not depend on the number of rows.

    Parameters
    ----------
    source
        NAME.parquet or NAME.jsonl as `export_rows` writes them, an SQLite journal, or the URL of a journal.

    Raises
    ------
    InputError
        The source cannot be read or holds a row that no journal can hold (named); or the journal cannot be written.
    """
    is_journal = "://" in str(source) or _is_sqlite(Path(source))
    if is_journal and _is_same_journal(source, journal):
        raise InputError("the journal to import from and the one to import into are the same; give another with --journal")
    with (_opened_journal if is_journal else _opened_file)(source) as (read, names):
        rows = sum(1 for _ in read())  # all of them are checked before anything is written
        with open_journal(journal) as target:
            before = target.counts()
            for batch in _batches(read()):
                target.record(batch)
            for fingerprint, name in names.items():
                target.name_model(fingerprint, name)
            after = target.counts()
    return Imported(rows, after["ok"] - before["ok"], after["failed"] - before["failed"])


def stored_rows(connection: Connection, *chosen: Any) -> Iterator[tuple[Any, ...]]:
    """Every row of a journal that fulfils the conditions, as its driver reads it: a column of SQLite can hold anything."""
    query: Any = select(*(literal_column(name) for name in Row._fields)).select_from(completions).where(*chosen)
    for row in connection.execute(query, execution_options={"yield_per": BATCH}):
        yield tuple(row)


@contextmanager
def _opened_journal(where: str | Path, models: Sequence[str] = ()) -> Iterator[_Source]:
    """The rows of a journal, of these models if any are given."""
    with opened_to_read(where) as engine, reading(engine) as connection:
        chosen = [or_(*(of_model(connection, model) for model in models))] if models else []

        def rows() -> Iterator[Row]:
            for values in stored_rows(connection, *chosen):
                try:
                    yield USABLE_ROW.validate_python(values)
                except ValidationError as error:
                    said = f"journal {shown(engine.url)}: it has a row that no run can use ({flaw_of(error)})"
                    raise InputError(f"{said}; run tiltmeter journal check --repair on it first") from None

        yield rows, model_names(connection)


@contextmanager
def _opened_file(source: str | Path) -> Iterator[_Source]:
    """The rows of a file."""
    path = Path(source)
    if not is_file(path):
        raise InputError(f"cannot import {redacted(str(source))}: there is no such file")
    if path.suffix.lower() not in _KINDS:
        raise InputError(f"{path}: neither a journal nor a file that ends in .parquet or .jsonl")
    in_lines = path.suffix.lower() != ".parquet"

    def rows() -> Iterator[Row]:
        for number, record in enumerate(_lines(path) if in_lines else _parquet_records(path), 1):
            try:
                if record:
                    yield USABLE_ROW.validate_json(record) if isinstance(record, bytes) else USABLE_ROW.validate_python(record)
            except ValidationError as error:
                place = f"{path}, {'line' if in_lines else 'row'} {number}"
                raise InputError(f"{place}: {flaw_of(error)}; nothing was imported") from None

    yield rows, {}


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from map(bytes.strip, iter(lambda: file.readline(4 * LONGEST_TEXT), b""))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _parquet_records(path: Path) -> Iterator[dict[str, Any]]:
    for start in count(0, BATCH):
        try:
            records = pl.scan_parquet(path).slice(start, BATCH).collect().to_dicts()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from None
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise InputError(f"cannot read {path}: {str(error).splitlines()[0][:200]}; is the file whole?") from None
        if not records:
            return
        yield from records


def flaw_of(error: ValidationError) -> str:
    """Return why a row cannot be used, as the end of a sentence."""
    first = first_error(error)
    place = first["loc"][-1] if first["loc"] else ""
    name = Row._fields[place] if isinstance(place, int) and place < len(Row._fields) else str(place)[:100]
    match first["type"]:
        case "missing":
            return f"it has no {name}; only what tiltmeter journal export writes is read"
        case "extra_forbidden":
            return f"there is no column {name} in a journal; was it written by a newer Tiltmeter?"
        case "value_error":
            return str(first["ctx"]["error"])
        case "json_invalid":
            return "it is no JSON; is the file whole?"
    return f"{f'its {name} cannot be kept' if name else 'it is no row'}: {first['msg'][0].lower()}{first['msg'][1:]}"


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(islice(rows, BATCH)):
        yield batch


def _write_lines(frames: Iterator[DataFrame], file: IO[bytes]) -> None:
    for frame in frames:
        frame.with_columns(col.key.bin.encode("hex")).write_ndjson(file)


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _is_same_journal(source: str | Path, journal: str | Path) -> bool:
    one, other = journal_file(source), journal_file(journal)
    if one and other and one.exists() and other.exists():
        return one.samefile(other)
    return parse_url(source) == parse_url(journal)
