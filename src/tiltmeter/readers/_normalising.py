"""Normalisation of answers: the first step of every reader.

Everything is a Polars expression (Rust regular expressions without look-around), because a study has about
150,000 answers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from string import ascii_letters
from typing import Any, NamedTuple
from unicodedata import normalize

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.models._thinking import CLOSES, OPENS, SPECIAL, UNMARKED

NOTHING = r"[^\s\S]"
"""Pattern that matches nothing."""
_FULL_WIDTH = 0xFEE0
"""Distance from an ASCII character to its full-width form, in code points."""


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


_NO_TABLES = ("across_lines", "name", "parts", "words", "kindred")
"""Keys of a file in `data/` that are no tables of patterns."""


@cache
def tables(name: str) -> dict[str, dict[str, Pattern]]:
    """Return the tables of patterns in `data/<name>.yaml`, by the name of the table and of the row.

    {part} in a pattern stands for an entry of `parts`; a list stands for its alternatives. In files with
    `across_lines`, " " means white space and " ?" optional white space.
    """
    content = load_data(name)
    across_lines = bool(content.get("across_lines"))
    parts: dict[str, str] = {}
    for part, pattern in content.get("parts", {}).items():
        parts[part] = _regular_expression(pattern, parts, across_lines=across_lines)
    patterns: dict[str, dict[str, Pattern]] = {}
    for table, rows in content.items():
        if table in _NO_TABLES:
            continue
        patterns[table] = {}
        for row, entry in rows.items():
            patterns[table][row] = Pattern(
                find=_regular_expression(entry["find"], parts, across_lines=across_lines),
                put=entry.get("put", ""),
                example=entry["example"],
                reads=entry["reads"],
                about=entry.get("about"),
            )
    return patterns


def _regular_expression(pattern: str | list[Any], parts: Mapping[str, str], *, across_lines: bool) -> str:
    """Return the regular expression of an entry of a table: a text, or a list of alternatives."""
    if isinstance(pattern, str):
        text = pattern
    else:
        alternatives = [_regular_expression(each, parts, across_lines=across_lines) for each in pattern]
        text = f"(?:{'|'.join(alternatives)})"
    if across_lines:
        text = text.replace(" ?", r"\s*").replace(" ", r"\s+")
    return re.sub(r"\{([a-z_]+)\}", lambda match: parts.get(match[1], match[0]), text)


def any_of(rows: Iterable[Pattern]) -> str:
    """Return a group that matches any of the patterns."""
    return f"(?:{'|'.join(row.find for row in rows)})"


def any_in(data: str, *names: str) -> str:
    """Return a group that matches any pattern of these tables in `data/<data>.yaml`."""
    return any_of(row for name in names for row in tables(data)[name].values())


@cache
def _variants(kind: str) -> dict[str, str]:
    """Return variants of writing with their plain form: "characters" or "contractions"."""
    variants_of = load_data("writing")["words"][kind]
    return {variant: form for form, variants in variants_of.items() for variant in variants}


@cache
def _characters() -> dict[str, str]:
    """Return characters with their plain form: typographic variants, full-width and styled letters."""
    full_width = {chr(ord(letter) + _FULL_WIDTH): letter for letter in ascii_letters}
    return _variants("characters") | full_width | _styled()


def _styled() -> dict[str, str]:
    """Return the letters and digits of mathematical alphabets with their plain form.

    These alphabets are bold, italic, sans-serif and others.
    """
    plain_forms: dict[str, str] = {}
    for code in (*range(0x210A, 0x2135), *range(0x1D400, 0x1D800)):
        form = normalize("NFKC", chr(code))
        if form.isascii() and form.isalnum() and len(form) == 1:
            plain_forms[chr(code)] = form
    return plain_forms


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
    """Return the answer without special tokens and without the thinking of any model family.

    The text is "" if no answer follows the thinking.
    """
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
    """Count the wanted words in the column `words`, in which each word has a blank on each side."""
    # The order of the alternatives does not matter, because each match includes the blank after the word.
    pattern = "|".join(re.escape(word) for word in sorted(set(wanted) - {""})) or NOTHING
    return col.words.str.count_matches(f" (?:{pattern}) ")


def ascii_text(text: Expr) -> Expr:
    """Return the text in ASCII.

    Letters with accents or of other scripts become "x", other characters outside ASCII become blanks. The
    phrases to find are English, and regular expressions are much faster on ASCII text (word borders need
    no Unicode tables).
    """
    return text.str.replace_all(r"[\p{L}\p{M}&&[^\x00-\x7f]]", "x").str.replace_all(r"[^\x00-\x7f]", " ")


def lowered(text: Expr) -> Expr:
    """Return the text in lower case and ASCII (see `ascii_text`), with contractions written out.

    "don't" and "dont" become "do not".
    """
    lower = ascii_text(text.str.to_lowercase()).str.replace_many(_variants("contractions"), leftmost=True)
    return rewritten(lower, tables("writing")["short"].values())


def text_table(answer: Series, **factors: Series) -> DataFrame:
    """Return a table with the columns `text` and `blank`, and one column per factor.

    `text` is plain and never null; `blank` says whether the answer is blank.
    """
    text = without_thinking(col.text.fill_null("")).str.replace_many(_characters())
    table = DataFrame({"text": answer.cast(String), **factors}).with_columns(text)
    return table.with_columns(_unmarked(col.text), blank=col.text.str.strip_chars() == "")
