"""What a user wants analysed: a run, a table in memory or files; and the columns of the user's own texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from polars import DataFrame

from tiltmeter._files.paths import is_file
from tiltmeter.errors import InputError
from tiltmeter.importing._dispatch import READ_SUFFIXES
from tiltmeter.importing._response_tables import Source, TableInMemory, TextColumns
from tiltmeter.runs._opened_run import Run, load
from tiltmeter.runs._places import runs_root


def run_of(data: Any, *, of_study: bool) -> Run | None:
    """Return the run that the data are, or name; None for tables and files.

    Parameters
    ----------
    data
        The argument of `tiltmeter.analyse`.
    of_study
        Whether a study is named as well. Without one, a name that is no file must be that of a run.

    Raises
    ------
    InputError
        Several runs are named, or a name is that of no file and no run.
    """
    if isinstance(data, Run):
        return data
    entries = list(data) if isinstance(data, Sequence) and not isinstance(data, str) else [data]
    if len(entries) != 1:
        names = [_name_of(entry) for entry in entries if _names_run(entry)]
        if names:
            raise InputError(f"{' and '.join(names)}: a run is analysed alone; name one run at a time")
        return None
    name = entries[0]
    if not isinstance(name, str | Path) or is_file(Path(name)):
        return None
    if of_study and not is_file(Path(name) / "run.json"):
        return None
    if _names_missing_table(name):
        raise InputError(f"there is no file {name}")
    return load(name)


def _names_missing_table(name: str | Path) -> bool:
    """Return whether a name ends as that of a table on this machine, and no run has it."""
    is_url = "://" in str(name)
    ends_as_table = Path(name).suffix.lower() in READ_SUFFIXES
    return ends_as_table and not is_url and not _names_run(name)


def _names_run(entry: Any) -> bool:
    """Return whether an entry of a list is a run, its local folder or its name in the local runs folder."""
    if not isinstance(entry, str | Path):
        return isinstance(entry, Run)
    return any(is_file(folder / "run.json") for folder in (Path(entry), runs_root() / entry))


def _name_of(entry: Any) -> str:
    return entry.place if isinstance(entry, Run) else str(entry)


def sources_of(data: Any) -> list[Source]:
    """Return the paths of files, or a table in memory.

    Raises
    ------
    InputError
        The data are neither a Polars or pandas table nor one or more files, or a file is given twice.
    """
    if isinstance(data, DataFrame):
        return [TableInMemory(data)]
    if type(data).__module__.partition(".")[0] == "pandas":
        import polars as pl

        return [TableInMemory(pl.from_pandas(data))]
    paths = [data] if isinstance(data, str | Path) else data
    is_list = isinstance(paths, Sequence) and len(paths) > 0
    if not is_list or not all(isinstance(path, str | Path) for path in paths):
        raise InputError(
            f"data= must be a Polars or pandas table, a file, or a list of files, not {type(data).__name__}"
        )
    sources: list[Source] = [Path(path) for path in paths]
    for source in sources:
        if sources.count(source) > 1:
            raise InputError(f"{source} is given twice; give it once")
    return sources


def has_columns(columns: TextColumns) -> bool:
    """Return whether a column of the user's own texts is named."""
    return any(astuple(columns))


def check_columns(columns: TextColumns, study: str) -> None:
    """Raise InputError if the column of the groups, or that of the texts, is missing.

    Parameters
    ----------
    study
        Name of the study or method, whose flags the message names; empty if the user named none.
    """
    is_benchmark = study.startswith("benchmark")
    if (has_columns(columns) or columns.text is not None) and not columns.identity:
        flag = "--group" if is_benchmark else "--identity"
        raise InputError(f"your own texts need {flag} COLUMN, the group that each text is about")
    needs_text = not columns.feature or columns.location or columns.name or columns.baseline
    if columns.identity and columns.text is None and needs_text:
        otherwise = "" if study else "; decisions need --outcome COLUMN"
        measured = ", or --feature COLUMN with precomputed values" if is_benchmark else ""
        raise InputError(f"your own texts need --text COLUMN, which contains them{measured}{otherwise}")
