"""Tables of responses and texts generated elsewhere, and folders of texts, converted to a common format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Final, TypeAlias

import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col

from tiltmeter._files.paths import is_file
from tiltmeter._files.reading import ROW_TYPE, json_of, table_of, why
from tiltmeter._files.tables import ROW, UserTable
from tiltmeter._sanitising import not_utf8
from tiltmeter.errors import InputError, check_known, did_you_mean
from tiltmeter.features._scoring import LARGEST
from tiltmeter.schema import Schema, conform

ROWS: Final[Schema] = {
    "prompt_id": String,
    "prompt": String,
    "model": String,
    "repetition": Int64,
    "answer": String,
}
"""Columns of a table of responses after reading; null if the file lacks them."""
REPETITIONS: Final = range(2**15)
"""Range of the column `repetition` of RESPONSES."""
SEPARATE: Final = "given:"
"""Beginning of the names of columns with the values of several columns, before they are joined to one name.
"""
_JOINED: Final = ("identity", "pair")
"""Roles for which the values of several columns are joined."""
_BETWEEN: Final = "\x1f"
"""Character between values of several columns, which occurs in none."""
_BEGINNING: Final = 4096
"""Number of bytes of a file from which its kind is determined."""

_ALIASES: Final = {
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


Source: TypeAlias = Path | TableInMemory
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
    """Return the text files (`.txt`) of a folder as a table with the columns `text`, `group` and `file`.

    The group is the name of the subfolder, and null if there is none.
    """
    paths = sorted(path for path in folder.rglob("*.txt") if path.is_file())
    if not paths:
        raise InputError(
            f"{folder} is a folder without text files; it needs one subfolder for each"
            " group, with files that end in .txt"
        )
    rows = []
    for path in paths:
        content = path.read_bytes()
        if encoding := not_utf8(content):
            raise InputError(f"{path} cannot be read: {encoding}")
        place = path.relative_to(folder)
        group = place.parts[0] if len(place.parts) > 1 else None
        rows.append({"text": content.decode("utf-8-sig"), "group": group, "file": str(place)})
    table = DataFrame(rows, schema={"text": String, "group": String, "file": String})
    return TableInMemory(table, folder.resolve().name, str(folder))


def read_responses(path: Source) -> DataFrame:
    """Return the rows of a file with the columns ROWS and their row numbers.

    Raise InputError with the file and the error in it.
    """
    table = _read_file(path, [*ROWS, *(alias for aliases in _ALIASES.values() for alias in aliases)])
    for name, aliases in _ALIASES.items():
        present = [alias for alias in aliases if alias in table.columns]
        if present:
            table = table.rename({present[0]: name})
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
        is_valid = numbers.is_between(0, REPETITIONS[-1]) & (numbers == numbers.floor())
        is_invalid = col.repetition.is_not_null() & ~is_valid.fill_null(False)
        expected = f"a whole number from 0 to {REPETITIONS[-1]:,}"
        UserTable.of(path, table).refuse(is_invalid, "repetition", f"is not {expected}")
        table = table.with_columns(numbers)
    return conform(UserTable.of(path, table).rows, {**ROWS, ROW: ROW_TYPE})


def read_texts(path: Source, columns: TextColumns) -> DataFrame:
    """Return the rows of a file of the user's own texts.

    Returns
    -------
    DataFrame
        The columns `text`, `identity`, `pair`, `location`, `name`, `cluster`, `baseline`, `model` and
        `prompt`, the row number `ROW`, and `value:FEATURE` for each feature. A feature whose values are all
        true or false is a decision and stays Boolean. If the groups or pairs are in several columns, their
        values are in the columns SEPARATE as well (see `refuse_joined_alike`).
    """
    names_of_roles = {
        role: [names] if isinstance(names, str) else list(names or ())
        for role, names in asdict(columns).items()
    }
    table = _read_file(path, [name for names in names_of_roles.values() for name in names])
    _check_columns(path, table, names_of_roles)
    features = names_of_roles.pop("feature")
    values = {f"value:{name}": _feature_values(path, table, name) for name in features}
    for name in ("model", "prompt"):
        if name in table.columns and not table.schema[name].is_nested():
            names_of_roles[name] = [name]
    texts = {
        role: pl.concat_str([col(name).cast(String) for name in names], separator=", ")
        for role, names in names_of_roles.items()
        if names
    }
    groups = [col(name).cast(String).str.strip_chars() for name in columns.identity]
    texts["identity"] = pl.concat_str(groups, separator=", ")
    for role in _JOINED:
        if len(names_of_roles[role]) > 1:
            parts = [col(name).cast(String).str.strip_chars() for name in names_of_roles[role]]
            separate = table.select(pl.concat_str(parts, separator=_BETWEEN))
            values[f"{SEPARATE}{role}"] = separate.to_series()
    roles = ("identity", "pair", "text", "location", "name", "cluster", "baseline", "model", "prompt")
    rows = conform(table.select(**texts), dict.fromkeys(roles, String))
    numbered = UserTable.of(path, table)
    numbered.refuse_empty(columns.identity)
    return rows.with_columns(numbered.rows[ROW], **values)


def _check_columns(path: Source, table: DataFrame, names_of_roles: Mapping[str, Sequence[str]]) -> None:
    """Raise InputError for a column that the table lacks, or a text column with a second role as group."""
    flags: dict[str, str] = {}
    for role, names in names_of_roles.items():
        flag = _flag_of(role)
        for name in names:
            check_known(name, table.columns, f"{flag} {name}: {path} has no such column")
            earlier = flags.setdefault(name, flag)
            if earlier != flag and not {"--text", "--group"}.isdisjoint((flag, earlier)):
                raise InputError(f"{earlier} and {flag} name the same column {name!r}; omit one of them")


def _flag_of(role: str) -> str:
    return "--group" if role == "identity" else f"--{role}"


def _feature_values(path: Source, table: DataFrame, name: str) -> Series:
    """Return the values of a feature: Boolean ones for decisions, numbers otherwise."""
    words = table[name].cast(String).str.to_lowercase()
    if words.count() and words.drop_nulls().is_in(["true", "false"]).all():
        return words == "true"
    numbers = _numbers(table[name])
    is_no_number = col(name).is_not_null() & numbers.is_null()
    rows = UserTable.of(path, table)
    rows.refuse(is_no_number, name, "is not a number; correct it, or leave it empty")
    rows.refuse(
        numbers.abs() > LARGEST,
        name,
        f"is more than {LARGEST:g}; correct it, leave it empty, or scale the column",
    )
    return numbers.fill_nan(None)


def refuse_joined_alike(rows: DataFrame, place: str) -> DataFrame:
    """Return rows of `read_texts` without the columns SEPARATE.

    Raise InputError if different values of several columns are joined to the same name.
    """
    for role in _JOINED:
        separate = f"{SEPARATE}{role}"
        if separate not in rows.columns:
            continue
        names = rows.select(role, separate).drop_nulls().unique(maintain_order=True)
        ambiguous = names.filter(col(role).is_duplicated())
        if ambiguous.is_empty():
            continue
        name = ambiguous[role][0]
        values = [
            " and ".join(repr(value) for value in joined.split(_BETWEEN))
            for joined in ambiguous.filter(col(role) == name)[separate].head(2)
        ]
        raise InputError(
            f"{place}: the columns of {_flag_of(role)} give the same name {name!r} to {values[0]}, and to"
            f" {values[1]}; write the values without a comma and a blank"
        )
    return rows.select(pl.exclude(f"^{SEPARATE}.*$"))


def _numbers(written: Series) -> Series:
    """Return the numbers in a column, null where a value is not a number.

    Commas are decimal ones if they cannot separate thousands.
    """
    numbers = written.cast(Float64, strict=False)
    if numbers.null_count() == written.null_count() or written.dtype != String:
        return numbers
    values = written.drop_nulls().str.strip_chars()
    have_commas = values.str.contains(r"^[+-]?[0-9]+(?:,[0-9]+)?$").all()
    if have_commas and values.str.contains(r",(?:[0-9]{1,2}|[0-9]{4,})$|^[+-]?0,").any():
        return written.str.replace(",", ".", literal=True).str.strip_chars().cast(Float64, strict=False)
    return numbers


def read_rows(path: Source) -> DataFrame:
    """Return all columns of a file; objects become a column for each of their keys ("decision.score").

    Raise InputError with the file and the error in it.
    """
    if isinstance(path, TableInMemory):
        table = path.rows
    elif is_file(path):
        table = table_of(path, dict.fromkeys((".json", ".jsonl", ".ndjson"), _read_nested))
    else:
        raise InputError(
            f"{path} is a folder; name the file" if path.is_dir() else f"there is no file {path}"
        )
    if table.is_empty():
        raise InputError(f"{path} has no rows")
    while structs := [name for name, kind in table.schema.items() if isinstance(kind, pl.Struct)]:
        for name in structs:
            table = table.with_columns(col(name).name.prefix_fields(f"{name}.")).unnest(name)
    return table


def _read_nested(path: Path) -> DataFrame:
    """Read JSON Lines or a JSON list of objects; keys of nested objects are joined with a point."""
    rows: list[dict[str, str | None]] = []
    for place, row in _objects(path):
        if not isinstance(row, dict):
            raise InputError(f"{place} is not an object such as {{'sex': ..., 'hired': ...}}")
        rows.append(dict(_flattened(row)))
    names = dict.fromkeys(name for row in rows for name in row)
    return DataFrame(rows, schema=dict.fromkeys(names, String))


def _flattened(row: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str | None]]:
    """Yield each value of an object and of the objects in it, with its path."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _text_of(value)


def _read_file(path: Source, wanted: Collection[str]) -> DataFrame:
    """Return the rows of a file with all its columns; the columns `wanted` must contain text or numbers."""
    if isinstance(path, TableInMemory):
        table = path.rows
    elif is_file(path):
        read_objects = partial(_read_objects, wanted=wanted)
        table = table_of(path, dict.fromkeys((".json", ".jsonl", ".ndjson"), read_objects))
    elif path.is_dir():
        raise InputError(f"{path} is a folder; name the file")
    else:
        raise InputError(f"there is no file {path}")
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
        rows.append({name: _text_of(value) for name, value in row.items()})
    names = dict.fromkeys(name for row in rows for name in row)
    return DataFrame(rows, schema=dict.fromkeys(names, String))


def _text_of(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


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
    """Return whether a file holds a JSON list, not JSON Lines; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING).removeprefix(b"\xef\xbb\xbf").lstrip()
    except (OSError, ValueError):
        return False
    return beginning.startswith(b"[")
