"""Counts per item, and the metrics computed from their totals.

Every metric of a probe is a function of column totals over items. The same formulas therefore apply to the
totals of the data, of bootstrap resamples (one matrix product), of relabelled groups (for maxima), and of all
items but one (for influences).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl
from polars import DataFrame, Float64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.probes._estimates import ClusterSpread
from tiltmeter.probes._metrics import Metric, MetricKey, NamedMetric, Sums, Values, describe_metric
from tiltmeter.readers.outcomes import outcome_counts
from tiltmeter.study import Settings

if TYPE_CHECKING:
    from tiltmeter._arrays import Floats, Index

UNREAD_RATES: Final = (
    Metric("undetected_rate_attempts", "Share of the attempts without a readable answer."),
    Metric("undetected_rate_items", "Share of the items without any readable attempt."),
)

FEWEST_CLUSTERS: Final = 10
"""With fewer clusters of a kind, findings name their number."""

STEP: Final = 1e-5
"""Step of numerical derivatives, relative to the total."""


# -- counts ------------------------------------------------------------------------------------------------


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
    clusters: Sequence[stats.ItemClusters] = ()
    _outcomes: dict[tuple[tuple[str, str], ...], OutcomeCounts] = field(default_factory=dict)

    @property
    def totals(self) -> Floats:
        """Column totals of the observed items, shape (columns,)."""
        totals: Floats = self.values.sum(axis=0)
        return totals

    def columns_of(self, label: str) -> Floats:
        """Return the counts of a label for each group, shape (items, groups)."""
        places = [self.names.index(f"{group}:{label}") for group in self.groups]
        counts: Floats = self.values[:, places]
        return counts

    def outcomes(self, where: Mapping[str, str]) -> OutcomeCounts:
        """Count the outcomes of the attempts whose factors have these values (given as text)."""
        cell = tuple(where.items())
        if cell not in self._outcomes:
            conditions = [col(factor).cast(String) == value for factor, value in cell]
            attempts = self.measures.filter(lit(True), *conditions)
            counts = attempts.select(outcome_counts()).row(0, named=True)
            self._outcomes[cell] = OutcomeCounts(**counts)
        return self._outcomes[cell]

    def compute(self, totals: Floats) -> Values:
        """Compute all metrics from totals of shape (R, columns); each is an array of shape (R,)."""
        values = self.formulas(dict(zip(self.names, totals.T, strict=True)))
        nulls = {metric.name: metric.null or 0.0 for metric in self.metrics}
        distances: Values = {}
        for metric in self.metrics:
            if metric.kind == "absolute" and metric.of in values:
                distances[metric.name] = abs(values[metric.of] - nulls[metric.of])
        return values | distances

    def slopes(self, totals: Floats) -> Floats:
        """Return the numerical derivatives of all metrics at totals of shape (columns,).

        Returns
        -------
        Shape (metrics, columns); 0 where undefined.
        """
        import numpy as np

        step = STEP * np.maximum(np.abs(totals), 1.0)
        upper = self.compute(totals + np.diag(step))
        lower = self.compute(totals + np.diag(-step))
        differences = np.array([(upper[key] - lower[key]) / (2 * step) for key in upper])
        slopes: Floats = np.nan_to_num(differences)
        return slopes

    def observed(self) -> dict[MetricKey, float]:
        """Compute all metrics from the observed items."""
        metrics = self.compute(self.totals[None])
        return {key: float(value[0]) for key, value in metrics.items()}

    def described(self) -> dict[MetricKey, NamedMetric]:
        """Return name and description of each metric; raises InputError for a metric without description."""
        return {key: describe_metric(key, (*self.metrics, *UNREAD_RATES)) for key in self.observed()}

    def is_a_test(self, metric: Metric) -> bool:
        """Return whether a metric only gives other metrics their p-values, so that it is no finding."""
        return any(tested.tested_by == metric.name for tested in self.metrics)

    def relabelled(self, settings: Settings) -> Values:
        """Compute all metrics after exchanging the columns of the groups within each item at random."""
        return self.compute(self.relabelled_totals(settings))

    def relabelled_totals(self, settings: Settings) -> Floats:
        """Return the totals after such exchanges, shape (R, columns); other columns keep their totals."""
        import numpy as np

        places = self._group_columns()
        draws = settings.resamples
        swapped = stats.swapped_totals(self.values[:, places], draws=draws, seed=settings.seed + 1)
        totals = np.repeat(self.totals[None], draws, axis=0)
        totals[:, places.ravel()] = swapped.reshape(draws, -1)
        return totals

    def averaged_over_groups(self, totals: Floats) -> Floats:
        """Return totals, shape (columns,), in which the groups' columns are averaged over the groups."""
        places = self._group_columns()
        averaged = totals.copy()
        averaged[places] = totals[places].mean(axis=0)
        return averaged

    def _group_columns(self) -> Index:
        """Return the numbers of the columns of each group, shape (groups, columns of a group)."""
        import numpy as np

        split_names = [name.partition(":") for name in self.names]
        fields = sorted({counted for group, _, counted in split_names if group in self.groups})
        return np.array([[self.names.index(f"{group}:{field}") for field in fields] for group in self.groups])


def common_columns(attempts: DataFrame) -> DataFrame:
    """Count what all probes count: return one row per item.

    The columns are `stratum` (a number), `_items` (1), `_lost` (1 if no attempt was readable), `_attempts`
    and `_unread`.
    """
    unread = col.outcome != "answered"
    counted = attempts.group_by("item", maintain_order=True).agg(
        col.stratum.first(),
        _items=lit(1.0),
        _lost=unread.all().cast(Float64),
        _attempts=pl.len().cast(Float64),
        _unread=unread.sum().cast(Float64),
    )
    numbered = counted.join(_pool_strata(counted), on="stratum", maintain_order="left")
    return numbered.drop("stratum").rename({"number": "stratum"})


def _pool_strata(items: DataFrame) -> DataFrame:
    """Assign a number to each stratum, and one number to all small strata together.

    A single item in a stratum would have no sampling variance. Small strata have fewer than FEWEST_IN_STRATUM
    items. Further small strata are added to the pool until it has FEWEST_IN_STRATUM items.
    """
    sizes = items.group_by("stratum", maintain_order=True).agg(size=pl.len()).sort("size", "stratum")
    before = col.size.cum_sum() - col.size
    small = col.size < stats.FEWEST_IN_STRATUM
    pooled = small | (small.any() & (before < stats.FEWEST_IN_STRATUM))
    own_number = pl.int_range(1, pl.len() + 1)
    return sizes.select("stratum", number=when(pooled).then(0).otherwise(own_number))


def unread_rates(s: Sums) -> Values:
    """Compute the shares of attempts and items that could not be read."""
    return {
        "undetected_rate_attempts": stats.ratio(s["_unread"], s["_attempts"]),
        "undetected_rate_items": stats.ratio(s["_lost"], s["_items"]),
    }


def wordings_are_dealt(measures: DataFrame) -> bool:
    """Return whether there are several wordings, and each item was asked in one of them."""
    of_item = col.wording.n_unique().over("item")
    one_for_each_item: bool = measures.select((of_item == 1).all()).item()
    return measures["wording"].n_unique() > 1 and one_for_each_item


# -- the population that clusters are sampled from ---------------------------------------------------------


def population(clusters: Sequence[stats.ItemClusters]) -> dict[str, str]:
    """Return the `estimand` of estimates with these clusters.

    The number of clusters of a kind is named if it is below FEWEST_CLUSTERS. A single cluster of a kind is no
    sample: the estimate is about it alone ("this question").
    """
    if not clusters:
        return {}
    samples = [kind for kind in clusters if kind.size > 1]
    nouns = [kind.noun for kind in samples if kind.noun != stats.WORDINGS] or ["items"]
    single = [f"this {kind.noun.removesuffix('s')}" for kind in clusters if kind.size == 1]
    few = [f"{kind.size} {kind.noun}" for kind in samples if kind.size < FEWEST_CLUSTERS]
    estimand = f"{' and '.join(nouns)} like these"
    if single:
        estimand += f", {' and '.join(single)}"
    if clusters[-1].noun == stats.WORDINGS and clusters[-1].size > 1:
        estimand += ", in wordings like these"
    if few:
        estimand += f", {' and '.join(few)}"
    return {"estimand": estimand}


def cluster_spreads(counted: CountedItems) -> dict[MetricKey, ClusterSpread]:
    """Compute how much wider each metric's distribution is if clusters of items, not items, are sampled.

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
    ratios, freedoms = stats.clustered_spread(influences_of(counted), counted.strata, counted.clusters)
    spreads = map(ClusterSpread, ratios.tolist(), freedoms.tolist())
    return dict(zip(counted.observed(), spreads, strict=True))


def influences_of(counted: CountedItems) -> Floats:
    """Return the linearised influence of each item on each metric, shape (items, metrics).

    The metrics are in the order of `observed`.
    """
    slopes = counted.slopes(counted.totals)
    influences: Floats = counted.values @ slopes.T
    return influences
