"""Counterfactual pairs: prompts of one item that differ in content, such as the gender of a person."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from polars import DataFrame, Expr, LazyFrame, Series, String, col, lit, when

from tiltmeter.schema import DESIGN

_NOT_FACTORS = {*DESIGN, "prompt_key", "stratum", "source_tag", "branched_from", "baseline", "root"} - {
    "wording"
}
"""Columns of a design that identify or describe a prompt; all other columns are factors."""
_FORM_FACTORS = {"wording", "template", "template_id", "role"}
"""Factors that change the form of a prompt but not its content. The prompts of a counterfactual pair differ
in content."""


def counterparts(design: LazyFrame, prompt_ids: Series) -> DataFrame:
    """Return the other prompts of the same part and root (or item) as each of the given prompts, the most similar first.

    Prompts of the same form come first, and among them those that differ in the fewest factors.

    Returns
    -------
    DataFrame
        `prompt_id`, `other_id`, `other_repetitions`, `form` (whether the form differs, too), and `differs`: a
        list of the factors that differ, with their `name` and their values `here` and `there`.
    """
    kinds = design.collect_schema()
    factors = factors_of(kinds)
    roots = col.root.cast(String) if "root" in kinds else lit(None, String)
    unit = when(roots.is_not_null()).then(pl.format("root {}", roots)).otherwise(pl.format("item {}", "item"))
    table = design.select(
        "part", "prompt_id", "repetitions", *(_text(name, kinds[name]) for name in factors), _unit=unit
    )
    mine = table.filter(col.prompt_id.is_in(prompt_ids.unique().implode())).collect()
    others = table.join(
        mine.lazy().select("part", "_unit").unique(), on=["part", "_unit"], how="semi"
    ).collect()
    both = mine.join(others, on=["part", "_unit"], suffix="_other", maintain_order="left_right").filter(
        col.prompt_id != col.prompt_id_other
    )
    differs = pl.concat_list(_change(name) for name in factors).list.drop_nulls()
    found = both.select(
        "prompt_id", differs, other_id="prompt_id_other", other_repetitions="repetitions_other"
    )
    found = found.with_columns(
        form=col.differs.list.eval(pl.element().struct["name"].is_in(list(_FORM_FACTORS))).list.any()
    )
    return found.sort("form", col.differs.list.len(), maintain_order=True)


def factors_of(columns: Iterable[str]) -> list[str]:
    """Return the columns of a design that are factors: all that do not identify or describe a prompt."""
    return [name for name in columns if name not in _NOT_FACTORS]


def _change(name: str) -> Expr:
    here, there = pl.col(name), pl.col(f"{name}_other")
    values = pl.struct(name=lit(name), here=here.fill_null("none"), there=there.fill_null("none"))
    return when(here.ne_missing(there)).then(values).alias("differs")


def _text(name: str, kind: pl.DataType) -> Expr:
    return (
        col(name).cast(pl.List(String)).list.join(" | ")
        if isinstance(kind, pl.List)
        else col(name).cast(String)
    )
