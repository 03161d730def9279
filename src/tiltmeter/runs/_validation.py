"""Validation of run folders, which may come from untrusted sources: their content ends up in HTML pages."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Annotated, Any

import polars as pl
from polars import DataFrame, Float64, Series, String, col
from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, ValidationError

from tiltmeter._files.yaml import first_error
from tiltmeter._sanitising import shortened
from tiltmeter.blocks import MARKS, RANGES, UNDECIDED, UNGRADED
from tiltmeter.errors import InputError
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.schema import DESIGN, EXAMPLES, FINDINGS, GRADES, MEASURES, NAMED, RESPONSES, UNITS, Schema

REMEDY = "run the study again to recreate it"

Number = Annotated[float, AllowInfNan(False)]
TableName = Annotated[str, Field(pattern=r"^(?:stages/)?[^./\\:][^/\\:]*$")]
"""The name of a table in the run folder or its folder of stages; no other file is opened."""


class _Open(BaseModel):
    """A model that accepts unknown keys, which later versions may write."""

    model_config = ConfigDict(strict=True, extra="allow")


class ResponseCount(_Open):
    """The number of responses of a model to a part: present and required."""

    found: int
    wanted: int
    unit: str


class PartEntry(_Open):
    """The status of a part."""

    status: str
    title: str = ""
    reason: str = ""
    harms: list[str] = []
    responses: dict[str, ResponseCount] = {}


class DataEntry(_Open):
    """A dataset that was used."""

    name: str
    title: str | None = None
    origin: str | None = None
    licence: str | None = None
    restricted: str | None = None
    citation: str | None = None


class TableEntry(_Open):
    """A table of the folder."""

    sha256: str
    rows: int = 0


class TallyEntry(_Open):
    """Counts and costs of the requests to a model."""

    answered: int
    held: int
    input_tokens: int
    output_tokens: int
    cost: Number | None


class ServedEntry(_Open):
    """What an endpoint said it served, and the number of responses."""

    model: str | None
    fingerprint: str | None
    provider: str | None
    responses: int


class ModelEntry(_Open):
    """A model under test."""

    name: str
    tally: TallyEntry | None = None
    served: list[ServedEntry] = []


class RoundEntry(_Open):
    """One round of questions to a judge."""

    total: int


class JudgeEntry(_Open):
    """The judge."""

    name: str
    sampling: dict[str, Any]
    stages: list[RoundEntry]
    served: list[ServedEntry] = []


class RunDocument(_Open):
    """The content of run.json that is used for pages and listings."""

    tiltmeter: str
    python: str
    written: str
    title: str
    study: str
    definition: str
    packages: dict[str, str]
    sampling: dict[str, Any]
    parts: dict[str, PartEntry]
    tables: dict[TableName, TableEntry]
    models: list[ModelEntry]
    data: list[DataEntry]
    problems: list[str]
    seed: int
    resamples: int
    level: Annotated[float, Field(gt=0, lt=1)]
    complete: bool
    limit: int | Number | str | None
    repeats: int | None
    system_message: str | None
    params: dict[str, str]
    command: str | None = None
    judged_by: JudgeEntry | None = None


def check_document(loaded: object, place: str) -> dict[str, Any]:
    """Validate the content of a run.json and return it unchanged.

    Raises
    ------
    InputError
        The content is not valid; the message names the file and the key.
    """
    try:
        RunDocument.model_validate(loaded)
    except ValidationError as error:
        first = first_error(error)
        steps = [str(step + 1) if isinstance(step, int) else step for step in first["loc"]]
        fault = "is missing" if first["type"] == "missing" else "is not valid"
        raise InputError(f"{place} is damaged: {'.'.join(steps)!r} {fault}; {REMEDY}") from None
    assert isinstance(loaded, dict)
    return loaded


COLUMNS: Mapping[str, Schema] = {
    "design": DESIGN,
    "responses": RESPONSES,
    "measures": {name: MEASURES[name] for name in ("model", "prompt_id", "repetition", "part", "outcome")},
    "findings": FINDINGS,
    "definitional": {**FINDINGS, "reason": String},
    "examples": {"model": String, "part": String, **EXAMPLES},
    "grades": GRADES,
}
_OPTIONAL = ("prompt_id", "repetition")
"""Columns of measures that are missing in some runs."""
_FILLED = ("study", "part", "model", "metric", "harm", "key", "definition", "attempts", "answered")
"""Columns of findings that are never null."""


def check_columns(table: str, schema: Mapping[str, pl.DataType], place: str) -> None:
    """Raise InputError if a table of a run lacks a column or a column has the wrong type.

    The message names file and column.
    """
    for name, kind in COLUMNS[table].items():
        if name not in schema and not (table == "measures" and name in _OPTIONAL):
            raise InputError(f"{place} lacks the required column {name!r}; {REMEDY}")
        if name in schema and schema[name] != kind:
            raise InputError(
                f"{place} is damaged: its column {name!r} has the type {schema[name]} instead of {kind};"
                f" {REMEDY}"
            )


_ALLOWED: Mapping[str, Collection[str]] = {
    "mark": (*MARKS, *RANGES, UNDECIDED, UNGRADED),
    **dict.fromkeys(("mark_best", "mark_worst"), MARKS),
    "unit": UNITS,
}
"""Columns of findings with a fixed set of values."""
_SHARES = ("level", "p", "q")
"""Columns of findings between 0 and 1."""
_NEVER_NAN = (*_SHARES, "null_value")
"""Columns of findings that are null, never NaN, if there is no value."""
_UNBOUNDED = {"range_low": -math.inf, "range_high": math.inf, "high": math.inf}
"""Infinite values that are no error: a count has no largest possible value, and a quotient whose denominator
may be 0 has no upper limit."""
_ROUNDING = 1e-9
LARGEST = 1e100
"""Largest absolute value of a number in a table of numbers: larger ones overflow where they are squared."""


def check_values(table: DataFrame) -> str | None:
    """Return a description of the first value of a table that no page can show.

    This is an infinite or huge number, or an unknown word. NaN is accepted for estimates and intervals: it is
    read as a missing value.

    Parameters
    ----------
    table
        Findings, or another table with columns of findings.
    """
    for name, kind in table.schema.items():
        fault = None
        if kind == Float64:
            fault = _wrong_number(table[name])
        elif name in _ALLOWED and kind == String:
            fault = _unknown_word(table[name])
        if fault is not None:
            return fault
    return None


def _wrong_number(values: Series) -> str | None:
    """Return a description of the first number of a column that is out of its range."""
    name = values.name
    lowest, highest = (0.0, 1.0) if name in _SHARES else (-LARGEST, LARGEST)
    is_accepted = values.is_between(lowest - _ROUNDING, highest + _ROUNDING)
    if name not in _NEVER_NAN:
        is_accepted |= values.is_nan()
    if name in _UNBOUNDED:
        is_accepted |= values == _UNBOUNDED[name]
    rows = (~is_accepted).arg_true()
    if rows.is_empty():
        return None
    row = rows[0]
    return f"row {row + 1}: {name} is {values[row]:g}, not a number between {lowest:g} and {highest:g}"


def _unknown_word(values: Series) -> str | None:
    """Return a description of the first word of a column that is not one of its allowed values."""
    allowed = _ALLOWED[values.name]
    rows = (~values.is_in(list(allowed))).arg_true()
    if rows.is_empty():
        return None
    row = rows[0]
    word = shortened(values[row], 40)
    return f"row {row + 1}: {values.name} is {word!r}, which is not one of {', '.join(allowed)}"


def check_findings(findings: DataFrame) -> str | None:
    """Return a description of the first error in the findings, or None if they are valid."""
    for name in _FILLED:
        empty = findings[name].is_null().arg_true()
        if len(empty):
            return f"row {empty[0] + 1} has no {name}"
    if fault := check_values(findings):
        return fault
    unlimited = ((findings["high"] == math.inf) & (findings["unit"] != "quotient")).arg_true()
    if len(unlimited):
        return f"row {unlimited[0] + 1}: only a quotient can have an infinite upper limit"
    has_low = findings["low"].fill_nan(None).is_not_null()
    has_high = findings["high"].fill_nan(None).is_not_null()
    half = (has_low != has_high).arg_true()
    if len(half):
        return f"row {half[0] + 1} has only one end of its interval"
    has_mark = findings["mark"].is_in([*MARKS, *RANGES, UNDECIDED])
    has_estimate = findings["estimate"].fill_nan(None).is_not_null()
    unfounded = (has_mark & ~has_estimate).arg_true()
    if len(unfounded):
        return f"row {unfounded[0] + 1} has a mark and no estimate"
    if not findings.select(pl.all_horizontal(col("attempts", *OUTCOMES) >= 0).all()).item():
        return "a count is negative"
    duplicates = findings.select("study", "part", "model", *NAMED).is_duplicated().arg_true()
    return f"row {duplicates[0] + 1} is duplicated" if len(duplicates) else None
