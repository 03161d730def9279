"""Normalisation of answers: the first step of every reader.

Everything is a Polars expression (Rust regular expressions without look-around), because a study has about 150,000 answers.
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
    """Return the word lists and phrases of a reader from `data/<name>.yaml`."""
    return packaged_yaml(Path(__file__).parent / "data" / f"{name}.yaml")


@cache
def _plain_characters() -> dict[str, str]:
    same = {character: plain for plain, characters in load_data("characters").items() for character in characters}
    full_width = {chr(ord(letter) + 0xFEE0): letter for letter in ascii_letters}
    return same | full_width


_THOUGHT = ((rf"(?s){OPENS}.*?(?:{CLOSES}|$)", ""), (rf"(?s)^.*{CLOSES}|{SPECIAL}", ""))
_MARKUP = (
    # HTML tags, LaTeX, emphasis and Markdown at the beginning of a line.
    (r"(?i)</?(?:b|i|u|em|strong|p|br|span|div|answer|final|final_answer|output|response|solution|ul|ol|li|h[1-6])\s*/?>", " "),
    (r"\\(?:text(?:bf|it)?|math(?:rm|bf|it))\s*\{([^{}]*)\}", "${1}"),
    (r"\$*\\boxed\s*\{([^{}]*)\}\$*", " final answer: ${1}\n"),
    (r"[*_`~]+", ""),
    (r"(?m)^ *(?:#{1,6}|>+|[-+\u2022\u00b7\u25aa\u25cf]) +", ""),
)
"""Patterns of markup, with their replacements."""


def plain(answer: Expr) -> Expr:
    """Return the answer without thinking, Markdown, HTML tags and typographic variants.

    Words, digits, line breaks and ASCII punctuation are kept. A boxed LaTeX result becomes "final answer: ...". An answer that consists
    only of thinking becomes "".
    """
    return rewritten(without_thinking(answer).str.replace_many(_plain_characters()), _MARKUP).str.strip_chars()


def without_thinking(answer: Expr) -> Expr:
    """Return the answer without special tokens and without the thinking of any model family; "" if no answer follows the thinking."""
    for pattern, ends in UNMARKED:
        answer = answer.str.replace(pattern, "<think>${1}</think>" if ends else "<think>${1}")
    return rewritten(answer, _THOUGHT)


def rewritten(text: Expr, steps: Iterable[tuple[str, str]]) -> Expr:
    """Replace every match of each pattern in turn."""
    for pattern, replacement in steps:
        text = text.str.replace_all(pattern, replacement)
    return text


def first_match(text: Expr, patterns: Iterable[str]) -> Expr:
    """Return the first group of the first pattern that matches, or null if none does."""
    return pl.coalesce([text.str.extract(pattern, 1) for pattern in patterns])


def only_one(column: str) -> Expr:
    """Return the only distinct value of each list of a column, or null if there are none or several."""
    distinct = col(column).list.drop_nulls().list.unique()
    return when(distinct.list.len() == 1).then(distinct.list.first())


def padded(words: Expr) -> Expr:
    """Return the words with a blank before and after them, so that each word matches " word "."""
    return pl.concat_str(lit(" "), words, lit(" "))


def count_words(wanted: Collection[str]) -> Expr:
    """Count the wanted words in the column `words`, in which each word has its own blank before and after it."""
    # The order of the alternatives does not matter, because each match includes the blank after the word.
    pattern = "|".join(re.escape(word) for word in sorted(set(wanted) - {""}))
    words = col.words.str
    return words.count_matches(f" (?:{pattern}) ") if pattern else words.count_matches("a") * 0


def ascii_text(text: Expr) -> Expr:
    """Return the text in ASCII: letters with accents or of other scripts become "x", other non-ASCII characters become blanks.

    The phrases to find are English, and regular expressions are much faster on ASCII text (word borders need no Unicode tables).
    """
    return text.str.replace_all(r"[\p{L}\p{M}&&[^\x00-\x7f]]", "x").str.replace_all(r"[^\x00-\x7f]", " ")


def lowered(text: Expr) -> Expr:
    """Return the text in lower case and ASCII (see `ascii_text`)."""
    return ascii_text(text.str.to_lowercase())


def squash(text: Expr, keep: str = "") -> Expr:
    """Return the words of the `lowered` text separated by single blanks; of all other characters only those in `keep` are kept.

    `keep` is the inside of a character class of a regular expression.
    """
    return lowered(text).str.replace_all(rf"[^a-z0-9{keep}]+", " ").str.strip_chars(" ")


def text_table(answer: Series, **factors: Series) -> DataFrame:
    """Return a table with the columns `text` (plain, never null) and `blank` (whether the answer is blank), and one column per factor."""
    text = DataFrame({"text": answer.cast(String), **factors}).with_columns(
        without_thinking(col.text.fill_null("")).str.replace_many(_plain_characters())
    )
    return text.with_columns(rewritten(col.text, _MARKUP).str.strip_chars(), blank=col.text.str.strip_chars() == "")


def alternatives(patterns: list[str]) -> str:
    """Return a group that matches any of the patterns; in them, " " means white space and " ?" optional white space."""
    return "(?:" + "|".join(pattern.replace(" ?", r"\s*").replace(" ", r"\s+") for pattern in patterns) + ")"
