"""Differences as blocks: number by number, over wordings, over repeated answers."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from polars import DataFrame, col, when

from tiltmeter.blocks import Block, Callout, Column, Kind, Table, Text
from tiltmeter.comparing.comparison import Comparison
from tiltmeter.study import metric_name

SHOWN = 20
"""Single concepts shown; all of them are in the JSON and with --all."""


def compared_blocks(found: Comparison, *, every: bool = False) -> list[Block]:
    """The two sides, key metrics with their verdicts, the concepts that surely differ, and how many verdicts there are of each kind."""
    blocks: list[Block] = [
        Text(f"{place}: {side['model']} in {side['run']}") for place, side in (("first", found.first), ("second", found.second))
    ]
    blocks += [Callout(note) for note in found.notes]
    chosen = found.chosen(every=every)
    numbers = chosen.filter(col.concept.is_null())
    if numbers.height:
        said = numbers.select(pl.concat_str("verdict", "note", separator=": ", ignore_nulls=True)).to_series().to_list()
        values = [*_columns(numbers, "first", "second", "difference"), _interval(numbers), *_columns(numbers, "q")]
        blocks.append(Table("Numbers", [*_columns(numbers, "part"), _metric(numbers), *values, Column("verdict", said)], lead=2))
    concepts = chosen.filter(col.concept.is_not_null()).sort("q", "p", maintain_order=True, nulls_last=True)
    if concepts.height:
        shown = concepts if every else concepts.head(SHOWN)
        title = f"Single concepts{'' if shown.height == concepts.height else f', {SHOWN} of {concepts.height:,}'}"
        columns = [*_columns(shown, "part", "group", "concept", "difference"), _interval(shown), *_columns(shown, "q")]
        blocks.append(Table(title, columns, lead=3))
    if judged := sum(found.verdicts.values()):
        counts = ", ".join(f"{count} {name}" for name, count in found.verdicts.items())
        blocks.append(Text(f"Of {judged} key metric{'s' * (judged > 1)}: {counts}."))
    return blocks


def within_blocks(wordings: DataFrame, stability: DataFrame) -> list[Block]:
    """How far a run's numbers hang on the wording (WORDINGS), and whether answers repeat themselves (STABILITY)."""
    blocks: list[Block] = []
    if wordings.is_empty():
        blocks.append(Text("Wordings: every question was put in one wording only (-P wording=all asks in all of them)."))
    else:
        ends = [f"{least} … {greatest}" for least, greatest in wordings.select("least", "greatest").iter_rows()]
        columns = [*_columns(wordings, "model", "part"), _metric(wordings), *_columns(wordings, "spread")]
        columns += [Column("least … greatest", ends, "name"), *_columns(wordings, "q")]
        blocks.append(Table("Key metrics over wordings", columns, lead=3))
    if stability.is_empty():
        return [*blocks, Text("Repeats: every prompt was asked once (--repeats asks again).")]
    columns = [*_columns(stability, "model", "part", "prompts", "of", "identical", "alpha"), _interval(stability, "interval of alpha")]
    note = "alpha: 1 where they always agree, 0 where they agree no more than answers to other prompts do"
    return [*blocks, Table("Answers to the same prompt", columns, lead=2, note=note)]


_KINDS: Mapping[str, Kind] = {
    "q": "probability",
    "prompts": "count",
    **dict.fromkeys(("first", "second", "difference", "spread", "identical", "alpha"), "number"),
}


def _columns(rows: DataFrame, *names: str) -> list[Column]:
    return [Column(name, rows[name].to_list(), _KINDS.get(name, "name")) for name in names]


def _interval(rows: DataFrame, name: str = "interval") -> Column:
    return Column(name, list(rows.select("low", "high").iter_rows()), "interval")


def _metric(rows: DataFrame) -> Column:
    """Names of metrics with what they are about."""
    about = pl.concat_str("group", "context", "wording", separator=", ", ignore_nulls=True)
    metric = when(about != "").then(pl.format("{} ({})", metric_name(), about)).otherwise(metric_name())
    return Column("metric", rows.select(metric).to_series().to_list(), "name")
