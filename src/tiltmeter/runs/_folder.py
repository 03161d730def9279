"""The run folder: open, portable tables beside the resolved study. Everything is written aside first and moved into place whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter.errors import InputError

__all__ = ["RunFolder", "runs_root", "writing"]

TABLES = ("design", "responses", "measures", "findings")
ROW_GROUP = 16_384


def runs_root() -> Path:
    """The folder that holds run folders and the default journal: `TILTMETER_RUNS`, else `runs` here."""
    return Path(os.environ.get("TILTMETER_RUNS", "runs"))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the file system says (read-only, full, not a folder) into one sentence naming the path."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another place with --out or make room there") from error
    except pl.exceptions.ComputeError as error:
        if "os error" in str(error).lower():
            raise InputError(f"cannot write {path}: {str(error).splitlines()[0]}") from error
        raise


class RunFolder:
    """Reads and writes `runs/NAME/`.

    Parameters
    ----------
    path
        The folder; it need not exist before something is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, name: str | Path) -> RunFolder:
        """An existing run, by path or by its name under the runs folder; raises InputError if there is none."""
        for path in (Path(name), runs_root() / name):
            if (path / "run.json").is_file():
                return cls(path)
        known = sorted(path.parent.name for path in runs_root().glob("*/run.json"))
        hint = f"known runs: {', '.join(known[:10])}" if known else f"there is no run in {runs_root()} yet"
        raise InputError(f"{name} is not a run folder (it has no run.json); {hint}")

    def table_path(self, table: str) -> Path:
        """Where a table lives."""
        return self.path / f"{table}.parquet"

    def scan(self, table: str) -> pl.LazyFrame:
        """A table, lazily; raises InputError if the run has none."""
        path = self.table_path(table)
        if not path.is_file():
            raise InputError(f"{self.path} has no table {table}.parquet; run the study again to complete it")
        return pl.scan_parquet(path)

    def read_json(self) -> dict[str, Any]:
        """The content of run.json."""
        path = self.path / "run.json"
        try:
            loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as JSON: {error}") from error
        return loaded

    @contextmanager
    def filling(self, document: Mapping[str, Any]) -> Iterator[None]:
        """Fill the folder with the run of this study; go on in it if it already holds the very same one.

        A folder made by this call is removed again if the block ends with an error, so that nothing half-written is left; the
        answers are in the journal.

        Raises
        ------
        InputError
            The folder holds another study, or something that is no run, or cannot be written.
        """
        import yaml

        path = self.path / "study.yaml"
        text = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
        known = path.is_file()
        if known and path.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{self.path} holds a run with other settings (see its study.yaml); choose another folder with --out or remove it"
            )
        if not known and self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise InputError(f"{self.path} exists and is not a run folder; choose another one with --out")
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        try:
            if not known:
                self.write_text("study.yaml", text)
            yield
        except BaseException:
            if not known:
                shutil.rmtree(self.path, ignore_errors=True)
            raise

    def write_text(self, name: str, text: str) -> Path:
        """Write a text file whole or not at all."""
        path = self.path / name
        with writing(path):
            handle, aside = tempfile.mkstemp(dir=self.path, prefix=f".{name}.")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                Path(aside).chmod(0o644)
                Path(aside).replace(path)
            except BaseException:
                Path(aside).unlink(missing_ok=True)
                raise
        return path

    def write_json(self, document: Mapping[str, Any]) -> None:
        """Write run.json."""
        self.write_text("run.json", json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    @contextmanager
    def table(self, name: str, columns: Mapping[str, Any]) -> Iterator[Callable[[pl.DataFrame], None]]:
        """Write a table in pieces that need not stand in memory together; it appears when the block ends without error.

        Pieces may have different columns (factors of different parts): a column missing in one is null there. `columns` is the
        schema of the table when there is no piece at all.
        """
        with writing(self.path):
            folder = Path(tempfile.mkdtemp(dir=self.path, prefix=f".{name}."))
        pieces: list[Path] = []

        def add(frame: pl.DataFrame) -> None:
            piece = folder / f"{len(pieces):06d}.parquet"
            with writing(piece):
                frame.write_parquet(piece, compression="lz4", statistics=False)
            pieces.append(piece)

        try:
            yield add
            if not pieces:
                add(pl.DataFrame(schema=dict(columns)))
            with writing(self.table_path(name)):
                whole = folder / "whole.parquet"
                merge(pieces, whole)
                whole.replace(self.table_path(name))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def sizes(self) -> dict[str, dict[str, Any]]:
        """Rows and sha256 of each table."""
        found = {}
        for name in TABLES:
            path = self.table_path(name)
            if path.is_file():
                rows = pl.scan_parquet(path).select(pl.len()).collect().item()
                with path.open("rb") as file:
                    found[name] = {"rows": rows, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
        return found


def merge(pieces: Sequence[Path], whole: Path) -> None:
    """One Parquet file from several, columns united, in constant memory and with the same bytes each time."""
    lazy = pl.concat([pl.scan_parquet(piece) for piece in pieces], how="diagonal")
    lazy.sink_parquet(whole, compression="zstd", row_group_size=ROW_GROUP, maintain_order=True)
