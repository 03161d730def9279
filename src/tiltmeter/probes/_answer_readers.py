"""Readers of answers, for the default and for the published definition, and lettered options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import polars as pl
from polars import DataFrame, Expr, Int32, Series, col, lit, when

from tiltmeter import readers
from tiltmeter.readers import _genderbench as genderbench
from tiltmeter.readers.outcomes import verdict

LETTERS: Final = "abcde"

Reader = Callable[[DataFrame], DataFrame]
"""Function from answers (`answer` and the factors) to `outcome`, `label` and further columns, row by row."""


class Readers(NamedTuple):
    """The readers of a probe."""

    tolerant: Reader
    """Accepts any usual form of an answer."""
    strict: Reader
    """Accepts only the exact forms of the published code."""


def strict_reader(label: Callable[..., Series], *known: Any) -> Reader:
    """Return a reader that labels texts with this function.

    Texts without a label are unreadable, blank texts are empty.
    """
    return lambda answers: outcomes_of_labels(answers, label(answers["answer"], *known))


def outcomes_of_labels(answers: DataFrame, labels: Series) -> DataFrame:
    """Return outcome and label of answers with these labels (null: no label)."""
    table = DataFrame({"blank": answers["answer"].fill_null("").str.strip_chars() == "", "label": labels})
    return verdict(table, col.label, refused=lit(False))


def yes_no_readers(about: Literal["statement", "decision", "stress"]) -> Readers:
    """Return readers of yes-or-no answers to questions about a statement, a decision or stress."""
    return Readers(
        tolerant=lambda answers: readers.read_yes_no(answers["answer"], about, with_rule=True),
        strict=strict_reader(genderbench.yes_no),
    )


def choice_readers(letters: str) -> Readers:
    """Return readers of the letter of one of the `options`."""
    return Readers(
        tolerant=lambda answers: readers.read_choice(answers["answer"], answers["options"], with_rule=True),
        strict=strict_reader(genderbench.letter_choice, letters),
    )


def letter_of(label: str | Expr, options: str = "options") -> Expr:
    """Return the letter of `label` among the three entries of the list column `options`.

    Null where it is missing.
    """
    option = col(options).list
    return pl.coalesce(when(option.get(i, null_on_oob=True) == label).then(lit(LETTERS[i])) for i in range(3))


def labels_of_letters(letters: Series, options: Series) -> Series:
    """Return the labels of the options with the chosen letters (null stays null)."""
    place_of_letter = {letter: i for i, letter in enumerate(LETTERS)}
    place = col.letter.replace_strict(place_of_letter, default=None, return_dtype=Int32)
    return DataFrame({"letter": letters, "options": options}).select(
        col.options.list.get(place, null_on_oob=True)
    )["options"]
