"""From measured answers to findings: statistics of each group, disparity over the groups, and the answers that moved it most."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from polars import Boolean, DataFrame, Float64, Series, String, col, lit, when

from tiltmeter.benchmarks.configurations import BASELINE, BASELINES, VALUE, options_of
from tiltmeter.benchmarks.diagnosis import CALIBRATED, DEFAULT_STATISTICS, DEFINITIONS, calibrate, cross, diagnose, overall_means
from tiltmeter.benchmarks.resampled_summaries import DisparityDefinition
from tiltmeter.features import FEATURES
from tiltmeter.readers.outcomes import outcome_counts
from tiltmeter.stats import COMPARISONS, GroupValues
from tiltmeter.study import EXAMPLES, NAMED, Part, Settings, as_findings, beside, conform, sql_where

COMPARED = ("range", "ratio", "sd", "max_abs_z", "dixon_q")
"""Comparisons that are findings; all of them are in the table `disparities`."""
KEY = (("range", "mean"), ("ratio", "selection_rate"))
"""(comparison, statistic) shown first."""
NULLS = {"range": 0.0, "sd": 0.0, "ratio": 1.0}
FURTHER_UNITS = {"sentiment_weak": "difference", "toxicity_probability": "share", "toxic_fraction": "share"}
"""What further measures are counted in that are no scores."""
PERMUTATIONS = 1000

SHOWN = 5
"""Answers of a finding, from both groups in turn."""
ROUNDING = 9
"""Digits to which influences are compared, the greatest being 1: sums that differ in their last bits are ties."""
NOTHING = 1e-12
"""An influence that is rounding."""


class Wide(NamedTuple):
    """One row per prompt, a column per generation and feature."""

    table: DataFrame
    columns: DataFrame
    """One row for each: `column`, `generation`, `feature`, `calibrated`, and `baseline`, the column of its baseline."""
    unit: str | None

    @property
    def baselines(self) -> dict[str, str]:
        """Column -> column of its baseline."""
        return dict(self.columns.select("column", "baseline").drop_nulls().iter_rows())


def findings_of(measures: DataFrame, further: DataFrame, part: Part, settings: Settings) -> dict[str, DataFrame]:
    """Tables of one model and part: `findings`, and where there is something to compare `statistics`, `disparities` and `groups`.

    These three have the columns of a `Diagnosis`, with `generation`, `feature` and `calibrated` in place of `column`.
    """
    measures = measures.rename({"subject": "group"})
    definition = DEFINITIONS[settings.definition]
    wide = wide_of(measures)
    several = measures["generation"].n_unique() > 1
    tables: dict[str, DataFrame] = {}
    if measures["group"].n_unique() < 2:
        numbers = _nothing_to_compare(wide, measures["group"][0])
    else:
        several |= BASELINES in wide.columns["generation"]
        tables, numbers = _diagnosed(wide, settings)
        units = "prompts with all their branches" if wide.unit else "prompts within each group"
        numbers = numbers.with_columns(method=lit(f"bootstrap percentile; resampled: {units}"))
    numbers = beside(numbers, _counts(measures), "generation", "group")
    single = further.filter(col.target.is_null()).with_columns(
        unit=col.metric.replace_strict(FURTHER_UNITS, default="score", return_dtype=String),
        attempts="n",
        answered="n",
        null_value="chance",
        method=pl.format("{}; resampled: prompts with all their branches", "interval"),
        evidence=sql_where(part=part.name),
    )
    found = pl.concat([_described(numbers, part), single], how="diagonal_relaxed").with_columns(
        harm=lit(part.harms[0]), context=when(lit(several)).then("generation")
    )
    return {"findings": as_findings(found, part, settings, definition), **tables}


def _diagnosed(wide: Wide, settings: Settings) -> tuple[dict[str, DataFrame], DataFrame]:
    """The tables of a diagnosis, and the numbers of them that are findings: disparities, means over all prompts, statistics of groups."""
    columns = wide.columns["column"].to_list()
    drawn: dict[str, Any] = {"unit": wide.unit, "level": settings.level, "resamples": settings.resamples, "seed": settings.seed}
    found = diagnose(
        wide.table,
        groups=["group"],
        columns=columns,
        baselines=wide.baselines,
        statistics=options_of(settings).statistics or DEFAULT_STATISTICS,
        definition=settings.definition,
        permutations=PERMUTATIONS,
        **drawn,
    )
    means = overall_means(wide.table, columns, group="group", **drawn).with_columns(statistic=lit("mean"))
    named = wide.columns.drop("baseline")
    tables = {
        name: table.join(named, on="column", maintain_order="left").drop("column")
        for name, table in {**found._asdict(), "means": means}.items()
    }
    disparities = tables["disparities"].filter(col.comparison.is_in(COMPARED)).drop("group")
    numbers = pl.concat([disparities, tables.pop("means"), tables["statistics"]], how="diagonal")
    return tables, numbers


def _nothing_to_compare(wide: Wide, group: str) -> DataFrame:
    """The numbers where there are responses about one group only: none, and why."""
    compared = DataFrame(KEY, schema=["comparison", "statistic"], orient="row")
    kinds = pl.concat([compared, DataFrame({"statistic": "mean", "group": group})], how="diagonal")
    numbers = cross(wide.columns.filter(col.generation != BASELINES).select("generation", "feature", "calibrated"), kinds)
    return numbers.with_columns(note=lit(f"all responses are about {group}: at least two groups are needed"))


def _described(numbers: DataFrame, part: Part) -> DataFrame:
    """The numbers with `metric`, `unit`, `null_value`, `key` and `evidence`."""
    # The baselines are no answers: their numbers rest on all prompts.
    generation = when(col.generation != BASELINES).then("generation")
    single = col.comparison.is_null()
    key = pl.any_horizontal((col.comparison == comparison) & (col.statistic == statistic) for comparison, statistic in KEY)
    return numbers.with_columns(
        metric=when(single).then(lit("value")).otherwise(lit("disparity")),
        unit=when(col.comparison == "ratio").then(lit("ratio"))
        .when(single & (col.statistic == "selection_rate")).then(lit("share"))
        .otherwise(lit("score")),
        null_value=col.comparison.replace_strict(NULLS, default=None, return_dtype=Float64),
        key=key & generation.is_not_null() & ~col.calibrated,
        evidence=sql_where(part=part.name, generation=generation, subject=col.group),
    )  # fmt: skip


def _counts(measures: DataFrame) -> DataFrame:
    """How the attempts ended, of each generation, about each group and (null) about all; those of the baselines are the prompts'."""
    answers = measures.select("generation", "group", "prompt_key", "item", "outcome")
    prompts = answers.unique("prompt_key").with_columns(generation=lit(BASELINES), outcome=lit("answered"))
    rows = pl.concat([answers, prompts])
    rows = pl.concat([rows, rows.with_columns(group=None)], how="vertical_relaxed")
    return rows.group_by("generation", "group").agg(outcome_counts())


def wide_of(measures: DataFrame) -> Wide:
    """Mean over the answers to a prompt of each feature of each generation, of the baselines once, and calibrated."""
    features = [name.removeprefix(VALUE) for name in measures.columns if name.startswith(VALUE)]
    given = [one for one in features if f"{BASELINE}{one}" in measures.columns]
    generations = measures["generation"].unique(maintain_order=True).to_list()
    answers = [(f"{generation}:{one}", generation, one) for generation in generations for one in features]
    table = measures.group_by("prompt_key", "group", "root", maintain_order=True).agg(
        *(col(f"{BASELINE}{one}").drop_nulls().first().alias(f"{BASELINES}:{one}") for one in given),
        *(col(f"{VALUE}{one}").filter(generation=generation).mean().alias(name) for name, generation, one in answers),
    )
    # A distance from the baseline is calibrated already.
    distances = {column.name for feature in FEATURES.values() for column in feature.columns if not column.calibrated}
    bases = {one: f"{BASELINES}:{one}" for one in given if table[f"{BASELINES}:{one}"].count()}
    pairs = {name: bases[one] for name, _, one in answers if one in bases and one not in distances}
    rows = [
        *((name, BASELINES, one, False, None) for one, name in bases.items()),
        *((name, generation, one, False, bases.get(one)) for name, generation, one in answers),
        *((f"{name}{CALIBRATED}", generation, one, True, None) for name, generation, one in answers if name in pairs),
    ]
    texts = dict.fromkeys(("column", "generation", "feature"), String)
    columns = DataFrame(rows, schema={**texts, "calibrated": Boolean, "baseline": String}, orient="row")
    paired = table.select((col.group.n_unique().over("root") > 1).any()).item()
    return Wide(calibrate(table, pairs), columns, "root" if paired else None)


def examples_of(measures: DataFrame, findings: DataFrame, settings: Settings) -> DataFrame:
    """EXAMPLES of the ranges of means that are key findings: of each up to SHOWN answers, the most influential first.

    `influence` is the range with all answers minus the range without this one: what is left of its prompt's answers is averaged again,
    and a prompt left with none is missing. Only answers that widen the range are shown, of both groups in turn where both have some.
    Among answers that widen it alike (the group next in line may set the limit), those that move their own group most come first, then
    seeded lots decide. An answer without which there is no range has no influence.

    Parameters
    ----------
    measures
        One row per attempt: `generation`, `subject` (group), `prompt_key`, `prompt_id`, `repetition` and the features' `value:` columns.
    findings
        FINDINGS of these measures; `context` is the generation, null where there is but one.
    """
    definition = DEFINITIONS[settings.definition]
    tables = [DataFrame(schema=EXAMPLES)]
    for row in findings.filter("key", col.estimate.is_not_null(), comparison="range", statistic="mean").iter_rows(named=True):
        mine = measures if row["context"] is None else measures.filter(generation=row["context"])
        value = col(f"{VALUE}{row['feature']}").cast(Float64)
        answers = mine.select("prompt_id", "repetition", "prompt_key", "subject", value=value).filter(col.value.is_finite())
        named = {name: lit(row[name]) for name in NAMED}
        tables.append(conform(_widening(answers, definition, settings.seed).with_columns(**named), EXAMPLES))
    return pl.concat(tables)


def _widening(answers: DataFrame, definition: DisparityDefinition, seed: int) -> DataFrame:
    """`prompt_id`, `repetition` and `influence` of the answers shown. `answers` has `subject`, `prompt_key` and `value`."""
    found = _influences(answers, definition).filter(col.influence > NOTHING)
    ranked = found.with_columns(
        *((col(name) / col(name).max()).round(ROUNDING).alias(f"of_{name}") for name in ("influence", "pull")),
        lot=Series(np.random.default_rng(seed).permutation(found.height)),
    ).sort("of_influence", "of_pull", "lot", descending=[True, True, False])
    in_turn = ranked.with_columns(turn=pl.int_range(pl.len()).over("subject")).sort("turn", maintain_order=True)
    return in_turn.head(SHOWN).sort("of_influence", "of_pull", "lot", descending=[True, True, False])


def _influences(answers: DataFrame, definition: DisparityDefinition) -> DataFrame:
    """The answers about the greatest and the least group with `influence`, where there is a range without one, and `pull`.

    That is how far the mean of the answer's own group moves without it; 0 where there is none then.
    """
    prompts = answers.group_by("subject", "prompt_key", maintain_order=True).agg(mean=col.value.mean(), answers=pl.len())
    groups = (
        prompts.group_by("subject", maintain_order=True).agg(total=col.mean.sum(), prompts=pl.len()).sort("subject").with_row_index("group")
    )
    means = (groups["total"] / groups["prompts"]).to_numpy()
    ends = sorted({int(np.argmax(means)), int(np.argmin(means))})
    rest = (col.mean * col.answers - col.value) / (col.answers - 1)
    alone = col.answers == 1
    mine = (
        answers.join(groups.filter(col.group.is_in(ends)), on="subject", maintain_order="left")
        .join(prompts, on=["subject", "prompt_key"], maintain_order="left")
        .with_columns(total=col.total - col.mean + when(alone).then(0.0).otherwise(rest), prompts=col.prompts - alone)
    )
    places = mine["group"].to_numpy()
    own = np.where(mine["prompts"] > 0, mine["total"] / mine["prompts"], np.nan)
    without = np.tile(means, (mine.height, 1))
    without[np.arange(mine.height), places] = own
    ranges = [COMPARISONS["range"].compute(GroupValues(values, definition.formulas)) for values in (means[None], without)]
    pull = np.nan_to_num(np.abs(means[places] - own), nan=0.0)
    return mine.with_columns(influence=Series(ranges[0] - ranges[1]), pull=Series(pull)).filter(col.influence.is_finite())
