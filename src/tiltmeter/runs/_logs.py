"""GenderBench's probe logs: answers by the position of item and prompt, with the texts that were asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter._damage import json_of
from tiltmeter.errors import InputError
from tiltmeter.runs._tables import first_line

__all__ = ["is_log", "match_log", "read_log"]

_SCHEMA = {
    "part": pl.String,
    "item": pl.Int32,
    "prompt_index": pl.Int16,
    "repetition": pl.Int64,
    "answer": pl.String,
    "prompt": pl.String,
    "metadata": pl.String,
}


def is_log(path: Path) -> bool:
    """Whether a file is a probe log; False if it cannot be read (whoever reads it as a table says why)."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().replace(b" ", b"").startswith(b'{"probe_state":')
    except (OSError, ValueError):
        return False


def read_log(path: Path) -> pl.DataFrame:
    """The last state of a probe log: one row per attempt by position of item and prompt, with the metadata as JSON."""
    try:
        with path.open(encoding="utf-8") as file:
            last = [line for line in file if line.strip()][-1]
        state: dict[str, Any] = json_of(last)["probe_state"]
        name = _snake(str(state["class"]).removesuffix("Probe"))
        rows = []
        for i, item in enumerate(state["probe_items"]):
            index = {prompt["uuid"]: k for k, prompt in enumerate(item["prompts"])}
            for attempt in item["attempts"]:
                k = index[attempt["prompt"]["uuid"]]
                prompt = item["prompts"][k]
                told = [item["metadata"], prompt["metadata"]]
                if not all(isinstance(one, dict | None) for one in told):
                    raise TypeError(f"the metadata of item {i} are no mapping")
                metadata = json.dumps(told)
                rows.append((name, i, k, attempt["repetition_id"], attempt["answer"], prompt["text"], metadata))
        log = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path} is not a whole GenderBench probe log ({type(error).__name__}: {first_line(error)})") from error
    if log.is_empty():
        raise InputError(f"{path} is a probe log without any answer")
    return log


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def match_log(path: Path, log: pl.DataFrame, design: pl.DataFrame) -> pl.DataFrame:
    """The log with `prompt_id`, in place of positions; the log must have the design's items, or InputError is raised."""
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
    where = ["item", "prompt_index"]
    return log.join(mine.select(*where, "prompt_id"), on=where, how="inner", maintain_order="left").drop(*where, "part", "metadata")


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
