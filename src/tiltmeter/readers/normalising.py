"""Normalisation of answers: the first step of every reader.

Everything is a Polars expression (Rust regular expressions without look-around), because a study has about
150,000 answers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from string import ascii_letters
from typing import Any, NamedTuple
from unicodedata import normalize

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter.files.yaml import packaged_yaml
from tiltmeter.models.thinking import CLOSES, OPENS, SPECIAL, UNMARKED

NOTHING = r"[^\s\S]"
"""Pattern that matches nothing."""


@cache
def load_data(name: str) -> Any:
    """Return the word lists and phrases of a reader from `data/<name>.yaml`."""
    return packaged_yaml(Path(__file__).parent / "data" / f"{name}.yaml")


class Pattern(NamedTuple):
    """A row of a table of patterns in `data/`."""

    find: str
    """Regular expression."""
    put: str
    """What replaces a match, if the pattern is a step."""
    example: str
    """A reply in which the pattern is found."""
    reads: str | None
    """Label of the example; null if it has none."""
    about: str | None
    """Subject of the question to which the pattern is limited, if any."""


@cache
def tables(name: str) -> dict[str, dict[str, Pattern]]:
    """Return the tables of patterns in `data/<name>.yaml`, by the name of the table and of the row.

    {part} in a pattern stands for an entry of `parts`; a list stands for its alternatives. In files with
    `across_lines`, " " means white space and " ?" optional white space.
    """
    data = load_data(name)
    parts: dict[str, str] = {}

    def written(pattern: Any) -> str:
        text = pattern if isinstance(pattern, str) else f"(?:{'|'.join(map(written, pattern))})"
        if data.get("across_lines"):
            text = text.replace(" ?", r"\s*").replace(" ", r"\s+")
        return re.sub(r"\{([a-z_]+)\}", lambda found: parts.get(found[1], found[0]), text)

    for part, pattern in data.get("parts", {}).items():
        parts[part] = written(pattern)
    return {
        table: {
            row: Pattern(
                written(given["find"]),
                given.get("put", ""),
                given["example"],
                given["reads"],
                given.get("about"),
            )
            for row, given in rows.items()
        }
        for table, rows in data.items()
        if table not in ("across_lines", "parts", "words", "kindred")
    }


def any_of(rows: Iterable[Pattern]) -> str:
    """Return a group that matches any of the patterns."""
    return f"(?:{'|'.join(row.find for row in rows)})"


def any_in(data: str, *names: str) -> str:
    """Return a group that matches any pattern of these tables in `data/<data>.yaml`."""
    return any_of(row for name in names for row in tables(data)[name].values())


@cache
def _variants(kind: str) -> dict[str, str]:
    """Return variants of writing with their plain form: "characters" or "contractions"."""
    return {
        variant: plain
        for plain, several in load_data("writing")["words"][kind].items()
        for variant in several
    }


@cache
def _characters() -> dict[str, str]:
    return (
        _variants("characters") | {chr(ord(letter) + 0xFEE0): letter for letter in ascii_letters} | _styled()
    )


def _styled() -> dict[str, str]:
    """Return the letters and digits of mathematical alphabets (bold, italic, sans-serif, ...) with their plain form."""
    styled = map(chr, (*range(0x210A, 0x2135), *range(0x1D400, 0x1D800)))
    plain_forms = {letter: normalize("NFKC", letter) for letter in styled}
    return {
        letter: form
        for letter, form in plain_forms.items()
        if form.isascii() and len(form) == 1 and form.isalnum()
    }


_THOUGHT = ((rf"(?s){OPENS}.*?(?:{CLOSES}|$)", ""), (rf"(?s)^.*{CLOSES}|{SPECIAL}", ""))


def plain(answer: Expr) -> Expr:
    """Return the answer without thinking, Markdown, HTML tags and typographic variants.

    Words, digits, line breaks and ASCII punctuation are kept. A boxed LaTeX result becomes "final answer:
    ...". An answer that consists only of thinking becomes "".
    """
    return _unmarked(without_thinking(answer).str.replace_many(_characters()))


def _unmarked(text: Expr) -> Expr:
    return rewritten(text, tables("writing")["markup"].values()).str.strip_chars()


def without_thinking(answer: Expr) -> Expr:
    """Return the answer without special tokens and without the thinking of any model family; "" if no answer follows the thinking."""
    for pattern, ends in UNMARKED:
        answer = answer.str.replace(pattern, "<think>${1}</think>" if ends else "<think>${1}")
    return rewritten(answer, _THOUGHT)


def rewritten(text: Expr, steps: Iterable[tuple[str, str] | Pattern]) -> Expr:
    """Replace every match of each pattern in turn."""
    for pattern, replacement, *_ in steps:
        text = text.str.replace_all(pattern, replacement)
    return text


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
    pattern = "|".join(re.escape(word) for word in sorted(set(wanted) - {""})) or NOTHING
    return col.words.str.count_matches(f" (?:{pattern}) ")


def ascii_text(text: Expr) -> Expr:
    """Return the text in ASCII: letters with accents or of other scripts become "x", other non-ASCII characters become blanks.

    The phrases to find are English, and regular expressions are much faster on ASCII text (word borders need
    no Unicode tables).
    """
    return text.str.replace_all(r"[\p{L}\p{M}&&[^\x00-\x7f]]", "x").str.replace_all(r"[^\x00-\x7f]", " ")


def lowered(text: Expr) -> Expr:
    """Return the text in lower case and ASCII (see `ascii_text`), without contractions: "do not" instead of "don't" or "dont"."""
    lower = ascii_text(text.str.to_lowercase()).str.replace_many(_variants("contractions"), leftmost=True)
    return rewritten(lower, tables("writing")["short"].values())


def text_table(answer: Series, **factors: Series) -> DataFrame:
    """Return a table with the columns `text` (plain, never null) and `blank` (whether the answer is blank), and one column per factor."""
    text = without_thinking(col.text.fill_null("")).str.replace_many(_characters())
    table = DataFrame({"text": answer.cast(String), **factors}).with_columns(text)
    return table.with_columns(_unmarked(col.text), blank=col.text.str.strip_chars() == "")
