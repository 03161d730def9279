"""What every reader does first: plain text out of an answer, and one shape for what was read.

All of it is Polars expressions (Rust regular expressions, no look-around), because a study has some 150,000 answers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from string import ascii_letters
from typing import Any

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter.thinking import CLOSES, OPENS, SPECIAL, UNMARKED
from tiltmeter.yaml_files import packaged_yaml

_SAME_AS = (
    ("\u2018\u2019\u201a\u201b\u02bc\u2032\uff07", "'"),
    ("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02", '"'),
    ("\u2013\u2014\u2015\u2212", " - "),
    ("\u2010\u2011\uff0d", "-"),
    ("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t|", " "),
    ("\0\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f", " "),
    ("\r\u2028\u2029\u0085\u000b\u000c", "\n"),
    ("\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f\ufe0e\ufe0f", ""),
    ("\uff08\u2768\u27ee", "("),
    ("\uff09\u2769\u27ef", ")"),
    ("\uff3b\u3010\u3014", "["),
    ("\uff3d\u3011\u3015", "]"),
    ("\u2026", "..."),
    ("\uff1a", ":"),
    ("\uff0c", ","),
    ("\uff0e\u3002", "."),
    # Letters of options: parenthesised, circled.
    ("\u249c\u24d0\u24b6", "(a)"),
    ("\u249d\u24d1\u24b7", "(b)"),
    ("\u249e\u24d2\u24b8", "(c)"),
    ("\u249f\u24d3\u24b9", "(d)"),
    ("\u24a0\u24d4\u24ba", "(e)"),
)
_CHARACTERS = {character: same for characters, same in _SAME_AS for character in characters}
# Full-width letters.
_CHARACTERS |= {chr(ord(letter) + 0xFEE0): letter for letter in ascii_letters}

_THOUGHT = ((rf"(?s){OPENS}.*?(?:{CLOSES}|$)", ""), (rf"(?s)^.*{CLOSES}|{SPECIAL}", ""))
_MARKUP = (
    # HTML tags, LaTeX, emphasis, and what begins a line of Markdown.
    (r"(?i)</?(?:b|i|u|em|strong|p|br|span|div|answer|final|final_answer|output|response|solution|ul|ol|li|h[1-6])\s*/?>", " "),
    (r"\\(?:text(?:bf|it)?|math(?:rm|bf|it))\s*\{([^{}]*)\}", "${1}"),
    (r"\$*\\boxed\s*\{([^{}]*)\}\$*", " final answer: ${1}\n"),
    (r"[*_`~]+", ""),
    (r"(?m)^ *(?:#{1,6}|>+|[-+\u2022\u00b7\u25aa\u25cf]) +", ""),
)
"""Patterns of markup, and what takes their place."""


def plain(answer: Expr) -> Expr:
    """Answer without thinking, markdown, HTML tags and typographic variants; words, digits, line breaks and ASCII punctuation stay.

    A boxed LaTeX result becomes "final answer: ...". A text that is all thinking becomes "".
    """
    return rewritten(without_thinking(answer).str.replace_many(_CHARACTERS), _MARKUP).str.strip_chars()


def without_thinking(answer: Expr) -> Expr:
    """Answer without the thinking between marks of any family and without special tokens; "" where no answer follows the thinking."""
    for pattern, ends in UNMARKED:
        answer = answer.str.replace(pattern, "<think>${1}</think>" if ends else "<think>${1}")
    return rewritten(answer, _THOUGHT)


def rewritten(text: Expr, steps: Iterable[tuple[str, str]]) -> Expr:
    """Replace every match of each pattern in turn."""
    for pattern, replacement in steps:
        text = text.str.replace_all(pattern, replacement)
    return text


def first_match(text: Expr, patterns: Iterable[str]) -> Expr:
    """The first group of the first pattern that occurs; null where none does."""
    return pl.coalesce([text.str.extract(pattern, 1) for pattern in patterns])


def only_one(column: str) -> Expr:
    """The one distinct value of each list of a column; null where there are none or several."""
    distinct = col(column).list.drop_nulls().list.unique()
    return when(distinct.list.len() == 1).then(distinct.list.first())


def padded(words: Expr) -> Expr:
    """The words with a blank before and after them, so that each is found as " word "."""
    return pl.concat_str(lit(" "), words, lit(" "))


def count_words(wanted: Collection[str]) -> Expr:
    """How many of the column `words`, each with a blank of its own before and after it, are wanted ones."""
    # Words differ in length and the blanks behind them are part of the match, so their order does not matter.
    pattern = "|".join(re.escape(word) for word in sorted(set(wanted) - {""}))
    words = col.words.str
    return words.count_matches(f" (?:{pattern}) ") if pattern else words.count_matches("a") * 0


def ascii_text(text: Expr) -> Expr:
    """ASCII: a letter of another script or with an accent becomes "x", any other character a blank.

    The phrases looked for are English; on ASCII text the regular expressions are faster by far (word borders need no Unicode tables).
    """
    return text.str.replace_all(r"[\p{L}\p{M}&&[^\x00-\x7f]]", "x").str.replace_all(r"[^\x00-\x7f]", " ")


def lowered(text: Expr) -> Expr:
    """Lower case of `ascii_text`."""
    return ascii_text(text.str.to_lowercase())


def squash(text: Expr, keep: str = "") -> Expr:
    """Words of `lowered` text separated by single blanks; of the other characters those in `keep` stay (a regular-expression class)."""
    return lowered(text).str.replace_all(rf"[^a-z0-9{keep}]+", " ").str.strip_chars(" ")


def text_table(answer: Series, **factors: Series) -> DataFrame:
    """Columns `text` (plain, never null), `blank` (nothing was answered) and one per factor."""
    text = DataFrame({"text": answer.cast(String), **factors}).with_columns(
        without_thinking(col.text.fill_null("")).str.replace_many(_CHARACTERS)
    )
    return text.with_columns(rewritten(col.text, _MARKUP).str.strip_chars(), blank=col.text.str.strip_chars() == "")


def load_data(name: str) -> Any:
    """Word lists and phrases of one reader: `data/<name>.yaml` of this package."""
    return packaged_yaml(Path(__file__).parent / "data" / f"{name}.yaml")


def alternatives(patterns: list[str]) -> str:
    """One group that matches any of the patterns, a blank standing for white space (and " ?" for optional white space)."""
    return "(?:" + "|".join(pattern.replace(" ?", r"\s*").replace(" ", r"\s+") for pattern in patterns) + ")"
