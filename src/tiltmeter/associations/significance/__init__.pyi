from .discovery import (
    compare_counts,
    find_associations,
    permutation_p,
    shuffled_counts,
)
from .robust import FEWEST_NAMES, speaks_of_names

__all__ = [
    "FEWEST_NAMES",
    "compare_counts",
    "find_associations",
    "permutation_p",
    "shuffled_counts",
    "speaks_of_names",
]
