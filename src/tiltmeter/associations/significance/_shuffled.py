"""What chance alone gives: the same lists under identities dealt at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.associations.significance._counts import Cells, Incidence, cells_of, incidence_of, place_of
from tiltmeter.associations.significance._described import context_names
from tiltmeter.associations.significance._verdicts import (
    DEFAULT,
    Block,
    blocks_of,
    check_definition,
    one_sided,
    others_of,
    reported_of,
    standing_of,
    verdicts_of,
)
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean
from tiltmeter.stats import stratified_rate_difference

__all__ = ["permutation_p", "shuffled_counts"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

UNITS = ("list", "descriptor")
ENOUGH = 20
EQUAL = 1e-12  # effects that are equal in exact arithmetic differ by less


def shuffled_counts(
    lists: pl.DataFrame,
    mentions: pl.DataFrame,
    *,
    definition: str = "default",
    runs: int = 20,
    seed: int = 123,
    minimum: int = 5,
    q: float = 0.05,
    by: str = "list",
    without: pl.DataFrame | None = None,
    observed: int | None = None,
) -> NDArray[np.int64]:
    """How many associations are reported when identities mean nothing: they are shuffled, and everything is tested again.

    Parameters
    ----------
    lists, mentions, definition, minimum, q
        As for `find_associations`.
    runs
        Number of shuffles.
    seed
        The same seed gives the same shuffles.
    by
        "list": identities are exchanged among the lists of a context and stratum. "descriptor": among whole descriptors of a
        stratum, all lists of a descriptor together, so that what hangs on single descriptors counts as chance, too.
    without
        `concept` and `identity` of associations that are tested like all others and never counted, as those that belong to an identity by
        definition are not.
    observed
        How many associations there are; when ENOUGH shuffles gave as many, no more are made: the p-value is their share, and it is known
        well enough (Besag and Clifford 1991).

    Returns
    -------
    numpy.ndarray
        (runs,) numbers of associations, fewer where `observed` was reached often enough.

    Raises
    ------
    InputError
        As for `find_associations`, or a list has no descriptor and `by` needs one.
    """
    check_definition(definition)
    incidence = incidence_of(lists, mentions)
    if definition == DEFAULT:
        incidence = _kept(incidence, _supported(incidence.cells, minimum))
    counted = _counted(incidence.cells, without)
    tail = _Remembered(fixed=by == "list")
    known: dict[bytes, int] = {}
    counts, reached = [], 0
    for labels in _deals(incidence, by, runs, seed):
        deal = labels.tobytes() if by == "descriptor" else b""  # few descriptors can be dealt in few ways
        if deal not in known or not deal:
            blocks = list(blocks_of(cells_of(incidence, labels), definition, minimum))
            found = reported_of([verdicts_of(block, definition, minimum, tail) for block in blocks], definition, q)[1]
            known[deal] = sum(int((mine & counted[block.concept]).sum()) for block, mine in zip(blocks, found, strict=True))
        counts.append(known[deal])
        reached += observed is not None and known[deal] >= observed
        if reached == ENOUGH:
            break
    return np.array(counts, dtype=np.int64)


def _counted(cells: Cells, without: pl.DataFrame | None) -> NDArray[np.bool_]:
    """Whether associations of each concept and identity count; shape (concepts, identities)."""
    counted = np.ones((len(cells.concepts), len(cells.identities)), dtype=bool)
    if without is not None:
        places = without.select(place_of(without["concept"], cells.concepts), place_of(without["identity"], cells.identities)).drop_nulls()
        counted[places["concept"].to_numpy(), places["identity"].to_numpy()] = False
    return counted


class _Remembered:
    """`one_sided`, computed once for each table of counts that comes up: shuffling brings the same small counts again and again.

    Parameters
    ----------
    fixed
        Shuffling leaves the lists of each identity in each context as many as they are. The p-value over all contexts then follows from
        the concept, the identity and the sum of its counts.
    """

    def __init__(self, *, fixed: bool) -> None:
        self._fixed = fixed
        self._known: dict[bool, tuple[Index, Floats]] = {}

    def __call__(self, block: Block, identity: Index) -> Floats:
        held, lists, strata = block.held, block.lists, block.held.shape[2]
        if strata > 1 and not self._fixed:
            return one_sided(held, lists, identity)
        rows = np.arange(len(held))
        own, whole = held[rows, identity].sum(axis=1), held.sum(axis=(1, 2))
        size, every = lists[rows, identity].sum(axis=1), lists.sum(axis=(1, 2))
        parts = (block.concept, identity, own) if strata > 1 else (own, whole, size, every)
        keys = np.zeros(len(held), dtype=np.intp)
        for part in parts:
            keys = keys * (1 << 20 if strata > 1 else 1 << 15) + part.astype(np.intp)
        if strata == 1 and every.max(initial=0) >= 1 << 15:
            return one_sided(held, lists, identity)
        known, values = self._known.get(strata > 1, (np.zeros(0, dtype=np.intp), np.zeros(0)))
        fresh, first = np.unique(keys, return_index=True)
        new = ~np.isin(fresh, known, assume_unique=True)
        if new.any():
            some = first[new]
            added = one_sided(held[some], lists[some], identity[some])
            known, values = np.concatenate([known, fresh[new]]), np.concatenate([values, added])
            order = np.argsort(known)
            self._known[strata > 1] = known, values = known[order], values[order]
        return values[np.searchsorted(known, keys)]


def permutation_p(
    lists: pl.DataFrame, mentions: pl.DataFrame, concepts: Sequence[str], *, by: str = "descriptor", runs: int = 999, seed: int = 123
) -> pl.DataFrame:
    """Permutation test of chosen concepts: is the greatest effect greater than under shuffled identities?

    Unlike the tests of `find_associations`, with `by="descriptor"` it does not take the lists of one descriptor for independent.
    With few descriptors there are few different shuffles, and no p-value can be smaller than their number allows.

    Parameters
    ----------
    lists, mentions
        As for `find_associations`.
    concepts
        Which to test.
    by, runs, seed
        As for `shuffled_counts`.

    Returns
    -------
    pl.DataFrame
        `context` (null: over all), `concept`, `identity` (the one with the highest rate), `effect` (the greatest rate difference of an
        identity against all others), `p`: (1 + shuffles with an effect as great) / (1 + runs).

    Raises
    ------
    InputError
        As for `shuffled_counts`, or no list has one of the concepts.
    """
    incidence = incidence_of(lists, mentions)
    known = incidence.cells.concepts
    for concept in concepts:
        if concept not in known:
            raise InputError(f"no list has the concept {concept!r}: {did_you_mean(concept, known.to_list())}")
    wanted = np.flatnonzero(known.is_in(list(concepts)).to_numpy())
    incidence = _kept(incidence, np.isin(incidence.cells.concept, wanted))
    blocks = list(blocks_of(incidence.cells, DEFAULT))
    effect = np.concatenate([_greatest(block) for block in blocks])
    reached = np.zeros(effect.shape)
    for labels in _deals(incidence, by, runs, seed):
        shuffled = np.concatenate([_greatest(block) for block in blocks_of(cells_of(incidence, labels), DEFAULT)])
        # Where a shuffle leaves nothing to compare it shows no effect.
        reached += np.nan_to_num(shuffled) >= effect - EQUAL
    cells = incidence.cells
    return pl.DataFrame(
        {
            "context": pl.concat([context_names(cells, block.context) for block in blocks]),
            "concept": cells.concepts.gather(np.concatenate([block.concept for block in blocks])),
            "identity": cells.identities.gather(np.concatenate([standing_of(block.held, block.lists).first for block in blocks])),
            "effect": effect,
            "p": np.where(np.isnan(effect), np.nan, (1 + reached) / (1 + runs)),
        }
    ).with_columns(pl.col("effect", "p").fill_nan(None))


def _greatest(block: Block) -> Floats:
    """(T,) the greatest effect of an identity against all others; NaN where there is nothing to compare."""
    effect = stratified_rate_difference(block.held, block.lists, *others_of(block.held, block.lists)).estimate
    greatest = np.where(np.isnan(effect), -np.inf, effect).max(axis=1)
    return np.where(np.isneginf(greatest), np.nan, greatest)


def _supported(cells: Cells, minimum: int) -> NDArray[np.bool_]:
    """Tests that can be made, within a context or over all of them, however identities are dealt."""
    total = cells.held.sum(axis=1)
    enough: NDArray[np.bool_] = np.bincount(cells.concept, total)[cells.concept] >= minimum if total.size else total >= minimum
    return enough


def _kept(incidence: Incidence, tests: NDArray[np.bool_]) -> Incidence:
    """Only some of the tests; mentions stay as they were."""
    cells, pairs = incidence.cells, tests[incidence.pair_test]
    number = np.cumsum(tests) - 1
    fewer = cells._replace(context=cells.context[tests], concept=cells.concept[tests], held=cells.held[tests])
    return incidence._replace(cells=fewer, pair_list=incidence.pair_list[pairs], pair_test=number[incidence.pair_test[pairs]])


def _deals(incidence: Incidence, by: str, runs: int, seed: int) -> Iterator[Index]:
    """Identities (L,) dealt at random, `runs` times."""
    if by not in UNITS:
        raise InputError(f"identities cannot be shuffled by {by!r}: {did_you_mean(by, list(UNITS))}")
    if by == "list":
        unit = np.arange(len(incidence.identity))
        group = incidence.context * (incidence.stratum.max(initial=0) + 1) + incidence.stratum
        identity = incidence.identity
    else:
        if (incidence.descriptor < 0).any():
            raise InputError("identities can be shuffled by descriptor only where every list has a descriptor")
        whole = incidence.stratum * len(incidence.descriptors) + incidence.descriptor
        clusters, first, unit = np.unique(whole, return_index=True, return_inverse=True)
        group, identity = clusters // len(incidence.descriptors), incidence.identity[first]
    generator = np.random.Generator(np.random.PCG64(seed))
    ordered = np.argsort(group, kind="stable")
    for _ in range(runs):
        dealt = np.empty_like(identity)
        dealt[ordered] = identity[np.lexsort((generator.random(len(group)), group))]
        yield dealt[unit]
