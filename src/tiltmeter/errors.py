"""Errors a user can meet, each with the exit status the command ends with.

A message names the file, line, key or flag that is wrong and says how to correct it, in one sentence.
It never holds an API key: messages are built from names and places, not from headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tiltmeter.sanitising import printable

EXIT_OK = 0
EXIT_GATE = 1
EXIT_INPUT = 2
EXIT_INCOMPLETE = 3
EXIT_PROVIDER = 4

_BEGINNING, _END = 400, 180
"""Characters that are shown of a sentence that quotes something very long: the place is at its beginning, the remedy at its end."""


class TiltmeterError(Exception):
    """Base of all errors that end a command with one sentence instead of a traceback."""

    exit_code = EXIT_INPUT

    def __str__(self) -> str:
        """The sentence on one line. What it quotes came from outside: no control characters, and the middle of a long one left out."""
        said = super().__str__()
        if len(said) > _BEGINNING + _END:
            said = f"{said[:_BEGINNING]} … {said[-_END:]}"
        return printable(said, one_line=True)


class InputError(TiltmeterError):
    """What the user gave (a flag, a file, a key, a value) cannot be used: exit status 2."""


class ProviderError(TiltmeterError):
    """No answer can be had from the model at all (wrong key, wrong model, no server): exit status 4."""

    exit_code = EXIT_PROVIDER


@contextmanager
def error_prefix(place: str) -> Iterator[None]:
    """Put a place (a file, a flag) before what an error within the block says."""
    try:
        yield
    except TiltmeterError as error:
        raise type(error)(f"{place}{error}") from error


class IncompleteRun(UserWarning):
    """Something is missing from a run that `tiltmeter.run` returned; `Run.problems` says what."""
