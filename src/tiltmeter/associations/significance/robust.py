"""Cluster-robust variance of a difference of rates: several lists share a first name, and two lists share a story.

The difference between the rates of an identity and of all others is linear in the lists. Each list has a score (its contribution to the
difference minus the expectation), and the variance is the sum over clusters of the squared sums of scores.

    by name    clusters are first names, so that the difference generalises to names like these
    by story   clusters are stories, because the two characters of a story may be described similarly or in contrast; or the user's clusters
               of texts, of which there may be few
    both       two-way variance V(name) + V(story) - V(list)

Sources: Liang and Zeger (1986), "Longitudinal data analysis using generalized linear models"; Cameron, Gelbach and Miller (2011), "Robust
inference with multiway clustering"; Satterthwaite (1946) for the degrees of freedom.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
import scipy  # submodules are loaded on first use
from polars import DataFrame, String, col

from tiltmeter.arrays import Booleans, Floats, Index
from tiltmeter.associations.significance.counts import (
    EVERYONE,
    LEVEL,
    Compared,
    CountBlock,
    CountTest,
    Incidence,
    counts_of,
    of_sides,
    strata_of,
)
from tiltmeter.stats import ratio, stratified_rate_difference
from tiltmeter.study import conform

FEWEST_NAMES = 20
"""Minimum number of first names of each identity for results to generalise to names like these."""
ROUNDING = 1e-9
"""Relative tolerance for variances that are equal in exact arithmetic."""
_PAIRS_AT_ONCE = 2_000_000
"""Number of pairs of a list and a concept in it for which variances are computed together."""
LEAST_INFLATION = 0.25
"""Minimum ratio of the variance to that of independent lists, because few lists cannot show that it is smaller."""


class ListClusters(NamedTuple):
    """Assignment of lists to clusters."""

    number: Index  # (L,) index of the cluster
    sizes: Floats  # (G, K, C) number of lists by cluster, identity and context


class ClusterTest(CountTest):
    """Tests and intervals for lists that share first names and stories.

    If lists of a cluster are positively correlated, the p-value is the larger of that of independent lists, which is exact for rare
    concepts, and that of a t-test with the cluster-robust variance; p-values above LEVEL are those of independent lists. If an identity
    has fewer than FEWEST_NAMES first names, names are treated as fixed, and the result is about these names only.

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

    def p(self, block: CountBlock, identity: Index, against: Index) -> Floats:
        """See CountTest.p."""
        if self._incidence.paired:
            return paired_p(self._incidence, block, (identity, against), self._stories)
        p = super().p(block, identity, against)
        chosen = np.flatnonzero(p < LEVEL)
        found = self._robust(block.of(chosen), identity[chosen], against[chosen])
        t = ratio(found.estimate, np.sqrt(found.variance))
        robust = np.where(np.isinf(found.freedom), scipy.special.ndtr(-t), scipy.special.stdtr(found.freedom, -t))
        p[chosen] = np.where(found.inflation > 1.0 + ROUNDING, np.fmax(p[chosen], robust), p[chosen])
        return p

    def difference(self, block: CountBlock, identity: Index, against: Index, level: float) -> Compared:
        """See CountTest.difference."""
        found = self._robust(block, identity, against)
        counts = counts_of(block, identity, against)
        return Compared(*stratified_rate_difference(*counts, level, inflation=found.inflation, freedom=found.freedom), found.spread)

    def _robust(self, block: CountBlock, identity: Index, against: Index) -> RobustDifference:
        size = np.cumsum(block.held.sum(axis=(1, 2))) // _PAIRS_AT_ONCE
        parts = np.split(np.arange(len(size)), np.flatnonzero(np.diff(size)) + 1)
        found = [
            robust_difference(self._incidence, block.of(rows), (identity[rows], against[rows]), self._names, self._stories)
            for rows in parts
        ]
        return RobustDifference(*map(np.concatenate, zip(*found, strict=True)))


def speaks_of_names(lists: DataFrame) -> bool:
    """Return whether every list (LISTS) has a first name (of pairs: or a cluster), and every identity at least FEWEST_NAMES of them."""
    named = conform(lists, {"pair": String, "cluster": String}, further=True).filter(col.status != "missing")
    name = pl.coalesce("cluster", "name") if named["pair"].count() else col.name
    names = named.group_by("identity").agg(name=name.n_unique(), unknown=name.null_count())
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
        Labels of the lists, shape (L,); lists with the same label form a cluster.
    """
    number = np.unique(label, return_inverse=True)[1].astype(np.intp)
    shape = (int(number.max(initial=-1)) + 1, len(incidence.cells.identities), len(incidence.cells.contexts))
    place = np.ravel_multi_index((number, incidence.identity, incidence.context), shape)
    return ListClusters(number, np.bincount(place, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64))


def robust_difference(
    incidence: Incidence, block: CountBlock, sides: tuple[Index, Index], names: ListClusters | None, stories: ListClusters
) -> RobustDifference:
    """Estimate the difference between the rates of two sides and its cluster-robust variance.

    See the top of this module for the method and its sources.

    Parameters
    ----------
    block
        R tests.
    sides
        The identity of each test and the identity it is compared with, shape (R,) each; EVERYONE: all others together.
    names
        ListClusters of lists that share a first name; None: names are treated as fixed.
    stories
        ListClusters of lists that share a story.
    """
    scores = _Scores(incidence, block, sides)
    independent = scores.independent
    variance, freedom, spread = (
        scores.products(stories).sum(axis=(1, 2)),
        np.full(len(independent), np.inf),
        np.full(len(independent), np.nan),
    )
    if incidence.clustered:
        variance, freedom, _ = _by_name(scores, stories)
    if names is not None:
        by_name, between, spread = _by_name(scores, names)
        variance, freedom = np.maximum(variance, by_name + variance - independent), np.minimum(freedom, between)
    inflation = np.maximum(np.where(independent > 0, ratio(variance, independent), 1.0), LEAST_INFLATION)
    return RobustDifference(scores.estimate, inflation * independent, inflation, freedom, spread)


def paired_p(incidence: Incidence, block: CountBlock, sides: tuple[Index, Index], pairs: ListClusters) -> Floats:
    """Return one-sided p-values (R,) of the rate of one side being higher than that of the other within pairs of texts.

    With one text of either side in a pair, the p-value is that of McNemar's exact test. Otherwise the numbers of texts with the concept are
    compared with their expectation within each pair, as in the test of Mantel and Haenszel, with a correction for continuity.

    Parameters
    ----------
    block, sides
        As for `robust_difference`.
    pairs
        Texts that belong together.
    """
    scores, (identity, against) = _Scores(incidence, block, sides), sides
    total, by_pair = len(pairs.sizes), pairs.sizes.sum(axis=2)
    cells, entry = np.unique(scores.row * total + pairs.number[scores.lists], return_inverse=True)
    row, pair = np.divmod(cells, total)
    facing = against[scores.row]
    compared = (scores.side == 0) | (facing == EVERYONE) | (incidence.identity[scores.lists] == facing)
    own, held = (np.bincount(entry, chosen.astype(np.float64), minlength=len(cells)) for chosen in (scores.side == 0, compared))
    mine = by_pair[pair, identity[row]]
    others = np.where(against[row] == EVERYONE, by_pair[pair].sum(axis=1) - mine, by_pair[pair, against[row]])
    size = mine + others
    expected = ratio(mine * held, size)
    variance = np.nan_to_num(ratio(expected * others * (size - held), size * (size - 1)))
    excess, spread = (np.bincount(row, values, minlength=len(identity)) for values in (own - expected, variance))
    p: Floats
    if (size[(mine > 0) & (others > 0)] == 2).all():
        more, differ = excess + 2 * spread, 4 * spread  # of the discordant pairs, and of those with the concept on this side
        p = scipy.stats.binom.sf(more - 1, differ, 0.5)
    else:
        p = scipy.special.ndtr(-ratio(excess - 0.5, np.sqrt(spread)))
    return np.nan_to_num(p, nan=1.0)


class _Scores:
    """Scores of the lists in R tests of an identity (side 0) against another or all others (side 1)."""

    def __init__(self, incidence: Incidence, block: CountBlock, sides: tuple[Index, Index]) -> None:
        rows, (identity, against) = np.arange(len(block.concept)), sides
        self.sides, self.strata = sides, strata_of(incidence.cells, block.context)  # (R, S)
        held, self.sizes = (of_sides(counts, rows, identity, against) for counts in (block.held, block.lists))  # (R, S, 2)
        weight = np.nan_to_num(ratio(self.sizes.prod(axis=2), self.sizes.sum(axis=2)))  # Mantel-Haenszel weights
        weight = np.nan_to_num(ratio(weight, weight.sum(axis=1, keepdims=True)))
        scale = np.nan_to_num(ratio(weight[..., None], self.sizes)) * [1.0, -1.0]
        rate = np.nan_to_num(ratio(held, self.sizes))
        self.estimate = (scale * held).sum(axis=(1, 2))
        self.expected = scale * rate  # (R, S, 2) expected score of a list of either side
        by_side = (scale**2 * self.sizes * rate * (1 - rate)).sum(axis=1)
        self.of_identity, self.independent = by_side[:, 0], by_side.sum(axis=1)
        self.row, stratum, pair = self._pairs(incidence, block)
        self.lists = incidence.pair_list[pair]
        whose = incidence.identity[self.lists]
        self.side = (whose != identity[self.row]).astype(np.intp)
        other = (self.side == 1) & (against[self.row] != EVERYONE) & (whose != against[self.row])
        self.score = np.where(other, 0.0, scale[self.row, stratum, self.side])

    def _pairs(self, incidence: Incidence, block: CountBlock) -> tuple[Index, Index, Index]:
        """Return the row, the index of the stratum, and the index of the pair, for all pairs of a list and a concept in each row."""
        cells = incidence.cells
        keys = cells.concept * len(cells.contexts) + cells.context
        wanted = block.concept[:, None] * len(cells.contexts) + self.strata
        test = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        row, stratum = np.nonzero(keys[test] == wanted)
        sizes = np.bincount(incidence.pair_test, minlength=len(keys))
        size, end = sizes[test[row, stratum]], np.cumsum(sizes)[test[row, stratum]]
        place = np.repeat(end - np.cumsum(size), size) + np.arange(size.sum())
        return np.repeat(row, size), np.repeat(stratum, size), incidence.pairs_by_test[place]

    def products(self, clusters: ListClusters) -> Floats:
        """Return the sums over clusters of products of the summed scores of both sides, shape (R, 2, 2)."""
        total, (identity, against) = len(clusters.sizes), self.sides
        cells, entry = np.unique(self.row * total + clusters.number[self.lists], return_inverse=True)
        row, cluster = np.divmod(cells, total)
        found = np.bincount(entry * 2 + self.side, self.score, minlength=2 * len(cells)).reshape(-1, 2)
        products = np.zeros((len(identity), 2, 2))
        for one, other in np.unique(np.stack(self.sides, axis=1), axis=0):
            chosen = (identity == one) & (against == other)
            mine, entries = np.flatnonzero(chosen), np.flatnonzero(chosen[row])
            sizes = of_sides(clusters.sizes, slice(None), one, other)  # (G, C, 2)
            expected, (a, e) = self.expected[mine], (found[entries], self.expected[row[entries]])
            if self.strata.shape[1] == 1:
                b = e[:, 0] * sizes[cluster[entries], self.strata[row[entries], 0]]
                gram = np.einsum("gca,gcb->cab", sizes, sizes)[self.strata[mine, 0]]
                products[mine] = np.einsum("ra,rab,rb->rab", expected[:, 0], gram, expected[:, 0])
            else:
                b = np.einsum("esa,esa->ea", e, sizes[cluster[entries]])
                gram = np.einsum("gca,gdb->cadb", sizes, sizes)
                products[mine] = np.einsum("rca,cadb,rdb->rab", expected, gram, expected, optimize=True)
            change = a[:, :, None] * (a - b)[:, None, :] - b[:, :, None] * a[:, None, :]
            np.add.at(products, row[entries], change)
        return products


def _by_name(scores: _Scores, names: ListClusters) -> tuple[Floats, Floats, Floats]:
    """Return the variance between names, its degrees of freedom, and the standard deviation of the rate between names, (R,) each.

    If the sides have different names, the variances of both sides are added. If they share names, a name is one cluster on both sides.
    """
    products = scores.products(names)
    number, shared = _names_of_sides(scores, names)
    factor = ratio(number, number - 1)  # of each side, and of both together
    nested = products[:, [0, 1], [0, 1]] * factor[:, :2]
    crossed = (products.sum(axis=(1, 2)) * factor[:, 2])[:, None]
    parts = np.where(shared[:, None], np.hstack([crossed, np.zeros_like(crossed)]), nested)
    free = np.where(shared[:, None], number[:, [2, 2]], number[:, :2]) - 1
    variance = parts.sum(axis=1)
    freedom = np.nan_to_num(ratio(variance**2, ratio(parts**2, free).sum(axis=1)), nan=1.0)
    spread = np.sqrt(np.maximum(nested[:, 0] - scores.of_identity, 0.0) * number[:, 0])
    return np.nan_to_num(variance, nan=np.inf), np.maximum(freedom, 1.0), spread


def _names_of_sides(scores: _Scores, names: ListClusters) -> tuple[Floats, Booleans]:
    """Return the numbers of names of each side and of both together, shape (R, 3), and whether the sides share a name, shape (R,)."""
    number, shared = np.empty((len(scores.estimate), 3)), np.empty(len(scores.estimate), dtype=bool)
    identity, against = scores.sides
    within = scores.strata.shape[1] == 1
    for one, other in np.unique(np.stack(scores.sides, axis=1), axis=0):
        mine = np.flatnonzero((identity == one) & (against == other))
        sizes = of_sides(names.sizes, slice(None), one, other)  # (G, C, 2)
        there = (sizes if within else sizes.sum(axis=1, keepdims=True)) > 0
        either, both = np.asarray(there.any(axis=2)), np.asarray(there.all(axis=2))  # (G, C)
        counts = np.concatenate([there.sum(axis=0), either.sum(axis=0)[:, None]], axis=1)  # (C, 3)
        place = scores.strata[mine, 0] if within else np.zeros(len(mine), dtype=np.intp)
        number[mine], shared[mine] = counts[place], np.atleast_1d(both.any(axis=0))[place]
    return number, shared
