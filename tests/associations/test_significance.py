"""Associations of concepts with identities: tests, intervals, families, halves, descriptors, permutation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chi2_contingency, false_discovery_control, fisher_exact
from scipy.stats.contingency import expected_freq

from support.definitions import association_definition
from tiltmeter.associations._definitions import BADF_CODE, PAPER
from tiltmeter.associations._significance import (
    compare_counts,
    find_associations,
    permutation_p,
    shuffled_counts,
)
from tiltmeter.associations._significance.discovery import halves_of
from tiltmeter.associations._significance.incidence import incidence_of
from tiltmeter.associations._tables import ASSOCIATIONS, LISTS
from tiltmeter.errors import InputError
from tiltmeter.runs._definitions import definitions_of
from tiltmeter.schema import conform
from tiltmeter.stats import greater, log_odds, rate_difference, stratified_greater, stratified_rate_difference

List = tuple[str, str | None, Sequence[str | None]]  # identity, context, concepts


def tables(
    given_lists: Iterable[List],
    *,
    descriptors: Sequence[str | None] = (None,),
    repetitions: Sequence[int | None] = (0,),
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return LISTS and mentions; descriptors and repetitions are used in turn."""
    rows = list(given_lists)
    descriptors_in_turn = [descriptors[number % len(descriptors)] for number in range(len(rows))]
    repetitions_in_turn = [repetitions[number % len(repetitions)] for number in range(len(rows))]
    lists = pl.DataFrame(
        {
            "attempt": [f"story {number}#0" for number in range(len(rows))],
            "identity": [identity for identity, _, _ in rows],
            "descriptor": descriptors_in_turn,
            "context": [context for _, context, _ in rows],
            "repetition": repetitions_in_turn,
        }
    )
    lists = lists.with_columns(
        character=pl.lit(0), location="context", stratum=pl.lit("all"), status=pl.lit("listed")
    )
    lists = conform(lists, LISTS)
    pairs = [(f"story {number}#0", 0, concept) for number, row in enumerate(rows) for concept in row[2]]
    return lists, pl.DataFrame(
        pairs, schema={"attempt": pl.String, "character": pl.Int8, "concept": pl.String}, orient="row"
    )


def cell(identity: str, context: str | None, lists: int, **counts: int) -> list[List]:
    """Return a number of lists; each concept is in the first ones, as many as its count."""
    return [
        (identity, context, [name for name, number in counts.items() if place < number])
        for place in range(lists)
    ]


def row(table: pl.DataFrame, concept: str, identity: str, context: str | None = None) -> dict[str, Any]:
    same = pl.col("context").eq_missing(pl.lit(context, pl.String))
    return table.filter(same, concept=concept, identity=identity).row(0, named=True)


def simulated(
    seed: int, *, stories: int = 400, concepts: int = 120, bias: dict[int, float] | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Simulate independent lists of three identities in four contexts.

    `bias` is the difference by which the identity "C" has a concept more often than the others.
    """
    generator = np.random.default_rng(seed)
    identity = np.tile(["A", "B", "C"], stories)
    size = len(identity)
    rate = np.broadcast_to(generator.beta(0.6, 12, concepts), (size, concepts)).copy()
    for concept, lift in (bias or {}).items():
        rate[:, concept] = 0.1 + np.where(identity == "C", lift, 0.0)
    holds = generator.random((size, concepts)) < rate
    story = np.arange(size) // 3
    repetition = story // 4
    contexts = np.array(["bank", "gym", "museum", "school"])
    lists = pl.DataFrame(
        {
            "attempt": [f"s{number}#{number // 4}" for number in story],
            "character": np.arange(size) % 3,
            "identity": identity,
            "descriptor": identity + (story % 5).astype(str),
            "name": identity,
            "context": contexts[story % 4],
            "repetition": repetition,
        }
    )
    lists = lists.with_columns(location=pl.lit("somewhere"), stratum=pl.lit("all"), status=pl.lit("listed"))
    lists = conform(lists, LISTS)
    holders, numbers = np.nonzero(holds)
    mentions = lists.select("attempt", "character")[holders].with_columns(
        concept=pl.format("concept {}", pl.Series(numbers))
    )
    return lists, mentions


def separate_stories(*story_tables: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the same lists, each of a separate story."""
    separate_attempt = pl.format("{}/{}", "attempt", "character")
    return [table.with_columns(attempt=separate_attempt) for table in story_tables]


one_list = st.tuples(
    st.sampled_from("ABC"), st.sampled_from(["bank", "gym"]), st.lists(st.sampled_from("uvwxyz"), max_size=4)
)
small_lists = st.lists(one_list, min_size=2, max_size=60).filter(
    lambda rows: len({identity for identity, _, _ in rows}) > 1
)


def by_hand(
    rows: list[List], definition: str
) -> dict[tuple[str, str, str], tuple[int, int, int, float | None, float | None]]:
    """Compute count, lists, mentions, score and p of every identity, context and concept with loops."""
    by_name = {}
    for context in {row[1] for row in rows}:
        in_context = [row for row in rows if row[1] == context]
        names = sorted({row[0] for row in in_context})
        lists = {name: sum(row[0] == name for row in in_context) for name in names}
        mentions = {name: sum(len(row[2]) for row in in_context if row[0] == name) for name in names}
        for concept in {concept for row in in_context for concept in row[2]}:
            counts = {name: sum(row[0] == name and concept in row[2] for row in in_context) for name in names}
            table = np.array([[counts[name], lists[name] - counts[name]] for name in names])
            if len(names) < 2:
                p = None
            elif table.sum(axis=0).all():
                p = float(chi2_contingency(table).pvalue)
            else:
                p = 1.0
            for name in names:
                counts_of_others = [counts[opponent] for opponent in names if opponent != name]
                excess = counts[name] - min(counts_of_others, default=counts[name])
                divisor = lists[name] if definition == "paper" else mentions[name]
                score = None if len(names) < 2 or not divisor else max(0, excess) / divisor
                key = str(context), str(concept), name
                by_name[key] = counts[name], lists[name], mentions[name], score, p
    return by_name


@pytest.mark.parametrize("definition", ["paper", "badf-code"])
@given(rows=small_lists)
@settings(max_examples=20)
def test_published_definitions_equal_a_loop_over_tables(definition: str, rows: list[List]) -> None:
    associations = find_associations(*tables(rows), rules=association_definition(definition))
    expected = by_hand(rows, definition)
    assert associations.height == len(expected)
    for association in associations.iter_rows(named=True):
        count, lists, mentions, score, p = expected[
            association["context"], association["concept"], association["identity"]
        ]
        assert (association["count"], association["lists"], association["mentions"]) == (
            count,
            lists,
            mentions,
        )
        assert association["score"] == (None if score is None else pytest.approx(score))
        assert association["p"] == (None if p is None else pytest.approx(p, rel=1e-9))
        assert association["reported"] == (score is not None and p is not None and score > 0 and p < 0.05)


@given(rows=small_lists, minimum=st.integers(1, 8))
@settings(max_examples=20)
def test_the_default_definition_tests_each_identity_in_one_family(rows: list[List], minimum: int) -> None:
    associations = find_associations(*tables(rows), minimum=minimum)
    assert dict(associations.schema) == dict(ASSOCIATIONS)
    within, overall = (
        associations.filter(pl.col("context").is_not_null()),
        associations.filter(pl.col("context").is_null()),
    )
    contexts = {row[1] for row in rows}
    assert overall.is_empty() == (len(contexts) < 2 or not any(row[2] for row in rows))
    expected = by_hand(rows, "paper")
    for (context, concept), group in within.group_by("context", "concept"):
        cells = {
            name: values[:2] for (c, x, name), values in expected.items() if (c, x) == (context, concept)
        }
        total = sum(count for count, _ in cells.values())
        of = sum(lists for _, lists in cells.values())
        tested = total >= minimum and len(cells) > 1
        assert group.filter(pl.col("p").is_not_null()).height == tested * len(cells)
        assert set(group["identity"]) == {name for name, (count, _) in cells.items() if tested or count}
        for association in group.iter_rows(named=True):
            count, lists = cells[association["identity"]]
            assert (association["others_count"], association["others_lists"]) == (total - count, of - lists)
            if len(cells) > 1:
                level = adjusted_level(associations) if association["reported"] else 0.95
                assert association["level"] == pytest.approx(level)
                difference = rate_difference(count, lists, total - count, of - lists, level)
                assert (association["effect"], association["low"], association["high"]) == pytest.approx(
                    tuple(difference)
                )
                best = max((c / n, name) for name, (c, n) in cells.items() if name != association["identity"])
                assert association["runner_up_rate"] == pytest.approx(best[0])
            if association["p"] is not None and association["effect"] <= 1e-12:
                assert association["p"] == 1
            elif association["p"] is not None:
                table = [[count, lists - count], [total - count, of - lists - total + count]]
                # With so few lists an expected count is usually below 5. Otherwise the normal approximation
                # is used.
                if expected_freq(table).min() < 5:
                    p = fisher_exact(table, alternative="greater").pvalue
                    assert association["p"] == pytest.approx(p, rel=1e-9)
    family = associations.filter(pl.col("p").is_not_null())
    if family.height:
        assert family["q"].to_list() == pytest.approx(hierarchical_by_hand(family))
    shared = (pl.col("rate") == pl.col("runner_up_rate")).fill_null(False)
    assert not within.filter(shared)["reported"].any()
    selected = within.filter(~shared).filter(pl.col("q") < 0.05)
    assert not within.filter(pl.col("q").fill_null(1) >= 0.05)["reported"].any()
    assert (selected.filter("reported")["low"] > 0).all()
    assert (selected.filter(~pl.col("reported"))["low"] <= 0.05).all()


def hierarchical_by_hand(family: pl.DataFrame) -> list[float]:
    """Compute q-values of rows with `concept` and `p`.

    Concepts are tested by the p-value of Simes, then the tests within them, for each number of selected
    concepts.
    """
    within = {
        name: false_discovery_control(group["p"])
        for (name,), group in family.group_by("concept", maintain_order=True)
    }
    smallest = [adjusted.min() for adjusted in within.values()]
    concepts = dict(zip(within, false_discovery_control(smallest), strict=True))
    values = {name: iter(adjusted) for name, adjusted in within.items()}
    ordered = sorted(concepts.values())
    entries = []
    for name in family["concept"]:
        adjusted = next(values[name])
        # With R selected concepts, the level is at least that of the R-th concept, and that at which the test
        # is selected within its concept.
        least = min(
            max(of_concept, adjusted * len(concepts) / number) for number, of_concept in enumerate(ordered, 1)
        )
        entries.append(min(1.0, max(concepts[name], least)))
    return entries


def adjusted_level(table: pl.DataFrame) -> float:
    """Return the level at which 95% of the intervals of reported associations contain their true value."""
    tests, compared = table["p"].drop_nulls().len(), table.filter("reported")["identity"].len()
    return 1 - 0.05 * min(2 * compared / tests, 1.0)


def test_tests_over_all_contexts_compare_within_contexts() -> None:
    # Most lists of B are in the bank, where all identities are nervous: B has no association with nervous.
    rows = (
        cell("A", "bank", 20, nervous=16)
        + cell("B", "bank", 80, nervous=64, calm=40)
        + cell("A", "gym", 80, nervous=8, calm=4)
    )
    rows += cell("B", "gym", 20, nervous=2, calm=5)
    associations = find_associations(*tables(rows))
    nervous = associations.filter(pl.col("context").is_null(), concept="nervous")
    assert [*nervous["rate"], *nervous["effect"], *nervous["p"]] == pytest.approx([0.24, 0.66, 0, 0, 1, 1])
    calm = row(associations, "calm", "B")
    array = np.array([(40, 80, 0, 20), (5, 20, 4, 80)]).T
    assert calm["p"] == pytest.approx(float(stratified_greater(*array)))
    effect = stratified_rate_difference(array[0], array[1], array[2], array[3], adjusted_level(associations))
    assert (calm["effect"], calm["low"], calm["high"]) == pytest.approx(tuple(effect))
    assert (calm["runner_up"], calm["runner_up_effect"]) == ("A", pytest.approx(effect.estimate))
    assert (calm["reported"], calm["rate"]) == (True, pytest.approx(0.45))


def test_a_concept_shared_by_two_identities_is_an_association_of_both() -> None:
    rows = (
        cell("A", None, 50, calm=25)
        + cell("B", None, 50, calm=25)
        + cell("C", None, 50)
        + cell("D", None, 50)
    )
    associations = find_associations(*tables(rows))
    p = associations["p"][0]
    assert associations.select("identity", "p").rows() == [("A", p), ("B", p), ("C", 1), ("D", 1)]
    assert associations.filter("reported")["identity"].to_list() == ["A", "B"]
    assert find_associations(*tables(rows), rules=PAPER).filter("reported")["identity"].to_list() == [
        "A",
        "B",
    ]
    rows[0] = ("A", None, [])
    assert find_associations(*tables(rows)).filter("reported")["identity"].to_list() == ["A", "B"]


def test_an_identity_with_a_lower_rate_than_a_small_one_has_an_association() -> None:
    # The highest rate is based on two lists.
    rows = cell("A", None, 2, calm=2) + cell("B", None, 500, calm=250) + cell("C", None, 500, calm=10)
    associations = find_associations(*tables(rows))
    assert associations.filter("reported")["identity"].to_list() == ["B"]
    assert row(associations, "calm", "A")["p"] > 0.05


COMPARED_SIDES: list[tuple[dict[str, Any], Any, Any]] = [
    ({}, [("A", None), ("B", None), ("C", None)], [("A", None), ("B", None)]),
    ({"reference": "C"}, [("A", "C"), ("B", "C"), ("C", "A"), ("C", "B")], [("A", "C"), ("B", "C")]),
    ({"reference": "A"}, [("A", "B"), ("A", "C"), ("B", "A"), ("C", "A")], [("A", "C")]),
    ({"against": "each"}, list(permutations("ABC", 2)), [("A", "C"), ("B", "C")]),
]
"""Options, the compared sides, and the sides with an association."""


def test_identities_are_compared_with_a_reference_or_with_each_other() -> None:
    rows = cell("A", None, 100, calm=40) + cell("B", None, 100, calm=38) + cell("C", None, 100, calm=5)
    sides = ["identity", "against"]
    for options, compared, reported in COMPARED_SIDES:
        associations = find_associations(*tables(rows), **options)
        assert associations.select(sides).sort(sides, nulls_last=True).rows() == compared
        assert associations.filter("reported").select(sides).rows() == reported
    own_rows = find_associations(*tables(rows), reference="C").filter(identity="B").row(0, named=True)
    assert own_rows["against"] == "C"
    assert (own_rows["count"], own_rows["lists"]) == (38, 100)
    assert (own_rows["others_count"], own_rows["others_lists"]) == (5, 100)
    assert own_rows["p"] == pytest.approx(float(greater(38, 100, 5, 100)))
    assert own_rows["effect"] == pytest.approx(0.33)
    with pytest.raises(InputError, match="there is no group 'D' to compare with"):
        find_associations(*tables(rows), reference="D")


def test_the_prior_of_log_odds_comes_from_the_whole_study() -> None:
    rows = (
        cell("A", "bank", 40, calm=12, kind=20)
        + cell("B", "bank", 40, calm=4, kind=20)
        + cell("A", "gym", 40, calm=30, kind=20)
    )
    rows += cell("B", "gym", 40, calm=30, kind=10)
    association = row(find_associations(*tables(rows)), "calm", "A", "bank")
    share = (12 + 4 + 30 + 30) / (32 + 24 + 50 + 40)
    weight = 0.1 * (32 + 24) / 2
    expected = log_odds([12, 4], [32, 24], [weight * share, weight])
    assert (association["log_odds"], association["z"]) == pytest.approx((expected.estimate[0], expected.z[0]))


def test_lists_count_a_concept_once_and_missing_lists_do_not_count() -> None:
    rows = [("A", None, ["calm", "calm", None]), *cell("A", None, 9), *cell("B", None, 10)]
    lists, mentions = tables(rows)
    lists = lists.with_columns(status=pl.Series(["listed", "empty", "missing", "missing", *["listed"] * 16]))
    association = row(find_associations(lists, mentions), "calm", "A")
    assert (
        association["count"],
        association["lists"],
        association["mentions"],
        association["others_lists"],
        association["p"],
    ) == (
        1,
        8,
        3,
        10,
        None,
    )


def test_an_identity_without_lists_in_a_context_is_left_out_there() -> None:
    rows = (
        cell("A", "bank", 30, calm=20)
        + cell("B", "bank", 30, calm=2)
        + cell("C", "gym", 30, calm=10, kind=30)
    )
    for definition in definitions_of("associations"):
        associations = find_associations(*tables(rows), rules=association_definition(definition))
        bank, gym = associations.filter(context="bank"), associations.filter(context="gym")
        assert bank.select("identity", "reported").rows() == [("A", True), ("B", False)]
        assert gym.select("identity", "p", "reported").rows() == [("C", None, False)] * 2
    # C is the only identity in its context, so it cannot be compared over all contexts either.
    assert row(find_associations(*tables(rows)), "kind", "C")["effect"] is None


def test_lists_without_a_context_are_compared_with_each_other() -> None:
    rows = cell("A", None, 30, calm=20) + cell("B", None, 30, calm=2)
    for definition in definitions_of("associations"):
        associations = find_associations(*tables(rows), rules=association_definition(definition))
        assert associations["context"].null_count() == associations.height == 2
        assert row(associations, "calm", "A")["reported"]
    # Together with lists that have a context, they are one stratum of the test over all contexts.
    rows += cell("A", "gym", 30, calm=15) + cell("B", "gym", 30, calm=5)
    associations = find_associations(*tables(rows))
    both = row(associations, "calm", "A")
    assert associations["context"].to_list() == ["gym", "gym", None, None]
    assert both["p"] == pytest.approx(float(stratified_greater([20, 15], [30, 30], [2, 5], [30, 30])))
    assert find_associations(*tables(rows), rules=PAPER)["context"].to_list() == ["gym", "gym"]


def test_lists_of_one_identity_and_unknown_definitions_are_refused() -> None:
    lists, mentions = tables(cell("A", None, 5, calm=3) + cell("B", None, 5))
    with pytest.raises(InputError, match=r"unknown definition 'papr'.*paper"):
        association_definition("papr")
    gone = lists.with_columns(status=pl.when(identity="B").then(pl.lit("missing")).otherwise("status"))
    for few, message in (
        (lists.filter(identity="A"), "at least two identities, not counting missing ones, but there is 'A'"),
        (gone, "not counting missing ones, but there is 'A'"),
        (lists.clear(), "not counting missing ones, but there is none"),
    ):
        with pytest.raises(InputError, match=message):
            find_associations(few, mentions)
    for definition in definitions_of("associations"):
        rules = association_definition(definition)
        associations = find_associations(lists, mentions.clear(), rules=rules)
        assert (associations.height, dict(associations.schema)) == (0, dict(ASSOCIATIONS))
        assert shuffled_counts(lists, mentions.clear(), rules=rules, runs=2).tolist() == [0, 0]


def test_halves_consist_of_whole_repetitions_balanced_over_the_order_of_names() -> None:
    lists, mentions = separate_stories(*simulated(0, bias={0: 0.3}, stories=80))
    associations = find_associations(lists, mentions)
    association = row(associations, "concept 0", "C")
    assert association["confirmed"]
    halves = halves_of(incidence_of(lists, mentions), 123)
    dealt = lists.select("repetition").with_columns(half=pl.Series(halves)).unique().sort("repetition")
    assert dealt["repetition"].is_unique().all()
    for even in (0, 1):
        assert dealt.filter(pl.col("repetition") % 2 == even)["half"].mean() == 0.5
    # Each half has the results that it has as a separate study.
    for half, name in ((0, "first"), (1, "second")):
        alone = row(find_associations(lists.filter(pl.Series(halves == half)), mentions), "concept 0", "C")
        assert (association[f"effect_{name}"], association[f"p_{name}"]) == pytest.approx(
            (alone["effect"], alone["p"])
        )
    reseeded = find_associations(lists, mentions, seed=4)
    assert row(reseeded, "concept 0", "C")["effect_first"] != association["effect_first"]
    assert find_associations(lists, mentions, seed=4).equals(reseeded)
    assert associations.filter(~pl.col("reported"))["confirmed"].is_null().all()


def test_an_association_in_one_half_only_is_not_confirmed() -> None:
    repetitions = [0] * 20 + [1] * 20
    rows = (
        cell("A", None, 20, calm=14)
        + cell("A", None, 20, calm=1)
        + cell("B", None, 20)
        + cell("B", None, 20, calm=1)
    )
    lists, mentions = tables(rows, repetitions=repetitions)
    association = row(find_associations(lists, mentions), "calm", "A")
    assert (association["reported"], association["confirmed"]) == (True, False)
    assert sorted([association["effect_first"], association["effect_second"]]) == pytest.approx([0, 0.7])
    for given_repetitions in ([0], [None]):
        alone = row(find_associations(*tables(rows, repetitions=given_repetitions)), "calm", "A")
        assert (alone["reported"], alone["confirmed"]) == (True, None)


@pytest.mark.parametrize("definition", definitions_of("associations"))
@pytest.mark.parametrize("context", [None, "pond"])
def test_an_association_that_depends_on_one_descriptor_is_flagged(
    definition: str, context: str | None
) -> None:
    ducks: list[List] = [
        ("male", context, ["waddles"] if place % 5 == 1 and place < 45 else []) for place in range(200)
    ]
    for place in range(0, 200, 2):
        ducks[place] = ("male", context, [*ducks[place][2], "firm"])
    women: list[List] = [("female", context, []) for _ in range(200)]
    names = ["Donald", "Henry", "James", "John", "Kai"]
    lists, mentions = tables(ducks + women)
    descriptors = [names[(place - 1) % 5] for place in range(200)] + [f"F{place % 5}" for place in range(200)]
    lists = lists.with_columns(descriptor=pl.Series(descriptors))
    rules = association_definition(definition)
    associations = find_associations(lists, mentions, rules=rules)
    waddles = row(associations, "waddles", "male", context)
    firm = row(associations, "firm", "male", context)
    expected = (True, "Donald", [{"descriptor": "Donald", "count": 9, "lists": 40}])
    assert (waddles["reported"], waddles["rests_on"], waddles["descriptors"]) == expected
    assert (firm["reported"], firm["rests_on"]) == (True, None)
    assert firm["descriptors"] == [{"descriptor": name, "count": 20, "lists": 40} for name in names]
    # With a single descriptor, or unknown ones, no descriptor can be left out.
    single = lists.with_columns(
        descriptor=pl.when(identity="male").then(pl.lit("Donald")).otherwise("descriptor")
    )
    association = row(find_associations(single, mentions, rules=rules), "waddles", "male", context)
    assert (association["rests_on"], association["descriptors"]) == (
        None,
        [{"descriptor": "Donald", "count": 9, "lists": 200}],
    )
    unknown = row(find_associations(*tables(ducks + women), rules=rules), "waddles", "male", context)
    assert (unknown["rests_on"], unknown["descriptors"]) == (None, None)


def test_the_descriptors_of_an_association_are_counted_over_all_contexts() -> None:
    rows = [
        row
        for context in ("pond", "gym")
        for row in cell("male", context, 100, firm=40) + cell("female", context, 100, firm=5)
    ]
    lists, mentions = tables(rows, descriptors=["Donald", "Kai", "John", "James"])
    # There are too few in one context for an association, and enough over both.
    holders = (
        lists.filter(identity="male", descriptor="Donald").group_by("context", maintain_order=True).head(5)
    )
    mentions = pl.concat([mentions, holders.select("attempt", "character", concept=pl.lit("waddles"))])
    associations = find_associations(lists, mentions)
    assert associations.filter("reported", concept="waddles").select("context", "identity").rows() == [
        (None, "male")
    ]
    waddles, firm = row(associations, "waddles", "male"), row(associations, "firm", "male")
    assert (waddles["descriptors"], waddles["rests_on"]) == (
        [{"descriptor": "Donald", "count": 10, "lists": 50}],
        "Donald",
    )
    assert firm["rests_on"] is None
    assert firm["descriptors"] == [
        {"descriptor": name, "count": 20, "lists": 50} for name in ("Donald", "James", "John", "Kai")
    ]


def test_counts_alone_give_the_same_as_lists() -> None:
    lists, mentions = simulated(5, bias={0: 0.2, 1: 0.1}, stories=120)
    for definition in ("paper", "badf-code"):
        associations = find_associations(lists, mentions, rules=association_definition(definition))
        names = ["context", "concept", "identity", "count", "lists", "mentions"]
        shuffled = associations.select(names).sample(fraction=1, shuffle=True, seed=1)
        scored = compare_counts(shuffled, association_definition(definition))
        assert scored.select(names).equals(shuffled)
        again = scored.sort("context", "concept", "identity")
        for name in ("score", "p"):
            assert again[name].to_list() == pytest.approx(associations[name].to_list())
        assert again["reported"].equals(associations["reported"])
    counts = associations.select(names)
    compared = compare_counts(counts)
    # Counts do not contain the stories of lists.
    own_rows = find_associations(*separate_stories(lists, mentions)).filter(pl.col("context").is_not_null())
    own_rows = own_rows.with_columns(low=pl.when(~pl.col("reported")).then("low"))
    both = own_rows.join(
        compared, on=["context", "concept", "identity"], how="left", suffix="_counts", maintain_order="left"
    )
    for name in ("effect", "low", "runner_up_effect", "log_odds", "z", "score", "p"):
        same = both.filter(pl.col(name).is_not_null())
        assert same[name].to_list() == pytest.approx(same[f"{name}_counts"].to_list(), nan_ok=True)
    # Fewer tests, a smaller family.
    assert (both["q"] >= both["q_counts"] - 1e-12).drop_nulls().mean() == pytest.approx(1, abs=0.2)


def test_counts_that_break_their_contract_are_refused() -> None:
    cells = {"identity": ["A", "B"], "count": [3, 0], "lists": [5, 5], "mentions": [9, None]}
    valid = pl.DataFrame({"context": "gym", "concept": "calm"} | cells)
    assert compare_counts(valid, BADF_CODE)["score"].to_list() == [
        pytest.approx(1 / 3),
        None,
    ]
    assert compare_counts(valid, minimum=3)["log_odds"].null_count() == 2
    more = pl.concat([valid, valid.with_columns(concept=pl.lit("kind"))])
    other_lists = more.with_columns(lists=pl.Series([5, 5, 6, 5]))
    other_mentions = more.with_columns(mentions=pl.Series([9, None, 9, 4]))
    for message, counts in (
        ("no column 'mentions'", valid.drop("mentions")),
        ("row 1, column 'count': 6 must be between 0 and the number of lists", valid.with_columns(count=6)),
        ("2 must not be smaller than the number of lists with the concept", valid.with_columns(mentions=2)),
        ("row 3 repeats row 1", pl.concat([valid, valid])),
        ("row 3, column 'concept': 'kind' lacks rows for other identities", more.head(3)),
        ("column 'lists': 5 differs from that of other rows", other_lists),
        ("column 'mentions': None differs from that of other rows", other_mentions),
        ("a comparison needs lists of at least two identities", valid.head(1)),
    ):
        with pytest.raises(InputError, match=message):
            compare_counts(counts)
    with pytest.raises(InputError, match="unknown definition"):
        association_definition("badf")


def test_simulated_associations_are_found_with_few_false_ones() -> None:
    bias = dict.fromkeys(range(6), 0.15)
    rows = covered = confirmed = 0
    false_shares = []
    has_bias = pl.col("concept").is_in([f"concept {number}" for number in bias])
    planted = has_bias & (pl.col("identity") == "C")
    for seed in range(12):
        associations = find_associations(*simulated(seed, bias=bias))
        overall = associations.filter(planted, pl.col("context").is_null())
        rows += overall.filter("reported").height
        covered += overall.filter((pl.col("low") <= 0.15) & (pl.col("high") >= 0.15)).height
        confirmed += overall.filter("confirmed").height
        reported = associations.filter("reported")
        false_shares.append(reported.filter(~planted).height / reported.height)
    assert rows == 72
    assert confirmed >= 70
    assert 64 <= covered <= 72
    # The false discovery rate is 5%.
    assert np.mean(false_shares) < 0.05


def test_lists_without_bias_give_few_associations_and_intervals_that_cover_zero() -> None:
    runs = [find_associations(*simulated(seed, stories=200, concepts=60)) for seed in range(12)]
    # Without any true association, a false discovery rate of 5% is the share of studies that report one.
    assert sum(bool(run["reported"].any()) for run in runs) <= 3
    assert find_associations(*simulated(0), rules=PAPER)["reported"].sum() > 10
    # All rows of tested concepts are used, so that selection of the highest rates has no effect.
    tested = pl.concat(run.filter(pl.col("p").is_not_null().any().over("context", "concept")) for run in runs)
    for part in (tested.filter(pl.col("context").is_null()), tested.filter(pl.col("context").is_not_null())):
        covers = part.select((pl.col("low") <= 0) & (pl.col("high") >= 0)).to_series()
        assert len(covers) > 1200
        assert 0.94 < covers.sum() / len(covers) < 0.99


@pytest.mark.parametrize("by", ["list", "descriptor"])
def test_shuffled_identities_give_the_associations_expected_by_chance(by: str) -> None:
    lists, mentions = simulated(3, bias={0: 0.3, 1: 0.3}, stories=100)
    assert find_associations(lists, mentions)["reported"].sum() >= 2
    by_chance = shuffled_counts(lists, mentions, runs=20, by=by)
    assert by_chance.shape == (20,)
    # If descriptors are shuffled, three with the planted concepts may be assigned to one identity. This
    # cannot happen if lists are shuffled.
    assert (by_chance > 0).mean() <= (0.1 if by == "list" else 0.4)
    assert by_chance.tolist() == shuffled_counts(lists, mentions, runs=20, by=by).tolist()
    assert by_chance.tolist()[:5] == shuffled_counts(lists, mentions, runs=5, by=by).tolist()
    published = shuffled_counts(lists, mentions, rules=PAPER, runs=3, by=by)
    assert (published > 5).all()
    assert published.tolist() != shuffled_counts(lists, mentions, rules=PAPER, runs=3, by=by, seed=5).tolist()


def test_identities_are_shuffled_within_context_and_stratum() -> None:
    # If each stratum has one identity, no identities can be exchanged within it.
    rows = [
        list_row
        for place in ("bank", "gym")
        for list_row in cell("A", place, 40, calm=30) + cell("B", place, 40, calm=2)
    ]
    lists, mentions = tables(rows)
    apart = lists.with_columns(stratum=pl.col("identity"))
    number = find_associations(lists, mentions).filter("reported").height
    assert shuffled_counts(apart, mentions, runs=4).tolist() == [number] * 4
    assert (shuffled_counts(lists, mentions, runs=4) < number).all()


def test_permutation_by_descriptor_treats_lists_of_one_descriptor_as_dependent() -> None:
    # One descriptor of five has all lists with the concept: significant if lists are shuffled, and not if the
    # ten descriptors are.
    rows = cell("A", None, 200) + cell("B", None, 200)
    lists, mentions = tables(rows, descriptors=[str(place) for place in range(5)])
    lists = lists.with_columns(descriptor=pl.col("identity") + pl.col("descriptor"))
    donald = lists.filter(descriptor="A1").select("attempt", "character", concept=pl.lit("waddles"))
    even = lists.filter(identity="A").select("attempt", "character", concept=pl.lit("kind"))
    mentions = pl.concat([donald, even])
    clustered = permutation_p(lists, mentions, ["waddles", "kind"], runs=399).sort("concept")
    assert clustered.select("concept", "identity").rows() == [("kind", "A"), ("waddles", "A")]
    assert clustered["effect"].to_list() == pytest.approx([1.0, 0.2])
    # 2 of the 252 permutations of ten descriptors separate the identities; in all of them, the one descriptor
    # belongs to one identity.
    assert 0.0025 <= clustered["p"][0] < 0.03
    assert clustered["p"][1] == 1
    single = permutation_p(lists, mentions, ["waddles"], by="list", runs=399)
    assert single["p"].to_list() == [1 / 400]
    with pytest.raises(InputError, match="no list contains the concept 'wadles'"):
        permutation_p(lists, mentions, ["wadles"])
    with pytest.raises(InputError, match="every list has a descriptor"):
        permutation_p(lists.with_columns(descriptor=None), mentions, ["kind"])
    with pytest.raises(InputError, match="shuffled by 'story'"):
        shuffled_counts(lists, mentions, by="story")


def test_permutation_gives_effects_over_all_contexts() -> None:
    lists, mentions = simulated(6, bias={0: 0.2}, stories=80)
    permuted = permutation_p(lists, mentions, ["concept 0", "concept 9"], runs=99, by="list")
    assert permuted.columns == ["context", "concept", "identity", "effect", "p"]
    overall = permuted.filter(pl.col("context").is_null())
    assert overall["concept"].to_list() == ["concept 0", "concept 9"]
    effect = row(find_associations(lists, mentions), "concept 0", "C")["effect"]
    assert (overall["p"][0], overall["effect"][0]) == (0.01, pytest.approx(effect))
