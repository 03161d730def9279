"""Diagnosis of measurements: statistics of groups, disparities between groups, and flagged groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import Boolean, DataFrame, Expr, Float64, Series, String, col, lit, when

from tiltmeter._arrays import Objects
from tiltmeter.benchmarks._computation import Computed, GroupEstimates, compute
from tiltmeter.benchmarks._definitions import (
    DEFAULT,
    DEFAULT_STATISTICS,
    FOUR_FIFTHS,
    SAGED,
    BenchmarkDefinition,
    find_statistics,
)
from tiltmeter.benchmarks._group_comparisons import Comparisons
from tiltmeter.benchmarks._inference import check_columns, check_resampling
from tiltmeter.benchmarks._layouts import (
    NO_KINDS,
    ColumnKinds,
    as_observed,
    bootstrap,
    design_of,
    ranks,
    together,
)
from tiltmeter.benchmarks._summaries import (
    FEWEST_VALUES,
    SummaryRequest,
    group_intervals,
    left_out,
    reach_of,
    rows_with_value,
    summaries,
)
from tiltmeter.errors import InputError
from tiltmeter.stats import (
    COMPARISONS,
    SAGED_FORMULAS,
    STATISTICS,
    Formulas,
    Statistic,
    SummaryOptions,
    benjamini_hochberg,
    original_verdicts,
)
from tiltmeter.stats._disparity import LARGEST, SMALLEST

__all__ = [
    "DEFAULT",
    "DEFAULT_STATISTICS",
    "SAGED",
    "Diagnosis",
    "SummaryOptions",
    "calibrate",
    "decompose",
    "diagnose",
    "find_statistics",
    "overall_means",
]

CALIBRATED: Final = "_calibrated"
"""Suffix of calibrated columns."""
NO_VALUES = "no value in any group"
ONE_GROUP = "only one group has a value"
NEEDS_BASELINE = "needs the column's baseline"
ALL_EQUAL = "all groups are equal"
NOT_A_RATIO = "a ratio requires non-negative values that are not all 0"
OUTSIDE_DIXON = f"Dixon's test requires {SMALLEST} to {LARGEST} groups"
NOT_DEFINED = "not defined for these values"
FEW_VALUES = f"no interval: at least {FEWEST_VALUES} values are needed, this group has {{}}"
LEFT_OUT = f"without groups with fewer than {FEWEST_VALUES} values: {{}}"
FEW_COMPARED = f"no interval and no test: at least two groups with {FEWEST_VALUES} values each are needed"


class Diagnosis(NamedTuple):
    """The tables of a diagnosis."""

    statistics: DataFrame
    """One row for each statistic, group and column: `statistic`, the grouping columns, `column`, `estimate`,
    `low`, `high`, `n` (rows with a value), `missing` and `note` (why there is no interval: too few values).
    """
    disparities: DataFrame
    """One row for each statistic, comparison and column: `statistic`, `comparison`, `column`, `estimate`,
    `low`, `high`, `p` and `q` (over the columns), `group` (the group concerned; several grouping columns are
    joined by " / "), `reading` ("none", "dispersed" or "concentrated", null if unknown; under "saged", the
    verdict of the package for `dixon_q`) and `note` (why there is no estimate, or no interval and no test).
    """
    groups: DataFrame
    """One row for each statistic, column and group: `statistic`, `column`, the grouping columns, `z`,
    `impact_ratio`, `impact_low`, `impact_high`, `below_four_fifths` (for the selection rate only, otherwise
    null), `outlier` (by Dixon's test), and the `difference` from the mean of the other groups, weighted by
    their rows, with `difference_low`, `difference_high`, `p` and `q` (over the groups and columns of a
    statistic); null under "saged"."""


def diagnose(
    measurements: DataFrame,
    *,
    groups: Sequence[str],
    columns: Sequence[str],
    baselines: Mapping[str, str] | None = None,
    unit: str | None = None,
    statistics: Sequence[str] = DEFAULT_STATISTICS,
    definition: BenchmarkDefinition = DEFAULT,
    level: float = 0.95,
    resamples: int = 1000,
    permutations: int = 1000,
    seed: int = 123,
    options: SummaryOptions | None = None,
    kinds: ColumnKinds = NO_KINDS,
) -> Diagnosis:
    """Summarise features by group and compare the groups, with intervals and permutation tests.

    Parameters
    ----------
    measurements
        One row per prompt. Null and NaN are missing values.
    groups
        Columns that together define the group of a row.
    columns
        Numeric feature columns (of generations, of the baseline, or calibrated).
    baselines
        Column -> column with the same feature of its baseline, for statistics that compare with it. Not for
        calibrated columns.
    unit
        Column that pairs rows, such as the root of branched prompts. Resamples draw units, and permutations
        exchange labels within units. Without it, rows are drawn within groups, and labels are exchanged among
        all rows.
    statistics
        Names from `stats.summary.STATISTICS`, or of statistics from plugins.
    definition
        The default one, or SAGED with the formulas of the package `sagedbias` (see `stats.summary`), under
        which ratios of negative values are defined. Comparisons and intervals are those of Tiltmeter, as the
        package's permutation test is not valid; the package's verdict on Dixon's test is in `reading`.
    level
        Level of the intervals and of the four-fifths flag; readings use p < 1 - level. Dixon's test is always
        at 5%.
    resamples, permutations
        Numbers of resamples and permutations; 0: no intervals or no p-values.
    seed
        Random seed. The same seed gives the same tables, regardless of other columns and statistics.
    options
        Options of the statistics.
    kinds
        Columns with decisions, and possible values of columns. A column of true and false is a column of
        decisions in any case. The selection rate of decisions is their mean, whatever the `options` (not
        under SAGED).

    Returns
    -------
    Diagnosis
        Groups are sorted by name; columns and statistics are in the given order. The standard of the
        selection rate, computed over all groups, is fixed in resamples. Intervals of smooth statistics (mean,
        variance, sd, shares) are t intervals with the bootstrap standard error, those of other statistics
        bootstrap percentiles. They are corrected for upward bias for range, ratio and sd of the groups
        (`stats.intervals.lifted_interval`), and those of the group concerned for max and min. Tests permute
        groups. Means and selection rates are compared in standard errors (`stats.studentise`): range, ratio
        and sd by the Welch-James statistic, z and Dixon's Q by the same comparison of the studentised values.
        Without units, p of the former is not below that of Welch's test, because permutations of small groups
        with very different spreads find differences too often. Other statistics are tested as they are, which
        assumes that groups have the same spread. A group with fewer than five values has no interval and no
        test, and comparisons of all groups are computed without it (see `left_out`); they have no interval
        and no test if fewer than two groups have five values. If all resamples agree, the interval is an
        exact bound within the possible values. Under SAGED, all intervals are percentiles, all statistics
        are tested as they are, all groups are compared, and two values are enough.

    Raises
    ------
    InputError
        There is only one group, a column is missing or not numeric, a row has no group, or an option is not
        known.
    """
    baselines = dict(baselines or {})
    check_resampling(level, resamples, permutations, fewest=0)
    _check_names({"groups": groups, "columns": columns, "statistics": statistics})
    _check_measurements(measurements, groups, columns, baselines, unit)
    names = measurements.select(groups).unique().sort(groups)
    labels = names.select(pl.concat_str(groups, separator=" / ")).to_series().to_list()
    if names.height < 2:
        label = labels[0] if labels else "none"
        raise InputError(
            f"all rows have the same group in {', '.join(groups)} ({label}); at least two are needed"
        )
    codes = ranks(measurements.select(pl.struct(groups)).to_series())
    kinds = _with_decisions(kinds, measurements, columns, definition)
    design = design_of(measurements, columns, baselines, codes, unit, kinds)
    request = SummaryRequest(
        statistics=find_statistics(statistics),
        options=options or SummaryOptions(),
        formulas=definition.formulas,
        level=level,
        resamples=resamples,
        permutations=permutations,
        seed=seed,
    )
    computed = compute(design, request)
    by_statistic = DataFrame({"statistic": statistics})
    by_column = DataFrame({"column": columns})
    of_groups = cross(by_statistic, by_column, names)
    keys = of_groups.select("statistic", *groups, "column")
    return Diagnosis(
        statistics=_statistics_of_groups(keys, computed.groups, np.bincount(codes), request.formulas),
        disparities=_disparities(by_statistic, by_column, computed, request, baselines, labels),
        groups=_flagged_groups(of_groups, computed),
    )


def _check_names(names_of: Mapping[str, Sequence[str]]) -> None:
    """Raise InputError if a parameter has no names or the same name twice."""
    for parameter, names in names_of.items():
        if not names:
            raise InputError(f"{parameter} is empty; give at least one")
        if len(set(names)) < len(names):
            raise InputError(f"{parameter} contains duplicates: {', '.join(names)}")


def _check_measurements(
    measurements: DataFrame,
    groups: Sequence[str],
    columns: Sequence[str],
    baselines: Mapping[str, str],
    unit: str | None,
) -> None:
    """Raise InputError if a column is missing or not numeric, or a row has no group."""
    numeric = [*columns, *(baselines[column] for column in columns if column in baselines)]
    complete = [*groups] if unit is None else [*groups, unit]
    check_columns(measurements, complete, numeric)
    schema = measurements.schema
    for name in numeric:
        if not (schema[name].is_numeric() or schema[name] in (Boolean, pl.Null)):
            raise InputError(f"the column {name!r} must be numeric, not {schema[name]}")


def _statistics_of_groups(
    axes: DataFrame, groups: GroupEstimates, rows: NDArray[np.intp], formulas: Formulas
) -> DataFrame:
    """Return the table `statistics`; `rows` (G,) is the number of rows of each group."""
    table = _filled(
        axes,
        estimate=groups.estimate,
        low=groups.low,
        high=groups.high,
        n=groups.rows,
        missing=rows - groups.rows,
    )
    return table.with_columns(note=_notes_of_groups(formulas))


def _disparities(
    by_statistic: DataFrame,
    by_column: DataFrame,
    computed: Computed,
    request: SummaryRequest,
    baselines: Mapping[str, str],
    labels: Sequence[str],
) -> DataFrame:
    """Return the table `disparities`."""
    if request.formulas is SAGED_FORMULAS:
        readings = _package_verdicts(computed)
    else:
        readings = _readings(computed.compared, request.level)
    compared = computed.compared
    columns = by_column["column"].to_list()
    arrays = {
        "estimate": compared.estimate,
        "low": compared.low,
        "high": compared.high,
        "p": compared.p,
        "q": benjamini_hochberg(compared.p, axis=1),
        "group": np.array([*labels, None], dtype=object)[compared.group],
        "reading": readings,
        "note": _notes(computed, request, columns, baselines, labels),
    }
    by_comparison = DataFrame({"comparison": list(COMPARISONS)})
    # The table has comparisons before columns; in the arrays, columns are before comparisons.
    swapped = {name: array.swapaxes(1, 2) for name, array in arrays.items()}
    return _filled(cross(by_statistic, by_comparison, by_column), **swapped)


def _flagged_groups(axes: DataFrame, computed: Computed) -> DataFrame:
    """Return the table `groups`."""
    impacts, differences = computed.impacts, computed.differences
    # q is over the columns and groups of a statistic.
    p_by_statistic = differences.p.reshape(len(differences.p), -1)
    table = _filled(
        axes,
        z=computed.distances.z,
        impact_ratio=impacts.estimate,
        impact_low=impacts.low,
        impact_high=impacts.high,
        difference=differences.difference,
        difference_low=differences.low,
        difference_high=differences.high,
        p=differences.p,
        q=benjamini_hochberg(p_by_statistic, axis=1),
    )
    outlier = Series(computed.distances.outlier.ravel(), nan_to_null=True)
    return table.with_columns(below_four_fifths=col.impact_high < FOUR_FIFTHS, outlier=outlier.cast(Boolean))


def overall_means(
    table: DataFrame,
    columns: Sequence[str],
    *,
    group: str,
    unit: str | None,
    level: float,
    resamples: int,
    seed: int,
    definition: BenchmarkDefinition = DEFAULT,
    kinds: ColumnKinds = NO_KINDS,
) -> DataFrame:
    """Compute the mean of each column over all rows with a value, and its interval.

    Parameters
    ----------
    table
        One row per prompt. Null and NaN are missing values.
    columns
        Numeric columns.
    group, unit
        Column of the group, and column that pairs rows (None: rows are drawn within groups), as for
        `diagnose`.
    level
        Confidence level.
    resamples
        Number of resamples; 0: no intervals.
    seed
        Random seed; the resamples are those of `diagnose` with this seed.
    definition
        The default one (t interval with the bootstrap standard error, within the possible values) or SAGED
        (bootstrap percentiles).
    kinds
        Possible values of columns.

    Returns
    -------
    One row per column: `column`, `estimate` (null if no row has a value), `low`, `high`.
    """
    design = design_of(table, columns, {}, ranks(table[group]), unit, kinds)
    single_group = replace(design, codes=np.zeros_like(design.codes), groups=1)
    request = SummaryRequest(
        statistics={"mean": STATISTICS["mean"]},
        formulas=definition.formulas,
        level=level,
        resamples=resamples,
        permutations=0,
        seed=seed,
    )
    standard = np.full(len(columns), np.nan)
    rows = rows_with_value(design.values, single_group)
    if design.units is None:
        # One degree of freedom is lost for each group whose rows are drawn within it.
        independent = rows - design.groups + 1
    else:
        independent = np.minimum(rows, design.units.max() + 1)
    with np.errstate(all="ignore"):
        estimate = summaries(single_group, request, as_observed(single_group), standard)[..., 0]
        resampling = together(bootstrap(design, resamples, seed))
        drawn = summaries(single_group, request, resampling, standard)
        reach = reach_of(single_group, request)
        low, high = group_intervals(estimate, drawn, independent, reach, request)
    return _filled(DataFrame({"column": columns}), estimate=estimate, low=low, high=high)


def _with_decisions(
    kinds: ColumnKinds, measurements: DataFrame, columns: Sequence[str], definition: BenchmarkDefinition
) -> ColumnKinds:
    """Add the columns of true and false to those of decisions.

    There are no decisions under a definition that treats them as other features.
    """
    if not definition.decision_rates:
        return kinds._replace(decisions=())
    decisions = [name for name in columns if measurements.schema[name] == Boolean]
    bounds = {**dict.fromkeys(decisions, (0.0, 1.0)), **kinds.bounds}
    return ColumnKinds({*kinds.decisions, *decisions}, bounds)


def cross(*tables: DataFrame) -> DataFrame:
    """Combine every row of each table with every row of the others; rows of the last table change fastest."""
    rows = np.indices([table.height for table in tables]).reshape(len(tables), -1)
    return pl.concat([table[row] for table, row in zip(tables, rows, strict=True)], how="horizontal")


def _filled(table: DataFrame, **arrays: NDArray[Any]) -> DataFrame:
    """Add the flattened arrays as columns; NaN becomes null."""
    return table.with_columns(_flattened(name, array) for name, array in arrays.items())


def _flattened(name: str, array: NDArray[Any]) -> Series:
    values = array.ravel()
    if values.dtype == object:
        return Series(name, values.tolist(), dtype=String)
    return Series(name, values, nan_to_null=True)


def _readings(compared: Comparisons, level: float) -> Objects:
    """Classify each statistic and column by the test of the range and by Dixon's test.

    The reading is the same for all its comparisons.
    """
    comparisons = list(COMPARISONS)
    p = compared.p[..., comparisons.index("range")]
    margin = compared.estimate[..., comparisons.index("dixon_margin")]
    reading = np.where(margin > 0, "concentrated", "dispersed").astype(object)
    reading[np.isnan(margin)] = None
    reading[p >= 1.0 - level] = "none"
    reading[np.isnan(p)] = None
    return np.broadcast_to(reading[..., None], compared.estimate.shape)


def _package_verdicts(computed: Computed) -> Objects:
    """Return the package's verdict on Dixon's test for the comparison `dixon_q`, and None for the others."""
    verdicts = np.full(computed.compared.estimate.shape, None, dtype=object)
    verdicts[..., list(COMPARISONS).index("dixon_q")] = original_verdicts(computed.groups.estimate)
    return verdicts


def _notes(
    computed: Computed,
    request: SummaryRequest,
    columns: Sequence[str],
    baselines: Mapping[str, str],
    labels: Sequence[str],
) -> Objects:
    """Return a note for each comparison, shape (S, C, K); None if there is nothing to say.

    It is the reason why the comparison has no estimate, or no interval and no test, or the groups that it
    leaves out.
    """
    rows = computed.groups.rows
    excluded = left_out(rows, request.formulas)
    is_compared = ~(np.isnan(computed.groups.estimate) | excluded)
    notes = _reasons(computed, is_compared, request.statistics, columns, baselines)
    is_computed = ~np.isnan(computed.compared.estimate)
    notes[is_computed] = None
    if not request.formulas.studentised:
        return notes
    enough = (rows >= FEWEST_VALUES).sum(axis=-1)[..., None]
    notes[is_computed & (enough < 2)] = FEW_COMPARED
    for statistic, column in np.argwhere(excluded.any(axis=-1)):
        is_excluded = excluded[statistic, column]
        names = [label for label, is_out in zip(labels, is_excluded, strict=True) if is_out]
        notes[statistic, column, is_computed[statistic, column]] = LEFT_OUT.format(", ".join(names))
    return notes


def _reasons(
    computed: Computed,
    is_compared: NDArray[np.bool_],
    statistics: Mapping[str, Statistic],
    columns: Sequence[str],
    baselines: Mapping[str, str],
) -> Objects:
    """Return the reason for which each comparison would have no estimate, shape (S, C, K).

    `is_compared` (S, C, G) tells which groups have a value and are compared.
    """
    comparisons = np.array(list(COMPARISONS))
    count = is_compared.sum(axis=-1)[..., None]
    spread = computed.compared.estimate[..., [list(COMPARISONS).index("range")]]
    sizes = np.abs(computed.groups.estimate)
    scale = np.fmax.reduce(sizes, axis=-1, initial=0.0)[..., None]
    is_paired = np.array([statistic.paired for statistic in statistics.values()])[:, None, None]
    has_no_baseline = np.array([name not in baselines for name in columns])[None, :, None]
    is_dixon = np.char.startswith(comparisons, "dixon")
    is_scaled = is_dixon | np.char.startswith(comparisons, "max_")
    is_outside_dixon = (count < SMALLEST) | (count > LARGEST)
    are_equal = spread <= 1e-9 * scale
    # The first reason that applies is used.
    applies = {
        NEEDS_BASELINE: is_paired & has_no_baseline,
        NO_VALUES: count == 0,
        ONE_GROUP: count == 1,
        OUTSIDE_DIXON: is_dixon & is_outside_dixon,
        ALL_EQUAL: is_scaled & are_equal,
        NOT_A_RATIO: comparisons == "ratio",
    }
    return np.select(list(applies.values()), list(applies), NOT_DEFINED).astype(object)


def _notes_of_groups(formulas: Formulas) -> Expr:
    """Return why a statistic of a group with an estimate has no interval; null if it has one."""
    is_small = col.n < FEWEST_VALUES if formulas.studentised else lit(value=False)
    return when(is_small, col.estimate.is_not_null()).then(pl.format(FEW_VALUES, "n"))


def calibrate(measurements: DataFrame, baselines: Mapping[str, str]) -> DataFrame:
    """Add a column "..._calibrated" for each feature column: feature - baseline, row by row.

    Parameters
    ----------
    measurements
        One row per prompt. Null and NaN are missing; the difference is missing if either side is.
    baselines
        Feature column -> column of the same feature of its baseline. Columns that are their own baseline are
        skipped. Omit distances from the baseline, which are calibrated already.

    Raises
    ------
    InputError
        A column is missing.
    """
    check_columns(measurements, (), [*baselines, *baselines.values()])
    differences = []
    for column, baseline in baselines.items():
        if column != baseline:
            difference = col(column).cast(Float64) - col(baseline).cast(Float64)
            differences.append(difference.fill_nan(None).alias(column + CALIBRATED))
    return measurements.with_columns(differences)


def decompose(disparities: DataFrame, baselines: Mapping[str, str]) -> DataFrame:
    """Decompose disparities of measured columns into contributions of the tool, the context and the model.

    Parameters
    ----------
    disparities
        Disparities of a diagnosis of measured, baseline and calibrated columns together.
    baselines
        As given to `calibrate`.

    Returns
    -------
    pl.DataFrame
        `statistic`, `comparison`, `column`, `raw` (the disparity), `tool` (the disparity of the baseline
        column: these texts differ in names only, so it is due to the classifier), `contextual` (raw minus
        calibrated) and `model` (the disparity of the calibrated column); null where a part was not diagnosed
        or is undefined. Only `contextual` and `model` add up to `raw`; `tool` is a separate measure.
    """
    keys = ["statistic", "comparison"]
    values = disparities.select(*keys, "column", "estimate")
    baseline = col.column.replace(baselines)
    measured = values.filter(col.column.is_in(list(baselines)), baseline != col.column)
    measured = measured.with_columns(baseline=baseline, calibrated=col.column + CALIBRATED)
    tool = values.rename({"column": "baseline", "estimate": "tool"})
    model = values.rename({"column": "calibrated", "estimate": "model"})
    parts = measured.join(tool, on=[*keys, "baseline"], how="left", maintain_order="left")
    parts = parts.join(model, on=[*keys, "calibrated"], how="left", maintain_order="left")
    return parts.select(
        *keys, "column", raw="estimate", tool="tool", contextual=col.estimate - col.model, model="model"
    )
