"""Slopes of a rate against a score (0 female .. 1 male stereotype of an occupation), from sums over items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter import stats
from tiltmeter.probes._analysis import Sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tiltmeter.datasets import Library

__all__ = ["JOBS", "MEAN_SCORE", "jobs", "line_columns", "line_mean", "line_sums", "slope"]

JOBS = "kennison_jobs/kennison_jobs.csv"
MEAN_SCORE = 0.56281465093412
"""Mean score of the 339 occupations; the simulated model leans around it."""


def jobs(library: Library) -> pl.DataFrame:
    """The occupations: `job`, `score`, in file order."""
    return library.csv(JOBS).select(job="noun", score=pl.col("score").cast(pl.Float64))


def line_columns(y: pl.Expr, x: pl.Expr, cells: Mapping[str, pl.Expr]) -> dict[str, pl.Expr]:
    """Columns "CELL.n", "CELL.x", "CELL.y", "CELL.xx", "CELL.xy", "CELL.yy" of the items of each cell whose `y` is known."""
    terms = {"n": pl.lit(1.0), "x": x, "y": y, "xx": x * x, "xy": x * y, "yy": y * y}
    return {
        f"{cell}.{term}": pl.when(where & y.is_not_null()).then(value).otherwise(0.0)
        for cell, where in cells.items()
        for term, value in terms.items()
    }


def line_sums(s: Sums, cell: str) -> tuple[NDArray[np.float64], ...]:
    """n, sum x, sum y, sum xx, sum xy, sum yy of a cell made by `line_columns`."""
    return tuple(s[f"{cell}.{term}"] for term in ("n", "x", "y", "xx", "xy", "yy"))


def line_mean(s: Sums, cell: str) -> NDArray[np.float64]:
    """The mean of y in a cell; NaN where it is empty."""
    return stats.ratio(s[f"{cell}.y"], s[f"{cell}.n"])


def slope(s: Sums, cell: str, *, fewest: int, original: bool) -> NDArray[np.float64]:
    """Slope of the least-squares line y ~ a*x + b, a in [-1, 1], b in [0, 1]; NaN with fewer than `fewest` items.

    The original's optimiser stops short of the bounds by about 1e-6; the default is exact.
    """
    import numpy as np

    sums = line_sums(s, cell)
    found = stats.lsq_linear_slope(*sums) if original else stats.box_line_slope(*sums[:5])
    return np.where(sums[0] >= fewest, found, np.nan)
