"""Report blocks for differences between findings, between wordings, and between repeated answers."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from polars import DataFrame, col, lit, when

from tiltmeter.blocks import Block, Column, Kind, Table, Text, columns_of
from tiltmeter.comparing._differences import UNJUDGED
from tiltmeter.schema import THESE_ITEMS, metric_name


def within_blocks(wordings: DataFrame, stability: DataFrame) -> list[Block]:
    """Return a block for the sensitivity to wording and a block for the stability of repeated answers.

    Parameters
    ----------
    wordings
        The columns of WORDINGS.
    stability
        The columns of STABILITY.
    """
    return [
        Text(ONE_WORDING) if wordings.is_empty() else _table_of_wordings(wordings),
        Text(NO_REPEATS) if stability.is_empty() else _table_of_stability(stability),
    ]


ONE_WORDING = (
    "Wordings: the run used only one prompt wording. Use -P wording=all to ask each item in all of them."
)
NO_REPEATS = "Repeats: each prompt was sent once. Use --repeats to request several answers per prompt."
OF_SPREAD = "spread: largest difference between any two wordings; chance alone makes it larger than 0."
OF_ALPHA = "alpha: Krippendorff's alpha; 1 is perfect agreement, 0 is chance agreement"


def _table_of_wordings(wordings: DataFrame) -> Table:
    ends = [
        None if least is None else f"{least} … {greatest}"
        for least, greatest in wordings.select("least", "greatest").iter_rows()
    ]
    columns = [
        *some_columns(wordings, "model", "part"),
        metric_of(wordings),
        *some_columns(wordings, "spread"),
        Column("lowest … highest", ends, "name"),
        *some_columns(wordings, "q"),
    ]
    reasons = wordings.filter(col.p.is_null())["how"].unique().sort()
    note = " ".join([OF_SPREAD, *(f"Without q: {reason}." for reason in reasons)])
    return Table("Key metrics by prompt wording", columns, lead=3, note=note)


def _table_of_stability(stability: DataFrame) -> Table:
    columns = [
        *some_columns(stability, "model", "part", "prompts", "of", "identical", "alpha"),
        interval_of(stability, "interval of alpha"),
    ]
    return Table("Agreement of answers to the same prompt", columns, lead=2, note=OF_ALPHA)


_KINDS: Mapping[str, Kind] = {
    "q": "probability",
    "prompts": "count",
    "first": "number",
    "second": "number",
    "difference": "number",
    "spread": "number",
    "identical": "number",
    "alpha": "number",
}
"""Kinds of the columns of the tables. Columns that are not named are texts."""


OF_THESE = "Verdicts are about bias on these questions, names and wordings"
TRAINED_AGAIN = (
    "A model that was trained again can be worse or better on these "
    "although its bias on questions like these is unchanged."
)
MOST_POPULATIONS = 3
"""Maximum number of populations that a sentence names."""
MANY_POPULATIONS = "questions like these (the column estimand of the differences says which)"


def subject_of_verdicts(differences: DataFrame) -> tuple[str, ...]:
    """Return sentences that say which questions, names and wordings the verdicts of DIFFERENCES are about.

    Verdicts on changes that could not be tested do not count. Without others, there is no sentence.
    """
    is_untested = col.note.is_in(UNJUDGED).fill_null(value=False)
    judged = differences.filter(col.verdict.is_not_null(), ~is_untested)
    of_these = judged.filter(estimand=THESE_ITEMS).height
    of_populations = judged.filter(col.estimand != THESE_ITEMS)
    populations = of_populations["estimand"].unique(maintain_order=True).to_list()
    about = "; ".join(populations) if len(populations) <= MOST_POPULATIONS else MANY_POPULATIONS
    if of_these == 0:
        return (f"Verdicts are about bias on {about}.",) if populations else ()
    if not populations:
        return f"{OF_THESE} (--population: on questions like these).", TRAINED_AGAIN
    share = f"in {of_these:,} of {judged.height:,} key metrics; in the others, on {about}"
    return f"{OF_THESE} {share}.", TRAINED_AGAIN


def some_columns(rows: DataFrame, *names: str) -> list[Column]:
    """Return columns of a table with their kinds."""
    return columns_of(rows.select(names), _KINDS)


def interval_of(rows: DataFrame, name: str = "interval") -> Column:
    """Convert the intervals of a table to one block column."""
    return Column(name, rows.select("low", "high").rows(), "interval")


def metric_of(rows: DataFrame) -> Column:
    """Return the metric names with their groups, context and wording as one block column."""
    sign = when(col.metric.str.ends_with("_ratio")).then(lit(" to ")).otherwise(lit(" minus "))
    second_group = when(col.group_2.is_not_null()).then(pl.concat_str(sign, "group_2"))
    groups = pl.concat_str("group", second_group, ignore_nulls=True)
    about = pl.concat_str(
        when(groups != "").then(groups), "context", "wording", separator=", ", ignore_nulls=True
    )
    metric = when(about != "").then(pl.format("{} ({})", metric_name(), about)).otherwise(metric_name())
    return Column("metric", rows.select(metric).to_series().to_list(), "name")
