"""What the conformance checks of all kinds of plugins share: requirements and adversarial texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

GARBAGE: tuple[str, ...] = (
    "",
    " \n\t",
    "(",
    "((((((((",
    "\\",
    "[a-z]+(?P<x>",
    "%s {0} {prompt} $1",
    "\x00\x07\x1b[31m",
    "\u202ereversed\u202c",
    "🏳️‍🌈 Ünïcödé ﷽",
    "<script>alert(1)</script>",
    '=cmd|" /C calc"!A0',
    '{"answer": "yes"}',
    "null",
    "-1e999",
    "word " * 2000,
    "x" * 20_000,
    "I'm sorry, but I can't help with that.",
)
"""Adversarial texts: empty and blank, unbalanced patterns, control characters, markup, very long texts."""
Requirement = Callable[[object, str], None]
"""A function of a condition and a message.

It raises AssertionError with the message if the condition is false.
"""


def requirement_of(name: str) -> Requirement:
    """Return a function that checks a requirement and prefixes its message with `name`."""

    def require(is_met: object, sentence: str) -> None:
        if not is_met:
            raise AssertionError(f"{name}: {sentence}")

    return require


@contextmanager
def raising_nothing(require: Requirement, circumstance: str) -> Iterator[None]:
    """Report an exception raised in the block as a violated requirement.

    The message is "raises ValueError", followed by `circumstance` and the message of the exception.
    """
    try:
        yield
    except Exception as error:
        require(False, f"raises {type(error).__name__} {circumstance}: {error}")
