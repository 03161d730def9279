"""Cluster-robust variance of a difference of rates, for lists that share a first name or a story.

The difference between the rates of an identity and of all others is linear in the lists. Each list has a
score (its contribution to the difference minus the expectation), and the variance is the sum over clusters of
the squared sums of scores. The clusters:

* by name: clusters are first names, so that the difference generalises to names like these.
* by story: clusters are stories, because the two characters of a story may be described similarly or in
  contrast; or the user's clusters of texts, of which there may be few.
* both: two-way variance V(name) + V(story) - V(list).

Sources: Liang and Zeger (1986), "Longitudinal data analysis using generalized linear models"; Cameron,
Gelbach and Miller (2011), "Robust inference with multiway clustering"; Satterthwaite (1946) for the degrees
of freedom.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import scipy  # submodules are loaded on first use
from polars import DataFrame, col

from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.associations._significance.comparisons import (
    EVERYONE,
    Contrasts,
    counts_of_sides,
    strata_of,
)
from tiltmeter.associations._significance.counts import LEVEL, CountTest, RateDifference
from tiltmeter.associations._significance.incidence import Incidence, counted_lists, summed
from tiltmeter.stats import ratio, stratified_rate_difference

FEWEST_NAMES: Final = 20
"""Minimum number of first names of each identity for results to generalise to names like these."""
ROUNDING: Final = 1e-9
"""Relative tolerance for variances that are equal in exact arithmetic."""
_PAIRS_AT_ONCE: Final = 2_000_000
"""Number of pairs of a list and a concept in it for which variances are computed together."""
LEAST_INFLATION: Final = 0.25
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

    def p(self, contrasts: Contrasts) -> Floats:
        """See CountTest.p."""
        if self._incidence.paired:
            return paired_p(self._incidence, contrasts, self._stories)
        p = super().p(contrasts)
        significant = np.flatnonzero(p < LEVEL)
        difference = self._robust(contrasts.select(significant))
        t = ratio(difference.estimate, np.sqrt(difference.variance))
        freedom = difference.freedom
        robust_p = np.where(np.isinf(freedom), scipy.special.ndtr(-t), scipy.special.stdtr(freedom, -t))
        is_inflated = difference.inflation > 1.0 + ROUNDING
        p[significant] = np.where(is_inflated, np.fmax(p[significant], robust_p), p[significant])
        return p

    def difference(self, contrasts: Contrasts, level: float) -> RateDifference:
        """See CountTest.difference."""
        robust = self._robust(contrasts)
        interval = stratified_rate_difference(
            *contrasts.counts, level, inflation=robust.inflation, freedom=robust.freedom
        )
        return RateDifference(*interval, name_spread=robust.spread)

    def _robust(self, contrasts: Contrasts) -> RobustDifference:
        """Return the difference of each contrast, computed for a limited number of pairs at once."""
        cells = self._incidence.cells
        strata = strata_of(cells, contrasts.context)
        pairs = cells.with_concept.sum(axis=2)[contrasts.concept[:, None], strata].sum(axis=1)
        piece = np.cumsum(pairs) // _PAIRS_AT_ONCE
        ends = np.flatnonzero(np.diff(piece)) + 1
        differences = [
            robust_difference(self._incidence, contrasts.select(rows), self._names, self._stories)
            for rows in np.split(np.arange(len(piece)), ends)
        ]
        return RobustDifference(*map(np.concatenate, zip(*differences, strict=True)))


def test_of(incidence: Incidence, *, by_name: bool) -> CountTest:
    """Return the test for the lists: that of independent lists if each is a story of its own.

    Parameters
    ----------
    incidence
        The lists with the identities to compare.
    by_name
        See ClusterTest.
    """
    has_own_story = np.bincount(incidence.story, minlength=1).max() <= 1
    if has_own_story and not (by_name or incidence.paired or incidence.clustered):
        return CountTest()
    return ClusterTest(incidence, by_name=by_name)


def speaks_of_names(lists: DataFrame) -> bool:
    """Return whether results are about names like these.

    Every list (LISTS) must have a first name (in pairs: or a cluster), and every identity at least
    FEWEST_NAMES of them.
    """
    by_identity = counted_lists(lists).group_by("identity")
    names = by_identity.agg(col.name.n_unique(), unknown=col.name.null_count())
    has_names = (col.name.min() >= FEWEST_NAMES) & (col.unknown.sum() == 0)
    return bool(names.select(has_names).item())


class RobustDifference(NamedTuple):
    """Difference between the rates of two sides with its cluster-robust variance, for each contrast."""

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
    contrasts: Contrasts,
    names: ListClusters | None,
    stories: ListClusters,
) -> RobustDifference:
    """Estimate the difference between the rates of two sides and its cluster-robust variance.

    See the top of this module for the method and its sources.

    Parameters
    ----------
    contrasts
        R contrasts.
    names
        ListClusters of lists that share a first name; None: names are treated as fixed.
    stories
        ListClusters of lists that share a story.
    """
    scores = _Scores(incidence, contrasts)
    independent = scores.independent
    spread = np.full(len(independent), np.nan)
    if incidence.clustered:
        variance, freedom, _ = _variance_between(scores, stories)
    else:
        variance = scores.products(stories).sum(axis=(1, 2))
        freedom = np.full(len(independent), np.inf)
    if names is not None:
        variance_of_names, freedom_of_names, spread = _variance_between(scores, names)
        variance = np.maximum(variance, variance_of_names + variance - independent)
        freedom = np.minimum(freedom, freedom_of_names)
    inflation = np.where(independent > 0, ratio(variance, independent), 1.0)
    inflation = np.maximum(inflation, LEAST_INFLATION)
    return RobustDifference(
        estimate=scores.estimate,
        variance=inflation * independent,
        inflation=inflation,
        freedom=freedom,
        spread=spread,
    )


def paired_p(incidence: Incidence, contrasts: Contrasts, pairs: ListClusters) -> Floats:
    """Return one-sided p-values (R,) of one side having a higher rate than the other within pairs of texts.

    With one text of either side in a pair, the p-value is that of McNemar's exact test. Otherwise the numbers
    of texts with the concept are compared with their expectation within each pair, as in the test of Mantel
    and Haenszel, with a correction for continuity.

    Parameters
    ----------
    contrasts
        R contrasts.
    pairs
        Texts that belong together.
    """
    sides = contrasts.sides
    scores = _Scores(incidence, contrasts)
    row, pair, entry = scores.cells_of(pairs)
    # Numbers by cell, that is, by test and pair of texts: lists with the concept, and lists.
    is_on_side = (scores.side == 0).astype(np.float64)
    on_side = summed(entry, row.shape, is_on_side)
    with_concept = summed(entry, row.shape, scores.compared.astype(np.float64))
    sizes = counts_of_sides(pairs.sizes, pair, sides.identity[row], sides.against[row]).sum(axis=1)
    of_identity, of_others = sizes[:, 0], sizes[:, 1]
    size = of_identity + of_others
    expected = ratio(of_identity * with_concept, size)
    variance = ratio(expected * of_others * (size - with_concept), size * (size - 1))
    excess = np.bincount(row, on_side - expected, minlength=len(sides.identity))
    spread = np.bincount(row, np.nan_to_num(variance), minlength=len(sides.identity))
    p: Floats
    if (size[(of_identity > 0) & (of_others > 0)] == 2).all():
        discordant = 4 * spread
        discordant_with_concept = excess + 2 * spread  # pairs with the concept on the side of the identity
        p = scipy.stats.binom.sf(discordant_with_concept - 1, discordant, 0.5)
    else:
        p = scipy.special.ndtr(-ratio(excess - 0.5, np.sqrt(spread)))
    return np.nan_to_num(p, nan=1.0)


class _Scores:
    """Scores of the lists in R contrasts of an identity (side 0) with another or all others (side 1)."""

    def __init__(self, incidence: Incidence, contrasts: Contrasts) -> None:
        sides = contrasts.sides
        self.sides = sides
        self.strata = strata_of(incidence.cells, contrasts.context)  # (R, S)
        with_concept, sizes = contrasts.with_concept, contrasts.lists  # (R, S, 2)
        weight = np.nan_to_num(ratio(sizes.prod(axis=2), sizes.sum(axis=2)))  # Mantel-Haenszel weights
        weight = np.nan_to_num(ratio(weight, weight.sum(axis=1, keepdims=True)))
        scale = np.nan_to_num(ratio(weight[..., None], sizes)) * [1.0, -1.0]
        rate = np.nan_to_num(ratio(with_concept, sizes))
        self.estimate = (scale * with_concept).sum(axis=(1, 2))
        self.expected = scale * rate  # (R, S, 2) expected score of a list of either side
        variance = (scale**2 * sizes * rate * (1 - rate)).sum(axis=1)  # (R, 2) of independent lists
        self.variance_of_identity = variance[:, 0]
        self.independent = variance.sum(axis=1)

        self.row, stratum, pair = self._pairs(incidence, contrasts.concept)
        self.lists = incidence.pair_list[pair]
        identity = incidence.identity[self.lists]
        against = sides.against[self.row]
        self.side = (identity != sides.identity[self.row]).astype(np.intp)
        self.compared = (self.side == 0) | (against == EVERYONE) | (identity == against)
        self.score = np.where(self.compared, scale[self.row, stratum, self.side], 0.0)

    def _pairs(self, incidence: Incidence, concept: Index) -> tuple[Index, Index, Index]:
        """Return all pairs of a list and a concept in each row.

        The arrays are the row, the index of the stratum, and the index of the pair.
        """
        test = (concept[:, None] * len(incidence.cells.contexts) + self.strata).ravel()
        tests = incidence.cells.with_concept[..., 0].size
        sizes = np.bincount(incidence.pair_test, minlength=tests)
        size = sizes[test]
        end = np.cumsum(sizes)[test]
        pair = np.repeat(end - np.cumsum(size), size) + np.arange(size.sum())
        row, stratum = np.divmod(np.repeat(np.arange(len(test)), size), self.strata.shape[1])
        return row, stratum, pair

    def cells_of(self, clusters: ListClusters) -> tuple[Index, Index, Index]:
        """Return the cells, each a row and a cluster with a list that has the concept.

        The arrays are the row and the cluster of each cell, shape (E,), and the cell of each pair.
        """
        number = self.row * len(clusters.sizes) + clusters.number[self.lists]
        cells, entry = np.unique(number, return_inverse=True)
        row, cluster = np.divmod(cells, len(clusters.sizes))
        return row, cluster, entry

    def by_sides(self, clusters: ListClusters) -> Iterator[tuple[Booleans, Floats]]:
        """Yield the rows with the same sides as a mask (R,), and the numbers of lists of both sides.

        The numbers are by cluster and context, shape (G, C, 2).
        """
        for identity, against in np.unique(np.stack(self.sides, axis=1), axis=0):
            is_same = (self.sides.identity == identity) & (self.sides.against == against)
            yield is_same, counts_of_sides(clusters.sizes, slice(None), identity, against)

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
        """Return the expected score of both sides in each cell, and the sums of its products.

        Shapes (E, 2) and (R, 2, 2). Products are summed over all clusters.
        """
        identity, against = self.sides
        context = self.strata[:, 0]
        everyone = against == EVERYONE
        totals = clusters.sizes.sum(axis=1)  # (G, C)
        of_identity = clusters.sizes[cluster, identity[row], context[row]]
        all_others = totals[cluster, context[row]] - of_identity
        of_another = clusters.sizes[cluster, against[row], context[row]]
        of_others = np.where(everyone[row], all_others, of_another)
        expected = self.expected[row, 0] * np.stack([of_identity, of_others], axis=1)

        shared = clusters.shared
        with_all = shared.sum(axis=2)  # (C, K)
        of_all = with_all.sum(axis=1)  # (C,)
        identity_squared = shared[context, identity, identity]
        with_others = with_all[context, identity] - identity_squared
        all_others_squared = of_all[context] - 2 * with_all[context, identity] + identity_squared
        mixed = np.where(everyone, with_others, shared[context, identity, against])
        others_squared = np.where(everyone, all_others_squared, shared[context, against, against])
        sums = np.stack([identity_squared, mixed, mixed, others_squared], axis=1).reshape(-1, 2, 2)
        expected_list = self.expected[:, 0]  # (R, 2)
        return expected, expected_list[:, :, None] * sums * expected_list[:, None, :]

    def _expected_over_contexts(
        self, clusters: ListClusters, row: Index, cluster: Index
    ) -> tuple[Floats, Floats]:
        """Return the same as `_expected_in_one_context` for tests over all contexts."""
        expected = np.zeros((len(row), 2))
        products = np.zeros((len(self.estimate), 2, 2))
        for is_same, sizes in self.by_sides(clusters):
            tests = np.flatnonzero(is_same)
            entries = np.flatnonzero(is_same[row])
            expected[entries] = np.einsum("esa,esa->ea", self.expected[row[entries]], sizes[cluster[entries]])
            shared = np.einsum("gca,gdb->cadb", sizes, sizes)
            scores = self.expected[tests]
            products[tests] = np.einsum("rca,cadb,rdb->rab", scores, shared, scores, optimize=True)
        return expected, products


def _variance_between(scores: _Scores, names: ListClusters) -> tuple[Floats, Floats, Floats]:
    """Return the variance between names, its degrees of freedom, and the spread of the rate, (R,) each.

    The spread is the standard deviation of the rate between the names of the identity. If the sides have
    different names, the variances of both sides are added. If they share names, a name is one cluster on both
    sides.
    """
    products = scores.products(names)
    number = _names_of_sides(scores, names)
    is_shared = number[:, :2].sum(axis=1) > number[:, 2]
    used = is_shared[:, None] == [False, False, True]  # either each side, or both together
    totals = np.hstack([products[:, [0, 1], [0, 1]], products.sum(axis=(1, 2))[:, None]])
    parts = totals * ratio(number, number - 1)
    variance = np.where(used, parts, 0.0).sum(axis=1)
    freedom = ratio(variance**2, np.where(used, ratio(parts**2, number - 1), 0.0).sum(axis=1))
    freedom = np.maximum(np.nan_to_num(freedom, nan=1.0), 1.0)
    excess = np.maximum(parts[:, 0] - scores.variance_of_identity, 0.0)
    spread = np.sqrt(excess * number[:, 0])
    return np.nan_to_num(variance, nan=np.inf), freedom, spread


def _names_of_sides(scores: _Scores, names: ListClusters) -> Floats:
    """Return the numbers of names of each side and of both together, shape (R, 3)."""
    identity, against = scores.sides
    if scores.strata.shape[1] == 1:
        sizes = names.sizes
        context = scores.strata[:, 0]
    else:
        sizes = names.sizes.sum(axis=2, keepdims=True)
        context = np.zeros_like(identity)
    everyone = against == EVERYONE
    totals = sizes.sum(axis=1, keepdims=True)  # (G, 1, C)
    present = (sizes > 0).transpose(2, 1, 0).astype(np.float64)  # (C, K, G)
    in_both = present @ present.transpose(0, 2, 1)  # (C, K, K)
    by_identity = present.sum(axis=2)  # (C, K)
    by_others = (totals - sizes > 0).sum(axis=0).T  # (C, K)
    by_all = (totals > 0).sum(axis=(0, 1))  # (C,)
    of_identity = by_identity[context, identity]
    of_another = by_identity[context, against]
    of_others = np.where(everyone, by_others[context, identity], of_another)
    of_two = of_identity + of_another - in_both[context, identity, against]
    of_both = np.where(everyone, by_all[context], of_two)
    return np.stack([of_identity, of_others, of_both], axis=1)
