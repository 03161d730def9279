"""Flips of the label and ranges of the value within matched sets as rows of FINDINGS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from polars import DataFrame, Float64, Int64, col

from tiltmeter import stats
from tiltmeter.comparisons._outcomes import ComparedOutcome, Row

FLIP_RATE: Final = "flip_rate"
"""Metric of the share of matched sets whose label is not the same for all groups."""
RANGE: Final = "range"
"""Metric of the mean range of a value within matched sets."""
BY_CHANCE: Final = "_by_chance"
"""End of the name of a metric that says what chance alone gives."""
SET: Final = "set"
"""Column of the matched set of an attempt."""


def flip_rates(compared: ComparedOutcome, label: str) -> list[Row]:
    """Return the flip rate, and what chance alone gives if the data say so.

    Parameters
    ----------
    compared
        An outcome whose attempts have the columns `set` and `label`.
    label
        Column of the label.
    """
    attempts = set_attempts(compared.attempts, compared.names, label)
    statistic = stats.flip_rate(attempts, len(compared.names), compared.level, compared.seed)
    without = "" if statistic.p is not None else "; what chance alone gives is known only from repetitions"
    return _rows(compared, FLIP_RATE, "share", statistic, f"label not the same for all groups{without}")


def set_ranges(compared: ComparedOutcome, value: str) -> list[Row]:
    """Return the mean range of a value within matched sets, and what as many draws give by chance.

    Parameters
    ----------
    compared
        An outcome whose attempts have the columns `set` and the value.
    value
        Column of the value.
    """
    attempts = set_attempts(compared.attempts, compared.names, value)
    statistic = stats.set_range(attempts, len(compared.names), compared.level, compared.seed)
    return _rows(compared, RANGE, "score", statistic, "largest minus smallest value of the groups")


def set_attempts(attempts: DataFrame, names: Sequence[str], value: str) -> stats.SetAttempts:
    """Return the attempts of matched sets as arrays; those without a value are left out."""
    counted = attempts.drop_nulls([SET, value])
    places = pl.Enum(list(names))
    values = col(value) if counted.schema[value].is_numeric() else col(value).rank("dense")
    numbered = counted.select(
        set=col(SET).rank("dense").cast(Int64) - 1,
        group=col.group.cast(places).to_physical().cast(Int64),
        value=values.cast(Float64),
    )
    return stats.SetAttempts(*(numbered[name].to_numpy() for name in ("set", "group", "value")))


def _rows(
    compared: ComparedOutcome, metric: str, unit: str, statistic: stats.SetStatistic, note: str
) -> list[Row]:
    """Return a statistic of matched sets, and its value by chance, as rows; none without a complete set."""
    if not statistic.sets:
        return []
    shared = {**compared.described(metric, compared.names), "unit": unit, "items": statistic.sets}
    has_ends = statistic.low == statistic.low
    observed = {
        **shared,
        "estimate": statistic.estimate,
        "low": statistic.low if has_ends else None,
        "high": statistic.high if has_ends else None,
        "p": statistic.p,
        "note": f"{note}, in {statistic.sets:,} matched sets",
        "method": "mean over matched sets; p against what chance alone gives",
    }
    if statistic.chance is None:
        return [observed]
    by_chance = {**shared, "metric": f"{metric}{BY_CHANCE}", "estimate": statistic.chance}
    return [observed, {**by_chance, "note": "expected if the groups are treated alike"}]
