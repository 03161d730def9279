"""What every reader does first: plain text out of an answer, and one shape for what was read.

All of it is Polars expressions (Rust regular expressions, no look-around), because a study has some 150,000 answers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from string import ascii_letters
from typing import Any

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter.thinking import CLOSES, OPENS, SPECIAL, UNMARKED
from tiltmeter.yaml_files import packaged_yaml


def load_data(name: str) -> Any:
    """Word lists and phrases of one reader: `data/<name>.yaml` of this package."""
    return packaged_yaml(Path(__file__).parent / "data" / f"{name}.yaml")


@cache
def _plain_characters() -> dict[str, str]:
    same = {character: plain for plain, characters in load_data("characters").items() for character in characters}
    full_width = {chr(ord(letter) + 0xFEE0): letter for letter in ascii_letters}
    return same | full_width


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
    return rewritten(without_thinking(answer).str.replace_many(_plain_characters()), _MARKUP).str.strip_chars()


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
        without_thinking(col.text.fill_null("")).str.replace_many(_plain_characters())
    )
    return text.with_columns(rewritten(col.text, _MARKUP).str.strip_chars(), blank=col.text.str.strip_chars() == "")


def alternatives(patterns: list[str]) -> str:
    """One group that matches any of the patterns, a blank standing for white space (and " ?" for optional white space)."""
    return "(?:" + "|".join(pattern.replace(" ?", r"\s*").replace(" ", r"\s+") for pattern in patterns) + ")"
