"""What the suites have in common: promises in words, and texts that nobody should stumble over."""

from __future__ import annotations

__all__ = ["GARBAGE", "promise"]

GARBAGE = (
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
"""Texts a model may answer, or a file may hold: nothing, half a pattern, marks of control, markup, far too much."""


def promise(kept: bool, sentence: str) -> None:
    """Raise AssertionError with the sentence that says which promise is broken, unless it is kept."""
    if not kept:
        raise AssertionError(sentence)
