"""Counts and their tests as arrays: which list holds which concept, how many lists of each identity do, and whose association that is.

A *test* is a concept in a context. L lists, P pairs of a list and a concept in it, T tests, K identities, C contexts. A block of tests has
counts (T, K, S), S strata within which identities are compared: one, or all contexts for a test over all of them. An identity without a
list anywhere takes no part. Shuffled identities go the same way as the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col, when

from tiltmeter.arrays import Booleans, Floats, Index
from tiltmeter.associations.definitions import AssociationRules
from tiltmeter.errors import InputError
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
from tiltmeter.study import beside

COUNTS = {
    "context": String,
    "concept": String,
    "identity": String,
    "count": Int64,  # lists of the identity with the concept
    "lists": Int64,  # lists of the identity in the context, whatever the concept
    "mentions": Int64,  # of any concept in them; null where it is not known
}
"""Columns of a table of counts: one row for every identity of the context, count 0 included, for each concept in it."""


class Cells(NamedTuple):
    """How many lists of each identity hold each concept in each context."""

    contexts: Series  # C names, null last; null: lists that lie in no context
    concepts: Series
    identities: Series  # K names
    context: Index  # (T,) place in `contexts`
    concept: Index  # (T,) place in `concepts`; tests are in order of concept, then context
    held: Floats  # (T, K) lists that hold the concept
    lists: Floats  # (C, K)
    mentions: Floats  # (C, K); NaN where it is not known


class Incidence(NamedTuple):
    """Which list holds which concept."""

    cells: Cells
    identity: Index  # (L,)
    context: Index  # (L,)
    stratum: Index  # (L,)
    descriptor: Index  # (L,) place in `descriptors`; -1: not known
    repetition: Index  # (L,) rank among the repetitions there are; -1: not known
    name: Index  # (L,) number of the first name; -1: not known
    story: Index  # (L,) number of the story
    said: Floats  # (L,) mentions
    descriptors: Series  # names of those there are, of one identity after the other
    pair_list: Index  # (P,)
    pair_test: Index  # (P,)
    pairs_by_test: Index  # (P,) numbers of the pairs, those of a test together


def incidence_of(lists: DataFrame, mentions: DataFrame) -> Incidence:
    """Number lists, concepts and tests.

    Parameters
    ----------
    lists
        With the columns of LISTS; those whose status is "missing" do not count.
    mentions
        `attempt`, `character` and `concept`; several mentions of a concept in a list count once, and a mention without a concept
        (null) is a mention only.

    Raises
    ------
    InputError
        The lists are of fewer than two identities.
    """
    counted = lists.filter(col.status != "missing").with_row_index("list")
    named = (_numbered(counted[name]) for name in ("identity", "context", "stratum"))
    (identities, identity), (contexts, context), (_, stratum) = named
    if len(identities) < 2:
        raise InputError(_too_few(lists, identities))
    owners = counted.select("descriptor", identity=Series(identity))
    descriptors = owners.drop_nulls().unique().sort("identity", "descriptor")
    numbered = beside(owners, descriptors.with_row_index("place"), *owners.columns)
    owner = ["attempt", "character"]
    mentioned = mentions.select(*owner, "concept").join(counted.select("list", *owner), on=owner)
    held = mentioned.select("list", "concept").drop_nulls()
    concepts, concept = _numbered(held["concept"])
    pairs = held.with_columns(concept=Series(concept)).unique().sort("list", "concept")
    pair_list, pair_concept = _index(pairs["list"]), _index(pairs["concept"])
    context_of, concept_of, pair_test = _tests_among(context[pair_list], pair_concept)
    empty = np.zeros((0, 0))
    made = Incidence(
        Cells(contexts, concepts, identities, context_of, concept_of, empty, empty, empty),
        identity,
        context,
        stratum,
        _index(numbered["place"]),
        _index(counted["repetition"].rank("dense") - 1),
        _index(counted["name"].rank("dense") - 1),
        _index(counted["attempt"].rank("dense") - 1),
        np.bincount(_index(mentioned["list"]), minlength=counted.height).astype(np.float64),
        descriptors["descriptor"],
        pair_list,
        pair_test,
        np.argsort(pair_test, kind="stable"),
    )
    return made._replace(cells=cells_of(made, identity))


def cells_of(incidence: Incidence, identity: Index, chosen: Booleans | None = None) -> Cells:
    """Count: every list as one of the given `identity` (L,), only the `chosen` lists (L,) where they are given."""
    cells = incidence.cells
    k = len(cells.identities)
    weight = np.ones(len(identity)) if chosen is None else chosen.astype(np.float64)
    cell, shape = incidence.context * k + identity, (len(cells.contexts), k)
    pair = incidence.pair_test * k + identity[incidence.pair_list]
    held = _summed(pair, weight[incidence.pair_list], (len(cells.context), k))
    return cells._replace(held=held, lists=_summed(cell, weight, shape), mentions=_summed(cell, weight * incidence.said, shape))


def read_cells(counts: DataFrame) -> tuple[Cells, Index, Index]:
    """Cells of a table of counts (see `compare_counts`), with the test and the identity of each of its rows.

    Raises
    ------
    InputError
        A column is missing; a row is there twice; an identity of a context has no row for a concept of it; counts do not lie
        between 0 and the lists and mentions; lists or mentions of an identity differ within a context.
    """
    for name in COUNTS:
        if name not in counts.columns:
            raise InputError(f"the table of counts has no column {name!r}; it needs {', '.join(COUNTS)}")
    for wrong, what in _CONTRACT:
        if (found := counts.filter(wrong)).height:
            row = found.row(0, named=True)
            raise InputError(f"the row of counts for {row['concept']!r}, {row['identity']!r} in {row['context']!r} {what}")
    named = (_numbered(counts[name]) for name in ("context", "concept", "identity"))
    (contexts, context), (concepts, concept), (identities, identity) = named
    if len(identities) < 2:
        raise InputError(f"the table of counts is of {len(identities)} identity, so there is nothing to compare: it needs two or more")
    context_of, concept_of, test = _tests_among(context, concept)
    held, lists, mentions = (np.zeros((size, len(identities))) for size in (len(concept_of), len(contexts), len(contexts)))
    for table, place, name in ((held, test, "count"), (lists, context, "lists"), (mentions, context, "mentions")):
        table[place, identity] = counts[name].cast(Float64).fill_null(np.nan).to_numpy()
    return Cells(contexts, concepts, identities, context_of, concept_of, held, lists, mentions), test, identity


_HERE = ("context", "identity")
_CONTRACT = (
    (~col.count.is_between(0, col.lists).fill_null(False), "needs a count between 0 and its lists"),
    (col.mentions < col.count, "has fewer mentions than lists with the concept"),
    (pl.struct("context", "concept", "identity").is_duplicated(), "is there twice"),
    (col.lists.n_unique().over(_HERE) > 1, "has other lists than other rows of the identity in this context"),
    (col.mentions.n_unique().over(_HERE) > 1, "has other mentions than other rows of the identity in this context"),
    (
        pl.len().over("context", "concept") < col.identity.n_unique().over("context"),
        "is not beside a row for every other identity of the context (count 0 where it never has the concept)",
    ),
)
"""What no row of a table of counts may be, and how it is said."""


def place_of(column: Series, names: Series) -> Series:
    """The place of each value in `names`, null where it is not among them."""
    return column.cast(String).replace_strict(names, pl.int_range(len(names), eager=True), default=None)


def _summed(place: Index, weight: Floats, shape: tuple[int, int]) -> Floats:
    return np.bincount(place, weight, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape)


def _tests_among(context: Index, concept: Index) -> tuple[Index, Index, Index]:
    """The tests there are, by concept and then context: their contexts and concepts; and the test of each pair."""
    contexts = context.max(initial=0) + 1
    keys, test = np.unique(concept * contexts + context, return_inverse=True)
    return keys % contexts, keys // contexts, test


def _numbered(column: Series) -> tuple[Series, Index]:
    """The values there are, in alphabetical order, null last; and the place of each value among them."""
    names = column.cast(String).unique().sort(nulls_last=True)
    return names, _index(place_of(column, names))


def _index(column: Series) -> Index:
    """Places as an array; -1: null."""
    return column.cast(Int64).fill_null(-1).to_numpy().astype(np.intp)


def _too_few(lists: DataFrame, identities: Series) -> str:
    if not len(identities):
        return "there is no list of concepts at all, so there is nothing to compare"
    other = lists.filter(col.identity != identities[0]).height
    why = f"; the {other:,} lists of others are missing" if other else ""
    return f"all lists are of one identity, {identities[0]!r}, so there is nothing to compare it with{why}: give texts about two or more"


# -- tests and verdicts -----------------------------------------------------------------------------------------------

PRIOR = 0.1
"""Weight of the prior of the log-odds, as a share of an average identity's mentions: Monroe and others took some 500 of 6,000."""

LEVEL = 0.05
"""q below which the default definition reports, p below which the published ones do and halves and leave-one-out checks hold."""

_COUNTS_IN_BLOCK = 1 << 21
"""Of tests that are made together: 16 MiB an array."""
_EXACT = 1e-12
"""Sums over strata that are equal in exact arithmetic differ by less."""
_ABSENT = -1.0
"""Rate of an identity without lists: below every other."""


class CountBlock(NamedTuple):
    """Tests that are made together."""

    context: Index  # (T,) place of the context; -1: over all contexts
    concept: Index  # (T,)
    held: Floats  # (T, K, S)
    lists: Floats  # (T, K, S)
    mentions: Floats  # (T, K)

    @property
    def compared(self) -> Booleans:
        """(T, K) the identities with lists."""
        compared: Booleans = self.lists.sum(axis=2) > 0
        return compared

    def of(self, tests: Index) -> CountBlock:
        """Some of the tests, or tests repeated."""
        return CountBlock._make(column[tests] for column in self)


OneSided = Callable[[CountBlock, Index], Floats]
EVERYONE = -1
"""In place of an identity: all others together."""


class Ranking(NamedTuple):
    """Which identities have a concept most often."""

    first: Index  # (T,) highest rate; of those that are tied, the first
    second: Index  # (T,)
    tied: Booleans  # (T,)


class Verdicts(NamedTuple):
    """What becomes of the tests of a block."""

    p: Floats  # (T,) one for each test; NaN: not tested
    score: Floats | None  # (T, K) by the published definitions; NaN where an identity takes no part
    credited: Booleans  # (T, K) whose association it is, if the p- or q-value allows
    shown: Booleans  # (T, K) rows that carry the p-value


def strata_of(cells: Cells, context: Index) -> Index:
    """(T, S) the contexts within which a test compares: its own; all of them where it is -1."""
    every = np.arange(len(cells.contexts))
    return np.broadcast_to(every, (len(context), len(every))) if (context < 0).all() else context[:, None]


def block_of(cells: Cells, concept: Index, context: Index) -> CountBlock:
    """The tests of concepts in contexts, all of which are -1 or none; counts are 0 where a concept does not occur."""
    strata = strata_of(cells, context)
    keys = cells.concept * len(cells.contexts) + cells.context
    wanted = concept[:, None] * len(cells.contexts) + strata
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    held = np.where((keys[place] == wanted)[..., None], cells.held[place], 0.0)
    lists = cells.lists[strata]
    return CountBlock(context, concept, held.transpose(0, 2, 1), lists.transpose(0, 2, 1), cells.mentions[strata].sum(axis=1))


def blocks_of(cells: Cells, rules: AssociationRules, minimum: int = 0) -> Iterator[CountBlock]:
    """The tests within contexts, then (by the default definition, given two contexts) those over all contexts.

    Lists in no context have tests of their own only where no list has one. Concepts in fewer than `minimum` lists are left out.
    """
    k, c = len(cells.identities), len(cells.contexts)
    support = cells.held.sum(axis=1)
    within = cells.context < c - (c > 1 and cells.contexts[c - 1] is None)
    tests = np.flatnonzero(within & (support >= minimum))
    families = [(cells.concept[tests], cells.context[tests], 1)]
    if not rules.published and c > 1:
        concepts = np.flatnonzero(np.bincount(cells.concept, support) >= max(minimum, 1))
        families.append((concepts, np.full(len(concepts), -1), c))
    for concept, context, strata in families:
        size = _COUNTS_IN_BLOCK // (k * strata)
        for begin in range(0, len(concept), size):
            yield block_of(cells, concept[begin : begin + size], context[begin : begin + size])


def ranking_of(block: CountBlock) -> Ranking:
    """Rank identities by rate.

    Over several strata the rate is standardised: strata weigh as many lists as all identities have in them.
    """
    held, lists = block.held, block.lists
    there = lists > 0
    # Rates equal as fractions are equal as floats, too: division rounds them correctly.
    rate = np.where(there, ratio(held, lists), _ABSENT)
    if held.shape[2] == 1:
        height, equal = rate[..., 0], 0.0
    else:
        weight = lists.sum(axis=1, keepdims=True) * there
        height, equal = ratio((rate * weight).sum(axis=2), weight.sum(axis=2)), _EXACT
        height = np.where(np.isnan(height), _ABSENT, height)
    rows = np.arange(len(held))
    first = height.argmax(axis=1)
    rest = height.copy()
    rest[rows, first] = 2 * _ABSENT
    second = rest.argmax(axis=1)
    return Ranking(first, second, height[rows, first] - height[rows, second] <= equal)


def one_sided(block: CountBlock, identity: Index) -> Floats:
    """(T,) one-sided p that the rate of `identity` (T,) is greater than that of all others."""
    rows = np.arange(len(identity))
    a, n = block.held[rows, identity], block.lists[rows, identity]
    c, m = block.held.sum(axis=1) - a, block.lists.sum(axis=1) - n
    return greater(a[:, 0], n[:, 0], c[:, 0], m[:, 0]) if block.held.shape[2] == 1 else stratified_greater(a, n, c, m)


def others_of(values: Floats) -> Floats:
    """Return the sum over all other identities, for each identity: (T, K, S)."""
    others: Floats = values.sum(axis=1, keepdims=True) - values
    return others


def of_sides(counts: Floats, rows: Index | slice, identity: Index | int, against: Index | int) -> Floats:
    """Return the counts (N, K, S) of an identity and of what it is compared with (EVERYONE: all others): (R, S, 2) for R rows of N."""
    own = counts[rows, identity]
    all_others = counts[rows].sum(axis=1) - own
    chosen = np.where(np.atleast_1d(against)[:, None] == EVERYONE, all_others, counts[rows, against])
    return np.stack([own, chosen], axis=2)


class Compared(NamedTuple):
    """Rates of an identity and of others compared, (T,) each."""

    estimate: Floats
    low: Floats
    high: Floats
    spread: Floats  # standard deviation of the identity's rate between its names; NaN where names are not known


class CountTest:
    """Tests and intervals of differences of rates, for lists that are independent.

    Parameters
    ----------
    tail
        `one_sided`, or what remembers its values.
    """

    def __init__(self, tail: OneSided = one_sided) -> None:
        self.tail = tail

    def p(self, block: CountBlock, identity: Index) -> Floats:
        """Return the one-sided p-values (T,) that the rate of `identity` (T,) is greater than that of all others."""
        return self.tail(block, identity)

    def difference(self, block: CountBlock, identity: Index, against: Index, level: float) -> Compared:
        """Return the difference (T,) between the rates of `identity` and `against` (EVERYONE: all others), with its interval."""
        a, n, c, m = self._counts(block, identity, against)
        return Compared(*stratified_rate_difference(a, n, c, m, level), np.full(len(identity), np.nan))

    @staticmethod
    def _counts(block: CountBlock, identity: Index, against: Index) -> tuple[Floats, ...]:
        rows = np.arange(len(identity))
        held, lists = (of_sides(counts, rows, identity, against) for counts in (block.held, block.lists))
        return held[..., 0], lists[..., 0], held[..., 1], lists[..., 1]


def effects_of(block: CountBlock) -> Floats:
    """(T, K) rate of each identity minus that of all others; NaN where there is nothing to compare."""
    return stratified_rate_difference(block.held, block.lists, others_of(block.held), others_of(block.lists)).estimate


def verdicts_of(block: CountBlock, rules: AssociationRules, minimum: int, test: CountTest) -> Verdicts:
    """Test each concept.

    By the default definition the p-value is that of the identity with the highest rate, times the number of identities compared;
    by the published ones it is that of independence of identity and concept.

    Parameters
    ----------
    minimum
        Lists a concept must be in to be tested by the default definition.
    test
        How an identity is compared with all others by the default definition.
    """
    if rules.published:
        return _published_verdicts(block, rules)
    ranking, compared = ranking_of(block), block.compared.sum(axis=1)
    tested = np.flatnonzero((compared > 1) & (block.held.sum(axis=(1, 2)) >= minimum))
    p, first = np.full(len(block.concept), np.nan), ranking.first[tested]
    p[tested] = np.minimum(test.p(block.of(tested), first) * compared[tested], 1.0)
    top = np.zeros(block.held.shape[:2], dtype=bool)
    top[tested, first] = True
    return Verdicts(p, None, top & ~ranking.tied[:, None], top)


def _published_verdicts(block: CountBlock, rules: AssociationRules) -> Verdicts:
    held, lists = block.held[..., 0], block.lists[..., 0]
    there = lists > 0
    taking_part = there & (there.sum(axis=1) > 1)[:, None]
    divisor = lists if rules.score_over == "lists" else block.mentions
    ordered = np.sort(np.where(there, held, np.inf), axis=1)
    least_other = np.where(held == ordered[:, :1], ordered[:, 1:2], ordered[:, :1])
    excess = np.maximum(np.where(there, held - least_other, 0.0), 0.0)
    score = np.where(taking_part, ratio(excess, divisor), np.nan)
    p = np.where(taking_part.any(axis=1), independence_p(held, lists), np.nan)
    return Verdicts(p, score, score > 0, taking_part)


class Reported(NamedTuple):
    """What is reported of all blocks, which are one family of tests."""

    q: list[Floats]  # (T,) of each block
    found: list[Booleans]  # (T, K)
    level: float
    """Confidence level of the intervals of what is reported, such that of all these intervals 95% hold their truth."""


def reported_of(
    blocks: Sequence[CountBlock], verdicts: Sequence[Verdicts], rules: AssociationRules, test: CountTest, level: float
) -> Reported:
    """Select what is reported.

    By the default definition: concepts first, then tests within them (`hierarchical_q`); and of these, the ones whose interval does not
    hold 0 at the level that the number of reported ones asks for. The published definitions take every test by itself.

    Parameters
    ----------
    level
        Confidence level, of a single interval.
    """
    if not verdicts:
        return Reported([], [], level)
    ends = np.cumsum([len(one.p) for one in verdicts])[:-1]
    p = np.concatenate([one.p for one in verdicts])
    if rules.published:
        q, limits = np.split(benjamini_hochberg(p), ends), [one.p for one in verdicts]
        return Reported(q, [one.credited & (limit < LEVEL)[:, None] for one, limit in zip(verdicts, limits, strict=True)], level)
    families = np.unique(np.concatenate([block.concept for block in blocks]), return_inverse=True)[1]
    q = np.split(hierarchical_q(p, families, LEVEL), ends)
    found = [one.credited & (limit < LEVEL)[:, None] for one, limit in zip(verdicts, q, strict=True)]
    tested, compared = int((~np.isnan(p)).sum()), max(int(block.compared.sum(axis=1).max(initial=2)) for block in blocks)
    while (number := sum(int(one.sum()) for one in found)) > 0:
        # As many intervals were chosen among those of every test, each that of its most frequent identity: twice the one-sided share.
        adjusted = 1.0 - (1.0 - level) * number / tested * 2 / compared
        kept = [_without_null(block, one, test, adjusted) for block, one in zip(blocks, found, strict=True)]
        if sum(int(one.sum()) for one in kept) == number:
            return Reported(q, found, adjusted)
        found = kept
    return Reported(q, found, level)


def _without_null(block: CountBlock, found: Booleans, test: CountTest, level: float) -> Booleans:
    """Return the reported ones (T, K) whose interval lies above 0."""
    rows, identity = np.nonzero(found)
    low = test.difference(block.of(rows), identity, np.full(len(rows), EVERYONE), level).low
    kept = found.copy()
    kept[rows, identity] = low > 0
    return kept


# -- rates, effects with intervals, log-odds --------------------------------------------------------------------------


def described(
    cells: Cells,
    block: CountBlock,
    verdicts: Verdicts,
    q: Floats,
    reported: Booleans,
    level: float,
    rows: tuple[Index, ...],
    counted: CountTest,
) -> DataFrame:
    """The columns of ASSOCIATIONS from `context` to `reported`, for the given rows: tests of the block and identities, (R,) each."""
    test, identity = rows
    ranking = ranking_of(block)
    runner = np.where(ranking.first[test] == identity, ranking.second[test], ranking.first[test])
    a, n = block.held[rows], block.lists[rows]
    others, others_lists = others_of(block.held)[rows], others_of(block.lists)[rows]
    b, m = block.held[test, runner], block.lists[test, runner]
    tests = block.of(test)
    effect = counted.difference(tests, identity, np.full(len(test), EVERYONE), level)
    lead = effect if block.held.shape[1] == 2 else counted.difference(tests, identity, runner, level)
    odds = _log_odds_of(cells, block)
    shown = verdicts.shown[rows]
    no_runner = m.sum(axis=1) == 0
    columns = {
        "count": a.sum(axis=1),
        "lists": n.sum(axis=1),
        "mentions": block.mentions[rows],
        "others_count": others.sum(axis=1),
        "others_lists": others_lists.sum(axis=1),
        "rate": _share(a, n),
        "others_rate": _share(others, others_lists),
        "effect": effect.estimate,
        "low": effect.low,
        "high": effect.high,
        "runner_up_rate": _share(b, m),
        "runner_up_effect": lead.estimate,
        "runner_up_low": lead.low,
        "runner_up_high": lead.high,
        "name_spread": effect.spread,
        "log_odds": odds.estimate[rows],
        "z": odds.z[rows],
        "score": effect.estimate if verdicts.score is None else verdicts.score[rows],
        "p": np.where(shown, verdicts.p[test], np.nan),
        "q": np.where(shown, q[test], np.nan),
        "reported": reported[rows],
    }
    return DataFrame(columns, nan_to_null=True).with_columns(
        context=context_names(cells, block.context[test]),
        concept=cells.concepts.gather(block.concept[test]),
        identity=cells.identities.gather(identity),
        runner_up=when(~Series(no_runner)).then(cells.identities.gather(runner)),
    )


def context_names(cells: Cells, context: Index) -> Series:
    """The names of contexts; null for tests over all of them (-1)."""
    return cells.contexts.gather(Series(context).replace(-1, None))


def _log_odds_of(cells: Cells, block: CountBlock) -> LogOdds:
    """(T, K) log-odds; the prior is how large a share of all mentions each concept is, over all contexts and identities."""
    known = ~np.isnan(cells.mentions)
    count = np.where(known[cells.context], cells.held, 0.0).sum(axis=1)
    share = np.bincount(cells.concept, count, minlength=len(cells.concepts)) / max(cells.mentions[known].sum(), 1.0)
    weight = PRIOR * block.mentions.sum(axis=1) / np.maximum(block.compared.sum(axis=1), 1)
    prior = np.stack([weight * share[block.concept], weight], axis=1)
    return log_odds(block.held.sum(axis=2), block.mentions, prior)


def _share(count: Floats, lists: Floats) -> Floats:
    return ratio(count.sum(axis=1), lists.sum(axis=1))
