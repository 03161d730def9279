"""Cluster-robust variance of a difference of rates: several lists share a first name, and two lists share a story.

The difference between the rates of an identity and of all others is linear in the lists. Each list has a
score (its contribution to the difference minus the expectation), and the variance is the sum over clusters of
the squared sums of scores.

    by name    clusters are first names, so that the difference generalises to names like these by story
    clusters are stories, because the two characters of a story may be described similarly or in contrast; or
    the user's clusters
               of texts, of which there may be few
    both       two-way variance V(name) + V(story) - V(list)

Sources: Liang and Zeger (1986), "Longitudinal data analysis using generalized linear models"; Cameron,
Gelbach and Miller (2011), "Robust inference with multiway clustering"; Satterthwaite (1946) for the degrees
of freedom.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy  # submodules are loaded on first use
from polars import DataFrame, col

from tiltmeter.arrays import Booleans, Floats, Index
from tiltmeter.associations.significance.counts import (
    EVERYONE,
    LEVEL,
    Compared,
    Comparisons,
    CountBlock,
    CountTest,
    Incidence,
    counted_lists,
    counts_of,
    of_sides,
    strata_of,
    summed,
)
from tiltmeter.stats import ratio, stratified_rate_difference

FEWEST_NAMES = 20
"""Minimum number of first names of each identity for results to generalise to names like these."""
ROUNDING = 1e-9
"""Relative tolerance for variances that are equal in exact arithmetic."""
_PAIRS_AT_ONCE = 2_000_000
"""Number of pairs of a list and a concept in it for which variances are computed together."""
LEAST_INFLATION = 0.25
"""Minimum ratio of the variance to that of independent lists, because few lists cannot show that it is
smaller."""


@dataclass(frozen=True, eq=False)
class ListClusters:
    """Assignment of lists to clusters."""

    number: Index  # (L,) index of the cluster
    sizes: Floats  # (G, K, C) number of lists by cluster, identity and context

    @cached_property
    def shared(self) -> Floats:
        """Sums over clusters of the product of the sizes of two identities in a context, (C, K, K)."""
        by_context = self.sizes.transpose(2, 1, 0)
        return by_context @ by_context.transpose(0, 2, 1)


class ClusterTest(CountTest):
    """Tests and intervals for lists that share first names and stories.

    If lists of a cluster are positively correlated, the p-value is the larger of that of independent lists,
    which is exact for rare concepts, and that of a t-test with the cluster-robust variance; p-values above
    LEVEL are those of independent lists. If an identity has fewer than FEWEST_NAMES first names, names are
    treated as fixed, and the result is about these names only.

    Parameters
    ----------
    incidence
        The lists with the identities to compare.
    by_name
        Whether results generalise to names like these (see `speaks_of_names`).
    """

    def __init__(self, incidence: Incidence, *, by_name: bool) -> None:
        self._incidence = incidence
        self._stories = clusters_of(incidence, incidence.story)
        self._names = clusters_of(incidence, incidence.name) if by_name else None

    def p(self, block: CountBlock, sides: Comparisons) -> Floats:
        """See CountTest.p."""
        if self._incidence.paired:
            return paired_p(self._incidence, block, sides, self._stories)
        p = super().p(block, sides)
        chosen = np.flatnonzero(p < LEVEL)
        found = self._robust(block.of(chosen), sides.of(chosen))
        t = ratio(found.estimate, np.sqrt(found.variance))
        robust = np.where(
            np.isinf(found.freedom), scipy.special.ndtr(-t), scipy.special.stdtr(found.freedom, -t)
        )
        p[chosen] = np.where(found.inflation > 1.0 + ROUNDING, np.fmax(p[chosen], robust), p[chosen])
        return p

    def difference(self, block: CountBlock, sides: Comparisons, level: float) -> Compared:
        """See CountTest.difference."""
        found = self._robust(block, sides)
        counts = counts_of(block, sides)
        return Compared(
            *stratified_rate_difference(*counts, level, inflation=found.inflation, freedom=found.freedom),
            found.spread,
        )

    def _robust(self, block: CountBlock, sides: Comparisons) -> RobustDifference:
        size = np.cumsum(block.held.sum(axis=(1, 2))) // _PAIRS_AT_ONCE
        parts = np.split(np.arange(len(size)), np.flatnonzero(np.diff(size)) + 1)
        found = [
            robust_difference(self._incidence, block.of(rows), sides.of(rows), self._names, self._stories)
            for rows in parts
        ]
        return RobustDifference(*map(np.concatenate, zip(*found, strict=True)))


def speaks_of_names(lists: DataFrame) -> bool:
    """Return whether every list (LISTS) has a first name (of pairs: or a cluster), and every identity at least FEWEST_NAMES of them."""
    names = counted_lists(lists).group_by("identity").agg(col.name.n_unique(), unknown=col.name.null_count())
    return bool(names.select((col.name.min() >= FEWEST_NAMES) & (col.unknown.sum() == 0)).item())


class RobustDifference(NamedTuple):
    """Difference between the rates of two sides with its cluster-robust variance, for each test."""

    estimate: Floats  # (R,) Mantel-Haenszel difference
    variance: Floats  # (R,)
    inflation: Floats  # (R,) ratio of the variance to that of independent lists
    freedom: Floats  # (R,) degrees of freedom (Satterthwaite); infinity if only stories are clusters
    spread: Floats  # (R,) standard deviation of the rate between first names; NaN if names are not clusters


def clusters_of(incidence: Incidence, label: Index) -> ListClusters:
    """Return the clusters of the lists.

    Parameters
    ----------
    label
        Labels 0, 1, ... of the lists, shape (L,); lists with the same label form a cluster.
    """
    shape = (int(label.max(initial=-1)) + 1, len(incidence.cells.identities), len(incidence.cells.contexts))
    place = np.ravel_multi_index((label, incidence.identity, incidence.context), shape)
    return ListClusters(label, summed(place, shape))


def robust_difference(
    incidence: Incidence,
    block: CountBlock,
    sides: tuple[Index, Index],
    names: ListClusters | None,
    stories: ListClusters,
) -> RobustDifference:
    """Estimate the difference between the rates of two sides and its cluster-robust variance.

    See the top of this module for the method and its sources.

    Parameters
    ----------
    block
        R tests.
    sides
        The comparison of each test, (R,).
    names
        ListClusters of lists that share a first name; None: names are treated as fixed.
    stories
        ListClusters of lists that share a story.
    """
    scores = _Scores(incidence, block, sides)
    independent = scores.independent
    spread = np.full(len(independent), np.nan)
    if incidence.clustered:
        variance, freedom, _ = _by_name(scores, stories)
    else:
        variance, freedom = scores.products(stories).sum(axis=(1, 2)), np.full(len(independent), np.inf)
    if names is not None:
        by_name, between, spread = _by_name(scores, names)
        variance, freedom = (
            np.maximum(variance, by_name + variance - independent),
            np.minimum(freedom, between),
        )
    inflation = np.maximum(np.where(independent > 0, ratio(variance, independent), 1.0), LEAST_INFLATION)
    return RobustDifference(scores.estimate, inflation * independent, inflation, freedom, spread)


def paired_p(
    incidence: Incidence, block: CountBlock, sides: tuple[Index, Index], pairs: ListClusters
) -> Floats:
    """Return one-sided p-values (R,) of the rate of one side being higher than that of the other within pairs of texts.

    With one text of either side in a pair, the p-value is that of McNemar's exact test. Otherwise the numbers
    of texts with the concept are compared with their expectation within each pair, as in the test of Mantel
    and Haenszel, with a correction for continuity.

    Parameters
    ----------
    block, sides
        As for `robust_difference`.
    pairs
        Texts that belong together.
    """
    scores, (identity, against) = _Scores(incidence, block, sides), sides
    row, pair, entry = scores.cells_of(pairs)
    own, held = (
        np.bincount(entry, chosen.astype(np.float64), minlength=len(row))
        for chosen in (scores.side == 0, scores.compared)
    )
    mine, others = of_sides(pairs.sizes, pair, identity[row], against[row]).sum(axis=1).T
    size = mine + others
    expected = ratio(mine * held, size)
    variance = np.nan_to_num(ratio(expected * others * (size - held), size * (size - 1)))
    excess, spread = (
        np.bincount(row, values, minlength=len(identity)) for values in (own - expected, variance)
    )
    p: Floats
    if (size[(mine > 0) & (others > 0)] == 2).all():
        more, differ = (
            excess + 2 * spread,
            4 * spread,
        )  # of the discordant pairs, and of those with the concept on this side
        p = scipy.stats.binom.sf(more - 1, differ, 0.5)
    else:
        p = scipy.special.ndtr(-ratio(excess - 0.5, np.sqrt(spread)))
    return np.nan_to_num(p, nan=1.0)


class _Scores:
    """Scores of the lists in R tests of an identity (side 0) against another or all others (side 1)."""

    def __init__(self, incidence: Incidence, block: CountBlock, sides: tuple[Index, Index]) -> None:
        identity, against = self.sides = sides
        self.strata = strata_of(incidence.cells, block.context)  # (R, S)
        held, sizes = (
            of_sides(counts, np.arange(len(counts)), *sides) for counts in (block.held, block.lists)
        )  # (R, S, 2)
        weight = np.nan_to_num(ratio(sizes.prod(axis=2), sizes.sum(axis=2)))  # Mantel-Haenszel weights
        weight = np.nan_to_num(ratio(weight, weight.sum(axis=1, keepdims=True)))
        scale = np.nan_to_num(ratio(weight[..., None], sizes)) * [1.0, -1.0]
        rate = np.nan_to_num(ratio(held, sizes))
        self.estimate = (scale * held).sum(axis=(1, 2))
        self.expected = scale * rate  # (R, S, 2) expected score of a list of either side
        by_side = (scale**2 * sizes * rate * (1 - rate)).sum(axis=1)
        self.of_identity, self.independent = by_side[:, 0], by_side.sum(axis=1)
        self.row, stratum, pair = self._pairs(incidence, block)
        self.lists = incidence.pair_list[pair]
        whose = incidence.identity[self.lists]
        self.side = (whose != identity[self.row]).astype(np.intp)
        facing = against[self.row]
        self.compared = (self.side == 0) | (facing == EVERYONE) | (whose == facing)
        self.score = np.where(self.compared, scale[self.row, stratum, self.side], 0.0)

    def _pairs(self, incidence: Incidence, block: CountBlock) -> tuple[Index, Index, Index]:
        """Return the row, the index of the stratum, and the index of the pair, for all pairs of a list and a concept in each row."""
        test = (block.concept[:, None] * len(incidence.cells.contexts) + self.strata).ravel()
        sizes = np.bincount(incidence.pair_test, minlength=incidence.cells.held[..., 0].size)
        size, end = sizes[test], np.cumsum(sizes)[test]
        pair = np.repeat(end - np.cumsum(size), size) + np.arange(size.sum())
        return *np.divmod(np.repeat(np.arange(len(test)), size), self.strata.shape[1]), pair

    def cells_of(self, clusters: ListClusters) -> tuple[Index, Index, Index]:
        """Return the row and the cluster of each cell, (E,), and the index of the cell of each pair of a list and a concept."""
        cells, entry = np.unique(
            self.row * len(clusters.sizes) + clusters.number[self.lists], return_inverse=True
        )
        return *np.divmod(cells, len(clusters.sizes)), entry

    def by_sides(self, clusters: ListClusters) -> Iterator[tuple[Booleans, Floats]]:
        """Yield the rows with the same sides, as a mask (R,), and the number of lists of both sides by cluster and context, (G, C, 2)."""
        identity, against = self.sides
        for one, other in np.unique(np.stack(self.sides, axis=1), axis=0):
            yield (identity == one) & (against == other), of_sides(clusters.sizes, slice(None), one, other)

    def products(self, clusters: ListClusters) -> Floats:
        """Return the sums over clusters of products of the summed scores of both sides, shape (R, 2, 2)."""
        row, cluster, entry = self.cells_of(clusters)
        summed_scores = np.bincount(entry * 2 + self.side, self.score, minlength=2 * len(row)).reshape(-1, 2)
        if self.strata.shape[1] == 1:
            expected, products = self._expected_in_one_context(clusters, row, cluster)
        else:
            expected, products = self._expected_over_contexts(clusters, row, cluster)
        differences = summed_scores - expected
        change = (
            summed_scores[:, :, None] * differences[:, None, :]
            - expected[:, :, None] * summed_scores[:, None, :]
        )
        np.add.at(products, row, change)
        return products

    def _expected_in_one_context(
        self, clusters: ListClusters, row: Index, cluster: Index
    ) -> tuple[Floats, Floats]:
        """Return the expected score of both sides in each cell (E, 2), and the sums of its products over all clusters, (R, 2, 2)."""
        (identity, against), context = self.sides, self.strata[:, 0]
        everyone = against == EVERYONE
        totals = clusters.sizes.sum(axis=1)  # (G, C)
        own = clusters.sizes[cluster, identity[row], context[row]]
        all_others = totals[cluster, context[row]] - own
        faced = np.where(everyone[row], all_others, clusters.sizes[cluster, against[row], context[row]])
        expected = self.expected[row, 0] * np.stack([own, faced], axis=1)

        shared = clusters.shared
        with_all = shared.sum(axis=2)  # (C, K)
        of_all = with_all.sum(axis=1)  # (C,)
        own_squared = shared[context, identity, identity]
        with_others = with_all[context, identity] - own_squared
        others_squared = of_all[context] - 2 * with_all[context, identity] + own_squared
        mixed = np.where(everyone, with_others, shared[context, identity, against])
        faced_squared = np.where(everyone, others_squared, shared[context, against, against])
        sums = np.stack([own_squared, mixed, mixed, faced_squared], axis=1).reshape(-1, 2, 2)
        expected_list = self.expected[:, 0]  # (R, 2)
        return expected, expected_list[:, :, None] * sums * expected_list[:, None, :]

    def _expected_over_contexts(
        self, clusters: ListClusters, row: Index, cluster: Index
    ) -> tuple[Floats, Floats]:
        """Return the same as `_expected_in_one_context` for tests over all contexts."""
        expected, products = np.zeros((len(row), 2)), np.zeros((len(self.estimate), 2, 2))
        for chosen, sizes in self.by_sides(clusters):
            mine, entries = np.flatnonzero(chosen), np.flatnonzero(chosen[row])
            expected[entries] = np.einsum("esa,esa->ea", self.expected[row[entries]], sizes[cluster[entries]])
            shared = np.einsum("gca,gdb->cadb", sizes, sizes)
            products[mine] = np.einsum(
                "rca,cadb,rdb->rab", self.expected[mine], shared, self.expected[mine], optimize=True
            )
        return expected, products


def _by_name(scores: _Scores, names: ListClusters) -> tuple[Floats, Floats, Floats]:
    """Return the variance between names, its degrees of freedom, and the standard deviation of the rate between names, (R,) each.

    If the sides have different names, the variances of both sides are added. If they share names, a name is
    one cluster on both sides.
    """
    products = scores.products(names)
    number = _names_of_sides(scores, names)
    shared = number[:, :2].sum(axis=1) > number[:, 2]
    used = shared[:, None] == [False, False, True]  # either each side, or both together
    totals = np.hstack([products[:, [0, 1], [0, 1]], products.sum(axis=(1, 2))[:, None]])
    parts = totals * ratio(number, number - 1)
    variance = np.where(used, parts, 0.0).sum(axis=1)
    freedom = ratio(variance**2, np.where(used, ratio(parts**2, number - 1), 0.0).sum(axis=1))
    spread = np.sqrt(np.maximum(parts[:, 0] - scores.of_identity, 0.0) * number[:, 0])
    return np.nan_to_num(variance, nan=np.inf), np.maximum(np.nan_to_num(freedom, nan=1.0), 1.0), spread


def _names_of_sides(scores: _Scores, names: ListClusters) -> Floats:
    """Return the numbers of names of each side and of both together, shape (R, 3)."""
    identity, against = scores.sides
    if scores.strata.shape[1] == 1:
        sizes, context = names.sizes, scores.strata[:, 0]
    else:
        sizes, context = names.sizes.sum(axis=2, keepdims=True), np.zeros_like(identity)
    everyone = against == EVERYONE
    totals = sizes.sum(axis=1, keepdims=True)  # (G, 1, C)
    present = (sizes > 0).transpose(2, 1, 0).astype(np.float64)  # (C, K, G)
    in_both = present @ present.transpose(0, 2, 1)  # (C, K, K)
    by_identity = present.sum(axis=2)  # (C, K)
    by_others = (totals - sizes > 0).sum(axis=0).T  # (C, K)
    by_all = (totals > 0).sum(axis=(0, 1))  # (C,)
    own, faced = by_identity[context, identity], by_identity[context, against]
    other = np.where(everyone, by_others[context, identity], faced)
    either = np.where(everyone, by_all[context], own + faced - in_both[context, identity, against])
    return np.stack([own, other, either], axis=1)
