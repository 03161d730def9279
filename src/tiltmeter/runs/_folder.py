"""The run folder: open, portable tables and the resolved study.

Every file is written to a temporary name and then moved into place, so that no partial file appears.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import polars as pl
from polars import DataFrame, Expr, LazyFrame, col

from tiltmeter._files.paths import is_file, sha256
from tiltmeter._files.reading import UNREADABLE, json_of
from tiltmeter._files.writing import LOCK, only_writer, writable, writing
from tiltmeter.errors import InputError, check_known
from tiltmeter.reports import Report, write_page
from tiltmeter.runs._validation import REMEDY, check_columns, check_document, check_findings
from tiltmeter.schema import DESIGN, RESPONSES, beside

TABLES: Final = ("design", "responses", "measures", "findings")
"""Tables that every run has."""
STAGES = "stages"
"""Folder of the tables specific to a method."""
ERRORS = "errors.txt"
"""File with tracebacks of unexpected errors in single parts, if any."""
LABELS_FILE = "labels.csv"
"""File with the labels of a sample of attempts, if any."""
ACCEPTED = "accepted.json"
"""File with the parts that continue although their first responses show a fault, by model, if any."""
_TABLE_NAMES = "|".join(TABLES)
_DOCUMENTS = r"study\.yaml|run\.json|accepted\.json|errors\.txt"
_TEMPORARY = re.compile(rf"\.({_TABLE_NAMES}|{STAGES}|{_DOCUMENTS})\.\w{{8}}")
"""Names of temporary files and folders, which exist only while a run is written."""
_WRITTEN = re.compile(rf"{_TEMPORARY.pattern}|{_DOCUMENTS}|{STAGES}|({_TABLE_NAMES})\.parquet")
"""Names of all files and folders that a run writes."""
ROW_GROUP = 4_096
"""Number of rows of a row group of a Parquet file."""
SLICE_SIZE: Final = 32 << 20
"""Maximum size in bytes of a slice of a table that is written at once."""
ELSEWHERE = "choose another place with --out"
"""Remedy in messages about a folder that cannot be written."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert errors in reading a table of a run to an InputError that names it."""
    try:
        yield
    except UNREADABLE as error:
        message = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"{path} is damaged or not a table of a run ({message[:200]}); {REMEDY}") from error


class RunFolder:
    """Reads and writes `runs/NAME/`.

    Parameters
    ----------
    path
        The folder; it is created when something is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def place(self) -> str:
        """The location of the folder, as shown to the user: its path or its URL."""
        return str(self.path)

    def named(self, path: Path) -> str:
        """Return the location of a file in the folder, as shown to the user."""
        return str(path)

    def hand_over(self, path: Path) -> None:
        """Transfer a new file or folder to the location of the run folder, if that is remote.

        Raise InputError on failure.
        """

    def whole(self) -> Path:
        """Return the local folder with all tables of the run; raise InputError if one is not available."""
        return self.path

    def table_path(self, table: str) -> Path:
        """Return the path of a table."""
        return self.path / f"{table}.parquet"

    def scan(self, table: str) -> LazyFrame:
        """Return a table as a LazyFrame; raise InputError if it is missing or not valid."""
        path = self.table_path(table)
        if not is_file(path):
            raise InputError(f"{self.place} has no table {table}.parquet; run the study again to complete it")
        with reading(path):
            lazy = pl.scan_parquet(path, glob=False)
            check_columns(table, lazy.collect_schema(), self.named(path))
        return lazy

    def read(self, table: str) -> DataFrame:
        """Return a table as a DataFrame; raise InputError as `scan` does."""
        lazy = self.scan(table)
        with reading(self.table_path(table)):
            rows = lazy.collect()
        if table != "findings":
            return rows
        if fault := check_findings(rows):
            raise InputError(f"{self.named(self.table_path(table))} is damaged: {fault}; {REMEDY}")
        return rows.fill_nan(None)

    def beside(self, attempts: DataFrame, table: str, *columns: str | Expr) -> DataFrame:
        """Add columns of a table of prompts or attempts to some attempts; raise InputError as `scan` does."""
        on = ["prompt_id"] if table == "design" else ["model", "prompt_id", "repetition"]
        prompt_ids = attempts["prompt_id"].unique().implode()
        with reading(self.path):
            # Filtered first, so that only these rows are read.
            rows = self.scan(table).filter(col.prompt_id.is_in(prompt_ids)).select(*on, *columns).collect()
        if rows.select(on).is_duplicated().any():
            place = self.named(self.table_path(table))
            raise InputError(f"{place} is damaged: it has two rows with the same {', '.join(on)}; {REMEDY}")
        return beside(attempts, rows, *on)

    def models(self, table: str) -> list[str]:
        """Return the names of the models in a table, in order of appearance."""
        return self.scan(table).select(col.model.unique(maintain_order=True)).collect()["model"].to_list()

    def read_json(self) -> dict[str, Any]:
        """Return the content of run.json; raise InputError if it is not valid."""
        file = self.path / "run.json"
        return document_of(file.read_bytes, self.named(file))

    def write_page(self, report: Report) -> str:
        """Write `report.html` to the folder and return its location, as shown to the user.

        Raise InputError on failure.
        """
        page = write_page(report, self.path / "report.html")
        self.hand_over(page)
        return self.named(page)

    @contextmanager
    def filling(self, document: Mapping[str, Any]) -> Iterator[None]:
        """Fill the folder with the run of this study; resume if it already contains the same one.

        Only one process at a time may fill a folder. If the block ends with an error and the folder did not
        contain a run before, its files are removed, so that no partial run remains; the answers are in the
        journal.

        Raises
        ------
        InputError
            The folder contains another study or other files, is being filled by another process, or cannot be
            written.
        """
        text = study_text(document)
        with ExitStack() as stack:
            with writable(self.path, ELSEWHERE):
                self._has_study(text)  # before anything is changed, and again under the lock
                stack.enter_context(only_writer(self.path, self.place))
                is_resumed = self._has_study(text)
            remove_named(self.path, _TEMPORARY)  # left by an interrupted process
            try:
                if not is_resumed:
                    self.write_text("study.yaml", text)
                yield
            except BaseException:
                if not is_resumed:
                    remove_named(self.path, _WRITTEN)
                raise

    def _has_study(self, text: str) -> bool:
        """Return whether the folder contains the run of this study.

        Raise InputError if it contains anything else.
        """
        path = self.path / "study.yaml"
        if path.is_file():
            if path.read_bytes() != text.encode():
                raise InputError(
                    f"{self.path} contains a run with other settings (see its study.yaml);"
                    " choose another folder with --out or remove it"
                )
            return True
        if self.path.exists() and not self._is_empty():
            raise InputError(f"{self.path} exists and is not a run folder; choose another one with --out")
        return False

    def _is_empty(self) -> bool:
        """Return whether the path is a folder with nothing but a lock and temporary files of a run."""
        if not self.path.is_dir():
            return False
        return all(entry.name == LOCK or _TEMPORARY.fullmatch(entry.name) for entry in self.path.iterdir())

    def write_text(self, name: str, text: str) -> None:
        """Write a text file atomically."""
        with writing(self.path / name, ELSEWHERE) as aside:
            aside.write_text(text, encoding="utf-8", newline="\n")

    def write_json(self, document: Mapping[str, Any]) -> None:
        """Write run.json."""
        self.write_text(
            "run.json", json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        )

    @contextmanager
    def table(self, name: str, columns: Mapping[str, Any]) -> Iterator[Callable[[DataFrame], None]]:
        """Write a table in pieces, which need not fit into memory together.

        The file appears when the block ends without error.

        Pieces may have different columns (factors of different parts): a column missing in a piece is null
        there. `columns` is the schema of the table if there are no pieces.
        """
        with writable(self.path, ELSEWHERE):
            temporary = tempfile.TemporaryDirectory(
                dir=self.path, prefix=f".{name}.", ignore_cleanup_errors=True
            )
        with temporary as folder:
            pieces: list[Path] = []

            def add(frame: DataFrame) -> None:
                # Writing takes as much additional memory as the data written at once.
                rows = max(1, frame.height * SLICE_SIZE // max(SLICE_SIZE, int(frame.estimated_size())))
                for part in frame.iter_slices(rows) if frame.height else (frame,):
                    add_piece(pieces, part, Path(folder), name)

            yield add
            if not pieces:
                add(DataFrame(schema=columns))
            with writable(self.table_path(name), ELSEWHERE):
                merged = Path(folder) / "merged.parquet"
                merge(pieces, merged)
                merged.replace(self.table_path(name))

    def sizes(self) -> dict[str, dict[str, Any]]:
        """Return the number of rows and the sha256 of each table."""
        paths = {name: self.table_path(name) for name in TABLES}
        paths |= {f"{STAGES}/{path.stem}": path for path in self._stage_paths()}
        return {
            name: {"rows": row_count(path), "sha256": sha256(path)}
            for name, path in paths.items()
            if path.is_file()
        }

    def any_table(self, name: str, others: Sequence[str] = ()) -> LazyFrame:
        """Return a table of the run or of the method.

        Parameters
        ----------
        name
            Name of the table.
        others
            Names of tables that are computed from those in the folder; an error suggests them too.

        Raises
        ------
        InputError
            There is no table with this name.
        """
        if name in TABLES:
            return self.scan(name)
        stages = self.stages()
        choices = dict.fromkeys((*TABLES, *others, *stages))
        check_known(name, choices, f"{self.place} has no table {name!r}")
        return stages[name]

    def stages(self) -> dict[str, LazyFrame]:
        """Return the tables specific to the method as LazyFrames, by name."""
        with reading(self.path):
            return {path.stem: pl.scan_parquet(path, glob=False) for path in self._stage_paths()}

    def _stage_paths(self) -> list[Path]:
        return sorted((self.path / STAGES).glob("*.parquet"))


def row_count(path: Path) -> int:
    """Return the number of rows of a Parquet file."""
    return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())


def check_kinds(folder: Path) -> None:
    """Raise InputError if a run folder contains a pipe, a socket or a device: reading it might never end."""
    for path in (*folder.glob("*"), *(folder / STAGES).glob("*")):
        try:
            mode = path.stat().st_mode
        except OSError:  # removed meanwhile, or a link to nothing: reading it reports that
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise InputError(
                f"{path} is not a file but a pipe, a socket or a device, so the run cannot be read; remove it"
            )


def remove_named(folder: Path, names: re.Pattern[str]) -> None:
    """Remove the files and folders with these names in a folder, if it exists."""
    for path in list(folder.glob("*")):
        if names.fullmatch(path.name) and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif names.fullmatch(path.name):
            path.unlink(missing_ok=True)


def study_text(document: Mapping[str, Any]) -> str:
    """Return the content of study.yaml, which is the same for equal studies."""
    import yaml

    return str(yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True))


def json_digest(content: object) -> str:
    """Return the SHA-256 hex digest of JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def document_of(read: Callable[[], bytes | None], place: str) -> dict[str, Any]:
    """Return the content of a run.json.

    Raise InputError, which names the place, if it cannot be read or is not valid.
    """
    try:
        loaded: Any = json_of(read() or b"")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{place} cannot be read as JSON ({error}); {REMEDY}") from error
    return check_document(loaded, place)


_COMMON = {*DESIGN, *RESPONSES, "outcome", "label", "stratum"}
"""Columns that the rows of every part have."""


def without_foreign(rows: DataFrame) -> DataFrame:
    """Return the rows of one part without the columns of other parts, which are null in all of them."""
    return rows.select(
        name
        for name in rows.columns
        if name in _COMMON or rows.is_empty() or rows[name].null_count() < rows.height
    )


def add_piece(pieces: list[Path], rows: DataFrame, folder: Path, table: str) -> None:
    """Write the next rows of a table to a new file in a folder, and add it to the pieces of the table."""
    path = folder / f"{table}.{len(pieces):06d}.parquet"
    with writable(path, ELSEWHERE):
        rows.write_parquet(path, compression="lz4", statistics=False)
    pieces.append(path)


def merge(pieces: Sequence[Path], path: Path) -> None:
    """Merge several Parquet files into one with the union of their columns.

    It takes constant memory, and the bytes of the new file are deterministic.
    """
    lazy = pl.concat([pl.scan_parquet(piece, glob=False) for piece in pieces], how="diagonal_relaxed")
    lazy.sink_parquet(path, compression="zstd", row_group_size=ROW_GROUP, maintain_order=True)
