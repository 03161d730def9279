"""Reading of external tables, with the errors of Polars reported as one-line messages."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl
from polars import DataFrame, selectors as cs

from tiltmeter._files.unpacking import check_workbook, unpack_gzip
from tiltmeter._sanitising import not_utf8, shortened, storable
from tiltmeter.errors import InputError

UNREADABLE: Final = (OSError, UnicodeError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""Exceptions raised when a table cannot be read. Polars panics are listed because they do not derive from
`Exception`."""

ROW: Final = "row number"
"""Column with the row number: in a spreadsheet (CSV, Excel), the header is row 1, and the first record is row
2; elsewhere it is row 1.

A table that is read has this column only if empty rows were omitted.
"""
ROW_TYPE: Final = pl.UInt32
"""Type of the column `ROW`; a column of the user with this name has another type."""

MOST_ROWS: Final = 2**24
"""Maximum number of rows of a Parquet file."""
LARGEST_TABLE: Final = 2**32
"""Maximum size in memory, in bytes, of a Parquet file, as estimated from its first rows."""
_FIRST_ROWS: Final = 1000
"""Number of rows from which the size of a Parquet file is estimated."""
_LONGEST_MESSAGE: Final = 300
_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""Separators of values in a CSV file, with their names."""
_SAMPLE: Final = 2**16
"""Number of characters of a CSV file from which its separator is determined."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_EMPTY_LINES: Final = re.compile(r"(?:[\s,;|]*\n)?")
"""Lines before the names of the columns: empty, or with separators only."""
_DECLARED: Final = re.compile(r"sep=([!#-/:-@|~\t])\r?\n", re.IGNORECASE)
"""First line with which a spreadsheet declares the separator."""
_DUPLICATE_SUFFIX: Final = re.compile(r"_duplicated_\d+$")
"""Suffix that Polars appends to duplicate column names."""
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def why(error: BaseException) -> str:
    """Return the first line of an error message."""
    if isinstance(error, pl.exceptions.PanicException):
        return "its contents contradict each other"
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:_LONGEST_MESSAGE]


def json_of(given: str | bytes) -> Any:
    """Parse JSON text.

    Lone surrogates (as left by a truncated emoji) become U+FFFD, because files cannot store them.

    Raises
    ------
    ValueError, RecursionError
        The text is not valid JSON or not UTF-8.
    """
    text = given.decode("utf-8-sig") if isinstance(given, bytes) else given
    value = json.loads(text)
    if _SURROGATE.search(text):
        return json.loads(storable(json.dumps(value, ensure_ascii=False)))
    return value


def unreadable(path: Path, error: BaseException) -> str:
    """Return the reason why a file cannot be read, as the end of a sentence."""
    if path.is_dir():
        return "it is a folder; name the file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if path.suffix.lower() == ".parquet":
        return why(error) if path.read_bytes()[:4] == b"PAR1" else "it is not a Parquet file"
    if encoding := not_utf8(path.read_bytes()):
        return encoding
    return why(error)


Reader: TypeAlias = Callable[[Path], DataFrame]


def table_of(path: Path, own: Mapping[str, Reader] | None = None) -> DataFrame:
    """Read a CSV, TSV or Excel file (with all values as text), or a JSON, JSON Lines or Parquet file.

    Any of them may be compressed (`.csv.gz`). Blanks around names of columns are omitted.

    Parameters
    ----------
    own
        Additional or replacement readers by file extension.

    Raises
    ------
    InputError
        The extension is unknown, or the file cannot be read.
    """
    if path.suffix.lower() == ".gz":
        return _table_of_gzip(path, own)
    json_lines = partial(pl.read_ndjson, infer_schema_length=None)
    readers: dict[str, Reader] = {
        ".csv": csv_of,
        ".tsv": csv_of,
        ".xlsx": _excel_of,
        ".parquet": _parquet_of,
        ".json": _json_of_file,
        ".jsonl": json_lines,
        ".ndjson": json_lines,
        **(own or {}),
    }
    extension = path.suffix.lower()
    reader = readers.get(extension)
    if reader is None:
        raise InputError(f"{path}: unknown file extension {extension!r}; use one of {', '.join(readers)}")
    try:
        return _with_plain_names(path, reader(path))
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read: {unreadable(path, error)}") from error


def _with_plain_names(path: Path, table: DataFrame) -> DataFrame:
    """Return a table without blanks around the names of its columns."""
    names = [name.strip() for name in table.columns]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path} has the column {name!r} twice; rename or remove one of them")
    return table.rename(dict(zip(table.columns, names, strict=True)))


def _table_of_gzip(path: Path, own: Mapping[str, Reader] | None) -> DataFrame:
    """Read a compressed table."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.stem
        try:
            unpack_gzip(path, plain)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {unreadable(path, error)}") from error
        except EOFError as error:
            raise InputError(f"{path} cannot be read: {error}") from error
        try:
            return table_of(plain, own)
        except InputError as error:
            raise InputError(str(error).replace(str(plain), str(path))) from None


def _excel_of(path: Path) -> DataFrame:
    """Read the first visible sheet of an Excel file, with all values as text; sheets before it get a note."""
    try:
        from fastexcel import FastExcelError, read_excel
    except ImportError as error:
        raise InputError(
            f'{path}: Excel files need another package: pip install "tiltmeter[excel]";'
            " or save the sheet as CSV"
        ) from error
    index = check_workbook(path)
    try:
        workbook = read_excel(path)
        table: DataFrame = workbook.load_sheet(index, dtypes="string").to_polars()
    except FastExcelError as error:
        raise InputError(f"{path} cannot be read: it is not an Excel workbook, or it is damaged") from error
    if index:
        sheet = shortened(workbook.sheet_names[index], _LONGEST_MESSAGE)
        hidden = shortened(", ".join(workbook.sheet_names[:index]), _LONGEST_MESSAGE)
        print(
            f"note: {path}: the sheet {sheet!r} is read; hidden sheets before it are not ({hidden})",
            file=sys.stderr,
        )
    return _filled(table, r"__UNNAMED__\d+")


def _filled(table: DataFrame, unnamed: str, above: int = 0) -> DataFrame:
    """Return a table without its empty rows and its empty columns without a name.

    If rows are omitted, or were above the names of the columns, the column `ROW` has the numbers of the
    other rows.

    Parameters
    ----------
    unnamed
        Pattern of the names that a reader gives to columns without a name.
    above
        Number of rows of the spreadsheet above the names of the columns.
    """
    empty = [
        name
        for name in table.columns
        if re.fullmatch(unnamed, name) and table[name].null_count() == table.height
    ]
    table = table.drop(empty)
    if not table.width:
        return table
    is_empty = table.select(pl.all_horizontal(cs.string().str.strip_chars().fill_null("") == "")).to_series()
    if not is_empty.any() and not above:
        return table
    return table.drop(ROW, strict=False).with_row_index(ROW, 2 + above).filter(~is_empty)


def _parquet_of(path: Path) -> DataFrame:
    """Read a Parquet file if the table fits into memory.

    A value that is repeated takes hardly any space in the file, but does in memory.
    """
    lazy = pl.scan_parquet(path, glob=False)
    height = lazy.select(pl.len()).collect().item()
    beginning = lazy.head(_FIRST_ROWS).collect()
    text_bytes = sum(int(column.str.len_bytes().sum()) for column in beginning.select(cs.string()))
    size_per_row = (beginning.estimated_size() + text_bytes) / max(beginning.height, 1)
    size = height * size_per_row
    if height > MOST_ROWS or size > LARGEST_TABLE:
        raise InputError(
            f"{path} has {height:,} rows, which take about {size / 2**30:,.1f} GiB; at most {MOST_ROWS:,}"
            f" rows and {LARGEST_TABLE >> 30} GiB are read: split the table"
        )
    return lazy.collect()


def _json_of_file(path: Path) -> DataFrame:
    """Read a JSON file with a list of objects."""
    if not path.read_text(encoding="utf-8-sig").lstrip().startswith("["):
        raise InputError(
            f"{path} is not a list of objects such as [{{'prompt': ..., 'answer': ...}}];"
            " write one object for each row"
        )
    return pl.read_json(path, infer_schema_length=None)


def csv_of(path: Path) -> DataFrame:
    """Read a CSV file with all values as text.

    Raises InputError if it is not valid CSV, and the exceptions of `UNREADABLE` otherwise.
    """
    content = path.read_bytes()
    _refuse_other_contents(path, content)
    content = content.removeprefix(_BYTE_ORDER_MARK)
    layout = _layout_of(path)
    line_end = "\n" if b"\n" in content else "\r"
    content = _with_doubled_quotes(path, content, layout.separator, line_end)
    try:
        table = pl.read_csv(
            content,
            infer_schema=False,
            separator=layout.separator,
            skip_lines=layout.skipped_lines,
            eol_char=line_end,
        )
    except pl.exceptions.ComputeError as error:
        raise InputError(f"{path} cannot be read: {_why_not_csv(path, error, layout.separator)}") from error
    table = _filled(table, rf"\s*({_DUPLICATE_SUFFIX.pattern})?", layout.skipped_rows)
    for name in table.columns:
        original = _DUPLICATE_SUFFIX.sub("", name)
        if original != name and original in table.columns:
            raise InputError(f"{path} has the column {original!r} twice; rename or remove one of them")
    return _with_plain_names(path, table)


def _refuse_other_contents(path: Path, content: bytes) -> None:
    """Raise InputError if a CSV file is empty, contains JSON, or is not UTF-8 text."""
    beginning = content[:_LONGEST_MESSAGE].lstrip()
    if not beginning:
        raise InputError(f"{path} cannot be read: it is empty; its first line must contain the column names")
    if beginning.removeprefix(_BYTE_ORDER_MARK).startswith((b"{", b"[")):
        raise InputError(
            f"{path} contains JSON, not comma-separated values; write one object per line"
            " to a file that ends in .jsonl"
        )
    encoding = not_utf8(content)
    if encoding:
        raise InputError(f"{path} cannot be read: {encoding}")


class _Layout(NamedTuple):
    """How the values of a CSV file are arranged."""

    separator: str
    skipped_lines: int
    """Number of lines before the names of the columns."""
    skipped_rows: int
    """Number of these lines that are rows of the spreadsheet; a declared separator is not a row."""


def _layout_of(path: Path) -> _Layout:
    """Return the layout of a CSV file.

    The separator is the one that divides the first line into several names. If several do, it is the first
    that divides all lines alike; a comma if none does. In a TSV file, tabs come first.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        sample = file.read(_SAMPLE)
    declaration = _DECLARED.match(sample)
    if declaration:
        return _Layout(declaration[1], skipped_lines=1, skipped_rows=0)
    blank = _EMPTY_LINES.match(sample).end()  # type: ignore[union-attr]  # it matches every text
    lines = sample.count("\n", 0, blank)
    separators = list(_SEPARATORS)
    if path.suffix.lower() == ".tsv":
        separators.sort(key=lambda separator: separator != "\t")
    widths = {separator: _widths(sample[blank:], separator) for separator in separators}
    dividing = [separator for separator in separators if widths[separator] and widths[separator][0] > 1]
    if len(dividing) > 1:
        alike = [separator for separator in dividing if len(set(widths[separator])) == 1]
        dividing = alike or dividing
    separator = dividing[0] if dividing else ","
    return _Layout(separator, skipped_lines=lines, skipped_rows=lines)


def _with_doubled_quotes(path: Path, content: bytes, separator: str, end: str) -> bytes:
    """Return a CSV text in which every quotation mark within a value is doubled.

    Every value with a quotation mark is in quotation marks. Polars would merge or alter rows otherwise. A
    value that does not start with a quotation mark is taken as it is (6" tall).

    Raises
    ------
    InputError
        A value starts with a quotation mark, and the next single one is not at its end, so that its end is
        unknown.
    """
    if b'"' not in content:
        return content
    mark = re.escape(separator.encode())
    line_end = end.encode()
    after = rb"(?:%b|\r?%b)" % (mark, line_end)
    quoted = rb'"[^"]*+(?:""[^"]*+)*+"(?=%b|\Z)' % after
    without_quotes = rb'[^"%b%b]*+' % (mark, line_end)
    plain_value = rb"(?:%b|%b)" % (quoted, without_quotes)
    if re.match(rb"(?:%b%b)*+%b\Z" % (plain_value, after, plain_value), content):
        return content
    value = rb'(?:%b|(?!")[^%b%b]*+)' % (quoted, mark, line_end)
    complete = re.match(rb"(?:%b%b)*+" % (value, after), content)
    place = complete.end()  # type: ignore[union-attr]  # it matches every text
    if not re.compile(rb"%b\Z" % value).match(content, place):
        number = content.count(line_end, 0, place) + 1
        raise InputError(
            f"{path} cannot be read: line {number}: a value starts with a quotation mark, and the next one is"
            " not at its end; close the quotation mark, or double it within a value"
        )
    return re.compile(rb"%b|[^%b%b]++" % (quoted, mark, line_end)).sub(_in_quotes, content)


def _in_quotes(value: re.Match[bytes]) -> bytes:
    """Return a value in quotation marks if it contains one and is not in them."""
    text = value[0]
    if text.startswith(b'"') or b'"' not in text:
        return text
    plain = text.removesuffix(b"\r")
    return b'"%b"%b' % (plain.replace(b'"', b'""'), text[len(plain) :])


def _widths(sample: str, separator: str) -> Sequence[int]:
    """Return the number of values in each complete record of the beginning of a file, without blank lines."""
    try:
        widths = [
            len(row) for row in csv.reader(sample.splitlines(keepends=True), delimiter=separator) if row
        ]
    except csv.Error:
        return []
    is_cut_off = len(sample) == _SAMPLE and len(widths) > 1
    return widths[:-1] if is_cut_off else widths


def _why_not_csv(path: Path, error: BaseException, separator: str) -> str:
    """Return the reason why a CSV file cannot be read: the first line with too many values, or the error."""
    with path.open(encoding="utf-8-sig", newline="") as file, contextlib.suppress(csv.Error):
        width = 0
        reader = csv.reader(file, delimiter=separator)
        for row in reader:
            width = width or len(row)
            if len(row) > width:
                name = _SEPARATORS.get(separator, repr(separator))
                remedy = f"put quotes around values with {name}"
                return f"line {reader.line_num} has {len(row)} values for {width} columns; {remedy}"
    return why(error)
