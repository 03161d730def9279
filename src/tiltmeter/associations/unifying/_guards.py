"""What may never be one concept: a concept and its opposite, and concepts about different demographic terms or numbers.

Two guards. The *key* of a phrase holds whether it is negated by a word ("avoids", "not"), which demographic terms it holds and which
numbers ("40-year-old", "forties", "third"); phrases with different keys are never even compared. Negation inside a word ("impatient",
"careless") cannot be told from the word alone ("important" negates nothing), so it is looked for between phrases: each has signed *roots*,
and two phrases with the same root of opposite sign are kept out of one cluster, also where a third phrase would bring them together.
Opposites that are no negations ("dark", "light") are lists in `terms.yaml`.

The published definitions keep to the guards they were first given here (`strict` false): no numbers, and the short list of opposites.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter.associations.unifying._terms import Terms, plain_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["conflict", "forms_of", "found_forms", "guard_keys", "negated", "numbers_in", "signed_roots"]

_FEWEST_LETTERS = {"un": 3}
_LETTERS = 4
"""Of what is left without a prefix, lest "image" be the negation of "age"."""
_ENDING = r"^(.{3,}?)(?:fully|ful|ness|ingly|edly|ly|ing|ed|es|s)$"
_ENDINGS_AT_MOST = 3


def guard_keys(phrases: pl.Series, terms: Terms, *, strict: bool = True) -> NDArray[np.int64]:
    """A number for each phrase, the same where polarity, demographic terms and (if strict) numbers are the same; shape (phrases,)."""
    words = pl.DataFrame({"words": phrases}).select(plain_words(pl.col("words")))["words"]
    forms = forms_of(terms)
    held = found_forms(words, forms).list.eval(pl.element().replace_strict(forms, return_dtype=pl.Int64).unique().sort())
    held = held.cast(pl.List(pl.String)).list.join(" ")
    signature = pl.DataFrame({"held": held, "negated": negated(words, terms), "numbers": numbers_in(words, terms) if strict else ""})
    return signature.select(pl.struct("held", "negated", "numbers").rank("dense").cast(pl.Int64)).to_series().to_numpy()


_ONE_AS_PRONOUN = r"\b(?:no one|one another|one of|one day|one on one|any ?one|every ?one|some ?one)\b"
_NUMBERS = (
    (_ONE_AS_PRONOUN, " "),
    (r"(\d),(\d{3})\b", "${1}${2}"),
    (r"\b(\d)T (\d)U(th)?\b", "${1}${2}${3}"),
    (r"\b(\d)T(th|s)?\b", "${1}0${2}"),
    (r"\b(\d+)U(th)?\b", "${1}${2}"),
    (r"\b(\d+)(?:st|nd|rd)\b", "${1}th"),
)
"""Brings words for numbers to digits: "forty five" and "45", "fifth" and "5th", "thirties" and "30s"."""
_NUMBER = r"\b(?:0|[1-9]\d*)(?:\.\d+)?[a-z]*\b"
"""With what is written together with it ("30s", "10km"); codes ("007", "B12") are no numbers."""


def numbers_in(words: pl.Series, terms: Terms) -> pl.Series:
    """The numbers in each text (in plain words), each once and in order, in one string."""
    text = words.str.replace_all(_ONE_AS_PRONOUN, " ").str.split(" ").list.eval(pl.element().replace(terms.numbers)).list.join(" ")
    for pattern, instead in _NUMBERS:
        text = text.str.replace_all(pattern, instead)
    return text.str.extract_all(_NUMBER).list.unique().list.sort().list.join(" ")


def forms_of(terms: Terms) -> dict[str, int]:
    """The number of its term for each form, plurals in -s included; the first term with a form has it."""
    forms: dict[str, int] = {}
    for number, term in enumerate(terms.terms):
        for form in term.forms:
            forms.setdefault(form, number)
    return forms | {f"{form}s": number for form, number in forms.items() if f"{form}s" not in forms}


def found_forms(words: pl.Series, forms: Iterable[str]) -> pl.Series:
    """The forms in each text (in plain words), in the order of the text; the longest at a place counts."""
    return words.str.extract_all(_any_of(forms))


def negated(words: pl.Series, terms: Terms) -> pl.Series:
    """Whether the number of cues of negation in each text (in plain words) is odd."""
    words = words.str.replace_all(_any_of(terms.ignored), "")
    return words.str.count_matches(_any_of(terms.cues)) % 2 == 1


def _any_of(forms: Iterable[str]) -> str:
    """A pattern; without forms it matches nowhere."""
    if not (forms := list(forms)):
        return r"[^\s\S]"
    return rf"\b(?:{'|'.join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form)))})\b"


def signed_roots(phrases: pl.Series, terms: Terms, *, strict: bool = True) -> dict[int, frozenset[int]]:
    """Signed roots of the phrases by row; only of roots that occur with both signs, so most phrases have none.

    A root r is the number 2r, its negation 2r + 1. If strict, with all the opposites and prefixes of the terms.
    """
    words = pl.DataFrame({"word": phrases}).with_row_index("row").with_columns(plain_words(pl.col("word")).str.extract_all(r"[\p{L}']+"))
    words = words.explode("word").drop_nulls()
    vocabulary = words.select(pl.col("word").unique(maintain_order=True))
    affirmed = vocabulary.select("word", root=_stem(pl.col("word")), sign=0)
    pairs = _pairs(terms.opposites + (terms.further_opposites if strict else ()))
    if strict:
        affirmed = pl.concat([affirmed, _compared(vocabulary, pairs)]).unique(maintain_order=True)
    roots = pl.concat([affirmed, *_negations(vocabulary, affirmed, terms, pairs), *(_prefixed(vocabulary, terms) if strict else ())])
    both = (
        roots.group_by("root")
        .agg(pl.col("sign").n_unique())
        .filter(pl.col("sign") == 2)
        .sort("root")
        .select("root")
        .with_row_index("number")
    )
    signs = roots.join(both, on="root").select("word", signed=2 * pl.col("number").cast(pl.Int64) + pl.col("sign"))
    of_rows = words.join(signs, on="word").group_by("row").agg(pl.col("signed").unique())
    return {row: frozenset(signed) for row, signed in of_rows.iter_rows()}


def _pairs(opposites: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Stems of opposites: `root` is the negation of `opposite`."""
    pairs = pl.DataFrame(list(opposites), schema={"first": pl.String, "second": pl.String}, orient="row")
    return pairs.select(root=_stem(pl.col("second")), opposite=_stem(pl.col("first"))).unique(maintain_order=True)


def _compared(vocabulary: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Words that compare or weaken a word that has an opposite ("shorter", "darkest", "oldish"): `word`, its `root` and the sign 0."""
    bare = vocabulary.with_columns(root=_stem(pl.col("word").str.replace(r"^(.{3,}?)(?:er|est|ish)$", "${1}")), sign=0)
    known = pl.concat([pairs["root"], pairs["opposite"]]).unique()
    return bare.filter((pl.col("root") != _stem(pl.col("word"))) & pl.col("root").is_in(known.implode()))


def _prefixed(vocabulary: pl.DataFrame, terms: Terms) -> Iterator[pl.DataFrame]:
    """Words with opposed prefixes ("underpaid", "overpaid"): `word`, the one with the first prefix as `root`, and the sign."""
    word = pl.col("word")
    for first, second in terms.opposed_prefixes:
        for sign, prefix in enumerate((first, second)):
            held = vocabulary.filter(word.str.starts_with(prefix) & (word.str.len_chars() >= len(prefix) + _LETTERS))
            root = pl.concat_str(pl.lit(f"{first}-{second}-"), _stem(word.str.slice(len(prefix))))
            yield held.select("word", root=root, sign=pl.lit(sign))


def _negations(vocabulary: pl.DataFrame, affirmed: pl.DataFrame, terms: Terms, pairs: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """What words would negate, if that is a word: `word`, `root` and the sign 1."""
    word = pl.col("word")
    for prefix in terms.prefixes:
        least = len(prefix) + _FEWEST_LETTERS.get(prefix, _LETTERS)
        held = vocabulary.filter(word.str.starts_with(prefix) & (word.str.len_chars() >= least))
        yield held.select("word", root=_stem(word.str.slice(len(prefix))), sign=1)
    for suffix in terms.without:
        bare = word.str.replace(rf"^(.{{3,}}){re.escape(suffix)}(?:ly|ness)?$", "${1}")
        yield vocabulary.filter(bare != word).select("word", root=_stem(bare), sign=1)
    yield affirmed.join(pairs, on="root").select("word", root="opposite", sign=1)


def _stem(word: pl.Expr) -> pl.Expr:
    """A rough stem: "caring", "cares" and "careful" have one; "patience" and "patiently" too. It must only never miss, not be a word."""
    word = word.str.replace(r"'s$", "")
    for _ in range(_ENDINGS_AT_MOST):
        word = word.str.replace(_ENDING, "${1}")
    word = word.str.replace(r"([ae])nc[ey]$", "${1}nt").str.replace(r"bility$", "ble").str.replace(r"^(.{2,})[eiy]$", "${1}")
    doubled = (word.str.len_chars() > 2) & (word.str.tail(1) == word.str.tail(2).str.head(1))
    return pl.when(doubled).then(word.str.head(-1)).otherwise(word)


def conflict(first: Collection[int], second: Collection[int]) -> bool:
    """Whether one holds the negation of a root of the other."""
    return any(root ^ 1 in second for root in first)
