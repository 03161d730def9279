"""Which prompt and repetition of a design each row of somebody's responses belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tiltmeter.errors import InputError
from tiltmeter.study import RESPONSES

__all__ = ["match"]

_ATTEMPT = ("model", "prompt_id", "repetition")
_LAST = 2**15 - 1
"""The greatest number that `repetition` of RESPONSES can hold."""


def match(tables: Sequence[tuple[Path, pl.DataFrame]], design: pl.DataFrame, model: str) -> tuple[pl.DataFrame, dict[Path, int]]:
    """The responses in the order of models (as they first appear), design and repetition, whatever the order of the rows.

    Rows without a repetition are numbered in turn over all files. Equal prompt texts (the data holds some twice) take their
    answers in turn.

    Parameters
    ----------
    tables
        Files and their rows (columns `ROWS`, and what else of RESPONSES a file tells; without a `status` all went well).
    model
        The model's name where a row has none.

    Returns
    -------
    tuple
        RESPONSES, and how many rows of a file fit no prompt, where there are any.

    Raises
    ------
    InputError
        No row of a file fits a prompt, two rows are the same attempt, or a repetition has a number that none can have.
    """
    numbered = [table.with_columns(file=pl.lit(i, pl.Int32)).with_row_index("row") for i, (_, table) in enumerate(tables)]
    whole = pl.concat(numbered, how="diagonal")
    whole = whole.with_columns(pl.col("model").fill_null(model))
    found = _numbered(_found(whole, design).sort("file", "row"))
    kept = dict(found.group_by("file").len().iter_rows())
    for i, (path, table) in enumerate(tables):
        if i not in kept:
            what = "prompt_id" if table["prompt_id"].is_not_null().any() else "prompt"
            compare = "compare with `tiltmeter plan STUDY --prompts FILE`"
            raise InputError(f"{path}: no {what} of the table is a prompt of this study; {compare}")
    paths = [path for path, _ in tables]
    _refuse_out_of_bounds(paths, found)
    _refuse_twice(paths, found)
    lost = {path: table.height - kept[i] for i, (path, table) in enumerate(tables) if table.height > kept[i]}
    return _as_responses(found, design), lost


def _found(whole: pl.DataFrame, design: pl.DataFrame) -> pl.DataFrame:
    """The rows that fit a prompt, by its id, else by its text; by text, rows of one attempt at equal texts take the prompts in turn."""
    by_id = whole.join(design.select("prompt_id"), on="prompt_id", how="semi")
    by_text = whole.filter(pl.col("prompt_id").is_null()).drop("prompt_id")
    turn, prompts = pl.int_range(pl.len()).cast(pl.Int64), design.select("prompt", "prompt_id", "repetitions")
    of_text = {"place": turn.over("prompt"), "places": pl.len().over("prompt").cast(pl.Int64)}
    free = prompts.with_columns(repetitions=pl.int_ranges(0, "repetitions", dtype=pl.Int16)).explode("repetitions")
    found = [by_id]
    for rows, by, places in (
        (by_text.filter(pl.col("repetition").is_not_null()), ("model", "prompt", "repetition"), prompts),
        (by_text.filter(pl.col("repetition").is_null()), ("model", "prompt"), free),
    ):
        numbered = places.with_columns(**of_text).drop("repetitions")
        many = numbered.select("prompt", "places").unique()
        asked = rows.join(many, on="prompt", how="inner", maintain_order="left").with_columns(place=turn.over(by) % pl.col("places"))
        found.append(asked.join(numbered.drop("places"), on=["prompt", "place"]).select(whole.columns))
    return pl.concat(found)


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows without a repetition in turn."""
    open_ = pl.col("repetition").is_null()
    return rows.with_columns(
        pl.when(open_).then(pl.int_range(pl.len()).over("model", "prompt_id", open_)).otherwise("repetition").alias("repetition")
    )


def _refuse_out_of_bounds(paths: Sequence[Path], rows: pl.DataFrame) -> None:
    strange = rows.filter(~pl.col("repetition").is_between(0, _LAST))
    if not strange.is_empty():
        prompt, repetition, file = strange.select("prompt_id", "repetition", "file").row(0)
        raise InputError(f"{paths[file]} has a repetition {repetition} of the prompt {prompt}; they are numbered from 0 to {_LAST:,}")


def _refuse_twice(paths: Sequence[Path], rows: pl.DataFrame) -> None:
    again = rows.filter(~pl.struct(_ATTEMPT).is_first_distinct())
    if again.is_empty():
        return
    model, prompt, repetition, file = again.select(*_ATTEMPT, "file").row(0)
    first = rows.filter((pl.col("model") == model) & (pl.col("prompt_id") == prompt) & (pl.col("repetition") == repetition))["file"][0]
    places = "twice" if first == file else f"as {paths[first]} does"
    raise InputError(
        f"{paths[file]} answers the prompt {prompt} for {model!r}, repetition {repetition}, {places}; remove one of the answers, or "
        "leave out the repetitions to have all answers counted"
    )


def _as_responses(rows: pl.DataFrame, design: pl.DataFrame) -> pl.DataFrame:
    models = rows.select(pl.col("model").unique(maintain_order=True)).with_row_index("_model")
    order = design.select("prompt_id").with_row_index("_prompt")
    rows = rows.join(models, on="model").join(order, on="prompt_id").sort("_model", "_prompt", "repetition")
    rows = rows.with_columns(status=pl.col("status").fill_null("ok") if "status" in rows.columns else pl.lit("ok"))
    missing = [pl.lit(None).alias(name) for name in RESPONSES if name not in rows.columns]
    return rows.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in RESPONSES.items())
