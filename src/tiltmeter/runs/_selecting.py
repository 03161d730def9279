"""Selection of findings by the names that distinguish them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl
from polars import DataFrame, col, lit

from tiltmeter.errors import InputError, did_you_mean
from tiltmeter.schema import metric_name

OF_THE_WHOLE: Final = ("group", "concept", "context", "wording")
"""Columns that are null in overall findings."""
NARROW: Final = ("part", "model", *OF_THE_WHOLE)
"""Columns that distinguish the findings of one metric."""
_NAMED = 5
"""Maximum number of values named in a message."""


def narrowed(
    findings: DataFrame, wanted: Mapping[str, str | None], *, may_be_none: bool = False
) -> DataFrame:
    """Return the findings with these values of `metric` and of the columns NARROW; None matches any value.

    A metric may also be given by its published name.

    Raises
    ------
    InputError
        No finding matches, and `may_be_none` is False; the message suggests the closest values.
    """
    conditions: list[str] = []
    for name, value in wanted.items():
        if value is None:
            continue
        columns = [metric_name(), col.published] if name == "metric" else [col(name)]
        values = [
            known
            for column in columns
            for known in findings.select(column.drop_nulls().unique(maintain_order=True)).to_series()
        ]
        findings = findings.filter(pl.any_horizontal(column.eq_missing(lit(value)) for column in columns))
        if findings.is_empty() and not may_be_none:
            among = f" with {' and '.join(conditions)}" if conditions else ""
            hint = did_you_mean(value, values) if values else f"these numbers have no {name}"
            raise InputError(f"no number of this run{among} has the {name} {value!r}: {hint}")
        conditions.append(f"the {name} {value!r}")
    return findings


def one_finding(findings: DataFrame, metric: str, narrow: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the row of the one finding that matches (see `tiltmeter.runs.Run.finding`).

    Raises
    ------
    InputError
        The run has no such metric or value, or several findings match; the message lists the choices.
    """
    matches = narrowed(findings, {"metric": metric, **narrow})
    for name in OF_THE_WHOLE:
        if narrow.get(name) is None and matches[name].null_count():
            matches = matches.filter(col(name).is_null())
    for is_meant in (col.published == metric, col.key):
        if matches.height > 1 and matches.select(is_meant.sum()).item() == 1:
            matches = matches.filter(is_meant)
    if matches.height > 1:
        choices = {name: matches[name].drop_nulls().unique(maintain_order=True).to_list() for name in NARROW}
        clauses = [f"{name} {_few(values)}" for name, values in choices.items() if len(values) > 1]
        raise InputError(
            f"{matches.height} numbers are called {metric}; choose one by {', and by '.join(clauses)}"
        )
    return matches.row(0, named=True)


def _few(values: Sequence[str]) -> str:
    """Return alternatives in words, at most five of them."""
    listed = " or ".join(values[:_NAMED])
    return f"{listed} or ... ({len(values)} in all)" if len(values) > _NAMED else listed
