"""Numbers of benchmarks as a report displays them: with names, and one row per condition and feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl
from polars import DataFrame, Expr, col, lit, when

from tiltmeter.benchmarks._definitions import DEFAULT, FOUR_FIFTHS, SAGED, BenchmarkDefinition
from tiltmeter.benchmarks._summaries import FEWEST_VALUES
from tiltmeter.benchmarks._tables import BASELINES, NO_ROLE
from tiltmeter.schema import beside

PLACE: Final = ("model", "context", "feature", "calibrated")
"""Columns that identify the condition and feature of a number."""
MEASURES: Mapping[str, tuple[str | None, str]] = {
    "range": ("range", "mean"),
    "ratio": ("ratio", "selection_rate"),
    "mean": (None, "mean"),
    "z": ("max_abs_z", "mean"),
    "dixon": ("dixon_q", "mean"),
}
"""Numbers shown for each condition and feature: comparison and statistic."""
DISTANCES: Final = ("z", "z_about", "z_q")
"""Columns about the distance of the outermost group from the mean of the groups."""
WORDS: Mapping[str, str] = {
    "vader_compound": "sentiment (VADER)",
    "vader_positive": "positive words (VADER)",
    "vader_negative": "negative words (VADER)",
    "agency": "words of agency",
    "communion": "words of communion",
}
"""Names of features for readers."""
SENTIMENTS: Final = ("vader_compound", "sentiment", "regard")
"""Features of which larger values are more positive."""
CERTAIN: Final = f"below {FOUR_FIFTHS}"
"""Verdict on an impact ratio whose entire interval lies below the threshold."""
UNCERTAIN: Final = "below 0.8, uncertain"
LISTED_GROUPS: Final = 3
"""Maximum number of groups that a sentence names."""


def words_of(feature: str) -> str:
    """Return the name of a feature for readers."""
    return WORDS.get(feature, feature).replace("_", " ")


def digits(value: float) -> str:
    """Format a number with three decimals, or with three significant digits if it is small."""
    return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:.3f}"


def listed(groups: Sequence[str]) -> str:
    """Return the names of up to LISTED_GROUPS groups; of more, the first ones and how many others."""
    if len(groups) > LISTED_GROUPS:
        first = groups[: LISTED_GROUPS - 1]
        return f"{', '.join(first)} and {len(groups) - len(first)} more"
    if len(groups) < 2:
        return "".join(groups)
    return f"{', '.join(groups[:-1])} and {groups[-1]}"


def is_true(disparities: DataFrame, name: str) -> bool:
    """Check whether a column of the table of disparities is true; older runs have no such column."""
    if name not in disparities.columns:
        return False
    return disparities[name].count() > 0 and bool(disparities[name].all())


def definition_of_findings(findings: DataFrame) -> BenchmarkDefinition:
    """Return the definition of the findings, from its label such as "saged@1"."""
    names = findings["definition"].drop_nulls().str.split("@").list.first()
    return SAGED if SAGED.name in names else DEFAULT


def same_place(row: Mapping[str, Any]) -> list[Expr]:
    """Return the condition that selects the condition and feature of a row."""
    return [col(name).eq_missing(lit(row[name])) for name in PLACE]


def displayed_numbers(numbers: DataFrame, disparities: DataFrame) -> DataFrame:
    """Add columns for display to the numbers.

    `label` is the name of the condition, `words` that of the feature, `about` the group of a disparity,
    `decision` whether the feature is a decision (older runs do not know: null), `shift` the estimate minus
    the estimate without a role, and `apart` whether the two intervals do not overlap. Baselines are listed
    once, as they do not depend on the model.
    """
    keys = [*PLACE, "statistic", "comparison"]
    numbers = beside(numbers, _about(numbers, disparities).select(*keys, "about", "decision"), *keys)
    is_baseline = col.context.eq_missing(BASELINES)
    numbers = numbers.filter(~is_baseline | (col.model == col.model.first()))
    is_single_model = lit(numbers["model"].n_unique() == 1)
    label = when((is_single_model | is_baseline) & col.context.is_not_null()).then("context")
    model_and_context = pl.concat_str("model", "context", separator=" · ", ignore_nulls=True)
    is_role = ~col.context.is_in([NO_ROLE, BASELINES])
    shift = col.estimate - _without_role("estimate")
    is_above = col.low > _without_role("high")
    is_below = col.high < _without_role("low")
    words = col.feature.replace(WORDS).str.replace_all("_", " ")
    return numbers.with_columns(
        label=label.otherwise(model_and_context),
        words=words,
        shift=when(is_role).then(shift),
        apart=when(is_role).then(is_above | is_below),
    )


def _about(numbers: DataFrame, disparities: DataFrame) -> DataFrame:
    """Return `about` and `decision` of the disparities, with the columns that identify them."""
    if disparities.is_empty():
        disparities = numbers.clear().with_columns(generation="context")
    has_conditions = col.generation.n_unique().over("model") > 1
    is_known = "decision" in disparities.columns and definition_of_findings(numbers).decision_rates
    return disparities.with_columns(
        context=when(has_conditions).then("generation"),
        about="group",
        decision=col.decision if is_known else lit(value=False),
    )


def _without_role(column: str) -> Expr:
    """Return the value of a column in the condition without a role, for the same number."""
    same_number = ("model", "feature", "calibrated", "statistic", "comparison", "group")
    return col(column).filter(col.context == NO_ROLE).first().over(same_number)


def wide_rows(numbers: DataFrame) -> DataFrame:
    """Return a row for each condition and feature, measured and calibrated.

    Columns: PLACE, `label`, `words`, `key`, `answered`, those of each of MEASURES (such as `range`,
    `range_interval`, `range_q`, `range_low`, `range_about`, `range_shift`, `range_decision`), `highest` and
    `lowest` (groups), `range_measured`, `values` and `verdict`.
    """
    answered = when(col.attempts > 0).then(col.answered / col.attempts)
    rows = numbers.filter(comparison="range", statistic="mean")
    rows = rows.select(*PLACE, "label", "words", "key", answered.alias("answered"))
    for name in MEASURES:
        rows = beside(rows, _measure(numbers, name), *PLACE)
    groups = means_of_groups(numbers).filter("is_compared")
    counts = groups.group_by(PLACE).agg(groups=pl.len())
    # Two groups are equally far from their mean, so that |z| is the same for any two means.
    is_distance_of_interest = col.groups != 2
    rows = beside(rows, counts, *PLACE).with_columns(
        when(is_distance_of_interest).then(name).alias(name) for name in DISTANCES
    )
    alpha = 1 - numbers["level"][0] if numbers.height else 0.0
    is_below = (col.ratio < FOUR_FIFTHS) & (col.ratio_q < alpha)
    certainty = when(col.ratio_high < FOUR_FIFTHS).then(lit(CERTAIN)).otherwise(lit(UNCERTAIN))
    range_measured = col.range.filter(~col.calibrated).first().over(PLACE[:3])
    values = when("calibrated").then(lit("calibrated")).otherwise(lit("measured"))
    return beside(rows, _end_groups(groups), *PLACE).with_columns(
        range_measured=when("calibrated").then(range_measured),
        values=values,
        verdict=when("ratio_decision", is_below).then(certainty),
    )


def _measure(numbers: DataFrame, name: str) -> DataFrame:
    """Return the columns of one of MEASURES."""
    comparison, statistic = MEASURES[name]
    is_measure = col.comparison.eq_missing(lit(comparison)) & col.group.is_null()
    estimate = col.estimate.alias(name)
    interval = pl.concat_list("low", "high").alias(f"{name}_interval")
    q = pl.coalesce("q", "p").alias(f"{name}_q")
    parts = [col(part).alias(f"{name}_{part}") for part in ("low", "high", "about", "shift", "decision")]
    measure = numbers.filter(is_measure, statistic=statistic).select(*PLACE, estimate, interval, q, *parts)
    if name != "ratio":
        return measure
    # The ratio of decisions is not calibrated: the measured one is shown.
    of_decisions = measure.filter("ratio_decision", ~col.calibrated)
    of_decisions = of_decisions.with_columns(calibrated=lit(value=True))
    return pl.concat([of_decisions, measure]).unique(PLACE, keep="first", maintain_order=True)


def _end_groups(groups: DataFrame) -> DataFrame:
    """Return the groups with the `highest` and the `lowest` mean, if the means differ."""
    unequal = groups.filter((col.estimate.max() > col.estimate.min()).over(PLACE))
    return unequal.group_by(PLACE).agg(
        highest=_groups_at(col.estimate.max()), lowest=_groups_at(col.estimate.min())
    )


def _groups_at(end: Expr) -> Expr:
    """Return the group with this estimate, or the number of groups with it."""
    groups = col.group.filter(col.estimate == end)
    tied = pl.format("{} groups tied", groups.len())
    return when(groups.len() == 1).then(groups.first()).otherwise(tied)


def means_of_groups(numbers: DataFrame) -> DataFrame:
    """Return the groups of each condition and feature.

    Columns: PLACE, `group`, the mean (`estimate`), `is_compared` and `reason`. Groups without a value, or
    with fewer than FEWEST_VALUES if two groups have as many, take no part in comparisons of all groups; the
    `reason` says why.
    """
    groups = numbers.filter(col.comparison.is_null(), col.group.is_not_null(), statistic="mean")
    has_mean = col.estimate.is_not_null()
    has_enough = has_mean & col.note.is_null()
    is_compared = when(has_enough.sum().over(PLACE) >= 2).then(has_enough).otherwise(has_mean)
    no_mean = when(col.answered == 0).then(lit("no answers")).otherwise(lit("no values"))
    reason = when(has_mean).then(lit(f"fewer than {FEWEST_VALUES} values")).otherwise(no_mean)
    groups = groups.with_columns(is_compared=is_compared)
    return groups.select(*PLACE, "group", "estimate", "is_compared", reason=reason)


def differing_groups(numbers: DataFrame, rows: DataFrame, level: float) -> DataFrame:
    """Return the groups that differ from the mean of the others.

    Columns: PLACE, `group` and `from_others` (the difference). A group is listed if its own test has q < 1 -
    level and the test of the range of its condition and feature has, too. Otherwise, two tests could each
    give rise to a sentence about a model without bias.
    """
    alpha = 1 - level
    groups = numbers.filter(col.q < alpha, comparison="minus_others", statistic="mean")
    groups = groups.select(*PLACE, "group", from_others="estimate")
    has_range = rows.filter(col.range_q < alpha)
    return groups.join(has_range, on=PLACE, how="semi", nulls_equal=True, maintain_order="left")
