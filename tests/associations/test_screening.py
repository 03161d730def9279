"""Shuffles are screened without a change of any count of associations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter._arrays import Booleans, Index
from tiltmeter.associations._definitions import DEFAULT, PAPER
from tiltmeter.associations._significance import find_associations, shuffled_counts, shuffling
from tiltmeter.associations._significance.comparisons import blocks_of, comparisons_of
from tiltmeter.associations._significance.counts import LEVEL, CountTest, Method, results_of
from tiltmeter.associations._significance.incidence import cells_of, incidence_of
from tiltmeter.associations._significance.screening import Screening
from tiltmeter.associations._tables import LISTS
from tiltmeter.schema import conform

MINIMUM = 5


def lists_and_mentions(
    rng: np.random.Generator, identities: int, contexts: int, lists: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Lists of unequal groups in unequal contexts; the last context has no name. Concepts have all rates."""
    shares = rng.dirichlet(np.full(identities, 3.0))
    context = rng.integers(contexts, size=lists)
    table = pl.DataFrame(
        {
            "attempt": [f"text {number}" for number in range(lists)],
            "identity": rng.choice(list("ABCD")[:identities], size=lists, p=shares),
            "context": [None if place == contexts - 1 else f"place {place}" for place in context],
            "repetition": 0,
        }
    )
    table = table.with_columns(character=pl.lit(0), stratum=pl.lit("all"), status=pl.lit("listed"))
    rates = rng.beta(0.4, 1.2, size=25)
    number, concept = np.nonzero(rng.random((lists, len(rates))) < rates)
    mentions = pl.DataFrame({"attempt": number, "character": 0, "concept": concept})
    mentions = mentions.with_columns(
        attempt=pl.format("text {}", "attempt"), concept=pl.format("concept {}", "concept")
    )
    return conform(table, LISTS), mentions


def shuffles_of(rng: np.random.Generator, identity: Index, context: Index, number: int) -> Index:
    """Assignments of identities to lists, permuted within contexts, shape (number, lists)."""
    labels = np.repeat(identity[None], number, axis=0)
    for place in np.unique(context):
        rows = np.flatnonzero(context == place)
        labels[:, rows] = rng.permuted(labels[:, rows], axis=1)
    return labels


def associated(identity: Index, context: Index, has_concept: Booleans) -> Index:
    """An assignment in which, within contexts, the lists with a concept belong to the first identities."""
    labels = np.empty_like(identity)
    labels[np.lexsort((~has_concept, context))] = identity[np.lexsort((identity, context))]
    return labels


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    identities=st.integers(2, 4),
    contexts=st.integers(1, 4),
    lists=st.integers(40, 400),
)
def test_screening_selects_the_shuffles_in_which_the_tests_select_a_concept(
    seed: int, identities: int, contexts: int, lists: int
) -> None:
    rng = np.random.default_rng(seed)
    incidence = incidence_of(*lists_and_mentions(rng, identities, contexts, lists))
    names = incidence.cells.identities
    method = Method(
        rules=DEFAULT, minimum=MINIMUM, test=CountTest(), compared=comparisons_of(names), level=1 - LEVEL
    )
    labels = shuffles_of(rng, incidence.identity, incidence.context, 50)
    concept = incidence.pair_test // len(incidence.cells.contexts)
    for place in range(5):
        has_concept = np.isin(np.arange(lists), incidence.pair_list[concept == place])
        labels[place] = associated(incidence.identity, incidence.context, has_concept)

    screening = Screening(incidence, list(blocks_of(incidence.cells, DEFAULT, MINIMUM)), MINIMUM)
    expected = []
    for shuffled in labels:
        cells = cells_of(replace(incidence, identity=shuffled), shuffled)
        results, _ = results_of(list(blocks_of(cells, DEFAULT, MINIMUM)), method)
        expected.append(any((result.q < LEVEL).any() for result in results))
    assert screening.selects(labels).tolist() == expected
    assert any(expected[:5]) or lists < 80


@pytest.mark.parametrize("contexts", [1, 3])
def test_counts_are_those_without_screening(contexts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lists, mentions = lists_and_mentions(np.random.default_rng(4), 3, contexts, 600)
    screened = shuffled_counts(lists, mentions, runs=150)
    assert 0 < (screened > 0).sum() < 40
    monkeypatch.setattr(shuffling, "can_screen", lambda *_: False)
    assert shuffled_counts(lists, mentions, runs=150).tolist() == screened.tolist()


def test_a_study_without_a_frequent_concept_is_screened() -> None:
    lists, mentions = lists_and_mentions(np.random.default_rng(4), 2, 1, 30)
    assert shuffled_counts(lists, mentions.head(3), runs=5).tolist() == [0] * 5
    assert shuffled_counts(lists, mentions.clear(), runs=5).tolist() == [0] * 5


def test_shuffles_count_rare_concepts_if_a_published_definition_tests_them() -> None:
    """200 concepts are in 4 of 80 lists each: fewer than the minimum of the default definition."""
    rng = np.random.default_rng(8)
    lists, _ = lists_and_mentions(rng, 4, 1, 80)
    number = np.concatenate([rng.choice(80, size=4, replace=False) for _ in range(200)])
    mentions = pl.DataFrame({"attempt": number, "character": 0, "concept": np.repeat(np.arange(200), 4)})
    mentions = mentions.with_columns(
        attempt=pl.format("text {}", "attempt"), concept=pl.format("concept {}", "concept")
    )
    reported = find_associations(lists, mentions, rules=PAPER)["reported"].sum()
    shuffled = shuffled_counts(lists, mentions, rules=PAPER, runs=50)
    assert reported > 0
    assert shuffled.min() <= reported <= shuffled.max()  # no association was planted
    assert shuffled_counts(lists, mentions, runs=50).sum() == 0
