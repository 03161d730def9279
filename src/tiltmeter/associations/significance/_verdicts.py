"""Which concepts are associations, and of whom, by each definition; on arrays, so that shuffled identities go the same way.

Counts come as (T, K, S): T tests, K identities, S strata within which identities are compared: one, or all contexts for a test over
all of them. An identity without a list anywhere takes no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiltmeter.associations.significance._counts import Cells, strata_of
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean
from tiltmeter.stats import benjamini_hochberg, greater, independence_p, stratified_greater

__all__ = [
    "DEFAULT",
    "DEFINITIONS",
    "RAW",
    "Block",
    "Standing",
    "Tail",
    "Verdicts",
    "blocks_of",
    "check_definition",
    "one_sided",
    "others_of",
    "reported_of",
    "standing_of",
    "verdicts_of",
    "with_all",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Index = NDArray[np.intp]

DEFAULT, PAPER, CODE = "default", "paper", "badf-code"
DEFINITIONS = (DEFAULT, PAPER, CODE)
RAW = 0.05
"""p below which the published definitions report, and halves and leave-one-out checks of all definitions hold."""

BLOCK = 1 << 21  # counts in a block of tests: 16 MiB an array
EXACT = 1e-12  # sums over strata that are equal in exact arithmetic differ by less
OUT = -1.0  # stands below every rate


class Block(NamedTuple):
    """Tests that are made together."""

    context: Index  # (T,) place of the context; -1: over all contexts
    concept: Index  # (T,)
    held: Floats  # (T, K, S)
    lists: Floats  # (T, K, S)
    mentions: Floats  # (T, K)

    def of(self, tests: Index) -> Block:
        """Some of the tests, or tests repeated."""
        return Block(self.context[tests], self.concept[tests], self.held[tests], self.lists[tests], self.mentions[tests])


Tail = Callable[[Block, Index], Floats]


class Standing(NamedTuple):
    """Who has a concept most often. Identities without lists stand below all others."""

    height: Floats  # (T, K) rate; OUT: no lists
    first: Index  # (T,)
    second: Index  # (T,)
    tied: Bools  # (T,)
    compared: Index  # (T,) identities with lists


class Verdicts(NamedTuple):
    """What becomes of the tests of a block."""

    p: Floats  # (T,) one for each test; NaN: not tested
    score: Floats | None  # (T, K) by the published definitions; NaN where an identity takes no part
    credited: Bools  # (T, K) whose association it is, if the p- or q-value allows
    shown: Bools  # (T, K) rows that carry the p-value


def check_definition(definition: str) -> None:
    """Raise InputError unless `definition` is one of DEFINITIONS."""
    if definition not in DEFINITIONS:
        raise InputError(f"unknown definition {definition!r} of associations: {did_you_mean(definition, list(DEFINITIONS))}")


def blocks_of(cells: Cells, definition: str, minimum: int = 0, overall: bool = True) -> Iterator[Block]:
    """The tests within contexts, then (by the default definition, given `overall` and two contexts) those over all contexts.

    Lists in no context have tests of their own only where no list has one. Concepts in fewer than `minimum` lists are left out.
    """
    k, c = len(cells.identities), len(cells.contexts)
    if not len(cells.context):
        return
    within = np.ones(len(cells.context), dtype=bool)
    if c > 1 and cells.contexts[c - 1] is None:
        within = cells.context < c - 1
    tests = np.flatnonzero(within & (cells.held.sum(axis=1) >= minimum))
    for begin in range(0, tests.size, BLOCK // k):
        some = tests[begin : begin + BLOCK // k]
        context = cells.context[some]
        yield Block(context, cells.concept[some], cells.held[some][..., None], cells.lists[context][..., None], cells.mentions[context])
    if not overall or c < 2 or definition != DEFAULT:
        return
    concepts = cells.concept[np.diff(cells.concept, prepend=-1) > 0]
    concepts = concepts[np.bincount(cells.concept, cells.held.sum(axis=1))[concepts] >= minimum]
    for begin in range(0, concepts.size, BLOCK // (k * c)):
        yield with_all(cells, concepts[begin : begin + BLOCK // (k * c)])


def with_all(cells: Cells, concepts: Index) -> Block:
    """The tests of concepts over all contexts."""
    held = strata_of(cells, concepts)
    lists = np.broadcast_to(cells.lists.T, held.shape)
    mentions = np.broadcast_to(cells.mentions.sum(axis=0), held.shape[:2])
    return Block(np.full(len(concepts), -1), concepts, held, lists, mentions)


def standing_of(held: Floats, lists: Floats) -> Standing:
    """Rank identities by rate; of those that are tied, `first` is the one that comes first.

    Over several strata the rate is standardised: strata weigh as many lists as all identities have in them.
    """
    there = lists > 0
    if held.shape[2] == 1:
        # Rates equal as fractions are equal as floats, too: division rounds them correctly.
        height = np.divide(held, lists, out=np.full(held.shape, OUT), where=there)[..., 0]
    else:
        weight = lists.sum(axis=1, keepdims=True) * there
        rate = np.divide(held, lists, out=np.zeros(held.shape), where=there)
        whole = weight.sum(axis=2)
        height = np.divide((rate * weight).sum(axis=2), whole, out=np.full(whole.shape, OUT), where=whole > 0)
    rows = np.arange(len(held))
    first = height.argmax(axis=1)
    rest = height.copy()
    rest[rows, first] = 2 * OUT
    second = rest.argmax(axis=1)
    tied = height[rows, first] - height[rows, second] <= (0.0 if held.shape[2] == 1 else EXACT)
    return Standing(height, first, second, tied, there.any(axis=2).sum(axis=1))


def verdicts_of(block: Block, definition: str, minimum: int, tail: Tail | None = None) -> Verdicts:
    """Test each concept.

    By the default definition the p-value is that of the identity that stands highest, times the number of identities compared;
    by the published ones it is that of independence of identity and concept.

    Parameters
    ----------
    tail
        Computes `one_sided` of a block and an identity for each of its tests; for callers that can do so faster.
    """
    if definition == DEFAULT:
        return _default(block, minimum, tail or _tail)
    return _published(block, definition)


def _tail(block: Block, identity: Index) -> Floats:
    return one_sided(block.held, block.lists, identity)


def one_sided(held: Floats, lists: Floats, identity: Index) -> Floats:
    """(T, K, S) counts -> (T,) one-sided p that the rate of `identity` (T,) is greater than that of all others."""
    rows = np.arange(len(held))
    a, n = held[rows, identity], lists[rows, identity]
    c, m = held.sum(axis=1) - a, lists.sum(axis=1) - n
    return greater(a[:, 0], n[:, 0], c[:, 0], m[:, 0]) if held.shape[2] == 1 else stratified_greater(a, n, c, m)


def others_of(held: Floats, lists: Floats) -> tuple[Floats, Floats]:
    """Counts and lists of all other identities together, beside each."""
    return held.sum(axis=1, keepdims=True) - held, lists.sum(axis=1, keepdims=True) - lists


def _default(block: Block, minimum: int, tail: Tail) -> Verdicts:
    standing = standing_of(block.held, block.lists)
    tested = (standing.compared > 1) & (block.held.sum(axis=(1, 2)) >= minimum)
    p = np.full(len(tested), np.nan)
    chosen = np.flatnonzero(tested)
    single = tail(block.of(chosen), standing.first[chosen])
    p[chosen] = np.minimum(single * standing.compared[chosen], 1.0)
    top = np.zeros(standing.height.shape, dtype=bool)
    top[chosen, standing.first[chosen]] = True
    return Verdicts(p, None, top & ~standing.tied[:, None], top)


def _published(block: Block, definition: str) -> Verdicts:
    held, lists = block.held[..., 0], block.lists[..., 0]
    there = lists > 0
    compared = (there.sum(axis=1) > 1)[:, None]
    divisor = lists if definition == PAPER else block.mentions
    known = there & compared & (divisor > 0)
    excess = np.where(there, held - _least_other(np.where(there, held, np.inf)), 0.0)
    score = np.divide(np.maximum(excess, 0.0), divisor, out=np.full(held.shape, np.nan), where=known)
    p = np.where(compared[:, 0], independence_p(held, lists), np.nan)
    return Verdicts(p, score, (np.nan_to_num(score) > 0), there & compared)


def _least_other(held: Floats) -> Floats:
    """The least held of the other identities, beside each (T, K)."""
    ordered = np.sort(held, axis=1)
    return np.where(held == ordered[:, :1], ordered[:, 1:2], ordered[:, :1])


def reported_of(verdicts: list[Verdicts], definition: str, q: float) -> tuple[list[Floats], list[Bools]]:
    """q-values (T,) and associations (T, K) of all blocks, which are one family."""
    sizes = np.cumsum([len(one.p) for one in verdicts])[:-1]
    family = np.concatenate([one.p for one in verdicts]) if verdicts else np.zeros(0)
    adjusted = np.split(benjamini_hochberg(family), sizes) if verdicts else []
    limit = adjusted if definition == DEFAULT else [one.p for one in verdicts]
    level = q if definition == DEFAULT else RAW
    return adjusted, [one.credited & (np.nan_to_num(p, nan=1.0) < level)[:, None] for one, p in zip(verdicts, limit, strict=True)]
