"""The mean of each column over all rows, whichever group they are of: what the groups are seen beside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.benchmarks.diagnosis._resampling import Bootstrap
from tiltmeter.stats.disparity import column_quantiles

__all__ = ["overall_means"]

Floats = NDArray[np.float64]
AT_ONCE = 10_000_000
"""Weights (resamples x rows) held at a time."""


def overall_means(
    table: pl.DataFrame, columns: Sequence[str], *, group: str, unit: str | None, level: float, resamples: int, seed: int
) -> pl.DataFrame:
    """Mean of each column over the rows with a value, and its bootstrap percentile interval.

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
    values = table.select(pl.col(columns).cast(pl.Float64).fill_null(float("nan"))).to_numpy()
    known = (~np.isnan(values)).astype(np.float64)
    totals = np.nan_to_num(values, nan=0.0)
    estimate = _ratio(totals.sum(axis=0), known.sum(axis=0))
    low = high = np.full(len(columns), np.nan)
    if resamples:
        codes = _codes(table[group])
        plan = Bootstrap(codes, int(codes.max()) + 1, None if unit is None else _codes(table[unit]), resamples, seed)
        step = max(1, AT_ONCE // len(codes))
        weights = (_weights(plan, first, min(first + step, resamples), len(codes)) for first in range(0, resamples, step))
        drawn = np.concatenate([_ratio(some @ totals, some @ known) for some in weights])
        low, _, high = column_quantiles(drawn.T, level)
    found = pl.DataFrame({"column": list(columns), "estimate": estimate, "low": low, "high": high})
    return found.with_columns(pl.selectors.float().fill_nan(None))


def _codes(names: pl.Series) -> NDArray[np.intp]:
    return names.rank("dense").to_numpy().astype(np.intp) - 1


def _weights(plan: Bootstrap, first: int, last: int, rows: int) -> Floats:
    """How often each resample draws each row: (last - first, rows). Places that hold no row are let go."""
    weights = np.zeros((last - first, rows + 1))
    for drawn in plan.layout(first, last):
        np.add.at(weights, (np.arange(last - first)[:, None], drawn), 1.0)
    return weights[:, :rows]


def _ratio(totals: Floats, counts: Floats) -> Floats:
    found: Floats = np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)
    return found
