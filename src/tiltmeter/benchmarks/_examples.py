"""Examples for the ranges of group means: the answers that increase a range most."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from polars import DataFrame, Expr, Float64, Series, col, lit, when

from tiltmeter._arrays import Floats
from tiltmeter.benchmarks._definitions import BenchmarkDefinition, definition_of
from tiltmeter.benchmarks._tables import BASELINE, VALUE, WITHOUT_NAMES
from tiltmeter.schema import EXAMPLES, NAMED, conform
from tiltmeter.stats import COMPARISONS, GroupValues, ratio
from tiltmeter.study import Settings

SHOWN: Final = 5
"""Examples per finding, alternating between both groups."""
ROUNDING: Final = 9
"""Digits to which influences are compared, relative to the largest one, so that rounding errors count as
ties."""
NO_INFLUENCE: Final = 1e-12
"""Influences up to this are rounding error."""


def examples_of(measures: DataFrame, findings: DataFrame, settings: Settings) -> DataFrame:
    """Find EXAMPLES for the ranges of means among the key findings: up to SHOWN answers each.

    The most influential answers come first. `influence` is the range with all answers minus the range without
    this one, where the other answers to its prompt are averaged again and a prompt without further answers is
    missing. Only answers that increase the range are shown, alternating between both groups if both have
    some. Ties, which occur when another group becomes the extreme one, are ordered by the effect on the
    answer's own group, then at random with a seed. An answer without which there is no range has no
    influence.

    Parameters
    ----------
    measures
        One row per attempt: `generation`, `subject` (group), `prompt_key`, `prompt_id`, `repetition` and the
        features' `value:` columns.
    findings
        FINDINGS of these measures; `context` is the generation, null if there is only one.
    settings
        Settings of the study.
    """
    definition = definition_of(settings)
    ranges = findings.filter("key", col.estimate.is_not_null(), comparison="range", statistic="mean")
    tables = [DataFrame(schema=EXAMPLES)]
    for finding in ranges.iter_rows(named=True):
        attempts = measures
        if finding["context"] is not None:
            attempts = measures.filter(generation=finding["context"])
        value = _value_of(finding["feature"], finding["calibrated"], measures)
        answers = attempts.select("prompt_id", "repetition", "prompt_key", "subject", value=value)
        examples = _most_influential(answers.filter(col.value.is_finite()), definition, settings.seed)
        examples = examples.with_columns(lit(finding[name]).alias(name) for name in NAMED)
        tables.append(conform(examples, EXAMPLES))
    return pl.concat(tables)


def _value_of(feature: str, calibrated: bool, measures: DataFrame) -> Expr:
    """Return the value of a feature of each answer: measured, or calibrated as in `measurements_of`."""
    value = col(f"{VALUE}{feature}").cast(Float64)
    if not calibrated:
        return value
    without_names = f"{WITHOUT_NAMES}{feature}"
    if without_names in measures.columns:
        return col(without_names)
    return value - col(f"{BASELINE}{feature}").cast(Float64)


def _most_influential(answers: DataFrame, definition: BenchmarkDefinition, seed: int) -> DataFrame:
    """Select the answers shown, with `prompt_id`, `repetition` and `influence`.

    `answers` has `subject`, `prompt_key` and `value`.
    """
    increasing = _influences(answers, definition).filter(col.influence > NO_INFLUENCE)
    relative_influence = (col.influence / col.influence.max()).round(ROUNDING)
    relative_pull = (col.pull / col.pull.max()).round(ROUNDING)
    lot = np.random.default_rng(seed).permutation(increasing.height)
    ranked = increasing.with_columns(
        relative_influence=relative_influence, relative_pull=relative_pull, lot=Series(lot)
    )
    ranked = ranked.sort(
        "relative_influence", "relative_pull", "lot", descending=[True, True, False]
    ).with_row_index("place")
    alternating = ranked.with_columns(turn=pl.int_range(pl.len()).over("subject")).sort("turn", "place")
    return alternating.head(SHOWN).sort("place")


def _influences(answers: DataFrame, definition: BenchmarkDefinition) -> DataFrame:
    """Compute `influence` and `pull` of the answers about the groups with the largest and the smallest mean.

    `pull` is the change of the mean of the answer's own group without the answer; 0 if the group has no other
    answer. Answers without which there is no range are omitted.
    """
    prompts = answers.group_by("subject", "prompt_key", maintain_order=True).agg(
        mean=col.value.mean(), answers=pl.len()
    )
    groups = prompts.group_by("subject", maintain_order=True).agg(total=col.mean.sum(), prompts=pl.len())
    groups = groups.sort("subject").with_row_index("group")
    means = (groups["total"] / groups["prompts"]).to_numpy()
    ends = sorted({int(np.argmax(means)), int(np.argmin(means))})
    end_groups = groups.filter(col.group.is_in(ends))
    of_ends = answers.join(end_groups, on="subject", maintain_order="left")
    of_ends = of_ends.join(prompts, on=["subject", "prompt_key"], maintain_order="left")
    remaining = _without_answer(of_ends)
    group = of_ends["group"].to_numpy()
    mean_without = ratio(remaining["total"], remaining["prompts"])
    means_without = np.tile(means, (of_ends.height, 1))
    means_without[np.arange(of_ends.height), group] = mean_without
    range_of_all = _range_of(means[None], definition)
    range_without = _range_of(means_without, definition)
    pull = np.nan_to_num(np.abs(means[group] - mean_without))
    influences = of_ends.with_columns(
        influence=Series(range_of_all - range_without),
        pull=Series(pull),
    )
    return influences.filter(col.influence.is_finite())


def _without_answer(answers: DataFrame) -> DataFrame:
    """Return the `total` and the number of `prompts` of the group of each answer, without this answer.

    `answers` has `value`, the `mean` and the number of `answers` of the prompt, and the group's numbers.
    """
    is_single = col.answers == 1
    mean_of_remaining = (col.mean * col.answers - col.value) / (col.answers - 1)
    mean_without = when(is_single).then(0.0).otherwise(mean_of_remaining)
    return answers.select(total=col.total - col.mean + mean_without, prompts=col.prompts - is_single)


def _range_of(means: Floats, definition: BenchmarkDefinition) -> Floats:
    """Return the range of the means (..., G)."""
    return COMPARISONS["range"].compute(GroupValues(means, definition.formulas))
