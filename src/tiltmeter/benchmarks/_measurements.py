"""Measures in wide format: one row per prompt, one column per generation and feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from polars import Boolean, DataFrame, Expr, Float64, String, col, lit, when

from tiltmeter.benchmarks._definitions import BenchmarkDefinition
from tiltmeter.benchmarks._groups import has_pairs
from tiltmeter.benchmarks._layouts import ColumnKinds
from tiltmeter.benchmarks._tables import BASELINE, BASELINES, VALUE, WITHOUT_NAMES
from tiltmeter.benchmarks.diagnosis import CALIBRATED, calibrate
from tiltmeter.features import FEATURES, FeatureColumn
from tiltmeter.schema import beside


class Measurements(NamedTuple):
    """Measures in wide format: one row per prompt, one column per generation and feature."""

    table: DataFrame
    """`prompt_key`, `group`, `root`, and the columns."""
    columns: DataFrame
    """One row per column: `column`, `generation`, `feature`, `calibrated`, `decision` (whether the values are
    decisions), `lowest` and `highest` (the possible values; null if unknown), `family` (of q-values; "key",
    "measured" or "baseline") and `baseline` (the column of its baseline)."""
    unit: str | None
    """Column that pairs rows; None: rows are not paired."""

    @property
    def baselines(self) -> dict[str, str]:
        """Mapping of columns to the columns of their baselines."""
        return dict(self.columns.select("column", "baseline").drop_nulls().iter_rows())


class _AnswerColumn(NamedTuple):
    """The column with a feature of the answers of one generation."""

    name: str
    generation: str
    feature: str

    @property
    def calibrated(self) -> str:
        """Name of the column with the calibrated values."""
        return f"{self.name}{CALIBRATED}"


def measurements_of(measures: DataFrame) -> Measurements:
    """Compute the mean of each feature over the answers to a prompt, by generation, and calibrated values.

    Features of the baselines are columns of their own generation. Calibrated values are those of the measures
    if there are any (see WITHOUT_NAMES), and otherwise the feature minus that of the baseline.
    """
    features = [name.removeprefix(VALUE) for name in measures.columns if name.startswith(VALUE)]
    generations = measures["generation"].unique(maintain_order=True).to_list()
    answers = [
        _AnswerColumn(f"{generation}:{feature}", generation, feature)
        for generation in generations
        for feature in features
    ]
    table = _averages(measures, features, answers)
    catalogue = {column.name: column for feature in FEATURES.values() for column in feature.columns}
    # Distances from the baseline are calibrated already.
    distances = {name for name, column in catalogue.items() if not column.calibrated}
    baselines = _baseline_columns(table, features)
    calibrated = [
        answer for answer in answers if answer.feature in baselines and answer.feature not in distances
    ]
    columns = _described_columns(answers, calibrated, baselines)
    decisions = [feature for feature in features if measures.schema[f"{VALUE}{feature}"] == Boolean]
    columns = _with_families(columns.with_columns(decision=col.feature.is_in(decisions)))
    columns = _with_possible_values(columns, catalogue)
    subtracted = {
        answer.name: baselines[answer.feature]
        for answer in calibrated
        if answer.calibrated not in table.columns
    }
    unit = "root" if has_pairs(table, "group") else None
    return Measurements(calibrate(table, subtracted), columns, unit)


def _averages(measures: DataFrame, features: Sequence[str], answers: Sequence[_AnswerColumn]) -> DataFrame:
    """Average each column over the answers to a prompt; one row per prompt."""
    averages = []
    for feature in features:
        column = f"{BASELINE}{feature}"
        if column in measures.columns:
            averages.append(col(column).drop_nulls().first().alias(f"{BASELINES}:{feature}"))
    for answer in answers:
        mean = _mean_over_answers(f"{VALUE}{answer.feature}", answer.generation)
        averages.append(mean.alias(answer.name))
    for answer in answers:
        column = f"{WITHOUT_NAMES}{answer.feature}"
        if column in measures.columns:
            mean = _mean_over_answers(column, answer.generation)
            averages.append(mean.alias(answer.calibrated))
    return measures.group_by("prompt_key", "group", "root", maintain_order=True).agg(averages)


def _mean_over_answers(column: str, generation: str) -> Expr:
    return col(column).filter(generation=generation).mean()


def _baseline_columns(table: DataFrame, features: Sequence[str]) -> dict[str, str]:
    """Return the column of the baselines' values of each feature that has such values."""
    columns = {feature: f"{BASELINES}:{feature}" for feature in features}
    return {
        feature: column
        for feature, column in columns.items()
        if column in table.columns and table[column].count()
    }


def _described_columns(
    answers: Sequence[_AnswerColumn], calibrated: Sequence[_AnswerColumn], baselines: Mapping[str, str]
) -> DataFrame:
    """Return one row per column: those of baselines, of answers, and of calibrated answers."""
    rows: list[tuple[str, str, str, bool, str | None]] = []
    rows += [(column, BASELINES, feature, False, None) for feature, column in baselines.items()]
    for answer in answers:
        baseline = baselines.get(answer.feature)
        rows.append((answer.name, answer.generation, answer.feature, False, baseline))
    rows += [(answer.calibrated, answer.generation, answer.feature, True, None) for answer in calibrated]
    schema = {
        "column": String,
        "generation": String,
        "feature": String,
        "calibrated": Boolean,
        "baseline": String,
    }
    return DataFrame(rows, schema=schema, orient="row")


def _with_families(columns: DataFrame) -> DataFrame:
    """Add `family`.

    Measured values of a feature that also has calibrated values are not of the key family.
    """
    has_calibrated = col.calibrated.any().over("generation", "feature")
    of_answers = when(has_calibrated & ~col.calibrated).then(lit("measured")).otherwise(lit("key"))
    family = when(generation=BASELINES).then(lit("baseline")).otherwise(of_answers)
    return columns.with_columns(family=family)


def _with_possible_values(columns: DataFrame, catalogue: Mapping[str, FeatureColumn]) -> DataFrame:
    """Add `lowest` and `highest`, the possible values of each column; null if they are unknown.

    `columns` has `feature`, `calibrated` and `decision`; `catalogue` has the columns of the known features.
    """
    ranges = [(name, column.low, column.high) for name, column in catalogue.items()]
    of_features = DataFrame(ranges, schema={"feature": String, "low": Float64, "high": Float64}, orient="row")
    columns = beside(columns, of_features, "feature")
    low = when("decision").then(0.0).otherwise("low")
    high = when("decision").then(1.0).otherwise("high")
    width = high - low
    lowest = when("calibrated").then(-width).otherwise(low)
    highest = when("calibrated").then(width).otherwise(high)
    return columns.with_columns(lowest=lowest, highest=highest).drop("low", "high")


def kinds_of(columns: DataFrame, definition: BenchmarkDefinition) -> ColumnKinds:
    """Return what is known about the columns of `Measurements` under a definition."""
    decisions: list[str] = []
    if definition.decision_rates:
        decisions = columns.filter("decision", ~col.calibrated)["column"].to_list()
    ends = columns.select("column", "lowest", "highest").drop_nulls()
    return ColumnKinds(decisions, {column: (low, high) for column, low, high in ends.iter_rows()})
