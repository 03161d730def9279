"""No regular expression takes long on a text made to keep it busy."""

from __future__ import annotations

import re

import pytest

from support.fuzzing.regexes import Expression, expressions, seconds, texts

pytestmark = pytest.mark.verify

SHORT, LONG = 250, 1_500
MOST = 0.15
"""Seconds; the quickest takes a thousandth of that for fifteen hundred characters, one whose work grows with
their cube some minutes."""


def _busy(expression: Expression) -> str | None:
    """The text that keeps an expression busy.

    Short ones first, since a long one may keep it busy for ever.
    """
    for length in (SHORT, LONG):
        for text in texts(expression.pattern, length):
            if seconds(expression, text) > MOST and min(seconds(expression, text) for _ in range(3)) > MOST:
                return text
    return None


def test_no_text_keeps_an_expression_busy() -> None:
    patterns = expressions()
    assert len(patterns) > 120
    busy = {}
    for expression in patterns:
        text = _busy(expression)
        if text is not None:
            busy[expression.place] = (expression.pattern.pattern, text[:60])
    assert not busy


def test_an_expression_that_can_be_kept_busy_is_found() -> None:
    assert (
        _busy(Expression(re.compile(r"[a-z]*[a-z]*[a-z]*://"), "here", frozenset({"finditer"}))) is not None
    )
