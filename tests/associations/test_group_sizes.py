"""How frequent a concept must be to be found is stated truthfully, before and after the tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tiltmeter.associations._group_sizes import Sizes, smallest_share, warnings_about, what_could_be_found
from tiltmeter.associations._significance import find_associations
from tiltmeter.associations._tables import LISTS
from tiltmeter.schema import conform

CONCEPTS = 60
STUDIES = 80


def sizes_of(numbers: Sequence[int], against: str = "rest", reference: str | None = None) -> Sizes:
    return Sizes({f"group {place}": number for place, number in enumerate(numbers)}, against, reference)


def found_in(sizes: Sizes, share: float, seed: int) -> bool:
    """Whether the planted concept of the first group is found among concepts without differences."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes.of_groups)), list(sizes.of_groups.values()))
    lists = pl.DataFrame({"attempt": [f"text {row}" for row in range(len(group))], "identity": group})
    lists = lists.with_columns(
        pl.format("group {}", "identity").alias("identity"),
        character=pl.lit(0),
        stratum=pl.lit("all"),
        status=pl.lit("listed"),
    )
    rates = np.full((len(group), CONCEPTS + 1), 0.1)
    rates[:, :CONCEPTS] = rng.uniform(0.06, 0.5, size=CONCEPTS)
    rates[group == 0, CONCEPTS] = share
    row, concept = np.nonzero(rng.random(rates.shape) < rates)
    mentions = pl.DataFrame({"attempt": row, "character": 0, "concept": concept}).with_columns(
        pl.format("text {}", "attempt").alias("attempt"), pl.format("concept {}", "concept").alias("concept")
    )
    associations = find_associations(
        conform(lists, LISTS), mentions, against=sizes.against, reference=sizes.reference
    ).filter("reported", identity="group 0", concept=f"concept {CONCEPTS}")
    if sizes.against == "each":
        associations = associations.filter(against="group 1")
    return not associations.is_empty()


@pytest.mark.parametrize(
    "sizes",
    [
        sizes_of([40, 40, 40, 40]),
        sizes_of([25, 300]),
        sizes_of([50] * 6, reference="group 3"),
        sizes_of([50] * 4, against="each"),
    ],
)
def test_a_concept_with_the_stated_share_is_found_in_four_of_five_studies(sizes: Sizes) -> None:
    share = smallest_share(sizes, (CONCEPTS + 1) * sizes.comparisons_of_concept)
    found = [found_in(sizes, share, seed) for seed in range(STUDIES)]
    # The standard error is 4.5 points. The share of the others varies between studies, and where a group is
    # compared with several others one by one, some of these comparisons are significant as well.
    assert 0.66 <= np.mean(found) <= (0.94 if sizes.against == "rest" else 0.99)


def test_the_share_falls_with_the_number_of_texts_and_rises_with_that_of_comparisons() -> None:
    by_size = [smallest_share(sizes_of([size] * 3), 3_000) for size in (10, 20, 40, 80, 160, 320)]
    assert by_size == sorted(by_size, reverse=True)
    by_comparisons = [smallest_share(sizes_of([40] * 3), number) for number in (3, 30, 300, 3_000, 30_000)]
    assert by_comparisons == sorted(by_comparisons)


def test_nothing_can_be_found_in_a_group_of_two_texts() -> None:
    assert math.isinf(smallest_share(sizes_of([2, 100]), 2_000))
    assert "cannot be found in the smallest group, which has 2" in what_could_be_found(
        sizes_of([2, 100]), 2_000
    )


def test_small_and_many_groups_are_named_before_the_tests() -> None:
    assert warnings_about(sizes_of([200] * 4), 5) == []
    (small,) = warnings_about(sizes_of([20] * 4), 5)
    assert small.startswith("if 1,000 concepts are tested, ")
    *_, many = warnings_about(sizes_of([200] * 300), 100)
    assert many.startswith("300 groups: ")
    assert "-P minimum=400" in many
    paired = replace(sizes_of([20] * 4), paired=True)
    assert warnings_about(paired, 5) == []


def test_the_table_of_the_tutorial_is_computed() -> None:
    page = (Path(__file__).parents[2] / "docs/own-texts.md").read_text()
    for groups in (2, 4, 10):
        designs = [sizes_of([size] * groups) for size in (20, 50, 100, 200, 500, 1_000)]
        shares = [smallest_share(sizes, 1_000 * groups) for sizes in designs]
        assert f"| {groups} groups | {' | '.join(f'{share:.0%}' for share in shares)} |" in page
