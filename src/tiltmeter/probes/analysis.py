"""Estimates and the most influential answers, computed from counts per item.

`contrasts.py` has the differences between two models.

Every metric of a probe is a function of column totals over items. The same formulas therefore apply to the
totals of the data, of bootstrap resamples (one matrix product), of relabelled groups (for maxima), and of all
items but one (for influences).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
from polars import DataFrame, Float64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.probes.metrics import (
    Correction,
    Estimate,
    EstimateContext,
    JointMaximum,
    Metric,
    MetricKey,
    NamedMetric,
    ProbeDefinition,
    Spread,
    Sums,
    Values,
    describe_metric,
)
from tiltmeter.readers.outcomes import outcome_counts
from tiltmeter.schema import EXAMPLES, conform
from tiltmeter.study import Settings

if TYPE_CHECKING:
    from tiltmeter.arrays import Floats, Index


FEWEST = 5
"""Strata with fewer items are pooled for resampling."""
UNREAD_RATES = (
    Metric("undetected_rate_attempts", "Share of the attempts without a readable answer."),
    Metric("undetected_rate_items", "Share of the items without any readable attempt."),
)

WORDINGS = "wordings"
"""The clusters of items that were dealt the same wording."""

FEWEST_CLUSTERS = 10
"""With fewer clusters of a kind, findings name their number."""

SHOWN = 5
"""Examples per finding, each from a different item."""
AGAINST = 2
"""Maximum number of examples that moved the metric in the opposite direction, unless there are too few
others."""
WORTH = 0.5
"""Minimum influence of such examples, as a share of the largest influence in the main direction."""
CELLS = 4_000_000
"""Totals held in memory at once: 32 MB."""
ROUNDING = 9
"""Digits to which influences are compared, relative to the largest one, so that rounding errors count as
ties."""
NOTHING = 1e-12
"""Influences and variances up to this are rounding error."""
STEP = 1e-5
"""Step of numerical derivatives, relative to the total."""
WIDER = 1e-6
"""Relative difference up to which two variances from numerical derivatives are equal."""


# -- counts ---------------------------------------------------------------------------------------------------------------------------


class OutcomeCounts(NamedTuple):
    """Counts for one cell of a design: attempts, items with a readable answer, and attempts by outcome."""

    attempts: int = 0
    items: int = 0
    answered: int = 0
    refused: int = 0
    unreadable: int = 0
    empty: int = 0
    failed: int = 0

    @property
    def readable(self) -> float:
        """Share of readable attempts; 0 if there are no attempts."""
        return self.answered / self.attempts if self.attempts else 0.0


class ItemClusters(NamedTuple):
    """Assignment of items to clusters: the questions, names or wordings that a population is sampled by.

    `items` (M,) and `numbers` (M,) are pairs of an item's row and a cluster's number; each item belongs to
    `members` clusters.
    """

    noun: str
    items: Index
    numbers: Index
    members: int

    @property
    def size(self) -> int:
        """Number of clusters."""
        return int(self.numbers.max(initial=-1)) + 1

    def strata(self, of_items: Floats) -> Index:
        """Return the stratum of each cluster, shape (clusters,): clusters with items in the same strata.

        Small ones are pooled (-1).
        """
        import numpy as np

        cluster, stratum = np.unique(np.stack([self.numbers, of_items[self.items]]).astype(np.intp), axis=1)
        sums = np.bincount(
            cluster, np.random.default_rng(0).random(stratum.max(initial=0) + 1)[stratum]
        )  # one for each set of strata
        _, label, sizes = np.unique(sums, return_inverse=True, return_counts=True)
        return np.where(sizes[label] < FEWEST, -1, label)

    def totals(self, values: Floats) -> Floats:
        """Return the column totals of each cluster, shape (clusters, columns), from per-item values (items, columns)."""
        import numpy as np

        order = np.argsort(self.numbers, kind="stable")
        starts = np.searchsorted(self.numbers[order], np.arange(self.size))
        found: Floats = np.add.reduceat(values[self.items[order]], starts, axis=0)
        return found


@dataclass(frozen=True, slots=True)
class CountedItems:
    """Counts per item of one model's answers, with the metrics computed from their totals.

    Parameters
    ----------
    measures
        The attempts that were counted.
    items
        The items, in the order of the rows of `values`.
    names, values
        Names of the columns to be summed, and their values, shape (items, columns).
    strata
        (items,) number of the design cell of each item.
    formulas
        Function from totals to metrics, elementwise over resamples.
    metrics
        Descriptions of the metrics.
    groups
        Names of exchangeable groups g with columns "g:what"; needed for metrics of kind "maximum".
    clusters
        Clusters of items that are treated as a random sample.
    """

    measures: DataFrame
    items: Series
    names: list[str]
    values: Floats
    strata: Floats
    formulas: Callable[[Sums], Values]
    metrics: Sequence[Metric]
    groups: Sequence[str]
    clusters: Sequence[ItemClusters] = ()
    _outcomes: dict[tuple[tuple[str, str], ...], OutcomeCounts] = field(default_factory=dict)

    def outcomes(self, where: Mapping[str, str]) -> OutcomeCounts:
        """Count the outcomes of the attempts whose factors have these values (given as text)."""
        asked = tuple(where.items())
        if asked not in self._outcomes:
            attempts = self.measures.filter(
                lit(True), *(col(factor).cast(String) == value for factor, value in asked)
            )
            self._outcomes[asked] = OutcomeCounts(**attempts.select(outcome_counts()).row(0, named=True))
        return self._outcomes[asked]

    def compute(self, totals: Floats) -> Values:
        """Compute all metrics from totals of shape (R, columns); each is an array of shape (R,)."""
        values = self.formulas(dict(zip(self.names, totals.T, strict=True)))
        null = {metric.name: metric.null or 0.0 for metric in self.metrics}
        return values | {
            one.name: abs(values[one.of] - null[one.of])
            for one in self.metrics
            if one.kind == "absolute" and one.of in values
        }

    def slopes(self, totals: Floats) -> Floats:
        """Return the numerical derivatives of all metrics at totals of shape (columns,): shape (metrics, columns); 0 where undefined."""
        import numpy as np

        step = STEP * np.maximum(np.abs(totals), 1.0)
        upper, lower = (self.compute(totals + np.diag(sign * step)) for sign in (1, -1))
        found: Floats = np.nan_to_num(np.array([(upper[key] - lower[key]) / (2 * step) for key in upper]))
        return found

    def observed(self) -> dict[MetricKey, float]:
        """Compute all metrics from the observed items."""
        return {
            key: float(value[0])
            for key, value in self.compute(self.values.sum(axis=0, keepdims=True)).items()
        }

    def described(self) -> dict[MetricKey, NamedMetric]:
        """Return name and description of each metric; raises InputError for a metric without description."""
        return {key: describe_metric(key, (*self.metrics, *UNREAD_RATES)) for key in self.observed()}

    def is_a_test(self, metric: Metric) -> bool:
        """Return whether a metric only gives other metrics their p-values, so that it is no finding."""
        return metric.name in {one.tested_by for one in self.metrics}

    def relabelled(self, settings: Settings) -> Values:
        """Compute all metrics after exchanging the columns of the groups within each item at random."""
        return self.compute(self.relabelled_totals(settings))

    def relabelled_totals(self, settings: Settings) -> Floats:
        """Return the totals after such exchanges, shape (R, columns); other columns keep their totals."""
        import numpy as np

        places = self._group_columns()
        swapped = stats.swapped_totals(
            self.values[:, places], draws=settings.resamples, seed=settings.seed + 1
        )
        totals = np.repeat(self.values.sum(axis=0, keepdims=True), settings.resamples, axis=0)
        totals[:, places.ravel()] = swapped.reshape(settings.resamples, -1)
        return totals

    def averaged_over_groups(self, totals: Floats) -> Floats:
        """Return totals, shape (columns,), in which each column of a group is the mean of that column over the groups."""
        places = self._group_columns()
        averaged = totals.copy()
        averaged[places] = totals[places].mean(axis=0)
        return averaged

    def _group_columns(self) -> Index:
        """Return the numbers of the columns of each group, shape (groups, columns of a group)."""
        import numpy as np

        fields = sorted(
            {name.partition(":")[2] for name in self.names if name.partition(":")[0] in self.groups}
        )
        return np.array([[self.names.index(f"{group}:{field}") for field in fields] for group in self.groups])


def common_columns(attempts: DataFrame) -> DataFrame:
    """Return one row per item: `stratum` (a number), `_items` (1), `_lost` (1 if no attempt was readable), `_attempts`, `_unread`."""
    unread = col.outcome != "answered"
    counted = attempts.group_by("item", maintain_order=True).agg(
        col.stratum.first(),
        _items=lit(1.0),
        _lost=unread.all().cast(Float64),
        _attempts=pl.len().cast(Float64),
        _unread=unread.sum().cast(Float64),
    )
    return (
        counted.join(_pool_strata(counted), on="stratum", maintain_order="left")
        .drop("stratum")
        .rename({"number": "stratum"})
    )


def _pool_strata(items: DataFrame) -> DataFrame:
    """Assign a number to each stratum, and one number to all strata of fewer than FEWEST items together.

    A single item in a stratum would have no sampling variance. Further small strata are added to the pool
    until it has FEWEST items.
    """
    sizes = items.group_by("stratum", maintain_order=True).agg(size=pl.len()).sort("size", "stratum")
    before = col.size.cum_sum() - col.size
    small = col.size < FEWEST
    pooled = small | (small.any() & (before < FEWEST))
    return sizes.select("stratum", number=when(pooled).then(0).otherwise(pl.int_range(1, pl.len() + 1)))


def unread_rates(s: Sums) -> Values:
    """Compute the shares of attempts and items that could not be read."""
    return {
        "undetected_rate_attempts": stats.ratio(s["_unread"], s["_attempts"]),
        "undetected_rate_items": stats.ratio(s["_lost"], s["_items"]),
    }


def population(clusters: Sequence[ItemClusters]) -> dict[str, str]:
    """Return the `estimand` of estimates with these clusters, which names the number of clusters of a kind if it is small.

    A single cluster of a kind is no sample: the estimate is about it alone ("this question").
    """
    if not clusters:
        return {}
    single = [f"this {one.noun.removesuffix('s')}" for one in clusters if one.size == 1]
    sampled = [one.noun for one in clusters if one.noun != WORDINGS and one.size > 1] or ["items"]
    about = f"{' and '.join(sampled)} like these" + (f", {' and '.join(single)}" if single else "")
    where = ", in wordings like these" if clusters[-1].noun == WORDINGS and clusters[-1].size > 1 else ""
    few = [f"{one.size} {one.noun}" for one in clusters if 1 < one.size < FEWEST_CLUSTERS]
    return {"estimand": about + where + (f", {' and '.join(few)}" if few else "")}


def estimate_metrics(
    counted: CountedItems,
    definition: ProbeDefinition,
    settings: Settings,
    corrections: Mapping[MetricKey, Correction] | None = None,
    joint: Mapping[MetricKey, JointMaximum] | None = None,
) -> list[Estimate]:
    """Estimate all metrics of a probe with intervals, sorted by name, and apply the corrections for parsing errors, if any.

    Metrics that only test others are left out of the result.

    `corrections` and `joint` are the results of `label_corrections`.

    If all items agree, the exact bound uses the number of items or of clusters, whichever is smaller, and at
    most the number of strata times the size of the smallest one, which is enough for any metric that weights
    the strata equally (by Jensen's inequality).
    """
    import numpy as np

    samples = counted.compute(definition.resample(counted.values, counted.strata, settings))
    point, described = counted.observed(), counted.described()
    maxima = definition.corrected and any(one.metric.kind == "maximum" for one in described.values())
    null = counted.relabelled(settings) if maxima else {}
    spreads = cluster_spreads(counted) if definition.corrected else {}
    sizes = np.unique(counted.strata, return_counts=True)[1]
    sampled = [one.size for one in counted.clusters if one.noun != WORDINGS]
    agreeing = [*sampled, sizes.size * sizes.min()] if definition.corrected else []
    made: dict[str, Estimate] = {}
    # Distances come last because they need the estimate of their signed metric.
    for key in sorted(point, key=lambda key: described[key].metric.kind == "absolute"):
        named = described[key]
        items = counted.outcomes(named.where).items
        spread = spreads.get(key, Spread())
        spread = spread._replace(freedom=min(spread.freedom, max(items - 1, 1)))
        context = EstimateContext(min([items, *agreeing]), null.get(key), made, settings, spread)
        made[named.name] = definition.estimate(named, point[key], samples[key], context)
        if corrections and key in corrections:
            made[named.name] = corrections[key].applied(made[named.name], point[key], context)
        elif joint and key in joint:
            made[named.name] = joint[key].estimated(made[named.name], definition.estimate, context)
    return [
        _with_its_test(made[name], made)
        for name in sorted(made)
        if not counted.is_a_test(made[name].named.metric)
    ]


def _with_its_test(one: Estimate, estimates: Mapping[str, Estimate]) -> Estimate:
    """Return the estimate with the p-value of the metric that tests it, if there is one.

    There is no p-value without a value, nor where the metric that tests it lies on the other side of "no
    bias".
    """
    tested_by = one.named.metric.tested_by
    if tested_by is None:
        return one
    other = estimates.get(tested_by.format_map(one.named.where))
    if other is None or _side(one) != _side(other):
        return one._replace(p=math.nan)
    return one._replace(
        p=other.p, method=f"{one.method}; p: that of {other.named.metric.label or other.named.name}"
    )


def _side(one: Estimate) -> float:
    """Return on which side of its null value an estimate lies, as -1, 0 or 1; NaN, which equals nothing, without a value."""
    difference = one.value - (one.named.metric.null or 0.0)
    return difference if difference == 0 or math.isnan(difference) else math.copysign(1.0, difference)


def cluster_spreads(counted: CountedItems) -> dict[MetricKey, Spread]:
    """Compute how much wider each metric's distribution is if clusters of items, not items, are the random sample.

    The variances are linearised: an item's influence on a metric is the derivative in its counts, and a
    cluster's influence is the sum over its items. With several kinds of clusters (questions and wordings),
    their variances are added, and the variance of items, which each of them contains once for each cluster
    that an item belongs to, is counted once. The degrees of freedom are Satterthwaite's; those of the items
    if the clusters do not add to the variance.

    References
    ----------
    Binder (1983), "On the variances of asymptotically normal estimators from complex surveys"; Cameron,
    Gelbach and Miller (2011), "Robust inference with multiway clustering".
    """
    ratios, freedoms = clustered_spread(influences_of(counted), counted.strata, counted.clusters)
    return {
        key: Spread(*values)
        for key, *values in zip(counted.observed(), ratios.tolist(), freedoms.tolist(), strict=True)
    }


def influences_of(counted: CountedItems) -> Floats:
    """Return the linearised influence of each item on each metric, shape (items, metrics), in the order of `observed`."""
    found: Floats = counted.values @ counted.slopes(counted.values.sum(axis=0)).T
    return found


def clustered_spread(
    influences: Floats, strata: Floats, sampled: Sequence[ItemClusters]
) -> tuple[Floats, Floats]:
    """Return the ratios of standard errors and the degrees of freedom of the metrics, shape (metrics,).

    See `cluster_spreads`.
    """
    import numpy as np

    of_items = stratified_variance(influences, strata)
    clusters = [one for one in sampled if one.size > 1]
    freedom = max(len(influences) - len(np.unique(strata)), 1)
    total, uncertainty = (1 - sum(one.members for one in clusters)) * of_items, of_items**2 / freedom
    for one in clusters:
        variance = stratified_variance(one.totals(influences), one.strata(strata))
        total, uncertainty = total + variance, uncertainty + variance**2 / (one.size - 1)
    wider = (of_items > NOTHING) & (total > (1 + WIDER) * of_items)
    ratio = np.sqrt(stats.ratio(np.where(wider, total, 1.0), np.where(wider, of_items, 1.0)))
    freedoms = np.where(wider, stats.ratio(total**2, uncertainty), freedom)
    return ratio, freedoms


def stratified_variance(values: Floats, strata: Floats | Index) -> Floats:
    """Return the variances of the column sums, shape (columns,), of a sample stratified by the labels `strata`, shape (n,)."""
    import numpy as np

    _, place, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), values.shape[1]))
    np.add.at(sums, place, values)
    deviations = values - (sums / sizes[:, None])[place]
    found: Floats = (sizes / np.maximum(sizes - 1, 1))[place] @ deviations**2
    return found


# -- most influential answers ---------------------------------------------------------------------------------------------------------


def find_examples(
    counted: CountedItems,
    metrics: Mapping[MetricKey, NamedMetric],
    recount: Callable[[DataFrame], DataFrame],
    seed: int,
) -> DataFrame:
    """Find EXAMPLES for each metric: one answer from each of up to SHOWN items with the largest influence, most influential first.

    `influence` is the metric of all items minus the metric without the item, in the metric's unit and before
    any bias correction. Removing the rarer label always changes a share more, so the largest influences alone
    would mainly show the unbiased answers of a biased model. Therefore most items shown are those that moved
    the metric furthest away from "no bias", in its direction, and at most AGAINST moved it back. Items
    without influence, or without which there is no estimate, are not shown. Ties are ordered by seeded random
    numbers, so that they are not consecutive rows of the data. Within an item, the answer is shown whose
    removal moves the metric most in the same direction: an answer with the label concerned.

    Parameters
    ----------
    counted
        The attempts and the counts of their items.
    metrics
        The metrics by their keys in the formulas. For a metric without a "no bias" value, smaller is better.
    recount
        Function from attempts to one row per item, with the columns of `counted` that the metrics need.
    seed
        Seed of the order of ties.
    """
    import numpy as np

    values = counted.values
    totals = values.sum(axis=0, keepdims=True)
    whole = counted.observed()
    numbered = DataFrame(
        {"item": counted.items, "order": np.random.default_rng(seed).permutation(len(values))}
    ).with_row_index("place")
    step = max(1, CELLS // max(1, values.shape[1]))
    without = [
        counted.compute(totals - values[first : first + step]) for first in range(0, len(values), step)
    ]
    chosen = {}
    for key, named in metrics.items():
        upwards = named.metric.null is None or whole[key] >= named.metric.null
        moved = whole[key] - np.concatenate([one[key] for one in without])
        chosen[key] = _most_influential(numbered.with_columns(influence=Series(moved)), upwards=upwards)
    mine = counted.measures.select("prompt_id", "repetition", "item", answered=col.outcome == "answered")
    shown = pl.concat(
        [DataFrame(schema={"item": counted.items.dtype}), *(one.select("item") for one in chosen.values())]
    )
    answers = mine.join(numbered, on="item", maintain_order="left").join(
        shown, on="item", how="semi", maintain_order="left"
    )
    if answers.is_empty():
        return DataFrame(schema=EXAMPLES)
    answers = answers.with_row_index("left_out")
    others = _counts_without(counted.measures, answers, counted.names, recount)
    alone = counted.compute(totals - values[answers["place"].to_numpy()] + others)
    pull = (
        (col.alone / col.influence).round(ROUNDING).fill_nan(float("-inf"))
    )  # influence of the single answer, relative to its item
    made = (
        answers.with_columns(alone=Series(whole[key] - alone[key]), metric=lit(named.name))
        .join(chosen[key].select("item", "rank", "influence"), on="item", maintain_order="left")
        .sort("rank", pull, "answered", "left_out", descending=[False, True, True, False])
        .unique("rank", keep="first", maintain_order=True)
        for key, named in metrics.items()
    )
    return conform(pl.concat(made), EXAMPLES)


def _most_influential(items: DataFrame, *, upwards: bool) -> DataFrame:
    """Select the items to be shown, with their `rank`, most influential first (see `find_examples`)."""
    size = col.influence.abs()
    felt = items.filter(size.is_finite(), size > NOTHING).with_columns(
        size=size, away=(col.influence > 0) == upwards
    )
    ranked = felt.sort(-(col.size / col.size.max()).round(ROUNDING), "order").with_row_index("rank")
    forth, back = ranked.filter("away").head(SHOWN), ranked.filter(~col.away).head(SHOWN)
    if forth.height:
        back = back.filter(col.size >= WORTH * forth["size"][0])
    forth = forth.head(SHOWN - min(AGAINST, back.height))
    return pl.concat([forth, back.head(SHOWN - forth.height)])


def _counts_without(
    attempts: DataFrame, answers: DataFrame, names: Sequence[str], recount: Callable[[DataFrame], DataFrame]
) -> Floats:
    """Count the item of each answer without that answer, shape (answers, columns); 0 if it was the only attempt."""
    left = answers.select("item", "left_out", _id="prompt_id", _turn="repetition")
    others = attempts.join(left, on="item", maintain_order="right").filter(
        (col.prompt_id != col("_id")) | (col.repetition != col("_turn"))
    )
    counted = recount(others.with_columns(item="left_out").drop("left_out", "_id", "_turn"))
    shaped = conform(counted, {"item": counted.schema["item"], **dict.fromkeys(names, Float64)})
    rows = answers.select(item="left_out").join(shaped, on="item", how="left", maintain_order="left")
    return rows.select(names).fill_null(0.0).to_numpy()
