"""How frequent a concept must be in a group to be found, given the numbers of texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tiltmeter.associations._significance.counts import LEVEL
from tiltmeter.stats import detectable_share

BASE: Final = 0.1
"""Share of the others' descriptions that contain the concept of the example."""
USUAL_CONCEPTS: Final = 1_000
"""Assumed number of tested concepts, before it is known."""
LARGE: Final = 0.5
"""Share of the smallest group from which a design is called too small."""
MANY_GROUPS: Final = 100
"""Number of groups from which tests take minutes and much memory."""


def warnings_about(sizes: Sequence[int]) -> list[str]:
    """Return sentences about groups that are too small or too many, before any test.

    Parameters
    ----------
    sizes
        Number of descriptions of each group.
    """
    sentences = []
    comparisons = USUAL_CONCEPTS * len(sizes)
    if len(sizes) > 1 and smallest_share(sizes, comparisons) >= LARGE:
        could_be_found = what_could_be_found(sizes, comparisons)
        sentences.append(f"if {USUAL_CONCEPTS:,} concepts are tested, {could_be_found}")
    if len(sizes) >= MANY_GROUPS:
        sentences.append(
            f"{len(sizes):,} groups: every concept is compared as many times, which can take minutes and"
            " several GiB of memory; -P minimum=20 tests only concepts in at least 20 descriptions"
        )
    return sentences


def what_could_be_found(sizes: Sequence[int], comparisons: int) -> str:
    """Return a sentence with the share of the smallest group from which a concept is likely to be found.

    Parameters
    ----------
    sizes
        Number of descriptions of each group.
    comparisons
        Number of comparisons of a concept and a group that are tested.
    """
    size = min(sizes)
    share = smallest_share(sizes, comparisons)
    of_others = f"a concept in {100 * BASE:g}% of the others' descriptions"
    if math.isinf(share):
        return f"{of_others} cannot be found in the smallest group, which has {size:,}"
    return (
        f"{of_others} is found (with a probability of 80%) only if at least {100 * share:.0f}% of the"
        f" {size:,} descriptions of the smallest group contain it"
    )


def smallest_share(sizes: Sequence[int], comparisons: int) -> float:
    """Return the share of the smallest group from which a concept is found with a probability of 80%.

    The concept is the only association, so that its q-value is its p-value times the number of comparisons
    (see `hierarchical_q`). Infinity if no share suffices.

    Parameters
    ----------
    sizes, comparisons
        As for `what_could_be_found`.
    """
    size = min(sizes)
    level = 1 - LEVEL / comparisons
    return detectable_share(size, sum(sizes) - size, BASE, level)
