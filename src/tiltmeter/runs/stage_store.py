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

from tiltmeter.errors import InputError
from tiltmeter.files.paths import is_file, sha256
from tiltmeter.files.reading import UNREADABLE, csv_of, unreadable
from tiltmeter.files.tables import UserTable
from tiltmeter.files.writing import writable
from tiltmeter.reports.files import as_written
from tiltmeter.runs.folder import ELSEWHERE, add_piece, json_digest, merge
from tiltmeter.schema import StageTable, conform
from tiltmeter.study import Judge, Stage

FORMAT = 2
"""Increase this when stages create different tables from the same inputs; all tables are then recomputed."""
Owner = tuple[str, str]
"""Model and part."""


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
        self._folder, self._stage, self._of_run = folder, stage, of_run
        self._paths: dict[str, list[Path]] = {}
        self._types: dict[str, dict[str, pl.DataType]] = {}

    def add(self, made: Mapping[str, DataFrame], owner: Owner | None = None) -> None:
        """Add tables; columns that are missing in another piece are null there.

        Parameters
        ----------
        owner
            Their model and part; None: all.
        """
        for name, table in made.items():
            add_piece(self._paths.setdefault(name, []), self._marked(name, table, owner), self._folder, name)
            self.record.pieces.setdefault(name, {})[_key(owner)] = table.columns
            known = self._types.setdefault(name, {})
            known |= {
                column: kind
                for column, kind in table.schema.items()
                if known.get(column, pl.Null()) == pl.Null
            }

    def check(self, made: Mapping[str, DataFrame]) -> None:
        """Raise InputError if a column cannot be appended to that of an earlier piece.

        Null and numeric types are compatible.
        """
        for name, table in made.items():
            for column, kind in table.schema.items():
                known = self._types.get(name, {}).get(column, kind)
                if (
                    known != kind
                    and pl.Null not in (known, kind)
                    and not (known.is_numeric() and kind.is_numeric())
                ):
                    raise InputError(
                        f"the column {column!r} of the table {name} is {kind} here, but {known} in another part or model"
                    )

    def merged(self) -> dict[str, Path]:
        """Merge the pieces of each table, record the checksums and return the paths.

        The first table exists even without pieces.
        """
        first = next(iter(self._stage.tables))
        if first not in self._paths:
            self.add({first: DataFrame(schema=self._stage.tables[first].columns)})
        whole = {table: self._folder / f"{table}.whole" for table in self._paths}
        for table, path in whole.items():
            merge(self._paths[table], path)
        self.record.tables = {table: sha256(path) for table, path in whole.items()}
        return whole

    def _marked(self, name: str, table: DataFrame, owner: Owner | None) -> DataFrame:
        """Return a table of a run with `model` and `part` as first columns.

        Measures and findings have them already.
        """
        if not self._of_run or name in ("measures", "findings"):
            return table
        marks = dict(zip(("model", "part"), owner or (None, None), strict=True))
        return table.select(
            *(lit(value, String).alias(mark) for mark, value in marks.items()), pl.exclude(*marks)
        )


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
        self.home, self._places, self._of_run = home, places, of_run
        self.results: list[StageResult] = []
        self.tables: list[str] = []
        """Names of the tables of the stages carried out so far."""

    def place(self, table: str) -> Path:
        """Return the file of a table."""
        csv = self.home / f"{table}.csv"
        return csv if not self._of_run and is_file(csv) else self._written(table)

    def _written(self, table: str) -> Path:
        return self._places.get(table, self.home / f"{table}.parquet")

    def checksum(self, tables: Sequence[str]) -> str:
        """Return a checksum of the current tables, for the inputs of a later stage.

        An omitted table counts as "none".
        """
        return "+".join(
            sha256(place) if (place := self.place(table)).is_file() else "none" for table in tables
        )

    @contextmanager
    def carrying_out(
        self, stage: Stage, rests_on: Mapping[str, Any], judge: Judge | None = None, *, keep: bool = False
    ) -> Iterator[Pieces | None]:
        """Open the pieces of a stage for writing, or yield None if the existing tables are kept: edited, or with unchanged inputs.

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
        asked = judge.name if stage.asks and judge is not None else None
        first = next(iter(stage.tables))
        if self._is_edited(stage, record):
            state = "edited"
            if record.tables and record.inputs != digest:
                record.problems.append(
                    f"{self.place(first)} was edited and is used as it is, although the spec or an earlier stage has changed since; "
                    "remove it to recreate it"
                )
            for table, columns in stage.tables.items():
                read_table(
                    self.place(table),
                    columns
                    if table == first
                    else StageTable(columns.columns, required=tuple(columns.columns)),
                )
            yield None
        elif keep or self._is_current(stage, record, digest, asked):
            state = "kept"
            yield None
        else:
            state, record = "made", StageRecord(inputs=digest, judge=asked)
            with writable(self.home, ELSEWHERE):
                self.home.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(
                dir=self.home, prefix=ASIDE, ignore_cleanup_errors=True
            ) as aside:
                pieces = Pieces(Path(aside), stage, record, of_run=self._of_run)
                yield pieces
                with writable(self.home, ELSEWHERE):
                    self._keep(stage, pieces, Path(aside) / "record")
        self.tables += [table for table in stage.tables if self.place(table).is_file()]
        rows = (
            pl.scan_parquet(self.place(first)).select(pl.len()).collect().item()
            if state != "edited"
            else self.read(stage, first).height
        )
        self.results.append(StageResult(stage.name, rows, state, tuple(record.problems)))

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
        mine = rows if "" in pieces else rows.filter(model=owner[0], part=owner[1])
        return mine.select(columns).collect()

    def _record(self, stage: Stage) -> StageRecord:
        try:
            return StageRecord.model_validate_json((self.home / f"{stage.name}.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return StageRecord()

    def _is_edited(self, stage: Stage, record: StageRecord) -> bool:
        places = {table: self.place(table) for table in stage.tables}
        if self._of_run or not all(place.is_file() for place in places.values()):
            return False
        return any(
            place.suffix == ".csv" or sha256(place) != record.tables.get(table)
            for table, place in places.items()
        )

    def _is_current(self, stage: Stage, record: StageRecord, digest: str, judge: str | None) -> bool:
        same = record.whole and record.inputs == digest and judge in (None, record.judge)
        known = next(iter(stage.tables)) in record.tables and set(record.tables) <= set(stage.tables)
        return (
            same
            and known
            and all(self.checksum([table]) == written for table, written in record.tables.items())
        )

    def _keep(self, stage: Stage, pieces: Pieces, aside: Path) -> None:
        """Move the new tables and their record into place.

        The old tables are removed first, then the record with the new checksums is written, and then the new
        tables are moved in. An interruption at any moment therefore leaves no table that could be mistaken
        for an edited one.
        """
        made = pieces.merged()
        aside.write_text(pieces.record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        for table in stage.tables:
            self._written(table).unlink(missing_ok=True)
        aside.replace(self.home / f"{stage.name}.json")
        for table, path in made.items():
            path.replace(self._written(table))

    def remove_others(self) -> None:
        """Remove the tables and records of other stages, left by another study in the same folder."""
        kept = {".parquet": set(self.tables), ".json": {result.name for result in self.results}}
        for path in list(self.home.glob("*")):
            if path.stem not in kept.get(path.suffix, {path.stem}):
                path.unlink()


def conformed(stage: Stage, made: DataFrame | Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return the tables that a stage created, with the columns and types it declares.

    Measures are still without their factors.
    """
    tables = {next(iter(stage.tables)): made} if isinstance(made, DataFrame) else made
    return {
        name: table
        if name == "measures"
        else conform(table, stage.tables[name].columns, further=stage.tables[name].further)
        for name, table in tables.items()
    }


ASIDE = ".making."
"""Prefix of the names of temporary folders for new tables."""


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
        table = csv_of(path) if suffix == ".csv" else pl.read_parquet(path, glob=False)
        if suffix == ".csv":
            table = table.with_columns(
                as_written(name) for name, kind in table.schema.items() if kind == String
            )
        UserTable.of(label, table).demand(wanted.required)
        table = conform(table, wanted.columns).with_columns(
            col(name).fill_null(value) for name, value in wanted.fill.items()
        )
    except UNREADABLE as error:
        raise InputError(f"{label} cannot be read ({unreadable(path, error)}); correct it") from error
    checked = UserTable.of(label, table)
    checked.refuse_empty(wanted.required)
    if wanted.unique:
        checked.refuse_repeats(wanted.unique)
    return table
