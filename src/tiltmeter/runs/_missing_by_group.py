"""The findings about missing responses, which a run adds to those of each part."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
from polars import DataFrame, lit

from tiltmeter.comparisons import compare_missing
from tiltmeter.schema import FINDINGS, sql_where
from tiltmeter.study import Part, Settings, as_findings


class PartView:
    """The tables of one part of one model while they are made (implements `tiltmeter.study.RunView`).

    Parameters
    ----------
    read
        Function that returns a table by its name.
    """

    def __init__(self, read: Callable[[str], DataFrame]) -> None:
        self._read = read

    @property
    def measures(self) -> DataFrame:
        """See RunView."""
        return self._read("measures")

    def stage(self, table: str) -> DataFrame:
        """See RunView."""
        return self._read(table)


def with_missing_responses(
    findings: DataFrame, part: Part, view: PartView, model: str, settings: Settings
) -> DataFrame:
    """Return the findings of a part with those that compare its missing responses between groups.

    Each declaration of groups is compared by itself (see `Part.compared_groups`).
    """
    rows = []
    for groups, attempts in part.outcomes_by_group(view, settings):
        rows += compare_missing(attempts, groups, settings.level, settings.seed)
    if not rows:
        return findings
    table = DataFrame(rows, schema_overrides={name: FINDINGS[name] for name in rows[0] if name in FINDINGS})
    missing = as_findings(table, part, settings, settings.definition).with_columns(model=lit(model))
    of_part = pl.concat_str(sql_where(part=part.name), "evidence", separator=" AND ")
    missing = missing.with_columns(evidence=of_part)
    if findings.height:
        missing = missing.with_columns(definition=lit(findings["definition"][0]))
    return pl.concat([findings, missing])
