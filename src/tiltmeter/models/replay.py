"""Answers from earlier responses: `replay/FILE`, a CSV, JSON Lines or Parquet file with a prompt and an answer a row, or `replay/RUN`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import polars as pl

from tiltmeter._damage import UNREADABLE, csv_of, unreadable
from tiltmeter._paths import is_file, sha256
from tiltmeter.errors import InputError
from tiltmeter.models._base import Completion, Message, ModelError, Sampling
from tiltmeter.models._options import no_options
from tiltmeter.models._thinking import split_thinking

__all__ = ["ReplayModel", "create"]

_COLUMNS = {
    "prompt": ("prompt",),
    "answer": ("answer", "text", "response", "completion"),
    "system": ("system",),
    "sample": ("sample", "repetition"),
    "thinking": ("thinking",),
    "finish_reason": ("finish_reason",),
    "refusal": ("refusal",),
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
}
"""Columns that are read, and the names each may have, best first."""

_KINDS = {"sample": pl.Int64, "input_tokens": pl.Int32, "output_tokens": pl.Int32}
"""What a column holds, where it is not text."""

_FORMATS = (".csv", ".jsonl", ".ndjson", ".parquet")

Recorded = tuple[str | None, str | None, str | None, str | None, int | None, int | None]
"""answer, thinking, finish_reason, refusal, input_tokens, output_tokens"""

Answers = Mapping[tuple[str | None, str], Mapping[int, Recorded]]
"""What was recorded, by system message and prompt, then by sample."""


def create(provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None) -> ReplayModel:
    """The responses in the file at the path `model`.

    Columns: `prompt` and `answer` (or `text`, `response`, `completion`); if present also `system` (null: no system message; without
    the column any system message matches), `sample` (or `repetition`), `thinking`, `finish_reason`, `refusal`, `input_tokens`,
    `output_tokens`. Of a table with a `status` column, only rows whose status is "ok" count.

    Of a run folder (or its `responses.parquet`) the prompts are read in the `design.parquet` that lies there, and each answer keeps
    its sample number.

    Several answers to one prompt of any other table are samples 0, 1, ... in the order of `sample`, then of the file. With that
    column, rows equal in every column of the file are one answer; without it, each row is an answer of its own.

    Raises
    ------
    InputError
        The file cannot be read, lacks a column, holds no answer or those of several models; or a base URL or an option was given.
    """
    no_options(provider, options)
    if base_url is not None:
        raise InputError(f"{provider}/{model} reads a file: remove --base-url")
    path = Path(model)
    if is_file(path / "responses.parquet"):
        path /= "responses.parquet"
    if not is_file(path):
        raise InputError(f"there is no file {model!r} to replay")
    raw = _one_model(path, _read(path))
    design = path.with_name("design.parquet")
    if "prompt" not in raw.columns and "prompt_id" in raw.columns and is_file(design):
        frame = _table(path, _with_prompts(path, raw, design))
        digest = f"{sha256(path)}+{sha256(design)}"
        return ReplayModel(f"{provider}/{model}", digest, _by_sample(frame), by_system=True)
    frame = _table(path, raw)
    return ReplayModel(f"{provider}/{model}", sha256(path), _in_turn(frame), by_system="system" in frame.columns)


class ReplayModel:
    """A model that repeats what was recorded and says nothing else; sampling has no effect."""

    def __init__(self, name: str, digest: str, answers: Answers, *, by_system: bool) -> None:
        self._name, self._digest, self._answers, self._by_system = name, digest, answers, by_system

    @property
    def name(self) -> str:
        """`replay/FILE`."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """The file's contents: moving or renaming it does not change what it says."""
        return f"replay@sha256:{self._digest}"

    @property
    def endpoint(self) -> str:
        """The model's own name."""
        return self._name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """The answer recorded for the user's message (after the system message, if any); permanent "not_recorded" when there is none."""
        turns = [message.content for message in messages if message.role != "system"]
        if len(turns) != 1:
            raise ModelError(
                "not_recorded", f"{self._name} holds single prompts, not conversations of {len(turns)} turns", scope="permanent"
            )
        system = "\n\n".join(message.content for message in messages if message.role == "system") or None
        recorded = self._answers.get((system if self._by_system else None, turns[0]), {})
        if sample not in recorded:
            said = f"{len(recorded)} answers, not sample {sample}" if recorded else "no answer"
            raise ModelError("not_recorded", f"{self._name} holds {said} to the prompt {_beginning(turns[0])}", scope="permanent")
        text, thinking, finish_reason, refusal, input_tokens, output_tokens = recorded[sample]
        if thinking is None and text is not None:
            text, thinking = split_thinking(text)
        return Completion(text, finish_reason, refusal, thinking, input_tokens, output_tokens)


def _beginning(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")


def _one_model(path: Path, raw: pl.DataFrame) -> pl.DataFrame:
    names = raw["model"].drop_nulls().unique(maintain_order=True).to_list() if "model" in raw.columns else []
    if len(names) > 1:
        listed = ", ".join(map(str, names[:5]))
        raise InputError(f"{path} holds answers of {len(names)} models ({listed}); replay the rows of one of them, in a file of their own")
    return raw


def _with_prompts(path: Path, raw: pl.DataFrame, design: Path) -> pl.DataFrame:
    """A run's responses with the prompts of its design and the numbers of its samples."""
    try:
        prompts = _read(design).select("prompt_id", "prompt", "system", "first_sample")
        known = raw.select(name for name in raw.columns if name not in ("system", "sample"))
        joined = known.join(prompts, on="prompt_id", how="left", maintain_order="left")
        return joined.with_columns(sample=pl.col("first_sample") + pl.col("repetition")).drop("repetition", "first_sample")
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} and {design.name} beside it are not the tables of one run ({_first_line(error)})") from None


def _table(path: Path, raw: pl.DataFrame) -> pl.DataFrame:
    """The file's rows with the columns under their first names, as texts (tokens and samples as numbers), in order of samples."""
    found = {column: name for column, aliases in _COLUMNS.items() for name in reversed(aliases) if name in raw.columns}
    for column in ("prompt", "answer"):
        if column not in found:
            names = " or ".join(repr(name) for name in _COLUMNS[column])
            raise InputError(f"{path} has no column {names}; its columns are {', '.join(raw.columns)}")
    if "sample" in found:
        raw = raw.unique(maintain_order=True)
    if "status" in raw.columns:
        if raw.schema["status"] != pl.String:
            raise InputError(f"{path}: column 'status' holds {raw.schema['status']}, but should hold text such as ok")
        raw = raw.filter(pl.col("status") == "ok")
    columns = []
    for column, name in found.items():
        kind = _KINDS.get(column, pl.String)
        if raw.schema[name].is_nested() or raw.schema[name] == pl.Binary:
            wanted = "text" if kind == pl.String else "numbers"
            raise InputError(f"{path}: column {name!r} holds {raw.schema[name]}, but should hold {wanted}")
        columns.append(pl.col(name).cast(kind).alias(column))
    try:
        frame = raw.select(columns)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"{path}: a value in one of the columns {', '.join(found.values())} is not of its kind ({_first_line(error)})"
        ) from None
    if "system" in frame.columns:
        frame = frame.with_columns(pl.col("system").replace("", None))
    if frame["prompt"].null_count():
        row = int(frame["prompt"].is_null().arg_true()[0]) + 1
        raise InputError(f"{path}: row {row} has no prompt in column {found['prompt']!r}")
    if frame.is_empty():
        raise InputError(f"{path} holds no recorded answer")
    return frame.sort("sample", maintain_order=True, nulls_last=True) if "sample" in found else frame


def _read(path: Path) -> pl.DataFrame:
    try:
        match path.suffix.lower():
            case ".csv":
                return csv_of(path)
            case ".jsonl" | ".ndjson":
                return pl.read_ndjson(path, infer_schema_length=None)
            case ".parquet":
                return pl.read_parquet(path, glob=False)
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read as {path.suffix}: {unreadable(path, error)}") from None
    raise InputError(f"{path} should end in {', '.join(_FORMATS)}")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _rows(frame: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
    """System message, prompt, sample, and what was recorded."""
    fields = ("answer", "thinking", "finish_reason", "refusal", "input_tokens", "output_tokens")
    columns = [pl.col(name) if name in frame.columns else pl.lit(None).alias(name) for name in ("system", "prompt", "sample", *fields)]
    return frame.select(columns).iter_rows()


def _in_turn(frame: pl.DataFrame) -> Answers:
    """The answers to each (system message, prompt), numbered in the frame's order."""
    answers: dict[tuple[str | None, str], dict[int, Any]] = {}
    for system, prompt, _, *recorded in _rows(frame):
        mine = answers.setdefault((system, prompt), {})
        mine[len(mine)] = tuple(recorded)
    return answers


def _by_sample(frame: pl.DataFrame) -> Answers:
    """The answers to each (system message, prompt) by the numbers they had; one that failed is not there."""
    answers: dict[tuple[str | None, str], dict[int, Any]] = {}
    for system, prompt, sample, *recorded in _rows(frame):
        answers.setdefault((system, prompt), {}).setdefault(sample, tuple(recorded))
    return answers
