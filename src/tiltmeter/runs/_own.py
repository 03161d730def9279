"""Responses somebody else generated: tables with prompt and answer, and GenderBench's probe logs. No model is called."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK, InputError
from tiltmeter.registry import did_you_mean
from tiltmeter.runs import _steps as steps
from tiltmeter.runs._folder import RunFolder, runs_root
from tiltmeter.runs._load import Run
from tiltmeter.runs._resolve import Resolved
from tiltmeter.runs._run import RunResult, describe
from tiltmeter.study import RESPONSES

if TYPE_CHECKING:
    from tiltmeter.datasets import Library

__all__ = ["analyse_responses"]

_ALIASES = {
    "answer": ("answer", "response", "completion", "output", "text"),
    "prompt": ("prompt", "question", "input"),
    "repetition": ("repetition", "repetition_id", "sample", "epoch"),
}


def analyse_responses(
    paths: Sequence[Path], resolved: Resolved, *, library: Library, model: str, out: Path | None = None, command: str | None = None
) -> RunResult:
    """Measure and analyse responses from files.

    Parameters
    ----------
    paths
        CSV, JSONL or Parquet tables with a column `answer` and either `prompt_id` (as `tiltmeter plan --prompts` writes) or
        `prompt` (the very text asked); optionally `model` and `repetition`. Or GenderBench probe logs (`*.jsonl` whose lines
        hold `probe_state`).
    model
        The model's name where the table has no column `model`.

    Raises
    ------
    InputError
        A file cannot be read, lacks a column, or fits no prompt of the study; the message names it.
    """
    folder = RunFolder(out or runs_root() / f"{resolved.study.name.replace('/', '-')}--{'+'.join(path.stem for path in paths)}"[:120])
    tables = [_read(path) for path in paths]  # before anything is written
    with folder.filling(resolved.as_document() | {"responses": [str(path) for path in paths]}):
        became = steps.make_design(resolved, library, folder)
        design = folder.scan("design").collect()
        problems = [f"{name} not run: {one['reason']}" for name, one in became.items() if one["status"] != "run"]
        rows = []
        for path, table in zip(paths, tables, strict=True):
            matched = _match_log(path, table, design) if "item" in table.columns else _match(path, table, design)
            if lost := table.height - matched.height:
                problems.append(f"{path}: {lost:,} of {table.height:,} rows fit no prompt of {resolved.study.name} and were left out")
            rows.append(matched)
        answers = _as_responses(pl.concat(rows, how="diagonal"), model)
        with folder.table("responses", RESPONSES) as add:
            add(answers)
        seen = set(design.join(answers, on="prompt_id", how="semi")["part"])
        parts = [part for part in resolved.study.parts if part.name in seen]
        steps.measure(folder, resolved, parts)
        steps.analyse(folder, resolved, parts)
        for name, one in became.items():
            if one["status"] == "run" and name not in seen:
                one.update(status="not run", reason="the files hold no response to its prompts")
        models = [{"name": name} for name in answers["model"].unique(maintain_order=True)]
        about = {"models": models, "parts": became, "complete": not problems, "problems": problems, "seconds": {}}
        folder.write_json(describe(resolved, library, folder, command) | about)
    return RunResult(Run(folder), problems, EXIT_INCOMPLETE if problems else EXIT_OK)


def _read(path: Path) -> pl.DataFrame:
    """A table with the canonical column names; logs get `part`, `item`, `prompt_index`."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        match path.suffix.lower():
            case ".csv":
                table = pl.read_csv(path, infer_schema=False)
            case ".parquet":
                table = pl.read_parquet(path)
            case ".jsonl" | ".ndjson":
                if _is_log(path):
                    return _read_log(path)
                table = pl.read_ndjson(path, infer_schema_length=None)
            case other:
                raise InputError(f"{path}: unknown kind of file {other!r}; give .csv, .jsonl or .parquet")
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())[:300]}") from error
    return _canonical(path, table)


def _canonical(path: Path, table: pl.DataFrame) -> pl.DataFrame:
    for name, aliases in _ALIASES.items():
        if name not in table.columns and (found := next((alias for alias in aliases if alias in table.columns), None)):
            table = table.rename({found: name})
    if "answer" not in table.columns:
        close = did_you_mean("answer", table.columns)
        raise InputError(f"{path} has no column 'answer' ({close}); name the column that holds the model's text 'answer'")
    if "prompt_id" not in table.columns and "prompt" not in table.columns:
        raise InputError(f"{path} has neither a column 'prompt_id' nor 'prompt'; `tiltmeter plan STUDY --prompts FILE` writes both")
    kept = [name for name in ("prompt_id", "prompt", "answer", "model", "repetition") if name in table.columns]
    try:
        return table.select(pl.col(name).cast(pl.Int16 if name == "repetition" else pl.String) for name in kept)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: 'repetition' must be whole numbers and the other columns text ({str(error).splitlines()[0]})") from error


def _match(path: Path, table: pl.DataFrame, design: pl.DataFrame) -> pl.DataFrame:
    """Rows joined to their prompts. Equal prompt texts (the data holds some twice) take their answers in turn."""
    if "prompt_id" in table.columns:
        matched = table.join(design.select("prompt_id"), on="prompt_id", how="semi", maintain_order="left")
        if "repetition" not in matched.columns:
            matched = matched.with_columns(repetition=_turn(matched, "prompt_id"))
    else:
        slots = (
            design.select("prompt_id", "prompt", repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16))
            .explode("repetition")
            .with_columns(turn=pl.int_range(pl.len()).over("prompt"))
        )
        counted = table.with_columns(turn=_turn(table, "prompt").cast(pl.Int64)).drop("repetition", strict=False)
        matched = counted.join(slots, on=["prompt", "turn"], how="inner", maintain_order="left")
    if matched.is_empty():
        what = "prompt_id" if "prompt_id" in table.columns else "prompt"
        raise InputError(f"{path}: no {what} of the table is a prompt of this study; compare with `tiltmeter plan STUDY --prompts FILE`")
    return matched


def _turn(table: pl.DataFrame, column: str) -> pl.Expr:
    by = [column, "model"] if "model" in table.columns else [column]
    return pl.int_range(pl.len()).over(by).cast(pl.Int16)


def _as_responses(rows: pl.DataFrame, model: str) -> pl.DataFrame:
    known = pl.col("model").fill_null(model) if "model" in rows.columns else pl.lit(model)
    rows = rows.with_columns(model=known, status=pl.lit("ok"))
    missing = [pl.lit(None).alias(name) for name in RESPONSES if name not in rows.columns]
    return rows.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in RESPONSES.items())


def _is_log(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip().replace(b" ", b"").startswith(b'{"probe_state":')


def _read_log(path: Path) -> pl.DataFrame:
    """The last state of a probe log: one row per attempt by position of item and prompt, with the metadata as JSON."""
    try:
        with path.open(encoding="utf-8") as file:
            last = [line for line in file if line.strip()][-1]
        state: dict[str, Any] = json.loads(last)["probe_state"]
        name = _snake(str(state["class"]).removesuffix("Probe"))
        rows = []
        for i, item in enumerate(state["probe_items"]):
            index = {prompt["uuid"]: k for k, prompt in enumerate(item["prompts"])}
            for attempt in item["attempts"]:
                k = index[attempt["prompt"]["uuid"]]
                metadata = json.dumps([item["metadata"], item["prompts"][k]["metadata"]])
                rows.append((name, i, k, attempt["repetition_id"], attempt["answer"], metadata))
    except (ValueError, KeyError, TypeError, IndexError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a whole GenderBench probe log ({type(error).__name__}: {error})") from error
    schema = {"part": pl.String, "item": pl.Int32, "prompt_index": pl.Int16, "repetition": pl.Int16}
    return pl.DataFrame(rows, schema={**schema, "answer": pl.String, "metadata": pl.String}, orient="row")


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _match_log(path: Path, log: pl.DataFrame, design: pl.DataFrame) -> pl.DataFrame:
    """Attempts of a log at the prompts of the same position; the log must have the study's items."""
    part = log["part"][0]
    mine = design.filter(pl.col("part") == part)
    if mine.is_empty():
        raise InputError(f"{path} is a log of the probe {part!r}, which this study does not run; use --study genderbench/{part}")
    shape = [frame.select("item", "prompt_index").unique().height for frame in (log, mine)]
    if shape[0] != shape[1]:
        raise InputError(
            f"{path} has {shape[0]:,} prompts where {part} has {shape[1]:,}; only logs of the standard suite can be read "
            "(seed 123, the default sample_k and num_reorderings)"
        )
    _check_metadata(path, log, mine.drop("prompt", "system", "part"))
    return log.join(mine.select("item", "prompt_index", "prompt_id"), on=["item", "prompt_index"], how="inner", maintain_order="left")


def _check_metadata(path: Path, log: pl.DataFrame, factors: pl.DataFrame) -> None:
    """Compare what the log says of its prompts with the design's factors of the same name; raises InputError on a difference."""
    joined = log.join(factors, on=["item", "prompt_index"], maintain_order="left")
    for metadata, row in zip(joined["metadata"], joined.select(factors.columns).iter_rows(named=True), strict=True):
        said: dict[str, Any] = {}
        for part in json.loads(metadata):
            said |= part or {}
        for name, value in said.items():
            if name in row and _plain(value) != _plain(row[name]):
                raise InputError(
                    f"{path}: item {row['item']}, prompt {row['prompt_index']}: the log has {name}={value!r} where the study has "
                    f"{row[name]!r}; it was made from other data or another seed"
                )


def _plain(value: Any) -> Any:
    """Enumerations as the log writes them ("HiringAnQualifications.LOW") in our spelling ("low")."""
    if isinstance(value, str):
        return value.rpartition(".")[2].lower() if value.startswith(("HiringAn", "Discrimination")) else value.lower()
    return [_plain(one) for one in value] if isinstance(value, list) else value
