"""What goes wrong when data cannot be had."""

from __future__ import annotations

from tiltmeter.errors import EXIT_INCOMPLETE, TiltmeterError

__all__ = ["DataUnavailable", "SourceError"]


class DataUnavailable(TiltmeterError):
    """No source gave the file: what needs it is not run, everything else may go on.

    Attributes
    ----------
    name
        The file's name in the catalogue.
    reason
        What each source answered, in short, in the order they were tried.
    remedy
        What the user can do about it, one sentence.
    """

    exit_code = EXIT_INCOMPLETE

    def __init__(self, name: str, reason: str, remedy: str) -> None:
        super().__init__(f"{name} cannot be had ({reason}); {remedy}")
        self.name, self.reason, self.remedy = name, reason, remedy


class SourceError(Exception):
    """One source did not give the file; the message says why, in a few words. The next source is tried."""
