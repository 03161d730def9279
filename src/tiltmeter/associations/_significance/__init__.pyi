from .discovery import compare_counts, find_associations
from .robust import FEWEST_NAMES, speaks_of_names
from .shuffling import permutation_p, shuffled_counts

__all__ = [
    "FEWEST_NAMES",
    "compare_counts",
    "find_associations",
    "permutation_p",
    "shuffled_counts",
    "speaks_of_names",
]
