"""What a report shows of outcomes compared between groups: sentences and charts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl
from polars import DataFrame, col

from tiltmeter._quantities import interval_name, quantity
from tiltmeter.blocks import (
    Block,
    Column,
    Details,
    Heading,
    Headline,
    IntervalRow,
    Intervals,
    Table,
    named_model,
)
from tiltmeter.comparisons._matched_sets import BY_CHANCE, FLIP_RATE, RANGE
from tiltmeter.comparisons._missing import is_missing_test, tested_metric
from tiltmeter.schema import SHOWN_BELOW

IN_RESPONSES: Final = {"no bias shown": "no other bias shown"}
"""What a headline says of the responses that could be read, if others are missing more often for a group."""
OF_SETS: Final = (
    "Flip rate: share of matched sets whose label is not the same for all groups. Range: largest minus"
    " smallest value of the groups, mean over the sets. By chance: expected if the groups are treated alike;"
    " for a flip rate, this is known only from repetitions (--repeats). More than by chance means that"
    " answers depend on who is named, not that one group is worse off."
)
"""What the statistics of matched sets say."""
MOST_GROUPS: Final = 10
"""Largest number of groups of a chart."""


def shown_differences(findings: DataFrame) -> DataFrame:
    """Return the findings of missing responses that differ between groups, the largest first.

    A difference is stated as a fact if q < SHOWN_BELOW. `note` says it in words.
    """
    shown = findings.filter(is_missing_test(), col.q < SHOWN_BELOW)
    return shown.sort(col.estimate.abs(), descending=True, maintain_order=True)


def missing_sentences(findings: DataFrame, titles: Mapping[str, str]) -> dict[str, list[str]]:
    """Return by model what is missing more often for one group than for another, as ends of a headline.

    Parameters
    ----------
    findings
        FINDINGS of one or more models.
    titles
        Titles of the parts, named if there are several.
    """
    has_several_parts = findings["part"].n_unique() > 1
    sentences: dict[str, list[str]] = {}
    for row in shown_differences(findings).iter_rows(named=True):
        place = f" (“{titles.get(row['part'], row['part'])}”)" if has_several_parts else ""
        sentences.setdefault(row["model"], []).append(f"{row['note']}{place}")
    return sentences


def with_missing_responses(
    blocks: Sequence[Block], findings: DataFrame, titles: Mapping[str, str]
) -> list[Block]:
    """Return the blocks with what is missing more often for one group than for another.

    It is at the beginning of each headline, and its rates by group are charts before the first heading.

    Parameters
    ----------
    blocks
        Blocks of a report.
    findings
        FINDINGS of the models of the report.
    titles
        Titles of the parts by name.
    """
    sentences = missing_sentences(findings, titles)
    if not sentences:
        return list(blocks)
    stated = [
        _with_sentences(block, sentences[block.model])
        if isinstance(block, Headline) and block.model in sentences
        else block
        for block in blocks
    ]
    headings = [place for place, block in enumerate(stated) if isinstance(block, Heading | Intervals)]
    first = headings[0] if headings else len(stated)
    return [*stated[:first], *_rates_by_group(findings, titles), *stated[first:]]


def _rates_by_group(findings: DataFrame, titles: Mapping[str, str]) -> list[Intervals]:
    """Return a chart of the rates of each group for each kind of response that is missing unequally."""
    charts: dict[str, list[IntervalRow]] = {}
    sentences: dict[str, list[str]] = {}
    shown = shown_differences(findings)
    for difference in shown.iter_rows(named=True):
        metric = tested_metric(difference["metric"])
        same = {name: difference[name] for name in ("model", "part", "attribute")}
        rates = findings.filter(**same, metric=metric.rate)
        title = titles.get(difference["part"], difference["part"])
        panel = f"{named_model(difference['model'])}, “{title}”"
        charts.setdefault(metric.outcome, []).extend(_rows_of(panel, rates))
        sentence = f"{named_model(difference['model'])} {difference['note']}"
        sentences.setdefault(metric.outcome, []).append(sentence)
    about = "Share of all responses about a group (dot)"
    level = shown["level"][0] if shown["level"].n_unique() == 1 else None
    return [
        Intervals(
            title=f"{outcome.capitalize()}, by group",
            rows=rows,
            level=level,
            names=("responses of", "group"),
            finding=sentences[outcome][0],
            about=f"{about} and {interval_name(level)} (line){_sizes(shown)}.",
            axis=f"{outcome} (%)",
        )
        for outcome, rows in charts.items()
    ]


def _sizes(findings: DataFrame) -> str:
    """Return the number of responses and items behind findings as the end of a sentence."""
    attempts, items = findings.select(pl.max("attempts", "items")).row(0)
    if attempts is None or items is None:
        return ""
    return f"; {attempts:,} responses to {items:,} items of each model"


def _rows_of(panel: str, rates: DataFrame) -> list[IntervalRow]:
    """Return the rates of groups as rows of a chart; of many groups, the highest and the lowest rates."""
    ordered = rates.sort("estimate", descending=True, maintain_order=True)
    if ordered.height > MOST_GROUPS:
        half = MOST_GROUPS // 2
        ordered = pl.concat([ordered.head(half), ordered.tail(half)])
    return [
        IntervalRow(
            panel=panel,
            label=rate["group"],
            estimate=rate["estimate"],
            low=rate["low"],
            high=rate["high"],
            unit="share",
        )
        for rate in ordered.iter_rows(named=True)
    ]


def _with_sentences(headline: Headline, sentences: Sequence[str]) -> Headline:
    """Return a headline that begins with the first sentence; the others are in its detail."""
    name = f"{named_model(headline.model)}: "
    text = headline.text.removeprefix(name)
    for words, other_words in IN_RESPONSES.items():
        text = text.replace(words, other_words)
    further = [f"It {sentence}." for sentence in sentences[1:]]
    detail = " ".join(filter(None, [*further, headline.detail]))
    return dataclasses.replace(headline, text=f"{name}{sentences[0]}; {text}", detail=detail)


def with_matched_sets(blocks: Sequence[Block], findings: DataFrame, titles: Mapping[str, str]) -> list[Block]:
    """Return the blocks with the statistics of matched sets, in a table before the first heading.

    If what chance alone gives is not known, they are details at the end.

    Parameters
    ----------
    blocks
        Blocks of a report.
    findings
        FINDINGS of the models of the report.
    titles
        Titles of the parts by name.
    """
    statistics = findings.filter(col.metric.is_in([FLIP_RATE, RANGE]))
    if statistics.is_empty():
        return list(blocks)
    rows = statistics.rows(named=True)
    same = ["model", "part", "attribute"]
    chance = {
        (*(row[name] for name in same), row["metric"].removesuffix(BY_CHANCE)): row["estimate"]
        for row in findings.filter(col.metric.str.ends_with(BY_CHANCE)).iter_rows(named=True)
    }
    values_by_chance = [chance.get((*(row[name] for name in same), row["metric"])) for row in rows]
    by_chance = [
        None if value is None else _of_sets(row, value)
        for row, value in zip(rows, values_by_chance, strict=True)
    ]
    columns = [
        Column("outcome", [titles.get(row["part"], row["part"]) for row in rows], "name"),
        Column("by", [row["attribute"] for row in rows], "name"),
        Column("statistic", [row["metric"].replace("_", " ") for row in rows], "name"),
        Column("value", [_of_sets(row, row["estimate"]) for row in rows], "quantity"),
        Column("by chance", by_chance, "quantity"),
        Column("p", [row["p"] for row in rows], "probability"),
        Column("sets", [row["items"] for row in rows], "count"),
    ]
    if statistics["model"].n_unique() > 1:
        columns.insert(0, Column("model", [named_model(row["model"]) for row in rows], "name", whole=True))
    table: Table | Details = Table("Within matched sets", columns, lead=3, note=OF_SETS)
    if not chance:
        return [*blocks, Details("Within matched sets", [table])]
    headings = [place for place, block in enumerate(blocks) if isinstance(block, Heading | Details)]
    first = headings[0] if headings else len(blocks)
    return [*blocks[:first], table, *blocks[first:]]


def _of_sets(row: Mapping[str, Any], value: float) -> str:
    """Return a flip rate in percent, or a range."""
    return quantity(value, row["low"], row["high"], row["unit"])
