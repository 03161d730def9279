"""Whether an answer contains an expected text: the tokens of the text in order."""

from __future__ import annotations

from typing import Final

import polars as pl
from polars import Expr, col, when

_BETWEEN_WORDS: Final = r"(\w)[-‐‑–—−]|_"
_MINUS: Final = r"[‐‑–−](\d)"
"""A dash or a minus sign directly before a number, after dashes between words were removed. A dash "—" is
punctuation."""
_SLASH: Final = r"\s*/\s*"
_SIGN_BEFORE_CURRENCY: Final = r"([-‐‑–−])\p{Sc}\s*(\d)"
_CURRENCY: Final = r"\p{Sc}"
_WHOLE: Final = r"^(-?\d+)\.00?$"
"""A whole number with one or two zeros after the point: "5.0", "5.00"."""
_WORD_OR_SIGN: Final = r"-?\d+(?:[.,:/]\d+)*\b|\w+(?:\+\+|#)?|[+%&@=<>\p{Sc}°]"
"""A number with its sign, point and separators, a word, or a sign. Other punctuation is ignored."""


def contains_expected() -> Expr:
    """Return whether the answer contains the tokens of the expected text in order.

    An expected text without tokens ("?") must be contained itself. Where the expected text contains a number,
    currency signs are ignored.
    """
    answer = col.answer.fill_null("").str.to_lowercase()
    expected = col.expected.str.to_lowercase()
    is_amount = expected.str.contains(r"\d")
    expected_tokens = _tokens(when(is_amount).then(_without_currency(expected)).otherwise(expected))
    answer_tokens = _tokens(when(is_amount).then(_without_currency(answer)).otherwise(answer))
    contains_tokens = pl.format(" {} ", answer_tokens).str.contains(
        pl.format(" {} ", expected_tokens), literal=True
    )
    contains_text = answer.str.contains(expected, literal=True)
    return when(expected_tokens == "").then(contains_text).otherwise(contains_tokens)


def _without_currency(text: Expr) -> Expr:
    return text.str.replace_all(_SIGN_BEFORE_CURRENCY, "$1$2").str.replace_all(_CURRENCY, " ")


def _tokens(text: Expr) -> Expr:
    """Return the tokens of a text in lower case, separated by blanks: "5" is no token of "-5" or "3.5".

    Every minus sign or dash before a number is written as "-", "1 / 2" as "1/2", and "5.00" as "5".
    """
    separated = text.str.replace_all(_BETWEEN_WORDS, "$1 ")
    signed = separated.str.replace_all(_MINUS, "-$1").str.replace_all(_SLASH, "/")
    tokens = signed.str.extract_all(_WORD_OR_SIGN)
    return tokens.list.eval(pl.element().str.replace(_WHOLE, "$1")).list.join(" ")
