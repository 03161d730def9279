"""What reports show of runs: each method presents its own findings; what presents nothing is shown as a table of its key numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import DataFrame, Expr, col, lit, when

from tiltmeter import registry
from tiltmeter.blocks import Block, Column, Details, Graded, Headline, Kind, Response, Responses, Table, Text
from tiltmeter.errors import InputError
from tiltmeter.reports import Report
from tiltmeter.study import NAMED, ReportView, metric_name

if TYPE_CHECKING:
    from tiltmeter.runs.opened_run import Run

MOST = 30
"""Rows of a plain table of findings."""
EXAMPLES_SHOWN = 3
"""Answers shown of those that moved a number most."""


@dataclass(frozen=True)
class RunsView:
    """The findings of one kind of study in one or more runs; see `tiltmeter.study.ReportView`.

    Parameters
    ----------
    beside
        Further tables, such as published findings, that are shown with those of the runs.
    only
        The `model` or `part` it is narrowed to.
    """

    runs: Sequence[Run]
    study: str
    beside: Mapping[str, DataFrame] = field(default_factory=dict)
    only: Mapping[str, str | None] = field(default_factory=dict)

    @cached_property
    def findings(self) -> DataFrame:
        """See ReportView."""
        made = pl.concat([self._named(i, run.findings) for i, run in enumerate(self.runs)]).filter(col.study == self.study)
        if "findings" not in self.beside:
            return made
        behind = self.beside["findings"].join(made.select("part", *NAMED), on=["part", *NAMED], how="semi", nulls_equal=True)
        return pl.concat([made, behind])

    @cached_property
    def examples(self) -> DataFrame:
        """See ReportView."""
        return pl.concat([self._named(i, run.examples) for i, run in enumerate(self.runs)], how="diagonal")

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """See ReportView."""
        return {name: str(one.get("title") or name) for run in self.runs for name, one in run.about["parts"].items()}

    def table(self, name: str) -> DataFrame:
        """See ReportView."""
        found = [self._named(i, run.stage(name)) for i, run in enumerate(self.runs) if name in run.folder.stages()]
        found += [self.beside[name]] if name in self.beside else []
        return pl.concat(found, how="diagonal_relaxed") if found else DataFrame()

    @cached_property
    def _several(self) -> set[str]:
        counts = Counter(model["name"] for run in self.runs for model in run.about["models"])
        return {name for name, times in counts.items() if times > 1}

    def _named(self, place: int, table: DataFrame) -> DataFrame:
        """The rows that are wanted, the models of several runs named by run."""
        for column, value in self.only.items():
            if value is not None and column in table.columns:
                table = table.filter(col(column) == value)
        if not self._several or "model" not in table.columns:
            return table
        mine = col.model.is_in(list(self._several))
        return table.with_columns(model=when(mine).then(pl.format("{} (run {})", "model", lit(place + 1))).otherwise("model"))


def blocks_of(
    runs: Sequence[Run], beside: Mapping[str, DataFrame] | None = None, *, only: Mapping[str, str | None] | None = None
) -> list[Block]:
    """What there is to show of one or more runs, study by study.

    Parameters
    ----------
    beside
        Tables that are shown with those of the runs: `findings` published elsewhere, and what belongs to them.
    only
        The `model` or `part` to show.
    """
    studies = dict.fromkeys(study for run in runs for study in run.findings["study"])
    return [block for study in studies for block in _presented(RunsView(runs, study, beside or {}, only or {}))]


def report_of(runs: Sequence[Run], beside: Mapping[str, DataFrame] | None = None) -> Report:
    """One or more runs as renderers take them: what run.json says of each, and their blocks; see `blocks_of`."""
    return Report([run.about for run in runs], blocks_of(runs, beside))


def _presented(view: RunsView) -> list[Block]:
    """What the method shows, and where it was published."""
    try:
        suite: Any = registry.load("studies", view.study)
    except InputError:  # the package that made the run is not installed here
        suite = None
    present, source = (getattr(suite, name, None) for name in ("present", "source"))
    blocks = present(view) if callable(present) else present_findings(view)
    return [*blocks, *([Details("Where the method was published", [Text(source)])] if source else [])]


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
