"""Failures of single parts of single models: noted, so that the others are carried on with."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import polars as pl

from tiltmeter._text import printable, redacted, storable
from tiltmeter.errors import TiltmeterError
from tiltmeter.runs._folder import ERRORS, RunFolder
from tiltmeter.study import NotRun

__all__ = ["Failures", "raise_if_all"]

LONGEST = 300
"""Characters of an unexpected error's own message that are quoted."""


class Failures:
    """What failed, as sentences for run.json; tracebacks of unexpected errors go to a file of the run folder.

    Attributes
    ----------
    problems
        One sentence each.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.problems: list[str] = []
        self._folder = folder
        self._tracebacks: list[str] = []

    @contextmanager
    def isolated(self, whose: str, what: str, errors: list[TiltmeterError] | None = None) -> Iterator[None]:
        """Turn an error within the block into a problem; an interruption is passed on.

        Parameters
        ----------
        whose
            Model and part, as a reader sees them.
        what
            What did not happen: "not measured".
        errors
            Where errors with a sentence of their own are collected (see `raise_if_all`).
        """
        try:
            yield
        except (NotRun, TiltmeterError) as error:
            self.problems.append(f"{whose}: {what}: {error}")
            if errors is not None and isinstance(error, TiltmeterError):
                errors.append(error)
        except (Exception, pl.exceptions.PanicException) as error:
            said = printable(redacted(str(error)), one_line=True)[:LONGEST]
            place = self._folder.named(self._folder.path / ERRORS)
            self.problems.append(
                f"{whose}: {what}: {type(error).__name__}: {said} (traceback: {place}); correct the function or plugin it comes from, or"
                " report it, and run the same command again: the responses are kept"
            )
            self._tracebacks.append(f"{whose}: {what}\n{redacted(''.join(traceback.format_exception(error)))}")

    def write(self) -> None:
        """Write the tracebacks; those of an earlier run of this folder are removed."""
        if self._tracebacks:
            self._folder.write_text(ERRORS, storable("\n".join(self._tracebacks)))
        else:
            (self._folder.path / ERRORS).unlink(missing_ok=True)


def raise_if_all(errors: Sequence[TiltmeterError], tried: int) -> None:
    """Raise the first error if every part of every model ended with one: then it holds for the whole command."""
    if errors and len(errors) == tried:
        raise errors[0]
