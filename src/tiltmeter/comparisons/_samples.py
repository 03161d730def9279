"""Samples of items and groups, from one row per attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import polars as pl
from polars import DataFrame, Expr, Float64, Series, col

from tiltmeter import stats
from tiltmeter.comparisons._groups import Groups

CLUSTER: Final = "cluster:"
"""Prefix of the columns with the clusters of an item."""
COMPARED: Final = "compared:"
"""Prefix of the columns with further outcomes of an attempt that are compared (numbers; null: no value)."""


def attempts_by_group(measures: DataFrame, groups: Groups) -> DataFrame:
    """Return the attempts that are about a group: `item`, `group`, `outcome`, clusters and further outcomes.

    Parameters
    ----------
    measures
        One row per attempt, with `item`, `outcome` and the factors of the design, and columns with the prefix
        COMPARED.
    groups
        The groups that are compared.
    """
    clusters = [cluster.alias(f"{CLUSTER}{noun}") for noun, cluster in groups.clusters.items()]
    further = [name for name in measures.columns if name.startswith(COMPARED)]
    attempts = measures.select("item", "outcome", *further, *clusters, group=groups.group)
    if groups.names:
        attempts = attempts.filter(col.group.is_in(list(groups.names)))
    return attempts.drop_nulls("group")


def names_of(attempts: DataFrame, groups: Groups) -> list[str]:
    """Return the groups with attempts, in the order of the declaration, or else of the alphabet."""
    present = attempts["group"].unique().sort().to_list()
    return [name for name in groups.names if name in present] or present


class ItemGroups(NamedTuple):
    """The items of a comparison: where each attempt counts, and what the items belong to."""

    cells: DataFrame
    """`item`, `group`, and the numbers `row` and `place` of both, with the number of attempts as `size`."""
    items: int
    groups: int
    clusters: Sequence[stats.ItemClusters]

    def sample(self, value: Expr, attempts: DataFrame, *, is_rate: bool, seed: int) -> stats.GroupSample:
        """Return the sample of the values of the attempts; null counts as 0."""
        import numpy as np

        sums = attempts.group_by("item", "group").agg(sum=value.cast(Float64).fill_null(0.0).sum())
        cells = self.cells.join(sums, on=["item", "group"], how="left", maintain_order="left")
        place = cells["row"].to_numpy(), cells["place"].to_numpy()
        totals, sizes = np.zeros((2, self.items, self.groups))
        totals[place] = cells["sum"].to_numpy()
        sizes[place] = cells["size"].to_numpy()
        return stats.GroupSample.of(totals, sizes, self.clusters, is_rate=is_rate, seed=seed)


def items_by_group(attempts: DataFrame, names: Sequence[str]) -> ItemGroups:
    """Return the numbered items and groups of attempts (see `attempts_by_group`).

    Parameters
    ----------
    attempts
        `item`, `group` and columns with clusters.
    names
        The groups in order.
    """
    sizes = attempts.group_by("item", "group", maintain_order=True).agg(size=pl.len())
    places = DataFrame({"group": Series(list(names))}).with_row_index("place")
    first_attempts = attempts.unique("item", keep="first", maintain_order=True).with_row_index("row")
    cells = sizes.join(places, on="group", maintain_order="left").join(
        first_attempts.select("item", "row"), on="item", maintain_order="left"
    )
    return ItemGroups(cells, first_attempts.height, len(names), _clusters_of(first_attempts))


def _clusters_of(items: DataFrame) -> list[stats.ItemClusters]:
    """Return the clusters of the items, from the columns with the prefix CLUSTER."""
    names = [name for name in items.columns if name.startswith(CLUSTER)]
    return item_clusters(items, {name.removeprefix(CLUSTER): col(name) for name in names})


def item_clusters(rows: DataFrame, clusters: Mapping[str, Expr]) -> list[stats.ItemClusters]:
    """Assign items, one per row, to clusters given by an expression for each plural noun."""
    assigned = []
    for noun, cluster in clusters.items():
        pairs = cluster_memberships(rows, cluster)
        numbers = pairs.select(col.cluster.rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
        members = round(pairs.height / rows.height) if rows.height else 1
        assigned.append(stats.ItemClusters(noun, pairs["row"].to_numpy(), numbers, members))
    return assigned


def cluster_memberships(rows: DataFrame, cluster: Expr, *columns: str) -> DataFrame:
    """Return one row per row and cluster that it belongs to: `row` (a number), `cluster` and `columns`."""
    pairs = rows.select(*columns, row=pl.int_range(pl.len()), cluster=cluster)
    if isinstance(pairs.schema["cluster"], pl.List):
        pairs = pairs.explode("cluster")
    return pairs.drop_nulls("cluster")
