"""Tables as CSV, JSON, JSON lines and Parquet. They stream from the run's own files, so their size does not matter."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl

from tiltmeter.exports._cells import as_json, neutral, neutral_names
from tiltmeter.exports._formats import Wanted
from tiltmeter.exports._tables import scan
from tiltmeter.reports._files import writing
from tiltmeter.runs._folder import reading

__all__ = ["csv_table", "write_csv", "write_json", "write_jsonl", "write_parquet"]


def csv_table(lazy: pl.LazyFrame) -> pl.LazyFrame:
    """A table fit for CSV: lists and structs as JSON, texts and names of columns that could be taken for formulas made harmless."""
    schema = lazy.collect_schema()
    nested = [as_json(name) for name, kind in schema.items() if kind.is_nested()]
    texts = [neutral(name) for name, kind in schema.items() if kind == pl.String]
    return lazy.with_columns(*nested, *texts).rename(dict(zip(schema.names(), neutral_names(schema.names()), strict=True)))


def write_csv(wanted: Wanted) -> list[str]:
    """The table as CSV: UTF-8, texts in quotes, a null as nothing between commas; see `tiltmeter.exports._cells` for formulas."""
    return _sink(wanted, lambda lazy, aside: csv_table(lazy).sink_csv(aside, quote_style="non_numeric"))


def write_jsonl(wanted: Wanted) -> list[str]:
    """The table as one JSON object a line; a number that is none or infinite is null."""
    return _sink(wanted, lambda lazy, aside: lazy.sink_ndjson(aside))


def write_json(wanted: Wanted) -> list[str]:
    """The table as one JSON list of objects."""
    return _sink(wanted, _json)


def write_parquet(wanted: Wanted) -> list[str]:
    """The table as Parquet."""
    return _sink(wanted, lambda lazy, aside: lazy.sink_parquet(aside, compression="zstd", maintain_order=True))


def _sink(wanted: Wanted, sink: Callable[[pl.LazyFrame, Path], None]) -> list[str]:
    # What cannot be written is told by `writing`; whatever else Polars says is about the table that is read.
    with reading(wanted.run.path):
        lazy = scan(wanted)
        with writing(wanted.path) as aside:
            sink(lazy, aside)
    return [str(wanted.path)]


def _json(lazy: pl.LazyFrame, aside: Path) -> None:
    with tempfile.TemporaryDirectory(dir=aside.parent, prefix=".lines") as folder:
        lines = Path(folder) / "lines"
        lazy.sink_ndjson(lines)
        with lines.open("rb") as source, aside.open("wb") as target:
            before = b"[\n"
            for line in source:
                target.write(before + line.rstrip(b"\n"))
                before = b",\n"
            target.write(b"\n]\n" if before == b",\n" else b"[]\n")
