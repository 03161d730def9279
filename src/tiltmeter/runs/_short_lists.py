"""Lists in sentences: the first entries, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MOST_NAMED: Final = 5
"""Number of entries that a sentence names."""


def first_of(names: Sequence[str]) -> str:
    """Return a list in a sentence: its first MOST_NAMED entries, and the number of others.

    Examples
    --------
    >>> first_of(["gest", "direct"])
    'gest, direct'
    >>> first_of(["a", "b", "c", "d", "e", "f", "g"])
    'a, b, c, d, e and 2 more'
    """
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
