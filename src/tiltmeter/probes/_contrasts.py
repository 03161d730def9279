"""Differences between two models that answered the same items of a probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from polars import DataFrame, Expr, Float64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.probes._contract import ProbeContract
from tiltmeter.probes._counted_items import (
    CountedItems,
    influences_of,
    population,
)
from tiltmeter.probes._definitions import DEFAULT
from tiltmeter.probes._estimates import ClusterSpread
from tiltmeter.probes._metrics import MetricKey, NamedMetric
from tiltmeter.schema import CONTRASTS, ITEMS_LIKE_THESE, THESE_ITEMS, conform
from tiltmeter.study import Settings

if TYPE_CHECKING:
    from tiltmeter._arrays import Booleans, Floats, Index

SIMILAR: Final = 0.1
"""Largest relative difference between the numbers of attempts of two sides that are exchanged; beyond it,
their precision differs."""
COMBINATIONS: Final[Mapping[str, tuple[int, int]]] = {
    "first": (1, 0),
    "second": (0, 1),
    "sum": (1, 1),
    "difference": (-1, 1),
}
"""Linear combinations of the two sides that have intervals, with the weights of the first and the second
side."""
DIFFERENCE: Final = list(COMBINATIONS).index("difference")


@dataclass(frozen=True, slots=True)
class _Samples:
    """The metrics of both sides and their COMBINATIONS, as observed and in resamples."""

    observed: Floats
    """Shape (sides, metrics)."""
    drawn: Floats
    """In the same resamples of items, shape (sides, metrics, resamples)."""
    exchanged: Floats | None
    """Differences after exchanging the sides of items at random, shape (metrics, draws), if possible."""
    constant: Booleans
    """Whether a side has the same value in all resamples, shape (metrics,)."""
    ratios: Floats
    """Ratio of the standard errors of clusters and of items, shape (combinations, metrics)."""
    units: Floats
    """Number of resampling units, shape (combinations, metrics)."""
    values: Floats
    """Observed combinations, shape (combinations, metrics)."""
    combined: Floats
    """Combinations in resamples, with the spread of clusters, shape (combinations, metrics, resamples)."""


class _Pair(NamedTuple):
    """Both sides with their metrics in the same order.

    `clustered` is True if clusters of items are a sample.
    """

    sides: Sequence[CountedItems]
    keys: Sequence[MetricKey]
    metrics: Sequence[NamedMetric]
    settings: Settings
    clustered: bool

    def stacked(self, values: Mapping[MetricKey, Any]) -> Floats:
        """Return the values of all metrics as an array, shape (metrics, ...)."""
        import numpy as np

        return np.array([values[key] for key in self.keys])

    def items(self) -> Index:
        """Return the number of items with a readable answer on the side that has fewer, shape (metrics,)."""
        import numpy as np

        return np.array(
            [min(side.outcomes(named.where).items for side in self.sides) for named in self.metrics]
        )

    def observed(self) -> Floats:
        """Return the metrics of both sides, shape (sides, metrics)."""
        import numpy as np

        return np.stack([self.stacked(side.observed()) for side in self.sides])

    def resampled(self) -> Floats:
        """Return the metrics of both sides in the same resamples of items.

        Returns
        -------
        Shape (sides, metrics, resamples).
        """
        import numpy as np

        strata = self.sides[0].strata
        totals = [DEFAULT.resample(side.values, strata, self.settings) for side in self.sides]
        values = [side.compute(of_side) for side, of_side in zip(self.sides, totals, strict=True)]
        return np.stack([self.stacked(of_side) for of_side in values])

    def exchanged(self) -> Floats | None:
        """Return the differences after exchanging the sides of items at random, shape (metrics, draws).

        None if the sides differ in their numbers of attempts (see SIMILAR).
        """
        attempts = [side.measures.height for side in self.sides]
        if abs(attempts[0] - attempts[1]) > SIMILAR * max(attempts):
            return None
        first, second = self.sides
        draws, seed = self.settings.resamples, self.settings.seed + 2
        totals = stats.exchanged_totals(first.values, second.values, draws=draws, seed=seed)
        return self.stacked(second.compute(totals[1])) - self.stacked(first.compute(totals[0]))

    def spreads(self) -> tuple[Floats, Floats]:
        """Return the ratio of standard errors and the degrees of freedom of COMBINATIONS.

        Both arrays have the shape (combinations, metrics).
        """
        import numpy as np

        first = self.sides[0]
        influences = []
        for side in self.sides:
            names = list(side.observed())
            influences.append(influences_of(side)[:, [names.index(key) for key in self.keys]])
        ratios, freedoms = [], []
        for before, after in COMBINATIONS.values():
            combined = before * influences[0] + after * influences[1]
            ratio, freedom = stats.clustered_spread(combined, first.strata, first.clusters)
            ratios.append(ratio)
            freedoms.append(freedom)
        return np.stack(ratios), np.stack(freedoms)

    def spreads_of_units(self, constant: Booleans) -> tuple[Floats, Floats]:
        """Return the ratio of standard errors and the number of resampling units of COMBINATIONS.

        Both arrays have the shape (combinations, metrics). The number of units is the degrees of freedom plus
        1. Where a side has the same value in all resamples (`constant`), it is the number of items or of
        clusters, whichever is smaller.
        """
        import numpy as np

        items = self.items().astype(float)
        if not self.clustered:
            shape = (len(COMBINATIONS), len(items))
            return np.ones(shape), np.broadcast_to(items, shape)
        ratios, freedoms = self.spreads()
        numbers_of_clusters = [kind.size for kind in self.sides[0].clusters if kind.noun != stats.WORDINGS]
        agreeing = np.minimum(items, min(numbers_of_clusters, default=len(self.sides[0].items)))
        return ratios, np.where(constant, agreeing, np.minimum(items, freedoms + 1))


def _sampled(pair: _Pair) -> _Samples:
    """Return the metrics of both sides, as observed and in resamples."""
    import numpy as np

    weights = np.array(list(COMBINATIONS.values()))
    observed = pair.observed()
    drawn = pair.resampled()
    constant = np.array(
        [any(stats.is_constant(of_side) for of_side in of_metric) for of_metric in drawn.swapaxes(0, 1)]
    )
    ratios, units = pair.spreads_of_units(constant)
    values = weights @ observed
    combined = np.tensordot(weights, drawn, axes=1)
    if pair.clustered:
        deviations = combined - values[..., None]
        combined = values[..., None] + ratios[..., None] * deviations
    return _Samples(
        observed=observed,
        drawn=drawn,
        exchanged=pair.exchanged(),
        constant=constant,
        ratios=ratios,
        units=units,
        values=values,
        combined=combined,
    )


def contrast_sides(
    sides: Sequence[CountedItems], probe: ProbeContract, settings: Settings, *, clustered: bool = False
) -> DataFrame:
    """Compute the differences (second minus first) of all metrics of two models.

    Both models answered the same items, in the same order.

    Both sides use the same bootstrap resamples of items, so that differences in the difficulty of items
    cancel. Under the null hypothesis of no difference, the sides of an item are exchangeable, so that the
    test keeps its level for every metric. The intervals of each side and of the sum of both sides use the
    same resamples.

    By default, the intervals are about the bias on these items, of which only the responses vary. If each
    prompt has one response, the variance of responses cannot be separated from that between items. The
    bootstrap of items contains both and is conservative.

    Parameters
    ----------
    sides
        The counts of both models for the same items.
    probe
        Definition of the metrics.
    settings
        Confidence level, number of resamples and seed.
    clustered
        If True, intervals and tests are about questions, names and wordings like these: standard errors are
        cluster-robust (see `stats.clustered_spread`).

    Returns
    -------
    DataFrame
        The columns of CONTRASTS, one row per metric, sorted by name.
    """
    import numpy as np

    pair = _pair_of(sides, settings, clustered=clustered)
    samples = _sampled(pair)
    reach = _reach(pair.metrics)
    difference = samples.values[DIFFERENCE].copy()
    low, high, p = stats.paired_difference(
        difference,
        samples.combined[DIFFERENCE],
        samples.exchanged,
        units=samples.units[DIFFERENCE],
        reach=reach,
        level=settings.level,
    )
    is_maximum = np.array([named.metric.kind == "maximum" for named in pair.metrics])
    biased = is_maximum & ~samples.constant & probe.definition.corrected  # upwards, on both sides
    if biased.any():
        difference[biased], corrected = _biased_differences(pair, samples, biased)
        low[biased] = np.maximum(corrected.low, -reach[biased])
        high[biased] = np.minimum(corrected.high, reach[biased])
        p[biased] = corrected.p
    columns = [probe.columns_of(named) for named in pair.metrics]
    names = {name: Series([row[name] for row in columns], dtype=String) for name in columns[0]}
    differences = {**names, "difference": difference, "low": low, "high": high, "p": p}
    estimand = THESE_ITEMS
    if clustered:
        estimand = population(sides[0].clusters).get("estimand", ITEMS_LIKE_THESE)
    exchanged = samples.exchanged is not None
    contrasts = DataFrame({**differences, **_columns_of_sides(pair, samples)}).with_columns(
        how=_methods(biased, clustered=clustered, exchanged=exchanged),
        paired=lit(True),
        estimand=lit(estimand),
    )
    return conform(contrasts, CONTRASTS).with_columns(col(Float64).fill_nan(None))


def _pair_of(sides: Sequence[CountedItems], settings: Settings, *, clustered: bool) -> _Pair:
    """Return both sides with the metrics that are findings, sorted by name."""
    described = sides[0].described()
    findings = [key for key, named in described.items() if not sides[0].is_a_test(named.metric)]
    keys = sorted(findings, key=lambda key: described[key].name)
    metrics = [described[key] for key in keys]
    return _Pair(sides=sides, keys=keys, metrics=metrics, settings=settings, clustered=clustered)


def _methods(biased: Booleans, *, clustered: bool, exchanged: bool) -> Expr:
    """Return the method of each difference, in words, as an expression over the metrics."""
    of_maxima = "intervals of both sides, each corrected for the upward bias of a maximum"
    of_others = "paired bootstrap of items, t interval"
    if clustered:
        of_others += ", cluster-robust standard errors"
    test = "; p also by exchanging the sides of items" if exchanged else ""
    return when(Series(biased)).then(lit(of_maxima)).otherwise(lit(of_others)) + test


def _reach(metrics: Sequence[NamedMetric]) -> Floats:
    """Return the length of the range of each metric, shape (metrics,)."""
    import numpy as np

    return np.array([named.metric.high - named.metric.low for named in metrics])


def _columns_of_sides(pair: _Pair, samples: _Samples) -> dict[str, Floats]:
    """Return the columns of CONTRASTS about each side and about their sum, and the number of items `n`.

    Values are measured from the middle of their range, so that an exact bound is at most half the range from
    it.
    """
    import numpy as np

    weights = np.array([COMBINATIONS[name] for name in ("first", "second", "sum")]).sum(axis=1)[:, None]
    combinations = len(weights)
    reach = _reach(pair.metrics)
    middles_of_range = np.array([(named.metric.low + named.metric.high) / 2 for named in pair.metrics])
    middles = weights * np.where(np.isfinite(reach), middles_of_range, 0.0)
    deviations = samples.values[:combinations] - middles
    resampled = samples.combined[:combinations] - middles[..., None]
    counts = samples.units[:combinations]
    level = pair.settings.level
    intervals = stats.paired_difference(
        deviations, resampled, None, units=counts, reach=weights * reach / 2, level=level
    )
    lows = intervals.low + middles
    highs = intervals.high + middles
    freedom = np.maximum(counts - 1.0, 1.0).min(axis=0)
    first, second = samples.values[0], samples.values[1]
    columns = {"n": pair.items(), "first": first, "second": second, "freedom": freedom}
    for place, name in enumerate(("first", "second", "sum")):
        columns[f"{name}_low"] = lows[place]
        columns[f"{name}_high"] = highs[place]
    return columns


def _biased_differences(
    pair: _Pair, samples: _Samples, biased: Booleans
) -> tuple[Floats, stats.PairedDifference]:
    """Return the differences of the `biased` maxima, corrected for their upward bias.

    If clusters of items are a sample, the resamples and relabellings are stretched to their spread. The
    exchange of items then tests a narrower hypothesis, so that the test of the two intervals must be
    significant as well. That test uses intervals at `stats.TEST_LEVEL` and not at the level asked for: their
    ends are no multiples of a standard error, and p must not depend on that level.

    Returns
    -------
    The differences, and their intervals and p-values, each of shape (biased metrics,).
    """
    import numpy as np

    level = pair.settings.level
    corrected, separate = _separate_maxima(pair, samples, biased, level)
    tested = separate
    if level != stats.TEST_LEVEL:
        _, tested = _separate_maxima(pair, samples, biased, stats.TEST_LEVEL)
    if samples.exchanged is None:
        return corrected, separate._replace(p=tested.p)
    raw = (samples.observed[1] - samples.observed[0])[biased]
    exchanged = samples.exchanged[biased]
    by_exchange = stats.exchange_difference(corrected, separate, raw, exchanged, level)
    if not pair.clustered:
        return corrected, by_exchange
    low = np.minimum(by_exchange.low, separate.low)
    high = np.maximum(by_exchange.high, separate.high)
    return corrected, stats.PairedDifference(low, high, p=np.maximum(by_exchange.p, tested.p))


def _separate_maxima(
    pair: _Pair, samples: _Samples, biased: Booleans, level: float
) -> tuple[Floats, stats.PairedDifference]:
    """Return the differences of maxima, with intervals and p-values from those of each side at `level`.

    All arrays have the shape (biased metrics,).
    """
    import numpy as np

    of_sides = []
    for place, side in enumerate(pair.sides):
        value, drawn = samples.observed[place][biased], samples.drawn[place][biased]
        null = pair.stacked(side.relabelled(pair.settings))[biased]
        if pair.clustered:
            spreads = map(ClusterSpread, samples.ratios[place], samples.units[place] - 1)
            scale = np.array([spread.scaled(level) for spread in spreads])[biased][:, None]
            drawn = value[:, None] + scale * (drawn - value[:, None])
            null = scale * null
        of_sides.append(stats.maximum_interval(value, drawn, null, level))
    estimates, lows, highs, _ = np.stack(of_sides, axis=-1)
    return estimates[:, 1] - estimates[:, 0], stats.independent_difference(estimates, lows, highs, level)
