"""Outcomes of decisions as numbers: 0 and 1, words for yes and no, a named value, or a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from polars import Expr, Float64, Series, String, col, when

from tiltmeter._files.tables import UserTable
from tiltmeter.errors import InputError

YES: Final = ("1", "1.0", "yes", "y", "true")
NO: Final = ("0", "0.0", "no", "n", "false")
"""How a table writes that a person was selected, or was not; case does not count."""
MOST_QUOTED: Final = 4


@dataclass(frozen=True, slots=True)
class OutcomeKind:
    """How the values of an outcome are read.

    Parameters
    ----------
    is_rate
        Whether a decision is either of two; otherwise it is a number.
    selected
        The value that counts as selected, in lower case; None: one of YES.
    """

    is_rate: bool
    selected: str | None = None

    def numbers(self, text: Expr) -> Expr:
        """Return the value of an outcome as an expression over its text; null if it is empty."""
        word = text.str.strip_chars().str.to_lowercase()
        is_present = text.is_not_null() & (word != "")
        if not self.is_rate:
            return word.str.replace_all(",", "", literal=True).cast(Float64, strict=False)
        is_selected = word.is_in(YES) if self.selected is None else word == self.selected
        return when(is_present).then(is_selected.cast(Float64))


def outcome_kind(table: UserTable, column: str, selected: str | None) -> OutcomeKind:
    """Return how the values of a column of decisions are read.

    Parameters
    ----------
    table
        The table, with the column as text.
    column
        The outcome.
    selected
        The value that counts as selected, if the user names it.

    Raises
    ------
    InputError
        The column is empty, has other words than yes and no, or lacks the named value.
    """
    words = table.rows[column].cast(String).str.strip_chars().str.to_lowercase()
    values = words.filter(words != "").unique(maintain_order=True)
    if not len(values):
        raise InputError(f"{table.place}: the column {column!r} is empty; name that of the decisions")
    if selected is not None:
        wanted = selected.strip().lower()
        if wanted not in values:
            raise InputError(
                f"{table.place}: no row has {selected!r} in the column {column!r}, which has"
                f" {_quoted(values)}; name the value that counts as selected with --label"
            )
        return OutcomeKind(is_rate=True, selected=wanted)
    if values.is_in([*YES, *NO]).all():
        return OutcomeKind(is_rate=True)
    numbers = values.str.replace_all(",", "", literal=True).cast(Float64, strict=False)
    if numbers.is_finite().fill_null(value=False).all():
        return OutcomeKind(is_rate=False)
    if len(values) == 2:
        remedy = f"name the one that counts as selected: --label {values[0]!r}, or --label {values[1]!r}"
        raise InputError(f"{table.place}: the column {column!r} has the values {_quoted(values)}; {remedy}")
    known = col(column).cast(String).str.strip_chars().str.to_lowercase()
    wrong = (known != "") & ~known.is_in([*YES, *NO]) & known.cast(Float64, strict=False).is_null()
    table.refuse(
        wrong,
        column,
        "is neither 0 or 1, yes or no, true or false, nor a number; correct it, leave it empty, or name the "
        "value that counts as selected with --label",
    )
    raise InputError(f"{table.place}: the column {column!r} mixes numbers that cannot be compared")


def _quoted(values: Series) -> str:
    """Return the first values in quotes."""
    quoted = ", ".join(repr(value) for value in values.head(MOST_QUOTED))
    return quoted + (", ..." if len(values) > MOST_QUOTED else "")
