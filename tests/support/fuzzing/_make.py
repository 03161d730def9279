"""Targets from functions that read a file or a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from support.fuzzing.contract import Target


def of_file(
    name: str,
    suffix: str,
    read: Callable[[Path], object],
    seeds: Callable[[], Sequence[bytes]],
    kind: str | None = None,
) -> Target:
    """Return the reader of a file; its error must name the file."""
    stem = f"given{suffix}"

    def run(data: bytes, folder: Path) -> object:
        (folder / stem).write_bytes(data)
        return read(folder / stem)

    return Target(name, run, seeds, kind or suffix.removeprefix("."), names=stem)


def of_text(
    name: str, read: Callable[[str], object], seeds: Callable[[], Sequence[bytes]], kind: str = "text"
) -> Target:
    """Return the reader of an answer: any text that the journal can hold (no lone surrogates, no NUL)."""

    def run(data: bytes, folder: Path) -> object:
        return read(data.decode("utf-8", errors="replace").replace("\0", "\ufffd"))

    return Target(name, run, seeds, kind)
