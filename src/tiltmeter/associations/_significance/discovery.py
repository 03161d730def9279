"""Discovery of associations between concepts and identities, by the default and the published definitions.

`find_associations` takes lists and mentions, `compare_counts` takes a table of counts.

For identity i and concept x in a context, a_i of n_i lists with T_i mentions contain x. The definitions:

* "paper": score (a_i - smallest other a_j) / n_i; chi-squared test of independence (Yates' correction for two
  identities); reported if the score is above 0 and p < 0.05, within contexts only.
* "badf-code": the same divided by T_i. This is what the released code computes, and all published scores.
* "default": each identity is compared with all others together (or with a reference, or each other one) by a
  one-sided test of its rate a_i/n_i (`stats.greater`), so that a concept can be an association of several
  identities. Only concepts in at least `minimum` lists are tested, within contexts, and over all contexts
  stratified (Mantel-Haenszel). The variance accounts for lists of the same story and, with at least 20 first
  names per identity, of the same name (see `robust`). q-values control the false discovery rate for concepts
  first, then for comparisons within concepts (`hierarchical_q`). An association is reported if q < 0.05 and
  the interval, at the level adjusted for selection, excludes 0.

Descriptor types (`stratum`, such as "male" and "female" descriptors of all identities) are pooled, as in the
original.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl
from polars import DataFrame, col, when

from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.associations._definitions import DEFAULT, AssociationDefinition
from tiltmeter.associations._significance.comparisons import (
    COUNTS_IN_BLOCK,
    Comparisons,
    Contrasts,
    CountBlock,
    block_of,
    blocks_of,
    comparisons_of,
    contrasts_of,
)
from tiltmeter.associations._significance.counts import (
    LEVEL,
    CountTest,
    Method,
    Results,
    describe,
    results_of,
    untested,
    verdicts_of,
)
from tiltmeter.associations._significance.incidence import (
    COUNTS,
    Cells,
    Incidence,
    cells_of,
    incidence_of,
    only_concepts,
    read_counts_table,
)
from tiltmeter.associations._significance.robust import speaks_of_names, test_of
from tiltmeter.associations._tables import ASSOCIATIONS
from tiltmeter.schema import beside, conform
from tiltmeter.stats import stratified_rate_difference


def find_associations(
    lists: DataFrame,
    mentions: DataFrame,
    *,
    rules: AssociationDefinition = DEFAULT,
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
    by_name = not rules.published and speaks_of_names(lists)
    method = Method(
        rules=rules,
        minimum=minimum,
        test=CountTest() if rules.published else test_of(incidence, by_name=by_name),
        compared=comparisons_of(cells.identities, against, reference),
        level=level,
    )
    least = method.least_support
    results, adjusted = results_of(list(blocks_of(cells, rules, least)), method)
    cells_of_halves = _cells_of_halves(incidence, halves_of(incidence, seed, by_name=by_name))
    tables = [DataFrame(schema=dict(ASSOCIATIONS))]
    for block in blocks_of(cells, rules, below=least):
        result = untested(block, method)
        tables.append(describe(cells, result, np.nonzero(_counted(result, method)), method, level))
    for result in results:
        unreported = np.nonzero(_counted(result, method) & ~result.reported)
        tables.append(describe(cells, result, unreported, method, level))
        reported = np.nonzero(result.reported)
        described = describe(cells, result, reported, method, adjusted)
        support = _support_of(incidence, result.block, reported, method, cells_of_halves)
        tables.append(pl.concat([described, support], how="horizontal"))
    associations = conform(pl.concat(tables, how="diagonal_relaxed"), ASSOCIATIONS)
    return associations.sort("context", "concept", "identity", nulls_last=True)


def _counted(result: Results, method: Method) -> Booleans:
    """Return whether a comparison has a row (T, P): it was tested, or the identity has the concept."""
    has_concept = result.block.with_concept.sum(axis=2) > 0
    counted: Booleans = has_concept[:, method.compared.identity] | ~np.isnan(result.verdicts.p)
    return counted


def compare_counts(counts: DataFrame, rules: AssociationDefinition = DEFAULT, minimum: int = 5) -> DataFrame:
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
    table = read_counts_table(counts)
    cells = table.cells
    contexts = len(cells.contexts)
    numbers, test_of_row = np.unique(table.concept * contexts + table.context, return_inverse=True)
    concept, context = np.divmod(numbers, contexts)
    block = block_of(cells, concept, context)
    method = Method(rules=rules, minimum=minimum, test=CountTest(), compared=comparisons_of(cells.identities))
    (results,), _ = results_of([block], method)
    described = describe(cells, results, (test_of_row, table.identity), method, method.level)
    columns = {
        name: kind for name, kind in ASSOCIATIONS.items() if name in described.columns and name not in COUNTS
    }
    return counts.with_columns(conform(described, columns))


# -- robustness: halves of the repetitions, and descriptors of the identity ------------------------

_ABBA: Final = np.array([False, True, True, False])
"""Of four repetitions, the first and last are assigned to one half and the middle two to the other."""


def halves_of(incidence: Incidence, seed: int, *, by_name: bool = False) -> Index:
    """Assign lists to two halves by repetition or, with `by_name`, by first name: (L,) 0 or 1; -1 if unknown.

    Whole repetitions are assigned, so that both lists of a story are in the same half. Blocks of four are
    assigned ABBA or BAAB at random, so that designs which swap the order of names between repetitions, or
    after half of them, are balanced in both halves. With `by_name`, each half has other names, so that an
    association is confirmed by stories about other names; the user's clusters are kept whole.
    """
    if by_name:
        rank = incidence.name
    elif incidence.clustered:
        rank = incidence.story
    else:
        rank = incidence.repetition
    blocks = rank.max(initial=0) // 4 + 1
    is_reversed = np.random.Generator(np.random.PCG64(seed)).random(blocks) < 0.5
    return np.where(rank < 0, -1, _ABBA[rank % 4] ^ is_reversed[rank // 4])


def _cells_of_halves(incidence: Incidence, halves: Index) -> dict[str, Cells]:
    """Return the numbers of lists in the "first" and the "second" half; `halves` are as from `halves_of`."""
    return {
        name: cells_of(incidence, np.where(halves == half, incidence.identity, -1))
        for half, name in enumerate(("first", "second"))
    }


def _support_of(
    incidence: Incidence,
    block: CountBlock,
    reported: tuple[Index, ...],
    method: Method,
    cells_of_halves: Mapping[str, Cells],
) -> DataFrame:
    """Return the columns after `reported` for R reported rows.

    An association is confirmed if the rate of the identity is higher in the comparison with one-sided p <
    0.05 in both halves; null if a half lacks lists of either side.

    Parameters
    ----------
    reported
        The test of the block and the comparison of each row, (R,) each.
    cells_of_halves
        As from `_cells_of_halves`.
    """
    tests, comparisons = reported
    sides = method.compared.select(comparisons)
    by_half = {}
    for name, cells in cells_of_halves.items():
        block_of_half = block_of(cells, block.concept, block.context)
        effect, p = _effect_and_p(contrasts_of(block_of_half, tests, sides))
        by_half[f"effect_{name}"] = effect
        by_half[f"p_{name}"] = p
    confirmed = (col.p_first < LEVEL) & (col.p_second < LEVEL)
    is_compared = col.effect_first.is_not_null() & col.effect_second.is_not_null()
    both_halves = DataFrame(by_half).fill_nan(None).with_columns(confirmed=when(is_compared).then(confirmed))

    _, identities, strata = block.lists.shape
    counts_of_row = max(identities, incidence.descriptors.height) * strata
    pieces = 1 + len(tests) * counts_of_row // COUNTS_IN_BLOCK
    descriptors = pl.concat(
        _descriptors_of(incidence, block.select(tests[piece]), sides.select(piece), method.rules)
        for piece in np.array_split(np.arange(len(tests)), pieces)
    )
    return pl.concat([both_halves, descriptors], how="horizontal")


def _effect_and_p(contrasts: Contrasts) -> tuple[Floats, Floats]:
    """Return the effect and one-sided p-value of each contrast; NaN if there is nothing to compare."""
    effect = stratified_rate_difference(*contrasts.counts).estimate
    return effect, np.where(np.isnan(effect), np.nan, CountTest().p(contrasts))


def _descriptors_of(
    incidence: Incidence, tests: CountBlock, sides: Comparisons, rules: AssociationDefinition
) -> DataFrame:
    """Return for each row `descriptors` (of the identity, with the concept; null if unknown) and `rests_on`.

    `rests_on` is the only descriptor without whose lists the association disappears: effect above 0 and p <
    0.05, multiplied by the number of identities as in the test, no longer hold (in the published definitions:
    score above 0 and p < 0.05). It is null if there is no such descriptor or more than one, or if the
    identity has a single descriptor. Only descriptors with the concept are considered, because without
    another one the rate of the identity is higher.
    """
    by_descriptor = _block_by_descriptor(incidence, tests)  # identities are descriptors
    of_identity = incidence.descriptors["identity"].to_numpy() == sides.identity[:, None]  # (R, D)
    has_several = (of_identity & by_descriptor.compared).sum(axis=1) > 1
    row, descriptor = np.nonzero(of_identity & (by_descriptor.with_concept > 0).any(axis=2))

    with_concept = by_descriptor.with_concept[row, descriptor]
    lists = by_descriptor.lists[row, descriptor]
    without = tests.select(row)  # copies, from which the lists of the descriptor are removed
    identity = (np.arange(len(row)), sides.identity[row])
    without.with_concept[identity] -= with_concept
    without.lists[identity] -= lists
    disappears = ~_holds(without, sides.select(row), rules) & has_several[row]

    descriptors = DataFrame(
        {
            "row": row,
            "descriptor": incidence.descriptors["descriptor"].gather(descriptor),
            "count": with_concept.sum(axis=1),
            "lists": lists.sum(axis=1),
            "disappears": disappears,
        }
    )
    only_one = col.disappears.sum() == 1
    by_row = (
        descriptors.sort("row", "count", "descriptor", descending=[False, True, False])
        .group_by("row")
        .agg(
            descriptors=pl.struct("descriptor", "count", "lists"),
            rests_on=when(only_one).then(col.descriptor.filter("disappears").first()),
        )
    )
    rows = DataFrame({"row": np.arange(len(tests.concept))})
    return beside(rows, by_row, "row").drop("row")


def _block_by_descriptor(incidence: Incidence, tests: CountBlock) -> CountBlock:
    """Return the tests with the counts of each descriptor in place of those of each identity."""
    concepts, concept = np.unique(tests.concept, return_inverse=True)
    selected = only_concepts(incidence, concepts)
    cells = replace(selected.cells, identities=incidence.descriptors["descriptor"])
    cells = cells_of(replace(selected, cells=cells), incidence.descriptor)
    return block_of(cells, concept, tests.context)


def _holds(tests: CountBlock, sides: Comparisons, rules: AssociationDefinition) -> Booleans:
    """Return whether an identity has an association by its own p-value."""
    if rules.published:
        verdicts = verdicts_of(tests, rules, 0, CountTest(), sides)
        of_identity = (np.arange(len(tests.concept)), sides.identity)
        return verdicts.credited[of_identity] & (verdicts.p[of_identity] < LEVEL)
    effect, p = _effect_and_p(contrasts_of(tests, np.arange(len(tests.concept)), sides))
    holds: Booleans = (effect > 0) & (p * tests.compared.sum(axis=1) < LEVEL)
    return holds
