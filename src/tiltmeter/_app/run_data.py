"""Data access of the explorer.

Each function runs one lazy query, so that only the required rows and columns are decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from polars import DataFrame, Expr, Float64, LazyFrame, String, col, lit

from tiltmeter.benchmarks._display import WORDS
from tiltmeter.blocks import SEVERITY
from tiltmeter.errors import InputError
from tiltmeter.runs import Run, RunFolder
from tiltmeter.runs._evidence import resting_on
from tiltmeter.runs._folder import reading
from tiltmeter.runs._presenting import titles_of
from tiltmeter.schema import NAMED, beside, metric_name, shown_unit

ATTEMPT = ("model", "prompt_id", "repetition")
"""Columns that identify a response."""
WHOLE_MODEL = "(model as a whole)"
NO_MARK = "(no mark)"
_SEARCHED = (
    "name",
    "words",
    "title",
    *(name for name in NAMED if name != "calibrated"),
    "study",
    "model",
    "harm",
    "note",
)
_INDEX = {"model": String, "prompt_id": String, "repetition": pl.Int16, "outcome": String, "label": String}

Stamp = tuple[tuple[str, int, int], ...]
"""Name, modification time and size of each table; used as a cache key."""


class Attempt(NamedTuple):
    """Identifier of one response."""

    model: str
    prompt_id: str
    repetition: int


def file_stamp(path: Path) -> tuple[int, int] | None:
    """Return the modification time and size of a file, or None if it is inaccessible."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def stamp(path: Path) -> Stamp:
    """Return a value that changes whenever the tables of a run change.

    Files that are currently inaccessible are skipped.
    """
    stamps = []
    for file in sorted([*path.glob("*.parquet"), *path.glob("stages/*.parquet")]):
        time_and_size = file_stamp(file)
        if time_and_size is not None:
            stamps.append((str(file.relative_to(path)), *time_and_size))
    return tuple(stamps)


@lru_cache(maxsize=8)
def findings(path: Path, stamp: Stamp) -> DataFrame:
    """Return the findings of a run, key metrics first, by harm and mark, the worst first.

    It has the further columns `number` (row in the table), `name`, those of `in_words`, and `searched` (text
    for filters).

    Raises
    ------
    InputError
        The table is missing or damaged.
    """
    run = Run(RunFolder(path))
    numbered = run.findings.with_row_index("number").with_columns(name=metric_name())
    table = in_words(run, numbered).with_columns(
        col.mark.fill_null(NO_MARK),
        shown_unit(),
        harm_shown=col.harm.str.replace_all("_", " "),
        group_shown=col.group.fill_null(WHOLE_MODEL),
    )
    searched = pl.concat_str(_SEARCHED, separator="\n", ignore_nulls=True).str.to_lowercase()
    worst_first = col.mark.replace_strict({mark: -place for mark, place in SEVERITY.items()}, default=2)
    return table.with_columns(searched=searched).sort(
        ~col.key, "harm", worst_first, nulls_last=True, maintain_order=True
    )


def in_words(run: Run, table: DataFrame) -> DataFrame:
    """Add `title` and `words` (the part and the metric for readers) and `range_low`.

    `table` has findings of a run, or differences between them.
    """
    schema = {"part": String, **NAMED, "label": String, "range_low": Float64}
    has_grades = "grades" in run.folder.stages()
    grades = run.table("grades") if has_grades else DataFrame(schema=schema)
    with_grades = beside(table, grades.select(schema.keys()).unique(["part", *NAMED]), "part", *NAMED)
    name = metric_name().str.replace_all("_", " ")
    names = with_grades.with_columns(col.feature.replace(WORDS)).select(name).to_series()
    return with_grades.with_columns(words=col.label.fill_null(names), title=col.part.replace(titles_of(run)))


def narrowed(table: DataFrame, selected: Mapping[str, Sequence[str]], text: str) -> DataFrame:
    """Filter findings.

    Parameters
    ----------
    selected
        Values to include by facet; a facet without values does not filter.
    text
        Words that must all occur.
    """
    conditions = [col(facet).is_in(list(values)) for facet, values in selected.items() if values]
    conditions += [col.searched.str.contains(word, literal=True) for word in text.lower().split()]
    return table.filter(*conditions)


@lru_cache(maxsize=16)
def attempts(
    path: Path, stamp: Stamp, evidence: str | None, model: str, outcomes: tuple[str, ...], text: str
) -> DataFrame:
    """Return the attempts that a finding is based on, in the order of the design.

    Parameters
    ----------
    evidence
        SQL condition of the finding; None returns no attempts.
    outcomes
        Outcomes to include; empty includes all.
    text
        Text that the prompt or the answer must contain, ignoring case; empty includes all.

    Returns
    -------
    DataFrame
        The columns of ATTEMPT, with `outcome` and `label`.

    Raises
    ------
    InputError
        A table is missing or damaged, or the condition is not valid.
    """
    if evidence is None:
        return DataFrame(schema=_INDEX)
    folder = RunFolder(path)
    with reading(path):
        # Keep row numbers, because a condition on another table does not preserve the order.
        measures = folder.scan("measures").with_row_index("row")
        of_finding = resting_on(folder, evidence, measures)
        rows = of_finding.filter(col.model == model).select("row", *_INDEX)
        if outcomes:
            rows = rows.filter(col.outcome.is_in(list(outcomes)))
        if text:
            rows = _containing(rows, folder, model, text)
        return rows.sort("row").select(*_INDEX).collect()


def _containing(rows: LazyFrame, folder: RunFolder, model: str, text: str) -> LazyFrame:
    """Return the attempts of a model whose prompt or answer contains a text."""
    pattern = f"(?i){pl.escape_regex(text)}"  # several times faster than lower-casing every text

    def contains(column: str) -> Expr:
        return col(column).str.contains(pattern)

    responses = folder.scan("responses").filter(col.model == model, contains("answer"))
    answers = responses.select(*ATTEMPT, in_answer=lit(True))
    prompts = folder.scan("design").filter(contains("prompt")).select("prompt_id", in_prompt=lit(True))
    joined = rows.join(answers, on=ATTEMPT, how="left").join(prompts, on="prompt_id", how="left")
    return joined.filter(pl.coalesce("in_answer", "in_prompt", lit(False)))


def with_texts(path: Path, attempts: DataFrame) -> DataFrame:
    """Add `prompt` and `answer` to a few attempts, decoding only their texts.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    folder = RunFolder(path)
    is_prompt = col.prompt_id.is_in(attempts["prompt_id"].unique().to_list())
    is_model = col.model.is_in(attempts["model"].unique().to_list())
    with reading(path):
        prompts = folder.scan("design").filter(is_prompt).select("prompt_id", "prompt")
        answers = folder.scan("responses").filter(is_prompt, is_model).select(*ATTEMPT, "answer")
        return (
            attempts.lazy()
            .join(prompts, on="prompt_id", how="left", maintain_order="left")
            .join(answers, on=ATTEMPT, how="left", maintain_order="left")
            .collect()
        )


def most_influential(path: Path, stamp: Stamp, finding: Mapping[str, Any]) -> DataFrame:
    """Return the stored examples of the most influential answers.

    They have the columns of `attempts`, and `influence`.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    schema = {"model": String, "part": String, **NAMED}
    is_of_finding = [col(name).eq_missing(lit(finding[name], kind)) for name, kind in schema.items()]
    return _examples(path, stamp).filter(is_of_finding).select(*_INDEX, "influence")


@lru_cache(maxsize=4)
def _examples(path: Path, stamp: Stamp) -> DataFrame:
    """Return the stored examples of all findings; none if the run has no such table."""
    names = [name for name, _, _ in stamp]
    if "stages/examples.parquet" in names:
        return Run(RunFolder(path)).examples
    return DataFrame(schema={**_INDEX, "influence": Float64, "part": String, **NAMED})


def problems(path: Path) -> list[str]:
    """Return the problems of a run as sentences; raises InputError if its run.json is damaged."""
    return [str(problem) for problem in RunFolder(path).read_json()["problems"]]


def only_row(table: DataFrame, subject: str) -> dict[str, Any]:
    """Return the only row of a table; raises an InputError that names `subject` if the table is empty."""
    if table.is_empty():
        raise InputError(f"{subject} is no longer in this run; select it again")
    return table.row(0, named=True)
