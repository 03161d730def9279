"""Counts of lists by concept and identity, and their tests, as arrays.

A *test* is a concept in a context. The dimensions are L lists, P pairs of a list and a concept in it, T
tests, X concepts, C contexts and K identities. A block of tests has counts (T, K, S) with S strata within
which identities are compared: one stratum, or all contexts for a test over all contexts. Identities without
lists are not compared. Shuffled identities are processed in the same way as the real ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col, when

from tiltmeter.arrays import Booleans, Floats, Index
from tiltmeter.associations.definitions import AssociationRules
from tiltmeter.errors import InputError, check_known
from tiltmeter.files.tables import UserTable
from tiltmeter.schema import beside, conform
from tiltmeter.stats import (
    LogOdds,
    benjamini_hochberg,
    greater,
    hierarchical_q,
    independence_p,
    log_odds,
    ratio,
    stratified_greater,
    stratified_rate_difference,
)

COUNTS = {
    "context": String,
    "concept": String,
    "identity": String,
    "count": Int64,  # lists of the identity with the concept
    "lists": Int64,  # all lists of the identity in the context
    "mentions": Int64,  # mentions of any concept in these lists; null if unknown
}
"""Columns of a table of counts: one row for each concept in a context and every identity in it, including
counts of 0."""


class Cells(NamedTuple):
    """Numbers of lists that contain each concept, by context and identity."""

    contexts: Series  # C names, null last; null: lists without a context
    concepts: Series  # X names
    identities: Series  # K names
    held: Floats  # (X, C, K) lists that contain the concept
    lists: Floats  # (C, K)
    mentions: Floats  # (C, K); NaN if unknown


class Incidence(NamedTuple):
    """Incidence of concepts in lists."""

    cells: Cells
    identity: Index  # (L,)
    context: Index  # (L,)
    stratum: Index  # (L,)
    descriptor: Index  # (L,) index in `descriptors`; -1: unknown
    repetition: Index  # (L,) rank of the repetition; -1: unknown
    name: Index  # (L,) index of the first name; -1: unknown
    story: Index  # (L,) index of the story, of the pair of texts, or of the user's cluster of texts
    paired: bool  # whether texts are compared within pairs
    clustered: bool  # whether `story` is the user's cluster
    mentions: Floats  # (L,) number of mentions
    descriptors: DataFrame  # `identity` (index) and `descriptor` (name), grouped by identity
    pair_list: Index  # (P,)
    pair_test: Index  # (P,) number of the concept in a context, concept * C + context, in ascending order


def counted_lists(lists: DataFrame) -> DataFrame:
    """Return the lists (LISTS) that are not missing, with `pair`, `cluster` and `story`.

    The story of texts of the user is their pair, or their cluster. The first name of paired texts is replaced
    by their cluster, if known.
    """
    counted = conform(lists, {"pair": String, "cluster": String}, further=True).filter(
        col.status != "missing"
    )
    paired = counted["pair"].count() > 0
    return counted.with_columns(
        name=pl.coalesce("cluster", "name") if paired else "name",
        story=pl.coalesce("pair" if paired else "cluster", "attempt"),
    )


def incidence_of(lists: DataFrame, mentions: DataFrame) -> Incidence:
    """Build the incidence of concepts in lists.

    Parameters
    ----------
    lists
        LISTS; rows with the status "missing" are ignored.
    mentions
        `attempt`, `character` and `concept`. Several mentions of a concept in a list count once. A mention
        without a concept (null) counts as a mention only.

    Raises
    ------
    InputError
        There are lists of fewer than two identities.
    """
    counted = counted_lists(lists).with_row_index("list")
    named = (_numbered(counted[name]) for name in ("identity", "context", "stratum"))
    (identities, identity), (contexts, context), (_, stratum) = named
    _check_two(identities)
    paired = counted["pair"].count() > 0
    repetition, name, story = (
        _index(counted[column].rank("dense") - 1) for column in ("repetition", "name", "story")
    )
    owners = counted.select("descriptor", identity=Series(identity))
    descriptors = owners.drop_nulls().unique().sort("identity", "descriptor")
    numbered = beside(owners, descriptors.with_row_index("place"), *owners.columns)
    owner = ["attempt", "character"]
    mentioned = mentions.select(*owner, "concept").join(counted.select("list", *owner), on=owner)
    held = mentioned.select("list", "concept").drop_nulls().unique()
    concepts, concept = _numbered(held["concept"])
    pair_list = _index(held["list"])
    pair_test = concept * len(contexts) + context[pair_list]
    order = np.lexsort((pair_list, pair_test))
    empty = np.zeros(0)
    made = Incidence(
        Cells(contexts, concepts, identities, empty, empty, empty),
        identity,
        context,
        stratum,
        _index(numbered["place"]),
        repetition,
        name,
        story,
        paired,
        counted["cluster"].count() > 0 and not paired,
        summed(_index(mentioned["list"]), (counted.height,)),
        descriptors,
        pair_list[order],
        pair_test[order],
    )
    return made._replace(cells=cells_of(made, identity))


def cells_of(incidence: Incidence, identity: Index) -> Cells:
    """Count the lists under the given identities, shape (L,); lists with -1 are left out."""
    cells, chosen = incidence.cells, identity >= 0
    k = len(cells.identities)
    cell, shape = (incidence.context * k + identity)[chosen], (len(cells.contexts), k)
    pair = (incidence.pair_test * k + identity[incidence.pair_list])[chosen[incidence.pair_list]]
    held = summed(pair, (len(cells.concepts), *shape))
    return cells._replace(
        held=held, lists=summed(cell, shape), mentions=summed(cell, shape, incidence.mentions[chosen])
    )


def read_cells(counts: DataFrame) -> tuple[Cells, Index, Index, Index]:
    """Convert a table of counts (see `compare_counts`) to cells, with the concept, context and identity of each row.

    Raises
    ------
    InputError
        A column is missing, a row occurs twice, an identity of a context has no row for a concept in it, a
        count is not between 0 and the numbers of lists and mentions, or numbers of lists or mentions of an
        identity differ within a context.
    """
    given = UserTable.of("the table of counts", counts)
    given.demand(COUNTS)
    for wrong, column, what in _CONTRACT:
        given.refuse(wrong, column, what)
    given.refuse_repeats(("context", "concept", "identity"))
    named = (_numbered(counts[name]) for name in ("context", "concept", "identity"))
    (contexts, context), (concepts, concept), (identities, identity) = named
    _check_two(identities)
    count, of, mentioned = (
        counts[name].cast(Float64).fill_null(np.nan).to_numpy() for name in ("count", "lists", "mentions")
    )
    held = np.zeros((len(concepts), len(contexts), len(identities)))
    lists, mentions = np.zeros((2, *held.shape[1:]))
    held[concept, context, identity], lists[context, identity], mentions[context, identity] = (
        count,
        of,
        mentioned,
    )
    return Cells(contexts, concepts, identities, held, lists, mentions), concept, context, identity


_HERE = ("context", "identity")
_CONTRACT = (
    (
        ~col.count.is_between(0, col.lists).fill_null(False),
        "count",
        "must be between 0 and the number of lists",
    ),
    (col.mentions < col.count, "mentions", "must not be smaller than the number of lists with the concept"),
    (
        col.lists.n_unique().over(_HERE) > 1,
        "lists",
        "differs from that of other rows of the identity in this context",
    ),
    (
        col.mentions.n_unique().over(_HERE) > 1,
        "mentions",
        "differs from that of other rows of the identity in this context",
    ),
    (
        pl.len().over("context", "concept") < col.identity.n_unique().over("context"),
        "concept",
        "lacks rows for other identities of the context (with a count of 0 if they never have the concept)",
    ),
)
"""Conditions for invalid rows of a table of counts, with column and error message."""


def place_of(column: Series, names: Series) -> Series:
    """Return the index of each value in `names`; null if it is not in `names`."""
    return column.cast(String).replace_strict(names, pl.int_range(len(names), eager=True), default=None)


def summed(place: Index, shape: tuple[int, ...], weight: Floats | None = None) -> Floats:
    """Return the number of occurrences of each place in an array of this shape, or the sum of the weights there."""
    return np.bincount(place, weight, minlength=math.prod(shape)).astype(np.float64).reshape(shape)


def _numbered(column: Series) -> tuple[Series, Index]:
    """Return the distinct values in alphabetical order, null last, and the index of each value."""
    names = column.cast(String).unique().sort(nulls_last=True)
    return names, _index(place_of(column, names))


def _index(column: Series) -> Index:
    """Return indices as an array; -1 for null."""
    return column.cast(Int64).fill_null(-1).to_numpy()


def _check_two(identities: Series) -> None:
    if len(identities) < 2:
        known = ", ".join(map(repr, identities)) or "none"
        raise InputError(
            f"a comparison needs lists of at least two identities, not counting missing ones, but there is {known}"
        )


# -- tests and verdicts -----------------------------------------------------------------------------------------------

PRIOR = 0.1
"""Weight of the prior of the log-odds as a share of the mentions of an average identity (Monroe et al.: about
500 of 6,000)."""

LEVEL = 0.05
"""Significance level: for q in the default definition; for p in the published ones, the halves and the
leave-one-out checks."""

COUNTS_IN_BLOCK = 1 << 21
"""Maximum number of counts of tests computed together; an array takes 16 MiB."""
_EXACT = 1e-12
"""Tolerance for sums over strata that are equal in exact arithmetic."""


class CountBlock(NamedTuple):
    """Tests that are computed together."""

    context: Index  # (T,) index of the context; -1: over all contexts
    concept: Index  # (T,)
    held: Floats  # (T, K, S)
    lists: Floats  # (T, K, S)
    mentions: Floats  # (T, K)

    @property
    def compared(self) -> Booleans:
        """Whether each identity has lists, shape (T, K)."""
        compared: Booleans = self.lists.sum(axis=2) > 0
        return compared

    def of(self, tests: Index) -> CountBlock:
        """Select tests by index; indices may repeat."""
        return CountBlock._make(column[tests] for column in self)


EVERYONE = -1
"""All other identities together."""


class Ranking(NamedTuple):
    """Identities with the highest and the second highest rate of a concept."""

    first: Index  # (T,) identity with the highest rate; the first one in a tie
    second: Index  # (T,) identity with the second highest rate


class Verdicts(NamedTuple):
    """Results of the tests of a block."""

    p: Floats  # (T, P) by comparison; NaN: not tested
    score: Floats | None  # (T, P) in the published definitions; NaN if an identity is not compared
    credited: Booleans  # (T, P) whether it is an association of the identity if significant


class Comparisons(NamedTuple):
    """The P comparisons of an identity with another, or with all others."""

    identity: Index  # (P,)
    against: Index  # (P,) EVERYONE: all others together

    def of(self, columns: Index) -> Comparisons:
        """Select comparisons by index; indices may repeat."""
        return Comparisons(self.identity[columns], self.against[columns])


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
    return each.of(np.flatnonzero((each.identity == place) | (each.against == place)))


def strata_of(cells: Cells, context: Index) -> Index:
    """Return the contexts within which each test compares identities, shape (T, S): its own, or all if the context is -1."""
    every = np.arange(len(cells.contexts))
    return np.broadcast_to(every, (len(context), len(every))) if (context < 0).any() else context[:, None]


def block_of(cells: Cells, concept: Index, context: Index) -> CountBlock:
    """Return the tests of concepts in contexts. Either all contexts are -1, or none."""
    strata = strata_of(cells, context)
    held, lists = cells.held[concept[:, None], strata], cells.lists[strata]
    return CountBlock(
        context,
        concept,
        held.transpose(0, 2, 1),
        lists.transpose(0, 2, 1),
        cells.mentions[strata].sum(axis=1),
    )


def blocks_of(cells: Cells, rules: AssociationRules, minimum: int = 0) -> Iterator[CountBlock]:
    """Yield the tests within contexts and, in the default definition with at least two contexts, the tests over all contexts.

    Lists without a context have tests of their own only if no list has a context. Concepts in fewer than
    `minimum` lists are skipped.
    """
    c, k = cells.lists.shape
    support, least = cells.held.sum(axis=2), max(minimum, 1)
    within = np.arange(c) < c - (c > 1 and cells.contexts[c - 1] is None)
    families = [np.nonzero(within & (support >= least))]
    if not rules.published and c > 1:
        concepts = np.flatnonzero(support.sum(axis=1) >= least)
        families.append((concepts, np.full_like(concepts, -1)))
    size = COUNTS_IN_BLOCK // (k * c)
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
    rate = ratio((np.nan_to_num(ratio(block.held, block.lists)) * weight).sum(axis=2), weight.sum(axis=2))
    return Ranking(*np.argsort(-rate, axis=1, kind="stable")[:, :2].T)


def picked(block: CountBlock, compared: Comparisons, chosen: Booleans) -> tuple[CountBlock, Comparisons]:
    """Return the test and the comparison of each `chosen` one of a block, shape (T, P)."""
    rows, columns = np.nonzero(chosen)
    return block.of(rows), compared.of(columns)


def counts_of(block: CountBlock, sides: Comparisons) -> tuple[Floats, Floats, Floats, Floats]:
    """Return a, n, c and m (T, S): lists with the concept, and all lists, of the identity and of what it is compared with (T,)."""
    held, lists = (of_sides(counts, np.arange(len(counts)), *sides) for counts in (block.held, block.lists))
    return held[..., 0], lists[..., 0], held[..., 1], lists[..., 1]


def of_sides(counts: Floats, rows: Index | slice, identity: Index | int, against: Index | int) -> Floats:
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
    own, faced = counts[rows, identity], counts[rows, against]
    everyone = np.atleast_1d(against)[:, None] == EVERYONE
    if everyone.any():
        faced = np.where(everyone, counts[rows].sum(axis=1) - own, faced)
    return np.stack([own, faced], axis=2)


class Compared(NamedTuple):
    """Differences between the rates of an identity and of others, shape (T,) each, named as in ASSOCIATIONS."""

    effect: Floats
    low: Floats
    high: Floats
    name_spread: (
        Floats  # standard deviation of the rate between first names of the identity; NaN if names are unknown
    )


class CountTest:
    """Tests and intervals of differences of rates for independent lists."""

    def p(self, block: CountBlock, sides: Comparisons) -> Floats:
        """Return one-sided p-values (T,) of the rate of the identity being greater than that of what it is compared with (T,)."""
        a, n, c, m = counts_of(block, sides)
        return (
            greater(a[:, 0], n[:, 0], c[:, 0], m[:, 0])
            if block.held.shape[2] == 1
            else stratified_greater(a, n, c, m)
        )

    def difference(self, block: CountBlock, sides: Comparisons, level: float) -> Compared:
        """Return the difference (T,) between the rates of both sides, with its interval."""
        return Compared(
            *stratified_rate_difference(*counts_of(block, sides), level), np.full(len(block.concept), np.nan)
        )


def verdicts_of(
    block: CountBlock, rules: AssociationRules, minimum: int, test: CountTest, compared: Comparisons
) -> Verdicts:
    """Test each concept in each comparison.

    In the default definition, p is one-sided and 1 if the rate of the identity is not higher. In the
    published definitions, it is the p-value of the test of independence of identity and concept.

    Parameters
    ----------
    minimum
        Minimum number of lists with a concept for it to be tested in the default definition.
    test
        Test of an identity against others in the default definition.
    compared
        The P comparisons.
    """
    there, sides = block.compared, compared.against
    taking_part = there & (there.sum(axis=1, keepdims=True) > 1)
    if rules.published:
        held, lists = block.held[..., 0], block.lists[..., 0]
        excess = held - np.where(there, held, np.inf).min(axis=1, keepdims=True)
        score = np.where(
            taking_part, ratio(excess, lists if rules.score_over == "lists" else block.mentions), np.nan
        )
        p = np.where(taking_part, independence_p(held, lists)[:, None], np.nan)
        return Verdicts(p, score, score > 0)
    tested = taking_part[:, compared.identity] & ((sides == EVERYONE) | there[:, sides])
    tested &= (block.held.sum(axis=(1, 2)) >= minimum)[:, None]
    p, credited = np.where(tested, 1.0, np.nan), tested.copy()
    credited[tested] = (
        stratified_rate_difference(*counts_of(*picked(block, compared, tested))).estimate > _EXACT
    )
    p[credited] = test.p(*picked(block, compared, credited))
    return Verdicts(p, None, credited)


class Results(NamedTuple):
    """The tests of a block with their results, by comparison."""

    block: CountBlock
    verdicts: Verdicts
    q: Floats  # (T, P)
    reported: Booleans  # (T, P)


def results_of(
    blocks: Sequence[CountBlock],
    rules: AssociationRules,
    minimum: int,
    test: CountTest,
    level: float,
    compared: Comparisons,
) -> tuple[list[Results], float]:
    """Test all blocks, which form one family of tests, and select the reported associations.

    The default definition selects concepts, then comparisons within concepts (`hierarchical_q`). Of these, it
    reports those whose interval, at a level adjusted for the number of reported associations, does not
    contain 0. The published definitions test each concept separately.

    Parameters
    ----------
    minimum, test, compared
        See `verdicts_of`.
    level
        Confidence level of a single interval.

    Returns
    -------
    results
        The results of each block.
    level
        Confidence level of the intervals of the reported associations, such that 95% of these intervals
        contain the true value.
    """
    verdicts = [verdicts_of(block, rules, minimum, test, compared) for block in blocks]
    if not verdicts:
        return [], level
    p = np.concatenate([one.p for one in verdicts])
    if rules.published:
        q = np.where(np.isnan(p), np.nan, benjamini_hochberg(np.fmax.reduce(p, axis=1))[:, None])
    else:
        families = np.unique(np.concatenate([block.concept for block in blocks]), return_inverse=True)[1]
        q = hierarchical_q(p.ravel(), np.repeat(families, p.shape[1])).reshape(p.shape)
    each = np.split(q, np.cumsum([len(one.p) for one in verdicts])[:-1])
    results = [
        Results(block, one, limit, one.credited & ((one.p if rules.published else limit) < LEVEL))
        for block, one, limit in zip(blocks, verdicts, each, strict=True)
    ]
    tested, adjusted = np.count_nonzero(~np.isnan(p)), level
    while not rules.published and (number := _number_of(results)) > 0:
        # `number` intervals are selected among those of all comparisons, by their lower ends only: twice the
        # one-sided share.
        adjusted = 1.0 - (1.0 - level) * min(2 * number / tested, 1.0)
        kept = [_without_null(one, test, adjusted, compared) for one in results]
        if _number_of(kept) == number:
            break
        results = kept
    return results, adjusted


def _number_of(results: Sequence[Results]) -> int:
    return sum(int(one.reported.sum()) for one in results)


def _without_null(results: Results, test: CountTest, level: float, compared: Comparisons) -> Results:
    """Keep only the reported associations that have an interval above 0."""
    kept = results.reported.copy()
    kept[kept] = test.difference(*picked(results.block, compared, kept), level).low > 0
    return results._replace(reported=kept)


# -- rates, effects with intervals, log-odds --------------------------------------------------------------------------


def described(
    cells: Cells,
    results: Results,
    rows: tuple[Index, ...],
    test: CountTest,
    level: float,
    compared: Comparisons,
) -> DataFrame:
    """Return the columns `context` to `reported` of ASSOCIATIONS for the given rows (tests of the block and comparisons, (R,) each)."""
    (number, comparison), verdicts = rows, results.verdicts
    tests, sides = results.block.of(number), compared.of(comparison)
    own = np.arange(len(number)), sides.identity
    ranking = ranking_of(tests)
    ahead = Comparisons(
        sides.identity, np.where(ranking.first == sides.identity, ranking.second, ranking.first)
    )
    numbers = zip(("count", "lists", "others_count", "others_lists"), counts_of(tests, sides), strict=True)
    *_, runner, runner_lists = counts_of(tests, ahead)
    effect = test.difference(tests, sides, level)
    lead = effect if len(cells.identities) == 2 else test.difference(tests, ahead, level)
    odds = _log_odds_of(cells, tests)
    columns = {
        **{name: counts.sum(axis=1) for name, counts in numbers},
        "mentions": tests.mentions[own],
        **effect._asdict(),
        "level": np.full(len(number), level),
        "runner_up_rate": ratio(runner.sum(axis=1), runner_lists.sum(axis=1)),
        "runner_up_effect": lead.effect,
        "runner_up_low": lead.low,
        "runner_up_high": lead.high,
        "log_odds": odds.estimate[own],
        "z": odds.z[own],
        "score": effect.effect if verdicts.score is None else verdicts.score[rows],
        "p": verdicts.p[rows],
        "q": results.q[rows],
        "reported": results.reported[rows],
    }
    made = (
        DataFrame(columns)
        .with_columns(rate=col.count / col.lists, others_rate=col.others_count / col.others_lists)
        .fill_nan(None)
    )
    return made.with_columns(
        context=context_names(cells, tests.context),
        concept=cells.concepts.gather(tests.concept),
        identity=cells.identities.gather(sides.identity),
        against=cells.identities.gather(Series(sides.against).replace(EVERYONE, None)),
        runner_up=when(col.runner_up_rate.is_not_null()).then(cells.identities.gather(ahead.against)),
    )


def context_names(cells: Cells, context: Index) -> Series:
    """Return the names of contexts; null for tests over all contexts (-1)."""
    return cells.contexts.gather(Series(context).replace(-1, None))


def _log_odds_of(cells: Cells, block: CountBlock) -> LogOdds:
    """Return the log-odds, shape (T, K). The prior is the share of each concept among all mentions."""
    known = ~np.isnan(cells.mentions)
    share = np.where(known, cells.held, 0.0).sum(axis=(1, 2)) / max(cells.mentions[known].sum(), 1.0)
    weight = PRIOR * block.mentions.sum(axis=1) / np.maximum(block.compared.sum(axis=1), 1)
    prior = np.stack([weight * share[block.concept], weight], axis=1)
    return log_odds(block.held.sum(axis=2), block.mentions, prior)
