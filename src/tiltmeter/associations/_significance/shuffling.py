"""Null distribution of associations: the same lists with shuffled identities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np
import polars as pl
from polars import DataFrame, Series

from tiltmeter._arrays import Booleans, Floats, Index, Integers
from tiltmeter.associations._definitions import DEFAULT, AssociationDefinition
from tiltmeter.associations._significance.comparisons import (
    CountBlock,
    blocks_of,
    comparisons_of,
    ranking_of,
)
from tiltmeter.associations._significance.counts import LEVEL, CountTest, Method, results_of
from tiltmeter.associations._significance.incidence import (
    Cells,
    Incidence,
    cells_of,
    context_names,
    incidence_of,
    only_concepts,
    place_of,
)
from tiltmeter.associations._significance.robust import ClusterTest, speaks_of_names, test_of
from tiltmeter.associations._significance.screening import Screening, can_screen
from tiltmeter.errors import InputError, check_known
from tiltmeter.stats import stratified_rate_difference

UNITS: Final = ("list", "descriptor")
"""What keeps its identity when identities are shuffled."""
ENOUGH: Final = 20
"""Number of shuffles with at least the observed number of associations after which shuffling stops."""
EQUAL: Final = 1e-12
"""Tolerance for effects that are equal in exact arithmetic."""


def shuffled_counts(
    lists: DataFrame,
    mentions: DataFrame,
    *,
    rules: AssociationDefinition = DEFAULT,
    runs: int = 20,
    seed: int = 123,
    minimum: int = 5,
    by: str = "list",
    without: DataFrame | None = None,
    observed: int | None = None,
    against: str = "rest",
    reference: str | None = None,
) -> Integers:
    """Count the associations reported after shuffling the identities, which gives the null distribution.

    Parameters
    ----------
    lists, mentions, rules, minimum, against, reference
        As for `find_associations`.
    runs
        Number of shuffles.
    seed
        The same seed gives the same shuffles.
    by
        "list": identities are permuted among the lists of a context and stratum. "descriptor": they are
        permuted among the descriptors of a stratum, with all lists of a descriptor together, so that effects
        of single descriptors count as chance, too.
    without
        `concept` and `identity` of associations that are tested but not counted, because the concept belongs
        to the identity by definition.
    observed
        Observed number of associations. Shuffling stops when ENOUGH shuffles reached it; the p-value is then
        their share, with sufficient precision (Besag and Clifford 1991).

    Returns
    -------
    numpy.ndarray
        Numbers of associations, shape (runs,), or shorter if shuffling stopped early.

    Raises
    ------
    InputError
        As for `find_associations`, or a list has no descriptor and `by` is "descriptor".
    """
    incidence = incidence_of(lists, mentions)
    if not rules.published:
        support = incidence.cells.with_concept.sum(axis=(1, 2))
        incidence = only_concepts(incidence, np.flatnonzero(support >= minimum))
    identities = incidence.cells.identities
    method = Method(
        rules=rules,
        minimum=minimum,
        test=CountTest(),
        compared=comparisons_of(identities, against, reference),
        level=1 - LEVEL,
    )
    is_counted = _without_excluded(incidence.cells, without)
    by_name = speaks_of_names(lists)
    known: dict[bytes, int] = {}  # few descriptors have few permutations, which are repeated
    counts: list[int] = []
    reached = 0
    shuffles = _shuffled_identities(incidence, by, runs, seed)
    if can_screen(rules, by, against, reference):
        screened = _screened(incidence, method, shuffles)
    else:
        screened = ((labels, _EVERY_TEST) for labels in shuffles)
    for labels, possible in screened:
        shuffled = replace(incidence, identity=labels)
        if possible is None:
            count = 0
        elif by == "descriptor":
            key = labels.tobytes()
            if key not in known:
                known[key] = _count_reported(shuffled, method, is_counted, by_name=by_name)
            count = known[key]
        else:
            count = _count_reported(shuffled, method, is_counted, by_name=by_name, possible=possible)
        counts.append(count)
        reached += observed is not None and count >= observed
        if reached == ENOUGH:
            break
    return np.array(counts, dtype=np.int64)


_EVERY_TEST: Final[Sequence[Booleans]] = ()
"""No test is ruled out."""


def _screened(
    incidence: Incidence, method: Method, shuffles: Iterator[Index]
) -> Iterator[tuple[Index, Sequence[Booleans] | None]]:
    """Yield the shuffled identities of the lists, and the tests of each block that may be selected.

    None if no association can be reported.
    """
    blocks = list(blocks_of(incidence.cells, method.rules, method.least_support))
    screening = Screening(incidence, blocks, method.minimum)
    while batch := list(islice(shuffles, screening.shuffles_at_once)):
        yield from zip(batch, screening.screened(np.stack(batch)), strict=True)


def _without_excluded(cells: Cells, excluded: DataFrame | None) -> Booleans:
    """Return whether an association of a concept and an identity is counted, shape (X, K)."""
    is_counted = np.ones((len(cells.concepts), len(cells.identities)), dtype=bool)
    if excluded is not None:
        places = DataFrame(
            {
                "concept": place_of(excluded["concept"], cells.concepts),
                "identity": place_of(excluded["identity"], cells.identities),
            }
        ).drop_nulls()
        is_counted[places["concept"].to_numpy(), places["identity"].to_numpy()] = False
    return is_counted


def _count_reported(
    incidence: Incidence,
    method: Method,
    is_counted: Booleans,
    *,
    by_name: bool,
    possible: Sequence[Booleans] = _EVERY_TEST,
) -> int:
    """Return the number of associations that are reported and counted.

    Parameters
    ----------
    incidence
        Lists with shuffled identities, whose cells are those of the real ones.
    by_name
        See `ClusterTest`.
    possible
        The tests of each block that may be selected; empty: all.
    """
    incidence = replace(incidence, cells=cells_of(incidence, incidence.identity))
    blocks = list(blocks_of(incidence.cells, method.rules, method.least_support))
    results, _ = results_of(blocks, method, possible)
    # Cluster-robust p-values are never smaller, so they are needed only if independent lists give an
    # association.
    if not method.rules.published and any((result.q < LEVEL).any() for result in results):
        test = test_of(incidence, by_name=by_name)
        if isinstance(test, ClusterTest):
            results, _ = results_of(blocks, replace(method, test=test), possible)
    return sum(
        int((result.reported & is_counted[result.block.concept][:, method.compared.identity]).sum())
        for result in results
    )


def permutation_p(
    lists: DataFrame,
    mentions: DataFrame,
    concepts: Sequence[str],
    *,
    by: str = "descriptor",
    runs: int = 999,
    seed: int = 123,
) -> DataFrame:
    """Test the largest effect of each of the given concepts by permutation of the identities.

    With `by="descriptor"`, the lists of a descriptor are not assumed to be independent, unlike in the tests
    of `find_associations`. With few descriptors there are few permutations, whose number limits how small p
    can be.

    Parameters
    ----------
    lists, mentions
        As for `find_associations`.
    concepts
        Concepts to test.
    by, runs, seed
        As for `shuffled_counts`.

    Returns
    -------
    pl.DataFrame
        `context` (null: all contexts), `concept`, `identity` (with the highest rate), `effect` (the largest
        difference of the rate of an identity and that of all others) and `p`: (1 + number of shuffles with an
        effect at least as large) / (1 + runs).

    Raises
    ------
    InputError
        As for `shuffled_counts`, or no list contains one of the concepts.
    """
    incidence = incidence_of(lists, mentions)
    names = incidence.cells.concepts
    for concept in concepts:
        check_known(concept, names.to_list(), f"no list contains the concept {concept!r}")
    incidence = only_concepts(incidence, np.flatnonzero(names.is_in(list(concepts))))
    observed = pl.concat(
        _greatest_effects(incidence.cells, block) for block in blocks_of(incidence.cells, DEFAULT)
    )
    effect = observed["effect"].to_numpy()
    reached = np.zeros(effect.shape)
    for labels in _shuffled_identities(incidence, by, runs, seed):
        blocks = blocks_of(cells_of(incidence, labels), DEFAULT)
        shuffled = np.concatenate([_greatest_effect(block) for block in blocks])
        # If a shuffle leaves nothing to compare, its effect is 0.
        reached += np.nan_to_num(shuffled) >= effect - EQUAL
    p = np.where(np.isnan(effect), np.nan, (1 + reached) / (1 + runs))
    return observed.with_columns(p=Series(p)).fill_nan(None)


def _greatest_effects(cells: Cells, block: CountBlock) -> DataFrame:
    """Return the columns of `permutation_p` without `p` for the tests of a block."""
    return DataFrame(
        {
            "context": context_names(cells, block.context),
            "concept": cells.concepts.gather(block.concept),
            "identity": cells.identities.gather(ranking_of(block).first),
            "effect": _greatest_effect(block),
        }
    )


def _greatest_effect(block: CountBlock) -> Floats:
    """Return the largest effect of an identity against all others, shape (T,).

    NaN if there is nothing to compare.
    """
    others_with_concept = block.with_concept.sum(axis=1, keepdims=True) - block.with_concept
    others_lists = block.lists.sum(axis=1, keepdims=True) - block.lists
    difference = stratified_rate_difference(
        block.with_concept, block.lists, others_with_concept, others_lists
    )
    greatest: Floats = np.fmax.reduce(difference.estimate, axis=1)
    return greatest


def _shuffled_identities(incidence: Incidence, by: str, runs: int, seed: int) -> Iterator[Index]:
    """Yield `runs` random permutations of the identities (L,)."""
    check_known(by, UNITS, f"identities cannot be shuffled by {by!r}")
    if by == "list":
        strata = incidence.stratum.max(initial=0) + 1
        unit = np.arange(len(incidence.identity))
        group = incidence.context * strata + incidence.stratum
    else:
        if (incidence.descriptor < 0).any():
            raise InputError("identities can be shuffled by descriptor only if every list has a descriptor")
        unit = incidence.stratum * incidence.descriptors.height + incidence.descriptor
        group = incidence.stratum
    _, first, unit = np.unique(unit, return_index=True, return_inverse=True)
    group, identity = group[first], incidence.identity[first]
    generator = np.random.Generator(np.random.PCG64(seed))
    ordered = np.argsort(group, kind="stable")
    has_one_group = len(group) == 0 or bool((group == group[0]).all())
    for _ in range(runs):
        if has_one_group:
            yield generator.permutation(identity)[unit]
            continue
        shuffled = np.empty_like(identity)
        shuffled[ordered] = identity[np.lexsort((generator.random(len(group)), group))]
        yield shuffled[unit]
