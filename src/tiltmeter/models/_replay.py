"""Recorded responses as a model: `replay/FILE` or `replay/RUN`.

The file is CSV, JSON Lines or Parquet, with one prompt and answer per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from polars import DataFrame, Int32, Int64, String, col, lit

from tiltmeter._files.paths import is_file, sha256
from tiltmeter._files.reading import table_of, why
from tiltmeter._files.tables import ROW, UserTable
from tiltmeter.errors import InputError
from tiltmeter.models._base import Completion, Message, ModelError, NamedModel, Sampling, split_system
from tiltmeter.models._options import check_local, check_options
from tiltmeter.models._thinking import split_thinking

_SYNONYMS = {"sample": ("sample", "repetition"), "answer": ("answer", "text", "response", "completion")}
"""Names in a file of the columns that may have several names, in order of preference."""
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
    responses = table_of(path)
    digest = sha256(path)
    _check_one_model(path, responses)
    design = path.with_name("design.parquet")
    is_run = "prompt" not in responses.columns and "prompt_id" in responses.columns and is_file(design)
    try:
        if is_run:
            responses = _with_prompts(responses, table_of(design))
            digest = f"{digest}+{sha256(design)}"
        recorded = _recorded(path, responses)
    except pl.exceptions.PolarsError as error:
        column = f"a column, or one of {design.name}," if is_run else "a column"
        raise InputError(f"{path}: {column} has the wrong type ({why(error)})") from None
    if not is_run:
        recorded = recorded.with_columns(sample=pl.int_range(pl.len()).over("system", "prompt"))
    answers: dict[tuple[str | None, str], dict[int, list[Any]]] = {}
    # From the last row to the first, so that the first of several rows with the same sample is used.
    for system, prompt, sample, *completion in recorded.reverse().iter_rows():
        answers.setdefault((system, prompt), {})[sample] = completion
    return ReplayModel(f"{provider}/{model}", digest, answers, by_system="system" in responses.columns)


def _check_one_model(path: Path, responses: DataFrame) -> None:
    """Raise InputError if a table contains the answers of several models."""
    if "model" not in responses.columns:
        return
    models = responses["model"].drop_nulls().unique(maintain_order=True).to_list()
    if len(models) > 1:
        names = ", ".join(map(str, models[:5]))
        raise InputError(
            f"{path} contains answers of {len(models)} models ({names}); "
            "replay a file with the rows of one model"
        )


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
        self._answers = answers
        self._by_system = by_system

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Return the answer recorded for the user message (and the system message, if any).

        Raises
        ------
        ModelError
            There is none.
        """
        system, turns = split_system(messages)
        if len(turns) != 1:
            raise self._not_recorded(f"single prompts, not conversations of {len(turns)} turns")
        prompt = turns[0].content
        key = (system or None if self._by_system else None, prompt)
        answers = self._answers.get(key, {})
        if sample not in answers:
            number = f"{len(answers)} answers, not sample {sample}," if answers else "no answer"
            beginning = prompt if len(prompt) <= 60 else prompt[:59] + "…"
            raise self._not_recorded(f"{number} to the prompt {beginning!r}")
        text, finish_reason, refusal, thinking, *tokens = answers[sample]
        if thinking is None and text is not None:
            text, thinking = split_thinking(text)
        return Completion(text, finish_reason, refusal, thinking, *tokens)

    def _not_recorded(self, content: str) -> ModelError:
        return ModelError("not_recorded", f"{self.name} contains {content}", scope="permanent")


def _with_prompts(responses: DataFrame, design: DataFrame) -> DataFrame:
    """Return the responses of a run with the prompts of its design and the sample numbers."""
    prompts = design.select("prompt_id", "prompt", "system", "first_sample")
    answers = responses.drop("system", "sample", strict=False)
    joined = answers.join(prompts, on="prompt_id", how="left", maintain_order="left")
    return joined.with_columns(sample=col.first_sample + col.repetition).drop("repetition", "first_sample")


def _recorded(path: Path, responses: DataFrame) -> DataFrame:
    """Return the answers with the columns `_COLUMNS` (null if the file lacks one), ordered by sample."""
    names: dict[str, str | None] = {}
    for column in _COLUMNS:
        accepted = _SYNONYMS.get(column, (column,))
        names[column] = next((name for name in accepted if name in responses.columns), None)
        if names[column] is None and column in ("prompt", "answer"):
            listed = " or ".join(map(repr, accepted))
            raise InputError(f"{path} has no column {listed}; its columns are {', '.join(responses.columns)}")
    table = UserTable.of(path, responses)
    table.demand(filter(None, names.values()))
    if "status" in responses.columns:
        table = table.only(col.status.cast(String) == "ok")
    table.refuse_empty(("prompt",))
    rows = table.rows.drop(ROW)
    if names["sample"]:
        rows = rows.unique(maintain_order=True)
    columns = [
        (col(name) if name else lit(None)).cast(_COLUMNS[column]).alias(column)
        for column, name in names.items()
    ]
    answers = rows.select(columns).with_columns(col.system.replace("", None))
    if answers.is_empty():
        raise InputError(f"{path} contains no recorded answer")
    return answers.sort("sample", maintain_order=True, nulls_last=True)
