"""Reading of GenderBench probe logs and Inspect logs (`.eval`, `.json`): prompts, answers and errors.

Neither package needs to be installed.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeGuard

import polars as pl
from polars import DataFrame, Int32, String

from tiltmeter.errors import InputError
from tiltmeter.files.paths import is_file
from tiltmeter.files.reading import UNREADABLE, json_of, why
from tiltmeter.importing.response_tables import REPETITIONS, ROWS, Source, is_json_list
from tiltmeter.schema import Schema

MARK = "tiltmeter"
"""Key in the metadata of a log that identifies Tiltmeter's tasks (see `tiltmeter.inspecting`)."""

_DAMAGED = (
    *UNREADABLE,
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, EOFError),
    *(
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        RuntimeError,
    ),  # RuntimeError: an encrypted archive
)
"""Exceptions raised by a file that is not a log, is damaged, or contains unexpected values."""
_WHERE = ["item", "prompt_index"]
_PROBE_ROWS = {"part": String, "item": Int32, "prompt_index": pl.Int16, "metadata": String} | ROWS
_ATTACHMENT = "attachment://"
_ZSTANDARD = 93
"""ZIP method of the compression in Inspect logs; Python supports it from 3.14 on, and before that through a
dependency of Inspect."""
_LARGEST = 2**28
"""Maximum uncompressed size of a file in a log, in bytes; a sample has some thousands."""
_LARGEST_LOG = 2**30
"""Maximum uncompressed size of all files in a log, in bytes."""
_OUTPUT = {
    **dict.fromkeys(("thinking", "finish_reason", "refusal"), String),
    "input_tokens": Int32,
    "output_tokens": Int32,
}
RESPONSE_ROWS: Schema = {**ROWS, **_OUTPUT, "status": String, "error": String}
"""Columns of the responses in a log."""


@contextmanager
def reading_log(path: Path, what: str) -> Iterator[None]:
    """Convert errors in reading a log to an InputError that names it."""
    try:
        yield
    except _DAMAGED as error:
        raise InputError(f"{path} is not a valid {what} ({type(error).__name__}: {why(error)})") from error


def is_probe_log(path: Source) -> TypeGuard[Path]:
    """Return whether a file is a probe log; False if it cannot be read (reading it as a table reports the error)."""
    if not isinstance(path, Path):
        return False
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().replace(b" ", b"").startswith(b'{"probe_state":')
    except (OSError, ValueError):
        return False


def read_probe_log(path: Path) -> DataFrame:
    """Return the last state of a probe log: one row per attempt by position of item and prompt, with the metadata as JSON."""
    with reading_log(path, "GenderBench probe log"):
        with path.open(encoding="utf-8") as file:
            last = [line for line in file if line.strip()][-1]
        state: dict[str, Any] = json_of(last)["probe_state"]
        part = re.sub(r"(?<!^)(?=[A-Z])", "_", str(state["class"]).removesuffix("Probe")).lower()
        rows = []
        for i, item in enumerate(state["probe_items"]):
            index = {prompt["uuid"]: k for k, prompt in enumerate(item["prompts"])}
            for attempt in item["attempts"]:
                place = index[attempt["prompt"]["uuid"]]
                prompt = item["prompts"][place]
                row = {
                    "part": part,
                    "item": i,
                    "prompt_index": place,
                    "answer": attempt["answer"],
                    "prompt": prompt["text"],
                }
                metadata = json.dumps((item["metadata"] or {}) | (prompt["metadata"] or {}))
                rows.append(
                    row | {"metadata": metadata, "repetition": REPETITIONS.index(attempt["repetition_id"])}
                )
        log = DataFrame(rows, schema=_PROBE_ROWS)
    if log.is_empty():
        raise InputError(f"{path} is a probe log without any answer")
    return log


def match_probe_log(path: Source, log: DataFrame, design: DataFrame) -> DataFrame:
    """Return the log with `prompt_id` in place of positions.

    Raise InputError if its items differ from those of the design.
    """
    part = log["part"][0]
    mine = design.filter(part=part).drop("prompt", "system", "part")
    if mine.is_empty():
        raise InputError(
            f"{path} is a log of the probe {part!r}, which this study does not run;"
            f" use --study genderbench/{part}"
        )
    found, wanted = (frame.select(_WHERE).unique().height for frame in (log, mine))
    if found != wanted:
        raise InputError(
            f"{path} has {found:,} prompts where {part} has {wanted:,}; add --limit full (only logs of the"
            " whole suite can be read: seed 123, the default sample_k and num_reorderings)"
        )
    placed = log.drop("prompt_id").join(mine, on=_WHERE, maintain_order="left")
    for row in placed.iter_rows(named=True):
        for name, value in json.loads(row["metadata"]).items():
            if name in mine.columns and _in_our_spelling(value) != _in_our_spelling(row[name]):
                raise InputError(
                    f"{path}: item {row['item']}, prompt {row['prompt_index']}: the log has {name}={value!r}"
                    f" where the study has {row[name]!r}; it was created with other data or another seed"
                )
    return placed.select(list(ROWS))


def _in_our_spelling(value: Any) -> Any:
    """Convert enumerations of the log ("HiringAnQualifications.LOW") to the spelling of the design ("low")."""
    if isinstance(value, str):
        return (
            value.rpartition(".")[2].lower()
            if value.startswith(("HiringAn", "Discrimination"))
            else value.lower()
        )
    return [_in_our_spelling(one) for one in value] if isinstance(value, list) else value


def is_inspect_log(path: Source) -> TypeGuard[Path]:
    """Return whether a file is an Inspect log, according to its suffix; a JSON list is a table."""
    return isinstance(path, Path) and (
        path.suffix.lower() == ".eval" or (path.suffix.lower() == ".json" and not is_json_list(path))
    )


def read_inspect_log(path: Path) -> DataFrame:
    """Return the samples of an Inspect log, one row per sample and epoch: columns ROWS, and others of RESPONSES.

    Samples of Tiltmeter's tasks are identified by their id (`prompt_id`, with the epoch as `repetition`), and
    others by the last user message (`prompt`).

    Raises
    ------
    InputError
        The file is not an Inspect log, is damaged, has an unsupported compression, or contains no samples.
    """
    if not is_file(path):
        raise InputError(f"there is no file {path}")
    with reading_log(path, "Inspect log"):
        pieces = _head_and_samples(path)
        about = next(pieces)
        ours = MARK in (about.get("metadata") or {})
        rows = [_row(sample, ours=ours) | {"model": about.get("model")} for sample in pieces]
        log = DataFrame(rows, schema=RESPONSE_ROWS)
    if log.is_empty():
        raise InputError(
            f"{path} is an Inspect log without samples (was it written with"
            " --no-log-samples?); there is nothing to read"
        )
    return log


def _head_and_samples(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the header of a log, then its samples one by one."""
    if path.suffix.lower() == ".json":
        log = json_of(path.read_text(encoding="utf-8"))
        if not isinstance(log, dict) or "eval" not in log:
            raise InputError(f"{path} is not a valid Inspect log: it has no entry `eval`")
        yield log["eval"]
        yield from log.get("samples") or []
        return
    with zipfile.ZipFile(path) as archive:
        if sys.version_info < (3, 14) and any(
            member.compress_type == _ZSTANDARD for member in archive.infolist()
        ):
            try:
                import_module("zipfile_zstd")  # adds this compression to zipfile
            except ImportError:
                install = 'pip install "tiltmeter[inspect]"'
                other = "convert it to JSON (inspect log convert --to json)"
                raise InputError(f"{path} is compressed with Zstandard; {install}, or {other}") from None
        if sum(member.file_size for member in archive.infolist()) > _LARGEST_LOG:
            raise InputError(
                f"{path} unpacks to more than {_LARGEST_LOG >> 20} MiB; write a log with"
                " fewer samples, or several logs"
            )
        names = archive.NameToInfo  # if a sample was written twice, the last version is used
        yield _unpacked(archive, "header.json" if "header.json" in names else "_journal/start.json")["eval"]
        for name in names:
            if name.startswith("samples/") and name.endswith(".json"):
                yield _unpacked(archive, name)


def _unpacked(archive: zipfile.ZipFile, name: str) -> Any:
    """Return a JSON file of the archive.

    `zipfile` stops at the declared size, so checking that size limits memory.
    """
    if archive.getinfo(name).file_size > _LARGEST:
        raise ValueError(f"its file {name} would take {archive.getinfo(name).file_size:,} bytes")
    return json_of(archive.read(name))


def _row(sample: Mapping[str, Any], *, ours: bool) -> dict[str, Any]:
    asked = sample["input"]
    if not isinstance(asked, str):
        asked = next(
            (_texts(one["content"], "text") for one in reversed(asked) if one["role"] == "user"), None
        )
    row = output_of(sample.get("output") or {}) | {"status": "ok", "prompt": asked}
    attached = sample.get("attachments") or {}  # long texts, by the names that replace them
    for name, value in row.items():
        if isinstance(value, str) and value.startswith(_ATTACHMENT):
            row[name] = attached[value.removeprefix(_ATTACHMENT)]
    if ours:
        row |= {"prompt_id": str(sample["id"]), "repetition": REPETITIONS.index(int(sample["epoch"]) - 1)}
    if error := sample.get("error"):
        row |= {"status": "failed", "answer": None, "error": f"inspect: {why(ValueError(error['message']))}"}
    return row


def output_of(output: Mapping[str, Any]) -> dict[str, Any]:
    """Convert Inspect's `ModelOutput` (as JSON) to columns of RESPONSES: answer, thinking, finish_reason, refusal, tokens.

    The stop reason "content_filter" is a refusal, as for any endpoint.
    """
    choices = output.get("choices") or [{}]
    message, stop = choices[0].get("message") or {}, choices[0].get("stop_reason")
    usage = output.get("usage") or {}
    parts = message.get("content") or ""
    return {
        "answer": _texts(parts, "text") or output.get("completion") or None,
        "thinking": None if isinstance(parts, str) else _texts(parts, "reasoning") or None,
        "finish_reason": stop,
        "refusal": (output.get("error") or stop) if stop == "content_filter" else None,
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
    }


def _texts(content: str | list[dict[str, Any]], kind: str) -> str:
    """Return the text of a message, whose content is a string or a list of pieces."""
    if isinstance(content, str):
        return content
    return "\n".join(piece.get(kind) or "" for piece in content if piece.get("type") == kind)
