"""What is in a benchmark, concept by concept."""

from __future__ import annotations

import polars as pl

__all__ = ["describe_benchmark"]


def describe_benchmark(table: pl.DataFrame) -> pl.DataFrame:
    """One row per concept, in the order of the table: how much there is of it.

    Returns
    -------
    Columns `concept`, `prompts`, `branches` (prompts made from another concept's), `keywords` (distinct), `baselines` (prompts that
    have one), `sources` (distinct), `kinds`, `source_tags`, `licences` (lists of what occurs).
    """
    distinct = (pl.col(name).drop_nulls().n_unique().alias(f"{name}s") for name in ("keyword", "source"))
    occurring = (
        pl.col(name).drop_nulls().unique(maintain_order=True).alias(listed)
        for name, listed in (("kind", "kinds"), ("source_tag", "source_tags"), ("licence", "licences"))
    )
    counted = table.group_by("concept", maintain_order=True).agg(
        pl.len().alias("prompts"),
        pl.col("branched_from").is_not_null().sum().alias("branches"),
        pl.col("baseline").is_not_null().sum().alias("baselines"),
        *distinct,
        *occurring,
    )
    return counted.select("concept", "prompts", "branches", "keywords", "baselines", "sources", "kinds", "source_tags", "licences")
