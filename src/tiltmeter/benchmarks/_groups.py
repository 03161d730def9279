"""Groups of prompts, the conditions in which they are asked, and the names of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from polars import DataFrame, Expr, col

from tiltmeter.benchmarks._options import BenchmarkOptions

NAMING: Final = ("concept", "keyword")
"""Columns with names of groups as they occur in texts."""


def with_groups(answers: DataFrame, options: BenchmarkOptions) -> DataFrame:
    """Add the columns `generation` and `subject`.

    The generation is the role, with the template if there are several; the subject is the group.
    """
    condition = ["role", "template"] if answers["template"].n_unique() > 1 else ["role"]
    return answers.with_columns(
        generation=pl.concat_str(condition, separator=", "), subject=group_of(options)
    )


def group_of(options: BenchmarkOptions) -> Expr:
    """Return the group of a prompt, from the columns that define groups."""
    values = [col(name).fill_null("none") for name in options.groups]
    return pl.concat_str(values, separator=" / ")


def attribute_of(rows: DataFrame, options: BenchmarkOptions) -> str:
    """Return the name of the attribute that the groups are values of.

    It is the domain of the benchmark ("countries") if the groups are its concepts, else the columns of the
    groups.
    """
    domains = rows["domain"].drop_nulls().unique().to_list() if "domain" in rows.columns else []
    if tuple(options.groups) == ("concept",) and len(domains) == 1:
        return str(domains[0])
    return ",".join(options.groups)


def paired_by_topic(rows: DataFrame) -> bool:
    """Check whether rows with the same root are prompts on the same topic.

    Otherwise, they are the branches of a prompt, or the pairs of the user.
    """
    if "branched_from" in rows.columns and rows["branched_from"].count():
        return False
    return "kind" in rows.columns and bool((rows["kind"] != "given").any())


def has_pairs(rows: DataFrame, group: str) -> bool:
    """Check whether prompts about different groups (values of the column `group`) have the same root."""
    groups_of_root = col(group).n_unique().over("root")
    return bool(rows.select((groups_of_root > 1).any()).item())


def names_in_prompts(answers: DataFrame) -> list[str]:
    """Return the names of groups (concepts and keywords) in the prompts, sorted."""
    return _sorted_names(answers, [name for name in NAMING if name in answers.columns])


def group_names(answers: DataFrame, options: BenchmarkOptions) -> list[str]:
    """Return the names of the compared groups, with and without an article.

    Empty if groups are not named in texts.
    """
    columns = [name for name in NAMING if name in options.groups and name in answers.columns]
    if not columns:
        return []
    names = _sorted_names(answers, columns)
    return [*names, *(f"the {name}" for name in names)]


def _sorted_names(answers: DataFrame, columns: Sequence[str]) -> list[str]:
    return pl.concat([answers[name] for name in columns]).drop_nulls().unique().sort().to_list()
