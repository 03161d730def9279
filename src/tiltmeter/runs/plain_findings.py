"""What is shown of a study that presents nothing itself: a table of its key numbers, and the answers behind them."""

from __future__ import annotations

from polars import DataFrame, Expr, col, when

from tiltmeter.blocks import Block, Column, Details, Graded, Headline, Kind, Response, Responses, Table
from tiltmeter.study import ReportView, metric_name

MOST = 30
"""Rows of a plain table of findings."""
EXAMPLES_SHOWN = 3
"""Answers shown of those that moved a number most."""


def present_findings(view: ReportView) -> list[Block]:
    """The key findings of any study: a table for each part, and the answers that moved them."""
    blocks: list[Block] = []
    for (part,), mine in view.findings.group_by("part", maintain_order=True):
        key = mine.filter("key") if mine["key"].any() else mine
        blocks += [Headline(view.titles.get(str(part), str(part))), findings_table("Key numbers", key.head(MOST))]
        if mine.height > key.height or key.height > MOST:
            blocks.append(Details("Every number", [findings_table("Every number", mine)]))
    blocks += responses_of(view.examples)
    return blocks


def findings_table(title: str, findings: DataFrame) -> Table:
    """A table of findings: what each is about, its number, interval, p, q and mark; names that are empty everywhere are left out."""

    def column(name: str, kind: Kind, source: str | Expr | None = None, rank: int = 0) -> Column:
        return Column(name, findings.select(source if source is not None else name).to_series().to_list(), kind, rank)

    names = ("group", "group_2", "concept", "context", "wording")
    named = [column(name, "name") for name in ("part", "model")] + [column("metric", "name", metric_name())]
    named += [column(name, "name") for name in names if findings[name].null_count() < findings.height]
    is_count = findings.height > 0 and (findings["unit"] == "count").all()
    levels = findings["level"].unique()
    marks = [None if one is None else Graded(one, *ends) for one, *ends in findings.select("mark", "mark_best", "mark_worst").iter_rows()]
    numbers = [
        column("value", "count" if is_count else "number", "estimate"),
        Column(
            f"{100 * levels[0]:g}% interval" if levels.len() == 1 else "interval",
            list(findings.select("low", "high").iter_rows()),
            "interval",
        ),
        column("p", "probability", rank=4),
        column("q", "probability", rank=1),
        *([Column("mark", marks, "mark")] if any(marks) else []),
        column("attempts", "count", rank=3),
        column("answered", "percent", when(col.attempts > 0).then(col.answered / col.attempts), rank=2),
    ]
    return Table(title, [*named, *numbers], lead=len(named))


def responses_of(examples: DataFrame) -> list[Block]:
    """The answers that moved each key number most."""
    return [
        Responses(
            " · ".join(str(one) for one in names if one is not None),
            [
                Response(row["prompt"], row["answer"], row["outcome"], row["label"], row["influence"], row["prompt_id"])
                for row in mine.head(EXAMPLES_SHOWN).iter_rows(named=True)
            ],
        )
        for names, mine in examples.group_by("model", "part", "metric", "group", maintain_order=True)
    ]
