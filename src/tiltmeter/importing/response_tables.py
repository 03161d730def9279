"""Tables of responses and texts generated elsewhere, and folders of texts, converted to a common format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col

from tiltmeter.errors import InputError, check_known, did_you_mean
from tiltmeter.features.scoring import LARGEST
from tiltmeter.files.paths import is_file
from tiltmeter.files.reading import ROW_TYPE, json_of, table_of, why
from tiltmeter.files.tables import ROW, UserTable
from tiltmeter.sanitising import not_utf8
from tiltmeter.schema import conform

ROWS = {"prompt_id": String, "prompt": String, "model": String, "repetition": Int64, "answer": String}
"""Columns of a table of responses after reading; null if the file lacks them."""
REPETITIONS = range(2**15)
"""Range of the column `repetition` of RESPONSES."""
GIVEN = "given:"
"""Beginning of the names of columns with the values of several columns, before they are joined to one name.
"""
_JOINED = ("identity", "pair")
_BETWEEN = "\x1f"
_BEGINNING = 4096
"""Number of bytes of a file from which its kind is found."""

_ALIASES = {
    "answer": ("answer", "response", "completion", "output", "text"),
    "prompt": ("prompt", "question", "input"),
    "repetition": ("repetition", "repetition_id", "sample", "epoch"),
}


@dataclass(frozen=True, eq=False)
class TableInMemory:
    """A table in memory, accepted in place of a path."""

    rows: DataFrame
    stem: str = "table"
    place: str = "the table"

    def __str__(self) -> str:
        return self.place

    @cached_property
    def sha256(self) -> str:
        """The digest of its columns and values."""
        return hashlib.sha256(self.rows.write_ipc(None).getvalue()).hexdigest()


Source = Path | TableInMemory
"""Where rows come from."""


@dataclass(frozen=True, slots=True)
class TextColumns:
    """The roles of columns in the user's tables; several identity columns are combined ("Asian, female").

    Attributes
    ----------
    text
        The texts; None if only values of features are given.
    location, name
        The setting of a text and the person it is about (associations).
    baseline
        The text that each one is compared with (benchmarks).
    pair
        The columns that identify the same prompt, or the texts that belong together, for several groups.
    cluster
        What texts have in common that makes them dependent, such as the author (associations).
    feature
        Values measured elsewhere (benchmarks).
    """

    text: str | None
    identity: Sequence[str]
    location: str | None = None
    name: str | None = None
    baseline: str | None = None
    pair: Sequence[str] = ()
    feature: Sequence[str] = ()
    cluster: str | None = None


def texts_in(folder: Path) -> TableInMemory:
    """Return the text files (`.txt`) of a folder as a table: `text`, `group` (the subfolder, empty if none) and `file`."""
    paths = sorted(path for path in folder.rglob("*.txt") if path.is_file())
    if not paths:
        raise InputError(
            f"{folder} is a folder without text files; it needs one subfolder for each"
            " group, with files that end in .txt"
        )
    rows = []
    for path in paths:
        place, content = path.relative_to(folder), path.read_bytes()
        if encoding := not_utf8(content):
            raise InputError(f"{path} cannot be read: {encoding}")
        rows.append(
            (content.decode("utf-8-sig"), place.parts[0] if len(place.parts) > 1 else None, str(place))
        )
    table = DataFrame(rows, schema={"text": String, "group": String, "file": String}, orient="row")
    return TableInMemory(table, folder.resolve().name, str(folder))


def read_responses(path: Source) -> DataFrame:
    """Return the rows of a file with the columns ROWS and their row numbers.

    Raise InputError with the file and the error in it.
    """
    table = _read_file(path, [*ROWS, *(alias for aliases in _ALIASES.values() for alias in aliases)])
    for name, aliases in _ALIASES.items():
        if found := next((alias for alias in aliases if alias in table.columns), None):
            table = table.rename({found: name})
    if "answer" not in table.columns:
        close = did_you_mean("answer", table.columns)
        raise InputError(
            f"{path} has no column 'answer' ({close}); name the column that holds the model's text 'answer'"
        )
    if "prompt_id" not in table.columns and "prompt" not in table.columns:
        raise InputError(
            f"{path} has neither a column 'prompt_id' nor 'prompt'; `tiltmeter plan STUDY --prompts FILE`"
            " writes both; for texts of your own, add --text COLUMN --group COLUMN"
        )
    if "repetition" in table.columns:
        numbers = col.repetition.cast(String).cast(Float64, strict=False)
        wrong = col.repetition.is_not_null() & ~(
            numbers.is_between(0, REPETITIONS[-1]) & (numbers == numbers.floor())
        ).fill_null(False)
        UserTable.of(path, table).refuse(
            wrong, "repetition", f"is not a whole number from 0 to {REPETITIONS[-1]:,}"
        )
        table = table.with_columns(numbers)
    return conform(UserTable.of(path, table).rows, {**ROWS, ROW: ROW_TYPE})


def read_texts(path: Source, columns: TextColumns) -> DataFrame:
    """Return the rows of a file: `text`, `identity`, the other columns of TextColumns, `model`, `prompt`, `value:FEATURE` and `ROW`.

    For several columns of groups or pairs, their values are in the columns GIVEN.
    A feature whose values are all true or false is a decision and stays Boolean.
    """
    chosen = {
        flag: [given] if isinstance(given, str) else list(given or ())
        for flag, given in asdict(columns).items()
    }
    table = _read_file(path, [column for names in chosen.values() for column in names])
    flags: dict[str, str] = {}
    for flag, names in chosen.items():
        option = "--group" if flag == "identity" else f"--{flag}"
        for column in names:
            check_known(column, table.columns, f"{option} {column}: {path} has no such column")
            other = flags.setdefault(column, option)
            if other != option and {option, other} & {"--text", "--group"}:
                raise InputError(f"{other} and {option} name the same column {column!r}; omit one of them")
    values = {}
    for name in chosen.pop("feature"):
        words = table[name].cast(String).str.to_lowercase()
        if words.count() and words.drop_nulls().is_in(["true", "false"]).all():
            values[f"value:{name}"] = words == "true"  # decisions
            continue
        numbers = _numbers(table[name])
        UserTable.of(path, table).refuse(
            col(name).is_not_null() & numbers.is_null(),
            name,
            "is not a number; correct it, or leave it empty",
        )
        UserTable.of(path, table).refuse(
            numbers.abs() > LARGEST,
            name,
            f"is more than {LARGEST:g}; correct it, leave it empty, or scale the column",
        )
        values[f"value:{name}"] = numbers.fill_nan(None)
    plain = [
        name for name in ("model", "prompt") if name in table.columns and not table.schema[name].is_nested()
    ]
    chosen |= {name: [name] for name in plain}
    texts = {
        flag: pl.concat_str([col(one).cast(String) for one in names], separator=", ")
        for flag, names in chosen.items()
        if names
    }
    texts["identity"] = pl.concat_str(
        [col(one).cast(String).str.strip_chars() for one in columns.identity], separator=", "
    )
    for role in _JOINED:
        if len(chosen[role]) > 1:
            given = [col(one).cast(String).str.strip_chars() for one in chosen[role]]
            values[f"{GIVEN}{role}"] = table.select(pl.concat_str(given, separator=_BETWEEN)).to_series()
    wanted = ("identity", "pair", "text", "location", "name", "cluster", "baseline", "model", "prompt")
    rows = conform(table.select(**texts), dict.fromkeys(wanted, String)).with_columns(
        UserTable.of(path, table).rows[ROW], **values
    )
    UserTable.of(path, table).refuse_empty(columns.identity)
    return rows


def refuse_joined_alike(rows: DataFrame, place: str) -> DataFrame:
    """Return rows of `read_texts` without the columns GIVEN.

    Raise InputError if different values of several columns are joined alike.
    """
    for role in _JOINED:
        given = f"{GIVEN}{role}"
        if given not in rows.columns:
            continue
        alike = (
            rows.select(role, given)
            .drop_nulls()
            .unique(maintain_order=True)
            .filter(col(role).is_duplicated())
        )
        if alike.height:
            first, second = alike.filter(pl.col(role) == alike[role][0])[given].head(2)
            shown = [
                " and ".join(repr(value) for value in values.split(_BETWEEN)) for values in (first, second)
            ]
            option = "--group" if role == "identity" else f"--{role}"
            raise InputError(
                f"{place}: the columns of {option} give the same name {alike[role][0]!r} to {shown[0]}, and"
                f" to {shown[1]}; write the values without a comma and a blank"
            )
    return rows.select(pl.exclude(f"^{GIVEN}.*$"))


def _numbers(written: Series) -> Series:
    """Return the numbers in a column, null where a value is not a number.

    Commas are decimal ones if they cannot separate thousands.
    """
    numbers = written.cast(Float64, strict=False)
    if numbers.null_count() == written.null_count() or written.dtype != String:
        return numbers
    values = written.drop_nulls().str.strip_chars()
    if (
        values.str.contains(r"^[+-]?[0-9]+(?:,[0-9]+)?$").all()
        and values.str.contains(r",(?:[0-9]{1,2}|[0-9]{4,})$|^[+-]?0,").any()
    ):
        return written.str.replace(",", ".", literal=True).str.strip_chars().cast(Float64, strict=False)
    return numbers


def _read_file(path: Source, wanted: Collection[str]) -> DataFrame:
    """Return the rows of a file with all its columns; the columns `wanted` must contain text or numbers."""
    if isinstance(path, TableInMemory):
        table = path.rows
    elif not is_file(path):
        raise InputError(
            f"{path} is a folder; name the file" if path.is_dir() else f"there is no file {path}"
        )
    else:
        table = table_of(
            path, dict.fromkeys((".json", ".jsonl", ".ndjson"), partial(_read_objects, wanted=wanted))
        )
    if table.is_empty():
        raise InputError(f"{path} has no rows; it needs one for each response")
    UserTable.of(path, table).demand(name for name in table.columns if name in wanted)
    return table


def _read_objects(path: Path, wanted: Collection[str]) -> DataFrame:
    """Read JSON Lines or a JSON list of objects.

    Check each value, because text and objects in one column would both become text.
    """
    rows: list[dict[str, str | None]] = []
    for place, row in _objects(path):
        if not isinstance(row, dict):
            raise InputError(
                f"{place} is not an object such as {{'prompt': ..., 'answer': ...}}; write"
                " one object per line (JSON Lines)"
            )
        for name, value in row.items():
            if name in wanted and isinstance(value, (dict, list)):
                kind = "an object" if isinstance(value, dict) else "a list"
                raise InputError(f"{place}: {name!r} is {kind}, not text; give the text itself")
        rows.append(
            {
                name: value if value is None or isinstance(value, str) else json.dumps(value)
                for name, value in row.items()
            }
        )
    return DataFrame(rows, schema=dict.fromkeys((name for row in rows for name in row), String))


def _objects(path: Path) -> Iterator[tuple[str, object]]:
    """Yield the place and the content of each line of a JSON Lines file, or of each entry of a JSON list."""
    if is_json_list(path):
        try:
            entries = json_of(path.read_bytes())
        except (ValueError, RecursionError) as error:
            if path.suffix.lower() == ".json":
                raise InputError(f"{path} is not valid JSON ({why(error)}); correct it") from None
        else:
            yield from ((f"{path}, entry {number}", entry) for number, entry in enumerate(entries, 1))
            return
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            place = f"{path}, line {number}"
            try:
                yield place, json_of(line)
            except (ValueError, RecursionError) as error:
                if line.strip() in ("[", "{"):
                    raise InputError(
                        f"{path} is one JSON value over several lines; write one object per line (JSON Lines)"
                    ) from None
                raise InputError(f"{place} is not valid JSON ({error}); correct that line") from None


def is_json_list(path: Path) -> bool:
    """Return whether a file holds a JSON list over one or several lines, not JSON Lines; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING).removeprefix(b"\xef\xbb\xbf").lstrip()
    except (OSError, ValueError):
        return False
    return beginning.startswith(b"[")
