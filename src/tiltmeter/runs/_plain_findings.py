"""Default presentation of studies without their own: a table of key numbers, and the answers behind them."""

from __future__ import annotations

import polars as pl
from polars import DataFrame, Expr, Series, col

from tiltmeter._quantities import confidence, interval_name
from tiltmeter.blocks import Block, Column, Details, Graded, Heading, Kind, Response, Responses, Table
from tiltmeter.schema import metric_name
from tiltmeter.study import ReportView

MOST = 30
"""Maximum number of rows in a table of key findings."""
EXAMPLES_SHOWN = 3
"""Number of most influential answers shown for each number."""


def present_findings(view: ReportView) -> list[Block]:
    """Return the blocks for the key findings of a study.

    These are a table for each part, and the most influential answers.
    """
    blocks: list[Block] = []
    for (part,), findings in view.findings.group_by("part", maintain_order=True):
        key = findings.filter("key") if findings["key"].any() else findings
        blocks.append(Heading(view.titles.get(str(part), str(part))))
        blocks.append(findings_table("Key numbers", key.head(MOST)))
        if findings.height > key.height or key.height > MOST:
            blocks.append(Details("Every number", [findings_table("Every number", findings)]))
    blocks += responses_of(view.examples)
    return blocks


def findings_table(title: str, findings: DataFrame) -> Table:
    """Return a table of findings with names, estimate, interval, p, q and mark.

    Omit name columns that are empty.

    The confidence level is in the heading of the interval, or in a column if the intervals have different
    levels.
    """

    def column(name: str, kind: Kind, source: Expr | None = None, rank: int = 0) -> Column:
        """Return a column of the findings, or one that is computed from them."""
        values = findings.select(pl.col(name) if source is None else source).to_series()
        return Column(name, values.to_list(), kind, rank)

    columns = [column("part", "name"), column("model", "name"), column("metric", "name", metric_name())]
    names = ("group", "group_2", "concept", "context", "wording")
    columns += [column(name, "name") for name in names if findings[name].null_count() < findings.height]
    lead = len(columns)
    is_count = findings.height > 0 and (findings["unit"] == "count").all()
    columns.append(column("value", "count" if is_count else "number", col.estimate))
    levels = _levels(findings)
    heading = interval_name(levels[0] if levels.len() == 1 else None)
    columns.append(Column(heading, findings.select("low", "high").rows(), "interval"))
    if levels.len() > 1:
        columns.append(Column("level", _level_of_each(findings), "quantity", rank=2))
    columns.append(column("p", "probability", rank=4))
    columns.append(column("q", "probability", rank=1))
    marks = _marks(findings)
    if any(marks):
        columns.append(Column("mark", marks, "mark"))
    columns.append(column("attempts", "count", rank=3))
    answered = (col.answered / col.attempts).fill_nan(None)
    columns.append(column("answered", "percent", answered, rank=2))
    return Table(title, columns, lead=lead)


def _levels(findings: DataFrame) -> Series:
    """Return the different levels of the intervals, or of all findings if none has an interval."""
    bounded = findings.drop_nulls("low")
    return (bounded if bounded.height else findings)["level"].unique()


def _level_of_each(findings: DataFrame) -> list[str | None]:
    """Return the level of each interval in words."""
    pairs = findings.select("low", "level").iter_rows()
    return [None if low is None or level is None else confidence(level) for low, level in pairs]


def _marks(findings: DataFrame) -> list[Graded | None]:
    """Return the marks with the tiers that their intervals reach."""
    rows = findings.select("mark", "mark_best", "mark_worst").iter_rows()
    return [None if mark is None else Graded(mark, best, worst) for mark, best, worst in rows]


def responses_of(examples: DataFrame) -> list[Block]:
    """Return the blocks for the most influential answers of each key number."""
    blocks: list[Block] = []
    for names, rows in examples.group_by("model", "part", "metric", "group", maintain_order=True):
        title = " · ".join(str(name) for name in names if name is not None)
        responses = [
            Response(
                row["prompt"],
                row["answer"],
                row["outcome"],
                row["label"],
                row["influence"],
                row["prompt_id"],
            )
            for row in rows.head(EXAMPLES_SHOWN).iter_rows(named=True)
        ]
        blocks.append(Responses(title, responses))
    return blocks
