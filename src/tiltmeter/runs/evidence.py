"""The responses behind a finding, selected by the condition that it records."""

from __future__ import annotations

import re
from typing import Final

import polars as pl
from polars import LazyFrame

from tiltmeter.errors import InputError
from tiltmeter.runs.folder import RunFolder, reading
from tiltmeter.sanitising import printable

_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_TABLE: Final = re.compile(r"\bFROM\s+([A-Za-z_]\w*)", re.IGNORECASE)
_CALLED: Final = re.compile(r"(\w+)\s*\(")
_BEFORE_BRACKET: Final = frozenset({"in", "and", "or", "not", "where"})
_NEVER: Final = re.compile(r";|--|/\*|\b(?:UNION|INTERSECT|EXCEPT|JOIN|WITH|INTO|VALUES|UNNEST|LATERAL)\b", re.IGNORECASE)


def resting_on(folder: RunFolder, condition: str, measures: LazyFrame) -> LazyFrame:
    """Return the rows of `measures` that a finding's `evidence` selects.

    Runs may come from untrusted sources, and SQL can do more than compare values: Polars would read any file or URL that a query names.
    A condition may therefore contain only comparisons and sub-queries over the run's own tables, and no function calls.

    Raises
    ------
    InputError
        The condition contains anything else, or cannot be applied to these tables.
    """
    tables = folder.stages()
    bare = _QUOTED.sub(" ", condition)
    calls = {name.lower() for name in _CALLED.findall(bare)} - _BEFORE_BRACKET
    selects = re.findall(r"\bSELECT\b", bare, re.IGNORECASE)
    named = _TABLE.findall(bare)
    froms = re.findall(r"\bFROM\b", bare, re.IGNORECASE)
    unknown = [name for name in named if name not in tables and name != "measures"]
    if calls or _NEVER.search(bare) or unknown or "'" in bare or '"' in bare or not len(selects) == len(froms) == len(named):
        shown = printable(condition, one_line=True)[:200]
        raise InputError(
            f"{folder.path}: the evidence of a finding is not a valid condition on the tables of this run and was not evaluated: {shown}"
        )
    with reading(folder.path):
        query = f"SELECT * FROM measures WHERE {condition}"  # noqa: S608 - checked above: comparisons over the run's own tables
        return pl.SQLContext({**tables, "measures": measures}, eager=False).execute(query)
