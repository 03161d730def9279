"""Impact ratios of groups with known selection rates: intervals, and answers to the four-fifths rule.

Decisions are binomial draws. The reference is the last group, or the group with the highest rate, which the
analysis does not know. The groups have 20 to 2,000 members, equal or not, and rates from .05 to .9. Among the
patterns of rates are ratios just at and just under four fifths, where a wrong answer is most likely.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from perf.studies.study import Claim
from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.stats._impact_ratios import FOUR_FIFTHS, highest_ratio_interval, ratio_interval

QUESTION: Final = (
    "Do intervals of impact ratios contain the true ratio, and how often is a four-fifths answer wrong?"
)
CODE: Final = ("stats", "_arrays")
STUDIES: Final = 2_000
FRESH_STUDIES: Final = 20_000
LEVEL: Final = 0.95
LEAST_COVERED: Final = 0.93
MOST_WRONG: Final = 0.05
SIZES: Final = (20, 50, 200, 2_000)
UNEQUAL: Final = (2_000, 20, 200, 50, 500, 20)
RATES: Final = (0.05, 0.2, 0.5, 0.9)
GROUPS: Final = (2, 3, 4, 5, 6)
FIXED: Final = "reference fixed"
HIGHEST: Final = "highest rate"
CASES: Final = tuple(f"{count} groups, {kind}" for count in GROUPS for kind in (FIXED, HIGHEST))


class Cell(NamedTuple):
    """The number of members and the true rate of each group; the last group is the fixed reference."""

    sizes: Index
    rates: Floats


class Shares(NamedTuple):
    """How often the interval of the worst group contains its ratio, and how often its answer is wrong."""

    covered: float
    wrong_yes: float
    wrong_no: float


def cells_of(groups: int) -> Iterator[Cell]:
    """Yield the cells of a number of groups."""
    sizes = [np.full(groups, size) for size in SIZES] + [np.array(UNEQUAL[:groups])]
    for of_groups in sizes:
        for rate in RATES:
            yield Cell(of_groups, np.full(groups, rate))
            for ratio in (FOUR_FIFTHS, FOUR_FIFTHS - 0.01, 0.5):
                others = np.full(groups, rate)
                others[0] *= ratio
                yield Cell(of_groups, others)
        yield Cell(of_groups, np.linspace(0.05, 0.9, groups))
        yield Cell(of_groups, np.linspace(0.9, 0.05, groups))


def shares_of(kind: str, cell: Cell, studies: int, generator: np.random.Generator) -> Shares:
    """Return the shares of one cell, of the group with the worst share each."""
    selected = generator.binomial(cell.sizes, cell.rates, size=(studies, len(cell.sizes)))
    totals = np.broadcast_to(cell.sizes, selected.shape)
    if kind == HIGHEST:
        low, high = highest_ratio_interval(selected, totals, LEVEL)
        ratios = cell.rates / cell.rates.max()
    else:
        reference = selected[:, -1:], totals[:, -1:]
        low, high = ratio_interval(selected[:, :-1], totals[:, :-1], *reference, LEVEL)
        ratios = cell.rates[:-1] / cell.rates[-1]
    rounding = 1e-9
    is_covered: Booleans = (low <= ratios + rounding) & (ratios <= high + rounding)
    meets_rule = ratios >= FOUR_FIFTHS - rounding
    wrong_yes = (low >= FOUR_FIFTHS) & ~meets_rule
    wrong_no = (high < FOUR_FIFTHS) & meets_rule
    return Shares(
        covered=float(is_covered.mean(axis=0).min()),
        wrong_yes=float(wrong_yes.mean(axis=0).max()),
        wrong_no=float(wrong_no.mean(axis=0).max()),
    )


def carry_out(case: str, studies: int = STUDIES) -> list[Claim]:
    """Return the claims of one case; cells below the least coverage are carried out again."""
    count, kind = case.split(" groups, ")
    generator = np.random.default_rng([51, int(count), len(kind)])
    shares, fresh = [], [Shares(1.0, 0.0, 0.0)]
    for cell in cells_of(int(count)):
        of_cell = shares_of(kind, cell, studies, generator)
        shares.append(of_cell)
        if of_cell.covered < LEAST_COVERED:
            fresh.append(shares_of(kind, cell, FRESH_STUDIES, generator))
    low = min(share.covered for share in shares)
    return [
        Claim(f"smallest coverage in {len(shares)} cells", low, LEAST_COVERED - 0.02, 1.0),
        Claim(f"cells below {LEAST_COVERED:.0%}, carried out again", len(fresh) - 1, 0, len(shares) // 10),
        Claim("smallest coverage in these", min(share.covered for share in fresh), LEAST_COVERED, 1.0),
        Claim("largest share of wrong yes", max(share.wrong_yes for share in shares), 0.0, MOST_WRONG),
        Claim("largest share of wrong no", max(share.wrong_no for share in shares), 0.0, MOST_WRONG),
    ]
