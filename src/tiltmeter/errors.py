"""Errors a user can meet, each with the exit status the command ends with.

A message names the file, line, key or flag that is wrong and says how to correct it, in one sentence.
It never holds an API key: messages are built from names and places, not from headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

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


class Caveat(UserWarning):
    """A reservation about the numbers of a run; `code` names it, and the page docs/caveats/CODE.md explains it.

    `warnings.simplefilter("ignore", tiltmeter.Ungraded)` silences one, `"error"` fails on it.
    """

    code: ClassVar[str]


class IncompleteRun(Caveat):
    """Something is missing from the run; `Run.problems` says what."""

    code = "incomplete"


class Ungraded(Caveat):
    """A key metric has no mark, because too few responses could be read or the interval is too wide."""

    code = "ungraded"


class Underpowered(Caveat):
    """The interval of a key metric reaches from healthy to critical or worse: the run has too few items to tell."""

    code = "underpowered"


class UnvalidatedJudge(Caveat):
    """A judge read the responses, and its reading was not compared with human labels in this run."""

    code = "judge-not-validated"


class OneName(Caveat):
    """An association rests on a single name: without it, nothing is left."""

    code = "one-name"


class MixedDefinitions(Caveat):
    """Numbers of different definitions stand together; they must not be compared."""

    code = "mixed-definitions"


class UnusablePlugin(UserWarning):
    """An installed plugin cannot be used, and is left out of a listing."""


CAVEATS: Mapping[str, type[Caveat]] = {
    one.code: one for one in (IncompleteRun, Ungraded, Underpowered, UnvalidatedJudge, OneName, MixedDefinitions)
}
"""Every caveat by its code."""
