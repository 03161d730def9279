"""Diagnosis of a benchmark: statistics of groups, disparities between groups, flagged groups, and the resulting findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import Boolean, DataFrame, Expr, Float64, Series, String, col, lit, when

from tiltmeter.arrays import Objects
from tiltmeter.benchmarks.baseline_texts import differ_in_names_only, group_names
from tiltmeter.benchmarks.definitions import (
    BASELINE,
    BASELINES,
    DEFAULT_STATISTICS,
    FOUR_FIFTHS,
    VALUE,
    WITHOUT_NAMES,
    find_statistics,
    options_of,
)
from tiltmeter.benchmarks.inference import check_columns, check_resampling
from tiltmeter.benchmarks.summaries import (
    FEWEST_VALUES,
    NO_KINDS,
    ColumnKinds,
    Computed,
    DisparityDefinition,
    SummaryRequest,
    as_observed,
    bootstrap,
    compute,
    design_of,
    group_intervals,
    left_out,
    ranks,
    reach_of,
    rows_with_value,
    summaries,
    together,
)
from tiltmeter.errors import InputError, check_known
from tiltmeter.features import FEATURES, FeatureColumn
from tiltmeter.readers.outcomes import OUTCOMES, outcome_counts
from tiltmeter.schema import EXAMPLES, NAMED, beside, conform, q_values, sql_where
from tiltmeter.stats import (
    COMPARISONS,
    SAGED_FORMULAS,
    STATISTICS,
    Formulas,
    GroupValues,
    Statistic,
    SummaryOptions,
    benjamini_hochberg,
    original_verdicts,
    ratio,
)
from tiltmeter.stats.disparity import LARGEST, SMALLEST
from tiltmeter.study import Part, Settings, as_findings

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
    "default": DisparityDefinition("default", 3),
    "saged": DisparityDefinition(
        "saged", 1, SAGED_FORMULAS, names_replaced=False, calibrated_keys=False, decision_rates=False
    ),
}

CALIBRATED = "_calibrated"


def replaces_names(definition: str) -> bool:
    """Return whether calibration under this definition replaces the names of the groups first."""
    return DEFINITIONS[definition].names_replaced


def calibrates_keys(definition: str) -> bool:
    """Return whether the key numbers of this definition are calibrated where there is a baseline."""
    return DEFINITIONS[definition].calibrated_keys


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
    definition: str = "default",
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
        "default", or "saged" for the formulas of the package `sagedbias` (see `stats.summary`), under which
        ratios of negative values are defined. Comparisons and intervals are those of Tiltmeter, as the
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
        under "saged").

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
        exact bound within the possible values. Under "saged", all intervals are percentiles, all statistics
        are tested as they are, all groups are compared, and two values are enough.

    Raises
    ------
    InputError
        There is only one group, a column is missing or not numeric, a row has no group, or an option is not
        known.
    """
    options = options or SummaryOptions()
    baselines = dict(baselines or {})
    check_known(definition, DEFINITIONS, f"there is no definition {definition!r}")
    check_resampling(level, resamples, permutations, fewest=0)
    for what, given in {"groups": groups, "columns": columns, "statistics": statistics}.items():
        if not given:
            raise InputError(f"{what} is empty; give at least one")
        if len(set(given)) < len(given):
            raise InputError(f"{what} contains duplicates: {', '.join(given)}")
    numeric = [*columns, *(baselines[column] for column in columns if column in baselines)]
    check_columns(measurements, [*groups, *([unit] if unit else [])], numeric)
    schema = measurements.schema
    for name in numeric:
        if not (schema[name].is_numeric() or schema[name] in (Boolean, pl.Null)):
            raise InputError(f"the column {name!r} must be numeric, not {schema[name]}")
    computed, formulas = find_statistics(statistics), DEFINITIONS[definition].formulas
    names = measurements.select(groups).unique().sort(groups)
    labels = names.select(pl.concat_str(groups, separator=" / ")).to_series().to_list()
    if names.height < 2:
        raise InputError(
            f"all rows have the same group in {', '.join(groups)} ({labels[0] if labels else 'none'}); at least two are needed"
        )
    codes = ranks(measurements.select(pl.struct(groups)).to_series())
    design = design_of(
        measurements,
        columns,
        baselines,
        codes,
        unit,
        _with_decisions(kinds, measurements, columns, definition),
    )
    found = compute(design, SummaryRequest(computed, options, formulas, level, resamples, permutations, seed))
    compared = {
        "estimate": found.compared,
        "low": found.compared_low,
        "high": found.compared_high,
        "p": found.p,
        "q": benjamini_hochberg(found.p, axis=1),
        "group": np.array([*labels, None], dtype=object)[found.group.astype(np.intp)],
        "reading": _package_verdicts(found) if formulas is SAGED_FORMULAS else _readings(found, level),
        "note": _notes(found, computed, columns, baselines, formulas, labels),
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
        ).with_columns(note=_notes_of_groups(formulas)),
        _filled(
            cross(by_statistic, by_comparison, by_column),
            **{name: values.swapaxes(1, 2) for name, values in compared.items()},
        ),
        _filled(
            of_groups,
            z=found.z,
            impact_ratio=found.impact,
            impact_low=found.impact_low,
            impact_high=found.impact_high,
            difference=found.difference,
            difference_low=found.difference_low,
            difference_high=found.difference_high,
            p=found.difference_p,
            q=benjamini_hochberg(found.difference_p.reshape(len(statistics), -1), axis=1),
        ).with_columns(
            below_four_fifths=col.impact_high < FOUR_FIFTHS,
            outlier=Series(found.outlier.ravel(), nan_to_null=True).cast(Boolean),
        ),
    )


def overall_means(
    table: DataFrame,
    columns: Sequence[str],
    *,
    group: str,
    unit: str | None,
    level: float,
    resamples: int,
    seed: int,
    definition: str = "default",
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
        "default" (t interval with the bootstrap standard error, within the possible values) or "saged"
        (bootstrap percentiles).
    kinds
        Possible values of columns.

    Returns
    -------
    One row per column: `column`, `estimate` (null if no row has a value), `low`, `high`.
    """
    design = design_of(table, columns, {}, ranks(table[group]), unit, kinds)
    alone = design._replace(codes=np.zeros_like(design.codes), groups=1)
    formulas = DEFINITIONS[definition].formulas
    request = SummaryRequest(
        {"mean": STATISTICS["mean"]}, SummaryOptions(), formulas, level, resamples, 0, seed
    )
    standard = np.full(len(columns), np.nan)
    rows = rows_with_value(design.values, alone)
    # One degree of freedom is lost for each group whose rows are drawn within it.
    units = rows - design.groups + 1 if design.units is None else np.minimum(rows, design.units.max() + 1)
    with np.errstate(all="ignore"):
        estimate = summaries(alone, request, as_observed(alone), standard)[..., 0]
        drawn = summaries(alone, request, together(bootstrap(design, resamples, seed)), standard)
        low, high = group_intervals(estimate, drawn, units, reach_of(alone, request), request)
    return _filled(DataFrame({"column": columns}), estimate=estimate, low=low, high=high)


def _with_decisions(
    kinds: ColumnKinds, measurements: DataFrame, columns: Sequence[str], definition: str
) -> ColumnKinds:
    """Add the columns of true and false to those of decisions, or return none if the definition treats them as other features."""
    if not DEFINITIONS[definition].decision_rates:
        return kinds._replace(decisions=())
    decisions = [name for name in columns if measurements.schema[name] == Boolean]
    bounds = {**dict.fromkeys(decisions, (0.0, 1.0)), **kinds.bounds}
    return ColumnKinds({*kinds.decisions, *decisions}, bounds)


def cross(*tables: DataFrame) -> DataFrame:
    """Combine every row of each table with every row of the others; rows of the last table change fastest."""
    rows = np.indices([table.height for table in tables]).reshape(len(tables), -1)
    return pl.concat([table[row] for table, row in zip(tables, rows, strict=True)], how="horizontal")


def _filled(table: DataFrame, **values: NDArray[Any]) -> DataFrame:
    """Add the flattened arrays as columns; NaN becomes null."""
    rows = {name: one.ravel() for name, one in values.items()}
    columns = {
        name: Series(one.tolist(), dtype=String) if one.dtype == object else one for name, one in rows.items()
    }
    return table.with_columns(Series(name, one, nan_to_null=True) for name, one in columns.items())


def _readings(found: Computed, level: float) -> Objects:
    """Classify each statistic and column by the test of the range and by Dixon's test.

    The same for all its comparisons.
    """
    kinds = list(COMPARISONS)
    p, margin = found.p[..., kinds.index("range")], found.compared[..., kinds.index("dixon_margin")]
    reading = np.where(margin > 0, "concentrated", "dispersed").astype(object)
    reading[np.isnan(margin)] = None
    reading[p >= 1.0 - level] = "none"
    reading[np.isnan(p)] = None
    return np.broadcast_to(reading[..., None], found.compared.shape)


def _package_verdicts(found: Computed) -> Objects:
    """Return the package's verdict on Dixon's test for the comparison `dixon_q`, and None for the others."""
    verdicts = np.full(found.compared.shape, None, dtype=object)
    verdicts[..., list(COMPARISONS).index("dixon_q")] = original_verdicts(found.estimate)
    return verdicts


def _notes(
    found: Computed,
    statistics: Mapping[str, Statistic],
    columns: Sequence[str],
    baselines: Mapping[str, str],
    formulas: Formulas,
    labels: Sequence[str],
) -> Objects:
    """Return the reason why a comparison has no estimate, or no interval and no test, or which groups it leaves out; None otherwise."""
    kinds = np.array(list(COMPARISONS))
    excluded = left_out(found.rows, formulas)
    present = (~(np.isnan(found.estimate) | excluded)).sum(axis=-1)[..., None]
    spread = found.compared[..., [list(COMPARISONS).index("range")]]
    scale = np.fmax.reduce(np.abs(found.estimate), axis=-1, initial=0.0)[..., None]
    paired = np.array([one.paired for one in statistics.values()])[:, None, None]
    unpaired = np.array([name not in baselines for name in columns])[None, :, None]
    by_dixon = np.char.startswith(kinds, "dixon")
    # The first reason that applies is used.
    reasons = {
        NEEDS_BASELINE: paired & unpaired,
        NO_VALUES: present == 0,
        ONE_GROUP: present == 1,
        OUTSIDE_DIXON: by_dixon & ((present < SMALLEST) | (present > LARGEST)),
        ALL_EQUAL: (by_dixon | np.char.startswith(kinds, "max_")) & (spread <= 1e-9 * scale),
        NOT_A_RATIO: kinds == "ratio",
    }
    notes = np.select(list(reasons.values()), list(reasons), NOT_DEFINED).astype(object)
    notes[~np.isnan(found.compared)] = None
    if formulas.studentised:
        enough = (found.rows >= FEWEST_VALUES).sum(axis=-1)[..., None]
        notes[~np.isnan(found.compared) & (enough < 2)] = FEW_COMPARED
        for place in np.argwhere(excluded.any(axis=-1)):
            names = [label for label, is_out in zip(labels, excluded[tuple(place)], strict=True) if is_out]
            computed = ~np.isnan(found.compared[tuple(place)])
            notes[tuple(place)][computed] = LEFT_OUT.format(", ".join(names))
    return notes


def _notes_of_groups(formulas: Formulas) -> Expr:
    """Return why a statistic of a group with an estimate has no interval; null if it has one."""
    few = col.n < FEWEST_VALUES if formulas.studentised else lit(value=False)
    return when(few, col.estimate.is_not_null()).then(pl.format(FEW_VALUES, "n"))


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
    differences = [
        (col(column).cast(Float64) - col(baseline).cast(Float64)).fill_nan(None).alias(column + CALIBRATED)
        for column, baseline in baselines.items()
        if column != baseline
    ]
    return measurements.with_columns(differences)


def decompose(disparities: DataFrame, baselines: Mapping[str, str]) -> DataFrame:
    """Decompose disparities of measured columns into contributions of the measuring tool, the context and the model.

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
    own = col.column.replace(baselines)
    tool = values.rename({"column": "baseline", "estimate": "tool"})
    model = values.rename({"column": "calibrated", "estimate": "model"})
    return (
        values.filter(col.column.is_in(list(baselines)), own != col.column)
        .with_columns(baseline=own, calibrated=col.column + CALIBRATED)
        .join(tool, on=[*keys, "baseline"], how="left", maintain_order="left")
        .join(model, on=[*keys, "calibrated"], how="left", maintain_order="left")
        .select(
            *keys, "column", raw="estimate", tool="tool", contextual=col.estimate - col.model, model="model"
        )
    )


# -- findings ----------------------------------------------------------------------------------------------------------

COMPARED = ("range", "ratio", "sd", "max_abs_z", "dixon_q")
"""Comparisons that become findings; the table `disparities` has all comparisons."""
KEY = (("range", "mean"), ("ratio", "selection_rate"))
"""(comparison, statistic) of the key findings."""
SELECTION_RATE = "selection_rate"
IS_OF_KEY = col.statistic.is_in([statistic for _, statistic in KEY])
"""Whether a number is one of these statistics."""
MINUS_OTHERS = "minus_others"
"""Comparison of a group with the mean of the others; a finding for the statistics of KEY."""
NULLS = {"range": 0.0, "sd": 0.0, "ratio": 1.0, MINUS_OTHERS: 0.0}
T_INTERVAL = "t interval with the bootstrap standard error"
LIFTED = "bootstrap interval, corrected for the upward bias of maxima"
KEY_FAMILY = "q: over all generations and features, calibrated where there is a baseline"
BASELINE_FAMILY = "q: over all features of the baselines"
MEASURED_FAMILY = "q: over all generations and features with calibrated values, before calibration"
FAMILIES: Mapping[str, str] = {"key": KEY_FAMILY, "measured": MEASURED_FAMILY, "baseline": BASELINE_FAMILY}
"""Families of q-values of the default definition.

The measured values of a feature with calibrated values, and the baselines, contain the bias of the tool. They
are families of their own, so that differences due to the tool do not make the tests of the key numbers less
strict.
"""
WHOLE_FAMILY = "q: over all generations and features, measured and calibrated"
"""The family of the definition "saged"."""
FURTHER_UNITS = {"sentiment_weak": "difference", "toxicity_probability": "share", "toxic_fraction": "share"}
"""Units of further measures that are not scores."""
PERMUTATIONS = 1000

SHOWN = 5
"""Examples per finding, alternating between both groups."""
ROUNDING = 9
"""Digits to which influences are compared, relative to the largest one, so that rounding errors count as
ties."""
NOTHING = 1e-12
"""Influences up to this are rounding error."""


class Wide(NamedTuple):
    """Measures in wide format: one row per prompt, one column per generation and feature."""

    table: DataFrame
    columns: DataFrame
    """One row per column: `column`, `generation`, `feature`, `calibrated`, `decision` (whether the values are
    decisions), `lowest` and `highest` (the possible values; null if unknown), `family` (of q-values; one of
    FAMILIES) and `baseline` (the column of its baseline)."""
    unit: str | None

    @property
    def baselines(self) -> dict[str, str]:
        """Mapping of columns to the columns of their baselines."""
        return dict(self.columns.select("column", "baseline").drop_nulls().iter_rows())


def findings_of(
    measures: DataFrame, further: DataFrame, part: Part, settings: Settings
) -> dict[str, DataFrame]:
    """Compute the tables of one model and part: `findings` and, with at least two groups, `statistics`, `disparities` and `groups`.

    The latter three have the columns of a `Diagnosis`, with `generation`, `feature`, `calibrated` and
    `decision` instead of `column`. Under the default definition, the four-fifths rule is applied to decisions
    only, and q-values are computed by family (FAMILIES). The disparities also tell whether the baselines of
    the groups differ in names only (`names_only`) and whether calibration has replaced names
    (`names_replaced`); both are null without baselines.
    """
    about_baselines = _about_baselines(measures, settings)
    measures = measures.rename({"subject": "group"})
    definition = DEFINITIONS[settings.definition]
    wide = wide_of(measures)
    by_topic = paired_by_topic(measures)
    if by_topic and not definition.formulas.studentised:
        wide = wide._replace(unit=None)
    several = measures["generation"].n_unique() > 1
    tables: dict[str, DataFrame] = {}
    if measures["group"].n_unique() < 2:
        numbers = _nothing_to_compare(wide, measures["group"][0], definition)
    else:
        several |= BASELINES in wide.columns["generation"]
        tables, numbers = _diagnosed(wide, settings, definition)
        tables["disparities"] = tables["disparities"].with_columns(**about_baselines)
        paired = "topics with the prompts about all groups" if by_topic else "prompts with all their branches"
        units = paired if wide.unit else "prompts within each group"
        how = (
            _methods(wide.unit is not None, definition)
            if definition.formulas.studentised
            else lit("bootstrap percentile")
        )
        numbers = numbers.with_columns(method=pl.format("{}; resampled: {}", how, lit(units)))
    counts = ("attempts", *OUTCOMES, "items")
    # Without any response about a group, as in an interrupted run, it has no counts.
    numbers = beside(numbers, _counts(measures), "generation", "group").with_columns(col(counts).fill_null(0))
    single = further.filter(col.target.is_null()).with_columns(
        unit=col.metric.replace_strict(FURTHER_UNITS, default="score", return_dtype=String),
        attempts="n",
        answered="n",
        null_value="chance",
        method=pl.format("{}; resampled: prompts with all their branches", "interval"),
        evidence=sql_where(part=part.name),
    )
    found = pl.concat([_described(numbers, part, definition), single], how="diagonal_relaxed").with_columns(
        harm=lit(part.harms[0]), context=when(lit(several)).then("generation")
    )
    return {"findings": as_findings(found, part, settings, definition), **tables}


def _about_baselines(measures: DataFrame, settings: Settings) -> dict[str, Expr]:
    """Return the columns `names_only` and `names_replaced`."""
    if "baseline" not in measures.columns or not measures["baseline"].count():
        return dict.fromkeys(("names_only", "names_replaced"), lit(None, Boolean))
    options = options_of(settings)
    is_replaced = replaces_names(settings.definition) and bool(group_names(measures, options))
    return {"names_only": lit(differ_in_names_only(measures, options)), "names_replaced": lit(is_replaced)}


def _diagnosed(
    wide: Wide, settings: Settings, definition: DisparityDefinition
) -> tuple[dict[str, DataFrame], DataFrame]:
    """Return the tables of a diagnosis, and the numbers that become findings: disparities, overall means and statistics of groups."""
    columns = wide.columns["column"].to_list()
    drawn: dict[str, Any] = {
        "unit": wide.unit,
        "level": settings.level,
        "resamples": settings.resamples,
        "seed": settings.seed,
    }
    drawn["kinds"] = kinds_of(wide.columns, definition)
    found = diagnose(
        wide.table,
        groups=["group"],
        columns=columns,
        baselines=wide.baselines,
        statistics=options_of(settings).statistics,
        definition=settings.definition,
        permutations=PERMUTATIONS,
        **drawn,
    )
    if definition.decision_rates:
        without = wide.columns.select("column", "calibrated", "decision")
        found = Diagnosis(*(_without_calibrated_decisions(table, without) for table in found))
    if definition.calibrated_keys:
        found = _by_family(found, wide.columns, definition)
    means = overall_means(
        wide.table, columns, group="group", definition=settings.definition, **drawn
    ).with_columns(statistic=lit("mean"))
    apart = found.groups.filter(col.difference.is_not_null(), IS_OF_KEY)
    numbers_of = {"estimate": "difference", "low": "difference_low", "high": "difference_high"}
    apart = apart.select("statistic", "column", "group", "p", "q", comparison=lit(MINUS_OTHERS), **numbers_of)
    disparities = found.disparities.filter(col.comparison.is_in(COMPARED)).drop("group")
    numbers = pl.concat([disparities, means, found.statistics, apart], how="diagonal")
    named = wide.columns.drop("baseline", "lowest", "highest")
    tables = {
        name: table.join(named, on="column", maintain_order="left")
        .drop("column")
        .with_columns(family=family_of(definition))
        for name, table in {**found._asdict(), "numbers": numbers}.items()
    }
    return tables, tables.pop("numbers")


def kinds_of(columns: DataFrame, definition: DisparityDefinition) -> ColumnKinds:
    """Return what is known about the columns of a `Wide` under a definition."""
    decisions = (
        columns.filter("decision", ~col.calibrated)["column"].to_list() if definition.decision_rates else ()
    )
    ends = columns.select("column", "lowest", "highest").drop_nulls()
    return ColumnKinds(decisions, {column: (low, high) for column, low, high in ends.iter_rows()})


def family_of(definition: DisparityDefinition) -> Expr:
    """Return the family of a number: that of its column, except for the selection rate of decisions.

    It is not calibrated, so that its key number is the measured one.
    """
    is_rate = when(col.decision, col.family == "measured", statistic=SELECTION_RATE)
    return is_rate.then(lit("key")).otherwise("family") if definition.decision_rates else col.family


def _without_calibrated_decisions(table: DataFrame, columns: DataFrame) -> DataFrame:
    """Remove the selection rates of calibrated decisions: a decision minus that about the baseline is no decision.

    `columns` has `column`, `calibrated` and `decision`.
    """
    removed = columns.filter("calibrated", "decision").select("column", statistic=lit(SELECTION_RATE))
    return table.join(removed, on=["column", "statistic"], how="anti", maintain_order="left")


def _by_family(found: Diagnosis, columns: DataFrame, definition: DisparityDefinition) -> Diagnosis:
    """Compute q within each family of columns, and apply the four-fifths rule to decisions only."""
    about = columns.select("column", "family", "decision")
    disparities = found.disparities.join(about, on="column", maintain_order="left").with_columns(
        family=family_of(definition)
    )
    disparities = disparities.with_columns(
        q=col.p.map_batches(q_values, Float64).over("statistic", "comparison", "family")
    )
    groups = found.groups.join(about, on="column", maintain_order="left").with_columns(
        family=family_of(definition)
    )
    groups = groups.with_columns(
        q=col.p.map_batches(q_values, Float64).over("statistic", "family"),
        below_four_fifths=when("decision").then("below_four_fifths"),
    )
    return found._replace(
        disparities=disparities.drop("family", "decision"), groups=groups.drop("family", "decision")
    )


def _methods(paired: bool, definition: DisparityDefinition) -> Expr:
    """Return the interval, the test and the family of q of each number."""
    family = col.family.replace_strict(FAMILIES) if definition.calibrated_keys else lit(WHOLE_FAMILY)
    smooth, means = (
        [name for name, one in STATISTICS.items() if getattr(one, field)] for field in ("bounds", "terms")
    )
    within = " within the resampled units" if paired else ""
    welch = "Welch-James statistic" if paired else "Welch-James statistic, not below that of Welch's test"
    tested = when(col.statistic.is_in(means)).then(lit(welch)).otherwise(lit("statistic as it is"))
    apart = pl.format(
        f"{T_INTERVAL}; p: t test, not below that of permuted groups{within}; {{}}, and all groups", family
    )
    return (
        when(col.comparison == MINUS_OTHERS).then(apart)
        .when(col.comparison.is_not_null()).then(pl.format(f"{LIFTED}; p: groups permuted{within}, {{}}; {{}}", tested, family))
        .when(col.statistic.is_in(smooth)).then(lit(T_INTERVAL))
        .otherwise(lit("bootstrap percentile"))
    )  # fmt: skip


def _nothing_to_compare(wide: Wide, group: str, definition: DisparityDefinition) -> DataFrame:
    """Return findings without estimates, with a note, if there are responses about one group only."""
    compared = DataFrame(KEY, schema=["comparison", "statistic"], orient="row")
    kinds = pl.concat([compared, DataFrame({"statistic": "mean", "group": group})], how="diagonal")
    about = wide.columns.filter(col.generation != BASELINES).select(
        "generation", "feature", "calibrated", "decision", "family"
    )
    numbers = cross(about, kinds).with_columns(family=family_of(definition))
    if definition.decision_rates:
        numbers = numbers.remove("calibrated", "decision", statistic=SELECTION_RATE)
    return numbers.with_columns(note=lit(f"all responses are about {group}: at least two groups are needed"))


def _described(numbers: DataFrame, part: Part, definition: DisparityDefinition) -> DataFrame:
    """Add `metric`, `unit`, `null_value`, `key` and `evidence` to the numbers.

    The key numbers are calibrated where the feature has calibrated values in that generation, and measured
    otherwise.
    """
    # Baselines are not answers of a generation; their evidence is all prompts.
    generation = when(col.generation != BASELINES).then("generation")
    single = col.comparison.is_null()
    key = pl.any_horizontal(
        (col.comparison == comparison) & (col.statistic == statistic) for comparison, statistic in KEY
    )
    of_key = (col.family == "key") if definition.calibrated_keys else ~col.calibrated
    return numbers.with_columns(
        metric=when(single).then(lit("value")).otherwise(lit("disparity")),
        unit=when(col.comparison == "ratio").then(lit("ratio"))
        .when(single & (col.statistic == "selection_rate")).then(lit("share"))
        .when(col.comparison == MINUS_OTHERS).then(lit("difference"))
        .otherwise(lit("score")),
        null_value=col.comparison.replace_strict(NULLS, default=None, return_dtype=Float64),
        key=key & generation.is_not_null() & of_key,
        evidence=sql_where(part=part.name, generation=generation, subject=col.group),
    )  # fmt: skip


def _counts(measures: DataFrame) -> DataFrame:
    """Count outcomes by generation and group, with a null group for all groups together.

    For baselines, each prompt counts as answered.
    """
    answers = measures.select("generation", "group", "prompt_key", "item", "outcome")
    rows = pl.concat(
        [
            answers,
            answers.unique("prompt_key").with_columns(generation=lit(BASELINES), outcome=lit("answered")),
        ]
    )
    rows = pl.concat([rows, rows.with_columns(group=None)], how="vertical_relaxed")
    return rows.group_by("generation", "group").agg(outcome_counts())


def paired_by_topic(rows: DataFrame) -> bool:
    """Check whether rows with the same root are prompts on the same topic, rather than branches of a prompt or the pairs of the user."""
    branched = "branched_from" in rows.columns and rows["branched_from"].count() > 0
    return not branched and "kind" in rows.columns and bool((rows["kind"] != "given").any())


def wide_of(measures: DataFrame) -> Wide:
    """Compute the mean of each feature over the answers to a prompt by generation, the features of baselines, and calibrated values.

    Calibrated values are those of the measures if there are any (see WITHOUT_NAMES), and otherwise the
    feature minus that of the baseline.
    """
    features = [name.removeprefix(VALUE) for name in measures.columns if name.startswith(VALUE)]
    given = [one for one in features if f"{BASELINE}{one}" in measures.columns]
    generations = measures["generation"].unique(maintain_order=True).to_list()
    answers = [(f"{generation}:{one}", generation, one) for generation in generations for one in features]
    without_names = {
        f"{name}{CALIBRATED}": (generation, f"{WITHOUT_NAMES}{one}") for name, generation, one in answers
    }
    without_names = {name: source for name, source in without_names.items() if source[1] in measures.columns}
    table = measures.group_by("prompt_key", "group", "root", maintain_order=True).agg(
        *(col(f"{BASELINE}{one}").drop_nulls().first().alias(f"{BASELINES}:{one}") for one in given),
        *(
            col(f"{VALUE}{one}").filter(generation=generation).mean().alias(name)
            for name, generation, one in answers
        ),
        *(
            col(column).filter(generation=generation).mean().alias(name)
            for name, (generation, column) in without_names.items()
        ),
    )
    # Distances from the baseline are calibrated already.
    known = {column.name: column for feature in FEATURES.values() for column in feature.columns}
    distances = {name for name, column in known.items() if not column.calibrated}
    bases = {one: f"{BASELINES}:{one}" for one in given if table[f"{BASELINES}:{one}"].count()}
    pairs = {name: bases[one] for name, _, one in answers if one in bases and one not in distances}
    rows = [
        *((name, BASELINES, one, False, None) for one, name in bases.items()),
        *((name, generation, one, False, bases.get(one)) for name, generation, one in answers),
        *(
            (f"{name}{CALIBRATED}", generation, one, True, None)
            for name, generation, one in answers
            if name in pairs
        ),
    ]
    texts = dict.fromkeys(("column", "generation", "feature"), String)
    decisions = [one for one in features if measures.schema[f"{VALUE}{one}"] == Boolean]
    columns = DataFrame(rows, schema={**texts, "calibrated": Boolean, "baseline": String}, orient="row")
    has_calibrated = col.calibrated.any().over("generation", "feature")
    measured = when(has_calibrated & ~col.calibrated).then(lit("measured")).otherwise(lit("key"))
    family = when(generation=BASELINES).then(lit("baseline")).otherwise(measured)
    columns = columns.with_columns(decision=col.feature.is_in(decisions), family=family)
    columns = _with_possible_values(columns, known)
    paired = table.select((col.group.n_unique().over("root") > 1).any()).item()
    subtracted = {name: base for name, base in pairs.items() if f"{name}{CALIBRATED}" not in without_names}
    return Wide(calibrate(table, subtracted), columns, "root" if paired else None)


def _with_possible_values(columns: DataFrame, known: Mapping[str, FeatureColumn]) -> DataFrame:
    """Add `lowest` and `highest`, the possible values of each column; null if they are unknown.

    `columns` has `feature`, `calibrated` and `decision`, `known` the catalogue of features.
    """
    ranges = [(name, column.low, column.high) for name, column in known.items()]
    of_features = DataFrame(ranges, schema={"feature": String, "low": Float64, "high": Float64}, orient="row")
    columns = beside(columns, of_features, "feature")
    low, high = when("decision").then(0.0).otherwise("low"), when("decision").then(1.0).otherwise("high")
    width = high - low
    columns = columns.with_columns(
        lowest=when("calibrated").then(-width).otherwise(low),
        highest=when("calibrated").then(width).otherwise(high),
    )
    return columns.drop("low", "high")


def examples_of(measures: DataFrame, findings: DataFrame, settings: Settings) -> DataFrame:
    """Find EXAMPLES for the ranges of means among the key findings: up to SHOWN answers each, most influential first.

    `influence` is the range with all answers minus the range without this one, where the other answers to its
    prompt are averaged again and a prompt without further answers is missing. Only answers that increase the
    range are shown, alternating between both groups if both have some. Ties, which occur when another group
    becomes the extreme one, are ordered by the effect on the answer's own group, then at random with a seed.
    An answer without which there is no range has no influence.

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
    definition = DEFINITIONS[settings.definition]
    tables = [DataFrame(schema=EXAMPLES)]
    for row in findings.filter(
        "key", col.estimate.is_not_null(), comparison="range", statistic="mean"
    ).iter_rows(named=True):
        mine = measures if row["context"] is None else measures.filter(generation=row["context"])
        value = _value_of(row["feature"], row["calibrated"], measures)
        answers = mine.select("prompt_id", "repetition", "prompt_key", "subject", value=value).filter(
            col.value.is_finite()
        )
        named = {name: lit(row[name]) for name in NAMED}
        tables.append(conform(_widening(answers, definition, settings.seed).with_columns(**named), EXAMPLES))
    return pl.concat(tables)


def _value_of(feature: str, calibrated: bool, measures: DataFrame) -> Expr:
    """Return the value of a feature of each answer: measured, or calibrated as in `wide_of`."""
    value = col(f"{VALUE}{feature}").cast(Float64)
    if not calibrated:
        return value
    without_names = f"{WITHOUT_NAMES}{feature}"
    return (
        col(without_names)
        if without_names in measures.columns
        else value - col(f"{BASELINE}{feature}").cast(Float64)
    )


def _widening(answers: DataFrame, definition: DisparityDefinition, seed: int) -> DataFrame:
    """Select the answers shown, with `prompt_id`, `repetition` and `influence`.

    `answers` has `subject`, `prompt_key` and `value`.
    """
    found = _influences(answers, definition).filter(col.influence > NOTHING)
    ranked = found.with_columns(
        *(
            (col(name) / col(name).max()).round(ROUNDING).alias(f"of_{name}")
            for name in ("influence", "pull")
        ),
        lot=Series(np.random.default_rng(seed).permutation(found.height)),
    ).sort("of_influence", "of_pull", "lot", descending=[True, True, False])
    placed = ranked.with_row_index("place").with_columns(turn=pl.int_range(pl.len()).over("subject"))
    return placed.sort("turn", "place").head(SHOWN).sort("place")


def _influences(answers: DataFrame, definition: DisparityDefinition) -> DataFrame:
    """Compute `influence` and `pull` of the answers about the groups with the largest and the smallest mean.

    `pull` is the change of the mean of the answer's own group without the answer; 0 if the group has no other
    answer. Answers without which there is no range are omitted.
    """
    prompts = answers.group_by("subject", "prompt_key", maintain_order=True).agg(
        mean=col.value.mean(), answers=pl.len()
    )
    groups = (
        prompts.group_by("subject", maintain_order=True)
        .agg(total=col.mean.sum(), prompts=pl.len())
        .sort("subject")
        .with_row_index("group")
    )
    means = (groups["total"] / groups["prompts"]).to_numpy()
    ends = sorted({int(np.argmax(means)), int(np.argmin(means))})
    rest = (col.mean * col.answers - col.value) / (col.answers - 1)
    alone = col.answers == 1
    mine = (
        answers.join(groups.filter(col.group.is_in(ends)), on="subject", maintain_order="left")
        .join(prompts, on=["subject", "prompt_key"], maintain_order="left")
        .with_columns(
            total=col.total - col.mean + when(alone).then(0.0).otherwise(rest), prompts=col.prompts - alone
        )
    )
    places = mine["group"].to_numpy()
    own = ratio(mine["total"], mine["prompts"])
    without = np.tile(means, (mine.height, 1))
    without[np.arange(mine.height), places] = own
    ranges = [
        COMPARISONS["range"].compute(GroupValues(values, definition.formulas))
        for values in (means[None], without)
    ]
    pull = np.nan_to_num(np.abs(means[places] - own))
    return mine.with_columns(influence=Series(ranges[0] - ranges[1]), pull=Series(pull)).filter(
        col.influence.is_finite()
    )
