"""Export of the tables of a run to CSV, JSON, JSON Lines and Parquet."""

from __future__ import annotations

import tempfile
from pathlib import Path

from polars import DataFrame, LazyFrame

from tiltmeter import runs
from tiltmeter.errors import InputError
from tiltmeter.exports._requests import ExportRequest
from tiltmeter.probes._presentation import normalised_table
from tiltmeter.reports import writing
from tiltmeter.reports._files import csv_table
from tiltmeter.runs._folder import TABLES, reading


def scan(request: ExportRequest) -> LazyFrame:
    """Scan all rows of the requested table; raises InputError if the run has no table of that name."""
    name = request.table
    if name == "normalised":
        return normalised_of(request).lazy()
    lazy = request.run.examples.lazy() if name == "examples" else _table(request.run, name)
    if request.model is None:
        return lazy
    if "model" not in lazy.collect_schema():
        raise InputError(f"--table {name}: the table has no model column; omit --model")
    return lazy.filter(model=request.model)


def _table(run: runs.Run, name: str) -> LazyFrame:
    """Return a table of the run folder, or one that the method computes."""
    is_stored = name in TABLES or name in run.folder.stages()
    method_tables = {} if is_stored else runs.method_tables(run)
    if name in method_tables:
        return method_tables[name].rows().lazy()
    return run.folder.any_table(name, others=("normalised", "examples", *method_tables))


def findings_of(request: ExportRequest) -> DataFrame:
    """Return the findings to export: the key findings, or all of them."""
    findings = request.run.findings
    if request.model is not None:
        findings = findings.filter(model=request.model)
    return findings if request.every or request.table == "normalised" else findings.filter("key")


def normalised_of(request: ExportRequest) -> DataFrame:
    """Return the normalised key metrics of all models.

    Raises InputError if no metric has a normalised score.
    """
    table = normalised_table(findings_of(request), request.run.grades)
    if table.height <= 1:  # at most the row of the average
        raise InputError(
            f"no metric of {request.run.place} has a normalised score, because only probes have one;"
            " use --table findings"
        )
    return table


def write_table(request: ExportRequest) -> None:
    """Write a table as CSV, JSON, JSON Lines or Parquet.

    CSV is encoded as UTF-8; texts are quoted, nulls are empty and formulas are neutralised. In JSON, NaN and
    infinite numbers are null.
    """
    # `writing` reports write errors; all other Polars errors come from reading the table.
    with reading(request.run.path):
        lazy = scan(request)
        with writing(request.path) as temporary:
            match request.format:
                case "csv":
                    csv_table(lazy).sink_csv(temporary, quote_style="non_numeric")
                case "jsonl":
                    lazy.sink_ndjson(temporary)
                case "json":
                    _sink_json(lazy, temporary)
                case _:
                    lazy.sink_parquet(temporary, compression="zstd", maintain_order=True)


def _sink_json(lazy: LazyFrame, temporary: Path) -> None:
    """Write a table as a JSON list, one row per line, without collecting it."""
    with tempfile.TemporaryDirectory(dir=temporary.parent, prefix=".lines") as folder:
        lines = Path(folder) / "lines"
        lazy.sink_ndjson(lines)
        with lines.open("rb") as source, temporary.open("wb") as target:
            is_empty = True
            for line in source:
                target.write(b"[\n" if is_empty else b",\n")
                target.write(line.rstrip(b"\n"))
                is_empty = False
            target.write(b"[]\n" if is_empty else b"\n]\n")
