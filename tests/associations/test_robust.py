"""Variance of a difference of rates over first names and stories."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy.stats import t as student

from tiltmeter.associations._definitions import DEFAULT
from tiltmeter.associations._significance import FEWEST_NAMES, find_associations, speaks_of_names
from tiltmeter.associations._significance.comparisons import (
    EVERYONE,
    Comparisons,
    blocks_of,
    contrasts_of,
    ranking_of,
)
from tiltmeter.associations._significance.incidence import Incidence, incidence_of
from tiltmeter.associations._significance.robust import clusters_of, robust_difference
from tiltmeter.associations._tables import LISTS
from tiltmeter.schema import conform

PLACES = ("bank", "gym", "school")


def simulated(
    seed: int,
    *,
    stories: int = 600,
    names: int = 25,
    crossed: bool = False,
    concepts: int = 40,
    name_sd: float = 0.0,
    together: float = 0.0,
    lift: float = 0.0,
    groups: str = "ab",
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Lists and mentions of stories about two people of different groups.

    Names differ by a normal effect on the logit of each concept. With the probability `together`, the second
    character has the concepts of the first (below 0: the opposite ones). Group "a" has concept 0 more often
    by `lift`.
    """
    rng = np.random.default_rng(seed)
    pairs = list(combinations(groups, 2))
    who = np.array([pairs[number % len(pairs)][:: 1 if number % 2 else -1] for number in range(stories)])
    name = rng.integers(names, size=(stories, 2))
    effect = rng.normal(0, name_sd, (concepts, len(groups) if not crossed else 1, names))
    base = np.log(0.2 / 0.8)
    holds = np.empty((concepts, stories, 2), dtype=bool)
    group = np.array([[groups.index(identity) for identity in pair] for pair in who])
    for number in range(concepts):
        chance = 1 / (1 + np.exp(-base - effect[number][0 if crossed else group, name]))
        chance = chance + np.where((group == 0) & (number == 0), lift, 0.0)
        draws = rng.random((stories, 2))
        alike = rng.random(stories) < abs(together)
        draws[alike, 1] = draws[alike, 0] if together > 0 else 1 - draws[alike, 0]
        holds[number] = draws < chance
    place = np.repeat(np.array(PLACES)[rng.integers(len(PLACES), size=stories)], 2)
    first_names = [
        f"{'x' if crossed else identity}{number}"
        for identity, number in zip(who.ravel(), name.ravel(), strict=True)
    ]
    columns = {
        "attempt": np.repeat(np.arange(stories), 2).astype(str),
        "character": np.tile([0, 1], stories),
        "identity": who.ravel(),
        "name": first_names,
    }
    lists = pl.DataFrame(columns).with_columns(
        descriptor="name",
        context=pl.Series(place),
        location=pl.Series(place),
        stratum=pl.lit("all"),
        repetition=pl.Series(np.repeat(np.arange(stories) % 8, 2)),
        status=pl.lit("listed"),
    )
    lists = conform(lists, LISTS)
    concept, story, character = np.nonzero(holds)
    mentions = lists.select("attempt", "character")[2 * story + character]
    return lists, mentions.with_columns(concept=pl.format("concept {}", pl.Series(concept)))


def by_hand(
    incidence: Incidence,
    lists: pl.DataFrame,
    mentions: pl.DataFrame,
    concept: str,
    first: str,
    second: str | None,
) -> float:
    """Return the variance over stories, with a score for every list."""
    has_concept = (
        lists.join(mentions.filter(concept=concept), on=["attempt", "character"], how="left")["concept"]
        .is_not_null()
        .to_numpy()
    )
    of_first = (lists["identity"] == first).to_numpy()
    of_second = (lists["identity"] == second).to_numpy() if second else ~of_first
    weights, parts = [], []
    for place in PLACES:
        in_place = (lists["context"] == place).to_numpy()
        n, m = (of_first & in_place).sum(), (of_second & in_place).sum()
        weights.append(n * m / (n + m))
        score = np.zeros(lists.height)
        for side, sign in ((of_first, 1), (of_second, -1)):
            both = side & in_place
            score[both] = sign * (has_concept[both] - has_concept[both].mean()) / both.sum()
        parts.append(score)
    score = np.average(parts, axis=0, weights=weights) * 1.0
    of_stories = (
        pl.DataFrame({"story": lists["attempt"], "score": score}).group_by("story").agg(pl.sum("score"))
    )
    return float((of_stories["score"] ** 2).sum())


@pytest.mark.parametrize("against_identity", [None, "b"])
@pytest.mark.parametrize("together", [-0.7, 0.0, 0.7])
def test_the_variance_over_stories_equals_that_of_summed_scores(
    against_identity: str | None, together: float
) -> None:
    lists, mentions = simulated(1, together=together, groups="abc", concepts=6)
    incidence = incidence_of(lists, mentions)
    *_, block = blocks_of(incidence.cells, DEFAULT, 5)
    identities = incidence.cells.identities.to_list()
    first = np.full(len(block.concept), identities.index("a"))
    opponent = EVERYONE if against_identity is None else identities.index(against_identity)
    sides = Comparisons(first, np.full(len(first), opponent))
    stories = clusters_of(incidence, incidence.story)
    contrasts = contrasts_of(block, np.arange(len(first)), sides)
    difference = robust_difference(incidence, contrasts, None, stories)
    for place, number in enumerate(block.concept):
        concept = incidence.cells.concepts[int(number)]
        expected = by_hand(incidence, lists, mentions, concept, "a", against_identity)
        assert difference.variance[place] == pytest.approx(expected)
    assert np.isinf(difference.freedom).all()


def test_first_names_add_variance_unless_identities_share_them() -> None:
    for crossed in (False, True):
        lists, mentions = simulated(2, crossed=crossed, name_sd=0.8, stories=2000)
        incidence = incidence_of(lists, mentions)
        *_, block = blocks_of(incidence.cells, DEFAULT, 5)
        first = ranking_of(block).first
        sides = Comparisons(first, np.full(len(first), EVERYONE))
        stories = clusters_of(incidence, incidence.story)
        names = clusters_of(incidence, incidence.name)
        contrasts = contrasts_of(block, np.arange(len(first)), sides)
        difference = robust_difference(incidence, contrasts, names, stories)
        # Shared names cancel in the difference. Names that differ between identities add variance.
        assert (difference.inflation.mean() > 2.0) == (not crossed)
        assert difference.freedom.max() <= (24 if crossed else 48) + 1e-9
        assert difference.freedom.min() >= (20 if crossed else 24)
        if not crossed:
            assert difference.spread.mean() == pytest.approx(0.12, abs=0.03)  # 0.8 on the logit of 0.2


@pytest.mark.parametrize(
    ("together", "least", "most"), [(-0.8, 0.925, 0.975), (0.0, 0.925, 0.975), (0.8, 0.925, 0.98)]
)
def test_intervals_cover_the_truth_if_characters_of_a_story_are_dependent(
    together: float, least: float, most: float
) -> None:
    inside = []
    for seed in range(8):
        lists, mentions = simulated(seed, together=together, concepts=60, stories=800)
        associations = find_associations(lists.with_columns(name=pl.lit(None, pl.String)), mentions)
        overall = associations.filter(pl.col("context").is_null(), identity="a")
        inside += overall.select((pl.col("low") <= 0) & (pl.col("high") >= 0)).to_series().to_list()
    assert least <= np.mean(inside) <= most


def test_effects_of_names_give_no_associations_and_effects_of_groups_do() -> None:
    false, planted = 0, 0
    for seed in range(6):
        tables = simulated(seed, name_sd=0.8, names=60, lift=0.25, stories=3000)
        rows = find_associations(*tables).filter("reported")
        planted += rows.filter(pl.col("context").is_null(), concept="concept 0", identity="a").height
        false += rows.filter(pl.col("concept") != "concept 0").height
    assert (planted, false <= 2) == (6, True)


def test_few_first_names_are_treated_as_fixed() -> None:
    few = simulated(3, names=FEWEST_NAMES - 5, name_sd=1.5, stories=3000)
    many = simulated(3, names=FEWEST_NAMES + 5, name_sd=1.5, stories=3000)
    assert (speaks_of_names(few[0]), speaks_of_names(many[0])) == (False, True)
    reported = [find_associations(*tables).filter("reported").height for tables in (few, many)]
    assert reported[0] > 10 > reported[1]
    assert find_associations(*few)["name_spread"].null_count() == find_associations(*few).height
    unnamed = few[0].with_columns(name=pl.lit(None, pl.String))
    assert not speaks_of_names(unnamed)


def test_reported_intervals_have_the_adjusted_level_and_exclude_zero() -> None:
    associations = find_associations(*simulated(4, lift=0.2, stories=3000))
    reported = associations.filter("reported")
    assert reported.height >= 1
    assert (reported["low"] > 0).all()
    tests = associations["p"].drop_nulls().len()
    assert reported["level"].to_list() == pytest.approx(
        [1 - 0.05 * 2 * reported.height / tests] * reported.height
    )
    assert set(associations.filter(~pl.col("reported"))["level"]) == {0.95}
    plain = find_associations(*simulated(4, lift=0.2, stories=3000), level=0.8).filter("reported")
    both = reported.join(plain, on=["concept", "identity", "context"], nulls_equal=True, suffix="_80")
    assert (both["low"] < both["low_80"]).all()
    assert student.ppf(0.975, 40) > 1.96  # the quantile is Student's where names vary
