"""Differences between two models that answered the same items of a probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from polars import DataFrame, Float64, Series, col, lit, when

from tiltmeter import stats
from tiltmeter.probes.analysis import WORDINGS, CountedItems, clustered_spread, influences_of, population
from tiltmeter.probes.metric import DEFAULT, MetricKey, NamedMetric, ProbeDefinition, Spread
from tiltmeter.study import CONTRASTS, Settings, conform

if TYPE_CHECKING:
    import numpy as np

    from tiltmeter.arrays import Floats

SIMILAR = 0.1
"""Largest relative difference between the numbers of attempts of two sides that are exchanged; beyond it, their precision differs."""
THESE = "these items"
"""The `estimand` of differences on the items of both runs."""
COMBINATIONS: Mapping[str, tuple[int, int]] = {"first": (1, 0), "second": (0, 1), "sum": (1, 1), "difference": (-1, 1)}
"""Linear combinations of the two sides that have intervals, with the weights of the first and the second side."""


class _Pair(NamedTuple):
    """Both sides with their metrics in the same order."""

    sides: Sequence[CountedItems]
    keys: Sequence[MetricKey]
    metrics: Sequence[NamedMetric]
    settings: Settings

    def stacked(self, values: Mapping[MetricKey, Any]) -> Floats:
        """Return the values of all metrics as an array, shape (metrics, ...)."""
        import numpy as np

        return np.array([values[key] for key in self.keys])

    def exchanged(self) -> Floats | None:
        """Return the differences after exchanging the sides of items at random, shape (metrics, draws); None if the sides are not similar."""
        attempts = [side.measures.height for side in self.sides]
        if abs(attempts[0] - attempts[1]) > SIMILAR * max(attempts):
            return None
        first, second = self.sides
        totals = stats.exchanged_totals(first.values, second.values, draws=self.settings.resamples, seed=self.settings.seed + 2)
        moved = [self.stacked(side.compute(one)) for side, one in zip(self.sides, totals, strict=True)]
        return moved[1] - moved[0]

    def spreads(self) -> tuple[Floats, Floats]:
        """Return the ratio of standard errors and the degrees of freedom of COMBINATIONS, two arrays of shape (combinations, metrics)."""
        import numpy as np

        first = self.sides[0]
        columns = [list(side.observed()) for side in self.sides]
        influences = [
            influences_of(side)[:, [names.index(key) for key in self.keys]] for side, names in zip(self.sides, columns, strict=True)
        ]
        spreads = [
            clustered_spread(before * influences[0] + after * influences[1], first.strata, first.clusters)
            for before, after in COMBINATIONS.values()
        ]
        ratios, freedoms = zip(*spreads, strict=True)
        return np.stack(ratios), np.stack(freedoms)


def contrast_sides(
    sides: Sequence[CountedItems], definition: ProbeDefinition, settings: Settings, *, of_population: bool = False
) -> DataFrame:
    """Compute CONTRASTS (second minus first) of all metrics of two models that answered the same items, in the same order.

    Both sides use the same bootstrap resamples of items, so that differences in the difficulty of items cancel. Under the null hypothesis
    of no difference, the sides of an item are exchangeable, so that the test keeps its level for every metric. The intervals of each side
    and of the sum of both sides use the same resamples.

    Without `of_population`, the intervals are about the bias on these items, and only the responses vary. If each prompt has one response,
    the variance of responses cannot be separated from that between items. The bootstrap of items contains both and is conservative.
    With `of_population`, standard errors are cluster-robust: questions, names and wordings are samples (see `analysis.clustered_spread`).

    Parameters
    ----------
    sides
        The counts of both models for the same items.
    definition
        Definition of the metrics.
    settings
        Confidence level, number of resamples and seed.
    of_population
        Whether intervals and tests are about questions, names and wordings like these.

    Returns
    -------
    DataFrame
        The columns of CONTRASTS, one row per metric, sorted by name.
    """
    import numpy as np

    described = sides[0].described()
    keys = sorted(described, key=lambda key: described[key].name)
    metrics = [described[key] for key in keys]
    pair = _Pair(sides, keys, metrics, settings)
    weights = np.array(list(COMBINATIONS.values()))
    observed = np.stack([pair.stacked(side.observed()) for side in sides])
    drawn = np.stack([pair.stacked(side.compute(DEFAULT.resample(side.values, sides[0].strata, settings))) for side in sides])
    values, samples = weights @ observed, np.tensordot(weights, drawn, axes=1)  # shapes (combinations, metrics[, resamples])
    constant = np.array([[stats.is_constant(one) for one in side] for side in drawn]).any(axis=0)
    items = np.array([min(side.outcomes(named.where).items for side in sides) for named in metrics])
    ratios, units = np.ones(values.shape), np.broadcast_to(items, values.shape)
    if of_population:
        ratios, freedoms = pair.spreads()
        sampled = [one.size for one in sides[0].clusters if one.noun != WORDINGS]
        agreeing = np.minimum(items, min(sampled, default=len(sides[0].items)))
        units = np.where(constant, agreeing, np.minimum(items, freedoms + 1))
        samples = values[..., None] + ratios[..., None] * (samples - values[..., None])
    reach = np.array([named.metric.high - named.metric.low for named in metrics])
    middle = np.where(np.isfinite(reach), [(named.metric.high + named.metric.low) / 2 for named in metrics], 0.0)
    centres = weights.sum(axis=1)[:, None] * middle
    reaches = np.abs(weights).sum(axis=1)[:, None] * reach / 2
    exchanged = pair.exchanged()
    # The first three combinations have intervals without an exchange test; their values are measured from the middle of their range.
    alone = stats.paired_difference(
        (values - centres)[:-1],
        (samples - centres[..., None])[:-1],
        None,
        units=units[:-1],
        reach=reaches[:-1],
        level=settings.level,
    )
    lows, highs = alone.low + centres[:-1], alone.high + centres[:-1]
    difference = values[-1].copy()
    low, high, p = stats.paired_difference(difference, samples[-1], exchanged, units=units[-1], reach=reach, level=settings.level)
    maximum = np.array([definition.corrected and named.metric.kind == "maximum" for named in metrics])
    lifted = maximum & ~constant  # biased upwards on both sides
    if lifted.any():
        spreads = None if not of_population else [[Spread(*one) for one in zip(ratios[i], freedoms[i], strict=True)] for i in (0, 1)]
        corrected, better = _lifted(pair, observed, drawn, exchanged, lifted, spreads)
        difference[lifted] = corrected
        low[lifted], high[lifted], p[lifted] = np.maximum(better.low, -reach[lifted]), np.minimum(better.high, reach[lifted]), better.p
    separate = lit("intervals of both sides, each corrected for the upward bias of a maximum")
    together = lit("paired bootstrap of items, t interval" + ", cluster-robust standard errors" * of_population)
    estimand = population(sides[0].clusters).get("estimand", "items like these") if of_population else THESE
    table = {
        "metric": [named.name for named in metrics],
        **{"difference": difference, "low": low, "high": high, "p": p, "n": items},
        **{"first": values[0], "first_low": lows[0], "first_high": highs[0]},
        **{"second": values[1], "second_low": lows[1], "second_high": highs[1]},
        **{"sum_low": lows[2], "sum_high": highs[2], "freedom": np.maximum(units[:-1] - 1, 1).min(axis=0)},
    }
    made = DataFrame(table).with_columns(
        how=when(Series(lifted)).then(separate).otherwise(together)
        + ("" if exchanged is None else "; p also by exchanging the sides of items"),
        paired=lit(True),
        estimand=lit(estimand),
    )
    return conform(made, CONTRASTS).with_columns(col(Float64).fill_nan(None))


def _lifted(
    pair: _Pair,
    observed: Floats,
    drawn: Floats,
    exchanged: Floats | None,
    lifted: np.typing.NDArray[np.bool_],
    spreads: Sequence[Sequence[Spread]] | None,
) -> tuple[Floats, stats.PairedDifference]:
    """Return the differences of maxima, corrected for their upward bias, with intervals and p-values, each of shape (lifted metrics,).

    `spreads` are those of each side and metric if clusters of items are a sample. The exchange of items then tests too narrow a hypothesis,
    so the test of the two intervals must be significant as well.
    """
    import numpy as np

    level = pair.settings.level
    alone = []
    for number, side in enumerate(pair.sides):
        value, samples, null = observed[number][lifted], drawn[number][lifted], pair.stacked(side.relabelled(pair.settings))[lifted]
        if spreads is not None:
            scale = np.array([one.scaled(level) for one in spreads[number]])[lifted]
            samples = value[:, None] + scale[:, None] * (samples - value[:, None])
            null = scale[:, None] * null
        alone.append(stats.maximum_interval(value, samples, null, level))
    estimates, lows, highs, _ = np.stack(alone, axis=-1)
    separate = stats.independent_difference(estimates, lows, highs, level)
    corrected = estimates[:, 1] - estimates[:, 0]
    if exchanged is None:
        return corrected, separate
    better = stats.exchange_difference(corrected, separate, (observed[1] - observed[0])[lifted], exchanged[lifted], level)
    if spreads is None:
        return corrected, better
    widest = np.minimum(better.low, separate.low), np.maximum(better.high, separate.high)
    return corrected, stats.PairedDifference(*widest, np.maximum(better.p, separate.p))
