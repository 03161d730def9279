"""Released answers to BBQ: a row per question, and a column per model with the text of the chosen option."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import polars as pl
from polars import DataFrame, Int32, String, col, lit

from tiltmeter._files.reading import json_of
from tiltmeter._files.tables import ROW, UserTable
from tiltmeter.errors import InputError, check_known
from tiltmeter.importing._response_tables import ROWS, Source, read_rows
from tiltmeter.schema import conform

OPTIONS: Final = ("ans0", "ans1", "ans2")
PUBLISHED: Final = (
    *("example_id", "question_index", "question_polarity", "context_condition", "category", "context"),
    *("question", *OPTIONS, "label"),
)
"""Columns of the published file, besides those about its options."""
FURTHER: Final = ("answer_info", "additional_metadata")
"""Beginnings of the names of its other columns."""
NAME_OF_COLUMN: Final = "pred"
"""Part of the name of a column with predictions, where some columns have it."""
STUDY: Final = "bbq"
_READ: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".gz")


MOST_MISSING: Final = 2
"""Columns of the published file that may be missing in a file that is still recognised."""


def is_released(path: Source) -> bool:
    """Return whether a source has the columns of the published questions; False if it cannot be read.

    A file in which a few of them are missing counts, too, so that `read_released` can name them.
    """
    if isinstance(path, Path):
        may_be_table = path.is_file() and path.suffix.lower() in _READ
        if not may_be_table or not _may_be_released(path):
            return False
    try:
        return _resembles(read_rows(path).columns)
    except InputError:
        return False


def _may_be_released(path: Path) -> bool:
    """Return whether the first record of a text file names the columns; True for other files."""
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        return True
    try:
        with path.open("rb") as file:
            first = json_of(file.readline())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and _resembles(first)


def _resembles(columns: Iterable[str]) -> bool:
    """Return whether these are the columns of the published file, at most MOST_MISSING missing."""
    return len(set(PUBLISHED) - set(columns)) <= MOST_MISSING


def study_of_released(paths: Sequence[Source], chosen: Sequence[str] | None) -> tuple[str, list[str] | None]:
    """Return the study of the categories that the files answer, and its parts (see `study_of_file`)."""
    categories: dict[str, None] = {}
    for path in paths:
        categories |= dict.fromkeys(_with_parts(path)["part"].unique(maintain_order=True))
    if len(categories) == 1 and chosen is None:
        return f"{STUDY}/{next(iter(categories))}", None
    return STUDY, list(categories if chosen is None else chosen)


def read_released(path: Source, columns: str | None = None) -> DataFrame:
    """Return the answers of a file, one row per question and model.

    Parameters
    ----------
    columns
        Names of the columns with predictions, separated by commas; None: all that may be predictions.

    Returns
    -------
    DataFrame
        ROWS (without prompts and ids), ROW, and `part`, `example_id`, `context` and `question`. The model is
        the name of the column.

    Raises
    ------
    InputError
        A category or number of a question is unknown, a named column is missing, no column holds
        predictions, or a column holds no option of its questions.
    """
    rows = _with_parts(path)
    names = _prediction_columns(path, rows, columns)
    table = UserTable.of(path, rows)
    numbers = col.example_id.cast(String).cast(Int32, strict=False)
    table.refuse(numbers.is_null() | (numbers < 0), "example_id", "is not the number of a question")
    table.refuse_repeats(("category", "example_id"))
    options = [_compared(col(option)) for option in OPTIONS]
    for name in names:
        chosen = _compared(col(name))
        is_option = pl.any_horizontal(chosen == option for option in options)
        with_answer = table.rows.filter(col(name).is_not_null())
        if with_answer.is_empty():
            raise InputError(
                f"{path}: column {name!r} has no predictions; name the columns of predictions with "
                "-P column=NAME"
            )
        if not with_answer.select(is_option.mean() > 0.5).item():
            number = int(with_answer.filter(~is_option)[ROW].to_list()[0])
            raise InputError(
                f"{path}, row {number}, column {name!r}: most values are none of the options of their"
                " question; name the columns of predictions with -P column=NAME"
            )
    predictions = table.rows.select(
        ROW,
        "part",
        "context",
        "question",
        *OPTIONS,
        *(col(name).cast(String) for name in names),
        example_id=numbers,
    )
    index = [ROW, "part", "example_id", "context", "question", *OPTIONS]
    long = predictions.unpivot(names, index=index, variable_name="model", value_name="answer")
    answered = long.filter(col.answer.is_not_null())
    return conform(answered, {**ROWS, **{name: predictions.schema[name] for name in index}})


def _compared(text: pl.Expr) -> pl.Expr:
    """Return a text in the form in which answers and options are compared."""
    return text.cast(String).str.strip_chars().str.to_lowercase()


def _with_parts(path: Source) -> DataFrame:
    """Return the rows of a file with the part of each category."""
    from tiltmeter.probes._bbq._categories import categories

    parts = {category.file: name for name, category in categories().items()}
    rows = read_rows(path)
    if rows.is_empty():
        raise InputError(f"{path} has no rows; it needs one for each question")
    missing = [name for name in PUBLISHED if name not in rows.columns]
    if missing:
        raise InputError(
            f"{path} looks like answers to BBQ, but lacks the column {missing[0]!r} of the published file; "
            "add it as it was published"
        )
    known = ", ".join(parts)
    is_unknown = ~col.category.is_in(list(parts)).fill_null(False)
    UserTable.of(path, rows).refuse(is_unknown, "category", f"is no category of BBQ ({known})")
    return rows.with_columns(part=col.category.replace_strict(parts, return_dtype=String))


def _prediction_columns(path: Source, rows: DataFrame, columns: str | None) -> list[str]:
    """Return the columns with predictions: those that are named, or all further columns of texts."""
    further = [
        name
        for name in rows.columns
        if name not in (*PUBLISHED, "part", ROW)
        and not name.startswith(FURTHER)
        and rows.schema[name] == String
    ]
    if columns is not None:
        named = [name.strip() for name in columns.split(",")]
        for name in named:
            check_known(name, further, f"-P column={name}: {path} has no such column of predictions")
        return list(dict.fromkeys(named))
    names = [name for name in further if NAME_OF_COLUMN in name] or further
    if not names:
        raise InputError(
            f"{path} holds the questions of BBQ, but no column of predictions; add one with the texts of the"
            " chosen options"
        )
    return names


def match_released(path: Source, rows: DataFrame, design: DataFrame) -> DataFrame:
    """Return the answers with the prompts of the design that ask the same question.

    The prompt is the question of the file, because that of the model is not in it.

    Raises
    ------
    InputError
        A question differs from that of the design.
    """
    prompts = design.select("part", "example_id", "prompt_id", ours="prompt")
    placed = rows.join(
        prompts, on=["part", "example_id"], how="left", maintain_order="left", suffix="_of_design"
    )
    placed = placed.with_columns(prompt_id=col.prompt_id_of_design)
    table = UserTable.of(path, placed)
    known = placed["part"].is_in(design["part"].unique().implode())
    numbers = dict(design.group_by("part").agg(col.example_id.max()).iter_rows())
    table.refuse(
        known & col.prompt_id.is_null(),
        "example_id",
        f"is not the number of a question of this study (the last is {max(numbers.values(), default=0)})",
    )
    for name in ("context", "question"):
        differs = col.prompt_id.is_not_null() & ~col.ours.str.contains(col(name), literal=True)
        table.refuse(
            differs.fill_null(True) & col.prompt_id.is_not_null(), name, "is not that of this example"
        )
    options = pl.concat_str(
        "context",
        lit(" "),
        "question",
        *(
            part
            for letter, option in zip("abc", OPTIONS, strict=True)
            for part in (lit(f"\n({letter}) "), col(option))
        ),
    )
    return conform(placed.with_columns(prompt=options), {**ROWS, ROW: placed.schema[ROW]})
