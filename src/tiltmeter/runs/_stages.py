"""Tables of a method's own between its answers and its findings, in the folder `stages` of a run."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from tiltmeter.errors import InputError
from tiltmeter.runs._folder import STAGES, RunFolder, merge, writing

__all__ = ["ColumnTypes", "StageTables", "stage_tables"]


class ColumnTypes:
    """The types of the columns of a table that is written in pieces."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._known: dict[str, pl.DataType] = {}

    def check(self, rows: pl.DataFrame) -> None:
        """Raise InputError where a column of this piece cannot be put below that of an earlier one; null and numeric types go together."""
        for name, kind in rows.schema.items():
            known = self._known.get(name, kind)
            if known != kind and pl.Null not in (known, kind) and not (known.is_numeric() and kind.is_numeric()):
                raise InputError(f"the column {name!r} of the table {self._table} holds {kind} here, and {known} in another part or model")
        self._known |= {name: kind for name, kind in rows.schema.items() if self._known.get(name, pl.Null) == pl.Null}


class StageTables:
    """Tables that grow in pieces and can be read while they grow.

    Every row says which model and part it belongs to (null where it belongs to all of them).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pieces: dict[str, list[Path]] = {}
        self._types: dict[str, ColumnTypes] = {}

    @property
    def names(self) -> list[str]:
        """Tables something was added to, in order."""
        return list(self._pieces)

    def add(self, name: str, rows: pl.DataFrame, model: str | None, part: str | None) -> None:
        """Add rows; columns another piece lacks are null there."""
        self._types.setdefault(name, ColumnTypes(name)).check(rows)
        pieces = self._pieces.setdefault(name, [])
        path = self._folder / f"{name}.{len(pieces):06d}.parquet"
        owner = {"model": pl.lit(model, pl.String), "part": pl.lit(part, pl.String)}
        own = [name for name in rows.columns if name not in owner]
        with writing(path):
            rows.with_columns(**owner).select(*owner, *own).write_parquet(path, compression="lz4", statistics=False)
        pieces.append(path)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """If the block ends with an error, what it added is taken back."""
        before = copy.deepcopy((self._pieces, self._types))
        try:
            yield
        except BaseException:
            self._pieces, self._types = before
            raise

    def scan(self, name: str) -> pl.LazyFrame:
        """What was added so far; raises InputError where nothing was."""
        if name not in self._pieces:
            raise InputError(f"the run has no table {name}: it was not made in this run")
        return pl.concat([pl.scan_parquet(piece) for piece in self._pieces[name]], how="diagonal_relaxed")

    def finish(self, home: Path) -> None:
        """Move each table whole to its place in `home`."""
        for name, pieces in self._pieces.items():
            with writing(home):
                home.mkdir(exist_ok=True)
                whole = self._folder / f"{name}.whole"
                merge(pieces, whole)
                whole.replace(home / f"{name}.parquet")


@contextmanager
def stage_tables(folder: RunFolder) -> Iterator[StageTables]:
    """Tables to fill; they appear in the run folder, in place of those of an earlier run, when the block ends without error."""
    with writing(folder.path):
        aside = Path(tempfile.mkdtemp(dir=folder.path, prefix=f".{STAGES}."))
    home = folder.path / STAGES
    try:
        tables = StageTables(aside)
        yield tables
        tables.finish(home)
        if home.is_dir():
            for path in home.glob("*.parquet"):
                if path.stem not in tables.names:
                    path.unlink()
    finally:
        shutil.rmtree(aside, ignore_errors=True)
