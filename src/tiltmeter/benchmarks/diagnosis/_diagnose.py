"""From measurements to statistics, disparities and flagged groups: one table each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.benchmarks.diagnosis._compute import Design, Found, Request, compute
from tiltmeter.benchmarks.diagnosis._statistics import find_statistics
from tiltmeter.errors import InputError
from tiltmeter.stats import benjamini_hochberg
from tiltmeter.stats.disparity import COMPARISONS
from tiltmeter.stats.dixon import LARGEST, SMALLEST, original_verdicts
from tiltmeter.stats.summary import Options, Statistic

__all__ = ["DEFAULT_STATISTICS", "DEFINITIONS", "Diagnosis", "diagnose"]

DEFINITIONS = ("default", "saged")
DEFAULT_STATISTICS = ("mean", "median", "sd", "selection_rate", "kl", "precision", "pearson")
FOUR_FIFTHS = 0.8

NO_VALUES = "no value in any group"
ONE_GROUP = "only one group has a value"
NEEDS_BASELINE = "needs the column's baseline"
ALL_EQUAL = "all groups are equal"
NOT_A_RATIO = "a ratio needs values that are not negative, and not all 0"
OUTSIDE_DIXON = f"Dixon's test is for {SMALLEST} to {LARGEST} groups"
NOT_DEFINED = "not defined for these values"


class Diagnosis(NamedTuple):
    """The tables of a diagnosis.

    Attributes:
        statistics: One row for each statistic, group and column: `statistic`, the grouping columns, `column`, `estimate`, `low`, `high`,
            `n` (rows with a value), `missing`.
        disparities: One row for each statistic, comparison and column: `statistic`, `comparison`, `column`, `estimate`, `low`, `high`, `p`
            and `q` (over the columns), `group` (the one it is about; several grouping columns joined by " / "), `reading` ("none",
            "dispersed" or "concentrated"; null where it cannot be told; under "saged", beside `dixon_q`, the package's own
            words) and `note` (why there is no estimate).
        groups: One row for each statistic, column and group: `statistic`, `column`, the grouping columns, `z`, `impact_ratio`,
            `impact_low`, `impact_high`, `below_four_fifths` (null but for the selection rate), `outlier` (by Dixon's test).
    """

    statistics: pl.DataFrame
    disparities: pl.DataFrame
    groups: pl.DataFrame


def diagnose(
    measurements: pl.DataFrame,
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
    options: Options | None = None,
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
        too; the comparisons and intervals are ours, its own permutation test being void, and what it says of Dixon's test stands in words
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
    options = options or Options()
    baselines = dict(baselines or {})
    _check(measurements, groups, columns, baselines, unit, statistics, definition, level, (resamples, permutations))
    computed = find_statistics(statistics)
    names, codes = _coded(measurements, groups)
    if names.height < 2:
        raise InputError(
            f"all rows are of one group ({_label(names, groups)[0] if names.height else 'none'}) of {', '.join(groups)}: two are needed"
        )
    bases = list(dict.fromkeys(baselines[column] for column in columns if column in baselines))
    design = Design(
        values=_matrix(measurements, columns),
        baseline_of=np.array([bases.index(baselines[column]) if column in baselines else -1 for column in columns], dtype=np.intp),
        baselines=_matrix(measurements, bases),
        codes=codes,
        groups=names.height,
        units=None if unit is None else _units(measurements, unit),
    )
    found = compute(design, Request(computed, options, definition == "saged", level, resamples, permutations, seed))
    grid = _grid(("statistic", statistics), ("column", columns), ("", names))
    return Diagnosis(
        _statistics(found, {name: grid[name] for name in ("statistic", *groups, "column")}, np.bincount(codes)),
        _disparities(found, computed, columns, baselines, _label(names, groups), level, original=definition == "saged"),
        _groups(found, grid),
    )


def _check(
    measurements: pl.DataFrame,
    groups: Sequence[str],
    columns: Sequence[str],
    baselines: Mapping[str, str],
    unit: str | None,
    statistics: Sequence[str],
    definition: str,
    level: float,
    counts: tuple[int, int],
) -> None:
    if definition not in DEFINITIONS:
        raise InputError(f"there is no definition {definition!r}: give one of {', '.join(DEFINITIONS)}")
    if not 0.0 < level < 1.0:
        raise InputError(f"the level must lie between 0 and 1, not {level}")
    if min(counts) < 0:
        raise InputError(f"resamples and permutations must be 0 or more, not {min(counts)}")
    for what, given in (("groups", groups), ("columns", columns), ("statistics", statistics)):
        if not given:
            raise InputError(f"nothing to diagnose: give at least one of {what}")
        if len(set(given)) < len(given):
            raise InputError(f"the {what} name one twice: {', '.join(given)}")
    used = [baselines[column] for column in columns if column in baselines]
    schema = measurements.schema  # once: asking it for each column takes longer than the diagnosis
    for name in (*groups, *columns, *used, *([unit] if unit else [])):
        if name not in schema:
            raise InputError(f"the measurements have no column {name!r}; they have {', '.join(measurements.columns)}")
    for name in (*columns, *used):
        kind = schema[name]
        if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
            raise InputError(f"the column {name!r} does not hold numbers but {kind}")
    for name in (*groups, *([unit] if unit else [])):
        if gaps := measurements[name].null_count():
            raise InputError(f"{gaps} rows have nothing in the column {name!r}: fill it in, or leave these rows out")


def _coded(measurements: pl.DataFrame, groups: Sequence[str]) -> tuple[pl.DataFrame, NDArray[np.intp]]:
    """Names of the groups in their order, and the number of the group of every row."""
    keys = measurements.select(groups)
    names = keys.unique().sort(groups)
    codes = keys.join(names.with_row_index("number"), on=groups, how="left", maintain_order="left")["number"]
    return names, codes.to_numpy().astype(np.intp)


def _units(measurements: pl.DataFrame, unit: str) -> NDArray[np.intp]:
    return measurements[unit].rank("dense").to_numpy().astype(np.intp) - 1


def _matrix(measurements: pl.DataFrame, columns: Sequence[str]) -> NDArray[np.float64]:
    """(C, N) values, NaN where missing or infinite."""
    if not columns:
        return np.empty((0, measurements.height))
    values = np.ascontiguousarray(measurements.select(pl.col(columns).cast(pl.Float64)).to_numpy().T)
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, np.nan)


def _label(names: pl.DataFrame, groups: Sequence[str]) -> list[str]:
    return names.select(pl.concat_str([pl.col(name).cast(pl.String) for name in groups], separator=" / ")).to_series().to_list()


def _grid(*axes: tuple[str, Sequence[str] | pl.DataFrame]) -> dict[str, pl.Series]:
    """The columns of every combination of values, the last axis fastest."""
    frames = [
        values if isinstance(values, pl.DataFrame) else pl.DataFrame({name: list(values)}, schema={name: pl.String})
        for name, values in axes
    ]
    places = np.indices([frame.height for frame in frames]).reshape(len(frames), -1)
    return {column.name: column for frame, place in zip(frames, places, strict=True) for column in frame[place]}


def _column(values: NDArray[np.float64]) -> pl.Series:
    return pl.Series(values.ravel(), dtype=pl.Float64, nan_to_null=True)


def _statistics(found: Found, grid: Mapping[str, pl.Series], rows: NDArray[np.int_]) -> pl.DataFrame:
    count = np.broadcast_to(found.rows, found.estimate.shape)
    return pl.DataFrame(
        {
            **grid,
            "estimate": _column(found.estimate),
            "low": _column(found.low),
            "high": _column(found.high),
            "n": count.ravel().astype(np.int64),
            "missing": (rows - count).ravel().astype(np.int64),
        }
    )


def _groups(found: Found, grid: Mapping[str, pl.Series]) -> pl.DataFrame:
    known = ~np.isnan(found.impact_high.ravel())
    return pl.DataFrame(
        {
            **grid,
            "z": _column(found.z),
            "impact_ratio": _column(found.impact),
            "impact_low": _column(found.impact_low),
            "impact_high": _column(found.impact_high),
            "below_four_fifths": _flags(found.impact_high.ravel() < FOUR_FIFTHS, known),
            "outlier": _flags(found.outlier.ravel() == 1.0, ~np.isnan(found.outlier.ravel())),
        }
    )


def _flags(values: NDArray[np.bool_], known: NDArray[np.bool_]) -> pl.Series:
    return pl.Series(np.where(known, values, np.nan), dtype=pl.Float64, nan_to_null=True).cast(pl.Boolean)


def _disparities(
    found: Found,
    statistics: Mapping[str, Statistic],
    columns: Sequence[str],
    baselines: Mapping[str, str],
    labels: Sequence[str],
    level: float,
    *,
    original: bool,
) -> pl.DataFrame:
    names = pl.Series([*labels, None], dtype=pl.String)
    said = _verdicts(found) if original else _readings(found, level)
    return pl.DataFrame(
        {
            **_grid(("statistic", list(statistics)), ("comparison", list(COMPARISONS)), ("column", columns)),
            "estimate": _column(found.compared),
            "low": _column(found.compared_low),
            "high": _column(found.compared_high),
            "p": _column(found.p),
            "q": _column(benjamini_hochberg(found.p, axis=-1)),
            "group": names[np.where(found.group < 0, len(labels), found.group).ravel()],
            "reading": pl.Series(said.ravel().tolist(), dtype=pl.String),
            "note": _notes(found, statistics, columns, baselines),
        }
    )


def _readings(found: Found, level: float) -> NDArray[np.object_]:
    """The same for every comparison of a statistic and column: does the range tell of a difference, and does one group stand apart?"""
    kinds = list(COMPARISONS)
    p, margin = found.p[:, kinds.index("range")], found.compared[:, kinds.index("dixon_margin")]
    apart = np.where(margin > 0, "concentrated", "dispersed").astype(object)
    apart[np.isnan(margin)] = None
    apart[p >= 1.0 - level] = "none"
    apart[np.isnan(p)] = None
    return np.broadcast_to(apart[:, None], found.compared.shape)


def _verdicts(found: Found) -> NDArray[np.object_]:
    """What the package says of Dixon's test, beside its comparisons; nothing beside the others."""
    said = np.full(found.compared.shape, None, dtype=object)
    said[:, list(COMPARISONS).index("dixon_q")] = original_verdicts(found.estimate)
    return said


def _notes(found: Found, statistics: Mapping[str, Statistic], columns: Sequence[str], baselines: Mapping[str, str]) -> pl.Series:
    """Why a comparison has no estimate."""
    shape = found.compared.shape
    present = (~np.isnan(found.estimate)).sum(axis=-1)[:, None]
    kinds = np.array(list(COMPARISONS))[None, :, None]
    spread = found.compared[:, [list(COMPARISONS).index("range")]]
    paired = np.array([one.paired for one in statistics.values()])[:, None, None]
    unpaired = np.array([name not in baselines for name in columns])[None, None, :]
    by_dixon, by_ratio = np.char.startswith(kinds, "dixon"), kinds == "ratio"
    scaled = by_dixon | np.char.startswith(kinds, "max_")
    scale = np.nanmax(np.abs(np.where(np.isnan(found.estimate), 0.0, found.estimate)), axis=-1)[:, None]
    # The first that holds.
    reasons = {
        NEEDS_BASELINE: paired & unpaired,
        NO_VALUES: present == 0,
        ONE_GROUP: present == 1,
        OUTSIDE_DIXON: by_dixon & ((present < SMALLEST) | (present > LARGEST)),
        ALL_EQUAL: scaled & (spread <= 1e-9 * scale),
        NOT_A_RATIO: np.broadcast_to(by_ratio, shape),
    }
    notes = np.select([np.broadcast_to(part, shape) for part in reasons.values()], list(reasons), NOT_DEFINED).astype(object)
    notes[~np.isnan(found.compared)] = None
    return pl.Series(notes.ravel().tolist(), dtype=pl.String)
