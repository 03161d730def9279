"""Screening of shuffles: in which of them the test of independent lists selects any concept.

Shuffling identities among the lists of a context keeps the number of lists of each identity and the number of
lists with each concept. So the p-value of an identity against all others depends only on the number of its
lists with the concept. These numbers are, for many shuffles together, the product of a sparse matrix (tests
by lists) and the assignment of lists to identities, and the p-value of each number is computed once.

The dimensions are T tests, K identities, S strata, L lists, B shuffles and H hits: combinations of a test, an
identity and a shuffle whose p-value is below LEVEL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import scipy  # submodules are loaded on first use

from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.associations._definitions import AssociationDefinition
from tiltmeter.associations._significance.comparisons import CountBlock
from tiltmeter.associations._significance.counts import LEVEL, can_compare
from tiltmeter.associations._significance.incidence import Incidence, summed
from tiltmeter.stats import greater, stratified_greater

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NUMBERS_AT_ONCE: Final = 1 << 23
"""Maximum number of numbers or assignments of lists that are held together; an array takes 32 or 64 MiB."""


def can_screen(rules: AssociationDefinition, by: str, against: str, reference: str | None) -> bool:
    """Return whether the shuffles of a study can be screened.

    They can if identities are shuffled among lists and each is compared with all others, in the default
    definition. The parameters are those of `shuffled_counts`.
    """
    is_against_everyone = against == "rest" and reference is None
    return by == "list" and is_against_everyone and not rules.published


class Screening:
    """The tests of a study, prepared for many shuffles.

    Parameters
    ----------
    incidence
        The lists with their real identities.
    blocks
        All tests, with the real numbers.
    minimum
        See `Method`.
    """

    def __init__(self, incidence: Incidence, blocks: Sequence[CountBlock], minimum: int) -> None:
        identities = len(incidence.cells.identities)
        self._blocks = [_Tests(incidence, block, minimum) for block in blocks]
        concept = np.concatenate([block.concept for block in blocks] or [np.zeros(0, dtype=np.intp)])
        concepts, self._family = np.unique(concept, return_inverse=True)
        tested = [tests.tested.sum(axis=1) for tests in self._blocks] or [np.zeros(0)]
        self._tests_of_family = summed(self._family, (len(concepts),), np.concatenate(tested))
        self._families = float((self._tests_of_family > 0).sum())
        numbers_of_shuffle = max(len(concept) * identities, len(incidence.identity))
        self.shuffles_at_once = max(1, NUMBERS_AT_ONCE // numbers_of_shuffle)
        """Number of shuffles for which `selects` uses a limited amount of memory."""

    def selects(self, labels: Index) -> Booleans:
        """Return whether any concept is selected in each shuffle, shape (B,).

        Concepts are selected by the first step of `hierarchical_q`: the procedure of Benjamini and Hochberg
        on their p-values after Simes. P-values of LEVEL or more change neither, so that hits suffice.

        Parameters
        ----------
        labels
            The identity of each list in each shuffle, shape (L, B).
        """
        return self._selects([tests.hits(labels) for tests in self._blocks], labels.shape[1])

    def screened(self, labels: Index) -> list[list[Booleans] | None]:
        """Return for each shuffle the tests of each block that may be selected; None if no concept is.

        The tests are arrays of the shape (T, K). Those that are no hit have a p-value of LEVEL or more.

        Parameters
        ----------
        labels
            As for `selects`.
        """
        hits = [tests.hits(labels) for tests in self._blocks]
        possible: list[list[Booleans] | None] = []
        for shuffle, selects in enumerate(self._selects(hits, labels.shape[1])):
            if not selects:
                possible.append(None)
                continue
            masks = []
            for tests, hits_of_block in zip(self._blocks, hits, strict=True):
                of_shuffle = hits_of_block.shuffle == shuffle
                mask = np.zeros(tests.tested.shape, dtype=bool)
                mask[hits_of_block.test[of_shuffle], hits_of_block.identity[of_shuffle]] = True
                masks.append(mask)
            possible.append(masks)
        return possible

    def _selects(self, hits: Sequence[_Hits], shuffles: int) -> Booleans:
        """Return `selects`, given the hits of each block."""
        selects = np.zeros(shuffles, dtype=bool)
        if not self._blocks:
            return selects
        first = np.cumsum([0, *(len(tests.tested) for tests in self._blocks)])[:-1]
        tests = [start + of_block.test for start, of_block in zip(first, hits, strict=True)]
        families = len(self._tests_of_family)
        shuffle_of_hits = np.concatenate([of_block.shuffle for of_block in hits])
        p_of_hits = np.concatenate([of_block.p for of_block in hits])
        family_in_shuffle = shuffle_of_hits * families + self._family[np.concatenate(tests)]
        group, simes = _least_adjusted(
            p_of_hits, family_in_shuffle, self._tests_of_family[family_in_shuffle % families]
        )
        shuffle, adjusted = _least_adjusted(simes, group // families, np.full(len(group), self._families))
        selects[shuffle] = adjusted < LEVEL
        return selects


def _least_adjusted(p: Floats, group: Index, size: Floats) -> tuple[Index, Floats]:
    """Return the distinct groups, and the smallest p-value of each adjusted after Benjamini and Hochberg.

    Parameters
    ----------
    p, group, size
        p-values below LEVEL, the group of each, and the number of all p-values of this group, (N,) each.
    """
    order = np.lexsort((p, group))
    groups, first, members = np.unique(group[order], return_index=True, return_counts=True)
    if not len(groups):
        return groups, np.zeros(0)
    rank = np.arange(1, len(order) + 1) - np.repeat(first, members)
    adjusted = p[order] * size[order] / rank
    return groups, np.minimum.reduceat(adjusted, first)


class _Hits(NamedTuple):
    """Tests of an identity in a shuffle with a p-value below LEVEL."""

    test: Index  # (H,)
    identity: Index  # (H,)
    shuffle: Index  # (H,)
    p: Floats  # (H,)


class _Tests:
    """The tests of a block, with the smallest numbers of lists that give a p-value below LEVEL."""

    def __init__(self, incidence: Incidence, block: CountBlock, minimum: int) -> None:
        has_support = block.with_concept.sum(axis=(1, 2)) >= minimum
        self.tested: Booleans = can_compare(block.compared) & has_support[:, None]  # (T, K)
        self._matrix = _lists_of_tests(incidence, block)
        self._shape = self.tested.shape
        self._of_identity = block.lists.reshape(-1, block.lists.shape[2])  # (T * K, S)
        self._all = np.repeat(block.lists.sum(axis=1), self._shape[1], axis=0)
        self._with_concept = np.repeat(block.with_concept.sum(axis=1), self._shape[1], axis=0)
        self._smallest = self._smallest_numbers()

    def hits(self, labels: Index) -> _Hits:
        """Return the hits in shuffles, whose labels have the shape (L, B)."""
        identities = self._shape[1]
        cell_of_hits, shuffle_of_hits, number_of_hits = [], [], []
        for identity in range(identities):
            numbers = self._matrix @ (labels == identity).astype(np.float32)  # (T, B)
            is_hit = numbers >= self._smallest[:, identity, None]
            test, shuffle = np.nonzero(is_hit)
            cell_of_hits.append(test * identities + identity)
            shuffle_of_hits.append(shuffle)
            number_of_hits.append(numbers[is_hit].astype(np.intp))
        cell = np.concatenate(cell_of_hits)
        lists = len(labels) + 1
        numbers_of_cells, place = np.unique(
            cell * lists + np.concatenate(number_of_hits), return_inverse=True
        )
        p = self._p(*np.divmod(numbers_of_cells, lists))
        test_of_hits, identity_of_hits = np.divmod(cell, identities)
        return _Hits(test_of_hits, identity_of_hits, np.concatenate(shuffle_of_hits), p[place])

    def _smallest_numbers(self) -> Floats:
        """Return the smallest number of lists with the concept that gives p < LEVEL, shape (T, K).

        Infinity if there is none. p falls as the number rises, so that the number is found by bisection.
        """
        lowest, highest = self._ends()
        above = highest.sum(axis=1).astype(np.intp) + 1
        below = lowest.sum(axis=1).astype(np.intp)  # p = 1
        impossible = above.copy()
        open_cells = np.flatnonzero(self.tested.ravel() & (above - below > 1))
        while len(open_cells):
            middle = (above[open_cells] + below[open_cells]) // 2
            is_small = self._p(open_cells, middle) < LEVEL
            above[open_cells] = np.where(is_small, middle, above[open_cells])
            below[open_cells] = np.where(is_small, below[open_cells], middle)
            open_cells = open_cells[above[open_cells] - below[open_cells] > 1]
        has_number = self.tested.ravel() & (above < impossible)
        return np.where(has_number, above, np.inf).reshape(self._shape)

    def _p(self, cells: Index, numbers: Index) -> Floats:
        """Return the p-values of numbers of lists with the concept, in all strata together.

        They depend on the sum over strata only, so that any counts with this sum serve.

        Parameters
        ----------
        cells
            Tests and identities, test * K + identity.
        """
        lowest, highest = self._ends(cells)
        room = highest - lowest
        room_before = np.cumsum(room, axis=1) - room
        excess = numbers - lowest.sum(axis=1)
        counts = lowest + np.clip(excess[:, None] - room_before, 0, room)
        sides = (
            counts,
            self._of_identity[cells],
            self._with_concept[cells] - counts,
            self._all[cells] - self._of_identity[cells],
        )
        if counts.shape[1] == 1:
            return greater(*(count[:, 0] for count in sides))
        return stratified_greater(*sides)

    def _ends(self, cells: Index | slice = slice(None)) -> tuple[Floats, Floats]:
        """Return the smallest and the largest possible number of lists with the concept by stratum."""
        of_identity, with_concept = self._of_identity[cells], self._with_concept[cells]
        of_others = self._all[cells] - of_identity
        return np.maximum(with_concept - of_others, 0), np.minimum(of_identity, with_concept)


def _lists_of_tests(incidence: Incidence, block: CountBlock) -> csr_array:
    """Return which lists contain the concept of each test, in its contexts, as a matrix (T, L) of 0 and 1."""
    contexts = len(incidence.cells.contexts)
    test_of_pair = np.full(len(incidence.cells.concepts) * contexts, -1)
    tests = np.arange(len(block.concept))
    if (block.context < 0).any():
        every_context = np.arange(contexts)
        test_of_pair[block.concept[:, None] * contexts + every_context] = tests[:, None]
    else:
        test_of_pair[block.concept * contexts + block.context] = tests
    test = test_of_pair[incidence.pair_test]
    is_tested = test >= 0
    places = (test[is_tested], incidence.pair_list[is_tested])
    shape = (len(tests), len(incidence.identity))
    return scipy.sparse.csr_array((np.ones(is_tested.sum(), dtype=np.float32), places), shape=shape)
