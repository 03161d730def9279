"""The run folder: open, portable tables beside the resolved study. Everything is written aside first and moved into place whole."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from polars import DataFrame, LazyFrame, col

from tiltmeter.errors import InputError
from tiltmeter.outside_files import UNREADABLE, json_of
from tiltmeter.paths import is_file, sha256
from tiltmeter.reports import Report, write_page
from tiltmeter.runs.first_edition import grades, upgraded
from tiltmeter.runs.validation import REMEDY, check_columns, check_document, check_findings
from tiltmeter.safe_writing import LOCK, only_writer, writable, writing
from tiltmeter.study import DESIGN, RESPONSES

TABLES = ("design", "responses", "measures", "findings")
STAGES = "stages"
"""Folder of a method's own tables."""
ERRORS = "errors.txt"
"""Tracebacks of unexpected errors in single parts, where there were any."""
_ASIDE = re.compile(rf"\.({'|'.join(TABLES)}|{STAGES}|study\.yaml|run\.json|errors\.txt)\.\w{{8}}")
"""Names of what is in a folder only while it is being written."""
_OURS = re.compile(rf"{_ASIDE.pattern}|study\.yaml|run\.json|errors\.txt|{STAGES}|({'|'.join(TABLES)})\.parquet")
"""Names of all that a run writes."""
ROW_GROUP = 4_096
PIECE = 32 << 20
"""Bytes of a table that are written at once."""
ELSEWHERE = "choose another place with --out or make room there"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong in reading a run's table into one sentence naming it."""
    try:
        yield
    except UNREADABLE as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"{path} is damaged or not a run's table ({said[:200]}); run the study again to create it again") from error


class RunFolder:
    """Reads and writes `runs/NAME/`.

    Parameters
    ----------
    path
        The folder; it need not exist before something is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def place(self) -> str:
        """Where the user knows the folder to be: its path, or its URL."""
        return str(self.path)

    def named(self, path: Path) -> str:
        """Where the user knows a file of the folder to be."""
        return str(path)

    def hand_over(self, path: Path) -> None:
        """Put a file or folder that was just made in the folder where the folder belongs; raises InputError if that fails."""

    def whole(self) -> Path:
        """The folder on this machine with all tables of the run in it; raises InputError if one cannot be had."""
        return self.path

    def table_path(self, table: str) -> Path:
        """Where a table lives."""
        return self.path / f"{table}.parquet"

    def scan(self, table: str) -> LazyFrame:
        """A table, lazily; raises InputError if the run has none or it is no such table."""
        path = self.table_path(table)
        if not is_file(path):
            raise InputError(f"{self.place} has no table {table}.parquet; run the study again to complete it")
        with reading(path):
            lazy = upgraded(table, pl.scan_parquet(path, glob=False))
            check_columns(table, lazy.collect_schema(), self.named(path))
        return lazy

    def read(self, table: str) -> DataFrame:
        """A table, whole; raises InputError as `scan` does."""
        lazy = self.scan(table)
        with reading(self.table_path(table)):
            found = lazy.collect()
        if table == "findings" and (fault := check_findings(found)):
            raise InputError(f"{self.named(self.table_path(table))} is damaged: {fault}; {REMEDY}")
        return found

    def models(self, table: str) -> list[str]:
        """Models a table is about, in order."""
        return self.scan(table).select(col.model.unique(maintain_order=True)).collect()["model"].to_list()

    def read_json(self) -> dict[str, Any]:
        """The content of run.json; raises InputError if it is not what a run writes there."""
        file = self.path / "run.json"
        return document_of(file.read_bytes, self.named(file))

    def write_page(self, report: Report) -> str:
        """Write `report.html` and put it where the folder belongs; returns where the user knows it to be. Raises InputError."""
        page = write_page(report, self.path / "report.html")
        self.hand_over(page)
        return self.named(page)

    @contextmanager
    def filling(self, document: Mapping[str, Any]) -> Iterator[None]:
        """Fill the folder with the run of this study; go on in it if it already holds the very same one.

        Only one process at a time fills a folder. If the block ends with an error in a folder that held no run before, what it
        wrote is removed again, so that nothing half-written is left; the answers are in the journal.

        Raises
        ------
        InputError
            The folder holds another study, or something that is no run, or is being filled, or cannot be written.
        """
        text = study_text(document)
        with ExitStack() as stack:
            with writable(self.path, ELSEWHERE):
                self._holds(text)  # before anything is touched, and again when no other process can change it
                stack.enter_context(only_writer(self.path, self.place))
                known = self._holds(text)
            self._remove(_ASIDE)  # left by a process that was killed
            try:
                if not known:
                    self.write_text("study.yaml", text)
                yield
            except BaseException:
                if not known:
                    self._remove(_OURS)
                raise

    def _holds(self, text: str) -> bool:
        """Whether the run of this very study is already there; raises InputError if the folder holds anything else."""
        path = self.path / "study.yaml"
        if path.is_file():
            if path.read_bytes() != text.encode():
                raise InputError(
                    f"{self.path} holds a run with other settings (see its study.yaml); choose another folder with --out or remove it"
                )
            return True
        if self.path.exists() and (
            not self.path.is_dir() or any(not _ASIDE.fullmatch(one.name) for one in self.path.iterdir() if one.name != LOCK)
        ):
            raise InputError(f"{self.path} exists and is not a run folder; choose another one with --out")
        return False

    def _remove(self, names: re.Pattern[str]) -> None:
        for path in list(self.path.iterdir()):
            if names.fullmatch(path.name) and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif names.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def write_text(self, name: str, text: str) -> Path:
        """Write a text file whole or not at all."""
        path = self.path / name
        with writing(path, ELSEWHERE) as aside:
            aside.write_text(text, encoding="utf-8", newline="\n")
        return path

    def write_json(self, document: Mapping[str, Any]) -> None:
        """Write run.json."""
        self.write_text("run.json", json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    @contextmanager
    def table(self, name: str, columns: Mapping[str, Any]) -> Iterator[Callable[[DataFrame], None]]:
        """Write a table in pieces that need not stand in memory together; it appears when the block ends without error.

        Pieces may have different columns (factors of different parts): a column missing in one is null there. `columns` is the
        schema of the table when there is no piece at all.
        """
        with writable(self.path, ELSEWHERE):
            aside = tempfile.TemporaryDirectory(dir=self.path, prefix=f".{name}.", ignore_cleanup_errors=True)
        with aside as folder:
            pieces: list[Path] = []

            def add(frame: DataFrame) -> None:
                # Writing takes as much memory again as what is written at once.
                rows = max(1, frame.height * PIECE // max(PIECE, int(frame.estimated_size())))
                for part in frame.iter_slices(rows) if frame.height else (frame,):
                    pieces.append(Path(folder) / f"{len(pieces):06d}.parquet")
                    with writable(pieces[-1], ELSEWHERE):
                        part.write_parquet(pieces[-1], compression="lz4", statistics=False)

            yield add
            if not pieces:
                add(DataFrame(schema=dict(columns)))
            with writable(self.table_path(name), ELSEWHERE):
                whole = Path(folder) / "whole.parquet"
                merge(pieces, whole)
                whole.replace(self.table_path(name))

    def sizes(self) -> dict[str, dict[str, Any]]:
        """Rows and sha256 of each table."""
        paths = {name: self.table_path(name) for name in TABLES}
        paths |= {f"{STAGES}/{one.stem}": one for one in sorted((self.path / STAGES).glob("*.parquet"))}
        return {
            name: {"rows": pl.scan_parquet(path).select(pl.len()).collect().item(), "sha256": sha256(path)}
            for name, path in paths.items()
            if path.is_file()
        }

    def stages(self) -> dict[str, LazyFrame]:
        """The method's own tables, lazily, by name."""
        paths = sorted((self.path / STAGES).glob("*.parquet"))
        with reading(self.path):
            found = {path.stem: upgraded(path.stem, pl.scan_parquet(path, glob=False)) for path in paths}
            if "grades" not in found and is_file(self.table_path("findings")):
                graded = grades(pl.scan_parquet(self.table_path("findings"), glob=False))
                found |= {} if graded is None else {"grades": graded}
            return found


def study_text(document: Mapping[str, Any]) -> str:
    """The content of study.yaml, the same for the same study."""
    import yaml

    text: str = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
    return text


def document_of(read: Callable[[], bytes | None], place: str) -> dict[str, Any]:
    """The content of a run.json; raises InputError, naming the place, if it cannot be read or is not what a run writes there."""
    try:
        loaded: Any = json_of(read() or b"")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{place} cannot be read as JSON ({error}); run the study again to create it again") from error
    return check_document(loaded, place)


_COMMON = {*DESIGN, *RESPONSES, "outcome", "label", "stratum"}


def without_foreign(rows: DataFrame) -> DataFrame:
    """Rows of one part without columns that belong to other parts, of which they hold nothing."""
    return rows.select(name for name in rows.columns if name in _COMMON or rows.is_empty() or rows[name].null_count() < rows.height)


def merge(pieces: Sequence[Path], whole: Path) -> None:
    """One Parquet file from several, columns united, in constant memory and with the same bytes each time."""
    lazy = pl.concat([pl.scan_parquet(piece) for piece in pieces], how="diagonal_relaxed")
    lazy.sink_parquet(whole, compression="zstd", row_group_size=ROW_GROUP, maintain_order=True)
