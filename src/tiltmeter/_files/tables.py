"""Checks of tables from users; every message names the file, the row as in a spreadsheet, and the column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
from polars import DataFrame, Expr, Float64, Int64, Series, String, col, selectors as cs

from tiltmeter._files.paths import is_file
from tiltmeter._files.reading import ROW as ROW, ROW_TYPE, table_of, why
from tiltmeter.errors import InputError, check_known

_MONTHS: Final = (
    r"jan|feb|mar|mär|mrz|apr|may|mai|jun|jul|aug|sep|sept|oct|okt|nov|dec|dez"
    r"|janv|févr|mars|avr|juin|juil|août|déc"
    r"|ene|abr|ago|dic"
    r"|giu|lug|ott"
)
"""Short names of months in English and German, French, Spanish and Italian."""
_DATE: Final = (
    rf"(?i)^(?:\d{{1,2}}[-. /]{{1,2}}(?:{_MONTHS})\.?(?:[-. /]{{1,2}}\d{{2,4}})?"
    rf"|(?:{_MONTHS})\.?[-. /]\d{{1,4}}"
    r"|\d{4}-\d{2}-\d{2}(?:[ T]00:00:00(?:\.0+)?)?"
    r"|\d{1,2}[./]\d{1,2}[./]\d{2,4})$"
)
_SPREADSHEETS: Final = (".csv", ".tsv", ".xlsx")
_DATES_IN_NOTE: Final = 5
"""Maximum number of dates quoted in a note."""


@dataclass(frozen=True, slots=True)
class UserTable:
    """A table from a user with the row numbers in ROW.

    Parameters
    ----------
    place
        Name of the file in messages.
    """

    place: str
    rows: DataFrame

    @classmethod
    def of(cls, place: object, table: DataFrame) -> UserTable:
        """Return a table with row numbers.

        The first is 2 if the extension of `place` is that of a spreadsheet, and 1 otherwise.
        """
        name = str(place)
        if table.schema.get(ROW) == ROW_TYPE:
            return cls(name, table)
        is_spreadsheet = name.lower().removesuffix(".gz").endswith(_SPREADSHEETS)
        first = 2 if is_spreadsheet else 1
        return cls(name, table.drop(ROW, strict=False).with_row_index(ROW, first))

    def demand(self, columns: Iterable[str], *, lists: bool = False, rest: str = "") -> None:
        """Raise InputError for the first of `columns` that is missing or does not contain values.

        Parameters
        ----------
        lists
            Whether a column may contain lists of values.
        rest
            End of the message about a missing column.
        """
        names = [column for column in self.rows.columns if column != ROW]
        for name in columns:
            check_known(name, names, f"{self.place} has no column {name!r}", rest)
            kind = self.rows.schema[name]
            is_allowed_list = lists and isinstance(kind, pl.List)
            if kind in (pl.Binary, pl.Duration, pl.Object) or (kind.is_nested() and not is_allowed_list):
                raise InputError(
                    f"{self.place}, column {name!r} contains {kind} instead of text; convert it to text"
                )

    def refuse(self, wrong: Expr | Series, column: str, what: str) -> None:
        """Raise InputError for the value in `column` of the first row for which `wrong` is true."""
        invalid = self.rows.filter(wrong)
        if not invalid.is_empty():
            value = invalid[column][0]
            raise InputError(f"{self.place}, row {invalid[ROW][0]}, column {column!r}: {value!r} {what}")

    def refuse_empty(self, columns: Iterable[str]) -> None:
        """Raise InputError for the first empty value in `columns`."""
        for column in columns:
            empty = self.rows.filter(col(column).cast(String).str.strip_chars().fill_null("") == "")
            if empty.height:
                raise InputError(
                    f"{self.place}, row {empty[ROW][0]}, column {column!r} is"
                    " empty; fill it in or remove the row"
                )

    def refuse_repeats(self, columns: Sequence[str]) -> None:
        """Raise InputError if two rows have the same values in `columns`."""
        numbered = self.rows.with_columns(earlier=col(ROW).first().over(columns))
        repeats = numbered.filter(col(ROW) != col.earlier)
        if not repeats.is_empty():
            row = repeats.row(0, named=True)
            values = ", ".join(f"{row[name]!r}" for name in columns)
            raise InputError(
                f"{self.place}, row {row[ROW]} repeats row {row['earlier']}: {values} may occur only once"
            )

    def numbers(self, column: str, *, low: float, high: float, whole: bool = False) -> Series:
        """Return a column as finite numbers in [low, high], or as whole numbers.

        Raise InputError for any other value.
        """
        self.demand((column,))
        values = self.rows[column].str.strip_chars().cast(Float64, strict=False)
        is_valid = (values >= low) & (values <= high) & values.is_finite()
        if whole:
            is_valid &= values.floor() == values
        kind = "whole number" if whole else "number"
        span = f"from {low:g} to {high:g}" if high < float("inf") else f"of at least {low:g}"
        self.refuse(~is_valid.fill_null(False), column, f"is not a {kind} {span}")
        return values.cast(Int64) if whole else values

    def only(self, kept: Expr | Series) -> UserTable:
        """Return some of the rows."""
        return UserTable(self.place, self.rows.filter(kept))


def read_user_table(path: Path) -> UserTable:
    """Read a CSV, JSON Lines or Parquet file, with all values as text ("" for missing ones) or lists.

    Raises
    ------
    InputError
        The file does not exist, cannot be read, or contains no records.
    """
    if not is_file(path):
        reason = ": it is a folder" if path.is_dir() else ""
        raise InputError(f"there is no file {path}{reason}")
    try:
        table = table_of(path).with_columns((~cs.nested()).cast(String).fill_null(""))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} cannot be read: {why(error)}") from error
    if table.is_empty():
        raise InputError(f"{path} contains no rows")
    return UserTable.of(path, table)


def dates_among(place: object, groups: Series) -> str | None:
    """Return a note about groups that look like dates; None if there are none.

    Spreadsheets turn names such as "10-12" into dates.
    """
    names = groups.drop_nulls().unique(maintain_order=True)
    dates = names.filter(names.str.strip_chars().str.contains(_DATE))
    if dates.is_empty():
        return None
    examples = ", ".join(repr(date) for date in dates.head(_DATES_IN_NOTE))
    if len(dates) > _DATES_IN_NOTE:
        examples += ", ..."
    return (
        f"{place}: the groups include dates ({examples});"
        " if a spreadsheet made them from other names such as 10-12, format the column as"
        " text and enter the names again"
    )
