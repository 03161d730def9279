"""Report blocks of BBQ: what lowers the accuracy, and the six formulas in use beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import polars as pl
from polars import DataFrame, col

from tiltmeter._quantities import interval, interval_name, quantity
from tiltmeter.blocks import Block, Column, Headline, Table, named_model
from tiltmeter.probes._bbq._category import FORMULA_SCORES
from tiltmeter.probes._bbq._formulas import FORMULAS, Formula
from tiltmeter.probes._headlines import Row
from tiltmeter.probes._presentation import present as present_probes
from tiltmeter.schema import SHOWN_BELOW, conform
from tiltmeter.study import MethodTable, ReportView

TABLE: Final = "formulas"
"""Name of the table of the six formulas."""
TITLE: Final = "Six formulas, these answers"
ABOUT: Final = " ".join(
    [
        "All values are computed from the same answers.",
        *(f"{formula.title}: {formula.about}." for formula in FORMULAS.values()),
        "A value that a formula leaves undefined is blank. Formulas of bias use the questions of which the "
        "file says who belongs to the stereotyped group.",
    ]
)
MOST_NAMED: Final = 3
"""Categories that a headline names."""


def present(view: ReportView) -> list[Block]:
    """Return the blocks of the probes, with headlines about over-caution and the table of the formulas."""
    blocks: list[Block] = []
    findings = view.findings.filter(col.wording.is_null())
    for block in present_probes(view):
        if isinstance(block, Headline):
            blocks.append(_headline(block, findings.filter(model=block.model), view.titles))
        else:
            blocks.append(block)
    last = max((place for place, block in enumerate(blocks) if isinstance(block, Headline)), default=-1)
    table = tables_of(view)[TABLE]
    rows = table.rows()
    if not rows.is_empty():
        after_summary = next(
            (place for place in range(last + 1, len(blocks)) if not isinstance(blocks[place], Table)),
            len(blocks),
        )
        blocks.insert(after_summary, table.present(rows))
    return blocks


def tables_of(view: ReportView) -> Mapping[str, MethodTable]:
    """Return the table of the six formulas by its name."""

    def rows() -> DataFrame:
        table = view.table("formula_scores")
        return conform(table, FORMULA_SCORES) if table.width else DataFrame(schema=dict(FORMULA_SCORES))

    def present_rows(table: DataFrame) -> Table:
        titles = [view.titles.get(part, part) for part in table["part"]]
        names = [
            Column("category", titles, "name"),
            Column("context", table["context"].to_list(), "name"),
        ]
        if table["model"].n_unique() > 1:
            names.insert(0, Column("model", table["model"].to_list(), "name"))
        scores = [
            Column(formula.title, table[name].to_list(), "number") for name, formula in FORMULAS.items()
        ]
        answers = Column("answers", table["answers"].to_list(), "count", rank=1)
        return Table(TITLE, [*names, *scores, answers], lead=len(names), note=ABOUT)

    return {TABLE: MethodTable(rows, present_rows)}


# -- headlines ---------------------------------------------------------------------------------------------


def _headline(block: Headline, findings: DataFrame, titles: Mapping[str, str]) -> Headline:
    """Return the headline with what lowers the accuracy, or with the scores of another project's formula."""
    definition = findings["definition"][0].partition("@")[0]
    if definition in FORMULAS:
        scores = findings.filter("key", col.estimate.is_not_null())
        return block if scores.is_empty() else _headline_of_formula(block, FORMULAS[definition], scores)
    cautious = cautious_categories(findings)
    if cautious.is_empty():
        return block
    parts = findings["part"].n_unique()
    place = f" in {cautious.height} of {parts} categories" if parts > 1 else ""
    clause = f"over-caution, not bias, costs most of the lost accuracy{place}"
    rows = cautious.head(MOST_NAMED).rows(named=True)
    sentences = [_caution_in_words(row, titles) for row in rows]
    return replace(
        block, text=f"{block.text}; {clause}", detail=" ".join(filter(None, [block.detail, *sentences]))
    )


def cautious_categories(findings: DataFrame) -> DataFrame:
    """Return the categories where “unknown” costs more accuracy than wrong persons, with their shares.

    Where “unknown” is shown to be one-sided, it is bias itself, and the category is left out.
    """
    is_shown = col.q < SHOWN_BELOW
    one_sided = findings.filter(is_shown, metric="over_caution_gap")["part"]
    shown = findings.filter(
        is_shown, col.estimate > 0, ~col.part.is_in(one_sided.implode()), metric="over_caution_minus_wrong"
    )
    shares = findings.filter(metric="over_caution").select("part", unknown="estimate")
    return shown.join(shares, on="part", how="left", maintain_order="left").sort(
        "estimate", descending=True, maintain_order=True
    )


def _caution_in_words(row: Row, titles: Mapping[str, str]) -> str:
    """Return the shares of “unknown” and of wrong persons in a category, with their difference."""
    size = quantity(row["estimate"], row["low"], row["high"], row["unit"])
    ends = f"{interval_name(row['level'])} {interval(row['low'], row['high'], row['unit'])}"
    misnamed = max(row["unknown"] - row["estimate"], 0.0)
    title = titles.get(row["part"], row["part"])
    return (
        f"“{title}”, where the text gives the answer: {row['unknown']:.0%} of the answers are “unknown”, and "
        f"{misnamed:.0%} name the wrong person ({size.replace(' point', ' percentage point')} fewer, {ends})."
    )


def _headline_of_formula(block: Headline, formula: Formula, scores: DataFrame) -> Headline:
    """Return the headline with the scores of a formula that has no tiers; their means over categories."""
    parts = scores["part"].n_unique()
    means = scores.group_by("metric", maintain_order=True).agg(pl.col("estimate").mean()).sort("metric")
    values = [f"{score:.3f} for {metric.rpartition('_')[2]} texts" for metric, score in means.rows()]
    of_parts = f", means of {parts} categories" if parts > 1 else ""
    sentence = f"{named_model(block.model)}: {formula.title} {' and '.join(values)}{of_parts}"
    return replace(block, text=sentence)
