"""From counts per item to estimates, to differences between two models, and to the answers that moved a number most.

Every metric of a probe is a function of column totals over items. One pass therefore gives everything: the totals of the data, of all
bootstrap resamples (one matrix product), for maxima of all relabellings of the groups, and without an item the totals less its counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from polars import DataFrame, Float64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.probes.metric import (
    DEFAULT,
    Estimate,
    EstimateContext,
    Metric,
    MetricKey,
    NamedMetric,
    ProbeDefinition,
    Sums,
    Values,
    describe_metric,
)
from tiltmeter.readers.outcomes import outcome_counts
from tiltmeter.study import CONTRASTS, EXAMPLES, Settings, conform

if TYPE_CHECKING:
    from tiltmeter.arrays import Floats


FEWEST = 5
"""Strata with fewer items are resampled together."""
SIMILAR = 0.1
"""Sides whose numbers of attempts differ by more than this share are not exchanged: the one would lend the other its precision."""
UNREAD_RATES = (
    Metric("undetected_rate_attempts", "Share of the attempts whose answer could not be read as an answer."),
    Metric("undetected_rate_items", "Share of the items none of whose attempts could be read."),
)

SHOWN = 5
"""Examples of a finding, each of another item."""
AGAINST = 2
"""How many of them, at most, moved it the other way, unless there are not enough others."""
WORTH = 0.5
"""Those must have this share of the influence of the greatest that did not."""
CELLS = 4_000_000
"""Totals held at once: 32 MB."""
ROUNDING = 9
"""Digits to which influences are compared, the greatest being 1: sums that differ in their last bits are ties."""
NOTHING = 1e-12
"""An influence that is rounding."""


# -- counts ---------------------------------------------------------------------------------------------------------------------------


class OutcomeCounts(NamedTuple):
    """Counts of one cell of a design: attempts, items with a readable answer, and attempts by outcome."""

    attempts: int = 0
    items: int = 0
    answered: int = 0
    refused: int = 0
    unreadable: int = 0
    empty: int = 0
    failed: int = 0

    @property
    def readable(self) -> float:
        """Share of the attempts that could be read; 0 where there are none."""
        return self.answered / self.attempts if self.attempts else 0.0


@dataclass(frozen=True, slots=True)
class CountedItems:
    """Counts per item of one model's answers, and what is computed from their totals.

    Parameters
    ----------
    measures
        The attempts that were counted.
    items
        The items, in the order of their counts.
    names, values
        Columns to be summed, and their values: shape (items, columns).
    strata
        The number of each item's design cell.
    formulas
        Totals -> metrics, elementwise over resamples.
    metrics
        What describes them.
    groups
        Names of exchangeable groups g whose columns are "g:what"; needed for metrics of kind "maximum".
    """

    measures: DataFrame
    items: Series
    names: list[str]
    values: Floats
    strata: Floats
    formulas: Callable[[Sums], Values]
    metrics: Sequence[Metric]
    groups: Sequence[str]
    _outcomes: dict[tuple[tuple[str, str], ...], OutcomeCounts] = field(default_factory=dict)

    def outcomes(self, where: Mapping[str, str]) -> OutcomeCounts:
        """What became of the attempts whose factors have these values (given as text)."""
        asked = tuple(where.items())
        if asked not in self._outcomes:
            attempts = self.measures.filter(lit(True), *(col(factor).cast(String) == value for factor, value in asked))
            self._outcomes[asked] = OutcomeCounts(**attempts.select(outcome_counts()).row(0, named=True))
        return self._outcomes[asked]

    def compute(self, totals: Floats) -> Values:
        """All metrics from totals of shape (R, columns)."""
        values = self.formulas(dict(zip(self.names, totals.T, strict=True)))
        null = {metric.name: metric.null or 0.0 for metric in self.metrics}
        return values | {
            one.name: abs(values[one.of] - null[one.of]) for one in self.metrics if one.kind == "absolute" and one.of in values
        }

    def observed(self) -> dict[MetricKey, float]:
        """All metrics of the items as they are."""
        return {key: float(value[0]) for key, value in self.compute(self.values.sum(axis=0, keepdims=True)).items()}

    def described(self) -> dict[MetricKey, NamedMetric]:
        """What each of the metrics is; raises InputError for one without description."""
        return {key: describe_metric(key, (*self.metrics, *UNREAD_RATES)) for key in self.observed()}

    def relabelled(self, settings: Settings) -> Values:
        """All metrics when the groups' columns of each item are exchanged at random; all other columns keep their total."""
        import numpy as np

        fields = sorted({name.partition(":")[2] for name in self.names if name.partition(":")[0] in self.groups})
        places = np.array([[self.names.index(f"{group}:{field}") for field in fields] for group in self.groups])
        swapped = stats.swapped_totals(self.values[:, places], draws=settings.resamples, seed=settings.seed + 1)
        totals = np.repeat(self.values.sum(axis=0, keepdims=True), settings.resamples, axis=0)
        totals[:, places.ravel()] = swapped.reshape(settings.resamples, -1)
        return self.compute(totals)


def common_columns(attempts: DataFrame) -> DataFrame:
    """Per item: `stratum` (a number), `_items` (1), `_lost` (1 where nothing was readable), `_attempts`, `_unread` (counts)."""
    unread = col.outcome != "answered"
    counted = attempts.group_by("item", maintain_order=True).agg(
        col.stratum.first(),
        _items=lit(1.0),
        _lost=unread.all().cast(Float64),
        _attempts=pl.len().cast(Float64),
        _unread=unread.sum().cast(Float64),
    )
    return counted.join(_pool_strata(counted), on="stratum", maintain_order="left").drop("stratum").rename({"number": "stratum"})


def _pool_strata(items: DataFrame) -> DataFrame:
    """A `number` for each `stratum`, the same one for strata of fewer than FEWEST items.

    A lone item of a stratum would never be resampled, as if it were certain. The pool takes further small strata until it is large
    enough itself.
    """
    sizes = items.group_by("stratum", maintain_order=True).agg(size=pl.len()).sort("size", "stratum")
    before = col.size.cum_sum() - col.size
    small = col.size < FEWEST
    pooled = small | (small.any() & (before < FEWEST))
    return sizes.select("stratum", number=when(pooled).then(0).otherwise(pl.int_range(1, pl.len() + 1)))


def unread_rates(s: Sums) -> Values:
    """The shares of attempts and items that could not be read."""
    return {
        "undetected_rate_attempts": stats.ratio(s["_unread"], s["_attempts"]),
        "undetected_rate_items": stats.ratio(s["_lost"], s["_items"]),
    }


def estimate_metrics(counted: CountedItems, definition: ProbeDefinition, settings: Settings) -> list[Estimate]:
    """All metrics of a probe with their intervals, by name."""
    samples = counted.compute(definition.resample(counted.values, counted.strata, settings))
    point, described = counted.observed(), counted.described()
    maxima = definition.corrected and any(one.metric.kind == "maximum" for one in described.values())
    null = counted.relabelled(settings) if maxima else {}
    made: dict[str, Estimate] = {}
    for key in sorted(point, key=lambda key: described[key].metric.kind == "absolute"):  # those need their signed twin first
        named = described[key]
        context = EstimateContext(counted.outcomes(named.where).items, null.get(key), made, settings)
        made[named.name] = definition.estimate(named, point[key], samples[key], context)
    return [made[name] for name in sorted(made)]


# -- differences between two models ---------------------------------------------------------------------------------------------------


def contrast_sides(sides: Sequence[CountedItems], definition: ProbeDefinition, settings: Settings) -> DataFrame:
    """CONTRASTS of all metrics of two models (second minus first) that answered the same items, in the same order.

    One bootstrap of items serves both sides: the same resample is applied to either, so that what makes items hard or easy cancels.
    Under no difference at all the sides of an item are exchangeable, and no metric, however it is computed, differs more often than the
    level allows.
    """
    import numpy as np

    described = sides[0].described()
    keys = sorted(described, key=lambda key: described[key].name)

    def stacked(values: Mapping[MetricKey, Any]) -> Floats:
        return np.array([values[key] for key in keys])

    raw = [stacked(side.observed()) for side in sides]
    samples = [stacked(side.compute(DEFAULT.resample(side.values, sides[0].strata, settings))) for side in sides]
    difference = raw[1] - raw[0]
    reach = np.array([described[key].metric.high - described[key].metric.low for key in keys])
    units = [min(side.outcomes(described[key].where).items for side in sides) for key in keys]
    attempts = [side.measures.height for side in sides]
    exchanged = None  # unless the sides are alike: differences when the sides of items are exchanged at random, shape (metrics, draws)
    if abs(attempts[0] - attempts[1]) <= SIMILAR * max(attempts):
        totals = stats.exchanged_totals(sides[0].values, sides[1].values, draws=settings.resamples, seed=settings.seed + 2)
        first, second = (stacked(side.compute(one)) for side, one in zip(sides, totals, strict=True))
        exchanged = second - first
    low, high, p = stats.paired_difference(difference, samples[1] - samples[0], exchanged, units=units, reach=reach, level=settings.level)
    maximum = np.array([definition.corrected and described[key].metric.kind == "maximum" for key in keys])
    lifted = maximum & ~np.array([[stats.is_constant(one) for one in side] for side in samples]).any(axis=0)  # by noise, on both sides
    if lifted.any():
        alone = [
            stats.maximum_interval(value[lifted], drawn[lifted], stacked(side.relabelled(settings))[lifted], settings.level)
            for side, value, drawn in zip(sides, raw, samples, strict=True)
        ]
        estimates, lows, highs, _ = np.stack(alone, axis=-1)
        better = stats.independent_difference(estimates, lows, highs, settings.level)
        corrected = estimates[:, 1] - estimates[:, 0]
        if exchanged is not None:
            better = stats.exchange_difference(corrected, better, difference[lifted], exchanged[lifted], settings.level)
        difference[lifted] = corrected
        low[lifted], high[lifted], p[lifted] = np.maximum(better.low, -reach[lifted]), np.minimum(better.high, reach[lifted]), better.p
    separate = lit("intervals of both sides, each corrected for the noise of a maximum")
    together = lit("bootstrap of items, the same ones on both sides, t interval")
    made = DataFrame(
        {"metric": [described[key].name for key in keys], "difference": difference, "low": low, "high": high, "p": p, "n": units}
    ).with_columns(
        how=when(Series(lifted)).then(separate).otherwise(together)
        + ("" if exchanged is None else "; p also by exchanging the sides of items"),
        paired=lit(True),
    )
    return conform(made, CONTRASTS).with_columns(col(Float64).fill_nan(None))


# -- the answers that moved a number most ---------------------------------------------------------------------------------------------


def find_examples(
    counted: CountedItems, metrics: Mapping[MetricKey, NamedMetric], recount: Callable[[DataFrame], DataFrame], seed: int
) -> DataFrame:
    """EXAMPLES of some metrics: of each up to SHOWN items that moved it most, by one answer each, the most influential first.

    `influence` is the metric of all items minus that without the item, in the metric's unit and before any correction for noise. Leaving
    out the rarer label always moves a share the more, so the greatest influences alone would show of a biased model just the answers
    that were not. Therefore most of the items shown are those that moved the metric furthest away from "no bias", in the direction where
    it is, and AGAINST at most moved it back. Items that moved nothing, or without which there is no estimate, are not shown; among items
    that moved it alike, a seeded random order decides, so that they are no block of the data. Within an item, the answer is shown whose
    own absence moves the number most the same way: the one that carries the label concerned.

    Parameters
    ----------
    counted
        The attempts and the counts of their items.
    metrics
        The metrics by what the formulas call them. Of one without a value that means "no bias", less is better.
    recount
        Attempts -> one row per item, with the columns of `counted` the metrics need.
    """
    import numpy as np

    values = counted.values
    totals = values.sum(axis=0, keepdims=True)
    whole = counted.observed()
    numbered = DataFrame({"item": counted.items, "order": np.random.default_rng(seed).permutation(len(values))}).with_row_index("place")
    step = max(1, CELLS // max(1, values.shape[1]))
    without = [counted.compute(totals - values[first : first + step]) for first in range(0, len(values), step)]
    chosen = {}
    for key, named in metrics.items():
        upwards = named.metric.null is None or whole[key] >= named.metric.null
        moved = whole[key] - np.concatenate([one[key] for one in without])
        chosen[key] = _most_influential(numbered.with_columns(influence=Series(moved)), upwards=upwards)
    mine = counted.measures.select("prompt_id", "repetition", "item", answered=col.outcome == "answered")
    shown = pl.concat([DataFrame(schema={"item": counted.items.dtype}), *(one.select("item") for one in chosen.values())])
    answers = mine.join(numbered, on="item", maintain_order="left").join(shown, on="item", how="semi", maintain_order="left")
    if answers.is_empty():
        return DataFrame(schema=EXAMPLES)
    answers = answers.with_row_index("left_out")
    others = _counts_without(counted.measures, answers, counted.names, recount)
    alone = counted.compute(totals - values[answers["place"].to_numpy()] + others)
    pull = (col.alone / col.influence).round(ROUNDING).fill_nan(float("-inf"))  # how far its own absence moves the number
    made = (
        answers.with_columns(alone=Series(whole[key] - alone[key]), metric=lit(named.name))
        .join(chosen[key].select("item", "rank", "influence"), on="item", maintain_order="left")
        .sort("rank", pull, "answered", "left_out", descending=[False, True, True, False])
        .unique("rank", keep="first", maintain_order=True)
        for key, named in metrics.items()
    )
    return conform(pl.concat(made), EXAMPLES)


def _most_influential(items: DataFrame, *, upwards: bool) -> DataFrame:
    """The items to be shown with their `rank`, the most influential first (see `find_examples`)."""
    size = col.influence.abs()
    felt = items.filter(size.is_finite(), size > NOTHING).with_columns(size=size, away=(col.influence > 0) == upwards)
    ranked = felt.sort(-(col.size / col.size.max()).round(ROUNDING), "order").with_row_index("rank")
    forth, back = ranked.filter("away").head(SHOWN), ranked.filter(~col.away).head(SHOWN)
    if forth.height:
        back = back.filter(col.size >= WORTH * forth["size"][0])
    forth = forth.head(SHOWN - min(AGAINST, back.height))
    return pl.concat([forth, back.head(SHOWN - forth.height)])


def _counts_without(attempts: DataFrame, answers: DataFrame, names: Sequence[str], recount: Callable[[DataFrame], DataFrame]) -> Floats:
    """Counts of each answer's item without that answer, shape (answers, columns): 0 where it was the only attempt."""
    left = answers.select("item", "left_out", _id="prompt_id", _turn="repetition")
    others = attempts.join(left, on="item", maintain_order="right").filter((col.prompt_id != col("_id")) | (col.repetition != col("_turn")))
    counted = recount(others.with_columns(item="left_out").drop("left_out", "_id", "_turn"))
    shaped = conform(counted, {"item": counted.schema["item"], **dict.fromkeys(names, Float64)})
    rows = answers.select(item="left_out").join(shaped, on="item", how="left", maintain_order="left")
    return rows.select(names).fill_null(0.0).to_numpy()
