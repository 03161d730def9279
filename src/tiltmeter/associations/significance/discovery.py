"""Which concepts a model attaches to which identity more than chance would: the published definitions by name, and a better one.

`find_associations` takes lists and mentions, `compare_counts` a table of counts.

For identity i and concept x in a context: a_i lists with x, of n_i lists with T_i mentions.

    "paper"      score (a_i - least other a_j) / n_i; chi-squared of independence (Yates' correction for two identities);
                 reported where the score is above 0 and p < 0.05, within contexts only
    "badf-code"  the same over T_i: what the released code computes, and every published score
    "default"    the concept is credited to the identity with the highest rate a_i/n_i (a tie: to none), by a one-sided test of it
                 against all others together, exact where an expected count is below 5, p times the number of identities compared;
                 only concepts in at least `minimum` lists; within contexts, and over all of them within strata (Mantel-Haenszel);
                 Benjamini-Hochberg over all of these as one family; reported where q < 0.05

Descriptor types (`stratum`, such as "male" and "female" descriptors of all identities) are pooled, as in the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from polars import DataFrame, Series, col, when

from tiltmeter.arrays import Booleans, Floats, Index, Integers
from tiltmeter.associations.definitions import DEFAULT, AssociationRules, rules_of
from tiltmeter.associations.significance.counts import (
    COUNTS,
    LEVEL,
    CountBlock,
    CountTest,
    Incidence,
    block_of,
    blocks_of,
    cells_of,
    context_names,
    described,
    effects_of,
    incidence_of,
    one_sided,
    place_of,
    ranking_of,
    read_cells,
    reported_of,
    strata_of,
    verdicts_of,
)
from tiltmeter.associations.significance.robust import ClusterTest, speaks_of_names
from tiltmeter.associations.stage_tables import ASSOCIATIONS
from tiltmeter.errors import InputError
from tiltmeter.registry import check_known
from tiltmeter.study import beside, conform


def find_associations(
    lists: DataFrame,
    mentions: DataFrame,
    *,
    rules: AssociationRules = DEFAULT,
    level: float = 0.95,
    seed: int = 123,
    minimum: int = 5,
) -> DataFrame:
    """Count, test and describe every concept in every context.

    Parameters
    ----------
    lists
        With the columns of LISTS. Lists with status "missing" do not count. Lists in no context, where others have one, count in
        the tests over all contexts only.
    mentions
        `attempt`, `character` and `concept` (null: of none that is looked at). A list that mentions a concept twice counts once.
    rules
        Of the definition; see the top of this module.
    level
        Confidence level of the intervals (Newcombe; over all contexts in the stratified form).
    seed
        Deals repetitions to the two halves.
    minimum
        Lists, over all identities, that a concept must be in to be tested by the default definition.

    Returns
    -------
    pl.DataFrame
        ASSOCIATIONS, in the order context (null, over all contexts, last), concept, identity. By the default definition the p-value
        of a concept is on the row of the identity with the highest rate (the first of them in a tie), so that each test has one row
        with a p-value, and an identity that never has a concept has a row only where the concept is tested. By the published ones it is
        on every row. In rows over all contexts `rate` and `others_rate` are plain shares, and the effect is the Mantel-Haenszel
        difference, which equals theirs where the design is balanced. Halves, descriptors and `rests_on` are given for reported rows only.
    """
    incidence = incidence_of(lists, mentions)
    cells = incidence.cells
    blocks = list(blocks_of(cells, rules))
    by_name = not rules.published and speaks_of_names(lists)
    test = CountTest() if rules.published else ClusterTest(incidence, by_name=by_name)
    verdicts = [verdicts_of(block, rules, minimum, test) for block in blocks]
    reported = reported_of(blocks, verdicts, rules, test, level)
    halves = halves_of(incidence, seed, by_name=by_name)
    parts = [DataFrame(schema=dict(ASSOCIATIONS))]
    for block, verdict, q, found in zip(blocks, verdicts, reported.q, reported.found, strict=True):
        counted = block.compared & (~np.isnan(verdict.p)[:, None] | (block.held > 0).any(axis=2))
        backing = _backing_of(incidence, block.of(np.nonzero(found)[0]), np.nonzero(found)[1], rules, halves)
        others, chosen = (
            described(cells, block, verdict, q, found, interval, np.nonzero(rows), test)
            for interval, rows in ((level, counted & ~found), (reported.level, found))
        )
        parts += [others, pl.concat([chosen, backing], how="horizontal")]
    return conform(pl.concat(parts, how="diagonal_relaxed"), ASSOCIATIONS).sort("context", "concept", "identity", nulls_last=True)


def score_counts(counts: DataFrame, definition: str) -> DataFrame:
    """Score and test counts by a published definition, "paper" or "badf-code": adds `score`, `p` and `reported`.

    `counts` as for `compare_counts`, whose errors it raises; InputError for another definition, too.
    """
    rules = rules_of(definition)
    if not rules.published:
        raise InputError("counts are scored by the published definitions paper and badf-code; compare_counts tests by the default one")
    return counts.with_columns(compare_counts(counts, rules).select("score", "p", "reported"))


def compare_counts(counts: DataFrame, rules: AssociationRules = DEFAULT, minimum: int = 5) -> DataFrame:
    """Test counts within contexts: adds the columns of ASSOCIATIONS from `others_count` to `reported`.

    By the default definition the family of q is what the table holds: where it holds only the concepts that were found significant, q is
    too small. By the published ones `score` is null where the divisor is 0 or not known, `p` is the same for all identities of a context
    and concept, and both are null where fewer than two identities have lists.

    Parameters
    ----------
    counts
        `context` (location category; null where there is none), `concept`, `identity`; `count` (lists of the identity in the context that
        hold the concept), `lists` (of the identity in the context, whatever the concept), `mentions` (of any concept in them; may be null:
        the score of "badf-code" and the log-odds are null then). It holds one row for *every* identity of a context beside each concept
        in it, count 0 included; `lists` and `mentions` are the same for all concepts of a context and identity; an identity that has no
        list in a context has no row there, or rows with 0 lists. Other columns are kept, and so is the order.
    rules, minimum
        As for `find_associations`.

    Raises
    ------
    InputError
        The counts break this contract, or are of fewer than two identities.
    """
    cells, test, identity = read_cells(counts)
    block = block_of(cells, cells.concept, cells.context)
    counted = CountTest()
    verdicts = verdicts_of(block, rules, minimum, counted)
    (q,), (found,), _ = reported_of([block], [verdicts], rules, counted, 0.95)
    made = described(cells, block, verdicts, q, found, 0.95, (test, identity), counted)
    added = {name: kind for name, kind in ASSOCIATIONS.items() if name in made.columns and name not in COUNTS}
    return counts.with_columns(conform(made, added))


# -- what an association rests on: both halves of the repetitions, and the descriptors of its identity ----------------

_ABBA = np.array([False, True, True, False])
"""Of four repetitions the outer two go to one half and the inner two to the other."""


def halves_of(incidence: Incidence, seed: int, *, by_name: bool = False) -> Index:
    """Deal the repetitions, or the first names, to two halves: (L,) 0 or 1; -1 where a list has no repetition.

    Whole repetitions are dealt, so that both lists of a story lie in one half. Four by four they go ABBA or BAAB, as the seed
    tosses: a design that exchanges the order of the names from one repetition to the next, or half-way, is balanced in both. Where there
    are many names, half of them are in one half, so that an association is confirmed by stories about other names.
    """
    rank = incidence.name if by_name else incidence.repetition
    blocks = rank.max(initial=0) // 4 + 1
    tossed = np.random.Generator(np.random.PCG64(seed)).random(blocks) < 0.5
    return np.where(rank < 0, -1, (_ABBA[rank % 4] ^ tossed[rank // 4]).astype(np.intp))


def _backing_of(incidence: Incidence, block: CountBlock, identity: Index, rules: AssociationRules, halves: Index) -> DataFrame:
    """The columns after `reported`, of reported rows: their tests, and whose associations they are (R,).

    An association is confirmed where the identity has the concept more often than all others with one-sided p < 0.05 in both
    halves, each of which is a discovery that the other repeats; null where a half lacks lists of either side.
    """
    numbers = {}
    for half, name in enumerate(("first", "second")):
        cells = cells_of(incidence, incidence.identity, halves == half)
        numbers[f"effect_{name}"], numbers[f"p_{name}"] = _one_against_others(block_of(cells, block.concept, block.context), identity)
    frame = DataFrame(numbers).fill_nan(None)
    confirmed = (col.p_first < LEVEL) & (col.p_second < LEVEL)
    known = col.effect_first.is_not_null() & col.effect_second.is_not_null()
    carriers = _carriers_of(incidence, block, identity, rules)
    return pl.concat([frame.with_columns(confirmed=when(known).then(confirmed)), carriers], how="horizontal")


def _one_against_others(block: CountBlock, identity: Index) -> tuple[Floats, Floats]:
    """Effect and one-sided p of an identity in each test; NaN where there is nothing to compare."""
    effect = effects_of(block)[np.arange(len(identity)), identity]
    return effect, np.where(np.isnan(effect), np.nan, one_sided(block, identity))


def _carriers_of(incidence: Incidence, block: CountBlock, identity: Index, rules: AssociationRules) -> DataFrame:
    """Per row `descriptors` (of its identity, that carry the concept; null where none is known) and `rests_on`.

    An association rests on the one descriptor without whose lists it is gone (by the default definition: effect above 0 and p < 0.05 no
    longer hold, the p-value times the number of identities as in the test; by the published ones: score above 0 and p < 0.05); null where
    no descriptor alone, or more than one, has that power, or the identity has a single one. Only descriptors that carry the concept
    matter: without another one, the identity's rate is higher still.
    """
    cells, place = incidence.cells, ["context", "identity"]
    lists = DataFrame({"context": incidence.context, "identity": incidence.identity, "descriptor": incidence.descriptor})
    rows = DataFrame({"concept": block.concept, "identity": identity, "context": strata_of(cells, block.context)}).with_row_index("row")
    held = lists[incidence.pair_list].with_columns(concept=Series(cells.concept[incidence.pair_test]))
    counts = held.join(rows, on=["concept", "identity"], how="semi").group_by(held.columns).agg(count=pl.len())
    sizes = lists.filter(col.descriptor >= 0).group_by(lists.columns).agg(lists=pl.len())
    tests = rows.explode("context").with_columns(stratum=pl.int_range(pl.len()).over("row"))
    # One row for each descriptor and stratum of a test; then an entry for each descriptor that carries it.
    parts = tests.join(sizes, on=place).join(counts, on=held.columns, how="left").with_columns(col.count.fill_null(0))
    parts = parts.with_columns(several=col.descriptor.n_unique().over("row") > 1)
    parts = parts.filter(col.count.sum().over("row", "descriptor") > 0)
    parts = parts.with_columns(entry=pl.struct("row", "descriptor").rank("dense") - 1)
    carriers = parts.group_by("entry", "row", "descriptor", "several").agg(col("count", "lists").sum()).sort("entry")
    row, (entry, stratum) = carriers["row"].to_numpy(), parts["entry", "stratum"].to_numpy().T
    without, of_carrier = block.of(row), identity[row]
    for numbers, name in ((without.held, "count"), (without.lists, "lists")):
        np.subtract.at(numbers, (entry, of_carrier[entry], stratum), parts[name].to_numpy())
    gone = Series(~_holds(without, of_carrier, rules)) & carriers["several"]
    table = carriers.with_columns(incidence.descriptors.gather(carriers["descriptor"]), gone=gone)
    table = table.sort("row", "count", "descriptor", descending=[False, True, False])
    alone = when(col.gone.sum() == 1).then(col.descriptor.filter("gone").first())
    found = table.group_by("row").agg(descriptors=pl.struct("descriptor", "count", "lists"), rests_on=alone)
    return beside(rows.select("row"), found, "row").drop("row")


def _holds(block: CountBlock, identity: Index, rules: AssociationRules) -> Booleans:
    """Whether an identity has an association by its own p-value."""
    if rules.published:
        verdicts = verdicts_of(block, rules, 0, CountTest())
        return verdicts.credited[np.arange(len(identity)), identity] & (verdicts.p < LEVEL)
    effect, p = _one_against_others(block, identity)
    holds: Booleans = (effect > 0) & (p * block.compared.sum(axis=1) < LEVEL)
    return holds


# -- what chance alone gives: the same lists under identities dealt at random -----------------------------------------

_MOST_LISTS = {True: 1 << 20, False: 1 << 15}
"""Sums of lists, over all contexts and within one, up to which a table of counts is remembered: so many fit into one number."""
UNITS = ("list", "descriptor")
ENOUGH = 20
EQUAL = 1e-12
"""Effects that are equal in exact arithmetic differ by less."""


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
) -> Integers:
    """How many associations are reported when identities mean nothing: they are shuffled, and everything is tested again.

    Parameters
    ----------
    lists, mentions, rules, minimum
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
    incidence = incidence_of(lists, mentions)
    if not rules.published:
        support = np.bincount(incidence.cells.concept, incidence.cells.held.sum(axis=1), minlength=len(incidence.cells.concepts))
        incidence = _only_tests(incidence, support[incidence.cells.concept] >= minimum)
    counted = np.ones((len(incidence.cells.concepts), len(incidence.cells.identities)), dtype=bool)
    if without is not None:
        names = {"concept": incidence.cells.concepts, "identity": incidence.cells.identities}
        left_out = DataFrame({column: place_of(without[column], known) for column, known in names.items()}).drop_nulls()
        counted[left_out["concept"].to_numpy(), left_out["identity"].to_numpy()] = False
    tail, by_name = _RememberedTests(fixed=by == "list"), speaks_of_names(lists)
    known: dict[bytes, int] = {}
    counts, reached = [], 0
    for labels in _shuffled_identities(incidence, by, runs, seed):
        dealt = labels.tobytes() if by == "descriptor" else b""  # few descriptors can be dealt in few ways
        if dealt not in known or not dealt:
            shuffled = incidence._replace(identity=labels, cells=cells_of(incidence, labels))
            blocks = list(blocks_of(shuffled.cells, rules, minimum))
            test = CountTest(tail) if rules.published else ClusterTest(shuffled, tail, by_name=by_name, whole=False)
            verdicts = [verdicts_of(block, rules, minimum, test) for block in blocks]
            found = reported_of(blocks, verdicts, rules, test, 1 - LEVEL).found
            known[dealt] = sum(int((mine & counted[block.concept]).sum()) for block, mine in zip(blocks, found, strict=True))
        counts.append(known[dealt])
        reached += observed is not None and known[dealt] >= observed
        if reached == ENOUGH:
            break
    return np.array(counts, dtype=np.int64)


def permutation_p(
    lists: DataFrame, mentions: DataFrame, concepts: Sequence[str], *, by: str = "descriptor", runs: int = 999, seed: int = 123
) -> DataFrame:
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
    known, rules = incidence.cells.concepts, DEFAULT
    for concept in concepts:
        check_known(concept, known.to_list(), f"no list has the concept {concept!r}")
    incidence = _only_tests(incidence, known.is_in(list(concepts)).to_numpy()[incidence.cells.concept])
    cells = incidence.cells
    blocks = list(blocks_of(cells, rules))
    effect = np.concatenate([_greatest_effect(block) for block in blocks])
    reached = np.zeros(effect.shape)
    for labels in _shuffled_identities(incidence, by, runs, seed):
        shuffled = np.concatenate([_greatest_effect(block) for block in blocks_of(cells_of(incidence, labels), rules)])
        # Where a shuffle leaves nothing to compare it shows no effect.
        reached += np.nan_to_num(shuffled) >= effect - EQUAL
    return DataFrame(
        {
            "context": pl.concat([context_names(cells, block.context) for block in blocks]),
            "concept": cells.concepts.gather(np.concatenate([block.concept for block in blocks])),
            "identity": cells.identities.gather(np.concatenate([ranking_of(block).first for block in blocks])),
            "effect": effect,
            "p": np.where(np.isnan(effect), np.nan, (1 + reached) / (1 + runs)),
        }
    ).fill_nan(None)


class _RememberedTests:
    """`one_sided`, computed once for each table of counts that comes up: shuffling brings the same small counts again and again.

    Parameters
    ----------
    fixed
        Shuffling leaves the lists of each identity in each context as many as they are. The p-value over all contexts then follows from
        the concept, the identity and the sum of its counts.
    """

    def __init__(self, *, fixed: bool) -> None:
        self._fixed = fixed
        self._known: dict[bool, dict[int, float]] = {True: {}, False: {}}

    def __call__(self, block: CountBlock, identity: Index) -> Floats:
        rows, over_all = np.arange(len(identity)), block.held.shape[2] > 1
        held, lists = block.held.sum(axis=2), block.lists.sum(axis=2)
        if (over_all and not self._fixed) or lists.sum(axis=1).max(initial=0) >= _MOST_LISTS[over_all]:
            return one_sided(block, identity)
        if over_all:
            parts = [block.concept, identity, held[rows, identity]]
        else:
            parts = [held[rows, identity], held.sum(axis=1), lists[rows, identity], lists.sum(axis=1)]
        keys = np.zeros(len(rows), dtype=np.int64)
        for part in parts:
            keys = keys * _MOST_LISTS[over_all] + part.astype(np.int64)
        known = self._known[over_all]
        fresh, first, place = np.unique(keys, return_index=True, return_inverse=True)
        some = first[[key not in known for key in fresh.tolist()]]
        known |= zip(keys[some].tolist(), one_sided(block.of(some), identity[some]).tolist(), strict=True)
        return np.array([known[key] for key in fresh.tolist()])[place]


def _greatest_effect(block: CountBlock) -> Floats:
    """(T,) the greatest effect of an identity against all others; NaN where there is nothing to compare."""
    greatest: Floats = np.fmax.reduce(effects_of(block), axis=1)
    return greatest


def _only_tests(incidence: Incidence, tests: Booleans) -> Incidence:
    """Only some of the tests; mentions stay as they were."""
    cells, pairs = incidence.cells, tests[incidence.pair_test]
    number = np.cumsum(tests) - 1
    fewer = cells._replace(context=cells.context[tests], concept=cells.concept[tests], held=cells.held[tests])
    kept = number[incidence.pair_test[pairs]]
    by_test = np.argsort(kept, kind="stable")
    return incidence._replace(cells=fewer, pair_list=incidence.pair_list[pairs], pair_test=kept, pairs_by_test=by_test)


def _shuffled_identities(incidence: Incidence, by: str, runs: int, seed: int) -> Iterator[Index]:
    """Identities (L,) dealt at random, `runs` times."""
    check_known(by, UNITS, f"identities cannot be shuffled by {by!r}")
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
