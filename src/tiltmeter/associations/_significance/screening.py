"""Screening of shuffles: in which of them the test of independent lists selects any concept.

Shuffling identities among the lists of a context keeps the number of lists of each identity and the number of
lists with each concept. So the p-value of an identity against all others depends only on the number of its
lists with the concept, and is computed once for each number. Tests with the same margins share it.

The dimensions are T tests, K identities, S strata, L lists, B shuffles and H hits: combinations of a test, an
identity and a shuffle whose p-value is below LEVEL. A cell is a test and an identity, test * K + identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.associations._definitions import AssociationDefinition
from tiltmeter.associations._significance.comparisons import CountBlock
from tiltmeter.associations._significance.counts import LEVEL, can_compare
from tiltmeter.associations._significance.incidence import Incidence, summed
from tiltmeter.stats import greater, stratified_greater

NUMBERS_AT_ONCE: Final = 1 << 23
"""Maximum number of cells or assignments of lists that are held together; an array takes 64 MiB."""


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
            The identity of each list in each shuffle, shape (B, L).
        """
        return self._selects([tests.hits(labels) for tests in self._blocks], len(labels))

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
        for shuffle, selects in enumerate(self._selects(hits, len(labels))):
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
        self._lists, self._first_cells = _pairs_of_tests(incidence, block)
        self._p_values = _PValues(block)
        self._smallest = self._p_values.smallest_numbers(self.tested.ravel())  # (T * K,)

    def hits(self, labels: Index) -> _Hits:
        """Return the hits in shuffles, whose labels have the shape (B, L)."""
        identities = self.tested.shape[1]
        cells_of_shuffles, numbers_of_shuffles = [], []
        for identity_of_lists in labels:
            cells_of_pairs = self._first_cells + identity_of_lists[self._lists]
            numbers = np.bincount(cells_of_pairs, minlength=len(self._smallest))
            cells = np.flatnonzero(numbers >= self._smallest)
            cells_of_shuffles.append(cells)
            numbers_of_shuffles.append(numbers[cells])
        sizes = [len(cells) for cells in cells_of_shuffles]
        cells = np.concatenate(cells_of_shuffles)
        p = self._p_values.of(cells, np.concatenate(numbers_of_shuffles))
        test, identity = np.divmod(cells, identities)
        return _Hits(test, identity, np.repeat(np.arange(len(labels)), sizes), p)


class _PValues:
    """p-values of numbers of lists with a concept, by cell.

    Cells with the same margins are of one kind. The p-value of a number in a kind is computed once.
    """

    def __init__(self, block: CountBlock) -> None:
        with_concept = block.with_concept.sum(axis=1)  # (T, S)
        margins_of_tests = np.column_stack([block.context, with_concept])
        _, first, kind_of_test = np.unique(margins_of_tests, axis=0, return_index=True, return_inverse=True)
        lists = block.lists[first]
        kinds_of_tests, identities, strata = lists.shape
        margins_of_cells = np.concatenate(
            [
                lists,
                np.broadcast_to(lists.sum(axis=1, keepdims=True), lists.shape),
                np.broadcast_to(with_concept[first, None], lists.shape),
            ],
            axis=2,
        )
        kinds, kind = np.unique(margins_of_cells.reshape(-1, 3 * strata), axis=0, return_inverse=True)
        self._of_identity, self._all, self._with_concept = np.split(kinds, 3, axis=1)
        self._kind = kind.reshape(kinds_of_tests, identities)[kind_of_test].ravel()  # (T * K,)
        self._numbers = int(self._all.sum(axis=1).max(initial=0)) + 1  # possible numbers of lists
        self._known = np.zeros(0, dtype=np.intp)  # kind * numbers + number, in ascending order
        self._p_of_known = np.zeros(0)

    def of(self, cells: Index, numbers: Index) -> Floats:
        """Return the p-values of the numbers of lists with the concept in cells, in all strata together."""
        wanted, place = np.unique(self._kind[cells] * self._numbers + numbers, return_inverse=True)
        new = np.setdiff1d(wanted, self._known, assume_unique=True)
        p_of_new = self._p(*np.divmod(new, self._numbers))
        keys = np.concatenate([self._known, new])
        order = np.argsort(keys)
        self._known = keys[order]
        self._p_of_known = np.concatenate([self._p_of_known, p_of_new])[order]
        p: Floats = self._p_of_known[np.searchsorted(self._known, wanted)]
        return p[place]

    def smallest_numbers(self, tested: Booleans) -> Index:
        """Return the smallest number of lists with the concept that gives p < LEVEL in each cell.

        If there is none, or the cell is not `tested`, it is larger than any number. p falls as the number
        rises, so that the number is found by bisection.
        """
        lowest, highest = self._ends(np.arange(len(self._all)))
        above = highest.sum(axis=1).astype(np.intp) + 1
        below = lowest.sum(axis=1).astype(np.intp)  # p = 1
        impossible = above.copy()
        open_kinds = np.flatnonzero(above - below > 1)
        while len(open_kinds):
            middle = (above[open_kinds] + below[open_kinds]) // 2
            is_small = self._p(open_kinds, middle) < LEVEL
            above[open_kinds] = np.where(is_small, middle, above[open_kinds])
            below[open_kinds] = np.where(is_small, below[open_kinds], middle)
            open_kinds = open_kinds[above[open_kinds] - below[open_kinds] > 1]
        smallest = np.where(above < impossible, above, self._numbers)
        return np.where(tested, smallest[self._kind], self._numbers)

    def _p(self, kinds: Index, numbers: Index) -> Floats:
        """Return the p-values of numbers of lists with the concept.

        They depend on the sum over strata only, so that any counts with this sum serve.
        """
        lowest, highest = self._ends(kinds)
        room = highest - lowest
        room_before = np.cumsum(room, axis=1) - room
        excess = numbers - lowest.sum(axis=1)
        counts = lowest + np.clip(excess[:, None] - room_before, 0, room)
        sides = (
            counts,
            self._of_identity[kinds],
            self._with_concept[kinds] - counts,
            self._all[kinds] - self._of_identity[kinds],
        )
        if counts.shape[1] == 1:
            return greater(*(count[:, 0] for count in sides))
        return stratified_greater(*sides)

    def _ends(self, kinds: Index) -> tuple[Floats, Floats]:
        """Return the smallest and the largest possible number of lists with the concept by stratum."""
        of_identity, with_concept = self._of_identity[kinds], self._with_concept[kinds]
        of_others = self._all[kinds] - of_identity
        return np.maximum(with_concept - of_others, 0), np.minimum(of_identity, with_concept)


def _pairs_of_tests(incidence: Incidence, block: CountBlock) -> tuple[Index, Index]:
    """Return the list of each pair of a list and a concept that is tested, and the first cell of its test."""
    contexts = len(incidence.cells.contexts)
    identities = block.lists.shape[1]
    test_of_pair = np.full(len(incidence.cells.concepts) * contexts, -1)
    tests = np.arange(len(block.concept))
    if (block.context < 0).any():
        every_context = np.arange(contexts)
        test_of_pair[block.concept[:, None] * contexts + every_context] = tests[:, None]
    else:
        test_of_pair[block.concept * contexts + block.context] = tests
    test = test_of_pair[incidence.pair_test]
    is_tested = test >= 0
    return incidence.pair_list[is_tested], test[is_tested] * identities
