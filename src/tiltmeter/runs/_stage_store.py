"""The tables of stages in a folder, recomputed only when their inputs have changed.

`NAME.json` records the checksum of the inputs of a stage, and the checksum of each table as written. In the
folder of a benchmark, a table that differs from its checksum was edited by the user and is used as it is; a
file `NAME.csv` takes precedence over the table. In a run, a file named by the user (`--replace NAME=FILE`)
replaces a table.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from polars import DataFrame, String, col, lit
from pydantic import BaseModel

from tiltmeter._files.paths import is_file, sha256
from tiltmeter._files.reading import UNREADABLE, csv_of, unreadable
from tiltmeter._files.tables import UserTable
from tiltmeter._files.writing import writable
from tiltmeter.errors import InputError
from tiltmeter.reports._files import as_written
from tiltmeter.runs._folder import ELSEWHERE, add_piece, json_digest, merge, row_count
from tiltmeter.runs._resolving import Resolved, replaced_tables
from tiltmeter.runs._shared_tables import MEASURED, SHARED, Owner
from tiltmeter.schema import StageTable, conform
from tiltmeter.study import Judge, Stage

FORMAT = 2
"""Increase this when stages create different tables from the same inputs; all tables are then recomputed."""
TEMPORARY = ".making."
"""Prefix of the names of temporary folders for new tables."""


class StageResult(NamedTuple):
    """The outcome of one stage."""

    name: str
    rows: int
    """Rows of its first table."""
    state: str
    """"made", "kept" (from an earlier time, because its inputs have not changed) or "edited" (by the user,
    and used as it is)."""
    problems: tuple[str, ...] = ()
    """What is missing, one sentence each."""


class StageRecord(BaseModel):
    """The record of a stage; the default is that of a stage that has not been run in this folder."""

    inputs: str | None = None
    """Checksum of the inputs of the stage."""
    judge: str | None = None
    problems: list[str] = []
    whole: bool = False
    """Whether the stage is complete; if False, running it again may produce more."""
    tables: dict[str, str] = {}
    """Checksum of each table as it was written."""
    pieces: dict[str, dict[str, list[str]]] = {}
    """Columns of each piece of each table."""


class Pieces:
    """The tables of a stage while they are created: one piece per table and (model, part), or one for all.

    Attributes
    ----------
    record
        The record of the stage; the caller sets its `problems` and `whole`.
    """

    def __init__(self, folder: Path, stage: Stage, record: StageRecord, *, of_run: bool) -> None:
        self.record = record
        self._folder = folder
        self._stage = stage
        self._of_run = of_run
        self._paths: dict[str, list[Path]] = {}
        self._types: dict[str, dict[str, pl.DataType]] = {}

    def add(self, tables: Mapping[str, DataFrame], owner: Owner | None = None) -> None:
        """Add tables; columns that are missing in another piece are null there.

        Parameters
        ----------
        owner
            Their model and part; None: all.
        """
        for name, table in tables.items():
            paths = self._paths.setdefault(name, [])
            add_piece(paths, self._with_owner(name, table, owner), self._folder, name)
            self.record.pieces.setdefault(name, {})[_key(owner)] = table.columns
            types = self._types.setdefault(name, {})
            for column, kind in table.schema.items():
                if types.get(column, pl.Null()) == pl.Null:
                    types[column] = kind

    def check(self, tables: Mapping[str, DataFrame]) -> None:
        """Raise InputError if a column cannot be appended to that of an earlier piece.

        Null and numeric types are compatible.
        """
        for name, table in tables.items():
            types = self._types.get(name, {})
            for column, kind in table.schema.items():
                earlier = types.get(column, kind)
                if not _are_compatible(earlier, kind):
                    raise InputError(
                        f"the column {column!r} of the table {name} is {kind} here,"
                        f" but {earlier} in another part or model"
                    )

    def merged(self) -> dict[str, Path]:
        """Merge the pieces of each table, record the checksums and return the paths.

        The first table exists even without pieces.
        """
        first = next(iter(self._stage.tables))
        if first not in self._paths:
            self.add({first: DataFrame(schema=self._stage.tables[first].columns)})
        merged = {table: self._folder / f"{table}.whole" for table in self._paths}
        for table, path in merged.items():
            merge(self._paths[table], path)
        self.record.tables = {table: sha256(path) for table, path in merged.items()}
        return merged

    def _with_owner(self, name: str, table: DataFrame, owner: Owner | None) -> DataFrame:
        """Return a table of a run with `model` and `part` as first columns.

        Shared tables have them already.
        """
        if not self._of_run or name in SHARED:
            return table
        model, part = owner or (None, None)
        return table.select(
            lit(model, String).alias("model"), lit(part, String).alias("part"), pl.exclude("model", "part")
        )


def _are_compatible(first: pl.DataType, second: pl.DataType) -> bool:
    """Return whether columns of two types can be appended to each other."""
    return first == second or pl.Null in (first, second) or (first.is_numeric() and second.is_numeric())


def _key(owner: Owner | None) -> str:
    """Return the key of a piece in a record; "" for a piece of all models and parts."""
    return "" if owner is None else json.dumps(owner, ensure_ascii=False)


class StageStore:
    """The tables of stages.

    Parameters
    ----------
    home
        Folder of the tables and records; it is created with the first table.
    places
        Paths of tables outside this folder.
    of_run
        Whether the tables belong to a run, with columns for model and part. In any other folder, a table that
        differs from its checksum was edited by the user.
    """

    def __init__(self, home: Path, places: Mapping[str, Path], *, of_run: bool) -> None:
        self.home = home
        self._places = places
        self._of_run = of_run
        self.results: list[StageResult] = []
        self.tables: list[str] = []
        """Names of the tables of the stages carried out so far."""

    def place(self, table: str) -> Path:
        """Return the file of a table."""
        csv = self.home / f"{table}.csv"
        return csv if not self._of_run and is_file(csv) else self._written(table)

    def _written(self, table: str) -> Path:
        """Return the file to which a table is written."""
        return self._places.get(table, self.home / f"{table}.parquet")

    def checksum(self, tables: Sequence[str]) -> str:
        """Return a checksum of the current tables, for the inputs of a later stage.

        An omitted table counts as "none".
        """
        places = [self.place(table) for table in tables]
        return "+".join(sha256(place) if place.is_file() else "none" for place in places)

    @contextmanager
    def carrying_out(
        self, stage: Stage, rests_on: Mapping[str, Any], judge: Judge | None = None, *, keep: bool = False
    ) -> Iterator[Pieces | None]:
        """Open the pieces of a stage for writing, or yield None if the existing tables are kept.

        They are kept if the user has edited them, or if the inputs of the stage have not changed.

        Parameters
        ----------
        rests_on
            All inputs of the stage as JSON values; for tables their checksums.
        judge
            The judge, if any. A stage that uses a judge is repeated if the judge is a different one, but not
            if there is none.
        keep
            Whether the tables of a run are kept, although the inputs of the stage may have changed.

        Raises
        ------
        InputError
            An edited table is not usable (the message names file and column), or the folder cannot be
            written.
        """
        digest = json_digest([FORMAT, stage.name, rests_on])
        record = self._record(stage)
        judge_name = judge.name if stage.asks and judge is not None else None
        first = next(iter(stage.tables))
        if self._is_edited(stage, record):
            state = "edited"
            if record.tables and record.inputs != digest:
                record.problems.append(
                    f"{self.place(first)} was edited and is used as it is, although the spec or an earlier"
                    " stage has changed since; remove it to recreate it"
                )
            self._check_edited(stage)
            yield None
        elif keep or self._is_current(stage, record, digest, judge_name):
            state = "kept"
            yield None
        else:
            state = "made"
            record = StageRecord(inputs=digest, judge=judge_name)
            with writable(self.home, ELSEWHERE):
                self.home.mkdir(parents=True, exist_ok=True)
            temporary = tempfile.TemporaryDirectory(
                dir=self.home, prefix=TEMPORARY, ignore_cleanup_errors=True
            )
            with temporary as folder:
                pieces = Pieces(Path(folder), stage, record, of_run=self._of_run)
                yield pieces
                with writable(self.home, ELSEWHERE):
                    self._keep(stage, pieces, Path(folder) / "record")
        self.tables += [table for table in stage.tables if self.place(table).is_file()]
        rows = self.read(stage, first).height if state == "edited" else row_count(self.place(first))
        self.results.append(StageResult(stage.name, rows, state, tuple(record.problems)))

    def _check_edited(self, stage: Stage) -> None:
        """Raise InputError if a table that the user has edited is not usable.

        All columns of tables after the first are required.
        """
        first, *further_tables = stage.tables
        read_table(self.place(first), stage.tables[first])
        for name in further_tables:
            columns = stage.tables[name].columns
            read_table(self.place(name), StageTable(columns, required=tuple(columns)))

    def read(self, stage: Stage, table: str) -> DataFrame:
        """Return one table of a stage."""
        place = self.place(table)
        return pl.read_parquet(place, glob=False) if self._of_run else read_table(place, stage.tables[table])

    def piece(self, stage: Stage, table: str, owner: Owner) -> DataFrame:
        """Return the rows of one part of one model with their original columns.

        No rows if the stage created none.
        """
        pieces = self._record(stage).pieces.get(table, {})
        columns = pieces.get("") or pieces.get(_key(owner))
        if columns is None:
            return DataFrame(schema=stage.tables[table].columns)
        rows = pl.scan_parquet(self._written(table), glob=False)
        if "" not in pieces:
            rows = rows.filter(model=owner[0], part=owner[1])
        return rows.select(columns).collect()

    def _record(self, stage: Stage) -> StageRecord:
        try:
            return StageRecord.model_validate_json((self.home / f"{stage.name}.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return StageRecord()

    def _is_edited(self, stage: Stage, record: StageRecord) -> bool:
        """Return whether all tables exist and the user has changed one of them."""
        places = {table: self.place(table) for table in stage.tables}
        if self._of_run or not all(place.is_file() for place in places.values()):
            return False
        return any(
            place.suffix == ".csv" or sha256(place) != record.tables.get(table)
            for table, place in places.items()
        )

    def _is_current(self, stage: Stage, record: StageRecord, digest: str, judge: str | None) -> bool:
        """Return whether the tables are complete, have not changed, and rest on the same inputs."""
        if not record.whole or record.inputs != digest or judge not in (None, record.judge):
            return False
        first = next(iter(stage.tables))
        if first not in record.tables or not set(record.tables) <= set(stage.tables):
            return False
        return all(self.checksum([table]) == written for table, written in record.tables.items())

    def _keep(self, stage: Stage, pieces: Pieces, record: Path) -> None:
        """Move the new tables and their record, which is written to the temporary path `record`, into place.

        The old tables are removed first, then the record with the new checksums is written, and then the new
        tables are moved in. An interruption at any moment therefore leaves no table that could be mistaken
        for an edited one.
        """
        merged = pieces.merged()
        record.write_text(pieces.record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        for table in stage.tables:
            self._written(table).unlink(missing_ok=True)
        record.replace(self.home / f"{stage.name}.json")
        for table, path in merged.items():
            path.replace(self._written(table))

    def remove_others(self) -> None:
        """Remove the tables and records of other stages, left by another study in the same folder."""
        records = {stage.name for stage in self.results}
        for path in list(self.home.glob("*")):
            is_foreign_table = path.suffix == ".parquet" and path.stem not in self.tables
            is_foreign_record = path.suffix == ".json" and path.stem not in records
            if is_foreign_table or is_foreign_record:
                path.unlink()


def conformed(stage: Stage, created: DataFrame | Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return the tables that a stage created, with the columns and types it declares.

    Measures are still without their factors.
    """
    tables = {next(iter(stage.tables)): created} if isinstance(created, DataFrame) else dict(created)
    for name, table in tables.items():
        if name != MEASURED:
            declared = stage.tables[name]
            tables[name] = conform(table, declared.columns, further=declared.further)
    return tables


def check_replaced(resolved: Resolved) -> None:
    """Read every table that the user provides, so that errors in it are found before any paid request."""
    stages = [stage for part in resolved.study.parts for stage in part.stages]
    for name, path in replaced_tables(resolved.study, resolved.settings).items():
        table = next(stage.tables[name] for stage in stages if name in stage.tables)
        read_table(Path(path), table, f"--replace {name}={path}")


def read_table(path: Path, wanted: StageTable, label: str | None = None) -> DataFrame:
    """Read a user's table (CSV or Parquet) that replaces the table of a stage.

    Apostrophes before texts that look like formulas, which `export` writes, are removed from CSV files.

    Parameters
    ----------
    label
        Name of the file in messages.

    Raises
    ------
    InputError
        The file cannot be read, lacks a column or a value, or contains a duplicated row.
    """
    label, suffix = label or str(path), path.suffix.lower()
    if not is_file(path):
        raise InputError(f"{label}: there is no such file")
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"{label}: unknown kind of file {path.suffix!r}; give .csv or .parquet")
    try:
        if suffix == ".csv":
            table = csv_of(path)
            texts = [name for name, kind in table.schema.items() if kind == String]
            table = table.with_columns(as_written(name) for name in texts)
        else:
            table = pl.read_parquet(path, glob=False)
        UserTable.of(label, table).demand(wanted.required)
        filled = [col(name).fill_null(value) for name, value in wanted.fill.items()]
        table = conform(table, wanted.columns).with_columns(filled)
    except UNREADABLE as error:
        raise InputError(f"{label} cannot be read ({unreadable(path, error)}); correct it") from error
    checked = UserTable.of(label, table)
    checked.refuse_empty(wanted.required)
    if wanted.unique:
        checked.refuse_repeats(wanted.unique)
    return table
