"""Reading of GenderBench probe logs and Inspect logs (`.eval`, `.json`): prompts, answers and errors.

Neither package needs to be installed.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeGuard

import polars as pl
from polars import DataFrame, Int32, String

from tiltmeter._files.paths import is_file
from tiltmeter._files.reading import UNREADABLE, json_of, why
from tiltmeter.errors import InputError
from tiltmeter.importing._response_tables import REPETITIONS, ROWS, Source, is_json_list
from tiltmeter.schema import Schema

MARK: Final = "tiltmeter"
"""Key in the metadata of a log that identifies Tiltmeter's tasks (see `tiltmeter.inspecting`)."""

_DAMAGED: Final = (
    *UNREADABLE,
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, EOFError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError),
    RuntimeError,  # an encrypted archive
)
"""Exceptions raised by a file that is not a log, is damaged, or contains unexpected values."""
_POSITION: Final = ["item", "prompt_index"]
"""Columns of the position of a prompt in a probe."""
_PROBE_ROWS: Final[Schema] = {
    "part": String,
    "item": Int32,
    "prompt_index": pl.Int16,
    "metadata": String,
    **ROWS,
}
_ATTACHMENT: Final = "attachment://"
_ZSTANDARD: Final = 93
"""ZIP method of the compression in Inspect logs; Python supports it from 3.14 on, and before that through a
dependency of Inspect."""
_LARGEST_FILE: Final = 2**28
"""Maximum uncompressed size of a file in a log, in bytes; a sample has some thousands."""
_LARGEST_LOG: Final = 2**30
"""Maximum uncompressed size of all files in a log, in bytes."""
RESPONSE_ROWS: Final[Schema] = {
    **ROWS,
    "thinking": String,
    "finish_reason": String,
    "refusal": String,
    "input_tokens": Int32,
    "output_tokens": Int32,
    "status": String,
    "error": String,
}
"""Columns of the responses in a log."""


@contextmanager
def reading_log(path: Path, what: str) -> Iterator[None]:
    """Convert errors in reading a log to an InputError that names it."""
    try:
        yield
    except _DAMAGED as error:
        raise InputError(f"{path} is not a valid {what} ({type(error).__name__}: {why(error)})") from error


def is_probe_log(path: Source) -> TypeGuard[Path]:
    """Return whether a file is a probe log; False if it cannot be read.

    Reading it as a table then reports the error.
    """
    if not isinstance(path, Path):
        return False
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().replace(b" ", b"").startswith(b'{"probe_state":')
    except (OSError, ValueError):
        return False


def read_probe_log(path: Path) -> DataFrame:
    """Return the last state of a probe log, one row per attempt.

    Attempts have the positions of item and prompt, and their metadata as JSON.
    """
    with reading_log(path, "GenderBench probe log"):
        with path.open(encoding="utf-8") as file:
            lines = [line for line in file if line.strip()]
        state: dict[str, Any] = json_of(lines[-1])["probe_state"]
        class_name = str(state["class"]).removesuffix("Probe")
        part = re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()
        rows: list[dict[str, Any]] = []
        for number, item in enumerate(state["probe_items"]):
            rows += _attempts_of(item, {"part": part, "item": number})
        log = DataFrame(rows, schema=_PROBE_ROWS)
    if log.is_empty():
        raise InputError(f"{path} is a probe log without any answer")
    return log


def _attempts_of(item: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one row for each attempt of an item, with the columns `place`."""
    positions = {prompt["uuid"]: position for position, prompt in enumerate(item["prompts"])}
    for attempt in item["attempts"]:
        position = positions[attempt["prompt"]["uuid"]]
        prompt = item["prompts"][position]
        metadata = (item["metadata"] or {}) | (prompt["metadata"] or {})
        yield {
            **place,
            "prompt_index": position,
            "prompt": prompt["text"],
            "metadata": json.dumps(metadata),
            "repetition": REPETITIONS.index(attempt["repetition_id"]),
            "answer": attempt["answer"],
        }


def match_probe_log(path: Source, log: DataFrame, design: DataFrame) -> DataFrame:
    """Return the log with `prompt_id` in place of positions.

    Raise InputError if its items differ from those of the design.
    """
    part = log["part"][0]
    prompts = design.filter(part=part).drop("prompt", "system", "part")
    if prompts.is_empty():
        raise InputError(
            f"{path} is a log of the probe {part!r}, which this study does not run;"
            f" use --study genderbench/{part}"
        )
    in_log = log.select(_POSITION).unique().height
    in_design = prompts.select(_POSITION).unique().height
    if in_log != in_design:
        raise InputError(
            f"{path} has {in_log:,} prompts where {part} has {in_design:,}; add --limit full (only logs of"
            " the whole suite can be read: seed 123, the default sample_k and num_reorderings)"
        )
    placed = log.drop("prompt_id").join(prompts, on=_POSITION, maintain_order="left")
    for row in placed.iter_rows(named=True):
        for name, value in json.loads(row["metadata"]).items():
            if name in prompts.columns and _in_our_spelling(value) != _in_our_spelling(row[name]):
                raise InputError(
                    f"{path}: item {row['item']}, prompt {row['prompt_index']}: the log has {name}={value!r}"
                    f" where the study has {row[name]!r}; it was created with other data or another seed"
                )
    return placed.select(list(ROWS))


def _in_our_spelling(value: Any) -> Any:
    """Convert enumerations of the log ("HiringAnQualifications.LOW") to the spelling of the design."""
    if isinstance(value, list):
        return [_in_our_spelling(entry) for entry in value]
    if not isinstance(value, str):
        return value
    is_enumeration = value.startswith(("HiringAn", "Discrimination"))
    return value.rpartition(".")[2].lower() if is_enumeration else value.lower()


def is_inspect_log(path: Source) -> TypeGuard[Path]:
    """Return whether a file is an Inspect log, according to its suffix; a JSON list is a table."""
    if not isinstance(path, Path):
        return False
    extension = path.suffix.lower()
    return extension == ".eval" or (extension == ".json" and not is_json_list(path))


def read_inspect_log(path: Path) -> DataFrame:
    """Return the samples of an Inspect log, one row per sample and epoch, with the columns RESPONSE_ROWS.

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
        contents = _header_and_samples(path)
        header = next(contents)
        is_own_task = MARK in (header.get("metadata") or {})
        model = {"model": header.get("model")}
        rows = [_row(sample, is_own_task=is_own_task) | model for sample in contents]
        log = DataFrame(rows, schema=RESPONSE_ROWS)
    if log.is_empty():
        raise InputError(
            f"{path} is an Inspect log without samples (was it written with"
            " --no-log-samples?); there is nothing to read"
        )
    return log


def _header_and_samples(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the header of a log, then its samples."""
    if path.suffix.lower() == ".json":
        log = json_of(path.read_text(encoding="utf-8"))
        if not isinstance(log, dict) or "eval" not in log:
            raise InputError(f"{path} is not a valid Inspect log: it has no entry `eval`")
        yield log["eval"]
        yield from log.get("samples") or []
        return
    with zipfile.ZipFile(path) as archive:
        _check_archive(path, archive.infolist())
        names = archive.NameToInfo  # if a sample was written twice, the last version is used
        yield _unpacked(archive, "header.json" if "header.json" in names else "_journal/start.json")["eval"]
        for name in names:
            if name.startswith("samples/") and name.endswith(".json"):
                yield _unpacked(archive, name)


def _check_archive(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Raise InputError if an archive is too large, or has a compression that cannot be read."""
    is_zstandard = any(member.compress_type == _ZSTANDARD for member in members)
    if is_zstandard and sys.version_info < (3, 14):
        try:
            import_module("zipfile_zstd")  # adds this compression to zipfile
        except ImportError:
            raise InputError(
                f'{path} is compressed with Zstandard; pip install "tiltmeter[inspect]",'
                " or convert it to JSON (inspect log convert --to json)"
            ) from None
    if sum(member.file_size for member in members) > _LARGEST_LOG:
        raise InputError(
            f"{path} unpacks to more than {_LARGEST_LOG >> 20} MiB; write a log with"
            " fewer samples, or several logs"
        )


def _unpacked(archive: zipfile.ZipFile, name: str) -> Any:
    """Return a JSON file of the archive.

    `zipfile` stops at the declared size, so checking that size limits memory.
    """
    size = archive.getinfo(name).file_size
    if size > _LARGEST_FILE:
        raise ValueError(f"its file {name} would take {size:,} bytes")
    return json_of(archive.read(name))


def _row(sample: Mapping[str, Any], *, is_own_task: bool) -> dict[str, Any]:
    """Return the row of a sample; samples of Tiltmeter's tasks are identified by their id and epoch."""
    row = output_of(sample.get("output") or {})
    row |= {"status": "ok", "prompt": _prompt_of(sample["input"])}
    attachments = sample.get("attachments") or {}  # long texts, by the names that replace them
    for name, value in row.items():
        if isinstance(value, str) and value.startswith(_ATTACHMENT):
            row[name] = attachments[value.removeprefix(_ATTACHMENT)]
    if is_own_task:
        row["prompt_id"] = str(sample["id"])
        row["repetition"] = REPETITIONS.index(int(sample["epoch"]) - 1)
    error = sample.get("error")
    if error:
        reason = why(ValueError(error["message"]))
        row |= {"status": "failed", "answer": None, "error": f"inspect: {reason}"}
    return row


def _prompt_of(messages: str | Sequence[Mapping[str, Any]]) -> str | None:
    """Return the text of the input of a sample, or of its last user message."""
    if isinstance(messages, str):
        return messages
    for message in reversed(messages):
        if message["role"] == "user":
            return _texts(message["content"], "text")
    return None


def output_of(output: Mapping[str, Any]) -> dict[str, Any]:
    """Convert Inspect's `ModelOutput`, as JSON, to columns of RESPONSES.

    The columns are `answer`, `thinking`, `finish_reason`, `refusal`, `input_tokens` and `output_tokens`. The
    stop reason "content_filter" is a refusal, as for any endpoint.
    """
    choices = output.get("choices") or [{}]
    message = choices[0].get("message") or {}
    stop_reason = choices[0].get("stop_reason")
    usage = output.get("usage") or {}
    content = message.get("content") or ""
    thinking = "" if isinstance(content, str) else _texts(content, "reasoning")
    refusal = None
    if stop_reason == "content_filter":
        refusal = output.get("error") or stop_reason
    return {
        "answer": _texts(content, "text") or output.get("completion") or None,
        "thinking": thinking or None,
        "finish_reason": stop_reason,
        "refusal": refusal,
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
    }


def _texts(content: str | list[dict[str, Any]], kind: str) -> str:
    """Return the text of a message, whose content is a string or a list of pieces."""
    if isinstance(content, str):
        return content
    return "\n".join(piece.get(kind) or "" for piece in content if piece.get("type") == kind)
