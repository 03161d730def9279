"""Default presentation of studies without their own: a table of key numbers, and the answers behind them."""

from __future__ import annotations

from polars import DataFrame, Expr, col

from tiltmeter.blocks import Block, Column, Details, Graded, Heading, Kind, Response, Responses, Table
from tiltmeter.quantities import confidence
from tiltmeter.schema import metric_name
from tiltmeter.study import ReportView

MOST = 30
"""Maximum number of rows in a table of key findings."""
EXAMPLES_SHOWN = 3
"""Number of most influential answers shown for each number."""


def present_findings(view: ReportView) -> list[Block]:
    """Return the blocks for the key findings of a study: a table for each part, and the most influential answers."""
    blocks: list[Block] = []
    for (part,), mine in view.findings.group_by("part", maintain_order=True):
        key = mine.filter("key") if mine["key"].any() else mine
        blocks += [
            Heading(view.titles.get(str(part), str(part))),
            findings_table("Key numbers", key.head(MOST)),
        ]
        if mine.height > key.height or key.height > MOST:
            blocks.append(Details("Every number", [findings_table("Every number", mine)]))
    blocks += responses_of(view.examples)
    return blocks


def findings_table(title: str, findings: DataFrame) -> Table:
    """Return a table of findings with names, estimate, interval, p, q and mark.

    Omit name columns that are empty.

    The confidence level is in the heading of the interval, or in a column if the intervals have different
    levels.
    """

    def column(name: str, kind: Kind, source: str | Expr | None = None, rank: int = 0) -> Column:
        return Column(
            name, findings.select(source if source is not None else name).to_series().to_list(), kind, rank
        )

    names = ("group", "group_2", "concept", "context", "wording")
    named = [column(name, "name") for name in ("part", "model")] + [column("metric", "name", metric_name())]
    named += [column(name, "name") for name in names if findings[name].null_count() < findings.height]
    is_count = findings.height > 0 and (findings["unit"] == "count").all()
    bounded = findings.drop_nulls("low")
    levels = (bounded if bounded.height else findings)["level"].unique()
    level_of_each = [
        None if low is None or level is None else confidence(level)
        for low, level in findings.select("low", "level").iter_rows()
    ]
    marks = [
        None if one is None else Graded(one, *ends)
        for one, *ends in findings.select("mark", "mark_best", "mark_worst").iter_rows()
    ]
    numbers = [
        column("value", "count" if is_count else "number", "estimate"),
        Column(
            f"{confidence(levels[0])} interval" if levels.len() == 1 else "interval",
            findings.select("low", "high").rows(),
            "interval",
        ),
        *([Column("level", level_of_each, "quantity", rank=2)] if levels.len() > 1 else []),
        column("p", "probability", rank=4),
        column("q", "probability", rank=1),
        *([Column("mark", marks, "mark")] if any(marks) else []),
        column("attempts", "count", rank=3),
        column("answered", "percent", (col.answered / col.attempts).fill_nan(None), rank=2),
    ]
    return Table(title, [*named, *numbers], lead=len(named))


def responses_of(examples: DataFrame) -> list[Block]:
    """Return the blocks for the most influential answers of each key number."""
    return [
        Responses(
            " · ".join(str(one) for one in names if one is not None),
            [
                Response(
                    row["prompt"],
                    row["answer"],
                    row["outcome"],
                    row["label"],
                    row["influence"],
                    row["prompt_id"],
                )
                for row in mine.head(EXAMPLES_SHOWN).iter_rows(named=True)
            ],
        )
        for names, mine in examples.group_by("model", "part", "metric", "group", maintain_order=True)
    ]
