"""Tests of concepts in contexts, and the comparisons of identities that each of them makes.

A *test* is a concept in a context. The dimensions are T tests, K identities and S strata within which
identities are compared: one stratum, or all contexts for a test over all contexts. Identities without lists
are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from polars import Series

from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.associations._definitions import AssociationDefinition
from tiltmeter.associations._significance.incidence import Cells
from tiltmeter.errors import check_known
from tiltmeter.stats import ratio

COUNTS_IN_BLOCK: Final = 1 << 21
"""Maximum number of counts of tests computed together; an array takes 16 MiB."""

EVERYONE: Final = -1
"""All other identities together."""


@dataclass(frozen=True, slots=True, eq=False)
class CountBlock:
    """Tests that are computed together."""

    context: Index  # (T,) index of the context; -1: over all contexts
    concept: Index  # (T,)
    with_concept: Floats  # (T, K, S)
    lists: Floats  # (T, K, S)
    mentions: Floats  # (T, K)

    @property
    def compared(self) -> Booleans:
        """Whether each identity has lists, shape (T, K)."""
        compared: Booleans = self.lists.sum(axis=2) > 0
        return compared

    def select(self, tests: Index) -> CountBlock:
        """Return copies of the tests with these indices; indices may repeat."""
        return CountBlock(
            context=self.context[tests],
            concept=self.concept[tests],
            with_concept=self.with_concept[tests],
            lists=self.lists[tests],
            mentions=self.mentions[tests],
        )


class Comparisons(NamedTuple):
    """The P comparisons of an identity with another, or with all others."""

    identity: Index  # (P,)
    against: Index  # (P,) EVERYONE: all others together

    def select(self, columns: Index) -> Comparisons:
        """Return the comparisons with these indices; indices may repeat."""
        return Comparisons(self.identity[columns], self.against[columns])


class Ranking(NamedTuple):
    """Identities with the highest and the second highest rate of a concept."""

    first: Index  # (T,) identity with the highest rate; the first one in a tie
    second: Index  # (T,) identity with the second highest rate


class SideCounts(NamedTuple):
    """Counts of both sides of R contrasts in each stratum, shape (R, S) each."""

    with_concept: Floats  # lists of the identity with the concept
    lists: Floats  # all lists of the identity
    others_with_concept: Floats  # the same for what the identity is compared with
    others_lists: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """R contrasts: each is a test with one of its comparisons.

    The last dimension of the counts are the two sides: the identity, and what it is compared with.
    """

    context: Index  # (R,) as in CountBlock
    concept: Index  # (R,)
    sides: Comparisons  # (R,)
    with_concept: Floats  # (R, S, 2)
    lists: Floats  # (R, S, 2)

    @property
    def counts(self) -> SideCounts:
        """The counts of both sides."""
        return SideCounts(
            with_concept=self.with_concept[..., 0],
            lists=self.lists[..., 0],
            others_with_concept=self.with_concept[..., 1],
            others_lists=self.lists[..., 1],
        )

    def select(self, rows: Index) -> Contrasts:
        """Return copies of the contrasts with these indices."""
        return Contrasts(
            context=self.context[rows],
            concept=self.concept[rows],
            sides=self.sides.select(rows),
            with_concept=self.with_concept[rows],
            lists=self.lists[rows],
        )


def comparisons_of(identities: Series, against: str = "rest", reference: str | None = None) -> Comparisons:
    """Return the comparisons of a study.

    Parameters
    ----------
    identities
        Names of the K identities.
    against
        "rest": each identity with all others together. "each": each with each other one.
    reference
        The identity with which each other one is compared, in both directions.

    Raises
    ------
    InputError
        There is no such identity.
    """
    every = np.arange(len(identities))
    if reference is None and against == "rest":
        return Comparisons(every, np.full(len(every), EVERYONE))
    each = Comparisons(*np.nonzero(every[:, None] != every))
    if reference is None:
        return each
    names = identities.to_list()
    check_known(reference, names, f"there is no group {reference!r} to compare with")
    place = names.index(reference)
    return each.select(np.flatnonzero((each.identity == place) | (each.against == place)))


def strata_of(cells: Cells, context: Index) -> Index:
    """Return the contexts within which each test compares identities, shape (T, S).

    These are its own context, or all contexts if it is -1.
    """
    every = np.arange(len(cells.contexts))
    if (context < 0).any():
        return np.broadcast_to(every, (len(context), len(every)))
    return context[:, None]


def block_of(cells: Cells, concept: Index, context: Index) -> CountBlock:
    """Return the tests of concepts in contexts. Either all contexts are -1, or none."""
    strata = strata_of(cells, context)
    with_concept = cells.with_concept[concept[:, None], strata]  # (T, S, K)
    lists = cells.lists[strata]
    return CountBlock(
        context=context,
        concept=concept,
        with_concept=with_concept.transpose(0, 2, 1),
        lists=lists.transpose(0, 2, 1),
        mentions=cells.mentions[strata].sum(axis=1),
    )


def blocks_of(
    cells: Cells, rules: AssociationDefinition, minimum: int = 1, below: float = np.inf
) -> Iterator[CountBlock]:
    """Yield the tests within contexts, then those over all contexts.

    Only the default definition tests over all contexts, and only if there are at least two. Lists without a
    context have tests of their own only if no list has a context.

    Parameters
    ----------
    minimum, below
        Concepts in fewer than `minimum` lists of a test, or in `below` lists or more, are skipped.
    """
    contexts, identities = cells.lists.shape
    support = cells.with_concept.sum(axis=2)
    has_lists_without_context = contexts > 1 and cells.contexts[contexts - 1] is None
    within = np.arange(contexts) < contexts - has_lists_without_context
    families = [np.nonzero(within & (support >= minimum) & (support < below))]
    if not rules.published and contexts > 1:
        total = support.sum(axis=1)
        concepts = np.flatnonzero((total >= minimum) & (total < below))
        families.append((concepts, np.full_like(concepts, -1)))
    size = COUNTS_IN_BLOCK // (identities * contexts)
    for concept, context in families:
        for begin in range(0, len(concept), size):
            yield block_of(cells, concept[begin : begin + size], context[begin : begin + size])


def ranking_of(block: CountBlock) -> Ranking:
    """Rank identities by rate; those without lists come last.

    Rates over several strata are standardised directly; the weight of a stratum is the number of lists of all
    identities in it.
    """
    weight = block.lists.sum(axis=1, keepdims=True) * (block.lists > 0)
    # Fractions that are equal give equal floats, because division is correctly rounded.
    rate_in_stratum = np.nan_to_num(ratio(block.with_concept, block.lists))
    rate = ratio((rate_in_stratum * weight).sum(axis=2), weight.sum(axis=2))
    order = np.argsort(-rate, axis=1, kind="stable")
    return Ranking(first=order[:, 0], second=order[:, 1])


def chosen_contrasts(block: CountBlock, compared: Comparisons, chosen: Booleans) -> Contrasts:
    """Return the `chosen` contrasts of the tests of a block with the comparisons, shape (T, P)."""
    tests, comparisons = np.nonzero(chosen)
    return contrasts_of(block, tests, compared.select(comparisons))


def contrasts_of(block: CountBlock, tests: Index, sides: Comparisons) -> Contrasts:
    """Return R contrasts: the tests of a block with these indices, each with its comparison."""
    return Contrasts(
        context=block.context[tests],
        concept=block.concept[tests],
        sides=sides,
        with_concept=counts_of_sides(block.with_concept, tests, *sides),
        lists=counts_of_sides(block.lists, tests, *sides),
    )


def counts_of_sides(
    counts: Floats, rows: Index | slice, identity: Index | int, against: Index | int
) -> Floats:
    """Return the counts of an identity and of the identity it is compared with (EVERYONE: all others).

    Parameters
    ----------
    counts
        Shape (N, K, S).
    rows, identity, against
        R rows of N, with the identities to compare.

    Returns
    -------
    Floats
        Shape (R, S, 2).
    """
    of_identity = counts[rows, identity]
    of_others = counts[rows, against]
    everyone = np.atleast_1d(against)[:, None] == EVERYONE
    if everyone.any():
        totals = counts.sum(axis=1)
        of_others = np.where(everyone, totals[rows] - of_identity, of_others)
    return np.stack([of_identity, of_others], axis=2)
