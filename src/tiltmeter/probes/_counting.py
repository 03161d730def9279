"""Counts per item, and rates, means and slopes computed from their totals.

Functions of a DataFrame or an Expr are for `Probe.counts`, functions of Sums for `Probe.formulas`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import DataFrame, Expr, Float64, col, lit, when

from tiltmeter import stats
from tiltmeter.probes._definitions import ProbeDefinition
from tiltmeter.probes._metrics import Sums, Values

if TYPE_CHECKING:
    from tiltmeter._arrays import Floats


def crossed(items: DataFrame, **factor: Iterable[object]) -> DataFrame:
    """Repeat each item for each value of a factor, in the order of the values."""
    return items.join(
        DataFrame({name: list(values) for name, values in factor.items()}),
        how="cross",
        maintain_order="left_right",
    )


def per_item(attempts: DataFrame, sums: Mapping[str, Expr], *factors: str) -> DataFrame:
    """Return one row per item: the sum of each expression over its attempts, and the factors of the item.

    Null counts as 0.
    """
    totals = [value.cast(Float64).fill_null(0.0).sum().alias(name) for name, value in sums.items()]
    return attempts.group_by("item", maintain_order=True).agg(*totals, col(factors).first())


def label_sums(labels: Iterable[str], **by: Iterable[str | bool]) -> dict[str, Expr]:
    """Return sums for `per_item` that count each label.

    Parameters
    ----------
    labels
        The labels.
    **by
        Values of factors to count separately: `gender=("male", "female")` gives the columns "male:yes",
        "male:no", "female:yes", ...
    """
    return cells(**dict(reversed(by.items())), label=labels)


def cells(**factors: Iterable[Any]) -> dict[str, Expr]:
    """Return a condition for each combination of factor values, with a name such as "female:yes"."""
    conditions = {}
    for values in product(*factors.values()):
        name = ":".join(map(str, values))
        matches = [col(factor) == value for factor, value in zip(factors, values, strict=True)]
        conditions[name] = pl.all_horizontal(matches)
    return conditions


def share(part: str, *others: str) -> Expr:
    """Compute part / (part + others) from the counts of an item; null if the sum is 0."""
    total = pl.sum_horizontal(part, *others)
    return when(total > 0).then(col(part) / total)


def mean_columns(value: Expr, cells: Mapping[str, Expr]) -> dict[str, Expr]:
    """Return columns "sum_CELL" and "n_CELL" for the mean of `value` over the items of each cell.

    Their ratio is the mean; null is skipped.
    """
    has_value = value.is_not_null()
    sums = {f"sum_{cell}": when(where).then(value).fill_null(0.0) for cell, where in cells.items()}
    numbers = {
        f"n_{cell}": (where & has_value).fill_null(False).cast(Float64) for cell, where in cells.items()
    }
    return sums | numbers


def mean_of(s: Sums, cell: str) -> Floats:
    """Compute the mean over the items of a cell of `mean_columns`; NaN if the cell is empty."""
    return stats.ratio(s[f"sum_{cell}"], s[f"n_{cell}"])


def rate(s: Sums, part: str, *others: str) -> Floats:
    """Compute part / (part + others) from totals; NaN if the sum is 0."""
    return stats.ratio(s[part], sum(s[name] for name in (part, *others)))


def family(name: str, values: Mapping[Any, Floats]) -> Values:
    """Return the values of a family of metrics by key: its name and the value of the placeholder."""
    return {(name, placeholder): value for placeholder, value in values.items()}


def spread(rates: Iterable[Floats]) -> Floats:
    """Compute the largest absolute difference between two of the rates; NaN if any rate is NaN."""
    import numpy as np

    return np.asarray(np.ptp(np.stack(list(rates)), axis=0))


# -- slopes of a rate against a score ----------------------------------------------------------------------


def line_columns(y: Expr, x: Expr, cells: Mapping[str, Expr]) -> dict[str, Expr]:
    """Return the terms of a line through the items of each cell, without those whose `y` is null.

    The columns are "CELL.n", "CELL.x", "CELL.y", "CELL.xx", "CELL.xy" and "CELL.yy".
    """
    terms = {"n": lit(1.0), "x": x, "y": y, "xx": x * x, "xy": x * y, "yy": y * y}
    columns = {}
    for cell, where in cells.items():
        counts = where & y.is_not_null()
        for term, value in terms.items():
            columns[f"{cell}.{term}"] = when(counts).then(value).otherwise(0.0)
    return columns


def line_sums(s: Sums, cell: str) -> tuple[Floats, ...]:
    """Return n, sum x, sum y, sum xx, sum xy, sum yy of a cell of `line_columns`."""
    return tuple(s[f"{cell}.{term}"] for term in ("n", "x", "y", "xx", "xy", "yy"))


def line_mean(s: Sums, cell: str) -> Floats:
    """Compute the mean of y in a cell of `line_columns`; NaN if the cell is empty."""
    return stats.ratio(s[f"{cell}.y"], s[f"{cell}.n"])


def slope(s: Sums, cell: str, definition: ProbeDefinition, *, fewest: int) -> Floats:
    """Compute the slope of the least-squares line y ~ a*x + b, with a in [-1, 1] and b in [0, 1].

    It is NaN with fewer than `fewest` items. The published optimiser stops short of the bounds by about 1e-6;
    the default is exact.
    """
    import numpy as np

    sums = line_sums(s, cell)
    slopes = stats.box_line_slope(*sums[:5]) if definition.corrected else stats.lsq_linear_slope(*sums)
    return np.where(sums[0] >= fewest, slopes, np.nan)


def unbounded_slope(s: Sums, cell: str, *, fewest: int) -> Floats:
    """Compute the slope of the ordinary least-squares line; NaN with fewer than `fewest` items."""
    import numpy as np

    sums = line_sums(s, cell)
    return np.where(sums[0] >= fewest, stats.line_slope(*sums[:5]), np.nan)
