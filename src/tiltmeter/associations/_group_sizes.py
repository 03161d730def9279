"""What the numbers of groups and descriptions allow: which designs are too large, and what can be found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tiltmeter.associations._significance.counts import LEVEL
from tiltmeter.errors import InputError
from tiltmeter.stats import detectable_share

BASE: Final = 0.1
"""Share of the others' descriptions that contain the concept of the example."""
USUAL_CONCEPTS: Final = 1_000
"""Assumed number of tested concepts, before it is known."""
LARGE: Final = 0.5
"""Share of the smallest group from which a design is called too small."""
MANY_GROUPS: Final = 100
"""Number of groups from which tests take minutes and much memory."""
MOST_PAIRS: Final = 2_000
"""Maximum number of ordered pairs of groups that are compared with each other."""
MOST_COMPARISONS: Final = 10_000_000
"""Maximum number of comparisons of a concept and a group; each takes about 1 KiB of memory."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of descriptions of the groups of a study, and how they are compared.

    Parameters
    ----------
    of_groups
        Number of descriptions of each group, at least two groups.
    against, reference
        As for `comparisons_of`.
    independent
        Whether descriptions are independent: no names, stories or authors in common.
    paired
        Whether descriptions are compared within pairs, so that the share depends on how alike these are.
    """

    of_groups: Mapping[str, int]
    against: str = "rest"
    reference: str | None = None
    independent: bool = True
    paired: bool = False

    @property
    def comparisons_of_concept(self) -> int:
        """Number of comparisons of each concept, in one context."""
        groups = len(self.of_groups)
        if self.reference is not None:
            return 2 * (groups - 1)
        return groups if self.against == "rest" else groups * (groups - 1)

    @property
    def smallest(self) -> int:
        """Number of descriptions of the smallest group, other than the reference."""
        return min(size for group, size in self.of_groups.items() if group != self.reference)

    @property
    def others(self) -> int:
        """Number of descriptions with which those of the smallest group are compared."""
        if self.reference is not None:
            return self.of_groups[self.reference]
        ordered = sorted(self.of_groups.values())
        return sum(ordered[1:]) if self.against == "rest" else ordered[1]

    @property
    def name_of_others(self) -> str:
        """What the smallest group is compared with, in words."""
        if self.reference is not None:
            return f"those of {self.reference}"
        return "the others' descriptions" if self.against == "rest" else "those of another group"


def refuse_pairs(sizes: Sizes) -> None:
    """Raise InputError if too many groups are compared with each other."""
    is_each = sizes.against == "each" and sizes.reference is None
    pairs = sizes.comparisons_of_concept
    if is_each and pairs > MOST_PAIRS:
        raise InputError(
            f"--against each: {len(sizes.of_groups):,} groups have {pairs:,} ordered pairs, and at most"
            f" {MOST_PAIRS:,} are compared; give --against rest or --reference GROUP"
        )


def refuse_comparisons(tests: int, sizes: Sizes, minimum: int | None) -> None:
    """Raise InputError if the comparisons do not fit into memory.

    Parameters
    ----------
    tests
        Number of concepts that are tested, once for each location.
    sizes
        The groups.
    minimum
        Minimum number of descriptions with a concept for it to be tested; None: all are tested.
    """
    comparisons = tests * sizes.comparisons_of_concept
    if comparisons <= MOST_COMPARISONS:
        return
    remedy = "name a column with fewer groups"
    if minimum is not None:
        remedy = f"give -P minimum={10 * minimum} to test frequent concepts only, or {remedy}"
    raise InputError(
        f"{tests:,} concepts, by location, and {len(sizes.of_groups):,} groups give {comparisons:,}"
        f" comparisons, more than {MOST_COMPARISONS:,}; {remedy}"
    )


def warnings_about(sizes: Sizes, minimum: int) -> list[str]:
    """Return sentences about groups that are too small or too many, before any test.

    Parameters
    ----------
    sizes
        The groups.
    minimum
        Minimum number of descriptions with a concept for it to be tested.
    """
    sentences = []
    comparisons = USUAL_CONCEPTS * sizes.comparisons_of_concept
    if not sizes.paired and smallest_share(sizes, comparisons) >= LARGE:
        could_be_found = what_could_be_found(sizes, comparisons)
        sentences.append(f"if {USUAL_CONCEPTS:,} concepts are tested, {could_be_found}")
    groups = len(sizes.of_groups)
    if groups >= MANY_GROUPS:
        higher = max(20, 4 * minimum)
        sentences.append(
            f"{groups:,} groups: every concept is compared {sizes.comparisons_of_concept:,} times, which can"
            f" take minutes and several GiB of memory; -P minimum={higher} tests only concepts in at least"
            f" {higher} descriptions"
        )
    return sentences


def what_could_be_found(sizes: Sizes, comparisons: int) -> str:
    """Return a sentence with the share of the smallest group from which a concept is likely to be found.

    Parameters
    ----------
    sizes
        The groups.
    comparisons
        Number of comparisons of concepts and groups that are tested.
    """
    share = smallest_share(sizes, comparisons)
    condition = "" if sizes.independent else "even if all descriptions were independent, "
    concept = f"{condition}a concept in {100 * BASE:g}% of {sizes.name_of_others}"
    if math.isinf(share):
        return f"{concept} cannot be found in the smallest group, which has {sizes.smallest:,}"
    return (
        f"{concept} is found (with a probability of 80%) only if at least {100 * share:.0f}% of the"
        f" {sizes.smallest:,} descriptions of the smallest group contain it"
    )


def smallest_share(sizes: Sizes, comparisons: int) -> float:
    """Return the share of the smallest group from which a concept is found with a probability of 80%.

    The concept is the only association, so that its q-value is its p-value times the number of comparisons
    (see `hierarchical_q`). Infinity if no share suffices.

    Parameters
    ----------
    sizes, comparisons
        As for `what_could_be_found`.
    """
    return detectable_share(sizes.smallest, sizes.others, BASE, 1 - LEVEL / comparisons)
