"""Two models compared on the same prompts of a benchmark: statistics of groups, and disparity over the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from tiltmeter import stats
from tiltmeter.benchmarks._design import BASELINES
from tiltmeter.benchmarks._findings import SHOWN, Column, wide_of
from tiltmeter.benchmarks._options import options_of
from tiltmeter.benchmarks.diagnosis import DEFAULT_STATISTICS, Options, find_statistics
from tiltmeter.benchmarks.diagnosis._compute import TABLE_CELLS, Design, Request, summaries
from tiltmeter.benchmarks.diagnosis._resampling import Bootstrap, Layout, Observed, Permutation, Plan
from tiltmeter.stats.disparity import COMPARISONS, Comparison, Spread, lifted_interval
from tiltmeter.stats.summary import standards
from tiltmeter.study import CONTRASTS, Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Index = NDArray[np.intp]

__all__ = ["contrast_of"]

HOW = "bootstrap of {}, the same ones on both sides, t interval; p also by exchanging the sides of roots"
LIFTED = "intervals of both sides, each corrected for the noise of a distance between groups; p by exchanging the sides of roots"
TABLES = 8
"""Tables of statistics held at once."""


class _Pair(NamedTuple):
    """Both sides as arrays of the same rows and columns."""

    sides: tuple[Design, Design]
    roots: Index
    request: Request


class _Exchange:
    """Rows of one side after the sides of each root have been exchanged at random; the second side's rows stand behind the first's."""

    gaps = False

    def __init__(self, pair: _Pair, size: int, side: int) -> None:
        codes, groups = pair.sides[0].codes, pair.sides[0].groups
        self.size, self._side, self._seed = size, side, pair.request.seed
        self._roots, self._rows = pair.roots, [np.nonzero(codes == group)[0] for group in range(groups)]

    def layout(self, first: int, last: int) -> Layout:
        """See Plan."""
        roots = int(self._roots.max()) + 1
        other = np.stack([np.random.default_rng([self._seed, 3, number]).integers(2, size=roots) for number in range(first, last)])
        place = np.arange(len(self._roots)) + len(self._roots) * (other[:, self._roots] ^ self._side)
        return [place[:, rows] for rows in self._rows]


def contrast_of(first: pl.DataFrame, second: pl.DataFrame, settings: Settings) -> pl.DataFrame | None:
    """CONTRASTS of the features, generations and prompts both sides have; None where fewer than two groups or roots are left.

    The same resample of roots is applied to both sides. A range over groups is lifted by noise, and so is its bootstrap: whether two such
    numbers differ is therefore also asked of exchanges of the two sides within roots, which lift both alike.
    """
    sides = _same_generations([measures.rename({"subject": "group"}) for measures in (first, second)])
    wide = [wide_of(side) for side in sides]
    known = {(one.generation, one.feature) for one in wide[1].columns}
    columns = [one for one in wide[0].columns if (one.generation, one.feature) in known and one.generation != BASELINES]
    keys = ["prompt_key", "group", "root"]
    rows = wide[0].table.join(wide[1].table, on=keys, how="semi", maintain_order="left").select(keys)
    if not columns or rows["group"].n_unique() < 2 or rows["root"].n_unique() < 2:
        return None
    names = rows["group"].unique().sort().to_list()
    unit = wide[0].unit
    options = options_of(settings)
    statistics = find_statistics(options.statistics or DEFAULT_STATISTICS)
    request = Request(
        statistics, Options(), options.definition == "saged", settings.level, settings.resamples, settings.resamples, settings.seed
    )
    widest = max(1, TABLE_CELLS // (TABLES * settings.resamples * len(names) * len(statistics)))
    made = []
    several = len({one.generation for one in wide[0].columns}) > 1
    for begin in range(0, len(columns), widest):
        chosen = columns[begin : begin + widest]
        designs = [_design(rows.join(one.table, on=keys, how="left", maintain_order="left"), chosen, unit) for one in wide]
        pair = _Pair((designs[0], designs[1]), _codes(rows["root"]), request)
        made.append(_contrasts(pair, chosen, names, several=several))
    units = "roots with all their branches" if unit else "prompts within each group"
    found = pl.concat(made).with_columns(concept=pl.lit(None), paired=pl.lit(True), how=pl.col("how").fill_null(HOW.format(units)))
    found = found.select(pl.col(name).cast(kind) for name, kind in CONTRASTS.items()).with_columns(pl.col(pl.Float64).fill_nan(None))
    return found.filter(pl.col("difference").is_not_null())


def _same_generations(sides: list[pl.DataFrame]) -> list[pl.DataFrame]:
    """Sides that were asked in other templates are compared role by role."""
    named = [set(side["generation"].unique()) for side in sides]
    if named[0] & named[1]:
        return sides
    return [side.with_columns(generation="role") for side in sides]


def _codes(column: pl.Series) -> Index:
    return column.rank("dense").to_numpy().astype(np.intp) - 1


def _design(table: pl.DataFrame, columns: list[Column], unit: str | None) -> Design:
    bases = list(dict.fromkeys(one.baseline for one in columns if one.baseline))
    return Design(
        values=_matrix(table, [one.name for one in columns]),
        baseline_of=np.array([bases.index(one.baseline) if one.baseline else -1 for one in columns], dtype=np.intp),
        baselines=_matrix(table, bases),
        codes=_codes(table["group"]),
        groups=table["group"].n_unique(),
        units=None if unit is None else _codes(table[unit]),
    )


def _matrix(table: pl.DataFrame, columns: list[str]) -> Floats:
    if not columns:
        return np.empty((0, table.height))
    values = table.select(pl.col(columns).cast(pl.Float64)).to_numpy().T
    return np.ascontiguousarray(np.where(np.isfinite(values), values, np.nan), dtype=np.float64)


def _tables(pair: _Pair) -> tuple[tuple[Floats, Floats], ...]:
    """Observed, resampled, exchanged and (labels of groups) permuted statistics (S, C, G, R) of both sides."""
    first, second = pair.sides
    request, size = pair.request, pair.request.resamples
    limits = [standards(side.values, request.options, request.original) for side in pair.sides]
    drawn: Plan = Bootstrap(first.codes, first.groups, first.units, size, request.seed)
    still: Plan = Observed(first.codes, first.groups)
    both = first._replace(
        values=np.concatenate([first.values, second.values], axis=1),
        baselines=np.concatenate([first.baselines, second.baselines], axis=1),
    )

    def twice(plan: Plan) -> tuple[Floats, Floats]:
        return summaries(first, request, plan, limits[0]), summaries(second, request, plan, limits[1])

    exchanged = tuple(summaries(both, request, _Exchange(pair, size, side), limits[side]) for side in (0, 1))
    permuted: Plan = Permutation(first.codes, first.groups, first.units, size, request.seed)
    return twice(still), twice(drawn), (exchanged[0], exchanged[1]), twice(permuted)


def _contrasts(pair: _Pair, columns: list[Column], names: list[str], *, several: bool) -> pl.DataFrame:
    level = pair.request.level
    with np.errstate(all="ignore"):
        tables = _tables(pair)
        rows = ~np.isnan(pair.sides[0].values + pair.sides[1].values)
        held = np.stack([rows[:, pair.sides[0].codes == group].sum(axis=1) for group in range(len(names))], axis=-1)
        roots = int(pair.roots.max()) + 1
        made: list[pl.DataFrame] = []
        for s, (name, statistic) in enumerate(pair.request.statistics.items()):
            reach = 1.0 if statistic.share else np.inf
            gaps = [after[s] - before[s] for before, after in tables[:3]]
            made += [
                _frame(
                    [f"{name}_{one.feature}" for one in columns],
                    columns,
                    several,
                    gaps[0][:, g, 0],
                    stats.paired_difference(gaps[0][:, g, 0], gaps[1][:, g], gaps[2][:, g], units=held[:, g], reach=reach, level=level),
                    held[:, g],
                    subject,
                )
                for g, subject in enumerate(names)
            ]
            spreads = [[Spread(np.moveaxis(side[s], -2, -1), pair.request.original) for side in part] for part in tables]
            for comparison in SHOWN:
                entry = COMPARISONS[comparison]
                values = [[entry.compute(side) for side in part] for part in spreads]
                gaps = [after - before for before, after in values[:3]]
                bound = 1.0 if comparison == "ratio" or (comparison == "range" and statistic.share) else np.inf
                if entry.none is None:
                    found = stats.paired_difference(gaps[0][:, 0], gaps[1], gaps[2], units=roots, reach=bound, level=level)
                else:
                    found = _lifted(entry, values, gaps, bound, level)
                labels = [f"{comparison}_{name}_{one.feature}" for one in columns]
                how = None if entry.none is None else LIFTED
                made.append(_frame(labels, columns, several, gaps[0][:, 0], found, np.full(len(columns), roots), None, how))
    return pl.concat(made)


def _lifted(entry: Comparison, values: list[list[Floats]], gaps: list[Floats], bound: float, level: float) -> stats.PairedDifference:
    """The difference of two distances that noise lifts, from the interval of either, which knows of it."""
    assert entry.none is not None
    sign, estimates, ends = entry.extreme, [], []
    for side in (0, 1):
        away = [sign * (table[side] - entry.none) for table in (values[0], values[1], values[3])]
        low, high = lifted_interval(away[0][:, 0], away[1], away[2], level)
        estimates.append(away[0][:, 0])
        ends.append((low, high))
    lows, highs = (np.stack(one, axis=-1) for one in zip(*ends, strict=True))
    found = stats.independent_difference(np.stack(estimates, axis=-1), lows, highs, level)
    gap = sign * gaps[0][:, 0]
    found = stats.exchange_difference(gap, found, gap, sign * gaps[2], level)
    low, high = np.maximum(found.low, -bound), np.minimum(found.high, bound)
    return stats.PairedDifference(low, high, found.p) if sign > 0 else stats.PairedDifference(-high, -low, found.p)


def _frame(
    metrics: list[str],
    columns: list[Column],
    several: bool,
    difference: Floats,
    found: stats.PairedDifference,
    n: NDArray[Any],
    subject: str | None,
    how: str | None = None,
) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "metric": metrics,
            "subject": pl.Series([subject] * len(columns), dtype=pl.String),
            "context": pl.Series([one.generation if several else None for one in columns], dtype=pl.String),
            "difference": difference,
            **found._asdict(),
            "n": n,
            "how": pl.Series([how] * len(columns), dtype=pl.String),
        }
    )
