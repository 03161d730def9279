"""Discovery of associations between concepts and identities by the default definition and by the published ones.

`find_associations` takes lists and mentions, `compare_counts` takes a table of counts.

For identity i and concept x in a context, a_i of n_i lists with T_i mentions contain x.

    "paper"      score (a_i - smallest other a_j) / n_i; chi-squared test of independence (Yates' correction
    for two identities);
                 reported if the score is above 0 and p < 0.05, within contexts only
    "badf-code"  the same divided by T_i; this is what the released code computes, and all published scores
    "default"    each identity is compared with all others together (or with a reference, or each other one)
    by a one-sided test of its
                 rate a_i/n_i, exact if an expected count is below 5, so that a concept can be an association
                 of several identities; only concepts in at least `minimum` lists; within contexts, and over
                 all contexts stratified (Mantel-Haenszel); the variance accounts for lists of the same story
                 and, with at least 20 first names per identity, of the same name (see `robust`); q-values
                 control the false discovery rate for concepts first, then for comparisons within concepts
                 (`hierarchical_q`); reported if q < 0.05 and the interval, at the level adjusted for
                 selection, excludes 0

Descriptor types (`stratum`, such as "male" and "female" descriptors of all identities) are pooled, as in the
original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from polars import DataFrame, Series, col, when

from tiltmeter.arrays import Booleans, Floats, Index, Integers
from tiltmeter.associations.definitions import DEFAULT, AssociationRules
from tiltmeter.associations.significance.counts import (
    COUNTS,
    COUNTS_IN_BLOCK,
    LEVEL,
    Comparisons,
    CountBlock,
    CountTest,
    Incidence,
    block_of,
    blocks_of,
    cells_of,
    comparisons_of,
    context_names,
    counts_of,
    described,
    incidence_of,
    picked,
    place_of,
    ranking_of,
    read_cells,
    results_of,
    verdicts_of,
)
from tiltmeter.associations.significance.robust import ClusterTest, speaks_of_names
from tiltmeter.associations.tables import ASSOCIATIONS
from tiltmeter.errors import InputError, check_known
from tiltmeter.schema import beside, conform
from tiltmeter.stats import stratified_rate_difference


def find_associations(
    lists: DataFrame,
    mentions: DataFrame,
    *,
    rules: AssociationRules = DEFAULT,
    level: float = 0.95,
    seed: int = 123,
    minimum: int = 5,
    against: str = "rest",
    reference: str | None = None,
) -> DataFrame:
    """Count, test and describe every concept in every context.

    Parameters
    ----------
    lists
        LISTS. Rows with the status "missing" are ignored. If some lists have a context, those without one
        count only in tests over all contexts.
    mentions
        `attempt`, `character` and `concept` (null: none of the concepts). A list that mentions a concept
        twice counts once.
    rules
        Rules of the definition; see the top of this module.
    level
        Confidence level of the intervals (Newcombe; stratified over all contexts).
    seed
        Seed of the random assignment of repetitions to halves.
    minimum
        Minimum number of lists with a concept, over all identities, for it to be tested in the default
        definition.
    against, reference
        As for `comparisons_of`; the published definitions compare all identities.

    Returns
    -------
    pl.DataFrame
        ASSOCIATIONS, sorted by context (null, all contexts, last), concept and identity, with one row for
        each comparison. An identity that never has a concept has a row only if the concept is tested. In rows
        over all contexts, `rate` and `others_rate` are crude shares, and the effect is the Mantel-Haenszel
        difference, which equals their difference if the design is balanced. Halves, descriptors and
        `rests_on` are given for reported rows only.
    """
    incidence = incidence_of(lists, mentions)
    cells = incidence.cells
    blocks = list(blocks_of(cells, rules))
    by_name = not rules.published and speaks_of_names(lists)
    test = CountTest() if rules.published else ClusterTest(incidence, by_name=by_name)
    compared = comparisons_of(cells.identities, against, reference)
    results, adjusted = results_of(blocks, rules, minimum, test, level, compared)
    halves = halves_of(incidence, seed, by_name=by_name)
    parts = [DataFrame(schema=dict(ASSOCIATIONS))]
    for one in results:
        counted = (one.block.held.sum(axis=2) > 0)[:, compared.identity] | ~np.isnan(one.verdicts.p)
        others, chosen = (
            described(cells, one, np.nonzero(rows), test, interval, compared)
            for rows, interval in ((counted & ~one.reported, level), (one.reported, adjusted))
        )
        backing = _backing_of(incidence, *picked(one.block, compared, one.reported), rules, halves)
        parts += [others, pl.concat([chosen, backing], how="horizontal")]
    return conform(pl.concat(parts, how="diagonal_relaxed"), ASSOCIATIONS).sort(
        "context", "concept", "identity", nulls_last=True
    )


def compare_counts(counts: DataFrame, rules: AssociationRules = DEFAULT, minimum: int = 5) -> DataFrame:
    """Test counts within contexts, adding the columns `others_count` to `reported` of ASSOCIATIONS.

    In the default definition, the family of the false discovery rate is the whole table. If the table
    contains only concepts that were found significant, q is too small. In the published definitions, `score`
    is null if the divisor is 0 or unknown, `p` is the same for all identities of a context and concept, and
    both are null if fewer than two identities have lists.

    Parameters
    ----------
    counts
        `context` (location category, or null), `concept`, `identity`, `count` (lists of the identity in the
        context that contain the concept), `lists` (all lists of the identity in the context) and `mentions`
        (of any concept in these lists; if null, the score of "badf-code" and the log-odds are null). There
        must be one row for each concept in a context and *every* identity, including counts of 0. `lists` and
        `mentions` must be equal for all concepts of a context and identity. An identity without lists in a
        context has no rows there, or rows with 0 lists. Other columns and the order of rows are kept.
    rules, minimum
        As for `find_associations`.

    Raises
    ------
    InputError
        The counts violate these conditions, or contain fewer than two identities.
    """
    cells, concept, context, identity = read_cells(counts)
    tests, test = np.unique(concept * len(cells.contexts) + context, return_inverse=True)
    block = block_of(cells, *np.divmod(tests, len(cells.contexts)))
    counted, compared = CountTest(), comparisons_of(cells.identities)
    (results,), _ = results_of([block], rules, minimum, counted, 0.95, compared)
    made = described(cells, results, (test, identity), counted, 0.95, compared)
    added = {name: kind for name, kind in ASSOCIATIONS.items() if name in made.columns and name not in COUNTS}
    return counts.with_columns(conform(made, added))


# -- robustness: halves of the repetitions, and descriptors of the identity --------------------------------------------

_ABBA = np.array([False, True, True, False])
"""Of four repetitions, the first and last are assigned to one half and the middle two to the other."""


def halves_of(incidence: Incidence, seed: int, *, by_name: bool = False) -> Index:
    """Assign lists to two halves by repetition or, with `by_name`, by first name: (L,) 0 or 1; -1 if unknown.

    Whole repetitions are assigned, so that both lists of a story are in the same half. Blocks of four are
    assigned ABBA or BAAB at random, so that designs which swap the order of names between repetitions, or
    after half of them, are balanced in both halves. With `by_name`, each half has other names, so that an
    association is confirmed by stories about other names; the user's clusters are kept whole.
    """
    rank = incidence.name if by_name else incidence.story if incidence.clustered else incidence.repetition
    blocks = rank.max(initial=0) // 4 + 1
    tossed = np.random.Generator(np.random.PCG64(seed)).random(blocks) < 0.5
    return np.where(rank < 0, -1, _ABBA[rank % 4] ^ tossed[rank // 4])


def _backing_of(
    incidence: Incidence, block: CountBlock, sides: Comparisons, rules: AssociationRules, halves: Index
) -> DataFrame:
    """Return the columns after `reported` for reported rows, given by their tests and comparisons (R,).

    An association is confirmed if the rate of the identity is higher in the comparison with one-sided p <
    0.05 in both halves; null if a half lacks lists of either side.
    """
    numbers = {}
    for half, name in enumerate(("first", "second")):
        cells = cells_of(incidence, np.where(halves == half, incidence.identity, -1))
        numbers[f"effect_{name}"], numbers[f"p_{name}"] = _compared(
            block_of(cells, block.concept, block.context), sides
        )
    frame = DataFrame(numbers).fill_nan(None)
    confirmed = (col.p_first < LEVEL) & (col.p_second < LEVEL)
    known = col.effect_first.is_not_null() & col.effect_second.is_not_null()
    rows = np.arange(len(block.concept))
    parts = np.array_split(
        rows, 1 + len(rows) * incidence.descriptors.height * block.held.shape[2] // COUNTS_IN_BLOCK
    )
    carriers = pl.concat(_carriers_of(incidence, block.of(part), sides.of(part), rules) for part in parts)
    return pl.concat([frame.with_columns(confirmed=when(known).then(confirmed)), carriers], how="horizontal")


def _compared(block: CountBlock, sides: Comparisons) -> tuple[Floats, Floats]:
    """Return the effect and one-sided p-value of each test; NaN if there is nothing to compare."""
    effect = stratified_rate_difference(*counts_of(block, sides)).estimate
    return effect, np.where(np.isnan(effect), np.nan, CountTest().p(block, sides))


def _carriers_of(
    incidence: Incidence, block: CountBlock, sides: Comparisons, rules: AssociationRules
) -> DataFrame:
    """Return for each row `descriptors` (of the identity, with the concept; null if unknown) and `rests_on`.

    `rests_on` is the only descriptor without whose lists the association disappears: effect above 0 and p <
    0.05, multiplied by the number of identities as in the test, no longer hold (in the published definitions:
    score above 0 and p < 0.05). It is null if there is no such descriptor or more than one, or if the
    identity has a single descriptor. Only descriptors with the concept are considered, because without
    another one the rate of the identity is higher.
    """
    concepts, concept = np.unique(block.concept, return_inverse=True)
    chosen = _only_concepts(incidence, concepts)
    by_descriptor = chosen._replace(
        cells=chosen.cells._replace(identities=incidence.descriptors["descriptor"])
    )
    parts = block_of(cells_of(by_descriptor, incidence.descriptor), concept, block.context)
    own = incidence.descriptors["identity"].to_numpy() == sides.identity[:, None]
    several = (own & parts.compared).sum(axis=1) > 1
    row, descriptor = np.nonzero(own & (parts.held > 0).any(axis=2))
    without, of_carrier, place = block.of(row), sides.of(row), (np.arange(len(row)), sides.identity[row])
    held, lists = parts.held[row, descriptor], parts.lists[row, descriptor]
    without.held[place] -= held
    without.lists[place] -= lists
    carriers = DataFrame(
        {
            "row": row,
            "descriptor": incidence.descriptors["descriptor"].gather(descriptor),
            "count": held.sum(axis=1),
            "lists": lists.sum(axis=1),
            "gone": ~_holds(without, of_carrier, rules) & several[row],
        }
    )
    alone = when(col.gone.sum() == 1).then(col.descriptor.filter("gone").first())
    found = carriers.sort("row", "count", "descriptor", descending=[False, True, False]).group_by("row")
    table = found.agg(descriptors=pl.struct("descriptor", "count", "lists"), rests_on=alone)
    return beside(DataFrame({"row": np.arange(len(block.concept))}), table, "row").drop("row")


def _holds(block: CountBlock, sides: Comparisons, rules: AssociationRules) -> Booleans:
    """Return whether an identity has an association by its own p-value."""
    if rules.published:
        verdicts = verdicts_of(block, rules, 0, CountTest(), sides)
        own = (np.arange(len(block.concept)), sides.identity)
        return verdicts.credited[own] & (verdicts.p[own] < LEVEL)
    effect, p = _compared(block, sides)
    holds: Booleans = (effect > 0) & (p * block.compared.sum(axis=1) < LEVEL)
    return holds


# -- null distribution: the same lists with shuffled identities ---------------------------------------------------------

UNITS = ("list", "descriptor")
ENOUGH = 20
"""Number of shuffles with at least the observed number of associations after which shuffling stops."""
EQUAL = 1e-12
"""Tolerance for effects that are equal in exact arithmetic."""


def shuffled_counts(
    lists: DataFrame,
    mentions: DataFrame,
    *,
    rules: AssociationRules = DEFAULT,
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
        incidence = _only_concepts(
            incidence, np.flatnonzero(incidence.cells.held.sum(axis=(1, 2)) >= minimum)
        )
    cells = incidence.cells
    counted = np.ones((len(cells.concepts), len(cells.identities)), dtype=bool)
    if without is not None:
        places = {
            "concept": place_of(without["concept"], cells.concepts),
            "identity": place_of(without["identity"], cells.identities),
        }
        counted[*DataFrame(places).drop_nulls().to_numpy().T] = False
    compared = comparisons_of(cells.identities, against, reference)
    by_name = speaks_of_names(lists)
    known: dict[bytes, int] = {}
    counts, reached = [], 0
    for labels in _shuffled_identities(incidence, by, runs, seed):
        dealt = labels.tobytes() if by == "descriptor" else b""  # few descriptors have few permutations
        if dealt not in known or not dealt:
            shuffled = incidence._replace(identity=labels, cells=cells_of(incidence, labels))
            blocks = list(blocks_of(shuffled.cells, rules, minimum))
            # Cluster-robust p-values are never smaller, so they are needed only if independent lists give an
            # association.
            for test in (
                (CountTest(),) if rules.published else (CountTest(), ClusterTest(shuffled, by_name=by_name))
            ):
                results, _ = results_of(blocks, rules, minimum, test, 1 - LEVEL, compared)
                found = (
                    (one.reported & counted[one.block.concept][:, compared.identity]).sum() for one in results
                )
                known[dealt] = int(sum(found))
                if not any((one.q < LEVEL).any() for one in results):
                    break
        counts.append(known[dealt])
        reached += observed is not None and known[dealt] >= observed
        if reached == ENOUGH:
            break
    return np.array(counts, dtype=np.int64)


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
    known, rules = incidence.cells.concepts, DEFAULT
    for concept in concepts:
        check_known(concept, known.to_list(), f"no list contains the concept {concept!r}")
    incidence = _only_concepts(incidence, np.flatnonzero(known.is_in(list(concepts))))
    cells = incidence.cells
    tables = [
        DataFrame(
            {
                "context": context_names(cells, block.context),
                "concept": cells.concepts.gather(block.concept),
                "identity": cells.identities.gather(ranking_of(block).first),
                "effect": _greatest_effect(block),
            }
        )
        for block in blocks_of(cells, rules)
    ]
    observed = pl.concat(tables)
    effect = observed["effect"].to_numpy()
    reached = np.zeros(effect.shape)
    for labels in _shuffled_identities(incidence, by, runs, seed):
        shuffled = np.concatenate(
            [_greatest_effect(block) for block in blocks_of(cells_of(incidence, labels), rules)]
        )
        # If a shuffle leaves nothing to compare, its effect is 0.
        reached += np.nan_to_num(shuffled) >= effect - EQUAL
    p = np.where(np.isnan(effect), np.nan, (1 + reached) / (1 + runs))
    return observed.with_columns(p=Series(p)).fill_nan(None)


def _greatest_effect(block: CountBlock) -> Floats:
    """Return the largest effect of an identity against all others, shape (T,); NaN if there is nothing to compare."""
    others = (counts.sum(axis=1, keepdims=True) - counts for counts in (block.held, block.lists))
    greatest: Floats = np.fmax.reduce(
        stratified_rate_difference(block.held, block.lists, *others).estimate, axis=1
    )
    return greatest


def _only_concepts(incidence: Incidence, concepts: Index) -> Incidence:
    """Keep only some of the concepts, given in ascending order; mentions are unchanged."""
    cells = incidence.cells
    concept, context = np.divmod(incidence.pair_test, len(cells.contexts))
    kept = np.isin(concept, concepts)
    fewer = cells._replace(concepts=cells.concepts.gather(concepts), held=cells.held[concepts])
    tests = np.searchsorted(concepts, concept) * len(cells.contexts) + context
    return incidence._replace(cells=fewer, pair_list=incidence.pair_list[kept], pair_test=tests[kept])


def _shuffled_identities(incidence: Incidence, by: str, runs: int, seed: int) -> Iterator[Index]:
    """Yield `runs` random permutations of the identities (L,)."""
    check_known(by, UNITS, f"identities cannot be shuffled by {by!r}")
    unit, group = (
        np.arange(len(incidence.identity)),
        incidence.context * (incidence.stratum.max(initial=0) + 1) + incidence.stratum,
    )
    if by == "descriptor":
        if (incidence.descriptor < 0).any():
            raise InputError("identities can be shuffled by descriptor only if every list has a descriptor")
        unit, group = (
            incidence.stratum * incidence.descriptors.height + incidence.descriptor,
            incidence.stratum,
        )
    _, first, unit = np.unique(unit, return_index=True, return_inverse=True)
    group, identity = group[first], incidence.identity[first]
    generator = np.random.Generator(np.random.PCG64(seed))
    ordered = np.argsort(group, kind="stable")
    for _ in range(runs):
        dealt = np.empty_like(identity)
        dealt[ordered] = identity[np.lexsort((generator.random(len(group)), group))]
        yield dealt[unit]
