"""Tests of counts of lists by concept and identity, their verdicts, and the rows that describe them.

The dimensions are T tests (a concept in a context), P comparisons, R contrasts (a test with a comparison), K
identities and S strata; see `comparisons`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Series, col, when

from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.associations._definitions import AssociationDefinition
from tiltmeter.associations._significance.comparisons import (
    EVERYONE,
    Comparisons,
    Contrasts,
    CountBlock,
    chosen_contrasts,
    contrasts_of,
    ranking_of,
)
from tiltmeter.associations._significance.incidence import Cells, context_names
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

PRIOR: Final = 0.1
"""Weight of the prior of the log-odds as a share of the mentions of an average identity (Monroe et al.: about
500 of 6,000)."""

LEVEL: Final = 0.05
"""Significance level: for q in the default definition; for p in the published ones, the halves and the
leave-one-out checks."""

_EXACT: Final = 1e-12
"""Tolerance for sums over strata that are equal in exact arithmetic."""


class Verdicts(NamedTuple):
    """Results of the tests of a block."""

    p: Floats  # (T, P) by comparison; NaN: not tested
    score: Floats | None  # (T, P) in the published definitions; NaN if an identity is not compared
    credited: Booleans  # (T, P) whether it is an association of the identity if significant


class RateDifference(NamedTuple):
    """Differences between the rates of an identity and of others.

    Arrays of shape (R,), named as in ASSOCIATIONS.
    """

    effect: Floats
    low: Floats
    high: Floats
    name_spread: Floats
    """Standard deviation of the rate between first names of the identity; NaN if names are unknown."""


class CountTest:
    """Tests and intervals of differences of rates for independent lists."""

    def p(self, contrasts: Contrasts) -> Floats:
        """Return one-sided p-values (R,) of the identity having a higher rate than the others."""
        counts = contrasts.counts
        if counts.lists.shape[1] == 1:
            return greater(*(count[:, 0] for count in counts))
        return stratified_greater(*counts)

    def difference(self, contrasts: Contrasts, level: float) -> RateDifference:
        """Return the difference (R,) between the rates of both sides, with its interval."""
        difference = stratified_rate_difference(*contrasts.counts, level)
        return RateDifference(*difference, name_spread=np.full(len(contrasts.concept), np.nan))


def verdicts_of(
    block: CountBlock,
    rules: AssociationDefinition,
    minimum: int,
    test: CountTest,
    compared: Comparisons,
    possible: Booleans | None = None,
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
    possible
        The tests (T, P) that may be selected: of the others, p is known to be large, and is set to 1. None:
        any test may be.
    """
    if rules.published:
        return _published_verdicts(block, rules)
    has_lists = block.compared
    against = compared.against
    is_compared = can_compare(has_lists)[:, compared.identity]
    tested = is_compared & ((against == EVERYONE) | has_lists[:, against])
    tested &= (block.with_concept.sum(axis=(1, 2)) >= minimum)[:, None]

    if possible is None:
        counts = chosen_contrasts(block, compared, tested).counts
        credited = tested.copy()
        credited[tested] = stratified_rate_difference(*counts).estimate > _EXACT
    else:  # a small one-sided p-value belongs to a higher rate
        credited = tested & possible
    p = np.where(tested, 1.0, np.nan)
    p[credited] = test.p(chosen_contrasts(block, compared, credited))
    return Verdicts(p, score=None, credited=credited)


def _published_verdicts(block: CountBlock, rules: AssociationDefinition) -> Verdicts:
    """Return the verdicts of a published definition, which compares all identities of a context."""
    has_lists = block.compared
    is_compared = can_compare(has_lists)
    with_concept = block.with_concept[..., 0]
    lists = block.lists[..., 0]
    smallest = np.where(has_lists, with_concept, np.inf).min(axis=1, keepdims=True)
    divisor = lists if rules.score_over == "lists" else block.mentions
    score = np.where(is_compared, ratio(with_concept - smallest, divisor), np.nan)
    p = np.where(is_compared, independence_p(with_concept, lists)[:, None], np.nan)
    return Verdicts(p, score, credited=score > 0)


def can_compare(has_lists: Booleans) -> Booleans:
    """Return whether an identity has lists and is not the only one, shape (T, K)."""
    is_compared: Booleans = has_lists & (has_lists.sum(axis=1, keepdims=True) > 1)
    return is_compared


class Results(NamedTuple):
    """The tests of a block with their results, by comparison."""

    block: CountBlock
    verdicts: Verdicts
    q: Floats  # (T, P)
    reported: Booleans  # (T, P)


def untested(block: CountBlock, method: Method) -> Results:
    """Return the results of concepts in too few lists to be tested."""
    shape = (len(block.concept), len(method.compared.identity))
    unknown = np.full(shape, np.nan)
    none = np.zeros(shape, dtype=bool)
    return Results(block, Verdicts(p=unknown, score=None, credited=none), q=unknown, reported=none)


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """How a study tests its associations."""

    rules: AssociationDefinition
    minimum: int
    """Minimum number of lists with a concept for it to be tested in the default definition."""
    test: CountTest
    """Test of an identity against others in the default definition."""
    compared: Comparisons
    """The P comparisons."""
    level: float = 0.95
    """Confidence level of a single interval."""

    @property
    def least_support(self) -> int:
        """Number of lists with a concept from which it is tested; the published definitions test all."""
        return 1 if self.rules.published else max(self.minimum, 1)


def results_of(
    blocks: Sequence[CountBlock], method: Method, possible: Sequence[Booleans] = ()
) -> tuple[list[Results], float]:
    """Test all blocks, which form one family of tests, and select the reported associations.

    The default definition selects concepts, then comparisons within concepts (`hierarchical_q`). Of these, it
    reports those whose interval, at a level adjusted for the number of reported associations, does not
    contain 0. The published definitions test each concept separately.

    Parameters
    ----------
    blocks
        All tests.
    method
        How they are tested.
    possible
        The tests of each block that may be selected, see `verdicts_of`; empty: any.

    Returns
    -------
    results
        The results of each block.
    level
        Confidence level of the intervals of the reported associations, such that 95% of these intervals
        contain the true value.
    """
    rules = method.rules
    verdicts = [
        verdicts_of(block, rules, method.minimum, method.test, method.compared, possible_of_block)
        for block, possible_of_block in zip_longest(blocks, possible)
    ]
    if not verdicts:
        return [], method.level
    p = np.concatenate([verdict.p for verdict in verdicts])
    q = _published_q(p) if rules.published else _default_q(p, blocks)
    ends = np.cumsum([len(verdict.p) for verdict in verdicts])[:-1]
    results = []
    for block, verdict, q_of_block in zip(blocks, verdicts, np.split(q, ends), strict=True):
        limited = verdict.p if rules.published else q_of_block
        reported = verdict.credited & (limited < LEVEL)
        results.append(Results(block, verdict, q_of_block, reported))
    if rules.published:
        return results, method.level
    return _select_intervals(results, method, tested=int((~np.isnan(p)).sum()))


def _published_q(p: Floats) -> Floats:
    """Return the q-values of Benjamini and Hochberg over concepts.

    The comparisons of a concept have the same p, shape (T, P).
    """
    q = benjamini_hochberg(np.fmax.reduce(p, axis=1))
    return np.where(np.isnan(p), np.nan, q[:, None])


def _default_q(p: Floats, blocks: Sequence[CountBlock]) -> Floats:
    """Return hierarchical q-values of the p-values (T, P) of all blocks; the families are concepts."""
    concepts = np.concatenate([block.concept for block in blocks])
    families = np.unique(concepts, return_inverse=True)[1]
    return hierarchical_q(p.ravel(), np.repeat(families, p.shape[1])).reshape(p.shape)


def _select_intervals(results: Sequence[Results], method: Method, tested: int) -> tuple[list[Results], float]:
    """Keep the reported associations whose interval at the adjusted level is above 0; also return the level.

    The level depends on the number of reported associations, so that the selection is repeated until it does
    not change.

    Parameters
    ----------
    tested
        Number of comparisons that were tested.
    """
    selected = list(results)
    level = method.level
    while (number := _reported_count(selected)) > 0:
        # `number` intervals are selected among those of all comparisons, by their lower ends only: twice the
        # one-sided share.
        level = 1.0 - (1.0 - method.level) * min(2 * number / tested, 1.0)
        above = [_above_null(result, method, level) for result in selected]
        if _reported_count(above) == number:
            break
        selected = above
    return selected, level


def _reported_count(results: Sequence[Results]) -> int:
    return sum(int(result.reported.sum()) for result in results)


def _above_null(results: Results, method: Method, level: float) -> Results:
    """Keep only the reported associations that have an interval above 0."""
    reported = results.reported.copy()
    contrasts = chosen_contrasts(results.block, method.compared, reported)
    reported[reported] = method.test.difference(contrasts, level).low > 0
    return results._replace(reported=reported)


# -- rates, effects with intervals, log-odds -------------------------------------------------------


def describe(
    cells: Cells, results: Results, rows: tuple[Index, ...], method: Method, level: float
) -> DataFrame:
    """Return the columns `context` to `reported` of ASSOCIATIONS.

    Parameters
    ----------
    rows
        The test of the block and the comparison of each row, (R,) each.
    level
        Confidence level of the intervals.
    """
    test_number, comparison = rows
    sides = method.compared.select(comparison)
    contrasts = contrasts_of(results.block, test_number, sides)
    counts = contrasts.counts
    effect = method.test.difference(contrasts, level)
    odds = _log_odds_of(cells, results.block)
    of_identity = (test_number, sides.identity)
    score = results.verdicts.score
    measured = DataFrame(
        {
            "count": counts.with_concept.sum(axis=1),
            "lists": counts.lists.sum(axis=1),
            "others_count": counts.others_with_concept.sum(axis=1),
            "others_lists": counts.others_lists.sum(axis=1),
            **effect._asdict(),
            "mentions": results.block.mentions[of_identity],
            "level": np.full(len(test_number), level),
            "log_odds": odds.estimate[of_identity],
            "z": odds.z[of_identity],
        }
    )
    decided = DataFrame(
        {
            "score": effect.effect if score is None else score[rows],
            "p": results.verdicts.p[rows],
            "q": results.q[rows],
            "reported": results.reported[rows],
        }
    )
    runner_up = _runner_up(cells, results.block, rows, method, effect, level)
    rows_of_tests = pl.concat([measured, decided, runner_up], how="horizontal").fill_nan(None)
    return rows_of_tests.with_columns(
        rate=col.count / col.lists,
        others_rate=col.others_count / col.others_lists,
        context=context_names(cells, contrasts.context),
        concept=cells.concepts.gather(contrasts.concept),
        identity=cells.identities.gather(sides.identity),
        against=cells.identities.gather(Series(sides.against).replace(EVERYONE, None)),
    ).fill_nan(None)


def _runner_up(
    cells: Cells,
    block: CountBlock,
    rows: tuple[Index, ...],
    method: Method,
    effect: RateDifference,
    level: float,
) -> DataFrame:
    """Return the other identity with the highest rate in each row, its rate, and the lead over it.

    Parameters
    ----------
    rows
        As for `describe`.
    effect
        The difference in the comparisons; with two identities, this is the lead.
    """
    test_number, comparison = rows
    identity = method.compared.identity[comparison]
    ranking = ranking_of(block)
    first, second = ranking.first[test_number], ranking.second[test_number]
    others = np.where(first == identity, second, first)
    contrasts = contrasts_of(block, test_number, Comparisons(identity, others))
    counts = contrasts.counts
    rate = ratio(counts.others_with_concept.sum(axis=1), counts.others_lists.sum(axis=1))
    lead = effect
    if len(cells.identities) > 2:
        lead = method.test.difference(contrasts, level)
    columns = {
        "runner_up_rate": rate,
        "runner_up_effect": lead.effect,
        "runner_up_low": lead.low,
        "runner_up_high": lead.high,
    }
    name = cells.identities.gather(others)
    has_rate = col.runner_up_rate.is_not_null()
    return DataFrame(columns).fill_nan(None).with_columns(runner_up=when(has_rate).then(name))


def _log_odds_of(cells: Cells, block: CountBlock) -> LogOdds:
    """Return the log-odds, shape (T, K). The prior is the share of each concept among all mentions."""
    has_mentions = ~np.isnan(cells.mentions)
    lists_with_concept = np.where(has_mentions, cells.with_concept, 0.0).sum(axis=(1, 2))
    share = lists_with_concept / max(cells.mentions[has_mentions].sum(), 1.0)
    weight = PRIOR * block.mentions.sum(axis=1) / np.maximum(block.compared.sum(axis=1), 1)
    prior = np.stack([weight * share[block.concept], weight], axis=1)
    return log_odds(block.with_concept.sum(axis=2), block.mentions, prior)
