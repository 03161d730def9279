"""Variance of a difference of rates when lists are not independent: several lists share a first name, two share a story.

The difference between the rates of an identity and of all others is linear in the lists, so that each list has a score
(its share of the difference, less its expectation), and the variance is the sum over clusters of the squared sums of scores.

    by name    clusters are first names: the difference holds for names like these
    by story   clusters are stories: the two characters of a story may be described alike, or in contrast
    both       V(name) + V(story) - V(list), the two-way variance; stories hold the only lists that share no name

Sources: Liang and Zeger (1986), "Longitudinal data analysis using generalized linear models"; Cameron, Gelbach and Miller (2011), "Robust
inference with multiway clustering"; Satterthwaite (1946) for the degrees of freedom.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used
from polars import DataFrame, col

from tiltmeter.arrays import Booleans, Floats, Index
from tiltmeter.associations.significance.counts import (
    EVERYONE,
    LEVEL,
    Compared,
    CountBlock,
    CountTest,
    Incidence,
    OneSided,
    of_sides,
    one_sided,
    strata_of,
)
from tiltmeter.stats import ratio, stratified_rate_difference

FEWEST_NAMES = 20
"""Names of each identity from which a result is about names like these."""
ROUNDING = 1e-9
"""Variances that are equal in exact arithmetic differ by less, as a share."""
LEAST_INFLATION = 0.25
"""The variance is at least this share of that of independent lists: a few lists cannot show that it is less."""


class Clusters(NamedTuple):
    """Which cluster each list is in."""

    number: Index  # (L,) 0, 1, ...; lists of no known cluster have one each
    sizes: Floats  # (G, K, C) lists of each cluster, identity and context


class ClusterTest(CountTest):
    """Tests and intervals for lists that share first names and stories.

    Where lists of a cluster are alike, the p-value is the larger of that of independent lists, which is exact for rare concepts, and
    that of Student's t with the variance between clusters. Where an identity has fewer than FEWEST_NAMES names, names are taken as given:
    the result is about these names.

    Parameters
    ----------
    incidence
        The lists, under the identities that are compared.
    by_name
        Whether results are about names like these (see `speaks_of_names`).
    tail
        As for `CountTest`.
    whole
        Whether each p-value is made exact; otherwise those above LEVEL are of independent lists, which is enough to select.
    """

    def __init__(self, incidence: Incidence, tail: OneSided = one_sided, *, by_name: bool, whole: bool = True) -> None:
        super().__init__(tail)
        self._incidence, self._whole = incidence, whole
        self._stories = clusters_of(incidence, incidence.story)
        self._names = clusters_of(incidence, incidence.name) if by_name else None

    def p(self, block: CountBlock, identity: Index) -> Floats:
        """See CountTest.p."""
        p = super().p(block, identity)
        chosen = np.arange(len(p)) if self._whole else np.flatnonzero(p < LEVEL)
        found = self._robust(block.of(chosen), identity[chosen], np.full(len(chosen), EVERYONE))
        t = ratio(found.estimate, np.sqrt(found.variance))
        robust = np.where(np.isinf(found.freedom), scipy.special.ndtr(-t), scipy.special.stdtr(found.freedom, -t))
        p[chosen] = np.where(found.inflation > 1.0 + ROUNDING, np.fmax(p[chosen], robust), p[chosen])
        return p

    def difference(self, block: CountBlock, identity: Index, against: Index, level: float) -> Compared:
        """See CountTest.difference."""
        found = self._robust(block, identity, against)
        a, n, c, m = self._counts(block, identity, against)
        return Compared(*stratified_rate_difference(a, n, c, m, level, inflation=found.inflation, freedom=found.freedom), found.spread)

    def _robust(self, block: CountBlock, identity: Index, against: Index) -> RobustDifference:
        return robust_difference(self._incidence, block, (identity, against), self._names, self._stories)


def speaks_of_names(lists: DataFrame) -> bool:
    """Return whether every list (LISTS) has a first name, and every identity at least FEWEST_NAMES of them."""
    names = lists.filter(col.status != "missing").group_by("identity").agg(col.name.n_unique(), unknown=col.name.null_count())
    return bool(names.select((col.name.min() >= FEWEST_NAMES) & (col.unknown.sum() == 0)).item())


class RobustDifference(NamedTuple):
    """Of each test: the variance of the difference between the rates of two sides."""

    estimate: Floats  # (R,) Mantel and Haenszel's difference
    variance: Floats  # (R,)
    inflation: Floats  # (R,) the variance, as a multiple of that of independent lists
    freedom: Floats  # (R,) Satterthwaite's degrees of freedom; infinity where names are not known
    spread: Floats  # (R,) standard deviation of the identity's rate between its names; NaN where names are not known


def clusters_of(incidence: Incidence, label: Index) -> Clusters:
    """Number the clusters of the lists.

    Parameters
    ----------
    label
        (L,) any numbers; lists with one number are a cluster.
    """
    number = np.unique(label, return_inverse=True)[1].astype(np.intp)
    shape = (int(number.max(initial=-1)) + 1, len(incidence.cells.identities), len(incidence.cells.contexts))
    place = np.ravel_multi_index((number, incidence.identity, incidence.context), shape)
    return Clusters(number, np.bincount(place, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64))


def robust_difference(
    incidence: Incidence, block: CountBlock, sides: tuple[Index, Index], names: Clusters | None, stories: Clusters
) -> RobustDifference:
    """Estimate the difference between the rates of two sides, and its variance.

    Parameters
    ----------
    block
        R tests.
    sides
        (R,) the identity of each test, and the identity it is compared with; EVERYONE: all others together.
    names
        Clusters of lists that share a first name; None where names are not known.
    stories
        Clusters of lists that share a story.
    """
    scores = _Scores(incidence, block, sides)
    independent = scores.independent
    variance, freedom, spread = (
        scores.products(stories).sum(axis=(1, 2)),
        np.full(len(independent), np.inf),
        np.full(len(independent), np.nan),
    )
    if names is not None:
        by_name, freedom, spread = _by_name(scores, names)
        variance = np.maximum(variance, by_name + variance - independent)
    inflation = np.maximum(np.where(independent > 0, ratio(variance, independent), 1.0), LEAST_INFLATION)
    return RobustDifference(scores.estimate, inflation * independent, inflation, freedom, spread)


class _Scores:
    """Scores of the lists in R tests, each of one identity (side 0) against all others (side 1)."""

    def __init__(self, incidence: Incidence, block: CountBlock, sides: tuple[Index, Index]) -> None:
        rows, (identity, against) = np.arange(len(block.concept)), sides
        self.sides, self.strata = sides, strata_of(incidence.cells, block.context)  # (R, S)
        held, self.sizes = (of_sides(counts, rows, identity, against) for counts in (block.held, block.lists))  # (R, S, 2)
        weight = np.nan_to_num(ratio(self.sizes.prod(axis=2), self.sizes.sum(axis=2)))  # Mantel and Haenszel's
        weight = np.nan_to_num(ratio(weight, weight.sum(axis=1, keepdims=True)))
        scale = np.nan_to_num(ratio(weight[..., None], self.sizes)) * [1.0, -1.0]
        rate = np.nan_to_num(ratio(held, self.sizes))
        self.estimate = (scale * held).sum(axis=(1, 2))
        self.expected = scale * rate  # (R, S, 2) of a list of either side
        by_side = (scale**2 * self.sizes * rate * (1 - rate)).sum(axis=1)
        self.of_identity, self.independent = by_side[:, 0], by_side.sum(axis=1)
        self.row, stratum, pair = self._pairs(incidence, block)
        self.lists = incidence.pair_list[pair]
        whose = incidence.identity[self.lists]
        self.side = (whose != identity[self.row]).astype(np.intp)
        other = (self.side == 1) & (against[self.row] != EVERYONE) & (whose != against[self.row])
        self.score = np.where(other, 0.0, scale[self.row, stratum, self.side])

    def _pairs(self, incidence: Incidence, block: CountBlock) -> tuple[Index, Index, Index]:
        """Find the pairs of a list and a concept that count in each row: row, place among the row's strata, number of the pair."""
        cells = incidence.cells
        keys = cells.concept * len(cells.contexts) + cells.context
        wanted = block.concept[:, None] * len(cells.contexts) + self.strata
        test = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        row, stratum = np.nonzero(keys[test] == wanted)
        sizes = np.bincount(incidence.pair_test, minlength=len(keys))
        size, end = sizes[test[row, stratum]], np.cumsum(sizes)[test[row, stratum]]
        place = np.repeat(end - np.cumsum(size), size) + np.arange(size.sum())
        return np.repeat(row, size), np.repeat(stratum, size), incidence.pairs_by_test[place]

    def products(self, clusters: Clusters) -> Floats:
        """Return (R, 2, 2): sums over clusters of the products of the scores of either side."""
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


def _by_name(scores: _Scores, names: Clusters) -> tuple[Floats, Floats, Floats]:
    """Return the variance over names, its degrees of freedom, and the spread of the identity's rate between names, (R,) each.

    Where each side has names of its own, these vary by themselves; otherwise names are clusters of both sides.
    """
    products = scores.products(names)
    number, shared = _names_of_sides(scores, names)
    factor = ratio(number, number - 1)  # of either side, and of both together
    nested = products[:, [0, 1], [0, 1]] * factor[:, :2]
    crossed = (products.sum(axis=(1, 2)) * factor[:, 2])[:, None]
    parts = np.where(shared[:, None], np.hstack([crossed, np.zeros_like(crossed)]), nested)
    free = np.where(shared[:, None], number[:, [2, 2]], number[:, :2]) - 1
    variance = parts.sum(axis=1)
    freedom = np.nan_to_num(ratio(variance**2, ratio(parts**2, free).sum(axis=1)), nan=1.0)
    spread = np.sqrt(np.maximum(nested[:, 0] - scores.of_identity, 0.0) * number[:, 0])
    return np.nan_to_num(variance, nan=np.inf), np.maximum(freedom, 1.0), spread


def _names_of_sides(scores: _Scores, names: Clusters) -> tuple[Floats, Booleans]:
    """Count the names of either side and of both together (R, 3) in the strata of each row; and whether a name is on both sides."""
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
