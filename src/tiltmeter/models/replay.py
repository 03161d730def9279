"""Recorded responses as a model: `replay/FILE` (CSV, JSON Lines or Parquet with one prompt and answer per row) or `replay/RUN`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from polars import DataFrame, Int32, Int64, String, col, lit

from tiltmeter.errors import InputError
from tiltmeter.files.paths import is_file, sha256
from tiltmeter.files.reading import table_of, why
from tiltmeter.files.tables import ROW, UserTable
from tiltmeter.models.base import Completion, Message, ModelError, NamedModel, Sampling, split_system
from tiltmeter.models.options import check_local, check_options
from tiltmeter.models.thinking import split_thinking

_NAMES = {"sample": ("sample", "repetition"), "answer": ("answer", "text", "response", "completion")}
"""Accepted names of columns with several names, in order of preference."""
_COLUMNS: Mapping[str, type[pl.DataType]] = {
    "system": String,
    "prompt": String,
    "sample": Int64,
    "answer": String,
    "finish_reason": String,
    "refusal": String,
    "thinking": String,
    "input_tokens": Int32,
    "output_tokens": Int32,
}
"""Columns that are read, and their types. From `answer` on they are those of a `Completion`."""


def create(provider: str, model: str, *, base_url: str | None, options: Mapping[str, str]) -> ReplayModel:
    """Create a model that returns the responses in the file at the path `model`.

    Columns: `prompt` and `answer` (or `text`, `response`, `completion`); optionally `system` (null: no system
    message; without the column, any system message matches), `sample` (or `repetition`), `thinking`,
    `finish_reason`, `refusal`, `input_tokens`, `output_tokens`. In a table with a `status` column, only rows
    with status "ok" are used.

    For a run folder (or its `responses.parquet`), the prompts are read from its `design.parquet`, and each
    answer keeps its sample number.

    In any other table, several answers to one prompt are samples 0, 1, ... in the order of `sample`, then of
    the file. With the column `sample`, rows that are equal in every column count as one answer; without it,
    each row is a separate answer.

    Raises
    ------
    InputError
        The file cannot be read, lacks a column, or contains no answers or those of several models; or a base
        URL or an option was given.
    """
    check_options(provider, options)
    check_local(f"{provider}/{model}", base_url)
    path = Path(model)
    if is_file(path / "responses.parquet"):
        path /= "responses.parquet"
    if not is_file(path):
        raise InputError(f"there is no file {model!r} to replay")
    raw, design, digest = table_of(path), path.with_name("design.parquet"), sha256(path)
    models = raw["model"].drop_nulls().unique(maintain_order=True).to_list() if "model" in raw.columns else []
    if len(models) > 1:
        listed = ", ".join(map(str, models[:5]))
        raise InputError(
            f"{path} contains answers of {len(models)} models ({listed}); replay a file with the rows of one model"
        )
    of_run = "prompt" not in raw.columns and "prompt_id" in raw.columns and is_file(design)
    try:
        if of_run:
            raw, digest = _with_prompts(raw, table_of(design)), f"{digest}+{sha256(design)}"
        frame = _recorded(path, raw)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"{path}: a column{f', or one of {design.name},' if of_run else ''} has the wrong type ({why(error)})"
        ) from None
    if not of_run:
        frame = frame.with_columns(sample=pl.int_range(pl.len()).over("system", "prompt"))
    answers: dict[tuple[str | None, str], dict[int, list[Any]]] = {}
    for (
        system,
        prompt,
        sample,
        *completion,
    ) in frame.reverse().iter_rows():  # among equal samples, the first one is used
        answers.setdefault((system, prompt), {})[sample] = completion
    return ReplayModel(f"{provider}/{model}", digest, answers, by_system="system" in raw.columns)


class ReplayModel(NamedModel):
    """A model that returns only recorded answers; sampling has no effect.

    Its fingerprint is that of the content of the file: moving or renaming the file does not change it.

    Parameters
    ----------
    answers
        Fields of completions, by system message and prompt, then by sample.
    by_system
        Whether an answer is valid only for its system message.
    """

    recorded = True

    def __init__(
        self,
        name: str,
        digest: str,
        answers: Mapping[tuple[str | None, str], Mapping[int, Sequence[Any]]],
        *,
        by_system: bool,
    ) -> None:
        super().__init__(name, f"replay@sha256:{digest}")
        self._answers, self._by_system = answers, by_system

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Return the answer recorded for the user message (and the system message, if any).

        Raise ModelError if there is none.
        """
        system, turns = split_system(messages)
        contents = f"single prompts, not conversations of {len(turns)} turns"
        if len(turns) == 1:
            prompt = turns[0].content
            recorded = self._answers.get((system or None if self._by_system else None, prompt), {})
            if sample in recorded:
                text, finish_reason, refusal, thinking, *tokens = recorded[sample]
                if thinking is None and text is not None:
                    text, thinking = split_thinking(text)
                return Completion(text, finish_reason, refusal, thinking, *tokens)
            beginning = prompt if len(prompt) <= 60 else prompt[:59] + "…"
            contents = f"{f'{len(recorded)} answers, not sample {sample},' if recorded else 'no answer'} to the prompt {beginning!r}"
        raise ModelError("not_recorded", f"{self.name} contains {contents}", scope="permanent")


def _with_prompts(responses: DataFrame, design: DataFrame) -> DataFrame:
    """Return the responses of a run with the prompts of its design and the sample numbers."""
    prompts = design.select("prompt_id", "prompt", "system", "first_sample")
    joined = responses.drop("system", "sample", strict=False).join(
        prompts, on="prompt_id", how="left", maintain_order="left"
    )
    return joined.with_columns(sample=col.first_sample + col.repetition).drop("repetition", "first_sample")


def _recorded(path: Path, raw: DataFrame) -> DataFrame:
    """Return the answers with the columns `_COLUMNS` (null if the file lacks one), ordered by sample."""
    found = {
        column: next((name for name in _NAMES.get(column, (column,)) if name in raw.columns), None)
        for column in _COLUMNS
    }
    for column in ("prompt", "answer"):
        if found[column] is None:
            names = " or ".join(map(repr, _NAMES.get(column, (column,))))
            raise InputError(f"{path} has no column {names}; its columns are {', '.join(raw.columns)}")
    given = UserTable.of(path, raw)
    given.demand(filter(None, found.values()))
    if "status" in raw.columns:
        given = given.only(col.status.cast(String) == "ok")
    given.refuse_empty(("prompt",))
    raw = given.rows.drop(ROW)
    if found["sample"]:
        raw = raw.unique(maintain_order=True)
    columns = [
        (col(name) if name else lit(None)).cast(_COLUMNS[column]).alias(column)
        for column, name in found.items()
    ]
    frame = raw.select(columns).with_columns(col.system.replace("", None))
    if frame.is_empty():
        raise InputError(f"{path} contains no recorded answer")
    return frame.sort("sample", maintain_order=True, nulls_last=True)
