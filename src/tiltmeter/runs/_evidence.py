"""The condition with which a finding names the attempts it rests on, applied to the tables of its run."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tiltmeter._text import printable
from tiltmeter.errors import InputError
from tiltmeter.runs._folder import RunFolder, reading

__all__ = ["resting_on"]

_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_TABLE: Final = re.compile(r"\bFROM\s+([A-Za-z_]\w*)", re.IGNORECASE)
_CALLED: Final = re.compile(r"(\w+)\s*\(")
_BEFORE_BRACKET: Final = frozenset({"in", "and", "or", "not", "where"})
_NEVER: Final = re.compile(r";|--|/\*|\b(?:UNION|INTERSECT|EXCEPT|JOIN|WITH|INTO|VALUES|UNNEST|LATERAL)\b", re.IGNORECASE)


def resting_on(folder: RunFolder, condition: str, measures: pl.LazyFrame) -> pl.LazyFrame:
    """The rows of `measures` that a finding's `evidence` selects.

    A run may come from anybody, and SQL can do more than compare: Polars' would read any file or address it names. So a condition may
    hold comparisons, and sub-queries over the run's own tables, and nothing that is called like a function.

    Raises
    ------
    InputError
        The condition holds anything else, or cannot be applied to these tables.
    """
    tables = folder.stages()
    bare = _QUOTED.sub(" ", condition)
    calls = {name.lower() for name in _CALLED.findall(bare)} - _BEFORE_BRACKET
    selects = re.findall(r"\bSELECT\b", bare, re.IGNORECASE)
    named = _TABLE.findall(bare)
    froms = re.findall(r"\bFROM\b", bare, re.IGNORECASE)
    strange = [name for name in named if name not in tables and name != "measures"]
    if calls or _NEVER.search(bare) or strange or "'" in bare or '"' in bare or not len(selects) == len(froms) == len(named):
        shown = printable(condition, one_line=True)[:200]
        raise InputError(
            f"{folder.path}: the evidence of a finding is no condition on the tables of this run, so it is not looked up: {shown}"
        )
    with reading(folder.path):
        query = f"SELECT * FROM measures WHERE {condition}"  # noqa: S608 - checked above: comparisons over the run's own tables
        return pl.SQLContext({**tables, "measures": measures}, eager=False).execute(query)
