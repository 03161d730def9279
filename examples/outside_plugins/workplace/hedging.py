"""A feature: how much a text hedges. Letters of reference that hedge are read as weaker praise."""

from __future__ import annotations

import re

__all__ = ["hedging"]

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
HEDGES = frozenset(
    (
        "arguably",
        "could",
        "likely",
        "may",
        "maybe",
        "might",
        "perhaps",
        "possibly",
        "probably",
        "quite",
        "rather",
        "seems",
    )
)


def hedging(text: str) -> float | None:
    """Hedging words per hundred words of English text; None where there are no words."""
    words = _WORD.findall(text.lower())
    return 100 * sum(word in HEDGES for word in words) / len(words) if words else None
