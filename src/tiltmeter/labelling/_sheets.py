"""Annotated samples of the steps of a study: what a judge or program found, beside what people say.

A sample has one row for each list, decision or phrase, with the columns `read` (what was found) and `label`
(what people say). Further columns say what the row is about, and determine the kind of the sample:

* `story` and `character`: lists of phrases (or text with ";" between phrases), from the step `step`:
  "extraction" (default) or "decomposition".
* `concept`: a decision, yes or no.
* `phrase`: `read` is its concept, `label` its gold cluster.

Sheets with the column names of earlier versions, and the sheets released with BADF, are converted.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final

import polars as pl
from polars import Boolean, DataFrame, Expr, String, col, lit

from tiltmeter._files.tables import ROW, UserTable, read_user_table
from tiltmeter.errors import InputError
from tiltmeter.schema import beside

EXTRACTION: Final = "extraction"
DECOMPOSITION: Final = "decomposition"
ANSWERS: Final = {"yes": True, "true": True, "no": False, "false": False}
"""Accepted answers of decisions, in lower case."""

RECORDED: Final = {ROW: pl.UInt32, "story": String, "step": String, "metric": String, "typed": String}
"""Columns of the scores that are recorded in a sheet, as text."""

_EARLIER_LISTS: Final = {
    EXTRACTION: ("found", "truth"),
    DECOMPOSITION: ("decomposed", "decomposed_truth"),
}
"""Columns of the lists that were found and of the corrected lists in earlier versions, by step."""

_RELEASED_LISTS: Final = {EXTRACTION: ("1_summ", "1_ans"), DECOMPOSITION: ("2_summ_combine", "2_ans")}
"""The same columns in the sheet that was released with BADF."""

_RELEASED_SCORES: Final = {
    "recall_1": (EXTRACTION, "recall"),
    "precision_1": (EXTRACTION, "precision"),
    "accuracy_2": (DECOMPOSITION, "accuracy"),
}
"""Step and metric of the scores recorded in the released sheet."""

_RELEASED_TOTALS: Final = {
    "homogeneity": "homogeneity",
    "completeness": "completeness",
    "v-measure": "v_measure",
}
"""Metrics of the totals recorded below the stories of the released sheet."""


# -- lists of phrases ------------------------------------------------------------------------------


def read_lists(sheet: UserTable) -> DataFrame:
    """Return ROW, `story`, `character`, `step`, `read` and `label`, one row per step, story and character."""
    sheet.demand(("story", "character"))
    columns = set(sheet.rows.columns)
    if columns & {"read", "label"}:
        return _lists_with_steps(sheet)
    sheet.refuse_repeats(["story", "character"])
    steps = {step: pair for step, pair in _EARLIER_LISTS.items() if columns & set(pair)}
    if not steps:
        steps = {EXTRACTION: _EARLIER_LISTS[EXTRACTION]}
    for pair in steps.values():
        sheet.demand(pair, lists=True)
    lists = [_lists_of(sheet, lit(step), read, label) for step, (read, label) in steps.items()]
    return pl.concat(lists)


def _lists_with_steps(sheet: UserTable) -> DataFrame:
    """Return the lists of a sheet with the columns `read` and `label`."""
    sheet.demand(("read", "label"), lists=True)
    if "step" not in sheet.rows.columns:
        sheet = UserTable(sheet.place, sheet.rows.with_columns(step=lit(EXTRACTION)))
    sheet.demand(("step",))
    is_step = col.step.is_in([EXTRACTION, DECOMPOSITION])
    sheet.refuse(~is_step, "step", f"is neither {EXTRACTION} nor {DECOMPOSITION}")
    sheet.refuse_repeats(["story", "character", "step"])
    return _lists_of(sheet, col.step, "read", "label")


def _lists_of(sheet: UserTable, step: Expr, read: str, label: str) -> DataFrame:
    """Return the lists of two columns of a sheet, in the format of `read_lists`."""
    phrases = _phrases(sheet, read)
    corrected = _phrases(sheet, label)
    return sheet.rows.select(ROW, "story", "character", step=step, read=phrases, label=corrected)


def _phrases(sheet: UserTable, column: str) -> Expr:
    """Return the phrases of a column of lists, or of texts with ";" between phrases; see `_trimmed`."""
    kind = sheet.rows.schema[column]
    if kind == String:
        return _trimmed(col(column).str.split(";"))
    if isinstance(kind, pl.List) and kind.inner in (String, pl.Null):
        return _trimmed(col(column).cast(pl.List(String)).fill_null([]))
    raise InputError(f"{sheet.place}, column {column!r} contains neither text nor lists of text")


def _trimmed(phrases: Expr) -> Expr:
    """Return the distinct phrases of lists in lower case.

    White space around phrases is removed, and repeated white space is one space. Empty phrases are left out.
    """
    phrase = pl.element().str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()
    return phrases.list.eval(phrase.filter(phrase != "").unique())


def split_released(sheet: UserTable) -> tuple[UserTable, UserTable]:
    """Split a released sheet into its stories and the rows of totals below.

    The stories end at the first row without a prompt.
    """
    lists = [column for pair in _RELEASED_LISTS.values() for column in pair]
    sheet.demand(("prompt", *lists, *_RELEASED_SCORES))
    ended = (sheet.rows["prompt"].str.strip_chars() == "").cum_max()
    is_first = pl.int_range(pl.len()) == 0
    sheet.refuse(ended & is_first, "prompt", "is empty: the stories must come first")
    stories = sheet.rows.filter(~ended).with_columns(story=pl.format("row {}", ROW))
    return UserTable(sheet.place, stories), sheet.only(ended)


def read_released_lists(stories: UserTable) -> DataFrame:
    """Return the lists of a released sheet in the format of `read_lists`."""
    lists = []
    for step, (read, label) in _RELEASED_LISTS.items():
        for kind, column in (("read", read), ("label", label)):
            lines = _read_lines(stories, column)
            lists.append(lines.with_columns(step=lit(step), kind=lit(kind)))
    phrases = {kind: col.phrases.filter(col.kind == kind).first().fill_null([]) for kind in ("read", "label")}
    owner = (ROW, "story", "character", "step")
    return pl.concat(lists).group_by(owner, maintain_order=True).agg(**phrases)


def _read_lines(stories: UserTable, column: str) -> DataFrame:
    """Return one row per line "name: phrase; phrase": ROW, `story`, `character` and `phrases`."""
    lines = (
        stories.rows.select(ROW, "story", col(column).str.split("\n"))
        .explode(column)
        .with_columns(col(column).str.strip_chars())
        .filter(col(column) != "")
    )
    parts = col(column).str.splitn(":", 2).struct
    named = lines.with_columns(
        character=parts.field("field_0").str.strip_chars(),
        phrases=_trimmed(parts.field("field_1").str.split(";")),
    )
    table = UserTable(stories.place, named)
    table.refuse(col.phrases.is_null(), column, "has no character name before a colon")
    is_repeated = ~pl.struct(ROW, "character").is_first_distinct()
    table.refuse(is_repeated, column, "is a second list of the character")
    return named.drop(column)


def read_released_scores(stories: UserTable) -> DataFrame:
    """Return the recorded scores (columns RECORDED) of every story of a released sheet."""
    scores = []
    for column, (step, metric) in _RELEASED_SCORES.items():
        stories.numbers(column, low=0, high=1)  # raises InputError for any other value
        typed = col(column).str.strip_chars()
        scores.append(stories.rows.select(ROW, "story", step=lit(step), metric=lit(metric), typed=typed))
    return pl.concat(scores)


def read_released_totals(totals: UserTable) -> dict[str, float]:
    """Return the recorded clustering figures by metric.

    The numbers are in the row below a row of words such as "homogeneity".
    """
    values: dict[str, float] = {}
    texts = totals.rows.select(ROW, col(String).str.strip_chars())
    for words, below in pairwise(texts.iter_rows(named=True)):
        for column, word in words.items():
            if column == ROW or word.lower() not in _RELEASED_TOTALS or not below[column]:
                continue
            number = totals.only(col(ROW) == below[ROW]).numbers(column, low=0, high=1)
            values[_RELEASED_TOTALS[word.lower()]] = number.item()
    return values


# -- decisions -------------------------------------------------------------------------------------


def read_decisions(sheet: UserTable) -> DataFrame:
    """Return ROW, `concept`, `label`, `read` and `is_right`.

    `is_right` is the recorded correctness of a decision, here null.
    """
    columns = set(sheet.rows.columns)
    if columns & {"read", "label"}:
        return _decisions_of(sheet, concept="concept", label="label", read="read")
    return _decisions_of(sheet, concept="concept", label="truth", read="found")


def read_released_decisions(sheet: UserTable) -> DataFrame:
    """Return the decisions of a released sheet in the format of `read_decisions`.

    Their recorded correctness is added.

    The last row of the sheet contains only the sum of the column.
    """
    sheet.demand(("phrase", "gt", "filter_res"))
    rows = sheet.only(col.phrase.str.strip_chars() != "")
    if rows.rows.is_empty():
        raise InputError(f"{sheet.place} contains no decisions: column 'phrase' is empty in every row")
    decisions = _decisions_of(rows, concept="phrase", label="gt", read="filter_res")
    if "RES" not in rows.rows.columns:
        return decisions
    recorded = rows.numbers("RES", low=0, high=1, whole=True).cast(Boolean)
    return decisions.with_columns(is_right=recorded)


def _decisions_of(sheet: UserTable, *, concept: str, label: str, read: str) -> DataFrame:
    sheet.demand((concept, label, read))
    words = col(label, read).str.strip_chars().str.to_lowercase()
    answers = sheet.rows.select(words.replace_strict(ANSWERS, default=None, return_dtype=Boolean))
    for answer in answers:
        sheet.refuse(answer.is_null(), answer.name, "is neither yes nor no")
    return sheet.rows.select(
        ROW,
        concept=col(concept).str.strip_chars(),
        label=answers[label],
        read=answers[read],
        is_right=lit(None, Boolean),
    )


# -- clusters --------------------------------------------------------------------------------------


def read_clusters(sheet: UserTable, concepts: Path | None) -> DataFrame:
    """Return `phrase`, `label` (the gold cluster) and `read` (the concept, from `concepts` if it is given).

    Parameters
    ----------
    concepts
        The table `concepts` of a run.
    """
    has_new_names = "label" in sheet.rows.columns
    gold, concept = ("label", "read") if has_new_names else ("gold", "concept")
    sheet.demand(("phrase", gold))
    if concepts is not None:
        sheet = _with_concepts(sheet, concepts, concept)
    elif concept not in sheet.rows.columns:
        raise InputError(
            f"{sheet.place} has no column {concept!r}: add the concept of each phrase, "
            "or give the table of a run with --concepts FILE"
        )
    sheet.demand((concept,))
    sheet.refuse_repeats(["phrase"])
    sheet.refuse_empty(("phrase", gold, concept))
    return sheet.rows.select("phrase", label=gold, read=concept)


def _with_concepts(sheet: UserTable, concepts: Path, column: str) -> UserTable:
    """Return a sheet with the concept of each phrase in `column`, from the table `concepts` of a run."""
    table = read_user_table(concepts)
    table.demand(("phrase", "concept"))
    table.refuse_repeats(["phrase"])
    concept_of_phrase = table.rows.select("phrase", pl.col("concept").alias(column))
    rows = beside(sheet.rows.drop(column, strict=False), concept_of_phrase, "phrase")
    sheet = UserTable(sheet.place, rows)
    sheet.refuse(col(column).is_null(), "phrase", f"is not a phrase of {concepts}")
    return sheet
