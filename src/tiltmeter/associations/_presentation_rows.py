"""Associations with display columns, and the columns of the tables that show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from polars import DataFrame, Expr, String, col, lit, when

from tiltmeter._quantities import confidence, interval, interval_name, quantity
from tiltmeter.associations._findings import other_groups
from tiltmeter.associations._labels import AND_RELATED
from tiltmeter.associations._tables import FOUND
from tiltmeter.associations._terms import any_of
from tiltmeter.blocks import Column
from tiltmeter.readers._words_in_sentences import word_lists
from tiltmeter.schema import Schema, beside, conform
from tiltmeter.study import ReportView

TOP: Final = 10
"""Number of associations shown in the details of each group."""
TOP_OF_GROUP: Final = 5
"""Number of associations of a group shown in the first table."""
TOP_OF_MODEL: Final = 30
"""Number of associations of a model shown in the first table."""
LEAST_SHOWN: Final = 0.03
"""Smallest difference of two shares in the first table and in the number of associated concepts."""
VARIANTS_NAMED: Final = 2
"""Number of variants named for an association."""
TOP_OF_PLACE: Final = 5
"""Number of associations shown for each location and group, and among those specific to one of two models."""
LONGEST_CONCEPT: Final = 120
"""Maximum number of characters shown of a concept."""
LONGEST_SENTENCE: Final = 300
"""Maximum number of characters shown of a sentence."""
OWNER_COLUMNS: Final = {"model": String, "part": String}
NAME_COLUMNS: Final = ["group", "concept", "context"]


def table_of(view: ReportView, name: str, columns: Schema) -> DataFrame:
    """Return a table of the run; without rows if the run has none."""
    table = view.table(name)
    return conform(table, columns) if table.width else DataFrame(schema=dict(columns))


def described(findings: DataFrame, view: ReportView) -> DataFrame:
    """Join findings of single concepts with their row of `associations`, and add display columns.

    Display columns are `said` (the concept), `variants` with their shares, `where`, `next` (the other group
    with the highest share), `may_lead` (whether it is open which share is higher), `also`
    (other groups with the concept) and `counts`. Rows are sorted by the lower end of the interval (by the
    estimate where there is none), the strongest first.
    """
    associations = table_of(view, "associations", {**OWNER_COLUMNS, **FOUND})
    compared = (*OWNER_COLUMNS, "identity", "against")
    has_several_others = col.against.is_null() & (other_groups("identity", *OWNER_COLUMNS).list.len() > 1)
    facing_of = (
        associations.select(compared)
        .unique()
        .with_columns(facing=facing(), has_several_others=has_several_others)
    )
    associations = associations.drop("low", "high", "p", "q", "concept").rename(
        {"level": "stored_level", "label": "concept"}
    )
    name = (*OWNER_COLUMNS, *NAME_COLUMNS, "group_2")
    names = findings.select(name).rename({"group": "identity", "group_2": "against"})
    named = associations.join(names, on=names.columns, how="semi", nulls_equal=True, maintain_order="left")
    named = beside(named.unique(names.columns), facing_of, *compared)
    named = named.with_columns(group="identity", group_2="against")
    rows = beside(findings, named, *name)
    rows = beside(rows, _variants(rows), *name)
    # The findings of runs before version 4 have the level before the adjustment for selection, and their
    # table has none.
    rows = rows.with_columns(level=when(col.count.is_null()).then("level").otherwise("stored_level"))
    others = other_groups("group", *OWNER_COLUMNS, "concept", "context")
    has_next = col.has_several_others.fill_null(value=False) & (col.runner_up_rate > 0)
    may_lead = has_next & (col.runner_up_low <= 0) & (col.runner_up_high >= 0)
    rows = rows.with_columns(
        said=_shortened(col.concept, LONGEST_CONCEPT),
        where=col.context.fill_null("all"),
        next=when(has_next).then(
            pl.format("{} {}%", "runner_up", (100 * col.runner_up_rate).round(0).cast(pl.Int64))
        ),
        may_lead=may_lead.fill_null(value=False),
        also=when(others.list.len() > 0).then(others.list.join(", ")),
        counts=_counts(),
        examples=col.examples.list.eval(_shortened(pl.element(), LONGEST_SENTENCE)),
    )
    strength = pl.coalesce("low", "estimate")
    return rows.sort(strength, *NAME_COLUMNS, descending=[True, False, False, False], nulls_last=True)


def _variants(rows: DataFrame) -> DataFrame:
    """Return the names of associations that have variants, with the `variants` and their shares in words."""
    name = [*OWNER_COLUMNS, *NAME_COLUMNS, "group_2"]
    share = pl.format(
        "{} {}%", _shortened(col.concept, LONGEST_CONCEPT), (100 * col.rate).round(0).cast(pl.Int64)
    )
    variants = rows.drop_nulls("variant_of").sort("rate", "concept", descending=[True, False])
    variants = variants.with_columns(share=share, concept="variant_of")
    more = pl.len().cast(pl.Int64) - VARIANTS_NAMED
    named = col.share.head(VARIANTS_NAMED).str.join(", ")
    and_more = when(more > 0).then(pl.format(" and {} more", more)).otherwise(lit(""))
    return variants.group_by(name).agg(variants=pl.concat_str(named, and_more))


def is_shown_first() -> Expr:
    """Return whether an association is in the first table.

    It is no variant of another, not too small, and no English word that says little alone. Scores of
    published definitions are all in it.
    """
    is_large = col.estimate >= LEAST_SHOWN
    return (col.variant_of.is_null() & is_large & ~is_general()) | (col.unit == "score")


def is_general() -> Expr:
    """Return whether an association is one English word that says little alone, also if it is negated."""
    lists = word_lists("en")
    negation = rf"^{any_of(lists['negations'])} (?:… )?"
    word = col.concept.str.strip_suffix(AND_RELATED).str.replace(negation, "")
    return word.is_in(lists["general"])


def _counts() -> Expr:
    """Return the counts of a group and of what it is compared with, in words."""
    of_group = pl.format("in {} of {} descriptions ({}%)", "count", "lists", percent("rate"))
    of_others = pl.format("{} of {} ({}%)", "others_count", "others_lists", percent("others_rate"))
    return pl.format("{}; {} {}", of_group, "facing", of_others)


def facing() -> Expr:
    """Return what an `identity` is compared with.

    The identity it is `against`, the only other one of the study, or "others".
    """
    others = other_groups("identity", *OWNER_COLUMNS)
    only_other = when(others.list.len() == 1).then(others.list.first())
    return pl.coalesce("against", only_other, lit("others"))


def percent(column: str) -> Expr:
    """Return a share in percent, with one decimal."""
    return (col(column) * 100).round(1)


def _shortened(text: Expr, longest: int) -> Expr:
    shortened = pl.concat_str(text.str.head(longest - 1), lit("…"))
    return when(text.str.len_chars() > longest).then(shortened).otherwise(text)


def names_of(rows: DataFrame, *, noun: str = "concept", without: Sequence[str] = ()) -> list[Column]:
    """Return the columns that name an association.

    The model and the location are left out if they are the same in all rows.
    """
    titles = {"model": "model", "group": "group", "said": noun, "where": "where"}
    omitted = set(without)
    if rows["model"].n_unique() <= 1:
        omitted.add("model")
    if set(rows["where"]) == {"all"}:
        omitted.add("where")
    return [Column.of(rows, name, title, "name") for name, title in titles.items() if name not in omitted]


def numbers_of(rows: DataFrame) -> list[Column]:
    """Return the columns of estimate, interval and q.

    The level is a column of its own if intervals have different ones.
    """
    numbers = rows.select("estimate", "low", "high", "unit").rows()
    estimates = [quantity(*number) for number in numbers]
    intervals = [interval(low, high, unit) for _, low, high, unit in numbers]
    levels = rows["level"].unique()
    name_of_estimates = "score" if "score" in rows["unit"] else "difference"
    name_of_intervals = interval_name(levels[0] if levels.len() == 1 else None)
    columns = [
        Column(name_of_estimates, estimates, "quantity"),
        Column(name_of_intervals, intervals, "quantity"),
    ]
    if levels.len() > 1:
        percents = [None if level is None else confidence(level) for level in rows["level"]]
        columns.append(Column("level", percents, "quantity", rank=2))
    columns.append(Column.of(rows, "q", kind="probability", rank=1))
    return columns
