"""Files that `export` writes, read back in batches, each row checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from tiltmeter.engine.upkeep._rows import BATCH, COLUMNS, LONGEST_TEXT, NEEDED, first_flaw
from tiltmeter.errors import InputError

__all__ = ["lines_tables", "parquet_tables"]

_LONGEST_LINE: Final = 4 * LONGEST_TEXT
_MOST_BYTES: Final = 32_000_000
"""Of lines in memory at a time."""


def parquet_tables(path: Path) -> Iterator[pl.DataFrame]:
    """Tables of `COLUMNS` from a Parquet file, every row one that a journal can hold.

    Raises
    ------
    InputError
        The file cannot be read, lacks a column, or a row (named by its number, from 1) cannot be taken in.
    """
    scan = _attempt(path, lambda: pl.scan_parquet(path))
    schema = _attempt(path, scan.collect_schema)
    _check_columns(path, schema.names())
    for name, dtype in schema.items():
        if not (dtype == COLUMNS[name] or dtype == pl.Null or (COLUMNS[name] == pl.Int64() and dtype.is_integer())):
            raise InputError(
                f"{path}: the column {name} holds {dtype}, not {COLUMNS[name]}; only what tiltmeter journal export writes is read"
            )
    rows = int(_attempt(path, lambda: scan.select(pl.len()).collect()).item())
    chosen = [
        pl.col(name).cast(dtype, strict=False) if name in schema else pl.lit(None, dtype).alias(name) for name, dtype in COLUMNS.items()
    ]
    for start in range(0, rows, BATCH):
        frame = _attempt(path, scan.slice(start, BATCH).select(chosen).collect)
        yield _checked(frame, f"{path}, row", range(start + 1, start + frame.height + 1))


def lines_tables(path: Path) -> Iterator[pl.DataFrame]:
    """Tables of `COLUMNS` from JSON lines, every row one that a journal can hold.

    Raises
    ------
    InputError
        The file cannot be read, or a line (named by its number, from 1) is no row that can be taken in.
    """
    for numbers, lines in _chunks(path):
        rows = [_row(path, number, line) for number, line in zip(numbers, lines, strict=True)]
        frame = _frame(path, numbers, rows)
        yield _checked(frame, f"{path}, line", numbers)


def _chunks(path: Path) -> Iterator[tuple[list[int], list[bytes]]]:
    numbers: list[int] = []
    lines: list[bytes] = []
    size = number = 0
    try:
        with path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise InputError(f"{path}, line {number}: it is longer than {_LONGEST_LINE >> 20} MiB")
                if line.strip():
                    numbers.append(number)
                    lines.append(line)
                    size += len(line)
                if len(lines) == BATCH or size > _MOST_BYTES:
                    yield numbers, lines
                    numbers, lines, size = [], [], 0
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if lines:
        yield numbers, lines


def _row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{path}, line {number}: it is no JSON; is the file whole?") from None
    if not isinstance(row, dict):
        raise InputError(f"{path}, line {number}: it is no JSON object")
    _check_columns(f"{path}, line {number}", list(row))
    return row


def _frame(path: Path, numbers: list[int], rows: list[dict[str, Any]]) -> pl.DataFrame:
    columns = []
    for name, dtype in COLUMNS.items():
        kind = pl.String() if name == "key" else dtype
        values = [row.get(name) for row in rows]
        try:
            columns.append(pl.Series(name, values, dtype=kind, strict=True))
        except UnicodeEncodeError:  # halves of characters: the journal keeps U+FFFD for them
            columns.append(pl.Series(name, [_mended(value) for value in values], dtype=kind, strict=False))
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            bad = next((place for place, value in enumerate(values) if not _fits(value, kind)), 0)
            raise InputError(f"{path}, line {numbers[bad]}: its {name} is not {_WORDS[kind]}") from None
    key = pl.col("key")
    decoded = key.str.decode("hex", strict=False).fill_null(pl.lit(b""))  # not hex: not a key, but not absent either
    return pl.DataFrame(columns).with_columns(pl.when(key.is_not_null()).then(decoded).alias("key"))


_WORDS: Final = {pl.String(): "a text", pl.Int64(): "a whole number that fits", pl.Float64(): "a number"}


def _fits(value: object, dtype: pl.DataType) -> bool:
    try:
        pl.Series([value], dtype=dtype, strict=True)
    except UnicodeEncodeError:
        return True
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return False
    return True


def _mended(value: object) -> str | None:
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else None


def _check_columns(where: object, names: list[str]) -> None:
    if missing := [name for name in NEEDED if name not in names]:
        raise InputError(f"{where}: there is no {', '.join(missing)}; only what tiltmeter journal export writes is read")
    if unknown := [name for name in names if name not in COLUMNS]:
        raise InputError(f"{where}: there is no column {unknown[0][:100]} in a journal; was it written by a newer Tiltmeter?")


def _checked(frame: pl.DataFrame, named: str, numbers: Sequence[int]) -> pl.DataFrame:
    frame = frame.with_columns(pl.when(pl.col("latency").is_finite()).then("latency"))
    flaw = first_flaw(frame)
    if flaw is not None:
        key = frame["key"][flaw[0]]
        raise InputError(f"{named} {numbers[flaw[0]]}{f' (key {key.hex()[:16]}...)' if key else ''}: {flaw[1]}; nothing was imported")
    return frame


def _attempt(path: Path, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0][:200]}; is the file whole?") from None
