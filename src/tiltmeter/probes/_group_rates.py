"""Charts of the rates or means of each group, for prompts and probes of the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl
from polars import DataFrame, col

from tiltmeter._quantities import interval_name
from tiltmeter.blocks import Block, Details, IntervalRow, Intervals, named_model
from tiltmeter.comparisons import attribute_in_words
from tiltmeter.probes._listing import PROBES

MOST_GROUPS: Final = 20
"""Largest number of groups of a chart; more are in the tables of all metrics."""
MOST_CHARTS: Final = 6
"""Largest number of charts that are not collapsed."""


def group_rates(findings: DataFrame, titles: Mapping[str, str]) -> list[Block]:
    """Return a chart of the rate or mean of each group for each part that is no built-in probe.

    More than MOST_CHARTS are collapsed, those of each attribute together.

    Parameters
    ----------
    findings
        FINDINGS of one or more models.
    titles
        Titles of the parts by name.
    """
    is_of_group = col.published == pl.concat_str(["group", "metric"], separator="_")
    rates = findings.filter(is_of_group, col.wording.is_null(), ~col.part.is_in(PROBES.names()))
    charts: dict[str, list[Block]] = {}
    for (part, metric), rows in rates.group_by("part", "metric", maintain_order=True):
        if 1 < rows["group"].n_unique() <= MOST_GROUPS:
            chart = _chart(titles.get(str(part), str(part)), str(metric), rows)
            charts.setdefault(rows["attribute"][0] or "group", []).append(chart)
    if sum(map(len, charts.values())) <= MOST_CHARTS:
        return [chart for of_attribute in charts.values() for chart in of_attribute]
    return [
        Details(f"Shares of the groups by {attribute_in_words(name)}", of_attribute)
        for name, of_attribute in charts.items()
    ]


def _chart(title: str, metric: str, rates: DataFrame) -> Intervals:
    """Return the chart of one part and metric, with a panel for each model if there are several."""
    has_several = rates["model"].n_unique() > 1
    ordered = rates.sort("model", "estimate", descending=[False, True], nulls_last=True, maintain_order=True)
    words = metric.replace("_", " ")
    level = rates["level"][0]
    return Intervals(
        title=f"{title}: {words} of each group",
        rows=[
            IntervalRow(
                panel=named_model(row["model"]) if has_several else "",
                label=row["group"],
                estimate=row["estimate"],
                low=row["low"],
                high=row["high"],
                unit=row["unit"],
            )
            for row in ordered.iter_rows(named=True)
        ],
        level=level,
        names=("model", attribute_in_words(rates["attribute"][0] or "group")),
        about=f"Value (dot) and {interval_name(level)} (line)",
        axis=words,
    )
