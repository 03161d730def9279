"""False claims and power of comparisons of groups, at one to 200 items per group.

The analysis is that of own prompts and of missing responses (`stats.GroupSample`). Responses are drawn here:
independent items have a response each, and items of matched sets share a part of their responses. A claim is
a p-value of at most 5%, or a 95% interval that excludes 0.

A cell is one combination of sizes and rate. Its number of false claims varies, so that a cell above
MOST_CLAIMS is carried out again with fresh studies. The power for two groups is computed by enumeration and
compared with that of the exact test that a textbook names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement
from typing import Final, NamedTuple

import numpy as np
from scipy import stats as scipy_stats

from perf.studies.study import Claim
from tiltmeter.stats import GroupSample

QUESTION: Final = (
    "How often does a comparison of equal groups state a difference, at 1 to 200 items per group, and does "
    "it find what exact tests find?"
)
CODE: Final = ("stats",)
STUDIES: Final = 500
"""Simulated studies of each cell."""
FRESH_STUDIES: Final = 4000
"""Studies of a cell that is carried out again."""
MOST_CLAIMS: Final = 33 / 500
"""Share of studies with a false claim above which a cell is carried out again: at a true share of 5%, it
occurs in 5% of cells."""
MOST_FRESH_CLAIMS: Final = 240 / 4000
SIZES: Final = (1, 2, 5, 20, 60, 200)
RATES: Final = (0.02, 0.1, 0.5, 0.9, 0.98)
LEVEL: Final = 0.95
SHARED: Final = 0.5
"""Share of matched sets whose responses are the same for all groups."""
POWER_SIZES: Final = ((20, 20), (20, 60), (60, 60))
PAIRS: Final = 20
DIFFERENCES: Final = (0.1, 0.2, 0.3, 0.4, 0.5)
LOWER_RATE: Final = 0.3
LOST_POWER: Final = 0.02
INDEPENDENT: Final = "independent"
MATCHED: Final = "matched"
POWER: Final = "power of two groups"
CASES: Final = (
    f"2 {INDEPENDENT} groups",
    f"2 {MATCHED} groups",
    f"3 {INDEPENDENT} groups",
    f"3 {MATCHED} groups",
    POWER,
)


class Cell(NamedTuple):
    """The number of items of each group, and the rate of all groups."""

    sizes: tuple[int, ...]
    rate: float


def cells_of(groups: int, kind: str) -> Iterator[Cell]:
    """Yield the cells of a case: unordered pairs of sizes, or one size of matched sets.

    The third of three independent groups is as large as the larger one.
    """
    pairs = [(size, size) for size in SIZES]
    if kind == INDEPENDENT:
        pairs = list(combinations_with_replacement(SIZES, 2))
    for smaller, larger in pairs:
        for rate in RATES:
            yield Cell((smaller, *[larger] * (groups - 1)), rate)


def independent_sample(counts: Sequence[int], sizes: Sequence[int]) -> GroupSample:
    """Return a sample of independent items with a number of cases in each group."""
    membership = np.repeat(np.arange(len(sizes)), sizes)
    is_case = np.concatenate([np.arange(size) < count for count, size in zip(counts, sizes, strict=True)])
    numbers = np.eye(len(sizes))[membership]
    return GroupSample.of(numbers * is_case[:, None], numbers)


def matched_sample(patterns: Sequence[int], groups: int) -> GroupSample:
    """Return a sample of matched sets with a number of sets of each pattern of responses.

    Bit `g` of the number of a pattern is the response of group `g`.
    """
    numbers = np.repeat(np.arange(2**groups), patterns)
    responses = (numbers[:, None] >> np.arange(groups)) & 1
    return GroupSample.of(responses, np.ones(responses.shape))


@cache
def is_claim(kind: str, counts: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """Return whether the comparison states a difference.

    Parameters
    ----------
    kind
        INDEPENDENT or MATCHED.
    counts
        Cases of each group, or matched sets of each pattern.
    sizes
        Number of items of each group.
    """
    groups = len(sizes)
    sample = independent_sample(counts, sizes) if kind == INDEPENDENT else matched_sample(counts, groups)
    compared = sample.difference(0, 1, LEVEL) if groups == 2 else sample.largest_difference(LEVEL)
    return bool(compared.p <= 1 - LEVEL or compared.low > 0 or compared.high < 0)


def drawn_counts(kind: str, cell: Cell, generator: np.random.Generator) -> tuple[int, ...]:
    """Return the counts of one study in which all groups have the same rate."""
    if kind == INDEPENDENT:
        return tuple(int(generator.binomial(size, cell.rate)) for size in cell.sizes)
    items, groups = cell.sizes[0], len(cell.sizes)
    responses = generator.random((items, groups)) < cell.rate
    is_shared = generator.random(items) < SHARED
    responses[is_shared] = responses[is_shared, :1]
    patterns = responses @ (1 << np.arange(groups))
    return tuple(np.bincount(patterns, minlength=2**groups).tolist())


def share_of_claims(kind: str, cell: Cell, studies: int, generator: np.random.Generator) -> float:
    """Return the share of studies with a false claim."""
    claims = [is_claim(kind, drawn_counts(kind, cell, generator), cell.sizes) for _ in range(studies)]
    return float(np.mean(claims))


def false_claims(groups: int, kind: str, studies: int) -> list[Claim]:
    """Return the largest share of false claims, and that of the cells that were carried out again."""
    generator = np.random.default_rng([groups, len(kind)])
    shares, fresh = [], [0.0]
    for cell in cells_of(groups, kind):
        share = share_of_claims(kind, cell, studies, generator)
        shares.append(share)
        if share > MOST_CLAIMS:
            fresh.append(share_of_claims(kind, cell, FRESH_STUDIES, generator))
        is_claim.cache_clear()
    repeated = len(fresh) - 1
    return [
        Claim(f"mean share of false claims in {len(shares)} cells", float(np.mean(shares)), 0.0, 0.05),
        Claim(f"cells above {MOST_CLAIMS:.1%}, carried out again", repeated, 0, len(shares) // 10),
        Claim("largest share of false claims in these", max(fresh), 0.0, MOST_FRESH_CLAIMS),
    ]


def power_of(sizes: tuple[int, int], difference: float) -> tuple[float, float]:
    """Return the power of the comparison and of Fisher's test for independent groups, by enumeration."""
    first, second = sizes
    of_first = scipy_stats.binom.pmf(np.arange(first + 1), first, LOWER_RATE)
    of_second = scipy_stats.binom.pmf(np.arange(second + 1), second, LOWER_RATE + difference)
    own, fisher = 0.0, 0.0
    for a in range(first + 1):
        for b in range(second + 1):
            chance = float(of_first[a] * of_second[b])
            own += chance * is_claim(INDEPENDENT, (a, b), sizes)
            fisher += chance * (scipy_stats.fisher_exact([[a, first - a], [b, second - b]])[1] <= 1 - LEVEL)
    return own, fisher


def power_of_pairs(pairs: int, difference: float) -> tuple[float, float]:
    """Return the power of the comparison and of McNemar's exact test for matched pairs, by enumeration."""
    only_first = LOWER_RATE * (1 - LOWER_RATE - difference)
    only_second = (1 - LOWER_RATE) * (LOWER_RATE + difference)
    own, mcnemar = 0.0, 0.0
    for a in range(pairs + 1):
        for b in range(pairs + 1 - a):
            rest = pairs - a - b
            chances = [only_first, only_second, 1 - only_first - only_second]
            chance = float(scipy_stats.multinomial.pmf([a, b, rest], pairs, chances))
            own += chance * is_claim(MATCHED, (rest, a, b, 0), (pairs, pairs))
            p = scipy_stats.binomtest(a, a + b).pvalue if a + b else 1.0
            mcnemar += chance * (p <= 1 - LEVEL)
    return own, mcnemar


def power_claims() -> list[Claim]:
    """Return the power at each difference, minus that of the exact test of the textbook."""
    claims = []
    for difference in DIFFERENCES:
        for sizes in POWER_SIZES:
            own, fisher = power_of(sizes, difference)
            place = f"{sizes[0]} and {sizes[1]} items, {difference:.0%} apart"
            claims += _compared_power(place, own, fisher, "Fisher's test")
        own, mcnemar = power_of_pairs(PAIRS, difference)
        claims += _compared_power(f"{PAIRS} pairs, {difference:.0%} apart", own, mcnemar, "McNemar's test")
    return claims


def _compared_power(place: str, own: float, other: float, test: str) -> list[Claim]:
    """Return the power, and how much of that of another test it has lost or gained."""
    return [
        Claim(f"{place}: power", own, 0.0, 1.0),
        Claim(f"{place}: power minus that of {test}", own - other, -LOST_POWER, 1.0),
    ]


def carry_out(case: str, studies: int = STUDIES) -> list[Claim]:
    """Return the claims of one case."""
    if case == POWER:
        return power_claims()
    groups, kind, _ = case.split()
    return false_claims(int(groups), kind, studies)
