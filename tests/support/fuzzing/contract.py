"""The contract of a reader of untrusted bytes: a result, or one sentence that names the error.

Soon, and in little memory.
"""

from __future__ import annotations

import resource
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tiltmeter.errors import TiltmeterError
from tiltmeter.study import NotRun

LONGEST = 600
"""Characters of a sentence."""
SECONDS = 3.0
"""Of the processor, for inputs of some kilobytes: a reader that is linear in them takes milliseconds."""
MEGABYTES = 300
"""By which the process may grow while it reads them."""


class Target(NamedTuple):
    """One reader."""

    name: str
    read: Callable[[bytes, Path], object]
    """Reads the bytes, with an empty folder of its own to put them into."""
    seeds: Callable[[], Sequence[bytes]]
    """Whole inputs, as our own writers or the field's make them."""
    kind: str
    """What the bytes are, for mutations that know it: "json", "jsonl", "yaml", "csv", "parquet", "zip",
    "sqlite", "text", "html"."""
    refuses: tuple[type[Exception], ...] = ()
    """What it may raise beside the errors of a user (a reader whose caller makes a status of it)."""
    names: str | None = None
    """What the sentence must hold, so that the user knows where to look; None where the caller adds it."""


class Finding(NamedTuple):
    """A promise that was broken."""

    what: str
    where: str
    """Of the code: for telling findings apart."""


def examine(target: Target, data: bytes, folder: Path) -> Finding | None:
    """Let the target read `data` and return the broken promise, or None."""
    began, size = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    finding: Finding | None = None
    try:
        target.read(data, folder)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Polars is no Exception
        if isinstance(error, (TiltmeterError, NotRun, *target.refuses)):
            finding = _sentence(str(error), target, error)
        else:
            finding = Finding(f"{type(error).__name__}: {str(error)[:300]}", _place(error))
    seconds = time.process_time() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size) / 1024
    if finding is None and seconds > SECONDS:
        finding = Finding(f"{seconds:.1f} s of processor time for {len(data):,} bytes", target.name)
    if finding is None and grown > MEGABYTES:
        finding = Finding(f"{grown:.0f} MiB for {len(data):,} bytes", target.name)
    return finding


def _sentence(message: str, target: Target, error: BaseException) -> Finding | None:
    if not message.strip():
        return Finding("the sentence is empty", _place(error))
    if len(message) > LONGEST:
        return Finding(f"a sentence of {len(message):,} characters: {message[:80]!r}", _place(error))
    if odd := next(
        (
            letter
            for letter in message
            if ord(letter) < 32 or 127 <= ord(letter) < 160 or 0xD800 <= ord(letter) < 0xE000
        ),
        None,
    ):
        return Finding(f"the sentence holds {odd!r}: {message[:200]!r}", _place(error))
    if target.names is not None and target.names not in message:
        return Finding(f"the sentence does not name {target.names}: {message[:200]!r}", _place(error))
    return None


def _place(error: BaseException) -> str:
    """Return the last line of the package that led to the error."""
    frames = traceback.extract_tb(error.__traceback__)
    own_frames = [frame for frame in frames if "/tiltmeter/" in frame.filename] or frames
    return f"{Path(own_frames[-1].filename).name}:{own_frames[-1].lineno}" if own_frames else "?"
