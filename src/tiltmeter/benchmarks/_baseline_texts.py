"""The texts of baselines: whether those of the groups differ in names only, and calibration with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
from polars import DataFrame, Series, col, lit

from tiltmeter.benchmarks._groups import group_names
from tiltmeter.benchmarks._options import BenchmarkOptions

if TYPE_CHECKING:
    from tiltmeter.features import Feature


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
    texts = mask_words(prompts["baseline"], names) if names else prompts["baseline"]
    counts = prompts.select("subject", text=texts).group_by("text", "subject").len()
    has_all_groups = pl.len() == lit(groups)
    matched = counts.group_by("text").agg(matched=has_all_groups & (col.len.n_unique() == 1))
    return bool(matched["matched"].all())


def without_names(
    features: Sequence[Feature], texts: Series, baselines: Series, names: Sequence[str]
) -> DataFrame:
    """Compute calibrated features: those of each text minus those of its baseline, without the groups' names.

    A measuring tool that reacts to a name reacts to each occurrence of it. The value of a baseline, which
    contains the name once, can therefore not correct a long answer. With one word in place of the names,
    there is nothing to correct.

    Parameters
    ----------
    features
        Open features. Columns that are not calibrated, such as distances, are omitted.
    texts, baselines
        Strings, nulls allowed, of equal length.
    names
        Names of the groups, which are replaced as whole words, whatever their case.

    Returns
    -------
    One row per text and one column per calibrated column of the features; null if the text or the baseline
    has no value.
    """
    from tiltmeter.features import mask_words, measure_features

    if names:
        texts, baselines = mask_words(texts, names), mask_words(baselines, names)
    measured = measure_features(features, texts, baselines)
    assert measured.baselines is not None
    columns = [column.name for column in measured.columns if column.calibrated]
    return DataFrame([measured.values[name] - measured.baselines[name] for name in columns])
