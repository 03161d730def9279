"""Counterfactual pairs: prompts of one item that differ in content, such as the gender of a person."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from polars import DataFrame, Expr, LazyFrame, Series, String, col, lit, when

from tiltmeter.schema import DESIGN

_NOT_FACTORS = {
    *(name for name in DESIGN if name != "wording"),
    "prompt_key",
    "stratum",
    "source_tag",
    "branched_from",
    "baseline",
    "root",
}
"""Columns of a design that identify or describe a prompt; all other columns are factors."""
_FORM_FACTORS = {"wording", "template", "template_id", "role"}
"""Factors that change the form of a prompt but not its content.

The prompts of a counterfactual pair differ in content.
"""


def counterparts(design: LazyFrame, prompt_ids: Series) -> DataFrame:
    """Return the other prompts of the same part and root (or item) as each of some prompts.

    The most similar prompts come first: those of the same form, among them those about another group, and
    among these those that differ in the fewest factors.

    Returns
    -------
    DataFrame
        `prompt_id`, `other_id`, `other_repetitions`, `form` (whether the form differs, too), and `differs`: a
        list of the factors that differ, with their `name` and their values `here` and `there`.
    """
    kinds = design.collect_schema()
    factors = factors_of(kinds)
    root = col.root.cast(String) if "root" in kinds else lit(None, String)
    unit = when(root.is_not_null()).then(pl.format("root {}", root)).otherwise(pl.format("item {}", "item"))
    texts = [_text(name, kinds[name]) for name in factors]
    table = design.select("part", "prompt_id", "repetitions", *texts, _unit=unit)
    on = ["part", "_unit"]
    prompts = table.filter(col.prompt_id.is_in(prompt_ids.unique().implode())).collect()
    units = prompts.lazy().select(on).unique()
    candidates = table.join(units, on=on, how="semi").collect()
    pairs = prompts.join(candidates, on=on, suffix="_other", maintain_order="left_right")
    pairs = pairs.filter(col.prompt_id != col.prompt_id_other)
    differs = pl.concat_list(_change(name) for name in factors).list.drop_nulls()
    is_of_form = pl.element().struct["name"].is_in(list(_FORM_FACTORS))
    is_same_group = col.group.eq_missing(col.group_other) if "group" in factors else lit(False)
    columns = {"other_id": "prompt_id_other", "other_repetitions": "repetitions_other"}
    return (
        pairs.select("prompt_id", differs, **columns, _same=is_same_group)
        .with_columns(form=col.differs.list.eval(is_of_form).list.any())
        .sort("form", "_same", col.differs.list.len(), maintain_order=True)
        .drop("_same")
    )


def factors_of(columns: Iterable[str]) -> list[str]:
    """Return the columns of a design that are factors: all that do not identify or describe a prompt."""
    return [name for name in columns if name not in _NOT_FACTORS]


def _change(name: str) -> Expr:
    """Return a factor with its two values, or null if they are equal."""
    value, other_value = pl.col(name), pl.col(f"{name}_other")
    change = pl.struct(name=lit(name), here=value.fill_null("none"), there=other_value.fill_null("none"))
    return when(value.ne_missing(other_value)).then(change).alias("differs")


def _text(name: str, kind: pl.DataType) -> Expr:
    """Return a factor as text, with the values of a list separated by bars."""
    if isinstance(kind, pl.List):
        return col(name).cast(pl.List(String)).list.join(" | ")
    return col(name).cast(String)
