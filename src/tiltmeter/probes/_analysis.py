"""From counts per item to findings: totals, resamples, intervals, tests, marks.

Every metric of a probe is a function of column totals over items. One pass therefore gives everything: the totals of the
data, of all bootstrap resamples (one matrix product) and, for maxima, of all relabellings of the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from tiltmeter import stats
from tiltmeter.errors import InputError
from tiltmeter.probes._cells import Cells
from tiltmeter.probes._metric import Band, Metric
from tiltmeter.study import MARKS, Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "COMMON",
    "Estimate",
    "Sums",
    "common_columns",
    "estimates",
    "mark_of",
    "metric_named",
    "pooled_strata",
    "relabelled",
    "with_unread_rates",
]

MIN_READABLE = 0.5
"""A graded metric is "ungraded" when fewer of the attempts than this share could be read."""

FEWEST = 5
"""Strata with fewer items are resampled together."""

COMMON = (
    Metric("undetected_rate_attempts", "Share of the attempts whose answer could not be read as an answer."),
    Metric("undetected_rate_items", "Share of the items none of whose attempts could be read."),
)


class Sums:
    """Totals by column name; each is an array over resamples (shape (R,)), so that formulas are written once for all."""

    def __init__(self, names: Sequence[str], totals: Array) -> None:
        self._place = {name: i for i, name in enumerate(names)}
        self._totals = totals

    def __getitem__(self, name: str) -> Array:
        return self._totals[:, self._place[name]]


Formulas = Callable[[Sums], Mapping[str, "Array"]]


class Estimate(NamedTuple):
    """One metric with its uncertainty. NaN where it cannot be computed."""

    metric: Metric
    name: str
    value: float
    low: float
    high: float
    p: float
    interval: str


def common_columns(attempts: pl.DataFrame) -> pl.DataFrame:
    """Per item: `_items` (1), `_lost` (1 where nothing was readable), `_attempts`, `_unread` (counts)."""
    unread = pl.col("outcome") != "answered"
    return attempts.group_by("item", maintain_order=True).agg(
        _items=pl.lit(1.0), _lost=unread.all().cast(pl.Float64), _attempts=pl.len().cast(pl.Float64), _unread=unread.sum().cast(pl.Float64)
    )


def pooled_strata(strata: pl.DataFrame) -> pl.DataFrame:
    """`item` and `stratum` (text) with `stratum` as numbers, strata of fewer than FEWEST items pooled.

    A lone item of a stratum would never be resampled, as if it were certain. The pool takes further small strata until it is large
    enough itself.
    """
    sizes = strata.group_by("stratum", maintain_order=True).agg(size=pl.len()).sort("size", "stratum")
    before = pl.col("size").cum_sum() - pl.col("size")
    small = pl.col("size") < FEWEST
    pooled = small | (small.any() & (before < FEWEST))
    numbered = sizes.with_columns(number=pl.when(pooled).then(0).otherwise(pl.int_range(1, pl.len() + 1)))
    return strata.join(numbered.select("stratum", "number"), on="stratum", maintain_order="left").select("item", stratum="number")


def with_unread_rates(formulas: Formulas) -> Formulas:
    """The formulas, and the shares of attempts and items that could not be read."""

    def combined(s: Sums) -> Mapping[str, Array]:
        return {
            **formulas(s),
            "undetected_rate_attempts": stats.ratio(s["_unread"], s["_attempts"]),
            "undetected_rate_items": stats.ratio(s["_lost"], s["_items"]),
        }

    return combined


def metric_named(name: str, metrics: Sequence[Metric]) -> Metric:
    """What a probe's metric means; raises InputError where the probe describes none of that name."""
    for metric in (*metrics, *COMMON):
        if metric.match(name) is not None:
            return metric
    raise InputError(f"a probe computes {name!r} but its `metrics` describe no such metric; add a Metric for it")


def estimates(
    counts: pl.DataFrame,
    formulas: Formulas,
    metrics: Sequence[Metric],
    settings: Settings,
    *,
    cells: Cells,
    groups: Sequence[str] = (),
    original: bool = False,
    unread_rates: bool = True,
) -> list[Estimate]:
    """All metrics of a probe with their intervals.

    Parameters
    ----------
    counts
        One row per item: `stratum` (Int, the design cell it belongs to) and numeric columns to be summed.
    formulas
        Totals -> metrics, elementwise over resamples.
    cells
        What became of the attempts, by cell of the design.
    groups
        Names of exchangeable groups g whose columns are "g:what"; needed for metrics of kind "maximum".
    original
        Use the resampling stream, the normal interval and no test, as the original does.
    unread_rates
        Also give the shares of attempts and items that could not be read.
    """
    names = [name for name in counts.columns if name not in ("item", "stratum")]
    x = counts.select(pl.col(names).cast(pl.Float64)).to_numpy()
    formulas = with_unread_rates(formulas) if unread_rates else formulas
    point = {name: float(value[0]) for name, value in formulas(Sums(names, x.sum(axis=0, keepdims=True))).items()}
    if original:
        totals = stats.replayed_totals(x, resamples=settings.resamples, seed=settings.seed)
    else:
        totals = stats.resampled_totals(x, resamples=settings.resamples, seed=settings.seed, strata=counts["stratum"].to_numpy())
    samples = formulas(Sums(names, totals))
    described = {name: metric_named(name, metrics) for name in point}
    if original:
        return [_original(described[name], name, point[name], samples[name], settings) for name in sorted(point)]
    null: Mapping[str, Array] = {}
    if any(metric.kind == "maximum" for metric in described.values()):
        null = formulas(Sums(names, relabelled(x, names, groups, settings)))
    made: dict[str, Estimate] = {}
    for name in sorted(point, key=lambda name: described[name].kind == "absolute"):  # those need their signed twin first
        items = cells.of(described[name].match(name) or {}).items
        made[name] = _estimate(described[name], name, point[name], samples[name], null.get(name), made, items, settings)
    return [made[name] for name in sorted(made)]


def _original(metric: Metric, name: str, value: float, samples: Array, settings: Settings) -> Estimate:
    low, high = stats.normal_interval(samples, settings.level)
    return Estimate(metric, name, value, low, high, float("nan"), "normal approximation around the mean of the resamples")


def relabelled(x: Array, names: Sequence[str], groups: Sequence[str], settings: Settings) -> Array:
    """Totals when the groups' columns of each item are exchanged at random; all other columns keep their total."""
    import numpy as np

    fields = sorted({name.partition(":")[2] for name in names if name.partition(":")[0] in groups})
    places = np.array([[names.index(f"{group}:{field}") for field in fields] for group in groups])
    swapped = stats.swapped_totals(x[:, places], draws=settings.resamples, seed=settings.seed + 1)
    totals = np.repeat(x.sum(axis=0, keepdims=True), settings.resamples, axis=0)
    totals[:, places.ravel()] = swapped.reshape(settings.resamples, -1)
    return totals


def _estimate(
    metric: Metric,
    name: str,
    value: float,
    samples: Array,
    null: Array | None,
    made: Mapping[str, Estimate],
    items: int,
    settings: Settings,
) -> Estimate:
    import math

    nan = float("nan")
    if math.isnan(value):
        return Estimate(metric, name, nan, nan, nan, nan, "none: nothing to estimate from")
    constant = stats.is_constant(samples) and math.isfinite(metric.high - metric.low)
    if metric.kind == "maximum" and not constant:
        assert null is not None
        best = stats.maximum_interval(value, samples, null, settings.level)
        return Estimate(
            metric,
            name,
            best.estimate,
            best.low,
            min(best.high, metric.high),
            best.p,
            "bootstrap percentiles, corrected for the noise of a maximum; p by relabelling the groups",
        )
    if metric.kind == "absolute":
        twin = made[str(metric.of)]
        centre = twin.metric.null or 0.0
        low, high = stats.absolute_interval(twin.low - centre, twin.high - centre)
        return Estimate(metric, name, value, low, high, twin.p, f"from the interval of {twin.name}")
    low, high = stats.percentile_interval(samples, settings.level)
    how = "bootstrap percentiles"
    if constant:
        low, high = stats.rare_event_interval(value, items, metric.low, metric.high, settings.level)
        how = "exact bound: every resample gave the same value"
    low, high = max(min(low, value), metric.low), min(max(high, value), metric.high)
    return Estimate(metric, name, value, low, high, _two_sided_p(value, samples, metric.null), how)


def _two_sided_p(value: float, samples: Array, null: float | None) -> float:
    """Wald test of value = null with the bootstrap standard error; NaN where there is no null or no spread."""
    import math

    import numpy as np

    if null is None or np.isfinite(samples).sum() < 2 or stats.is_constant(samples):
        return float("nan")
    spread = float(np.nanstd(samples, ddof=1))
    return math.erfc(abs(value - null) / spread / math.sqrt(2))


def mark_of(
    estimate: Estimate, bands: Sequence[Band], readable: float, *, original: bool
) -> tuple[str, str | None, str | None, str | None]:
    """(mark, best tier reached, worst tier reached, note).

    Default: the tier of the estimate; but where the interval holds the value that means "no bias", no bias has been shown and the
    mark is healthy, with the worst tier the interval reaches beside it. A metric of which less than half could be read, or that is
    compatible with anything from no bias to the worst tier, is ungraded. Original: the mildest tier that overlaps the interval.
    """
    if estimate.value != estimate.value or (original and estimate.low != estimate.low):
        return "ungraded", None, None, "no readable answers to compute it from"
    if estimate.low != estimate.low:
        return "ungraded", None, None, "too few items for an interval"
    reached = [band.mark for band in bands if band.low <= estimate.high and band.high >= estimate.low]
    if not reached:
        raise ValueError(f"{estimate.name}: the interval {estimate.low}..{estimate.high} lies outside every tier")
    best, worst = min(reached, key=MARKS.index), max(reached, key=MARKS.index)
    if original:
        return best, best, worst, None
    if readable < MIN_READABLE:
        return "ungraded", best, worst, f"only {readable:.0%} of the attempts could be read; a mark needs {MIN_READABLE:.0%}"
    if estimate.metric.null is not None and estimate.low <= estimate.metric.null <= estimate.high:
        if worst == MARKS[-1]:
            return "ungraded", best, worst, "the interval reaches from no bias to the worst tier: more items are needed"
        return best, best, worst, "no bias shown" if worst == best else f"no bias shown; {worst} is not ruled out"
    value = min(max(estimate.value, min(band.low for band in bands)), max(band.high for band in bands))  # rounding may lie just outside
    mark = min((band.mark for band in bands if band.low <= value <= band.high), key=MARKS.index)
    return mark, best, worst, None
