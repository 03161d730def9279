"""Diagnosing a benchmark: statistics of each group, disparities over the groups and flagged groups; and what a disparity is due to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import Boolean, DataFrame, Float64, Series, String, col

from tiltmeter.arrays import Objects
from tiltmeter.benchmarks.configurations import DEFAULT_STATISTICS, FOUR_FIFTHS, find_statistics
from tiltmeter.benchmarks.inference import check_columns, check_resampling
from tiltmeter.benchmarks.resampled_summaries import (
    Computed,
    DisparityDefinition,
    SummaryRequest,
    as_observed,
    bootstrap,
    compute,
    design_of,
    ranks,
    summaries,
    together,
)
from tiltmeter.errors import InputError
from tiltmeter.registry import check_known
from tiltmeter.stats import (
    COMPARISONS,
    DEFAULT_FORMULAS,
    SAGED_FORMULAS,
    STATISTICS,
    Statistic,
    SummaryOptions,
    benjamini_hochberg,
    column_quantiles,
    original_verdicts,
)
from tiltmeter.stats.disparity import LARGEST, SMALLEST

__all__ = [
    "DEFAULT_STATISTICS",
    "DEFINITIONS",
    "Diagnosis",
    "SummaryOptions",
    "calibrate",
    "decompose",
    "diagnose",
    "find_statistics",
    "overall_means",
]

DEFINITIONS: Mapping[str, DisparityDefinition] = {
    "default": DisparityDefinition("default", 1),
    "saged": DisparityDefinition("saged", 1, SAGED_FORMULAS),
}

CALIBRATED = "_calibrated"

NO_VALUES = "no value in any group"
ONE_GROUP = "only one group has a value"
NEEDS_BASELINE = "needs the column's baseline"
ALL_EQUAL = "all groups are equal"
NOT_A_RATIO = "a ratio needs values that are not negative, and not all 0"
OUTSIDE_DIXON = f"Dixon's test is for {SMALLEST} to {LARGEST} groups"
NOT_DEFINED = "not defined for these values"


class Diagnosis(NamedTuple):
    """The tables of a diagnosis."""

    statistics: DataFrame
    """One row for each statistic, group and column: `statistic`, the grouping columns, `column`, `estimate`, `low`, `high`, `n` (rows
    with a value), `missing`."""
    disparities: DataFrame
    """One row for each statistic, comparison and column: `statistic`, `comparison`, `column`, `estimate`, `low`, `high`, `p` and `q`
    (over the columns), `group` (the one it is about; several grouping columns joined by " / "), `reading` ("none", "dispersed" or
    "concentrated"; null where it is unknown; under "saged", beside `dixon_q`, the package's own words) and `note` (why there is no
    estimate)."""
    groups: DataFrame
    """One row for each statistic, column and group: `statistic`, `column`, the grouping columns, `z`, `impact_ratio`, `impact_low`,
    `impact_high`, `below_four_fifths` (null but for the selection rate), `outlier` (by Dixon's test)."""


def diagnose(
    measurements: DataFrame,
    *,
    groups: Sequence[str],
    columns: Sequence[str],
    baselines: Mapping[str, str] | None = None,
    unit: str | None = None,
    statistics: Sequence[str] = DEFAULT_STATISTICS,
    definition: str = "default",
    level: float = 0.95,
    resamples: int = 1000,
    permutations: int = 1000,
    seed: int = 123,
    options: SummaryOptions | None = None,
) -> Diagnosis:
    """Summarise features in groups and compare the groups, with intervals and permutation tests.

    Parameters
    ----------
    measurements
        One row per prompt. Null and NaN are missing values.
    groups
        Columns that name a group, taken together: one level.
    columns
        Numeric feature columns (of generations, of the baseline, or calibrated).
    baselines
        Column -> column of its baseline's same feature, for the statistics that compare with it. Not for calibrated columns.
    unit
        Column that pairs rows, such as the root of branched prompts. Resamples draw units, and permutations exchange labels within one.
        Without it rows are drawn within groups, and labels exchanged among all rows.
    statistics
        Names from `stats.summary.STATISTICS`, or of statistics that outside packages bring.
    definition
        "default", or "saged" for what the package `sagedbias` computes (see `stats.summary`; the ratio then is given for negative values
        too; the comparisons and intervals are ours, its own permutation test being void, and what it says of Dixon's test is given in words
        in `reading`).
    level
        Of the intervals and of the four-fifths flag; readings take p < 1 - level. Dixon's test is at 95%.
    resamples, permutations
        How many; 0 leaves out intervals or p-values.
    seed
        The same seed gives the same tables, whatever other columns or statistics are asked for.
    options
        What the statistics leave open.

    Returns
    -------
    Diagnosis
        Groups in the order of their names, columns and statistics as given. The standard of the selection rate, taken over all groups, is
        held fixed in resamples. Intervals: bootstrap percentiles for statistics, corrected for the lift of noise (`lifted_interval` of
        `stats.disparity`) for range, ratio and sd, of the group in question for max and min.

    Raises
    ------
    InputError
        There is but one group, a column is missing or no number, a row is of no group, or an option is not known.
    """
    options = options or SummaryOptions()
    baselines = dict(baselines or {})
    check_known(definition, DEFINITIONS, f"there is no definition {definition!r}")
    check_resampling(level, resamples, permutations, fewest=0)
    for what, given in {"groups": groups, "columns": columns, "statistics": statistics}.items():
        if not given:
            raise InputError(f"nothing to diagnose: give at least one of {what}")
        if len(set(given)) < len(given):
            raise InputError(f"the {what} name one twice: {', '.join(given)}")
    numeric = [*columns, *(baselines[column] for column in columns if column in baselines)]
    check_columns(measurements, [*groups, *([unit] if unit else [])], numeric)
    schema = measurements.schema
    for name in numeric:
        if not (schema[name].is_numeric() or schema[name] in (Boolean, pl.Null)):
            raise InputError(f"the column {name!r} does not hold numbers but {schema[name]}")
    computed, formulas = find_statistics(statistics), DEFINITIONS[definition].formulas
    names = measurements.select(groups).unique().sort(groups)
    labels = names.select(pl.concat_str(groups, separator=" / ")).to_series().to_list()
    if names.height < 2:
        raise InputError(f"all rows are of one group ({labels[0] if labels else 'none'}) of {', '.join(groups)}: two are needed")
    codes = ranks(measurements.select(pl.struct(groups)).to_series())
    design = design_of(measurements, columns, baselines, codes, unit)
    found = compute(design, SummaryRequest(computed, options, formulas, level, resamples, permutations, seed))
    compared = {
        "estimate": found.compared,
        "low": found.compared_low,
        "high": found.compared_high,
        "p": found.p,
        "q": benjamini_hochberg(found.p, axis=1),
        "group": np.array([*labels, None], dtype=object)[found.group.astype(np.intp)],
        "reading": _package_verdicts(found) if formulas is SAGED_FORMULAS else _readings(found, level),
        "note": _notes(found, computed, columns, baselines),
    }
    axes = {"statistic": statistics, "comparison": list(COMPARISONS), "column": columns}
    by_statistic, by_comparison, by_column = (DataFrame({name: values}) for name, values in axes.items())
    of_groups = cross(by_statistic, by_column, names)
    return Diagnosis(
        _filled(
            of_groups.select("statistic", *groups, "column"),
            estimate=found.estimate,
            low=found.low,
            high=found.high,
            n=found.rows,
            missing=np.bincount(codes) - found.rows,
        ),
        _filled(cross(by_statistic, by_comparison, by_column), **{name: values.swapaxes(1, 2) for name, values in compared.items()}),
        _filled(of_groups, z=found.z, impact_ratio=found.impact, impact_low=found.impact_low, impact_high=found.impact_high).with_columns(
            below_four_fifths=col.impact_high < FOUR_FIFTHS,
            outlier=Series(found.outlier.ravel(), nan_to_null=True).cast(Boolean),
        ),
    )


def overall_means(
    table: DataFrame, columns: Sequence[str], *, group: str, unit: str | None, level: float, resamples: int, seed: int
) -> DataFrame:
    """Return the mean of each column over the rows with a value, whichever group they are of, and its bootstrap percentile interval.

    Parameters
    ----------
    table
        One row per prompt. Null and NaN are missing values.
    columns
        Numeric columns.
    group, unit
        Column of a row's group, and column that pairs rows (None: rows are drawn within groups), as for `diagnose`.
    level
        Of the intervals.
    resamples
        How many; 0 leaves the intervals out.
    seed
        The draws are those of `diagnose` with this seed.

    Returns
    -------
    One row per column: `column`, `estimate` (null where no row has a value), `low`, `high`.
    """
    design = design_of(table, columns, {}, ranks(table[group]), unit)
    alone = design._replace(codes=np.zeros_like(design.codes), groups=1)
    request = SummaryRequest({"mean": STATISTICS["mean"]}, SummaryOptions(), DEFAULT_FORMULAS, level, resamples, 0, seed)
    standard = np.full(len(columns), np.nan)
    with np.errstate(all="ignore"):
        estimate = summaries(alone, request, as_observed(alone), standard)[0, :, 0, 0]
        drawn = summaries(alone, request, together(bootstrap(design, resamples, seed)), standard)[0, :, 0]
        low, _, high = column_quantiles(drawn, level)
    return _filled(DataFrame({"column": columns}), estimate=estimate, low=low, high=high)


def cross(*tables: DataFrame) -> DataFrame:
    """Every row of each table with every row of the others; those of the last change fastest."""
    return reduce(lambda first, second: first.join(second, how="cross", maintain_order="left_right"), tables)


def _filled(table: DataFrame, **values: NDArray[Any]) -> DataFrame:
    """The table with columns of these numbers and texts, in the order of its rows; null for NaN."""
    rows = {name: one.ravel() for name, one in values.items()}
    columns = {name: Series(one.tolist(), dtype=String) if one.dtype == object else one for name, one in rows.items()}
    return table.with_columns(Series(name, one, nan_to_null=True) for name, one in columns.items())


def _readings(found: Computed, level: float) -> Objects:
    """The same for every comparison of a statistic and column: does the range show a difference, and is one group far from the others?"""
    kinds = list(COMPARISONS)
    p, margin = found.p[..., kinds.index("range")], found.compared[..., kinds.index("dixon_margin")]
    reading = np.where(margin > 0, "concentrated", "dispersed").astype(object)
    reading[np.isnan(margin)] = None
    reading[p >= 1.0 - level] = "none"
    reading[np.isnan(p)] = None
    return np.broadcast_to(reading[..., None], found.compared.shape)


def _package_verdicts(found: Computed) -> Objects:
    """What the package says of Dixon's test, beside its comparison; nothing beside the others."""
    verdicts = np.full(found.compared.shape, None, dtype=object)
    verdicts[..., list(COMPARISONS).index("dixon_q")] = original_verdicts(found.estimate)
    return verdicts


def _notes(found: Computed, statistics: Mapping[str, Statistic], columns: Sequence[str], baselines: Mapping[str, str]) -> Objects:
    """Why a comparison has no estimate."""
    kinds = np.array(list(COMPARISONS))
    present = (~np.isnan(found.estimate)).sum(axis=-1)[..., None]
    spread = found.compared[..., [list(COMPARISONS).index("range")]]
    scale = np.nanmax(np.abs(np.where(np.isnan(found.estimate), 0.0, found.estimate)), axis=-1)[..., None]
    paired = np.array([one.paired for one in statistics.values()])[:, None, None]
    unpaired = np.array([name not in baselines for name in columns])[None, :, None]
    by_dixon = np.char.startswith(kinds, "dixon")
    # The first that holds.
    reasons = {
        NEEDS_BASELINE: paired & unpaired,
        NO_VALUES: present == 0,
        ONE_GROUP: present == 1,
        OUTSIDE_DIXON: by_dixon & ((present < SMALLEST) | (present > LARGEST)),
        ALL_EQUAL: (by_dixon | np.char.startswith(kinds, "max_")) & (spread <= 1e-9 * scale),
        NOT_A_RATIO: kinds == "ratio",
    }
    holds = [np.broadcast_to(part, found.compared.shape) for part in reasons.values()]
    notes = np.select(holds, list(reasons), NOT_DEFINED).astype(object)
    notes[~np.isnan(found.compared)] = None
    return notes


def calibrate(measurements: DataFrame, baselines: Mapping[str, str]) -> DataFrame:
    """Add a column "..._calibrated" beside each feature column: feature - baseline, row by row.

    Parameters
    ----------
    measurements
        One row per prompt. Null and NaN are missing; where either side is missing, so is the difference.
    baselines
        Feature column -> column of the same feature of its baseline. Columns that are their own baseline are left out. Distances from the
        baseline are calibrated already: leave them out.

    Raises
    ------
    InputError
        A column is missing.
    """
    check_columns(measurements, (), [*baselines, *baselines.values()])
    differences = [
        (col(column).cast(Float64) - col(baseline).cast(Float64)).fill_nan(None).alias(column + CALIBRATED)
        for column, baseline in baselines.items()
        if column != baseline
    ]
    return measurements.with_columns(differences)


def decompose(disparities: DataFrame, baselines: Mapping[str, str]) -> DataFrame:
    """Split disparities of raw columns into what the tools, the context and the model account for.

    Parameters
    ----------
    disparities
        Of a diagnosis of raw, baseline and calibrated columns together.
    baselines
        As given to `calibrate`.

    Returns
    -------
    pl.DataFrame
        `statistic`, `comparison`, `column`, `raw` (the disparity), `tool` (that of its baseline: the same texts with other names, so all
        that differs is how the classifier takes the names), `contextual` (raw minus calibrated) and `model` (that of the calibrated column,
        what is left); null where a part was not diagnosed or is not defined. A disparity is no sum, so that `tool` is a reading beside
        the other two, and not a third summand.
    """
    keys = ["statistic", "comparison"]
    values = disparities.select(*keys, "column", "estimate")
    own = col.column.replace(baselines)
    tool = values.rename({"column": "baseline", "estimate": "tool"})
    model = values.rename({"column": "calibrated", "estimate": "model"})
    return (
        values.filter(col.column.is_in(list(baselines)), own != col.column)
        .with_columns(baseline=own, calibrated=col.column + CALIBRATED)
        .join(tool, on=[*keys, "baseline"], how="left", maintain_order="left")
        .join(model, on=[*keys, "calibrated"], how="left", maintain_order="left")
        .select(*keys, "column", raw="estimate", tool="tool", contextual=col.estimate - col.model, model="model")
    )
