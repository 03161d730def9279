"""Logs of Inspect (`.eval`, `.json`): what was asked, what was answered, and what failed. Inspect itself is not needed to read them."""

from __future__ import annotations

import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter._damage import UNREADABLE, json_of
from tiltmeter._paths import is_file
from tiltmeter.errors import InputError
from tiltmeter.runs._tables import ROWS, first_line

__all__ = ["INSPECT_ROWS", "MARK", "check_asked", "is_inspect_log", "output_of", "read_inspect_log"]

MARK = "tiltmeter"
"""Key of a log's metadata by which our own tasks are known (see `tiltmeter.inspecting`)."""
ATTACHMENT = "attachment://"
ZSTANDARD = 93
"""Number of the compression that Inspect uses; Python reads it from 3.14 on, before that through a package that comes with Inspect."""

_OUTPUT = {
    "answer": pl.String,
    "thinking": pl.String,
    "finish_reason": pl.String,
    "refusal": pl.String,
    "input_tokens": pl.Int32,
    "output_tokens": pl.Int32,
}
_DAMAGED = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, EOFError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),  # the last of an archive that is encrypted
)
"""What a log may raise that is none, or is damaged, or whose values are not those Inspect writes."""
LARGEST = 2**28
"""Bytes a file in a log may have once it is unpacked; a sample has some thousands."""
INSPECT_ROWS: Mapping[str, pl.DataType | type[pl.DataType]] = {**ROWS, **_OUTPUT, "status": pl.String, "error": pl.String}
"""Columns of a read log: ROWS, and what else of RESPONSES a log tells."""


def is_inspect_log(path: Path) -> bool:
    """Whether a file is to be read as a log of Inspect, by the end of its name."""
    return path.suffix.lower() in (".eval", ".json")


def read_inspect_log(path: Path) -> pl.DataFrame:
    """The samples of a log, one row per sample and epoch (columns INSPECT_ROWS).

    Samples of our own tasks are known by their id (`prompt_id`, and the epoch as `repetition`), those of others by the last message of
    the user (`prompt`).

    Raises
    ------
    InputError
        The file is no log of Inspect, is damaged, is compressed in a way that cannot be read here, or holds no samples.
    """
    if not is_file(path):
        raise InputError(f"there is no file {path}")
    try:
        about, samples = (_read_zip if path.suffix.lower() == ".eval" else _read_json)(path)
        ours = MARK in (about.get("metadata") or {})
        rows = [_row(sample, ours=ours) | {"model": about.get("model")} for sample in samples]
        log = pl.DataFrame(rows, schema=INSPECT_ROWS)
    except (*UNREADABLE, *_DAMAGED) as error:
        raise InputError(f"{path} is not a whole log of Inspect ({type(error).__name__}: {first_line(error)})") from error
    if log.is_empty():
        raise InputError(f"{path} is a log of Inspect without samples (was it written with --no-log-samples?); there is nothing to read")
    return log


def check_asked(path: Path, log: pl.DataFrame, design: pl.DataFrame) -> None:
    """See that a log of our own task was asked the very texts of the design; raises InputError where one differs.

    Equal ids with other texts mean another seed, definition or file of wordings: their answers would be read against the wrong options.
    """
    both = log.select("prompt_id", said="prompt").join(design.select("prompt_id", "prompt"), on="prompt_id")
    other = both.filter(pl.col("said") != pl.col("prompt"))
    if other.height:
        raise InputError(
            f"{path}: the prompt {other['prompt_id'][0]} is not the one of this study; the log was made with another seed, definition or "
            "wording, so give those it was made with"
        )


def _read_zip(path: Path) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    with zipfile.ZipFile(path) as archive:
        _can_read(path, archive)
        names = archive.NameToInfo  # a sample written twice counts as it was written last
        head = json_of(_unpacked(archive, "header.json" if "header.json" in names else "_journal/start.json"))
    return head["eval"], _zipped(path)


def _zipped(path: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.NameToInfo:
            if name.startswith("samples/") and name.endswith(".json"):
                yield json_of(_unpacked(archive, name))


def _unpacked(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file of the archive; `zipfile` stops at the size it is said to have, so that this bounds the memory."""
    if archive.getinfo(name).file_size > LARGEST:
        raise ValueError(f"its file {name} would take {archive.getinfo(name).file_size:,} bytes")
    return archive.read(name)


def _can_read(path: Path, archive: zipfile.ZipFile) -> None:
    if sys.version_info >= (3, 14) or all(member.compress_type != ZSTANDARD for member in archive.infolist()):
        return
    try:
        import_module("zipfile_zstd")  # teaches zipfile this compression
    except ImportError:
        raise InputError(
            f'{path} is compressed with Zstandard; pip install "tiltmeter[inspect]", or give it as JSON (inspect log convert --to json)'
        ) from None


def _read_json(path: Path) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    with path.open(encoding="utf-8") as file:
        log = json_of(file.read())
    return log["eval"], iter(log.get("samples") or [])


def _row(sample: Mapping[str, Any], *, ours: bool) -> dict[str, Any]:
    attached = sample.get("attachments") or {}
    row = _whole(output_of(sample.get("output") or {}), attached)
    error = sample.get("error")
    failed = {"status": "failed", "answer": None, "error": f"inspect: {first_line(ValueError(error['message']))}"} if error else {}
    prompt = _prompt(sample["input"], attached)
    known = {"prompt_id": str(sample["id"]), "repetition": int(sample["epoch"]) - 1} if ours else {}
    return row | {"status": "ok", "prompt": prompt} | known | failed


def output_of(output: Mapping[str, Any]) -> dict[str, Any]:
    """What Inspect's `ModelOutput` (as JSON) says, in the words of RESPONSES: answer, thinking, finish_reason, refusal, tokens.

    A content filter's stop is a refusal, as of any endpoint.
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
    """The text of a message whose content is a text or a list of pieces."""
    if isinstance(content, str):
        return content
    return "\n".join(piece.get(kind) or "" for piece in content if piece.get("type") == kind)


def _prompt(given: str | list[dict[str, Any]], attached: Mapping[str, str]) -> str | None:
    """The text asked: the input itself, or the last message of the user in it."""
    asked = (
        given
        if isinstance(given, str)
        else next((_texts(one["content"], "text") for one in reversed(given) if one["role"] == "user"), None)
    )
    return asked and _attached(asked, attached)


def _whole(row: dict[str, Any], attached: Mapping[str, str]) -> dict[str, Any]:
    return {name: _attached(value, attached) if isinstance(value, str) else value for name, value in row.items()}


def _attached(text: str, attached: Mapping[str, str]) -> str:
    """Long texts stand once in a sample, under a name by which they are called."""
    return attached[text.removeprefix(ATTACHMENT)] if text.startswith(ATTACHMENT) else text
