"""What an association stands on: both halves of the repetitions, and the descriptors of its identity.

All of it is worked out for the rows that are reported only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.associations._tables import ASSOCIATIONS
from tiltmeter.associations.significance._counts import Incidence, cells_of, strata_of
from tiltmeter.associations.significance._verdicts import DEFAULT, RAW, Block, one_sided, others_of, verdicts_of
from tiltmeter.stats import stratified_rate_difference

__all__ = ["BACKING", "backing_of", "halves_of"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Index = NDArray[np.intp]

BACKING = list(ASSOCIATIONS)[list(ASSOCIATIONS).index("reported") + 1 :]
"""The columns of ASSOCIATIONS that `backing_of` gives."""

TURNS = np.array([False, True, True, False])
"""ABBA: of four repetitions the outer two go to one half and the inner two to the other."""


class _Rows(NamedTuple):
    """Reported rows: their tests as counted in all lists, and whose they are."""

    block: Block
    identity: Index  # (R,)
    test: Index  # (R,) place among the tests within contexts; -1: over all contexts


class _Carriers(NamedTuple):
    """Descriptors of the identity of a row whose lists hold the concept."""

    row: Index  # (E,)
    descriptor: Index  # (E,) place among the descriptors
    held: Floats  # (E, S) lists with the concept
    lists: Floats  # (E, S) all lists
    beside: Index  # (E,) descriptors of the identity, itself included


def halves_of(incidence: Incidence, seed: int) -> Index:
    """Deal the repetitions to two halves: (L,) 0 or 1; -1 where a list has no repetition.

    Whole repetitions are dealt, so that both lists of a story lie in one half. Four by four they go ABBA or BAAB, as the seed
    tosses: a design that exchanges the order of the names from one repetition to the next, or half-way, is balanced in both.
    """
    rank = incidence.repetition
    blocks = rank.max(initial=0) // 4 + 1
    tossed = np.random.Generator(np.random.PCG64(seed)).random(blocks) < 0.5
    return np.where(rank < 0, -1, (TURNS[rank % 4] ^ tossed[rank // 4]).astype(np.intp))


def backing_of(incidence: Incidence, block: Block, rows: tuple[Index, Index], definition: str, halves: Index) -> pl.DataFrame:
    """The columns BACKING for the given rows of a block: tests and identities, (R,) each.

    An association is confirmed where the identity has the concept more often than all others with one-sided p < 0.05 in both
    halves, each of which is a discovery that the other repeats; null where a half lacks lists of either side. It rests on the
    one descriptor without whose lists it is gone (for the default definition: effect above 0 and p < 0.05 no longer hold, the
    p-value times the number of identities as in the test; for the published ones: score above 0 and p < 0.05); null where no
    descriptor alone, or more than one, has that power, or the identity has a single one.
    """
    test, identity = rows
    cells = incidence.cells
    keys = cells.concept * len(cells.contexts) + cells.context
    within = block.context[test] >= 0
    wanted = block.concept[test] * len(cells.contexts) + block.context[test]
    chosen = _Rows(block.of(test), identity, np.where(within, np.searchsorted(keys, wanted), -1))
    first, second = (_half(incidence, chosen, halves == half) for half in (0, 1))
    told = ~np.isnan(first[0]) & ~np.isnan(second[0])
    confirmed = (np.nan_to_num(first[1], nan=1.0) < RAW) & (np.nan_to_num(second[1], nan=1.0) < RAW)
    numbers = {"effect_first": first[0], "p_first": first[1], "effect_second": second[0], "p_second": second[1]}
    told_halves = pl.DataFrame(numbers).with_columns(pl.all().fill_nan(None), confirmed=pl.when(pl.Series(told)).then(pl.Series(confirmed)))
    whole = pl.concat([told_halves, _descriptors(incidence, chosen, definition)], how="horizontal")
    return whole.select(pl.col(name).cast(ASSOCIATIONS[name]) for name in BACKING)


def _half(incidence: Incidence, rows: _Rows, chosen: Bools) -> tuple[Floats, Floats]:
    """Effect and one-sided p in the chosen lists; NaN where there is nothing to compare."""
    cells = cells_of(incidence, incidence.identity, chosen)
    if rows.block.held.shape[2] == 1:
        held, lists = cells.held[rows.test][..., None], cells.lists[rows.block.context][..., None]
    else:
        held = strata_of(cells, rows.block.concept)
        lists = np.broadcast_to(cells.lists.T, held.shape)
    return _compared(held, lists, rows.identity)


def _descriptors(incidence: Incidence, rows: _Rows, definition: str) -> pl.DataFrame:
    """Per row: the descriptors of its identity that carry the concept (null where none is known), and the one it rests on."""
    carriers = _carriers(incidence, rows)
    gone = ~_stands_without(rows, carriers, definition)
    table = pl.DataFrame(
        {
            "row": carriers.row,
            "descriptor": incidence.descriptors["descriptor"].gather(carriers.descriptor),
            "count": carriers.held.sum(axis=1).astype(np.int64),
            "lists": carriers.lists.sum(axis=1).astype(np.int64),
            "gone": gone & (carriers.beside > 1),
        }
    ).sort("row", "count", "descriptor", descending=[False, True, False])
    alone = pl.col("descriptor").filter("gone")
    whole = table.group_by("row").agg(
        pl.struct("descriptor", "count", "lists").alias("descriptors"),
        pl.when(pl.col("gone").sum() == 1).then(alone.first()).alias("rests_on"),
    )
    every = pl.DataFrame({"row": np.arange(len(rows.identity))}, schema={"row": whole.schema["row"]})
    return every.join(whole, on="row", how="left", maintain_order="left").drop("row")


def _carriers(incidence: Incidence, rows: _Rows) -> _Carriers:
    """Only who carries the concept matters: without a descriptor that does not, the identity's rate is higher still."""
    cells, strata = incidence.cells, rows.block.held.shape[2]
    k, c, d = len(cells.identities), len(cells.contexts), len(incidence.descriptors)
    known = incidence.descriptor >= 0
    sizes = np.bincount(incidence.context[known] * d + incidence.descriptor[known], minlength=c * d).reshape(c, d).astype(np.float64)
    unit, pair_unit = (rows.test, incidence.pair_test) if strata == 1 else (rows.block.concept, cells.concept[incidence.pair_test])
    keys = unit * k + rows.identity
    order = np.argsort(keys)
    pair_keys = pair_unit * k + incidence.identity[incidence.pair_list]
    place = order[np.minimum(np.searchsorted(keys, pair_keys, sorter=order), len(keys) - 1)]
    mine = (keys[place] == pair_keys) & known[incidence.pair_list]
    descriptor, stratum = incidence.descriptor[incidence.pair_list[mine]], np.zeros(1, dtype=np.intp)
    if strata > 1:
        stratum = incidence.context[incidence.pair_list[mine]]
    entries, entry = np.unique(place[mine] * d + descriptor, return_inverse=True)
    held = np.bincount(entry * strata + stratum, minlength=len(entries) * strata).reshape(-1, strata).astype(np.float64)
    row, descriptor = np.divmod(entries, max(d, 1))
    lists = sizes[rows.block.context[row], descriptor][:, None] if strata == 1 else sizes[:, descriptor].T
    # How many descriptors the identity has where it is compared.
    named = (sizes[rows.block.context[row]] > 0) if strata == 1 else np.broadcast_to(sizes.sum(axis=0) > 0, (len(row), d))
    own = incidence.descriptors["identity"].to_numpy() == rows.identity[row][:, None]
    return _Carriers(row, descriptor, held, lists, (named & own).sum(axis=1))


def _stands_without(rows: _Rows, carriers: _Carriers, definition: str) -> Bools:
    """Whether the association is still one when the lists of a carrier are taken from its identity."""
    block = rows.block.of(carriers.row)
    held, lists = block.held.copy(), block.lists.copy()
    place = np.arange(len(carriers.row)), rows.identity[carriers.row]
    held[place] -= carriers.held
    lists[place] -= carriers.lists
    if definition == DEFAULT:
        compared = (lists > 0).any(axis=2).sum(axis=1)
        effect, p = _compared(held, lists, place[1])
        stands: Bools = (effect > 0) & (np.nan_to_num(p, nan=1.0) * compared < RAW)
    else:
        verdicts = verdicts_of(block._replace(held=held, lists=lists), definition, 0)
        stands = verdicts.credited[place] & (np.nan_to_num(verdicts.p, nan=1.0) < RAW)
    return stands


def _compared(held: Floats, lists: Floats, identity: Index) -> tuple[Floats, Floats]:
    """Effect and one-sided p of an identity (R,) in (R, K, S) counts; NaN where there is nothing to compare."""
    place = np.arange(len(identity)), identity
    others, others_lists = others_of(held, lists)
    effect = stratified_rate_difference(held[place], lists[place], others[place], others_lists[place]).estimate
    return effect, np.where(np.isnan(effect), np.nan, one_sided(held, lists, identity))
