"""Differences as blocks: number by number, over wordings, over repeated answers."""

from __future__ import annotations

from typing import Any

import polars as pl

from tiltmeter.blocks import Block, Callout, Column, Table, Text
from tiltmeter.comparing.comparison import Comparison
from tiltmeter.comparing.differences import VERDICTS
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
    numbers = chosen.filter(pl.col("concept").is_null())
    if numbers.height:
        said = numbers.select(pl.concat_str("verdict", "note", separator=": ", ignore_nulls=True)).to_series().to_list()
        blocks.append(
            Table(
                "Numbers",
                [*_named(numbers, "part"), *_differences(numbers, "first", "second", "difference"), Column("verdict", said)],
                lead=2,
            )
        )
    concepts = chosen.filter(pl.col("concept").is_not_null()).sort("q", "p", maintain_order=True, nulls_last=True)
    if concepts.height:
        shown = concepts if every else concepts.head(SHOWN)
        names = [
            Column(name, shown[field].to_list(), "name") for name, field in (("part", "part"), ("group", "group"), ("concept", "concept"))
        ]
        title = f"Single concepts{'' if shown.height == concepts.height else f', {SHOWN} of {concepts.height:,}'}"
        blocks.append(Table(title, [*names, *_differences(shown, "difference")], lead=3))
    if any(found.verdicts.values()):
        counts = ", ".join(f"{found.verdicts[name]} {name}" for name in VERDICTS)
        blocks.append(Text(f"Of {sum(found.verdicts.values())} key metrics: {counts}."))
    return blocks


def within_blocks(wordings: pl.DataFrame, stability: pl.DataFrame) -> list[Block]:
    """How far a run's numbers hang on the wording (WORDINGS), and whether answers repeat themselves (STABILITY)."""
    blocks: list[Block] = []
    if wordings.is_empty():
        blocks.append(Text("Wordings: every question was put in one wording only (-P wording=all asks in all of them)."))
    else:
        ends = [f"{least} … {greatest}" for least, greatest in wordings.select("least", "greatest").iter_rows()]
        columns = [
            Column("spread", wordings["spread"].to_list(), "number"),
            Column("least … greatest", ends, "name"),
            _listed(wordings, "q"),
        ]
        blocks.append(Table("Key metrics over wordings", [*_named(wordings, "model", "part"), *columns], lead=3))
    if stability.is_empty():
        return [*blocks, Text("Repeats: every prompt was asked once (--repeats asks again).")]
    columns = [
        *(Column(name, stability[name].to_list(), "name") for name in ("model", "part")),
        Column("prompts", stability["prompts"].to_list(), "count"),
        Column("of", stability["of"].to_list(), "name"),
        *(Column(name, stability[name].to_list(), "number") for name in ("identical", "alpha")),
        Column("interval of alpha", list(stability.select("low", "high").iter_rows()), "interval"),
    ]
    note = "alpha: 1 where they always agree, 0 where they agree no more than answers to other prompts do"
    return [*blocks, Table("Answers to the same prompt", columns, lead=2, note=note)]


def _named(rows: pl.DataFrame, *names: str) -> list[Column]:
    about = pl.concat_str("group", "context", "wording", separator=", ", ignore_nulls=True)
    metric = pl.when(about != "").then(pl.format("{} ({})", metric_name(), about)).otherwise(metric_name())
    return [*(_listed(rows, name) for name in names), Column("metric", rows.select(metric).to_series().to_list(), "name")]


def _differences(rows: pl.DataFrame, *names: str) -> list[Column]:
    numbers = [Column(name, rows[name].to_list(), "number") for name in names]
    return [*numbers, Column("interval", list(rows.select("low", "high").iter_rows()), "interval"), _listed(rows, "q")]


def _listed(rows: pl.DataFrame, name: str) -> Column:
    values: list[Any] = rows[name].to_list()
    return Column(name, values, "probability" if name == "q" else "name")
