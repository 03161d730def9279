"""The texts of baselines: which names they contain, and whether those of the groups differ in anything else."""

from __future__ import annotations

import polars as pl
from polars import DataFrame, col, lit

from tiltmeter.benchmarks.definitions import BenchmarkOptions

__all__ = ["differ_in_names_only", "group_names"]


def group_names(answers: DataFrame, options: BenchmarkOptions) -> list[str]:
    """Return the names of the compared groups, with and without an article.

    Empty if groups are not named in texts.
    """
    naming = [name for name in ("concept", "keyword") if name in options.groups and name in answers.columns]
    if not naming:
        return []
    names = pl.concat([answers[name] for name in naming]).drop_nulls().unique().sort().to_list()
    return [*names, *(f"the {name}" for name in names)]


def differ_in_names_only(rows: DataFrame, options: BenchmarkOptions) -> bool:
    """Check whether the baselines of the groups differ in nothing but the names of the groups.

    This holds for a prompt that was branched, with its branches. It also holds for a text that, without the
    names, is the baseline of equally many prompts about each group. If it does not hold, calibrated values
    differ between groups even for a model that answers alike about all of them.

    Parameters
    ----------
    rows
        `baseline`, `subject` (the group), `prompt_key`, `root`, the names of groups, and `branched_from` if
        there are branches. Rows without a baseline are ignored.
    options
        Options of the benchmark.
    """
    from tiltmeter.features import mask_words

    names = group_names(rows, options)
    prompts = rows.unique("prompt_key", maintain_order=True).drop_nulls("baseline")
    groups = prompts["subject"].n_unique()
    if names and "branched_from" in prompts.columns:
        prompts = prompts.filter(col.branched_from.is_null().all().over("root"))
    masked = mask_words(prompts["baseline"], names) if names else prompts["baseline"]
    counts = prompts.select("subject", text=masked).group_by("text", "subject").len()
    alike = counts.group_by("text").agg(matched=(pl.len() == lit(groups)) & (col.len.n_unique() == 1))
    return bool(alike["matched"].all())
