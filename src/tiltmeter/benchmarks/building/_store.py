"""The tables of a build in its folder: made anew only where what they rest on changed, and never where a user edited them.

Beside the tables of a stage stands `NAME.json`: the checksum of what the stage rests on, and of each table as it was written. A table
that is no longer what was written was edited, and is used as it is. It may also be given as `NAME.csv`, which is looked at first.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tiltmeter._damage import UNREADABLE, csv_of, unreadable
from tiltmeter._lock import only_writer
from tiltmeter._paths import sha256
from tiltmeter.benchmarks._tables import Schema
from tiltmeter.benchmarks.files import writing
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["Made", "Stage", "StageResult", "Store"]

_FORMAT = 1
"""To be raised when stages make other tables of the same inputs: each is then made anew."""

_ASIDE = re.compile(r"\..+\.(parquet|json|yaml)\.\w{8}")
"""What a file is called while it is written (see `files.writing`)."""


class StageResult(NamedTuple):
    """What became of one stage."""

    name: str
    rows: int
    """Of its first table."""
    state: str
    """"made", "kept" (from an earlier build; nothing it rests on changed) or "edited" (by the user; used as it is)."""
    problems: tuple[str, ...] = ()
    """What is missing from it, in sentences."""


class Made(NamedTuple):
    """The tables of a stage by name, and what is missing from them."""

    tables: Mapping[str, pl.DataFrame]
    problems: tuple[str, ...] = ()
    whole: bool = True
    """False: more may come when it is tried again, so the next build makes the stage again."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a stage makes, and of what."""

    name: str
    tables: Mapping[str, Schema]
    """Its tables with their columns, the one to look at first."""
    needed: tuple[str, ...]
    """Columns that an edited first table must have, filled in; others are null where it lacks them."""
    inputs: Mapping[str, Any]
    """All it rests on, as JSON can hold it; of tables the checksum."""
    judge: str | None = None
    """Who was asked; another judge makes the stage anew, none at all does not."""
    fill: Mapping[str, Any] = field(default_factory=dict)
    """Values of columns an edited first table may leave empty."""

    @property
    def digest(self) -> str:
        """Checksum of the inputs."""
        text = json.dumps([_FORMAT, self.name, self.inputs], sort_keys=True, ensure_ascii=False, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """The folder of a build.

    Parameters
    ----------
    out
        The folder; it is made when the first table is written.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.results: list[StageResult] = []

    @contextmanager
    def only_writer(self) -> Iterator[None]:
        """Be the only one to fill the folder; what a killed build left half-written goes.

        Raises
        ------
        InputError
            Another process fills it, or it cannot be made or written.
        """
        try:
            with only_writer(self.out) as held:
                if held:
                    for path in [*self.out.glob(".*"), *(self.out / "stages").glob(".*")]:
                        if _ASIDE.fullmatch(path.name):
                            path.unlink(missing_ok=True)
                yield
        except OSError as error:
            raise InputError(f"cannot write {self.out}: {error.strerror or error}; choose another place or make room there") from error

    def path(self, table: str, suffix: str = ".parquet") -> Path:
        """Where a table lives: the benchmark itself in the folder, everything else in its `stages`."""
        return (self.out if (table, suffix) == ("benchmark", ".parquet") else self.out / "stages") / f"{table}{suffix}"

    def is_there(self, stage: Stage) -> bool:
        """Whether the stage need not be made: it was edited, or is whole and rests on the same things."""
        record = self._record(stage)
        return self._is_edited(stage, record) or self._is_current(stage, record)

    def get(self, stage: Stage, make: Callable[[], Made]) -> dict[str, pl.DataFrame]:
        """The tables of a stage: an edited one, the one of an earlier build, or a new one.

        Raises
        ------
        InputError
            An edited table cannot be used (file and column are named), or the folder cannot be written to.
        """
        record = self._record(stage)
        problems = tuple(record.get("problems", ()))
        if self._is_edited(stage, record):
            if record and record.get("inputs") != stage.digest:
                problems += (
                    f"{self._first(stage)} was edited and is used as it is, though the spec or an earlier stage has changed since; "
                    "remove it to have it made anew",
                )
            tables, state = self._read(stage), "edited"
        elif self._is_current(stage, record):
            tables, state = self._read(stage), "kept"
        else:
            made = make()
            tables, state, problems = dict(made.tables), "made", made.problems
            self._write(stage, made)
        self.results.append(StageResult(stage.name, tables[next(iter(stage.tables))].height, state, problems))
        return tables

    def checksum(self, stage: Stage) -> str:
        """Of the tables of a stage as they stand there, for the inputs of the next one."""
        return "+".join(sha256(self._place(table)) for table in stage.tables)

    def _place(self, table: str) -> Path:
        csv = self.path(table, ".csv")
        return csv if csv.is_file() else self.path(table)

    def _first(self, stage: Stage) -> Path:
        return self._place(next(iter(stage.tables)))

    def _record(self, stage: Stage) -> dict[str, Any]:
        try:
            record = json.loads(self.path(stage.name, ".json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        ours = isinstance(record, dict) and isinstance(record.get("tables"), dict)
        problems = record.get("problems", []) if ours else None
        return record if isinstance(problems, list) and all(isinstance(one, str) for one in problems) else {}

    def _is_edited(self, stage: Stage, record: Mapping[str, Any]) -> bool:
        written = record.get("tables", {})
        places = {table: self._place(table) for table in stage.tables}
        if not all(place.is_file() for place in places.values()):
            return False
        return any(place.suffix == ".csv" or sha256(place) != written.get(table) for table, place in places.items())

    def _is_current(self, stage: Stage, record: Mapping[str, Any]) -> bool:
        there = all(self.path(table).is_file() for table in stage.tables)
        same_judge = stage.judge is None or record.get("judge") == stage.judge
        return there and same_judge and record.get("whole") is True and record.get("inputs") == stage.digest

    def _read(self, stage: Stage) -> dict[str, pl.DataFrame]:
        tables = {}
        for number, (table, schema) in enumerate(stage.tables.items()):
            place = self._place(table)
            needed = stage.needed if number == 0 else tuple(schema)
            tables[table] = _canonical(place, schema, needed, stage.fill if number == 0 else {})
        return tables

    def _write(self, stage: Stage, made: Made) -> None:
        """Killed at any moment, this leaves no table that could be taken for an edited one: the old tables go first, then comes the
        record with the checksums of the new ones, then these.
        """
        record = self.path(stage.name, ".json")
        rows = {table: made.tables[table].height for table in stage.tables}
        about = {"inputs": stage.digest, "judge": stage.judge, "rows": rows, "problems": list(made.problems), "whole": made.whole}
        with ExitStack() as stack:
            asides = {table: stack.enter_context(writing(self.path(table))) for table in stage.tables}
            for table, aside in asides.items():
                made.tables[table].write_parquet(aside)
            for table in stage.tables:
                self.path(table).unlink(missing_ok=True)
            with writing(record) as aside:
                sums = {table: sha256(place) for table, place in asides.items()}
                aside.write_text(json.dumps(about | {"tables": sums}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _canonical(path: Path, schema: Schema, needed: tuple[str, ...], fill: Mapping[str, Any]) -> pl.DataFrame:
    try:
        table = csv_of(path) if path.suffix == ".csv" else pl.read_parquet(path, glob=False)
        for name in needed:
            if name not in table.columns:
                raise InputError(f"{path} lacks the column {name!r} ({did_you_mean(name, table.columns)}); put it back or remove the file")
        absent = [pl.lit(None).alias(name) for name in schema if name not in table.columns]
        filled = {name: pl.col(name).fill_null(value) for name, value in fill.items()}
        table = table.with_columns(absent).select(pl.col(name).cast(kind) for name, kind in schema.items()).with_columns(**filled)
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read ({unreadable(path, error)}); mend it, or remove it to have it made anew") from error
    for name in needed:
        if table[name].null_count():
            row = table[name].is_null().arg_true()[0] + (2 if path.suffix == ".csv" else 1)
            raise InputError(f"{path}: row {row}, column {name!r} is empty; fill it in or take the row out")
    return table
