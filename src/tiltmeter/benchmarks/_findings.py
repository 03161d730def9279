"""The findings of one model and benchmark: rows of FINDINGS, and the tables of the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
from polars import Boolean, DataFrame, Expr, Float64, String, col, lit, when

from tiltmeter.benchmarks._baseline_texts import differ_in_names_only
from tiltmeter.benchmarks._definitions import BenchmarkDefinition, definition_of
from tiltmeter.benchmarks._groups import group_names, paired_by_topic
from tiltmeter.benchmarks._measurements import Measurements, kinds_of, measurements_of
from tiltmeter.benchmarks._options import options_of
from tiltmeter.benchmarks._tables import BASELINES
from tiltmeter.benchmarks.diagnosis import Diagnosis, cross, diagnose, overall_means
from tiltmeter.readers.outcomes import OUTCOMES, outcome_counts
from tiltmeter.schema import beside, q_values, sql_where
from tiltmeter.stats import STATISTICS
from tiltmeter.study import Part, Settings, as_findings

COMPARED: Final = ("range", "ratio", "sd", "max_abs_z", "dixon_q")
"""Comparisons that become findings; the table `disparities` has all comparisons."""
SELECTION_RATE: Final = "selection_rate"
KEY: Final = (("range", "mean"), ("ratio", SELECTION_RATE))
"""(comparison, statistic) of the key findings."""
IS_OF_KEY: Final[Expr] = col.statistic.is_in([statistic for _, statistic in KEY])
"""Whether a number is one of these statistics."""
MINUS_OTHERS: Final = "minus_others"
"""Comparison of a group with the mean of the others; a finding for the statistics of KEY."""
NULL_VALUES: Mapping[str, float] = {"range": 0.0, "sd": 0.0, "ratio": 1.0, MINUS_OTHERS: 0.0}
"""Values of comparisons of equal groups."""
UNITS: Mapping[str, str] = {"ratio": "ratio", MINUS_OTHERS: "difference"}
"""Units of comparisons that are not scores."""
FURTHER_UNITS: Mapping[str, str] = {
    "sentiment_weak": "difference",
    "toxicity_probability": "share",
    "toxic_fraction": "share",
}
"""Units of further measures that are not scores."""
PERMUTATIONS: Final = 1000

T_INTERVAL = "t interval with the bootstrap standard error"
LIFTED_INTERVAL = "bootstrap interval, corrected for the upward bias of maxima"
PERCENTILE_INTERVAL = "bootstrap percentile"
KEY_FAMILY = "q: over all generations and features, calibrated where there is a baseline"
BASELINE_FAMILY = "q: over all features of the baselines"
MEASURED_FAMILY = "q: over all generations and features with calibrated values, before calibration"
FAMILIES: Mapping[str, str] = {"key": KEY_FAMILY, "measured": MEASURED_FAMILY, "baseline": BASELINE_FAMILY}
"""Families of q-values of the default definition.

The measured values of a feature with calibrated values, and the baselines, contain the bias of the tool. They
are families of their own, so that differences due to the tool do not make the tests of the key numbers less
strict.
"""
SINGLE_FAMILY = "q: over all generations and features, measured and calibrated"
"""The family of the definition "saged"."""


def findings_of(
    measures: DataFrame, further: DataFrame, part: Part, settings: Settings
) -> dict[str, DataFrame]:
    """Compute the tables of one model and part.

    They are `findings` and, with at least two groups, `statistics`, `disparities` and `groups`. The latter
    three have the columns of a `Diagnosis`, with `generation`, `feature`, `calibrated` and `decision` instead
    of `column`. Under the default definition, the four-fifths rule is applied to decisions only, and q-values
    are computed by family (FAMILIES). The disparities also tell whether the baselines of the groups differ in
    names only (`names_only`) and whether calibration has replaced names (`names_replaced`); both are null
    without baselines.
    """
    about_baselines = _about_baselines(measures, settings)
    measures = measures.rename({"subject": "group"})
    definition = definition_of(settings)
    measurements = measurements_of(measures)
    by_topic = paired_by_topic(measures)
    if by_topic and not definition.formulas.studentised:
        measurements = measurements._replace(unit=None)
    has_conditions = measures["generation"].n_unique() > 1
    tables: dict[str, DataFrame] = {}
    if measures["group"].n_unique() < 2:
        numbers = _nothing_to_compare(measurements, measures["group"][0], definition)
    else:
        has_conditions |= BASELINES in measurements.columns["generation"]
        diagnosed = _diagnosed(measurements, settings, definition)
        disparities = diagnosed.diagnosis.disparities.with_columns(**about_baselines)
        tables = {**diagnosed.diagnosis._asdict(), "disparities": disparities}
        method = _method(measurements.unit is not None, by_topic, definition)
        numbers = diagnosed.numbers.with_columns(method=method)
    counts = ("attempts", *OUTCOMES, "items")
    # Without any response about a group, as in an interrupted run, it has no counts.
    numbers = beside(numbers, _counts(measures), "generation", "group").with_columns(col(counts).fill_null(0))
    numbers = _described(numbers, part, definition)
    findings = pl.concat([numbers, _further_findings(further, part)], how="diagonal_relaxed")
    findings = findings.with_columns(
        harm=lit(part.harms[0]), context=when(lit(has_conditions)).then("generation")
    )
    return {"findings": as_findings(findings, part, settings, definition), **tables}


def _further_findings(further: DataFrame, part: Part) -> DataFrame:
    """Return the further measures that are not about a single target word, with the columns of findings."""
    unit = col.metric.replace_strict(FURTHER_UNITS, default="score", return_dtype=String)
    return further.filter(col.target.is_null()).with_columns(
        unit=unit,
        attempts="n",
        answered="n",
        null_value="chance",
        method=pl.format("{}; resampled: prompts with all their branches", "interval"),
        evidence=sql_where(part=part.name),
    )


def _about_baselines(measures: DataFrame, settings: Settings) -> dict[str, Expr]:
    """Return the columns `names_only` and `names_replaced`."""
    if "baseline" not in measures.columns or not measures["baseline"].count():
        return dict.fromkeys(("names_only", "names_replaced"), lit(None, Boolean))
    options = options_of(settings)
    replaces_names = definition_of(settings).names_replaced
    is_replaced = replaces_names and bool(group_names(measures, options))
    return {"names_only": lit(differ_in_names_only(measures, options)), "names_replaced": lit(is_replaced)}


@dataclass(frozen=True, slots=True)
class _Diagnosed:
    """A diagnosis and the numbers that become findings.

    The tables have `generation`, `feature`, `calibrated`, `decision` and `family` instead of `column`.
    """

    diagnosis: Diagnosis
    numbers: DataFrame
    """Disparities, overall means, statistics of groups, and differences of groups from the others."""


def _diagnosed(measurements: Measurements, settings: Settings, definition: BenchmarkDefinition) -> _Diagnosed:
    columns = measurements.columns["column"].to_list()
    resampling: dict[str, Any] = {
        "unit": measurements.unit,
        "level": settings.level,
        "resamples": settings.resamples,
        "seed": settings.seed,
        "kinds": kinds_of(measurements.columns, definition),
        "definition": definition,
    }
    diagnosis = diagnose(
        measurements.table,
        groups=["group"],
        columns=columns,
        baselines=measurements.baselines,
        statistics=options_of(settings).statistics,
        permutations=PERMUTATIONS,
        **resampling,
    )
    if definition.decision_rates:
        about = measurements.columns.select("column", "calibrated", "decision")
        diagnosis = Diagnosis(*(_without_calibrated_decisions(table, about) for table in diagnosis))
    if definition.calibrated_keys:
        diagnosis = _by_family(diagnosis, measurements.columns, definition)
    disparities = diagnosis.disparities.filter(col.comparison.is_in(COMPARED)).drop("group")
    means = overall_means(measurements.table, columns, group="group", **resampling)
    means = means.with_columns(statistic=lit("mean"))
    differences = _differences_from_others(diagnosis.groups)
    numbers = pl.concat([disparities, means, diagnosis.statistics, differences], how="diagonal")
    described = measurements.columns.drop("baseline", "lowest", "highest")

    def described_by_column(table: DataFrame) -> DataFrame:
        joined = table.join(described, on="column", maintain_order="left")
        return joined.drop("column").with_columns(family=family_of(definition))

    return _Diagnosed(
        diagnosis=Diagnosis(*map(described_by_column, diagnosis)), numbers=described_by_column(numbers)
    )


def _differences_from_others(groups: DataFrame) -> DataFrame:
    """Return the differences of groups from the mean of the others, for the statistics of KEY."""
    differences = groups.filter(col.difference.is_not_null(), IS_OF_KEY)
    return differences.select(
        "statistic",
        "column",
        "group",
        "p",
        "q",
        comparison=lit(MINUS_OTHERS),
        estimate="difference",
        low="difference_low",
        high="difference_high",
    )


def family_of(definition: BenchmarkDefinition) -> Expr:
    """Return the family of a number: that of its column, except for the selection rate of decisions.

    It is not calibrated, so that its key number is the measured one.
    """
    if not definition.decision_rates:
        return col.family
    is_rate = when(col.decision, col.family == "measured", statistic=SELECTION_RATE)
    return is_rate.then(lit("key")).otherwise("family")


def _without_calibrated_decisions(table: DataFrame, columns: DataFrame) -> DataFrame:
    """Remove the selection rates of calibrated decisions.

    A decision minus that about the baseline is no decision. `columns` has `column`, `calibrated` and
    `decision`.
    """
    removed = columns.filter("calibrated", "decision").select("column", statistic=lit(SELECTION_RATE))
    return table.join(removed, on=["column", "statistic"], how="anti", maintain_order="left")


def _by_family(diagnosis: Diagnosis, columns: DataFrame, definition: BenchmarkDefinition) -> Diagnosis:
    """Compute q within each family of columns, and apply the four-fifths rule to decisions only."""
    about = columns.select("column", "family", "decision")
    q = col.p.map_batches(q_values, Float64)
    disparities = diagnosis.disparities.join(about, on="column", maintain_order="left")
    disparities = disparities.with_columns(family=family_of(definition))
    disparities = disparities.with_columns(q=q.over("statistic", "comparison", "family"))
    groups = diagnosis.groups.join(about, on="column", maintain_order="left")
    groups = groups.with_columns(family=family_of(definition))
    groups = groups.with_columns(
        q=q.over("statistic", "family"), below_four_fifths=when("decision").then("below_four_fifths")
    )
    return diagnosis._replace(
        disparities=disparities.drop("family", "decision"), groups=groups.drop("family", "decision")
    )


def _method(is_paired: bool, by_topic: bool, definition: BenchmarkDefinition) -> Expr:
    """Return the interval, the test, the family of q, and the resampled units of each number."""
    if not is_paired:
        units = "prompts within each group"
    elif by_topic:
        units = "topics with the prompts about all groups"
    else:
        units = "prompts with all their branches"
    inference = lit(PERCENTILE_INTERVAL)
    if definition.formulas.studentised:
        inference = _inference(is_paired, definition)
    return pl.format("{}; resampled: {}", inference, lit(units))


def _inference(is_paired: bool, definition: BenchmarkDefinition) -> Expr:
    """Return the interval, the test and the family of q of each number, for studentised statistics."""
    family = lit(SINGLE_FAMILY)
    if definition.calibrated_keys:
        family = col.family.replace_strict(FAMILIES)
    smooth = [name for name, statistic in STATISTICS.items() if statistic.bounds]
    means = [name for name, statistic in STATISTICS.items() if statistic.terms]
    within = " within the resampled units" if is_paired else ""
    welch = "Welch-James statistic" if is_paired else "Welch-James statistic, not below that of Welch's test"
    tested = when(col.statistic.is_in(means)).then(lit(welch)).otherwise(lit("statistic as it is"))
    of_difference = pl.format(
        f"{T_INTERVAL}; p: t test, not below that of permuted groups{within}; {{}}, and all groups", family
    )
    of_comparison = pl.format(f"{LIFTED_INTERVAL}; p: groups permuted{within}, {{}}; {{}}", tested, family)
    is_smooth = col.statistic.is_in(smooth)
    of_statistic = when(is_smooth).then(lit(T_INTERVAL)).otherwise(lit(PERCENTILE_INTERVAL))
    method = when(col.comparison.is_null()).then(of_statistic)
    return method.when(col.comparison == MINUS_OTHERS).then(of_difference).otherwise(of_comparison)


def _nothing_to_compare(measurements: Measurements, group: str, definition: BenchmarkDefinition) -> DataFrame:
    """Return findings without estimates, with a note, if there are responses about one group only."""
    comparisons = DataFrame(KEY, schema=["comparison", "statistic"], orient="row")
    mean = DataFrame({"statistic": "mean", "group": group})
    answers = measurements.columns.filter(col.generation != BASELINES)
    about = answers.select("generation", "feature", "calibrated", "decision", "family")
    numbers = cross(about, pl.concat([comparisons, mean], how="diagonal"))
    numbers = numbers.with_columns(family=family_of(definition))
    if definition.decision_rates:
        numbers = numbers.remove("calibrated", "decision", statistic=SELECTION_RATE)
    return numbers.with_columns(note=lit(f"all responses are about {group}: at least two groups are needed"))


def _described(numbers: DataFrame, part: Part, definition: BenchmarkDefinition) -> DataFrame:
    """Add `metric`, `unit`, `null_value`, `key` and `evidence` to the numbers.

    The key numbers are calibrated where the feature has calibrated values in that generation, and measured
    otherwise.
    """
    # Baselines are not answers of a generation; their evidence is all prompts.
    generation = when(col.generation != BASELINES).then("generation")
    is_single = col.comparison.is_null()
    is_key_comparison = pl.any_horizontal(
        col.comparison.eq(comparison) & col.statistic.eq(statistic) for comparison, statistic in KEY
    )
    is_key_column = (col.family == "key") if definition.calibrated_keys else ~col.calibrated
    is_rate = is_single & (col.statistic == SELECTION_RATE)
    unit_of_value = when(is_rate).then(lit("share")).otherwise(lit("score"))
    unit = col.comparison.replace_strict(UNITS, default=unit_of_value, return_dtype=String)
    null_value = col.comparison.replace_strict(NULL_VALUES, default=None, return_dtype=Float64)
    metric = when(is_single).then(lit("value")).otherwise(lit("disparity"))
    return numbers.with_columns(
        metric=metric,
        unit=unit,
        null_value=null_value,
        key=is_key_comparison & generation.is_not_null() & is_key_column,
        evidence=sql_where(part=part.name, generation=generation, subject=col.group),
    )


def _counts(measures: DataFrame) -> DataFrame:
    """Count outcomes by generation and group, with a null group for all groups together.

    For baselines, each prompt counts as answered.
    """
    answers = measures.select("generation", "group", "prompt_key", "item", "outcome")
    baselines = answers.unique("prompt_key").with_columns(generation=lit(BASELINES), outcome=lit("answered"))
    by_group = pl.concat([answers, baselines])
    of_all = by_group.with_columns(group=None)
    rows = pl.concat([by_group, of_all], how="vertical_relaxed")
    return rows.group_by("generation", "group").agg(outcome_counts())
