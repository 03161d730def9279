"""Errors a user can meet, each with the exit status the command ends with.

A message names the file, line, key or flag that is wrong and says how to mend it, in one sentence.
It never holds an API key: messages are built from names and places, not from headers.
"""

from __future__ import annotations

__all__ = ["EXIT_GATE", "EXIT_INCOMPLETE", "EXIT_INPUT", "EXIT_OK", "EXIT_PROVIDER", "InputError", "ProviderError", "TiltmeterError"]

EXIT_OK = 0
EXIT_GATE = 1
EXIT_INPUT = 2
EXIT_INCOMPLETE = 3
EXIT_PROVIDER = 4


class TiltmeterError(Exception):
    """Base of all errors that end a command with one sentence instead of a traceback."""

    exit_code = EXIT_INPUT


class InputError(TiltmeterError):
    """What the user gave (a flag, a file, a key, a value) cannot be used: exit status 2."""


class ProviderError(TiltmeterError):
    """No answer can be had from the model at all (wrong key, wrong model, no server): exit status 4."""

    exit_code = EXIT_PROVIDER
